"""The papers' claims as code: what to run, and the rule that accepts."""

from __future__ import annotations

from lemmata_core import Claim

from icl_theory._claims_bayes import CLAIMS_B
from icl_theory._claims_outliers import CLAIMS_A

CLAIMS: tuple[Claim, ...] = (*CLAIMS_A, *CLAIMS_B)
