"""`scipy.optimize.linear_sum_assignment` and `scipy.sparse.csgraph.min_weight_full_bipartite_matching`."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from lap_warmstart.problem import is_sparse
from lap_warmstart.solve import linear_sum_assignment, solve

__all__ = ["linear_sum_assignment", "min_weight_full_bipartite_matching"]


def min_weight_full_bipartite_matching(
    biadjacency: Any, maximize: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match the short side of a bipartite graph completely at least total weight.

    Parameters
    ----------
    biadjacency : scipy.sparse matrix (n, m)
        Stored entries are edges. Unlike in SciPy, explicit zeros are edges too.
    maximize : bool

    Returns
    -------
    row_ind, col_ind : ndarray of int64

    Raises
    ------
    Infeasible
        No full matching exists. A `ValueError`, as in SciPy.
    """
    if not is_sparse(biadjacency):
        raise InvalidInput.argument("biadjacency", expected="a scipy.sparse matrix", got=type(biadjacency).__name__)
    r = solve(biadjacency, maximize=bool(maximize))
    return r.row_ind.copy(), r.col_ind.copy()
