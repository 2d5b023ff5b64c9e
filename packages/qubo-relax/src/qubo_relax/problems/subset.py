"""Subsets of a given size: densest subgraphs, selections, balanced bisections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, mask, numbers, readable, wide_range_warning
from qubo_relax.problems.graph_input import read_graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


class _Sized(Problem):
    """Minimise ``c.x + sum_{i<j} S_ij x_i x_j`` over ``sum x = k``."""

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"cardinality": "certified", "square": "classic"})

    def _arrays(self) -> tuple[Floats, Floats, int]:
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of variables."""
        return int(self._arrays()[0].size)

    @property
    def value_scale(self) -> float:
        """The largest absolute coefficient."""
        c, S, _ = self._arrays()
        return max(float(np.max(np.abs(c), initial=0.0)), float(np.max(np.abs(S), initial=0.0)))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        c, S, k = self._arrays()
        terms = bl.Terms(c.size)
        terms.add_linear(np.arange(c.size), c)
        i, j = np.nonzero(np.triu(S, 1))
        terms.add_pairs(i, j, S[i, j])
        if formulation == "square":
            terms.add_square(
                np.arange(c.size), 1.0, float(k), (self.value_scale or 1.0) if penalty is None else penalty
            )
            return terms, ()
        leave = -c - np.minimum(S, 0).sum(axis=1)
        enter = c + np.maximum(S, 0).sum(axis=1)
        lam = max(float(leave.max(initial=0.0)), float(enter.max(initial=0.0)), 0.0) + margin
        terms.add_square(np.arange(c.size), 1.0, float(k), lam)
        block = bl.Cardinality(np.arange(c.size), np.zeros(0, dtype=np.int64), k, lam)
        return terms, (block,)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """The size."""
        c, _, k = self._arrays()
        return [LinearConstraint(np.ones(c.size), "==", float(k), "size")]

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """The subset, bool of shape (n,)."""
        return self._point(x, self.n)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a subset."""
        return self._point(np.asarray(solution), self.n).astype(np.int8)

    def is_feasible(self, solution: Any) -> bool:
        """Whether it has the size."""
        s = readable(lambda x: mask(x, self.n), solution)
        return s is not None and int(s.sum()) == self._arrays()[2]

    def start(self) -> NDArray[np.bool_]:
        """The first k."""
        return np.arange(self.n) < self._arrays()[2]

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Exchange one inside for one outside, the best pair first, while that gains."""
        c, S, _ = self._arrays()
        x = mask(solution, self.n)
        g = c + S @ x
        noise = 1e-9 * (self.value_scale or 1.0)
        for _ in range(50 * max(1, self.n)):
            inside, outside = np.flatnonzero(x), np.flatnonzero(~x)
            if not inside.size or not outside.size:
                break
            change = g[outside][:, None] - g[inside] - S[np.ix_(outside, inside)]
            a, b = np.unravel_index(int(np.argmin(change)), change.shape)
            if change[a, b] >= -noise:
                break
            g += S[outside[a]] - S[inside[b]]
            x[outside[a]], x[inside[b]] = True, False
        return x


@dataclass(frozen=True, eq=False)
class KSubset(_Sized):
    """The best subset of exactly k: maximise ``values.x + sum_{i<j} Q_ij x_i x_j``.

    Parameters
    ----------
    values : array_like of shape (n,)
    k : int
    quadratic : array_like of shape (n, n), optional
        Symmetric; the diagonal is added to `values`. With an adjacency matrix and zero values: the densest k-subgraph.

    Notes
    -----
    "cardinality" (B4, certified and exact), "square" with the usual multiplier.
    """

    values: ArrayLike
    k: int
    quadratic: ArrayLike | None = None

    maximise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        v = numbers(self.values, "values")
        Q = np.zeros((v.size, v.size))
        if self.quadratic is not None:
            Q = numbers(self.quadratic, "quadratic", ndim=2, shape=(v.size, v.size))
            if not np.allclose(Q, Q.T, rtol=1e-12, atol=0):
                raise InvalidInput.argument("quadratic", expected="a symmetric matrix", got="an unsymmetric one")
        wide_range_warning("values", np.concatenate([v, Q.ravel()]))
        object.__setattr__(self, "values", v)
        object.__setattr__(self, "quadratic", Q)
        object.__setattr__(self, "k", check.positive_int(self.k, "k", minimum=0, maximum=v.size))

    def _arrays(self) -> tuple[Floats, Floats, int]:
        Q = np.asarray(self.quadratic)
        return -np.asarray(self.values) - np.diag(Q), -(Q - np.diag(np.diag(Q))), self.k

    def objective(self, solution: Any) -> float:
        """Value of the subset, each pair once."""
        x = mask(solution, self.n).astype(np.float64)
        c, S, _ = self._arrays()
        return -float(c @ x + 0.5 * x @ S @ x)


@dataclass(frozen=True, eq=False)
class Partition(_Sized):
    """Balanced bisection: two sides of sizes ``n // 2`` and the rest with the least weight between them.

    Parameters
    ----------
    weights : array_like, sparse array, networkx graph or (n, edges)
    """

    weights: Any

    def __post_init__(self) -> None:
        g = read_graph(self.weights, "weights")
        wide_range_warning("weights", g.w)
        object.__setattr__(self, "weights", g)

    def _arrays(self) -> tuple[Floats, Floats, int]:
        W = self.weights.matrix().toarray()
        return W.sum(axis=1), -2 * W, self.weights.n // 2

    def objective(self, solution: Any) -> float:
        """Weight of the edges between the sides."""
        g, s = self.weights, mask(solution, self.n)
        return float(g.w[s[g.i] != s[g.j]].sum())
