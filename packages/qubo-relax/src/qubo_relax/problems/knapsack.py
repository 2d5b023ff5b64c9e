"""Knapsacks: one row or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint, resolution
from qubo_relax.matrices import number
from qubo_relax.problems.base import Problem, mask, numbers, pair_rows, readable, wide_range_warning
from qubo_relax.terms import FactoredQubo, PriceTerm

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TAU = 0.5


def keep_order(values: Floats, weights: Floats, capacities: Floats) -> Ints:
    """Items by falling value a share of the capacities used; those that weigh nothing first."""
    share = (weights / np.maximum(capacities, 1e-300)[:, None]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(share > 0, values / share, np.inf)
    return np.argsort(-density, kind="stable")


def price_block(
    values: Floats, weights: Floats, capacities: Floats, margin: float, tau: float = TAU
) -> tuple[bl.Prices, bl.Fixed]:
    """The B5 record of packing rows alone, with over-heavy items fixed to 0."""
    fixed = np.asarray((weights > capacities[:, None]).any(axis=0))
    order = keep_order(values, weights, capacities)
    unit = np.array([resolution(np.append(a, b)) for a, b in zip(weights, capacities)])
    relevant = weights > 0
    rate = bl.price_rates(np.maximum(values, margin), weights, capacities, unit, relevant, fixed, tau)
    return bl.Prices(weights, capacities, unit, order, rate, relevant), bl.Fixed(fixed, order)


class _Packing(Problem):
    """What one and several rows share; subclasses give `_rows`."""

    maximise: ClassVar[bool] = True
    values: Any

    def _rows(self) -> tuple[Floats, Floats]:
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of items."""
        return int(np.size(self.values))

    @property
    def value_scale(self) -> float:
        """The largest absolute value of an item."""
        return float(np.max(np.abs(self.values), initial=0.0))

    def _check(self, values: Any, weights: Floats, capacities: Floats, names: tuple[str, str]) -> None:
        v = numbers(values, "values")
        wide_range_warning("values", v)
        object.__setattr__(self, "values", v)
        if weights.shape[1] != v.size:
            raise InvalidInput.argument(names[0], expected=f"{v.size} items a row", got=f"shape {weights.shape}")
        if capacities.size != len(weights):
            raise InvalidInput.argument(names[1], expected=f"{len(weights)} numbers", got=f"{capacities.size}")
        if (weights < 0).any():
            raise InvalidInput.argument(
                names[0], expected="weights >= 0 (complement the variable)", got=float(weights.min())
            )
        if v.size and (capacities <= 0).any():
            raise InvalidInput.argument(names[1], expected="a capacity > 0", got=float(capacities.min()))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        values = np.asarray(self.values)
        weights, capacities = self._rows()
        n = values.size
        if formulation == "price":
            terms = bl.Terms(n)
            prices, fixed = price_block(values, weights, capacities, margin)
            terms.add_linear(np.arange(n), np.where(fixed.mask, margin, -values))
            bl.add_prices(terms, prices, fixed.mask)
            return terms, (fixed, prices)
        lam = max(float(values.max(initial=0.0)), 0.0) + margin if penalty is None else penalty
        return _classic(formulation, values, weights, capacities, lam), ()

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """The capacity rows over the items (variables beyond them are slack and unconstrained)."""
        self._formulation(formulation)
        weights, capacities = self._rows()
        return [LinearConstraint(a, "<=", b, f"capacity {k}") for k, (a, b) in enumerate(zip(weights, capacities))]

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """The items taken, bool of shape (n,)."""
        p = np.asarray(x)[: self.n]
        return self._point(p, self.n)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a set of items in the "price" formulation."""
        if self._formulation(formulation) != "price":
            raise InvalidInput.argument("formulation", expected='"price"', got=formulation)
        return self._mask(solution).astype(np.int8)

    def _mask(self, solution: Any) -> NDArray[np.bool_]:
        return mask(solution, self.n)

    def objective(self, solution: Any) -> float:
        """Total value."""
        return float(np.asarray(self.values)[self._mask(solution)].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether every row fits."""
        weights, capacities = self._rows()
        s = readable(self._mask, solution)
        if s is None:
            return False
        load = weights[:, s].sum(axis=1)
        return bool((load <= capacities * (1 + 1e-12)).all())

    def start(self) -> NDArray[np.bool_]:
        """Nothing taken."""
        return np.zeros(self.n, dtype=bool)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Fill, swap, and iterate with random drops, on utilities from the duals of the linear relaxation."""
        from qubo_relax.improve.knapsack import improve_packing

        weights, capacities = self._rows()
        return improve_packing(np.asarray(self.values), weights, capacities, self._mask(solution), rng, time_limit)

    def solve_exact(self, time_limit: float | None = None) -> NDArray[np.bool_] | None:
        """Dynamic programming for one small integer row, else HiGHS."""
        from qubo_relax.exact import solve_packing

        return solve_packing(np.asarray(self.values), *self._rows(), time_limit)

    def bound(self) -> float:
        """The linear relaxation."""
        from qubo_relax.exact import packing_bound

        return packing_bound(np.asarray(self.values), *self._rows())


@dataclass(frozen=True, eq=False)
class Knapsack(_Packing):
    """Choose items of largest total value within one capacity.

    Parameters
    ----------
    values : array_like of shape (n,)
    weights : array_like of shape (n,)
        Not negative.
    capacity : float
        Positive.
    resolution : int, optional
        Units into which "placement" divides the capacity, weights rounded up: fewer variables, any weights, always
        feasible, at the loss of selections that fit by less than a unit an item. The capacity itself when left out.

    Notes
    -----
    Formulations: "price" (certified, no slack; its objective is discounted, so `improve` finishes), "placement"
    (certified, exact without `resolution`, n x capacity variables, integer weights), and the usual "slack_binary",
    "slack_unary", "one_hot" and "unbalanced".
    """

    values: ArrayLike
    weights: ArrayLike
    capacity: float
    resolution: int | None = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "price": "certified",
            "placement": "certified",
            "slack_binary": "classic",
            "slack_unary": "classic",
            "one_hot": "classic",
            "unbalanced": "classic",
        }
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", numbers(self.weights, "weights"))
        b = numbers([number(self.capacity, "capacity")], "capacity")
        object.__setattr__(self, "capacity", float(b[0]))
        if self.resolution is not None:
            object.__setattr__(self, "resolution", check.positive_int(self.resolution, "resolution"))
        self._check(self.values, np.asarray(self.weights)[None], b, ("weights", "capacity"))

    def _rows(self) -> tuple[Floats, Floats]:
        return np.asarray(self.weights)[None], np.array([self.capacity])

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        if formulation != "placement":
            return super()._terms(formulation, margin, penalty)
        item, start, stop = self.placements()
        value = np.asarray(self.values)[item]
        terms = bl.Terms(item.size)
        terms.add_linear(np.arange(item.size), -value)
        i, j = placement_conflicts(item, start, stop)
        terms.add_pairs(i, j, np.maximum(np.minimum(value[i], value[j]), 0.0) + margin)
        return terms, (bl.Conflicts(i, j),)

    @property
    def n_variables(self) -> int:
        """Number of variables of "price"."""
        return self.n

    def factored(self, *, margin: float | None = None, concavity: float | None = None) -> FactoredQubo:
        """The "price" formulation with its row kept as running sums: n numbers in place of ``n^2 / 2`` pairs.

        Parameters
        ----------
        margin, concavity : float, optional
            As in `qubo`. The proved margin is the least of `margin` and ``rate * tau * resolution`` over the items.

        Returns
        -------
        FactoredQubo
        """
        margin, _ = self._margins(margin, None)
        values = np.asarray(self.values)
        prices, fixed = price_block(values, *self._rows(), margin)
        weight = np.where(fixed.mask, 0.0, prices.weights[0])
        priced = prices.rate[0] > 0
        # The last item of an overfull set pays for a whole step of the row more than it is worth.
        slack = (prices.rate[0] * TAU * prices.unit[0])[priced]
        proved = min(float(slack.min(initial=np.inf)), margin)
        eps = proved / 4 if concavity is None else check.in_range(concavity, "concavity", 0.0, proved, low_open=True)
        linear = np.where(fixed.mask, margin, -values)
        term = PriceTerm(prices.order, prices.rate[0], weight)
        return FactoredQubo(linear, (term,), 0.0, eps, (fixed, prices))

    def placements(self) -> tuple[Ints, Ints, Ints]:
        """Item, first unit and end of each variable of the "placement" formulation; a weightless item has one."""
        a = np.asarray(self.weights)
        if self.resolution is not None:
            units = np.ceil(a / self.capacity * self.resolution - 1e-9)
            return interval_placements(units.astype(np.int64), self.resolution)
        if (a != np.rint(a)).any():
            raise InvalidInput.argument("weights", expected='whole numbers for "placement"', got="fractions")
        return interval_placements(a.astype(np.int64), int(self.capacity))

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """The capacity row; for "placement" the conflicts of its intervals."""
        if self._formulation(formulation) != "placement":
            return super().constraints(formulation)
        return pair_rows(*placement_conflicts(*self.placements()), name="overlap")

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """The items taken, bool of shape (n,)."""
        if self._formulation(formulation) != "placement":
            return super().decode(x, formulation)
        item = self.placements()[0]
        return np.bincount(item, self._point(x, item.size), minlength=self.n) > 0

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a set of items; "placement" lays them side by side."""
        if self._formulation(formulation) != "placement":
            return super().encode(solution, formulation)
        item, start, stop = self.placements()
        x = np.zeros(item.size, dtype=np.int8)
        at = 0
        for k in np.flatnonzero(self._mask(solution)):
            ways = np.flatnonzero(item == k)
            width = int(stop[ways[0]] - start[ways[0]]) if ways.size else 0
            place = ways[start[ways] == (at if width else 0)]
            if not place.size:
                raise InvalidInput.argument("solution", expected="items that fit, at this resolution", got=solution)
            x[place] = 1
            at += width
        return x


