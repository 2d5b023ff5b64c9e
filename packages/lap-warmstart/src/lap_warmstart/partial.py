"""What stands in the way of a complete matching, and the best partial one (without a big constant)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lap_warmstart.errors import Infeasible
from lap_warmstart.problem import Problem


@dataclass(frozen=True)
class Decomposition:
    """A maximum matching's size, and the rows and columns of the Hall violator.

    Attributes
    ----------
    size : int
        Pairs of a maximum matching.
    rows : ndarray of int64
        Rows reachable by alternating paths from a row that a maximum matching leaves free (VR).
    columns : ndarray of int64
        Columns reached (VC), fewer than `rows`. Every maximum matching uses all of them, with rows of VR.
    """

    size: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]


def decompose(pattern: Any) -> Decomposition:
    """Decompose the graph of the finite entries.

    Parameters
    ----------
    pattern : csr_array (n, m)
        Its stored entries are the edges.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = csr_array((np.ones(pattern.indices.size, dtype=np.int8), pattern.indices, pattern.indptr), pattern.shape)
    match = np.asarray(maximum_bipartite_matching(graph, perm_type="column"), dtype=np.int64)
    owner = np.full(pattern.shape[1], -1, dtype=np.int64)
    taken = np.flatnonzero(match >= 0)
    owner[match[taken]] = taken
    row_seen = match < 0
    col_seen = np.zeros(pattern.shape[1], dtype=bool)
    front = np.flatnonzero(row_seen)
    while front.size:
        reached = np.unique(np.concatenate([graph.indices[graph.indptr[i] : graph.indptr[i + 1]] for i in front]))
        reached = reached[~col_seen[reached]]
        col_seen[reached] = True
        front = owner[reached]
        front = front[(front >= 0)]
        front = front[~row_seen[front]]
        row_seen[front] = True
    return Decomposition(int(taken.size), np.flatnonzero(row_seen), np.flatnonzero(col_seen))


def finite_pattern(c: NDArray[Any]) -> Any:
    """Return the graph of the finite entries of a dense matrix as a csr_array."""
    from scipy.sparse import csr_array

    counts = np.fromiter((np.count_nonzero(np.isfinite(row)) for row in c), dtype=np.int64, count=c.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = (
        np.concatenate([np.flatnonzero(np.isfinite(row)) for row in c]) if c.shape[0] else np.empty(0, dtype=np.int64)
    )
    return csr_array((np.ones(indices.size, dtype=np.int8), indices, indptr), shape=c.shape)


def violation(parts: Decomposition, swap: bool, p: Problem) -> Infeasible:
    """Build the error that names the Hall violator; `swap` says that rows of `parts` are columns as given."""

    def few(indices: Any) -> str:
        text = ", ".join(str(int(i)) for i in indices[:8])
        return f"{text}, ... ({len(indices)} in all)" if len(indices) > 8 else text or "none"

    own, other = ("columns", "rows") if swap else ("rows", "columns")
    message = (
        f"cost: expected a feasible problem, got one whose largest matching has {parts.size} of {min(p.shape)} pairs "
        f"(cost matrix is infeasible): {own} {few(parts.rows)} can only be matched to {other} {few(parts.columns)}"
    )
    rows, columns = parts.rows.tolist(), parts.columns.tolist()
    return Infeasible(message, columns, rows) if swap else Infeasible(message, rows, columns)
