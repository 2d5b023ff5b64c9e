"""Assignments: linear, quadratic, and matching of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput
from scipy import sparse

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, entries, numbers, wide_range_warning
from qubo_relax.problems.tsp import line_rows
from qubo_relax.terms import FactoredQubo, KroneckerTerm, LowRankTerm

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


class _Assignment(Problem):
    """A permutation: object i at place ``p[i]``, variable ``i * n + k``; cost ``F, D, L`` to be minimised."""

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"permutation": "certified", "lucas": "classic"})
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"method": "graduated", "momentum": 0.95, "b": 0.2, "sigma": 0.0}
    )

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of objects."""
        return len(self._arrays()[2])

    @property
    def value_scale(self) -> float:
        """The largest cost of one pair or one placement."""
        F, D, L = self._arrays()
        pair = float(np.max(np.abs(F), initial=0.0)) * float(np.max(np.abs(D), initial=0.0))
        return max(pair, float(np.max(np.abs(L), initial=0.0)))

    def _index(self) -> Ints:
        return np.arange(self.n * self.n).reshape(self.n, self.n)

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        F, D, L = self._arrays()
        n, index = self.n, self._index()
        own = L + np.outer(np.diag(F), np.diag(D))
        terms = bl.Terms(n * n)
        terms.add_linear(index, own)
        apart = ~np.eye(n, dtype=bool)
        k, m = np.nonzero(apart)
        for i in range(n):
            for j in range(i + 1, n):
                terms.add_pairs(index[i, k], index[j, m], F[i, j] * D[k, m] + F[j, i] * D[m, k])
        if formulation == "lucas":
            lam = (self.value_scale or 1.0) if penalty is None else penalty
            for line in (*index, *index.T):
                terms.add_square(line, 1.0, 1.0, lam)
            return terms, ()
        enter, gain = couplings(F, D)
        # One reward for all keeps the energies of permutations apart from it: its sum is a constant.
        reward = float((enter + own).max(initial=0.0)) + margin
        terms.add_linear(index, np.full((n, n), -reward))
        terms.offset += reward * n
        u, v = bl.rook_pairs(index)
        # Leaving costs at most the reward, less the placement's own cost, plus whatever pairs pay here.
        keep = (reward - own - gain).ravel()
        terms.add_pairs(u, v, np.maximum(np.minimum(keep[u], keep[v]), 0.0) + margin)
        return terms, (bl.Permutation(index),)

    @property
    def n_variables(self) -> int:
        """Number of variables of its formulations."""
        return self.n**2

    def factored(self, *, margin: float | None = None, concavity: float | None = None) -> FactoredQubo:
        """A permutation form without its ``n^4 / 2`` pairs: products with F and D, one conflict weight for all lines.

        Parameters
        ----------
        margin, concavity : float, optional
            As in `qubo`. The margin is the proved one.

        Returns
        -------
        FactoredQubo
        """
        margin, eps = self._margins(margin, concavity)
        F, D, L = self._arrays()
        n = self.n
        own = L + np.outer(np.diag(F), np.diag(D))
        enter, gain = couplings(F, D)
        reward = float((enter + own).max(initial=0.0)) + margin
        conflict = max(float((reward - own - gain).max(initial=0.0)), 0.0) + margin
        line = np.repeat(np.arange(n), n)
        one = np.ones(n * n)
        lines = sparse.csr_array(
            (np.r_[one, one], (np.r_[line, n + np.tile(np.arange(n), n)], np.tile(np.arange(n * n), 2))),
            shape=(2 * n, n * n),
        )
        flow, distance = F - np.diag(np.diag(F)), D - np.diag(np.diag(D))
        terms = (KroneckerTerm(flow, distance), LowRankTerm(lines, np.full(2 * n, conflict)))
        block = bl.Permutation(self._index())
        return FactoredQubo((own - reward).ravel(), terms, reward * n, eps, (block,))

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """One place an object and one object a place."""
        return line_rows(self._index())

    def decode(self, x: ArrayLike, formulation: str | None = None) -> Ints:
        """``p`` with object i at place ``p[i]``."""
        grid = self._point(x, self.n * self.n).reshape(self.n, self.n)
        if (grid.sum(axis=0) != 1).any() or (grid.sum(axis=1) != 1).any():
            raise InvalidInput.argument("x", expected="a permutation", got="an object or place taken other than once")
        return grid.argmax(axis=1) if self.n else np.zeros(0, dtype=np.int64)

    def _permutation(self, solution: Any) -> Ints:
        p = entries(solution)
        if not self.is_feasible(p):
            raise InvalidInput.argument("solution", expected=f"a permutation of 0..{self.n - 1}", got=solution)
        return p.astype(np.int64)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a permutation."""
        return np.eye(self.n, dtype=np.int8)[self._permutation(solution)].ravel()

    def objective(self, solution: Any) -> float:
        """``sum_ij F_ij D_{p(i) p(j)} + sum_i L_{i p(i)}``."""
        from qubo_relax.improve.local import assignment_cost

        return assignment_cost(*self._arrays(), self._permutation(solution))

    def is_feasible(self, solution: Any) -> bool:
        """Whether it is a permutation."""
        try:
            p = entries(solution)
        except InvalidInput:
            return False
        return p.shape == (self.n,) and bool(np.array_equal(np.sort(p), np.arange(self.n)))

    def start(self) -> Ints:
        """Each object at its own number."""
        return np.arange(self.n)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Exchange pairs while that lowers the cost, also from disturbed copies."""
        from qubo_relax.improve.local import improve_permutation

        return improve_permutation(*self._arrays(), self._permutation(solution), rng, time_limit)


