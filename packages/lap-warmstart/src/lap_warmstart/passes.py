"""Passes over the whole matrix: the survey, bounds and seeds from duals, the core's selection and its pricing.

Each goes along the memory, whichever way the rows lie (`Problem.across`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lap_warmstart import across, core, dense, duals
from lap_warmstart.problem import Problem
from lap_warmstart.run import Core, Run, slices

Vector = NDArray[np.float64]
LARGEST = float(np.finfo(np.float64).max)


def survey(p: Problem, rows: Vector | None = None) -> tuple[int, Vector, Vector | None]:
    """Check the entries and find the minima along the memory.

    Returns
    -------
    status : int
        Of `dense`; OK when the problem can be solved.
    minima : ndarray (m,)
        The column minima; where rows lie across the memory the row minima (n,).
    lowered : ndarray (m,) or None
        The Min-Trick of the row duals `rows`, from the same pass.
    """
    a = p.c.T if p.across else p.c
    minima = np.full(a.shape[1], np.inf)
    lowered = None if rows is None else np.full(p.c.shape[1], np.inf)
    odd = False
    for start, stop in slices(a):
        if rows is None or p.across:
            odd |= dense.survey(a, minima, start, stop)
        else:
            odd |= duals.survey_and_lower(a, rows, minima, lowered, start, stop)
        if rows is not None and p.across:
            duals.row_minima(a, rows, lowered, start, stop)
    if odd:
        status = int(dense.second_look(a))
        if status != dense.OK:
            return status, minima, lowered
    if (p.square or p.across) and np.isinf(minima).any():
        return dense.INFEASIBLE, minima, lowered
    return dense.OK, minima, lowered


def row_minima(p: Problem, v: Vector) -> Vector:
    """Return ``u_i = min_j c_ij - v_j``."""
    u = np.full(p.c.shape[0], np.inf)
    for start, stop in slices(p.c.T if p.across else p.c):
        if p.across:
            duals.lower_columns(p.c.T, v, u, start, stop)
        else:
            duals.row_minima(p.c, v, u, start, stop)
    return u


def lower_columns(p: Problem, u: Vector) -> Vector:
    """Return ``v_j = min_i c_ij - u_i``, the Min-Trick, with infinite entries replaced by 0."""
    v = np.full(p.c.shape[1], np.inf)
    for start, stop in slices(p.c.T if p.across else p.c):
        if p.across:
            duals.row_minima(p.c.T, u, v, start, stop)
        else:
            duals.lower_columns(p.c, u, v, start, stop)
    return finite(v)


def finite(v: Vector) -> Vector:
    """Replace the infinite entries of a dual vector by 0."""
    return np.where(np.isfinite(v), v, 0.0)


def row_first(p: Problem) -> Vector:
    """Return the seed ``v_j = min_i (c_ij - min_j c_ij)``: rows reduced before columns."""
    n, m = p.c.shape
    u, v = np.empty(n), np.full(m, np.inf)
    zero = np.zeros(m)
    for start, stop in slices(p.c):
        duals.row_minima(p.c, zero, u, start, stop)
        duals.lower_columns(p.c, u, v, start, stop)
    return finite(v)


def min_trick(p: Problem, u: Vector) -> Vector:
    """Return the largest column duals that are feasible with the row duals `u` (at most 0 unless square)."""
    v = lower_columns(p, u)
    return v if p.square else np.minimum(v, 0.0)


def dual_bounds(p: Problem, *seeds: Vector) -> list[float]:
    """Return the dual bound of each seed, in one pass over the costs (one a seed where rows lie across the memory)."""
    stack = np.ascontiguousarray(np.stack(seeds))
    if p.across:
        low = [row_minima(p, v) for v in seeds]
        return [float(v.sum() + u[u < np.inf].sum()) for v, u in zip(seeds, low)]
    totals = np.zeros(len(seeds))
    for start, stop in slices(p.c):
        duals.bounds(p.c, stack, p.gate, start, stop, totals)
    return [float(t) for t in totals + stack.sum(axis=1)]


def compare(p: Problem, *seeds: Vector) -> list[float]:
    """Return the dual bounds of seeds, or estimates that tell which is largest.

    A sixteenth of the rows (at most 512) decides if one seed leads each other by eight standard errors; else a quarter
    decides, since seeds that are then still close cost about the same search. Small problems are not sampled, nor are
    rows that lie across the memory.
    """
    n = p.c.shape[0]
    for step in (max(16, n // 512), 4):
        if n < 512 or p.across:
            break
        # One row at random of each stretch: a fixed stride could meet a period of the rows.
        rows = np.arange(0, n - step + 1, step)
        rows += np.random.default_rng(n).integers(0, step, rows.size)
        low = np.empty((len(seeds), rows.size))
        duals.sampled_minima(p.c, np.stack(seeds), rows, low)
        low = np.minimum(low, p.gate)
        if not np.isfinite(low).all():
            break
        totals = [float(s.sum() + n * u.mean()) for s, u in zip(seeds, low)]
        best = int(np.argmax(totals))
        doubt = 8.0 * n / math.sqrt(rows.size) * np.std(low[best] - low, axis=1)
        if step == 4 or all(totals[best] - t > d for k, (t, d) in enumerate(zip(totals, doubt)) if k != best):
            return totals
    return dual_bounds(p, *seeds)


def density(p: Problem, v: Vector) -> float:
    """Return the tight entries a row under the column duals `v`, the paper's rho."""
    u = row_minima(p, v)
    a, own, other = (p.c.T, v, u) if p.across else (p.c, u, v)
    largest = duals.least_slack(a, own, other)[1]
    return float(duals.tight_entries(a, own, other, 1e-9 * max(1.0, largest))) / u.size


