"""Pits with capacity rows: Lagrangian bound, repair of the pits met on the way, iterated repair."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

from qubo_relax.exact import max_closure
from qubo_relax.improve.pits import Cones

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qubo_relax.problems.pit import OpenPit

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

SUBGRADIENT_STEPS = 40


def lagrangian(value: Floats, arcs: Ints, weights: Floats, capacity: Floats) -> tuple[float, Floats, list[Mask]]:
    """The best bound ``min over lam >= 0 of lam.b + max closure of v - lam a``, its multipliers, and the pits met.

    One row: the lines of the two bracketing pits are intersected until no pit lies above (a few flows). Several rows:
    40 subgradient steps.
    """
    if len(weights) == 1:
        return _one_row(value, arcs, weights[0], float(capacity[0]))
    pits: list[Mask] = []
    lam, best, kept = np.zeros(len(weights)), np.inf, np.zeros(len(weights))
    scale = np.maximum(weights.sum(axis=1), np.maximum(capacity, 1e-12))
    for k in range(SUBGRADIENT_STEPS):
        x = max_closure(value - lam @ weights, arcs)
        pits.append(x)
        bound = float(lam @ capacity + (value - lam @ weights)[x].sum())
        excess = weights[:, x].sum(axis=1) - capacity
        if bound < best:
            best, kept = bound, lam.copy()
        norm = float((excess**2 / scale**2).sum())
        if norm == 0:
            break
        step = 0.3 * abs(best) / (1 + k) ** 0.7 / norm
        lam = np.maximum(lam + step * excess / scale**2, 0.0)
        if (excess <= 0).all() and not lam.any():
            break
    return best, kept, pits


def _one_row(value: Floats, arcs: Ints, a: Floats, b: float) -> tuple[float, Floats, list[Mask]]:
    low = max_closure(value, arcs)
    pits = [low]
    if a[low].sum() <= b:
        return float(value[low].sum()), np.zeros(1), pits
    high = np.zeros(value.size, dtype=bool)
    lam, bound = 0.0, float(value[low].sum())
    for _ in range(50):
        gap = a[low].sum() - a[high].sum()
        lam = float((value[low].sum() - value[high].sum()) / gap)
        x = max_closure(value - lam * a, arcs)
        reduced = (value - lam * a)[x].sum()
        line = (value - lam * a)[low].sum()
        bound = lam * b + float(max(reduced, line))
        pits.append(x)
        if reduced <= line + 1e-9 * max(1.0, abs(line)):
            break
        if a[x].sum() > b:
            low = x
        else:
            high = x
    pits += [low, high]
    return bound, np.array([lam]), pits


def pit_bound(problem: OpenPit) -> float | None:
    """See `qubo_relax.problems.OpenPit.bound`."""
    value, arcs = np.asarray(problem.value), np.asarray(problem.arcs)
    if problem.n == 0:
        return 0.0
    if problem.risk is not None:
        C = np.asarray(problem.risk)
        # A pair that pays is shared out between its ends, one that costs is left out: an upper bound.
        off = C - np.diag(np.diag(C))
        value = value - np.diag(C) + np.maximum(-off, 0).sum(axis=1)
    if problem.periods is not None:
        m = problem.model()
        value, arcs = m.value, m.arcs
        if problem.resource is not None:
            return lagrangian(value, arcs, m.weights, m.capacity)[0]
    elif problem.resource is not None:
        return lagrangian(value, arcs, np.asarray(problem.resource), np.asarray(problem.capacity)[:, 0])[0]
    return float(value[max_closure(value, arcs)].sum())


class Repair:
    """Shrinking a pit until it fits and growing it while it pays; both move whole cones."""

    def __init__(self, value: Floats, arcs: Ints, weights: Floats, capacity: Floats) -> None:
        self.value, self.weights = value, weights
        self.capacity = capacity * (1 + 1e-12)
        self.cones = Cones.of(value.size, arcs)
        self.share = weights / capacity[:, None]

    def fits(self, x: Mask) -> bool:
        """Whether every row fits."""
        return bool((self.weights[:, x].sum(axis=1) <= self.capacity).all())

    def shrink(self, x: Mask, value: Floats) -> Mask:
        """Drop the descendant cone that loses least value a unit of excess removed, until everything fits."""
        x = x.copy()
        while True:
            excess = self.weights[:, x].sum(axis=1) - self.capacity
            over = excess > 0
            if not over.any():
                return x
            stacked = np.concatenate([value[None], self.weights[over]]) * x
            sums = (self.cones.down @ stacked.T).T
            removed = (np.minimum(sums[1:], excess[over][:, None]) / self.capacity[over][:, None]).sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                # A cone that costs nothing to drop comes first, the larger relief the sooner.
                rate = np.where(sums[0] > 0, sums[0] / removed, sums[0] * removed)
            rate = np.where(x & (removed > 0), rate, np.inf)
            x[self.cones.members("down", int(np.argmin(rate)))] = False

    def grow(self, x: Mask, value: Floats) -> Mask:
        """Add the ancestor cone that fits with the best gain a share of the rows; drop any cone that costs."""
        x = x.copy()
        noise = 1e-9 * float(np.max(np.abs(value), initial=0.0))
        for _ in range(10 * x.size):
            missing = ~x
            stacked = np.concatenate([value[None], self.weights]) * missing
            sums = (self.cones.up @ stacked.T).T
            room = self.capacity - self.weights[:, x].sum(axis=1)
            fits = missing & (sums[1:] <= room[:, None]).all(axis=0) & (sums[0] > noise)
            if fits.any():
                used = (sums[1:] / self.capacity[:, None]).max(axis=0) + 1e-3
                i = int(np.argmax(np.where(fits, sums[0] / used, -np.inf)))
                x[self.cones.members("up", i)] = True
                continue
            lost = self.cones.down @ np.where(x, value, 0.0)
            j = int(np.argmin(np.where(x, lost, np.inf)))
            if not x[j] or lost[j] >= -noise:
                return x
            x[self.cones.members("down", j)] = False
        return x


def _kicked(x: Mask, ore: Ints, cones: Cones, g: np.random.Generator) -> Mask:
    """One to three cones of random blocks more, or less."""
    y = x.copy()
    count = int(g.integers(1, 4))
    if g.random() < 0.5 or not y.any():
        for i in g.choice(ore, count):
            y[cones.members("up", int(i))] = True
    else:
        for i in g.choice(np.flatnonzero(y), count):
            y[cones.members("down", int(i))] = False
    return y


def improve_capacity(
    value: Floats,
    arcs: Ints,
    weights: Floats,
    capacity: Floats,
    start: Mask,
    rng: Any = 0,
    time_limit: float = 1.5,
) -> Mask:
    """A closed set within the capacities worth at least as much as `start` (which must be one).

    The pits of the Lagrangian are shrunk and grown; half of the time left goes to perturbed multipliers, half to
    iterated repair: add or drop a few random cones, shrink, grow, keep what is not worse.
    """
    deadline = time.monotonic() + time_limit
    g = rngs.generator(rng)
    n = value.size
    if n == 0:
        return start.copy()
    tools = Repair(value, arcs, weights, capacity)
    bound, lam, pits = lagrangian(value, arcs, weights, capacity)
    best = start.copy()

    def keep(x: Mask) -> None:
        nonlocal best
        if value[x].sum() > value[best].sum():
            best = x

    seen: set[bytes] = set()
    for x in [start, *reversed(pits), np.zeros(n, dtype=bool)]:
        if x.tobytes() not in seen and (time.monotonic() < deadline or not seen):
            seen.add(x.tobytes())
            keep(tools.grow(tools.shrink(x, value), value))
    tight = bound * (1 - 1e-9)
    half = time.monotonic() + 0.5 * max(deadline - time.monotonic(), 0.0)
    while time.monotonic() < half and value[best].sum() < tight:
        noisy = value * (1 + 0.15 * g.standard_normal(n))
        rows = weights * (1 + 0.15 * g.standard_normal(n))
        x = max_closure(noisy - (lam * (1 + 0.15 * g.standard_normal(lam.size))) @ rows, arcs)
        keep(tools.grow(tools.shrink(x, value), value))
    x, ore = best.copy(), np.flatnonzero(value > 0)
    while time.monotonic() < deadline and value[best].sum() < tight and ore.size:
        y = _kicked(x, ore, tools.cones, g)
        noisy = value * (1 + 0.3 * g.standard_normal(n))
        y = tools.shrink(y, noisy)
        if g.random() < 0.5:
            y = tools.grow(y, noisy)
        y = tools.grow(y, value)
        if value[y].sum() >= value[x].sum():
            x = y
            keep(x)
    return best if tools.fits(best) else start.copy()
