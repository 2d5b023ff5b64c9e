"""Filling knapsacks: utilities from the duals of the linear relaxation, swaps, and repeated partial refills."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PASSES = 20
ROUNDS = 1000
FEWER_ABOVE = 250
"""Open items from which a pass has fewer rounds, in proportion."""

HOT, COLD = 0.1, 0.02
"""Temperatures of a pass, in mean values of the items still open."""


def improve_packing(
    values: Floats,
    weights: Floats,
    capacities: Floats,
    start: NDArray[np.bool_],
    rng: Any = 0,
    time_limit: float | None = None,
) -> NDArray[np.bool_]:
    """A selection that fits and is worth at least as much as `start` (which must fit).

    Twenty passes of 1000 rounds, from the best selection and from nothing in turn; before each, items whose reduced
    cost in the linear relaxation exceeds its gap to the best selection are fixed (a better selection has them where the
    relaxation has them): what is left is the core.

    Parameters
    ----------
    values : ndarray of shape (n,)
    weights : ndarray of shape (d, n)
    capacities : ndarray of shape (d,)
    start : ndarray of bool of shape (n,)
    rng : Generator, int or None
    time_limit : float, optional
        Seconds; looked at ten times a pass.

    Returns
    -------
    ndarray of bool of shape (n,)
    """
    if values.size == 0:
        return start.copy()
    state = np.array([rngs.generator(rng).integers(1, 2**63)], dtype=np.uint64)
    prices = duals(values, weights, capacities)
    reduced = values - prices @ weights
    # A bound for any prices, also where the linear program did not end well.
    bound = float(prices @ capacities + np.maximum(reduced, 0).sum())
    best = start.astype(np.bool_)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    for turn in range(PASSES):
        gap = bound - values[best].sum()
        open_ = np.abs(reduced) <= gap + 1e-9 * abs(bound)
        fixed = ~open_ & (reduced > 0)
        if not open_.any() or time.monotonic() >= deadline:
            break
        left = capacities * (1 + 1e-12) - weights[:, fixed].sum(axis=1)
        # Never quite 0: the rounds divide by it.
        room = np.where(left < 0, left, np.maximum(left, 1e-13 * capacities))
        found = fixed
        begin = best if turn % 2 == 0 else np.zeros_like(best)
        found[open_] = _core(values, weights, room, prices, begin, open_, state, deadline)
        fits = bool((weights[:, found].sum(axis=1) <= capacities * (1 + 1e-12)).all())
        if fits and values[found].sum() > values[best].sum():
            best = found
    return best


def _core(
    values: Floats,
    weights: Floats,
    room: Floats,
    prices: Floats,
    begin: NDArray[np.bool_],
    open_: NDArray[np.bool_],
    state: NDArray[np.uint64],
    deadline: float,
) -> NDArray[np.bool_]:
    """One pass over the open items in the room that the fixed ones leave."""
    from qubo_relax.improve.knapsack_kernel import refill_rounds

    v, W = values[open_], np.ascontiguousarray(weights[:, open_].T)
    x = begin[open_]
    if (room < 0).any() or (W[x].sum(axis=0) > room).any():
        # It has other items in place of the fixed ones.
        x[:] = False
    top = x.copy()
    size = float(np.mean(np.abs(v))) or 1.0
    parts = 10
    rounds = max(1, int(ROUNDS / parts * min(1.0, FEWER_ABOVE / v.size)))
    cool = HOT * (COLD / HOT) ** (np.arange(parts + 1) / parts) * size
    for hot, cold in pairwise(cool):
        refill_rounds(v, W, room, prices, x, top, state, rounds, hot, cold)
        if time.monotonic() >= deadline:
            break
    return top


def duals(values: Floats, weights: Floats, capacities: Floats) -> Floats:
    """The row prices of the linear relaxation, none below a trace of its share so that utilities stay finite."""
    from scipy.optimize import linprog

    answer = linprog(-values, A_ub=weights, b_ub=capacities, bounds=(0, 1), method="highs")
    floor = 1e-9 * float(np.max(np.abs(values), initial=1.0)) / capacities
    if answer.status != 0:
        return np.asarray(floor)
    return np.asarray(np.maximum(-answer.ineqlin.marginals, floor))
