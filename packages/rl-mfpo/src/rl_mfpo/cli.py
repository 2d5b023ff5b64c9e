"""The command line."""

from __future__ import annotations

from lemmata_core.cli import app

main = app("rl-mfpo", "Mean flow policies for continuous control.")