@dataclass(frozen=True, eq=False)
class MultiKnapsack(_Packing):
    """Choose items of largest total value within several capacities.

    Parameters
    ----------
    values : array_like of shape (n,)
    weights : array_like of shape (d, n)
        Not negative.
    capacities : array_like of shape (d,)
        Positive.

    Notes
    -----
    Formulations: "price" (certified: the entrywise maximum of the rows' prices), and the usual "slack_binary",
    "slack_unary", "unbalanced".
    """

    values: ArrayLike
    weights: ArrayLike
    capacities: ArrayLike

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"price": "certified", "slack_binary": "classic", "slack_unary": "classic", "unbalanced": "classic"}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", numbers(self.weights, "weights", ndim=2))
        object.__setattr__(self, "capacities", numbers(self.capacities, "capacities"))
        self._check(self.values, *self._rows(), ("weights", "capacities"))

    def _rows(self) -> tuple[Floats, Floats]:
        return np.asarray(self.weights), np.asarray(self.capacities)


def interval_placements(weights: Ints, capacity: int) -> tuple[Ints, Ints, Ints]:
    """All ways to lay each item into ``capacity`` units: item, first unit, end."""
    ways = np.where(weights > 0, np.maximum(capacity - weights + 1, 0), 1)
    item = np.repeat(np.arange(weights.size), ways)
    start = np.arange(item.size) - np.repeat(np.cumsum(ways) - ways, ways)
    return item, start, start + weights[item]


