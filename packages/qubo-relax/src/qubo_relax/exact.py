"""Classical exact methods: what the relaxed answers are measured against, and what to use where they apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, sparse
from scipy.sparse import csgraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qubo_relax.constraints import LinearConstraint
    from qubo_relax.problems.pit import OpenPit
    from qubo_relax.qubo import Qubo

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

FLOW_RANGE = 1e9
"""Sum of the scaled capacities of a max-flow: scipy wants int32."""


def max_closure(value: Floats, arcs: Ints) -> NDArray[np.bool_]:
    """The set of largest value that contains what its members need, by max-flow; the smallest one among ties.

    Parameters
    ----------
    value : ndarray of shape (n,)
    arcs : ndarray of int of shape (m, 2)
        ``(i, j)``: i needs j. Cycles are allowed.

    Returns
    -------
    ndarray of bool of shape (n,)

    Notes
    -----
    Capacities are whole numbers: integer values with a sum below 10^9 are exact; others are scaled, with an error of at
    most n / scale in the value. Where the values span more than 10^6 each connected part has its own scale, and moves
    of single cones win back what was rounded away.
    """
    n = value.size
    gain = float(value[value > 0].sum())
    if gain == 0:
        return np.zeros(n, dtype=bool)
    whole = bool((value == np.rint(value)).all()) and np.abs(value).sum() < FLOW_RANGE
    size = np.abs(value[value != 0])
    if not whole and size.max() > 1e6 * size.min():
        return _closure_by_parts(value, arcs)
    return _closure_by_flow(value, arcs, 1.0 if whole else FLOW_RANGE / np.abs(value).sum())


def _closure_by_parts(value: Floats, arcs: Ints) -> NDArray[np.bool_]:
    from qubo_relax.improve.pits import CONE_BLOCKS, Cones, cone_moves

    n = value.size
    graph = sparse.csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    count, label = csgraph.connected_components(graph, directed=False)
    alone = np.bincount(label, minlength=count)[label] == 1
    x = alone & (value > 0)
    for part in np.unique(label[~alone]):
        inside = np.flatnonzero(label == part)
        place = np.full(n, -1)
        place[inside] = np.arange(inside.size)
        local = place[arcs[label[arcs[:, 0]] == part]]
        x[inside] = _closure_by_flow(value[inside], local, FLOW_RANGE / max(np.abs(value[inside]).sum(), 1e-300))
    acyclic = csgraph.connected_components(graph, connection="strong")[0] == n
    return cone_moves(Cones.of(n, arcs), value, x, exact=True) if n <= CONE_BLOCKS and acyclic else x


def _closure_by_flow(value: Floats, arcs: Ints, scale: float) -> NDArray[np.bool_]:
    n = value.size
    capacity = np.rint(value * scale).astype(np.int64)
    up, down = np.flatnonzero(capacity > 0), np.flatnonzero(capacity < 0)
    infinite = int(capacity[up].sum()) + 1
    row = np.concatenate([np.full(up.size, n), down, arcs[:, 0]])
    col = np.concatenate([up, np.full(down.size, n + 1), arcs[:, 1]])
    cap = np.concatenate([capacity[up], -capacity[down], np.full(len(arcs), infinite)]).astype(np.int32)
    graph = sparse.csr_array((cap, (row.astype(np.int32), col.astype(np.int32))), shape=(n + 2, n + 2))
    flow = csgraph.maximum_flow(sparse.csr_matrix(graph), n, n + 1).flow
    residual = sparse.csr_matrix(graph - flow)
    # An explicit zero would count as an edge.
    residual.eliminate_zeros()
    reached = csgraph.breadth_first_order(residual, n, return_predecessors=False)
    x = np.zeros(n + 2, dtype=bool)
    x[reached] = True
    return x[:n]


def milp(
    cost: Floats,
    rows: Sequence[tuple[Any, Any, Any]],
    time_limit: float | None,
    integral: Floats | None = None,
    gap: float = 0.0,
) -> tuple[Floats | None, bool, float]:
    """Minimize over binaries with HiGHS: the point (or None), whether it is proved optimal, and the dual bound."""
    options: dict[str, Any] = {"mip_rel_gap": gap}
    if time_limit is not None:
        options["time_limit"] = max(time_limit, 0.05)
    found = optimize.milp(
        cost,
        integrality=np.ones(cost.size) if integral is None else integral,
        bounds=optimize.Bounds(0, 1),
        constraints=[optimize.LinearConstraint(*row) for row in rows],
        options=options,
    )
    bound = found.mip_dual_bound if found.mip_dual_bound is not None else -np.inf
    return (None if found.x is None else np.asarray(found.x)), found.status == 0, float(bound)


def _arc_row(arcs: Ints, n: int) -> tuple[Any, Any, Any]:
    m = len(arcs)
    k = np.arange(m)
    A = sparse.csr_array((np.r_[np.ones(m), -np.ones(m)], (np.r_[k, k], np.r_[arcs[:, 0], arcs[:, 1]])), shape=(m, n))
    return A, -np.inf, 0.0


def pit_milp(problem: OpenPit, time_limit: float | None) -> tuple[NDArray[np.bool_] | None, bool, float]:
    """Rows, periods and risk by HiGHS (risk linearised): the (block, period) point, whether proved, the dual bound."""
    m = problem.model()
    n = m.value.size
    if problem.risk is None:
        rows = [_arc_row(m.arcs, n)] if len(m.arcs) else []
        rows += [(a[None], -np.inf, b) for a, b in zip(m.weights, m.capacity)]
        x, proved, bound = milp(-m.value, rows, time_limit)
        return (None if x is None else x[:n] > 0.5), proved, -bound
    C = np.asarray(problem.risk)
    i, j = np.nonzero(np.triu(C, 1))
    pair, k = 2 * C[i, j], np.arange(i.size)
    N = n + i.size
    cost = np.concatenate([np.diag(C) - m.value, pair])
    arcs = _arc_row(m.arcs, N)
    # y >= x_i + x_j - 1 where the pair costs; y <= x_i and y <= x_j where it pays.
    one = np.ones(i.size)
    both = sparse.csr_array((np.r_[one, one, -one], (np.r_[k, k, k], np.r_[i, j, n + k])), shape=(i.size, N))
    under = [sparse.csr_array((np.r_[one, -one], (np.r_[k, k], np.r_[n + k, e])), shape=(i.size, N)) for e in (i, j)]
    rows = [arcs] if len(m.arcs) else []
    if i.size:
        rows += [(both[pair > 0], -np.inf, 1.0)] if (pair > 0).any() else []
        rows += [(u[pair < 0], -np.inf, 0.0) for u in under] if (pair < 0).any() else []
    rows += [(np.concatenate([a, np.zeros(i.size)])[None], -np.inf, b) for a, b in zip(m.weights, m.capacity)]
    integral = np.concatenate([np.ones(n), np.zeros(i.size)])
    x, proved, bound = milp(cost, rows, time_limit, integral)
    return (None if x is None else x[:n] > 0.5), proved, -bound


def solve_pit(problem: OpenPit, time_limit: float | None = None) -> NDArray[Any] | None:
    """See `qubo_relax.problems.OpenPit.solve_exact`."""
    if problem.resource is None and problem.risk is None and problem.periods is None:
        return max_closure(np.asarray(problem.value), np.asarray(problem.arcs))
    x, proved, _ = pit_milp(problem, time_limit)
    return problem.decode(x.astype(np.int8)) if x is not None and proved else None


def solve_packing(
    values: Floats, weights: Floats, capacities: Floats, time_limit: float | None = None
) -> NDArray[np.bool_] | None:
    """Dynamic programming for one integer row of moderate size, else HiGHS; None when not proved in time."""
    n = values.size
    if n == 0:
        return np.zeros(0, dtype=bool)
    if len(weights) == 1 and (weights == np.rint(weights)).all() and n * capacities[0] <= 5e7:
        return _knapsack_table(values, weights[0].astype(np.int64), int(capacities[0]))
    x, proved, _ = milp(-values, [(weights, -np.inf, capacities)], time_limit)
    return np.asarray(x > 0.5) if x is not None and proved else None


def _knapsack_table(values: Floats, weights: Ints, capacity: int) -> NDArray[np.bool_]:
    best = np.zeros(capacity + 1)
    taken = np.zeros((values.size, capacity + 1), dtype=bool)
    for i, (v, w) in enumerate(zip(values, weights)):
        if v <= 0 or w > capacity:
            continue
        better = best[: capacity + 1 - w] + v
        taken[i, w:] = better > best[w:]
        best[w:] = np.maximum(best[w:], better)
    x, left = np.zeros(values.size, dtype=bool), int(np.argmax(best))
    for i in range(values.size - 1, -1, -1):
        if taken[i, left]:
            x[i] = True
            left -= int(weights[i])
    return x


def packing_bound(values: Floats, weights: Floats, capacities: Floats) -> float:
    """The linear relaxation of a packing problem, an upper bound."""
    if values.size == 0:
        return 0.0
    found = optimize.linprog(-values, A_ub=weights, b_ub=capacities, bounds=(0, 1), method="highs")
    if found.fun is None:  # numbers that HiGHS takes for infinite: every item is a bound too
        return float(values[values > 0].sum())
    return float(-found.fun)


def solve_tsp(d: Floats, time_limit: float | None = None) -> Ints | None:
    """The shortest tour by HiGHS, subtour rows added as they are violated; None when the time ran out."""
    import time

    n = len(d)
    if n <= 2:
        return np.arange(n)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    symmetric = np.array_equal(d, d.T)
    i, j = np.triu_indices(n, 1) if symmetric else np.nonzero(~np.eye(n, dtype=bool))
    k = np.arange(i.size)
    one = np.ones(i.size)
    if symmetric:
        degree = sparse.csr_array((np.r_[one, one], (np.r_[i, j], np.r_[k, k])), shape=(n, i.size))
        rows: list[tuple[Any, Any, Any]] = [(degree, 2.0, 2.0)]
    else:
        out = sparse.csr_array((one, (i, k)), shape=(n, i.size))
        into = sparse.csr_array((one, (j, k)), shape=(n, i.size))
        rows = [(out, 1.0, 1.0), (into, 1.0, 1.0)]
    while True:
        left = None if np.isinf(deadline) else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        x, proved, _ = milp(d[i, j], rows, left)
        if x is None or not proved:
            return None
        used = x > 0.5
        graph = sparse.csr_array((np.ones(int(used.sum())), (i[used], j[used])), shape=(n, n))
        parts, label = csgraph.connected_components(graph, directed=False)
        if parts == 1:
            return _walk(i[used], j[used], n, symmetric)
        for part in range(parts):
            inside = (label[i] == part) & (label[j] == part)
            rows.append((inside[None].astype(np.float64), -np.inf, float((label == part).sum() - 1)))


def _walk(i: Ints, j: Ints, n: int, symmetric: bool) -> Ints:
    follow: dict[int, list[int]] = {c: [] for c in range(n)}
    for a, b in zip(i.tolist(), j.tolist()):
        follow[a].append(b)
        if symmetric:
            follow[b].append(a)
    tour, before = [0], -1
    while len(tour) < n:
        here = tour[-1]
        step = next(c for c in follow[here] if c != before or not symmetric)
        before = here
        tour.append(step)
    return np.array(tour)


def solve_rows(
    cost: Floats, constraints: Sequence[LinearConstraint], time_limit: float | None = None
) -> NDArray[np.bool_] | None:
    """The cheapest binary point of a linear cost under rows, by HiGHS; None when not proved in time."""
    from qubo_relax.constraints import Rows

    if cost.size == 0:
        return np.zeros(0, dtype=bool)
    given = Rows(list(constraints), cost.size)
    rows = [(given.matrix, given.low, given.high)] if given.low.size else []
    x, proved, _ = milp(cost, rows, time_limit)
    return np.asarray(x > 0.5) if x is not None and proved else None


def solve_qubo(
    qubo: Qubo, constraints: Sequence[LinearConstraint], time_limit: float | None = None
) -> NDArray[np.int8] | None:
    """The lowest vertex that satisfies the rows, by HiGHS on the linearised quadratic; None when not proved in time."""
    n = qubo.n
    S = sparse.triu(qubo.quadratic, 1).tocoo()
    (i, j), s = S.coords, S.data
    k, one, N = np.arange(s.size), np.ones(s.size), n + s.size
    both = sparse.csr_array((np.r_[one, one, -one], (np.r_[k, k, k], np.r_[i, j, n + k])), shape=(s.size, N))
    under = [sparse.csr_array((np.r_[one, -one], (np.r_[k, k], np.r_[n + k, e])), shape=(s.size, N)) for e in (i, j)]
    rows: list[tuple[Any, Any, Any]] = []
    if (s > 0).any():
        rows.append((both[s > 0], -np.inf, 1.0))
    if (s < 0).any():
        rows += [(u[s < 0], -np.inf, 0.0) for u in under]
    from qubo_relax.constraints import Rows

    given = Rows(list(constraints), n)
    if given.low.size:
        rows.append((sparse.hstack([given.matrix, sparse.csr_array((given.low.size, s.size))]), given.low, given.high))
    x, proved, _ = milp(np.concatenate([qubo.linear, s]), rows, time_limit, np.r_[np.ones(n), np.zeros(s.size)])
    return np.asarray(x[:n] > 0.5).astype(np.int8) if x is not None and proved else None
