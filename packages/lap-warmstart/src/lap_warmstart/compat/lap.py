"""`lap.lapjv` and `lap.lapmod` (lap and lapx) on this solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, positive_int
from numpy.typing import ArrayLike, NDArray

from lap_warmstart.problem import gate_of, numeric
from lap_warmstart.solve import solve

__all__ = ["lapjv", "lapmod"]

Answer = tuple[float, NDArray[np.int32], NDArray[np.int32]] | tuple[NDArray[np.int32], NDArray[np.int32]]


def lapjv(cost: ArrayLike, extend_cost: bool = False, cost_limit: float = np.inf, return_cost: bool = True) -> Answer:
    """Solve as `lap.lapjv` does.

    Parameters
    ----------
    cost : array-like (n, m)
    extend_cost : bool
        Allow matrices that are not square.
    cost_limit : float
        A pair is made only where it costs less than this. As in lap, either partner of a pair not made costs half.
    return_cost : bool

    Returns
    -------
    total : float
        Sum of the matched costs; only if `return_cost`.
    x, y : ndarray of int32 (n,), (m,)
        The column of each row and the row of each column, -1 where unmatched.

    Raises
    ------
    InvalidInput
        A matrix that is not square without `extend_cost` or a limit; NaN.
    Infeasible
        No complete matching exists; lap returns an infinite cost there.
    """
    limit = gate_of(cost_limit, maximize=False)
    c, _ = numeric(cost)
    if c.shape[0] != c.shape[1] and not extend_cost and limit == np.inf:
        raise InvalidInput.argument("cost", expected="a square matrix, or extend_cost=True", got=f"shape {c.shape}")
    r = solve(c, unmatched_cost=limit)
    return _answer(r, return_cost)


def lapmod(
    n: int,
    cc: ArrayLike,
    ii: ArrayLike,
    kk: ArrayLike,
    fast: bool = True,
    return_cost: bool = True,
    fp_version: int = 3,
) -> Answer:
    """Solve a sparse square problem as `lap.lapmod` does.

    Parameters
    ----------
    n : int
        Rows and columns.
    cc, ii, kk : array-like (nnz,), (n + 1,), (nnz,)
        Costs, row starts and columns: a CSR matrix.
    fast, fp_version
        Taken for compatibility; they choose among lap's own variants.
    return_cost : bool
    """
    del fast, fp_version
    from scipy.sparse import csr_array

    n = positive_int(n, "n", minimum=0)
    costs = array(cc, "cc", ndim=1, finite=False)
    columns = array(kk, "kk", ndim=1, dtype=np.int64, shape=costs.shape)
    starts = array(ii, "ii", ndim=1, dtype=np.int64, shape=(n + 1,))
    if starts[0] != 0 or starts[-1] != costs.size or (np.diff(starts) < 0).any():
        raise InvalidInput.argument("ii", expected=f"row starts that grow from 0 to {costs.size}", got=str(starts))
    if columns.size and not 0 <= columns.min() <= columns.max() < n:
        raise InvalidInput.argument("kk", expected=f"columns from 0 to {n - 1}", got=str(columns))
    graph = csr_array((costs, columns, starts), shape=(n, n))
    return _answer(solve(graph), return_cost)


def _answer(r: Any, return_cost: bool) -> Answer:
    x, y = r.row_to_col.astype(np.int32), r.col_to_row.astype(np.int32)
    return (r.objective, x, y) if return_cost else (x, y)
