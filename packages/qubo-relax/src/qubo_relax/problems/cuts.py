"""Cuts: in two parts, in k parts, and proper colourings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import check

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, choices, mask, pair_rows, readable, wide_range_warning
from qubo_relax.problems.graph_input import Graph, read_graph
from qubo_relax.qubo import Qubo

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MaxCut(Problem):
    """Two sides with the largest weight between them.

    Parameters
    ----------
    weights : array_like, sparse array, networkx graph or (n, edges)
        Symmetric; either sign.

    Notes
    -----
    Every vertex is feasible. "folded" is certified (binary); "laplacian" keeps the diagonal of ``-x'Lx``, whose slices
    are convex at vertices with negative degree.
    """

    weights: Any

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"folded": "certified", "laplacian": "classic"})
    maximise: ClassVar[bool] = True
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "anneal"})

    def __post_init__(self) -> None:
        g = read_graph(self.weights, "weights")
        wide_range_warning("weights", g.w)
        object.__setattr__(self, "weights", g)

    @property
    def n(self) -> int:
        """Number of vertices."""
        return int(self.weights.n)

    @property
    def value_scale(self) -> float:
        """The largest absolute weight."""
        return float(np.max(np.abs(self.weights.w), initial=0.0))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        g = self.weights
        terms = bl.Terms(g.n)
        terms.add_linear(g.i, -g.w)
        terms.add_linear(g.j, -g.w)
        terms.add_pairs(g.i, g.j, 2 * g.w)
        nothing = bl.Fixed(np.zeros(g.n, dtype=bool), np.arange(g.n))
        return terms, (nothing,)

    def qubo(
        self,
        formulation: str | None = None,
        *,
        margin: float | None = None,
        penalty: float | None = None,
        concavity: float | None = None,
    ) -> Qubo:
        """See `Problem.qubo`; "laplacian" is the one that keeps its diagonal."""
        if self._formulation(formulation) != "laplacian":
            return super().qubo(formulation, margin=margin, penalty=penalty, concavity=concavity)
        folded = super().qubo("folded", margin=margin, concavity=0.0)
        return Qubo._trusted(
            np.zeros(self.n), folded.quadratic, concavity=concavity or 0.0, diagonal=folded.linear.copy()
        )

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """None."""
        return []

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """Which vertices are on side one, bool of shape (n,)."""
        return self._point(x, self.n)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a side."""
        return self._point(np.asarray(solution), self.n).astype(np.int8)

    def objective(self, solution: Any) -> float:
        """Weight of the edges between the sides."""
        g, s = self.weights, mask(solution, self.n)
        return float(g.w[s[g.i] != s[g.j]].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether it names a side for each vertex."""
        return readable(lambda s: mask(s, self.n), solution) is not None

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Move single vertices across while that gains."""
        from qubo_relax.solvers.prepared import Prepared

        point = self.encode(mask(solution, self.n))
        return self.decode(Prepared.of(self.qubo()).settle(point[None])[0])

    def bound(self) -> float:
        """The positive weight."""
        return float(np.maximum(self.weights.w, 0.0).sum())

    def plot(self, solution: Any, ax: Any = None) -> Any:
        """The adjacency matrix, vertices sorted by side."""
        from qubo_relax.plots import plot_cut

        return plot_cut(self, solution, ax)


class _Classes(Problem):
    """Variables ``v * k + class``; subclasses hold `graph_` and `k_`."""

    @property
    def graph_(self) -> Graph:
        raise NotImplementedError

    @property
    def k_(self) -> int:
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of vertices."""
        return self.graph_.n

    def _group(self) -> Ints:
        return np.repeat(np.arange(self.n), self.k_)

    def decode(self, x: ArrayLike, formulation: str | None = None) -> Ints:
        """The class of each vertex, -1 for none; int of shape (n,)."""
        z = self._point(x, self.n * self.k_).reshape(self.n, self.k_)
        return np.where(z.any(axis=1), z.argmax(axis=1), -1) if self.k_ else np.full(self.n, -1)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of an assignment of classes."""
        s = self._classes(solution)
        return np.asarray(s[:, None] == np.arange(self.k_)).astype(np.int8).ravel()

    def _classes(self, solution: Any) -> Ints:
        return choices(solution, self.n, -1, self.k_ - 1)

    def _same_class(self) -> tuple[Ints, Ints]:
        g, k = self.graph_, np.arange(self.k_)
        return (g.i[:, None] * self.k_ + k).ravel(), (g.j[:, None] * self.k_ + k).ravel()


def one_each(group: Ints, name: str = "group") -> list[LinearConstraint]:
    """Exactly one variable of each group."""
    return [
        LinearConstraint(dict.fromkeys(np.flatnonzero(group == g).tolist(), 1.0), "==", 1.0, f"{name} {g}")
        for g in range(int(group.max(initial=-1)) + 1)
    ]


@dataclass(frozen=True, eq=False)
class MaxKCut(_Classes):
    """k classes with the largest weight between them.

    Parameters
    ----------
    weights : array_like, sparse array, networkx graph or (n, edges)
        Symmetric; either sign.
    k : int
        At least 1.

    Notes
    -----
    "classes" (B10, certified and exact): reward ``W+/k + margin``, so that by the pigeonhole every vertex finds a class
    that pays; "one_hot" the usual squared equality.
    """

    weights: Any
    k: int

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"classes": "certified", "one_hot": "classic"})
    maximise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", read_graph(self.weights, "weights"))
        wide_range_warning("weights", self.weights.w)
        object.__setattr__(self, "k", check.positive_int(self.k, "k"))

    @property
    def graph_(self) -> Graph:
        """The graph."""
        graph: Graph = self.weights
        return graph

    @property
    def k_(self) -> int:
        """Number of classes."""
        return self.k

    @property
    def value_scale(self) -> float:
        """The largest absolute weight."""
        return float(np.max(np.abs(self.weights.w), initial=0.0))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        g, k, group = self.weights, self.k, self._group()
        terms = bl.Terms(g.n * k)
        i, j = self._same_class()
        terms.add_pairs(i, j, np.repeat(g.w, k))
        if formulation == "one_hot":
            lam = (self.value_scale or 1.0) if penalty is None else penalty
            for v in range(g.n):
                terms.add_square(v * k + np.arange(k), 1.0, 1.0, lam)
            return terms, ()
        ends = np.r_[g.i, g.j]
        plus = np.bincount(ends, np.maximum(np.r_[g.w, g.w], 0), minlength=g.n)
        minus = np.bincount(ends, np.maximum(-np.r_[g.w, g.w], 0), minlength=g.n)
        reward = plus / k + margin
        terms.add_linear(np.arange(g.n * k), -reward[group])
        a, b = bl.group_pairs(group)
        terms.add_pairs(a, b, (reward + minus + margin)[group[a]])
        return terms, (bl.Groups(group),)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """One class a vertex."""
        return one_each(self._group(), "vertex")

    def objective(self, solution: Any) -> float:
        """Weight of the edges between different classes."""
        g, s = self.weights, self._classes(solution)
        return float(g.w[s[g.i] != s[g.j]].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether every vertex has a class."""
        s = readable(self._classes, solution)
        return s is not None and bool((s >= 0).all())

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Move single vertices to the class where they pay least, while that gains."""
        W = self.weights.matrix()
        s = self._classes(solution)
        cost = W @ (s[:, None] == np.arange(self.k)).astype(np.float64)
        for _ in range(100 * max(1, self.n)):
            gain = cost[np.arange(self.n), s] - cost.min(axis=1) if self.n else np.zeros(1)
            v = int(np.argmax(gain))
            if gain[v] <= 1e-9 * (self.value_scale or 1.0):
                break
            new = int(np.argmin(cost[v]))
            span = slice(W.indptr[v], W.indptr[v + 1])
            cost[W.indices[span], s[v]] -= W.data[span]
            cost[W.indices[span], new] += W.data[span]
            s[v] = new
        return s


@dataclass(frozen=True, eq=False)
class Colouring(_Classes):
    """A proper colouring with few colours, or the largest part that `colours` colours allow.

    Parameters
    ----------
    graph : array_like, sparse array, networkx graph or (n, edges)
    colours : int, optional
        Largest degree plus one when left out, with which every vertex is always coloured. With fewer, deciding whether
        all can be is NP-hard, so no formulation of this kind can promise it: the answer is then a valid PARTIAL
        colouring.

    Notes
    -----
    The objective counts the colours used plus ``colours + 1`` for each vertex left out. "maximal" (B9, certified);
    "one_hot" the usual squared equality with edge penalties.
    """

    graph: Any
    colours: int | None = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"maximal": "certified", "one_hot": "classic"})

    def __post_init__(self) -> None:
        g = read_graph(self.graph)
        object.__setattr__(self, "graph", g)
        most = int(g.degrees().max(initial=0)) + 1 if g.n else 1
        object.__setattr__(
            self, "colours", most if self.colours is None else check.positive_int(self.colours, "colours")
        )

    @property
    def graph_(self) -> Graph:
        """The graph."""
        graph: Graph = self.graph
        return graph

    @property
    def k_(self) -> int:
        """Number of colours."""
        return int(self.colours or 1)

    @property
    def complete(self) -> bool:
        """Whether there are enough colours to promise that every vertex gets one."""
        return bool(self.k_ > int(self.graph.degrees().max(initial=0)))

    @property
    def value_scale(self) -> float:
        """1: the reward of colouring a vertex is between 1 and 1.5."""
        return 1.0

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        k, group = self.k_, self._group()
        terms = bl.Terms(self.n * k)
        i, j = self._same_class()
        if formulation == "one_hot":
            lam = 1.0 if penalty is None else penalty
            for v in range(self.n):
                terms.add_square(v * k + np.arange(k), 1.0, 1.0, lam)
            terms.add_pairs(i, j, lam)
            return terms, ()
        # An early colour is worth a little more, so that few are used.
        reward = np.tile(1.5 - 0.5 * np.arange(k) / k, self.n)
        terms.add_linear(np.arange(self.n * k), -reward)
        a, b = bl.group_pairs(group)
        for p, q in ((i, j), (a, b)):
            terms.add_pairs(p, q, np.minimum(reward[p], reward[q]) + margin)
        blocks: tuple[bl.Block, ...] = (bl.Conflicts(i, j), bl.Conflicts(a, b))
        return terms, (*blocks, bl.Groups(group)) if self.complete else blocks

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """No edge within a colour; one colour a vertex, or at most one where there are few."""
        rows = pair_rows(*self._same_class(), name="edge")
        group = self._group()
        if self.complete:
            return rows + one_each(group, "vertex")
        return rows + pair_rows(*bl.group_pairs(group), name="vertex twice")

    def objective(self, solution: Any) -> float:
        """Colours used, plus ``colours + 1`` for each vertex left out."""
        s = self._classes(solution)
        return float(np.unique(s[s >= 0]).size + (self.k_ + 1) * int((s < 0).sum()))

    def is_feasible(self, solution: Any) -> bool:
        """Whether no edge joins one colour, and all are coloured where that is promised."""
        g, s = self.graph, readable(self._classes, solution)
        if s is None:
            return False
        proper = not ((s[g.i] == s[g.j]) & (s[g.i] >= 0)).any()
        return bool(proper and (not self.complete or (s >= 0).all()))

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Recolour greedily, class after class, which never needs more colours, and place vertices left out."""
        W = self.graph.matrix()
        s = self._classes(solution)
        for sweep in range(20):
            before = s.copy()
            last = np.where(s < 0, self.k_, s)
            fresh = np.full(self.n, -1)
            for v in np.argsort(-last if sweep % 2 else last, kind="stable"):
                taken = set(fresh[W.indices[W.indptr[v] : W.indptr[v + 1]]].tolist())
                fresh[v] = next((c for c in range(self.k_) if c not in taken), -1)
            if self.objective(fresh) <= self.objective(s):
                s = fresh
            if np.array_equal(s, before):
                break
        return s
