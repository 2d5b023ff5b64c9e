"""What the claims share: magnitudes, seeds, and sweeps that survive an interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import Context

from icl_theory.sweep import run_cells

OUTLIERS_PAPER = "arXiv 2510.00399"
BAYES_PAPER = "arXiv 2510.10981"
KAPPA, L = 2.0, 0.3
WIDE = KAPPA / L  # kappa_a / L: from there on every test outlier is gated as strongly as a training one


def sweep(ctx: Context, function: Any, cells: list[dict[str, Any]], label: str) -> list[dict[str, Any]]:
    """Run cells on the claim's executor; finished ones survive an interruption."""
    done = run_cells(function, cells, executor=ctx.executor, store=ctx.workdir, progress=ctx.progress, label=label)
    if done.status != "finished":
        raise KeyboardInterrupt
    return [result for result in done.results if result is not None]


def seed_of(ctx: Context) -> int:
    """A seed for the claim's cells."""
    return int(ctx.rng.integers(1 << 31))


class UniformInputs:
    """Inputs uniform on [low, high]."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, rng: np.random.Generator, n: int, length: int) -> Any:
        """Draw (n, length, 1)."""
        return rng.uniform(self.low, self.high, (n, length, 1))
