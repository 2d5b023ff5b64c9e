"""Plain local searches: independent sets, facilities, covers, assignments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

ROUNDS = 200


def improve_independent(
    weight: Floats, pairs: sparse.csr_array, start: Mask, rng: Any = 0, time_limit: float | None = None
) -> Mask:
    """An independent set at least as heavy: one vertex enters for its neighbours in the set; random kicks."""
    g = rngs.generator(rng)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    best = _exchange(weight, pairs, start.copy())
    x = best.copy()
    n = weight.size
    for _ in range(ROUNDS if n else 0):
        if time.monotonic() >= deadline:
            break
        y = x.copy()
        for v in g.integers(0, n, 1 + n // 50):
            y[pairs.indices[pairs.indptr[v] : pairs.indptr[v + 1]]] = False
            y[v] = weight[v] > 0
        y = _exchange(weight, pairs, y)
        if weight[y].sum() >= weight[x].sum():
            x = y
            if weight[x].sum() > weight[best].sum():
                best = x.copy()
    return best


def _exchange(weight: Floats, pairs: sparse.csr_array, x: Mask) -> Mask:
    while True:
        gain = np.where(x, -weight, weight - pairs @ np.where(x, weight, 0.0))
        v = int(np.argmax(gain)) if gain.size else 0
        if not gain.size or gain[v] <= 1e-12 * max(1.0, float(np.abs(weight).max())):
            return x
        if x[v]:
            x[v] = False
            continue
        x[pairs.indices[pairs.indptr[v] : pairs.indptr[v + 1]]] = False
        x[v] = True


def improve_facilities(cost: Floats, opening: Floats, opened: Mask) -> Mask:
    """Facilities to open, by opening, closing and exchanging single ones while the total cost falls; never none."""

    def total(s: Mask) -> float:
        return float(opening[s].sum() + cost[:, s].min(axis=1).sum()) if s.any() else np.inf

    s, value = opened.copy(), total(opened)
    improved = True
    while improved:
        improved = False
        moves: list[tuple[int, ...]] = [(j,) for j in range(opening.size)]
        moves += (
            [(int(i), int(j)) for i in np.flatnonzero(s) for j in np.flatnonzero(~s)] if opening.size <= 200 else []
        )
        for move in moves:
            t = s.copy()
            t[list(move)] ^= True
            new = total(t)
            if new < value - 1e-9 * max(1.0, abs(value)):
                s, value, improved = t, new, True
                break
    return s


def improve_cover(members: sparse.csr_array, cost: Floats, chosen: Mask, rng: Any = 0) -> Mask:
    """A cheaper cover: drop what is not needed, the dearest first; then take sets out and cover greedily again."""
    g = rngs.generator(rng)
    best = _prune(members, cost, chosen.copy())
    for _ in range(ROUNDS if cost.size else 0):
        t = best & (g.random(cost.size) > 0.2)
        covered = members.T @ t.astype(np.float64) > 0
        while not covered.all():
            new = members @ (~covered).astype(np.float64)
            rate = np.where(new > 0, np.maximum(cost, 1e-12) / np.maximum(new, 1e-12), np.inf)
            s = int(np.argmin(rate * (1 + 0.1 * g.random(cost.size))))
            t[s] = True
            covered |= members[[s]].toarray()[0] > 0
        t = _prune(members, cost, t)
        if cost[t].sum() <= cost[best].sum():
            best = t
    return best if cost[best].sum() <= cost[chosen].sum() else chosen


def _prune(members: sparse.csr_array, cost: Floats, t: Mask) -> Mask:
    times = members.T @ t.astype(np.float64)
    for s in np.argsort(-cost, kind="stable"):
        own = members.indices[members.indptr[s] : members.indptr[s + 1]]
        if t[s] and cost[s] >= 0 and (times[own] >= 2).all():
            t[s] = False
            times[own] -= 1
    return t


def improve_permutation(
    flow: Floats, distance: Floats, linear: Floats, p: Ints, rng: Any = 0, time_limit: float | None = None
) -> Ints:
    """Exchange two locations while that lowers the quadratic assignment cost, from `p` and a few disturbed copies."""
    g = rngs.generator(rng)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    best = _exchanges(flow, distance, linear, p.copy(), deadline)
    value = assignment_cost(flow, distance, linear, best)
    for _ in range(20 if p.size > 3 else 0):
        if time.monotonic() >= deadline:
            break
        q = best.copy()
        pick = g.choice(p.size, min(p.size, 4), replace=False)
        q[pick] = q[np.roll(pick, 1)]
        q = _exchanges(flow, distance, linear, q, deadline)
        new = assignment_cost(flow, distance, linear, q)
        if new < value:
            best, value = q, new
    return best


def assignment_cost(flow: Floats, distance: Floats, linear: Floats, p: Ints) -> float:
    """``sum F_ij D_{p(i) p(j)} + sum L_{i p(i)}``."""
    return float((flow * distance[np.ix_(p, p)]).sum() + linear[np.arange(p.size), p].sum())


def _exchanges(flow: Floats, distance: Floats, linear: Floats, p: Ints, deadline: float) -> Ints:
    value = assignment_cost(flow, distance, linear, p)
    improved = True
    while improved and time.monotonic() < deadline:
        improved = False
        for i in range(p.size):
            for j in range(i + 1, p.size):
                p[i], p[j] = p[j], p[i]
                new = assignment_cost(flow, distance, linear, p)
                if new < value - 1e-9 * max(1.0, abs(value)):
                    value, improved = new, True
                else:
                    p[i], p[j] = p[j], p[i]
    return p