def couplings(F: Floats, D: Floats) -> tuple[Floats, Floats]:
    """For each placement the most that the others can add to it, and the most they can pay, shape (n, n)."""
    n = len(F)
    apart = ~np.eye(n, dtype=bool)
    enter, gain = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                block = np.where(apart, F[i, j] * D + F[j, i] * D.T, 0.0)
                enter[i] += np.maximum(block.max(axis=1), 0)
                gain[i] += np.minimum(block, 0).sum(axis=1)
    return enter, gain


def _square_matrix(x: Any, name: str, n: int | None = None) -> Floats:
    a = numbers(x, name, ndim=2)
    if a.shape[0] != a.shape[1] or (n is not None and len(a) != n):
        want = "a square matrix" if n is None else f"shape ({n}, {n})"
        raise InvalidInput.argument(name, expected=want, got=f"shape {a.shape}")
    wide_range_warning(name, a)
    return a


@dataclass(frozen=True, eq=False)
class QAP(_Assignment):
    """Quadratic assignment: minimise ``sum_ij F_ij D_{p(i) p(j)} + sum_i L_{i p(i)}``.

    Parameters
    ----------
    flow, distance : array_like of shape (n, n)
    linear : array_like of shape (n, n), optional
        Cost of object i at place k.

    Notes
    -----
    "permutation" (B7, certified and exact), "lucas" the usual squared rows and columns. The quadratic has about
    ``n^4 / 2`` pairs.
    """

    flow: ArrayLike
    distance: ArrayLike
    linear: ArrayLike | None = None

    def __post_init__(self) -> None:
        F = _square_matrix(self.flow, "flow")
        object.__setattr__(self, "flow", F)
        object.__setattr__(self, "distance", _square_matrix(self.distance, "distance", len(F)))
        L = np.zeros(F.shape) if self.linear is None else _square_matrix(self.linear, "linear", len(F))
        object.__setattr__(self, "linear", L)

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        return np.asarray(self.flow), np.asarray(self.distance), np.asarray(self.linear)


@dataclass(frozen=True, eq=False)
class LinearAssignment(_Assignment):
    """Linear assignment: minimise ``sum_i C_{i p(i)}``; scipy solves it exactly in no time, which `solve_exact` does.

    Parameters
    ----------
    cost : array_like of shape (n, n)
    """

    cost: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", _square_matrix(self.cost, "cost"))

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        C = np.asarray(self.cost)
        return np.zeros(C.shape), np.zeros(C.shape), C

    def solve_exact(self, time_limit: float | None = None) -> Ints:
        """By `scipy.optimize.linear_sum_assignment`."""
        from scipy.optimize import linear_sum_assignment

        return np.asarray(linear_sum_assignment(np.asarray(self.cost))[1]) if self.n else np.zeros(0, dtype=np.int64)

    def bound(self) -> float:
        """The optimum itself."""
        return self.objective(self.solve_exact()) if self.n else 0.0


@dataclass(frozen=True, eq=False)
class GraphMatching(_Assignment):
    """Match the vertices of two graphs so that most weight falls on weight: maximise ``sum_{i<j} A_ij B_{p(i) p(j)}``.

    Parameters
    ----------
    first, second : array_like of shape (n, n)
        Symmetric adjacency or weight matrices.
    """

    first: ArrayLike
    second: ArrayLike

    maximise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        A = _square_matrix(self.first, "first")
        B = _square_matrix(self.second, "second", len(A))
        for name, M in (("first", A), ("second", B)):
            if not np.array_equal(M, M.T):
                raise InvalidInput.argument(name, expected="a symmetric matrix", got="an unsymmetric one")
        object.__setattr__(self, "first", A)
        object.__setattr__(self, "second", B)

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        A, B = np.asarray(self.first), np.asarray(self.second)
        return A / 2, -B, np.zeros(A.shape)

    def objective(self, solution: Any) -> float:
        """Weight matched on weight, each pair of vertices once."""
        return -super().objective(solution)
