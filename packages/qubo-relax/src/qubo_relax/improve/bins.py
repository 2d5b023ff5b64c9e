"""Plain local searches for items in bins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ROUNDS = 100


def first_fit(weights: Floats, capacity: float) -> Ints:
    """First-fit decreasing: the bin of each item."""
    room: list[float] = []
    where = np.full(weights.size, -1)
    slack = capacity * 1e-12
    for i in np.argsort(-weights, kind="stable"):
        b = next((k for k, r in enumerate(room) if weights[i] <= r + slack), len(room))
        if b == len(room):
            room.append(capacity)
        room[b] -= float(weights[i])
        where[i] = b
    return where


def improve_bins(weights: Floats, capacity: float, bins: int, where: Ints) -> Ints:
    """Fewer bins: empty each, lightest first, into the others where everything fits; then place what is out."""
    fresh = first_fit(weights, capacity)
    if fresh.max(initial=-1) < bins and np.unique(fresh).size <= np.unique(where[where >= 0]).size + (where < 0).sum():
        where = fresh
    s = where.copy()
    load = np.zeros(bins)
    np.add.at(load, s[s >= 0], weights[s >= 0])
    limit = capacity * (1 + 1e-12)
    for b in np.argsort(load, kind="stable"):
        t, filled = s.copy(), load.copy()
        items = np.flatnonzero(s == b)
        others = np.flatnonzero((load > 0) & (np.arange(bins) != b))
        for i in items[np.argsort(-weights[items], kind="stable")]:
            home = next((c for c in others[np.argsort(-filled[others])] if filled[c] + weights[i] <= limit), None)
            if home is None:
                break
            t[i] = home
            filled[home] += weights[i]
            filled[b] -= weights[i]
        else:
            s, load = t, filled
            load[b] = 0.0
    for i in np.flatnonzero(s < 0):
        order = np.argsort(-load, kind="stable")
        home = next((c for c in order if load[c] + weights[i] <= limit), None)
        if home is not None:
            s[i] = home
            load[home] += weights[i]
    return s


def improve_gap(
    profit: Floats, weights: Floats, capacities: Floats, where: Ints, rng: Any = 0, time_limit: float | None = None
) -> Ints:
    """More profit: insert, move and exchange items while that gains; then from copies with some items taken out."""
    g = rngs.generator(rng)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    best = _ascend(profit, weights, capacities, where.copy())
    for _ in range(ROUNDS if where.size else 0):
        if time.monotonic() >= deadline:
            break
        s = np.where(g.random(where.size) < 0.2, -1, best)
        s = _ascend(profit * (1 + 0.1 * g.standard_normal(profit.shape)), weights, capacities, s)
        s = _ascend(profit, weights, capacities, s)
        if _worth(profit, s) > _worth(profit, best):
            best = s
    return best


def _worth(profit: Floats, s: Ints) -> float:
    inside = np.flatnonzero(s >= 0)
    return float(profit[inside, s[inside]].sum())


def _ascend(profit: Floats, weights: Floats, capacities: Floats, s: Ints) -> Ints:
    n, m = profit.shape
    items, limit = np.arange(n), capacities * (1 + 1e-12)
    while True:
        inside = s >= 0
        load = np.zeros(m)
        np.add.at(load, s[inside], weights[inside, s[inside]])
        now = np.where(inside, profit[items, s], 0.0)
        gain = profit - now[:, None]
        gain[load + weights > limit] = -np.inf
        gain[items[inside], s[inside]] = -np.inf
        if gain.size and gain.max() > 1e-9:
            i, b = np.unravel_index(int(np.argmax(gain)), gain.shape)
            s[i] = b
            continue
        move = _swap(profit, weights, limit, s, load)
        if move is None:
            return s
        s[list(move)] = s[[move[1], move[0]]]


def _swap(profit: Floats, weights: Floats, limit: Floats, s: Ints, load: Floats) -> tuple[int, int] | None:
    for i in np.flatnonzero(s >= 0):
        b = s[i]
        others = np.flatnonzero(s != b)
        c = s[others]
        out = c < 0
        there = np.where(out, 0.0, profit[i, c])
        before = np.where(out, 0.0, profit[others, c])
        gain = there + profit[others, b] - profit[i, b] - before
        fits = load[b] - weights[i, b] + weights[others, b] <= limit[b]
        fits &= out | (load[c] - weights[others, c] + weights[i, c] <= limit[c])
        gain[~fits] = -np.inf
        if gain.size and gain.max() > 1e-9:
            return int(i), int(others[int(np.argmax(gain))])
    return None
