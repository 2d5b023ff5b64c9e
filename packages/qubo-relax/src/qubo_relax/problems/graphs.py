"""Independent sets, cliques, packings and vertex covers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, mask, numbers, pair_rows, readable, wide_range_warning
from qubo_relax.problems.graph_input import Graph, read_graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

FORMULATION = MappingProxyType({"conflict": "certified", "unit": "classic"})


def vertex_weights(weights: Any, n: int, name: str = "weights") -> Floats:
    """One finite number a vertex; ones when None."""
    w = np.ones(n) if weights is None else numbers(weights, name, shape=(n,))
    wide_range_warning(name, w)
    return w


class _Subset(Problem):
    """A set of vertices as a mask; linear objective `cost` over it."""

    graph: Any
    weights: Any

    @property
    def n(self) -> int:
        """Number of vertices."""
        return int(self.graph.n)

    @property
    def value_scale(self) -> float:
        """The largest absolute weight."""
        return float(np.max(np.abs(self.weights), initial=0.0))

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """The chosen vertices, bool of shape (n,)."""
        return self._point(x, self.n)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a set of vertices."""
        return self._point(np.asarray(solution), self.n).astype(np.int8)

    def _mask(self, solution: Any) -> NDArray[np.bool_]:
        return mask(solution, self.n)

    def objective(self, solution: Any) -> float:
        """Total weight."""
        return float(np.asarray(self.weights)[self._mask(solution)].sum())

    def _linear_cost(self) -> Floats:
        return np.asarray(self.weights) * (-1.0 if self.maximise else 1.0)