def placement_conflicts(item: Ints, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Pairs of placements that overlap or belong to one item (an empty interval overlaps nothing)."""
    overlap = (start[:, None] < stop) & (start < stop[:, None]) & (stop > start) & (stop > start)[:, None]
    i, j = np.nonzero(np.triu(overlap | (item[:, None] == item), 1))
    return i, j


def _classic(formulation: str, values: Floats, weights: Floats, capacities: Floats, lam: float) -> bl.Terms:
    n, items = values.size, np.arange(values.size)
    if formulation in ("slack_binary", "slack_unary"):
        unary = formulation == "slack_unary"
        widths = [[1] * int(b) if unary else bl.slack_widths(b) for b in capacities]
        terms = bl.Terms(n + sum(map(len, widths)))
        first = n
        for a, b, width in zip(weights, capacities, widths):
            index = np.concatenate([items, first + np.arange(len(width))])
            terms.add_square(index, np.concatenate([a, width]), b, lam)
            first += len(width)
    elif formulation == "one_hot":
        b = int(capacities[0])
        level = n + np.arange(b)
        terms = bl.Terms(n + b)
        terms.add_square(level, 1.0, 1.0, lam)
        load = np.concatenate([-weights[0], np.arange(1.0, b + 1)])
        terms.add_square(np.concatenate([items, level]), load, 0.0, lam)
    else:
        # -l1 h + l2 h^2 of the room h = b - a.x, in units of the row, with the ratio 0.96 : 0.0371 of Montanez-Barrera
        # et al. (arXiv 2211.13914).
        terms = bl.Terms(n)
        for a, b in zip(weights, capacities):
            terms.add_linear(items, lam * 0.96 * a)
            terms.offset -= lam * 0.96 * b
            terms.add_square(items, a, b, lam * 0.0371)
    terms.add_linear(items, -values)
    return terms
