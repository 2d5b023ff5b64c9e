"""Graphs as users have them: matrices, networkx, or a number of vertices with edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

EXPECTED = "a symmetric matrix, a networkx graph or (n, edges)"


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected weighted graph without loops: ``i < j``, each pair once, no zero weight."""

    n: int
    i: Ints
    j: Ints
    w: Floats

    def matrix(self) -> sparse.csr_array:
        """The symmetric weight matrix."""
        data = (np.r_[self.w, self.w], (np.r_[self.i, self.j], np.r_[self.j, self.i]))
        return sparse.csr_array(data, shape=(self.n, self.n))

    def degrees(self) -> Ints:
        """Number of neighbours of each vertex."""
        return np.bincount(np.r_[self.i, self.j], minlength=self.n)


def read_graph(graph: Any, name: str = "graph") -> Graph:
    """Accept what `EXPECTED` says; parallel edges are summed.

    Raises
    ------
    InvalidInput
        On loops, an unsymmetric matrix, vertices out of range, NaN or infinity.
    """
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "is_directed"):
        place = {v: k for k, v in enumerate(graph.nodes)}
        edges = [(place[a], place[b], float(d.get("weight", 1.0))) for a, b, d in graph.edges(data=True)]
        return _from_edges(len(place), np.array(edges, dtype=np.float64).reshape(-1, 3), name)
    if isinstance(graph, tuple) and len(graph) == 2 and np.ndim(graph[0]) == 0:
        n, edges = graph
        n = check.positive_int(n, name, minimum=0)
        try:
            e = np.array(list(edges), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput.argument(name, expected="edges (i, j) or (i, j, weight)", got=edges) from None
        e = e.reshape(0, 2) if e.size == 0 else e
        if e.ndim != 2 or e.shape[1] not in (2, 3):
            raise InvalidInput.argument(name, expected="edges (i, j) or (i, j, weight)", got=f"shape {e.shape}")
        return _from_edges(int(n), e if e.shape[1] == 3 else np.column_stack([e, np.ones(len(e))]), name)
    return _from_matrix(graph, name)


def _from_matrix(graph: Any, name: str) -> Graph:
    try:
        M = sparse.csr_array(graph, dtype=np.float64, copy=True) if sparse.issparse(graph) else check.array(graph, name)
    except (TypeError, ValueError):
        raise InvalidInput.argument(name, expected=EXPECTED, got=graph) from None
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise InvalidInput.argument(name, expected=EXPECTED, got=f"shape {M.shape}")
    S = sparse.csr_array(M)
    S.sum_duplicates()
    if not np.isfinite(S.data).all():
        raise InvalidInput.argument(name, expected="finite weights", got="NaN or infinity")
    gap = abs(S - S.T)
    if gap.nnz and gap.max() > 1e-12 * abs(S).max():
        raise InvalidInput.argument(name, expected="a symmetric matrix", got="an unsymmetric one")
    if S.diagonal().any():
        raise InvalidInput.argument(name, expected="no loops", got="a non-zero diagonal")
    T = sparse.triu(S, 1).tocoo()
    keep = T.data != 0
    i, j = T.coords
    return Graph(S.shape[0], i[keep].astype(np.int64), j[keep].astype(np.int64), T.data[keep])


def _from_edges(n: int, edges: NDArray[np.float64], name: str) -> Graph:
    if not np.isfinite(edges).all():
        raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")
    ends = edges[:, :2].astype(np.int64)
    if (ends != edges[:, :2]).any() or (ends.size and (ends.min() < 0 or ends.max() >= n)):
        raise InvalidInput.argument(name, expected=f"vertices in 0..{n - 1}", got="others")
    if (ends[:, 0] == ends[:, 1]).any():
        raise InvalidInput.argument(name, expected="no loops", got="an edge from a vertex to itself")
    M = sparse.coo_array((edges[:, 2], (ends.min(axis=1), ends.max(axis=1))), shape=(n, n)).tocsr().tocoo()
    keep = M.data != 0
    return Graph(n, M.coords[0][keep].astype(np.int64), M.coords[1][keep].astype(np.int64), M.data[keep])
