"""The paper's claims as code."""

from __future__ import annotations

from lemmata_core import Claim

CLAIMS: tuple[Claim, ...] = ()
