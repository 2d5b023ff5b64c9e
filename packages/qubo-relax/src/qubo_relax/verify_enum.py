"""Verification by visiting every vertex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qubo_relax.qubo import minimum_threshold
from qubo_relax.vertices import vertices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qubo_relax.constraints import Rows
    from qubo_relax.qubo import Qubo


@dataclass(frozen=True)
class Enumeration:
    """What all vertices say.

    Attributes
    ----------
    margin : float
        ``min over infeasible v of max_i -D_i(v)``; ``inf`` when every vertex is feasible.
    counterexample : ndarray of int8 of shape (n,) or None
        The infeasible local minimizer of lowest energy.
    minima, infeasible_minima, vertices : int
    """

    margin: float
    counterexample: NDArray[np.int8] | None
    minima: int
    infeasible_minima: int
    vertices: int


def enumerate_vertices(qubo: Qubo, rows: Rows) -> Enumeration:
    """Visit the ``2^n`` vertices of a folded quadratic; the margin is exact up to rounding."""
    dense = qubo.quadratic.toarray()
    threshold = minimum_threshold(qubo)
    margin, bad, lowest = np.inf, None, np.inf
    minima = infeasible_minima = 0
    for X in vertices(qubo.n):
        P = X.astype(np.float64)
        gains = (1 - 2 * P) * (qubo.linear + P @ dense)
        least = gains.min(axis=1) if qubo.n else np.full(len(X), np.inf)
        minimum = least > threshold
        infeasible = ~rows.feasible(X)
        minima += int(minimum.sum())
        wrong = np.flatnonzero(minimum & infeasible)
        infeasible_minima += wrong.size
        if infeasible.any():
            margin = min(margin, float(np.min(-least[infeasible])))
        if wrong.size:
            energy = qubo.energy(X[wrong])
            k = int(np.argmin(energy))
            if energy[k] < lowest:
                lowest, bad = float(energy[k]), X[wrong[k]].copy()
    return Enumeration(margin, bad, minima, infeasible_minima, 1 << qubo.n)
