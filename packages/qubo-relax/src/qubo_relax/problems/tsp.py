"""The travelling salesman: a permutation of the cities with the shortest closed tour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, entries, numbers, wide_range_warning
from qubo_relax.terms import FactoredQubo, KroneckerTerm, LowRankTerm

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def line_rows(index: Ints) -> list[LinearConstraint]:
    """Each row and each column of `index` holds exactly one selected variable."""
    rows = [LinearConstraint(dict.fromkeys(r.tolist(), 1.0), "==", 1.0, f"row {k}") for k, r in enumerate(index)]
    cols = [LinearConstraint(dict.fromkeys(c.tolist(), 1.0), "==", 1.0, f"column {k}") for k, c in enumerate(index.T)]
    return rows + cols


@dataclass(frozen=True, eq=False)
class TSP(Problem):
    """The shortest closed tour through all cities.

    Parameters
    ----------
    distances : array_like of shape (n, n)
        Not negative; need not be symmetric. The diagonal is ignored.
    fix_first : bool
        Whether city 0 stands at position 0, which leaves ``(n - 1)^2`` variables.

    Notes
    -----
    Variable ``x[p, c]`` says that city c stands at position p. Formulations: "permutation" (certified and exact: reward
    ``R_c`` above the two largest distances at c, conflicts above the rewards), "lucas" (the usual squared rows and
    columns, whose conflicts and rewards tie for every multiplier).
    """

    distances: ArrayLike
    fix_first: bool = True

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"permutation": "certified", "lucas": "classic"})
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"method": "graduated", "momentum": 0.95, "b": 0.2, "sigma": 0.0}
    )

    def __post_init__(self) -> None:
        d = check.array(self.distances, "distances", ndim=2, finite=False, copy=True)
        if d.shape[0] != d.shape[1]:
            raise InvalidInput.argument("distances", expected="a square matrix", got=f"shape {d.shape}")
        np.fill_diagonal(d, 0.0)
        d = numbers(d, "distances", ndim=2)
        if not isinstance(self.fix_first, bool | np.bool_):
            raise InvalidInput.argument("fix_first", expected="True or False", got=self.fix_first)
        if (d < 0).any():
            raise InvalidInput.argument("distances", expected="numbers >= 0", got=float(d.min()))
        wide_range_warning("distances", d)
        object.__setattr__(self, "distances", d)

    @property
    def n(self) -> int:
        """Number of cities."""
        return len(np.asarray(self.distances))

    @property
    def value_scale(self) -> float:
        """The largest distance."""
        return float(np.max(self.distances, initial=0.0))

    @property
    def free(self) -> Ints:
        """The cities that have variables."""
        return np.arange(1 if self.fix_first else 0, self.n)

    def index(self) -> Ints:
        """Variable numbers, shape (positions, cities)."""
        m = self.free.size
        return np.arange(m * m).reshape(m, m)

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        d, cities, index = np.asarray(self.distances), self.free, self.index()
        m = cities.size
        terms = bl.Terms(m * m)
        _add_legs(terms, d, cities, index, self.fix_first)
        if formulation == "lucas":
            lam = (self.value_scale or 1.0) if penalty is None else penalty
            for line in (*index, *index.T):
                terms.add_square(line, 1.0, 1.0, lam)
            return terms, ()
        reward = np.tile(city_rewards(d)[cities] + margin, m)
        terms.add_linear(index.ravel(), -reward)
        terms.offset += float(reward[:m].sum())
        i, j = bl.rook_pairs(index)
        terms.add_pairs(i, j, np.minimum(reward[i], reward[j]) + margin)
        return terms, (bl.Permutation(index),)

    @property
    def n_variables(self) -> int:
        """Number of variables of its formulations."""
        return int(self.free.size**2)

    def factored(self, *, margin: float | None = None, concavity: float | None = None) -> FactoredQubo:
        """The "permutation" formulation without writing its pairs down: about ``3 n^2`` numbers in place of ``4 n^3``.

        Parameters
        ----------
        margin, concavity : float, optional
            As in `qubo`. The margin is the proved one: rewards and conflicts exceed their bounds by just as much.

        Returns
        -------
        FactoredQubo
        """
        margin, eps = self._margins(margin, concavity)
        d, cities, m = np.asarray(self.distances), self.free, self.free.size
        reward = city_rewards(d)[cities] + margin
        step = np.eye(m, k=1) if self.fix_first or m < 2 else np.roll(np.eye(m), 1, axis=1)
        among = np.minimum(reward[:, None], reward) + margin
        np.fill_diagonal(among, 0.0)
        columns = sparse.csr_array((np.ones(m * m), (np.tile(np.arange(m), m), np.arange(m * m))), shape=(m, m * m))
        terms = (
            KroneckerTerm(sparse.csr_array(step), d[np.ix_(cities, cities)]),
            KroneckerTerm(0.5 * sparse.eye_array(m, format="csr"), among),
            LowRankTerm(columns, reward + margin),
        )
        linear = np.tile(-reward, (m, 1))
        if self.fix_first and m:
            linear[0] += d[0, cities]
            linear[-1] += d[cities, 0]
        return FactoredQubo(linear.ravel(), terms, float(reward.sum()), eps, (bl.Permutation(self.index()),))

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """One city a position and one position a city."""
        self._formulation(formulation)
        return line_rows(self.index())

    def decode(self, x: ArrayLike, formulation: str | None = None) -> Ints:
        """The tour as city numbers, from city 0 on."""
        m = self.free.size
        grid = self._point(x, m * m).reshape(m, m)
        if (grid.sum(axis=0) != 1).any() or (grid.sum(axis=1) != 1).any():
            raise InvalidInput.argument("x", expected="a permutation", got="a position or city taken other than once")
        tour = self.free[grid.argmax(axis=1)] if m else self.free
        tour = np.concatenate([[0], tour]) if self.fix_first and self.n else tour
        return np.roll(tour, -int(np.argmin(tour))) if self.n else tour

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a tour, turned so that city 0 comes first."""
        tour = self._tour(solution)
        tour = np.roll(tour, -int(np.argmin(tour))) if self.n else tour
        x = np.zeros((self.free.size, self.free.size), dtype=np.int8)
        rest = tour[1:] if self.fix_first else tour
        x[np.arange(rest.size), rest - (1 if self.fix_first else 0)] = 1
        return x.ravel()

    def _tour(self, solution: Any) -> Ints:
        tour = entries(solution)
        if tour.shape != (self.n,) or not np.array_equal(np.sort(tour), np.arange(self.n)):
            raise InvalidInput.argument("solution", expected=f"a permutation of 0..{self.n - 1}", got=solution)
        return tour.astype(np.int64)

    def objective(self, solution: Any) -> float:
        """Length of the closed tour."""
        tour = self._tour(solution)
        return float(np.asarray(self.distances)[tour, np.roll(tour, -1)].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether it is a permutation of the cities."""
        try:
            return bool(self._tour(solution).shape == (self.n,))
        except InvalidInput:
            return False

    def start(self) -> Ints:
        """The cities in their order."""
        return np.arange(self.n)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """2-opt and Or-opt with neighbour lists and kicks; asymmetric distances through a symmetric copy."""
        from qubo_relax.improve.tours import improve_tour

        return improve_tour(np.asarray(self.distances), self._tour(solution), rng, time_limit)

    def solve_exact(self, time_limit: float | None = None) -> Ints | None:
        """HiGHS with subtour rows added as they are violated."""
        from qubo_relax.exact import solve_tsp

        return solve_tsp(np.asarray(self.distances), time_limit)

    def bound(self) -> float:
        """The assignment relaxation."""
        from scipy.optimize import linear_sum_assignment

        d = np.array(self.distances)
        if self.n < 2:
            return 0.0
        np.fill_diagonal(d, d.sum() + 1.0)
        i, j = linear_sum_assignment(d)
        return float(d[i, j].sum())

    def plot(self, solution: Any, ax: Any = None, *, coordinates: ArrayLike | None = None) -> Any:
        """Draw the tour; without coordinates the cities are placed by classical scaling of the distances."""
        from qubo_relax.plots import plot_tour

        return plot_tour(self, solution, ax, coordinates)


def _add_legs(terms: bl.Terms, d: Floats, cities: Ints, index: Ints, fixed: bool) -> None:
    m = cities.size
    if not m:
        return
    a, b = np.nonzero(~np.eye(m, dtype=bool))
    legs = range(m - 1) if fixed else range(m)
    for p in legs:
        q = (p + 1) % m
        if p != q:
            terms.add_pairs(index[p, a], index[q, b], d[cities[a], cities[b]])
    if fixed:
        terms.add_linear(index[0], d[0, cities])
        terms.add_linear(index[m - 1], d[cities, 0])


def city_rewards(d: Floats) -> Floats:
    """For each city a bound of what entering a conflict-free tour can cost: one leg in and one leg out, two other
    cities.

    The two largest of ``max(d, d')`` at the city, or its largest way in plus its largest way out, whichever is less.
    """
    n = len(d)
    if n < 2:
        return np.zeros(n)
    both = d.max(axis=0) + d.max(axis=1)
    if n < 3:
        return np.asarray(both)
    top = np.sort(np.maximum(d, d.T), axis=1)[:, -2:].sum(axis=1)
    return np.asarray(np.minimum(both, top))
