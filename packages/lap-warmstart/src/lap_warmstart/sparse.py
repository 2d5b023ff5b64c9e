"""Problems given or reduced to a graph: scipy.sparse input and gated problems, solved exactly without pricing."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from lap_warmstart import core, dense, gated, passes, pricing, warm
from lap_warmstart.errors import InvalidDtype
from lap_warmstart.partial import decompose, violation
from lap_warmstart.problem import EXACT, Problem
from lap_warmstart.result import AssignmentResult
from lap_warmstart.run import Core, NoPath, Run
from lap_warmstart.seeds import clip_columns, keeps, pick, tame

Vector = NDArray[np.float64]


def solve_graph(run: Run, graph: Core, seed: Vector | None) -> None:
    """Solve on a complete graph of the problem (no pricing), cold or from the column duals `seed`.

    Raises
    ------
    NoPath
        No complete matching exists.
    """
    p = run.p
    n = run.x.size
    v = _cold_columns(p, graph) if seed is None else seed
    run.clear(v)
    low = _row_minima(graph, v)
    core.greedy_core(graph.ptr, graph.col, graph.val, run.v, low, run.x, run.y, graph.cx)
    if not math.isinf(p.gate):
        over = (run.x >= 0) & (low >= p.gate)
        run.y[run.x[over]] = -1
        run.x[over] = -1
    left = int(np.count_nonzero(run.x < 0))
    run.stats["greedy_fraction"] = 1.0 - left / max(n, 1)
    run.stats["augmentations"] = left
    run.stats["core_size"] = int(graph.ptr[-1])
    graph.search(run)
    if not p.square:
        while core.repair_core(graph.ptr, graph.col, graph.val, run.v, run.x, run.y, graph.cx):
            graph.search(run)
        graph.search(run)


def _cold_columns(p: Problem, graph: Core) -> Vector:
    m = p.c.shape[1]
    if not p.square:
        return np.zeros(m)
    v = np.full(m, np.inf)
    np.minimum.at(v, graph.col, graph.val)
    return passes.finite(v)


def _row_minima(graph: Core, v: Vector) -> Vector:
    low = np.full(graph.ptr.size - 1, np.inf)
    filled = np.flatnonzero(np.diff(graph.ptr))
    if filled.size:
        low[filled] = np.minimum.reduceat(graph.val - v[graph.col], graph.ptr[filled])
    return low


def solve_gated(run: Run, seed: Vector | None) -> None:
    """Solve a dense gated problem on its entries below the gate, the only ones that can be used (since v <= 0)."""
    p = run.p
    m = p.c.shape[1]
    limit = min(m, max(64, m // 8))
    graph = entries_below(p, np.nextafter(p.gate, -math.inf), limit)
    if graph is None:
        pricing.solve_core(run, np.zeros(m), seed)
        return
    solve_graph(run, graph, None if seed is None else np.minimum(seed, 0.0))


def entries_below(p: Problem, bound: float, limit: int) -> Core | None:
    """Collect the entries of at most `bound`; None when a row has more than `limit`."""
    n = p.c.shape[0]
    ptr = np.zeros(n + 1, dtype=np.int64)
    status, col, val = gated.collect_below(p.c, bound, limit, ptr)
    return Core(ptr, col, val, np.zeros(n)) if status == dense.OK else None


def _read(cost: Any, maximize: bool) -> tuple[Any, bool]:
    """Return the stored entries as csr (float64, to be minimised) and whether they came as integers."""
    from scipy.sparse import csr_array

    try:
        a = csr_array(cost)
        a.check_format(full_check=True)
    except (ValueError, IndexError) as err:
        raise InvalidInput.argument("cost", expected="a valid sparse matrix", got=str(err)) from err
    if a.ndim != 2:
        raise InvalidInput.argument("cost", expected="a matrix (2-D array)", got=f"a {a.ndim}-D sparse array")
    kind = a.dtype.kind
    if kind not in "biuf":
        raise InvalidDtype.argument("cost", expected="real numbers (bool, integer or float)", got=f"dtype {a.dtype}")
    if kind in "iu" and a.nnz and (int(a.data.max()) > EXACT or int(a.data.min()) < -EXACT):
        raise InvalidInput.argument(
            "cost", expected="integers of at most 2**53 in absolute value", got="larger stored values"
        )
    a = csr_array((a.data.astype(np.float64), a.indices.copy(), a.indptr.copy()), shape=a.shape)
    if not a.has_canonical_format:
        a.sum_duplicates()
    if maximize:
        a.data *= -1.0
    if np.isnan(a.data).any():
        k = int(np.flatnonzero(np.isnan(a.data))[0])
        i = int(np.searchsorted(a.indptr, k, side="right") - 1)
        raise InvalidInput.argument("cost", expected="no NaN", got=f"NaN at {(i, int(a.indices[k]))}")
    if np.isneginf(a.data).any():
        raise InvalidInput.argument(
            "cost", expected=f"no {'inf' if maximize else '-inf'} entries", got="an unbounded entry"
        )
    finite = np.isfinite(a.data)
    if finite.any() and 0.5 * a.data[finite].max() - 0.5 * a.data[finite].min() > np.finfo(np.float64).max / 4.0:
        raise InvalidInput.argument(
            "cost",
            expected="a range (max - min) of at most half the largest float; rescale the costs",
            got="costs whose differences overflow",
        )
    if not finite.all():
        rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))[finite]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=a.shape[0]))])
        a = csr_array((a.data[finite], a.indices[finite], indptr), shape=a.shape)
    return a, kind in "biu"


def solve_sparse(
    cost: Any,
    maximize: bool,
    gate: float,
    on_infeasible: str,
    warm_start: object,
    begin: float,
    fallback: str = "bound",
) -> AssignmentResult:
    """Solve a scipy.sparse problem; see `lap_warmstart.solve`."""
    a, integral = _read(cost, bool(maximize))
    return _solve_csr(a, bool(maximize), integral, gate, on_infeasible, warm_start, begin, fallback)


def solve_finite(
    p: Problem, on_infeasible: str, warm_start: object, begin: float, fallback: str = "bound"
) -> AssignmentResult:
    """Solve a dense problem as the graph of its finite entries (``method="sparse"``)."""
    from scipy.sparse import csr_array

    from lap_warmstart.problem import refuse

    status, _, _ = passes.survey(p)
    if status not in (dense.OK, dense.INFEASIBLE):
        raise refuse(p, status)
    c = p.c.T if p.swap else p.c
    rows, columns = np.nonzero(np.isfinite(c))
    a = csr_array((c[rows, columns].astype(np.float64), (rows, columns)), shape=c.shape)
    return _solve_csr(a, p.maximize, p.integral, p.gate, on_infeasible, warm_start, begin, fallback)


def _solve_csr(
    a: Any,
    maximize: bool,
    integral: bool,
    gate: float,
    on_infeasible: str,
    warm_start: object,
    begin: float,
    fallback: str,
) -> AssignmentResult:
    shape = (int(a.shape[0]), int(a.shape[1]))
    swap = math.isinf(gate) and shape[0] > shape[1]
    if swap:
        a = a.T.tocsr()
    n, m = a.shape
    # The kernels' problem has no dense matrix here; a broadcast placeholder carries its shape.
    p = Problem(np.broadcast_to(np.float64(0.0), (n, m)), shape, swap, maximize, integral, gate)
    run = Run.start(p, np.zeros(m))
    graph = Core(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data, np.zeros(n))
    warm.check(warm_start, shape)
    seed = None
    if n and m and warm_start is not None and not (isinstance(warm_start, str) and warm_start == "auto"):
        seed = _choose(run, graph, a, warm_start, fallback)
    try:
        if n and m:
            solve_graph(run, graph, seed)
    except NoPath:
        return _infeasible(a, p, on_infeasible, begin)
    if seed is not None:
        run.stats["overran"] = run.stats["row_scans"] > 8.0 * n**1.5
    return p.answer(run.x, np.where(run.x >= 0, graph.cx, 0.0), run.v, "sparse", begin, run.stats)


def _choose(run: Run, graph: Core, a: Any, warm_start: object, fallback: str) -> Vector | None:
    """Return the column duals to start from, by the rules of `seeds.choose`; None for the cold start.

    A predictor is handed the dense matrix, missing edges infinite.
    """
    from lap_warmstart.rowdualnet import bundled

    p = run.p
    n, m = a.shape
    rows = np.repeat(np.arange(n), np.diff(graph.ptr))

    def costs() -> NDArray[np.float64]:
        c = np.full((n, m), np.inf)
        c[rows, graph.col] = graph.val
        return c

    prediction = warm.read(bundled() if isinstance(warm_start, str) else warm_start, p, costs=costs)
    v = np.full(m, np.inf) if prediction.columns is None else prediction.columns
    if prediction.rows is not None:
        np.minimum.at(v, graph.col, graph.val - prediction.rows[rows])
    low, top = (float(graph.val.min()), float(graph.val.max())) if graph.val.size else (0.0, 0.0)
    v = tame(p, clip_columns(p, passes.finite(v)), low, top)
    run.stats.update(predict_time=prediction.predict_time, notes=prediction.notes, seed="warm")
    if fallback == "none":
        return v
    if fallback == "density":
        u = _row_minima(graph, v)
        eps = 1e-9 * max(1.0, float(np.abs(graph.val).max(initial=0.0)))
        rho = float(np.count_nonzero(np.abs(graph.val - u[rows] - v[graph.col]) < eps)) / n
        return v if keeps(run, rho) else None
    cold = _cold_columns(p, graph)
    seeds = (cold, v, 0.5 * (cold + v))
    row_duals = [np.minimum(_row_minima(graph, s), p.gate) for s in seeds]
    totals = [float(s.sum() + u[u < np.inf].sum()) for s, u in zip(seeds, row_duals)]
    return pick(run, seeds, totals)


def _infeasible(a: Any, p: Problem, on_infeasible: str, begin: float) -> AssignmentResult:
    parts = decompose(a)
    if on_infeasible == "raise":
        raise violation(parts, p.swap, p)
    n, m = a.shape
    x, u, v, costs = np.full(n, -1, dtype=np.int64), np.zeros(n), np.zeros(m), np.zeros(n)
    others = np.setdiff1d(np.arange(n), parts.rows), np.setdiff1d(np.arange(m), parts.columns)
    for block_rows, block_columns in ((parts.rows, parts.columns), others):
        if block_rows.size == 0 or block_columns.size == 0:
            continue
        block = solve_sparse(a[block_rows][:, block_columns], False, math.inf, "raise", None, begin)
        pairs = np.flatnonzero(block.row_to_col >= 0)
        x[block_rows[pairs]] = block_columns[block.row_to_col[pairs]]
        costs[block_rows[pairs]] = block._row_costs()[pairs]
        u[block_rows], v[block_columns] = block.u, block.v
    return AssignmentResult(
        x, costs, v, p.shape, "partial", time.perf_counter() - begin,
        swap=p.swap, maximize=p.maximize, status="partial", u=u,
    )  # fmt: skip
