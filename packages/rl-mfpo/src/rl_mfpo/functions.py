"""Functions of one variable that are unimodal on their interval, with their minimisers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A function, its interval, and where its least value lies (exactly, by calculus)."""

    function: Callable[[float], float]
    low: float
    high: float
    minimiser: float


def parabola(x: float) -> float:
    """Return (x - 0.3)^2."""
    return (x - 0.3) ** 2


def kink(x: float) -> float:
    """Return abs(x - 1/3): not differentiable at its minimiser."""
    return abs(x - 1 / 3)


def entropy(x: float) -> float:
    """Return x log x, least at 1/e."""
    return x * math.log(x)


def tilted(x: float) -> float:
    """Return exp(x) - 2 x, least at log 2."""
    return math.exp(x) - 2 * x


PROBLEMS = {
    "entropy": Problem(entropy, 0.1, 1.1, math.exp(-1)),
    "kink": Problem(kink, 0.0, 1.0, 1 / 3),
    "parabola": Problem(parabola, 0.0, 1.0, 0.3),
    "tilted": Problem(tilted, -1.0, 2.0, math.log(2)),
}