@dataclass(frozen=True, eq=False)
class MIS(_Subset):
    """An independent set of largest weight.

    Parameters
    ----------
    graph : array_like, sparse array, networkx graph or (n, edges)
    weights : array_like of shape (n,), optional
        Ones when left out.

    Notes
    -----
    "conflict" (B1, certified and exact): penalty above the lesser weight of each edge. "unit": the usual penalty
    equal to it, which ties.
    """

    graph: Any
    weights: ArrayLike | None = None

    formulations: ClassVar[Mapping[str, str]] = FORMULATION
    maximise: ClassVar[bool] = True
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "anneal", "sigma": 0.01})

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", read_graph(self.graph))
        object.__setattr__(self, "weights", vertex_weights(self.weights, self.graph.n))

    def _conflicts(self) -> tuple[Ints, Ints]:
        return self.graph.i, self.graph.j

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        w = np.asarray(self.weights)
        terms = bl.Terms(self.n)
        terms.add_linear(np.arange(self.n), -w)
        i, j = self._conflicts()
        least = np.maximum(np.minimum(w[i], w[j]), 0.0)
        if formulation == "unit":
            terms.add_pairs(i, j, least if penalty is None else penalty)
            return terms, ()
        terms.add_pairs(i, j, least + margin)
        return terms, (bl.Conflicts(i, j),)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """At most one end of each edge (of each non-edge, for a clique)."""
        return pair_rows(*self._conflicts(), name="pair")

    def is_feasible(self, solution: Any) -> bool:
        """Whether no two conflict."""
        s = readable(self._mask, solution)
        i, j = self._conflicts()
        return s is not None and not (s[i] & s[j]).any()

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Add what fits, by falling weight; then swap one in for those it conflicts with, while that gains."""
        from qubo_relax.improve.local import improve_independent

        i, j = self._conflicts()
        pairs = Graph(self.n, i, j, np.ones(i.size)).matrix()
        return improve_independent(np.asarray(self.weights), pairs, self._mask(solution), rng, time_limit)


@dataclass(frozen=True, eq=False)
class MaxClique(MIS):
    """A clique of largest weight: an independent set of the complement.

    Parameters
    ----------
    graph : array_like, sparse array, networkx graph or (n, edges)
    weights : array_like of shape (n,), optional
    """

    def _conflicts(self) -> tuple[Ints, Ints]:
        near = np.zeros((self.n, self.n), dtype=bool)
        near[self.graph.i, self.graph.j] = True
        i, j = np.nonzero(np.triu(~near, 1))
        return i.astype(np.int64), j.astype(np.int64)


@dataclass(frozen=True, eq=False)
class SetPacking(_Subset):
    """Disjoint sets of largest total value.

    Parameters
    ----------
    sets : sequence of iterables of hashable
    values : array_like of shape (len(sets),), optional
        Ones when left out.
    """

    sets: Sequence[Iterable[Any]]
    values: ArrayLike | None = None

    formulations: ClassVar[Mapping[str, str]] = FORMULATION
    maximise: ClassVar[bool] = True
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "anneal", "sigma": 0.01})

    def __post_init__(self) -> None:
        from scipy import sparse

        M = incidence(self.sets)
        shared = sparse.triu(M @ M.T, 1).tocoo()
        i, j = (c.astype(np.int64) for c in shared.coords)
        object.__setattr__(self, "graph", Graph(M.shape[0], i, j, np.ones(i.size)))
        object.__setattr__(self, "values", vertex_weights(self.values, M.shape[0], "values"))
        object.__setattr__(self, "weights", self.values)

    _conflicts = MIS._conflicts
    _terms = MIS._terms
    constraints = MIS.constraints
    is_feasible = MIS.is_feasible
    improve = MIS.improve


def incidence(sets: Any, name: str = "sets") -> Any:
    """Sets by elements as a sparse 0/1 matrix; elements numbered as they appear, or by number where all are ints."""
    from scipy import sparse

    try:
        members = [list(dict.fromkeys(s)) for s in sets]
    except TypeError:
        raise InvalidInput.argument(name, expected="a sequence of sets", got=sets) from None
    elements: dict[Any, int] = {}
    for s in members:
        for e in s:
            elements.setdefault(e, len(elements))
    row = np.repeat(np.arange(len(members)), [len(s) for s in members])
    col = np.array([elements[e] for s in members for e in s], dtype=np.int64)
    return sparse.csr_array((np.ones(col.size), (row, col)), shape=(len(members), len(elements)))


@dataclass(frozen=True, eq=False)
class VertexCover(_Subset):
    """A vertex cover of least weight.

    Parameters
    ----------
    graph : array_like, sparse array, networkx graph or (n, edges)
    weights : array_like of shape (n,), optional
        Costs; ones when left out.

    Notes
    -----
    "cover" (B2, certified and exact): penalty above the lesser cost of each edge. "unit": the usual penalty equal to
    it.
    """

    graph: Any
    weights: ArrayLike | None = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"cover": "certified", "unit": "classic"})
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "anneal", "sigma": 0.01})

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", read_graph(self.graph))
        object.__setattr__(self, "weights", vertex_weights(self.weights, self.graph.n))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        w, g = np.asarray(self.weights), self.graph
        terms = bl.Terms(self.n)
        terms.add_linear(np.arange(self.n), w)
        least = np.maximum(np.minimum(w[g.i], w[g.j]), 0.0)
        if formulation == "unit":
            terms.add_covers(g.i, g.j, least if penalty is None else penalty)
            return terms, ()
        terms.add_covers(g.i, g.j, least + margin)
        return terms, (bl.Covers(g.i, g.j),)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """At least one end of each edge."""
        return pair_rows(self.graph.i, self.graph.j, ">=", "edge")

    def is_feasible(self, solution: Any) -> bool:
        """Whether every edge is covered."""
        s = readable(self._mask, solution)
        return s is not None and bool((s[self.graph.i] | s[self.graph.j]).all())

    def start(self) -> NDArray[np.bool_]:
        """All vertices."""
        return np.ones(self.n, dtype=bool)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """The complement of an improved independent set."""
        from qubo_relax.improve.local import improve_independent

        outside = ~self._mask(solution)
        pairs = Graph(self.n, self.graph.i, self.graph.j, np.ones(self.graph.i.size)).matrix()
        return ~improve_independent(np.asarray(self.weights), pairs, outside, rng, time_limit)
