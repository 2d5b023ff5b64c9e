"""Filling knapsacks: utilities from the duals of the linear relaxation, swaps, and repeated partial refills."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROUNDS = 3000


def improve_packing(
    values: Floats,
    weights: Floats,
    capacities: Floats,
    start: NDArray[np.bool_],
    rng: Any = 0,
    time_limit: float | None = None,
) -> NDArray[np.bool_]:
    """A selection that fits and is worth at least as much as `start` (which must fit).

    Parameters
    ----------
    values : ndarray of shape (n,)
    weights : ndarray of shape (d, n)
    capacities : ndarray of shape (d,)
    start : ndarray of bool of shape (n,)
    rng : Generator, int or None
    time_limit : float, optional
        Seconds; without it 3000 rounds.

    Returns
    -------
    ndarray of bool of shape (n,)
    """
    from qubo_relax.improve.knapsack_kernel import refill_rounds

    if values.size == 0:
        return start.copy()
    state = np.array([rngs.generator(rng).integers(1, 2**63)], dtype=np.uint64)
    utility = values / np.maximum(duals(values, weights, capacities) @ weights, 1e-300 + 1e-12 * np.abs(values))
    x = start.astype(np.bool_)
    best = x.copy()
    W = np.ascontiguousarray(weights.T)
    room = capacities * (1 + 1e-12)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    left = ROUNDS
    while left > 0 and time.monotonic() < deadline:
        part = min(left, 500)
        refill_rounds(values, W, room, utility, x, best, state, part)
        left -= part
    better = values[best].sum() > values[start].sum()
    fits = bool((weights[:, best].sum(axis=1) <= capacities * (1 + 1e-12)).all())
    return best if better and fits else start.copy()


def duals(values: Floats, weights: Floats, capacities: Floats) -> Floats:
    """The row prices of the linear relaxation, none below a trace of its share so that utilities stay finite."""
    from scipy.optimize import linprog

    answer = linprog(-values, A_ub=weights, b_ub=capacities, bounds=(0, 1), method="highs")
    floor = 1e-9 * float(np.max(np.abs(values), initial=1.0)) / capacities
    if answer.status != 0:
        return np.asarray(floor)
    return np.asarray(np.maximum(-answer.ineqlin.marginals, floor))