def select_core(p: Problem, v: Vector, k: int) -> tuple[Core, Vector]:
    """Collect about `k` entries of least reduced cost of each row; return the core and the row minima."""
    n = p.c.shape[0]
    if p.across:
        cols, vals, counts = _lists(p, v, k, np.full(n, LARGEST))
        listed = np.arange(k) < counts[:, None]
        ptr = np.concatenate([[0], np.cumsum(counts)])
        low = np.where(counts > 0, vals[:, 0] - v[cols[:, 0]], np.inf)
        return Core(ptr, cols[listed], vals[listed], np.zeros(n)), low
    ptr = np.zeros(n + 1, dtype=np.int64)
    col = np.empty(2 * k * n, dtype=np.int32)
    val = np.empty(2 * k * n)
    low = np.empty(n)
    width = 0.0
    for start, stop in slices(p.c):
        width = core.select(p.c, v, k, start, stop, ptr, col, val, low, width)
    size = int(ptr[-1])
    # col and val keep their capacity: a view spares a copy and the next round replaces them.
    return Core(ptr, col[:size], val[:size], np.zeros(n)), low


def _lists(p: Problem, v: Vector, k: int, top: Vector) -> tuple[NDArray[np.int32], Vector, NDArray[np.int64]]:
    """List the up to `k` entries a row of least reduced cost, at most `top`, of rows that lie across the memory."""
    n, m = p.c.shape
    cut = np.full(n, m, dtype=np.int64)
    cols, vals, counts = np.zeros((n, k), dtype=np.int32), np.zeros((n, k)), np.zeros(n, dtype=np.int64)
    for start, stop in slices(p.c.T):
        across.cheapest(p.c.T, v, start, stop, top, cut, cols, vals, counts)
    return cols, vals, counts


def price(run: Run, graph: Core, safe: Vector) -> int:
    """Look for edges outside the core that are cheaper than a row's own; add them and unmatch the row."""
    p = run.p
    n = run.x.size
    bad = np.empty(n, dtype=np.int64)
    cols: Any
    if p.across:
        found, cols, vals, counts = _price_across(run, graph, safe, bad)
    else:
        counts, found = np.empty(n, dtype=np.int64), 0
        cols, vals = np.empty((n, core.PRICED), dtype=np.int32), np.empty((n, core.PRICED))
        for start, stop in slices(p.c):
            found = core.price(
                p.c, run.v, run.x, run.y, graph.cx, p.gate, p.integral, start, stop,
                safe, bad, cols, vals, counts, found,
            )  # fmt: skip
    if found:
        graph.add(bad[:found], cols[:found], vals[:found], counts[:found])
    return found


def _price_across(run: Run, graph: Core, safe: Vector, bad: NDArray[np.int64]) -> tuple[int, Any, Vector, Any]:
    """Price rows that lie across the memory; such a problem has no gate, so that a free row has nothing to lose."""
    p, v = run.p, run.v
    threshold = np.full(run.x.size, -np.inf)
    matched = np.flatnonzero(run.x >= 0)
    threshold[matched] = graph.cx[matched] - v[run.x[matched]]
    slack = np.zeros(run.x.size)
    if not p.integral:
        slack[matched] = 8.0 * 2.0**-52 * (np.abs(v).max() + np.abs(threshold[matched]))
    top = np.where(threshold <= safe, -np.inf, np.nextafter(threshold, -np.inf))
    cols, vals, counts = _lists(p, v, core.PRICED, top)
    found = across.unmatch(v, run.x, run.y, threshold, slack, safe, bad, cols, vals, counts)
    return found, cols, vals, counts
