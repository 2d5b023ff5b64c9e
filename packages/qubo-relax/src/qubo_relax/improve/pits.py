"""Improving pits: cone moves, max-flow in growing windows; capacity rows and periods in `lagrange` and below."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs
from scipy import sparse

from qubo_relax.exact import max_closure
from qubo_relax.precedence import closure_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qubo_relax.problems.pit import OpenPit

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

WINDOW = 400
CONE_PAIRS = 20_000_000
CONE_BLOCKS = 5_000
ANNEALED_BLOCKS = 3_000
RISK_KICKS = 30


@dataclass(frozen=True, eq=False)
class Cones:
    """Blocks with all they need (`up`, rows include the block itself) and with all that needs them (`down`)."""

    up: sparse.csr_array
    down: sparse.csr_array

    @classmethod
    def of(cls, n: int, arcs: Ints) -> Cones:
        """From the transitive closure."""
        child, parent = closure_pairs(n, arcs, CONE_PAIRS)
        own = np.arange(n)
        i, j = np.concatenate([child, own]), np.concatenate([parent, own])
        up = sparse.csr_array((np.ones(i.size), (i, j)), shape=(n, n))
        return cls(up, sparse.csr_array(up.T))

    def members(self, kind: str, i: int) -> Ints:
        """The cone of block i."""
        m = self.up if kind == "up" else self.down
        return np.asarray(m.indices[m.indptr[i] : m.indptr[i + 1]])


def cone_moves(
    cones: Cones,
    value: Floats,
    x: Mask,
    risk: Any = None,
    limit: int = 100_000,
    *,
    exact: bool = False,
    rows: tuple[Floats, Floats] | None = None,
) -> Mask:
    """Add a block with what it still needs, or drop one with what needs it, the best move first, while one gains.

    Parameters
    ----------
    cones : Cones
    value : ndarray of shape (n,)
    x : ndarray of bool of shape (n,)
        A closed set; not changed.
    risk : scipy.sparse.csr_array of shape (n, n), optional
        The C of ``v.x - x'Cx``.
    limit : int
        Most moves.
    exact : bool
        Whether gains below 1e-9 of the largest value count too.
    rows : tuple of ndarrays of shapes (d, n) and (d,), optional
        Weights and capacities, within which `x` stays.

    Returns
    -------
    ndarray of bool of shape (n,)
    """
    x = x.copy()
    noise = 0.0 if exact else 1e-9 * float(np.max(np.abs(value), initial=0.0))
    for _ in range(limit):
        marginal = value if risk is None else value - 2 * (risk @ x)
        add = np.where(x, -np.inf, cones.up @ np.where(x, 0.0, marginal))
        drop = np.where(x, -(cones.down @ np.where(x, marginal, 0.0)), -np.inf)
        if rows is not None:
            weights, capacity = rows
            need = cones.up @ np.where(x, 0.0, weights).T
            add = np.where((need <= capacity * (1 + 1e-12) - weights[:, x].sum(axis=1)).all(axis=1), add, -np.inf)
        if risk is not None:
            # Within the cone itself each pair counts: -C among those entering, and those leaving took theirs twice.
            add = add - _inner(cones.up, risk, ~x)
            drop = drop - _inner(cones.down, risk, x)
        i, j = int(np.argmax(add)), int(np.argmax(drop))
        if max(add[i], drop[j]) <= noise:
            break
        if add[i] >= drop[j]:
            x[cones.members("up", i)] = True
        else:
            x[cones.members("down", j)] = False
    return x


def _inner(cone: sparse.csr_array, risk: sparse.csr_array, inside: Mask) -> Floats:
    part = cone @ sparse.diags_array(inside.astype(np.float64))
    return np.asarray((part @ risk).multiply(part).sum(axis=1)).ravel()


def window_flow(value: Floats, arcs: Ints, x: Mask, inside: Mask) -> Mask:
    """The best closed set that agrees with `x` outside the window, by max-flow in it."""
    into, out = inside[arcs[:, 0]], inside[arcs[:, 1]]
    # A free block that needs an absent outside block is barred; one that a present outside block needs must stay.
    barred = np.zeros(x.size, dtype=bool)
    barred[arcs[into & ~out & ~x[arcs[:, 1]], 0]] = True
    kept = np.zeros(x.size, dtype=bool)
    kept[arcs[~into & out & x[arcs[:, 0]], 1]] = True
    index = np.flatnonzero(inside)
    place = np.full(x.size, -1)
    place[index] = np.arange(index.size)
    big = float(np.abs(value[index]).sum()) + 1.0
    local = np.where(barred[index], -big, np.where(kept[index], big, value[index]))
    both = into & out
    y = x.copy()
    y[index] = max_closure(local, place[arcs[both]])
    return y


def improve_closure(value: Floats, arcs: Ints, start: Mask, deadline: float = np.inf) -> Mask:
    """Cone moves, then max-flow in windows that double until one holds the whole pit, whose answer is optimal."""
    n = value.size
    x = start.copy()
    if n == 0:
        return x
    cones = Cones.of(n, arcs)
    x = cone_moves(cones, value, x)
    graph = sparse.csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    around = sparse.csr_array(graph + graph.T)
    size = min(WINDOW, n)
    while time.monotonic() < deadline:
        if size == n:
            y = window_flow(value, arcs, x, np.ones(n, dtype=bool))
            # Rounding to whole capacities can cost a trace of value that single cones win back.
            y = cone_moves(cones, value, y)
            return y if value[y].sum() > value[x].sum() else x
        done = np.zeros(n, dtype=bool)
        before = value[x].sum()
        for centre in np.flatnonzero(value > 0):
            if done[centre] or time.monotonic() >= deadline:
                continue
            near = _nearest(around, int(centre), size)
            done[near[: size // 3]] = True
            inside = np.zeros(n, dtype=bool)
            inside[near] = True
            y = window_flow(value, arcs, x, inside)
            if value[y].sum() > value[x].sum():
                x = y
        x = cone_moves(cones, value, x)
        if value[x].sum() <= before * (1 + 1e-12):
            size = min(2 * size, n)
    return x


def _nearest(around: sparse.csr_array, centre: int, size: int) -> Ints:
    from scipy.sparse.csgraph import breadth_first_order

    return np.asarray(breadth_first_order(around, centre, directed=False, return_predecessors=False)[:size])


def improve_pit(problem: OpenPit, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Any:
    """See `qubo_relax.problems.OpenPit.improve`: from the given pit and from the empty one, the better of both.

    Parameters
    ----------
    problem : OpenPit
    solution : ndarray of shape (n,)
        Feasible.
    rng : Generator, int or None
    time_limit : float, optional
        Seconds; with capacity rows 1.5 when left out.

    Returns
    -------
    ndarray of shape (n,)
    """
    from qubo_relax.improve.lagrange import improve_capacity

    if problem.n == 0:
        return solution
    value, arcs = np.asarray(problem.value), np.asarray(problem.arcs)
    if problem.periods is not None:
        found = [solution, in_sequence(problem, rng, None if time_limit is None else time_limit / 2)]
        best = max(found, key=problem.objective)
        return _across_periods(problem, best, rng, 1.5 if time_limit is None else time_limit / 2)
    start = np.asarray(solution, dtype=bool)
    if problem.risk is not None:
        return _with_risk(problem, start, rng, np.inf if time_limit is None else time.monotonic() + time_limit)
    if problem.resource is not None:
        weights, capacity = np.asarray(problem.resource), np.asarray(problem.capacity)[:, 0]
        return improve_capacity(value, arcs, weights, capacity, start, rng, 1.5 if time_limit is None else time_limit)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    found = [start, improve_closure(value, arcs, start, deadline)]
    if time.monotonic() < deadline and value[found[1]].sum() < value[value > 0].sum():
        found.append(improve_closure(value, arcs, np.zeros(value.size, dtype=bool), deadline))
    return max(found, key=problem.objective)


def _with_risk(problem: OpenPit, start: Mask, rng: Any, deadline: float) -> Mask:
    """Cone moves under the quadratic objective, within the rows, from several pits and then from disturbed ones.

    One of the pits is the end of annealing the "removal" weighting: where the default "closure" one is drawn into too
    large a pit, that one grows it from nothing.
    """
    value, arcs = np.asarray(problem.value), np.asarray(problem.arcs)
    risk = sparse.csr_array(np.asarray(problem.risk))
    # The diagonal acts on single blocks, so it belongs to the values.
    own = risk.diagonal()
    pairs = sparse.csr_array(risk - sparse.diags_array(own))
    cones = Cones.of(value.size, arcs)
    empty = np.zeros(value.size, dtype=bool)
    rows, starts = None, [start, empty]
    if problem.resource is not None:
        rows = np.asarray(problem.resource), np.asarray(problem.capacity)[:, 0]
    else:
        starts += [max_closure(value, arcs), max_closure(value - own, arcs)]
    found = [start]
    for x in starts:
        if len(found) < 3 or time.monotonic() < deadline:
            found.append(cone_moves(cones, value - own, x, pairs, rows=rows))
    if problem.resource is None and value.size <= ANNEALED_BLOCKS and time.monotonic() < deadline:
        found.append(cone_moves(cones, value - own, _grown(problem, rng, deadline), pairs))
    best = max(found, key=problem.objective)
    g = rngs.generator(rng)
    for _ in range(RISK_KICKS if best.size else 0):
        if time.monotonic() >= deadline:
            break
        x = best.copy()
        for i in g.integers(0, x.size, 1 + int(g.integers(0, 3))):
            if x[i]:
                x[cones.members("down", int(i))] = False
        x = cone_moves(cones, value - own, x, pairs, rows=rows)
        best = max((best, x), key=problem.objective)
    return best


def _grown(problem: OpenPit, rng: Any, deadline: float) -> Mask:
    from qubo_relax.solvers.driver import minimize

    seed = rng if isinstance(rng, int | np.integer) else 0
    left = deadline - time.monotonic()
    limit = None if np.isinf(left) else max(left, 0.01)
    found = minimize(problem, "anneal", 32, 1000, limit, seed, improve=False, formulation="removal")
    if found.status == "interrupted":
        raise KeyboardInterrupt
    return np.asarray(found.solution, dtype=bool)


def _across_periods(problem: OpenPit, schedule: Ints, rng: Any, seconds: float) -> Ints:
    """Blocks earlier or later, with all that must go along, while that pays; nothing on large models."""
    from qubo_relax.improve.lagrange import improve_capacity

    m = problem.model()
    if m.value.size > CONE_BLOCKS:
        return schedule
    x = problem.encode(schedule).astype(bool)
    if not len(m.weights):
        return np.asarray(problem.decode(max_closure(m.value, m.arcs).astype(np.int8)))
    y = improve_capacity(m.value, m.arcs, m.weights, m.capacity, x, rng, seconds)
    return max((schedule, np.asarray(problem.decode(y.astype(np.int8)))), key=problem.objective)


def in_sequence(problem: OpenPit, rng: Any, time_limit: float | None) -> Ints:
    """Period after period the best pit of what is left under that period's own capacities."""
    from qubo_relax.improve.lagrange import improve_capacity

    value, arcs, T = np.asarray(problem.value), np.asarray(problem.arcs), problem.n_periods
    when = np.full(problem.n, -1)
    each = (1.5 if time_limit is None else time_limit) / T
    for t, stream in enumerate(rngs.spawn(rng, T)):
        left = np.flatnonzero(when < 0)
        place = np.full(problem.n, -1)
        place[left] = np.arange(left.size)
        inside = (place[arcs[:, 0]] >= 0) & (place[arcs[:, 1]] >= 0)
        local = place[arcs[inside]]
        empty = np.zeros(left.size, dtype=bool)
        if problem.resource is None:
            x = max_closure(value[left], local)
        else:
            b = np.asarray(problem.capacity)
            weights = np.asarray(problem.resource)[:, left]
            x = improve_capacity(value[left], local, weights, b[:, min(t, b.shape[1] - 1)], empty, stream, each)
        when[left[x]] = t
    return when
