"""The verb: check, choose a method, solve, hand back the result."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from lap_warmstart.problem import Problem, gate_of, is_sparse, prepare, refuse
from lap_warmstart.result import AssignmentResult

if TYPE_CHECKING:
    pass

METHODS = ("auto", "core", "dense", "lapjv", "sparse")
FALLBACKS = ("bound", "density", "none")
SMALL = 256
TINY = 32
ONE_CALL = 20_000_000
ONE_CALL_DENSE = 250_000
# Less than 256 rows and so many entries are at worst a sixth of a second in one call, which Ctrl-C has to wait for.
AT_ONCE = 2_000_000
_F64 = np.dtype(np.float64)
_assign: Any = None
_assign_gated: Any = None


def _kernel() -> Any:
    """Import numba and the small kernel at the first solve."""
    global _assign
    if _assign is None:
        from lap_warmstart.small import assign

        _assign = assign
    return _assign


def _gated_kernel() -> Any:
    global _assign_gated
    _kernel()
    from lap_warmstart.gated import assign_gated

    _assign_gated = assign_gated
    return assign_gated


def solve(
    cost: object,
    *,
    maximize: bool = False,
    unmatched_cost: float | None = None,
    on_infeasible: str = "raise",
    warm_start: object = None,
    method: str = "auto",
    fallback: str = "bound",
) -> AssignmentResult:
    """Match rows to columns at least total cost, exactly.

    Parameters
    ----------
    cost : array-like (n, m), torch tensor or scipy.sparse matrix
        Infinite entries (-inf with `maximize`) are forbidden pairs. In a sparse matrix the stored entries are the
        pairs allowed, explicit zeros included. float32 is read in place and solved in float64.
    maximize : bool
        Maximise instead.
    unmatched_cost : float, optional
        A gate L: any row may stay unmatched at cost L, so that a pair is taken only where it pays. With `maximize`, L
        is the value of an unmatched row.
    on_infeasible : {"raise", "partial"}
        What to do where no complete matching exists: raise `Infeasible`, or return the least costly of the largest.
    warm_start : optional
        None; ``"net"`` (the bundled network); ``"auto"`` (the network where it pays; never on a graph); an
        `AssignmentResult`; `RowDuals`, `ColumnDuals` or n row duals; an object with ``predict(cost)``, which of a graph
        gets the dense matrix. It never changes the objective.
    method : {"auto", "core", "dense", "lapjv", "sparse"}
        "lapjv" is the classical algorithm without our budget on its row reduction. A scipy.sparse matrix is always
        solved as a graph.
    fallback : {"bound", "density", "none"}
        How a warm start is judged: by its dual bound (ours), by the share of tight entries (the paper), not at all.

    Returns
    -------
    AssignmentResult

    Raises
    ------
    InvalidInput
        NaN, a wrong shape or type, integers beyond 2**53, a warm start of wrong length.
    Infeasible
        No complete matching exists and `on_infeasible` is "raise".

    References
    ----------
    arXiv 2605.09382 (dual warm starts); Jonker and Volgenant, Computing 38 (1987).
    """
    begin = time.perf_counter()
    if (
        type(cost) is np.ndarray
        and warm_start is None
        and method == "auto"
        and maximize is False
        and cost.dtype is _F64
        and cost.ndim == 2
        and 0 < cost.size <= AT_ONCE
        and cost.flags.c_contiguous
        and cost.flags.writeable
        and on_infeasible == "raise"
        and fallback == "bound"
    ):
        # The ordinary call of the ordinary array, without the checks that it cannot fail; in place, since one more call
        # is 1 - 3 % of a 10 x 10 solve.
        r = None
        if unmatched_cost is None:
            if cost.shape[0] <= cost.shape[1] and cost.shape[0] < SMALL:
                r = _one_call(cost, math.inf, begin)
        elif type(unmatched_cost) is float and math.isfinite(unmatched_cost):
            r = (_one_call if min(cost.shape) < TINY else _gated_call)(cost, unmatched_cost, begin)
        if r is not None:
            return r
    _options(method, fallback, on_infeasible, maximize)
    gate = gate_of(unmatched_cost, maximize=maximize)
    if is_sparse(cost):
        from lap_warmstart.sparse import solve_sparse

        return solve_sparse(cost, maximize, gate, on_infeasible, warm_start, begin, fallback)
    p = prepare(cost, maximize=maximize, gate=gate)
    if p.across and (method in ("dense", "lapjv") or reads_rows(warm_start)):
        p = p.turned()
    if p.c.size == 0:
        return _empty(p, begin)
    if method == "sparse":
        from lap_warmstart.sparse import solve_finite

        return solve_finite(p, on_infeasible, warm_start, begin, fallback)
    if warm_start is None and (method == "dense" or (method == "auto" and _is_small(p))):
        return _small(p, on_infeasible, begin)
    if warm_start is None and method == "auto" and not math.isinf(gate):
        r = _gated_call(p.c, gate, begin)
        if r is not None:
            return r.oriented(p.shape, swap=p.swap, maximize=p.maximize)
    return _large(p, method, warm_start, fallback, on_infeasible, begin)


def _one_call(cost: NDArray[np.float64], gate: float, begin: float) -> AssignmentResult | None:
    """Solve by the small kernel; None where the input is at fault, for the long way to say why."""
    n, m = cost.shape
    x = np.empty(n, dtype=np.int64)
    out = np.empty(n + m)
    status, scans, left, searched = (_assign or _kernel())(cost, gate, x, np.empty(m, dtype=np.int64), out)
    if status != 0:
        return None
    wall, stats = time.perf_counter() - begin, (scans, left, searched)
    return AssignmentResult(x, out[:n], out[n:], (n, m), "dense", wall, gate=gate, stats=stats)


def _gated_call(cost: NDArray[Any], gate: float, begin: float) -> AssignmentResult | None:
    """Solve a gated problem in one compiled call; None where the input is at fault or that call could take long."""
    if cost.size > ONE_CALL:
        return None
    n, m = cost.shape
    x, y, out = np.empty(n, dtype=np.int64), np.empty(m, dtype=np.int64), np.empty(n + m)
    bound, limit = math.nextafter(gate, -math.inf), max(64, m // 8)
    status, scans, edges, taken, left = (_assign_gated or _gated_kernel())(cost, bound, gate, limit, x, y, out)
    if status != 0:
        return None
    stats = {"row_scans": scans, "core_size": edges, "augmentations": left, "greedy_fraction": taken / n}
    wall = time.perf_counter() - begin
    return AssignmentResult(x, out[:n], out[n:], (n, m), "gated", wall, gate=gate, stats=stats)


def _options(method: str, fallback: str, on_infeasible: str, maximize: object) -> None:
    for name, value, allowed in (
        ("method", method, METHODS),
        ("fallback", fallback, FALLBACKS),
        ("on_infeasible", on_infeasible, ("raise", "partial")),
    ):
        if value not in allowed:
            raise InvalidInput.argument(name, expected=f"one of {', '.join(allowed)}", got=value)
    if not isinstance(maximize, bool | np.bool_ | int):
        raise InvalidInput.argument("maximize", expected="True or False", got=maximize)


def reads_rows(warm_start: object) -> bool:
    """Whether a warm start is the network, whose features are taken row by row."""
    return (isinstance(warm_start, str) and warm_start == "net") or hasattr(warm_start, "predict_rows")


def _is_small(p: Problem) -> bool:
    low = min(p.c.shape)
    return bool(low < (TINY if not math.isinf(p.gate) else SMALL)) and not p.across


def _empty(p: Problem, begin: float) -> AssignmentResult:
    n, m = p.c.shape
    return AssignmentResult(
        np.full(n, -1, dtype=np.int64), np.zeros(n), np.zeros(m), p.shape, "empty", time.perf_counter() - begin,
        swap=p.swap, maximize=p.maximize, gate=p.gate, u=np.zeros(n) if math.isinf(p.gate) else np.full(n, p.gate),
    )  # fmt: skip


def _small(p: Problem, on_infeasible: str, begin: float) -> AssignmentResult:
    """Solve in one compiled call, or in slices where that call could take long."""
    n, m = p.c.shape
    if n * m > ONE_CALL_DENSE:
        return _large(p, "dense", None, "bound", on_infeasible, begin)
    x, out = np.empty(n, dtype=np.int64), np.empty(n + m)
    status, scans, left, searched = (_assign or _kernel())(p.c, p.gate, x, np.empty(m, dtype=np.int64), out)
    from lap_warmstart import dense

    if status == dense.INFEASIBLE:
        return infeasible(p, on_infeasible, begin)
    if status != dense.OK:
        raise refuse(p, status)
    return p.answer(x, out[:n], out[n:], "dense", begin, (scans, left, searched))


def _large(
    p: Problem, method: str, warm_start: object, fallback: str, on_infeasible: str, begin: float
) -> AssignmentResult:
    from lap_warmstart.large import solve_large
    from lap_warmstart.run import NoPath

    _kernel()
    try:
        return solve_large(p, method, warm_start, fallback, begin)
    except NoPath:
        return infeasible(p, on_infeasible, begin)


def infeasible(p: Problem, on_infeasible: str, begin: float) -> AssignmentResult:
    """Return the best partial matching of a dense problem without a complete one, or raise `Infeasible`."""
    from lap_warmstart.partial import decompose, finite_pattern, violation

    if on_infeasible == "raise":
        # A square problem names rows, whatever the order of its memory.
        turn = p.swap and p.shape[0] == p.shape[1]
        parts = decompose(finite_pattern(p.c.T if turn else p.c))
        raise violation(parts, p.swap and not turn, p)
    parts = decompose(finite_pattern(p.c))
    n, m = p.c.shape
    x, costs = np.full(n, -1, dtype=np.int64), np.zeros(n)
    u, v = np.zeros(n), np.zeros(m)
    others = np.setdiff1d(np.arange(n), parts.rows), np.setdiff1d(np.arange(m), parts.columns)
    for block_rows, block_columns in ((parts.rows, parts.columns), others):
        if block_rows.size == 0 or block_columns.size == 0:
            continue
        block = solve(p.c[np.ix_(block_rows, block_columns)])
        pairs = block.row_to_col >= 0
        x[block_rows[pairs]] = block_columns[block.row_to_col[pairs]]
        u[block_rows], v[block_columns] = block.u, block.v
    matched = x >= 0
    costs[matched] = p.c[matched, x[matched]]
    return AssignmentResult(
        x, costs, v, p.shape, "partial", time.perf_counter() - begin,
        swap=p.swap, maximize=p.maximize, status="partial", u=u,
    )  # fmt: skip


def linear_sum_assignment(cost: object, maximize: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Solve as `scipy.optimize.linear_sum_assignment` does: same arguments, order and errors.

    Parameters
    ----------
    cost : array-like (n, m)
    maximize : bool

    Returns
    -------
    row_ind, col_ind : ndarray of int64 (min(n, m),)
        The matched pairs, rows ascending.

    Raises
    ------
    InvalidInput
        A `ValueError`; for matrices that are not numeric a `TypeError` too.
    Infeasible
        No complete matching exists. A `ValueError`.
    """
    if (
        type(cost) is np.ndarray
        and not maximize
        and cost.dtype is _F64
        and cost.ndim == 2
        and 0 < cost.shape[0] <= cost.shape[1]
        and cost.shape[0] < SMALL
        and cost.size <= AT_ONCE
        and cost.flags.c_contiguous
        and cost.flags.writeable
    ):
        n, m = cost.shape
        x = np.empty(n, dtype=np.int64)
        status, _, _, _ = (_assign or _kernel())(cost, math.inf, x, np.empty(m, dtype=np.int64), np.empty(n + m))
        if status == 0:
            return np.arange(n), x
    if is_sparse(cost):
        raise InvalidInput.argument(
            "cost", expected="a dense matrix (solve takes sparse ones)", got=type(cost).__name__
        )
    r = solve(cost, maximize=bool(maximize))
    return r.row_ind.copy(), r.col_ind.copy()
