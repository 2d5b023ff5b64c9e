"""Items into several bins: generalised assignment and bin packing. An item may stay out."""

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
from qubo_relax.problems.base import (
    Problem,
    choices,
    implication_rows,
    numbers,
    pair_rows,
    readable,
    wide_range_warning,
)
from qubo_relax.problems.knapsack import TAU
from qubo_relax.problems.placement import Places

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SMALL_CAPACITY = 50


class _Bins(Problem):
    """What both share: a solution is the bin of each item, -1 for out."""

    def _weights(self) -> tuple[Floats, Floats]:
        """Weights (n, m) and capacities (m,)."""
        raise NotImplementedError

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self._weights()[0])

    def _whole(self) -> bool:
        weights, _ = self._weights()
        return bool((weights == np.rint(weights)).all())

    def _places(self) -> Places:
        if not self._whole():
            raise InvalidInput.argument("weights", expected='whole numbers for "placement"', got="fractions")
        return Places.of(*self._weights())

    def decode(self, x: ArrayLike, formulation: str | None = None) -> Ints:
        """The bin of each item, -1 for out; int of shape (n,)."""
        n, m = self._weights()[0].shape
        name = self._formulation(formulation)
        if name == "placement":
            places = self._places()
            z = self._point(np.asarray(x)[: places.item.size], places.item.size)
            where = np.full(n, -1)
            where[places.item[z]] = places.bin[z]
            return where
        z = self._point(np.asarray(x)[: n * m], n * m).reshape(n, m)
        return np.where(z.any(axis=1), z.argmax(axis=1), -1) if m else np.full(n, -1)

    def _where(self, solution: Any) -> Ints:
        n, m = self._weights()[0].shape
        return choices(solution, n, -1, m - 1)

    def _assigned(self, solution: Any, formulation: str | None) -> NDArray[np.int8]:
        where = self._where(solution)
        weights, _ = self._weights()
        name = self._formulation(formulation)
        if name == "placement":
            return self._places().lay(where, weights)
        if name != "price":
            raise InvalidInput.argument("formulation", expected="one without slack variables", got=name)
        return np.asarray(where[:, None] == np.arange(weights.shape[1])).astype(np.int8).ravel()

    def is_feasible(self, solution: Any) -> bool:
        """Whether no bin is overfull."""
        where = readable(self._where, solution)
        if where is None:
            return False
        weights, capacities = self._weights()
        load = np.zeros(capacities.size)
        inside = where >= 0
        np.add.at(load, where[inside], weights[inside, where[inside]])
        return bool((load <= capacities * (1 + 1e-12)).all())

    def start(self) -> Ints:
        """Everything out."""
        return np.full(self.n, -1)

    def _rows(self, size: int) -> list[LinearConstraint]:
        weights, capacities = self._weights()
        n, m = weights.shape
        rows = []
        for b in range(m):
            a = np.zeros(size)
            a[np.arange(n) * m + b] = weights[:, b]
            rows.append(LinearConstraint(a, "<=", capacities[b], f"bin {b}"))
        return rows + pair_rows(*self._same_item(), name="item twice")

    def _same_item(self) -> tuple[Ints, Ints]:
        n, m = self._weights()[0].shape
        return bl.group_pairs(np.repeat(np.arange(n), m))

    def _price_blocks(self, values: Floats, size: int, margin: float) -> tuple[bl.Prices, bl.Fixed]:
        """B5 with a row a bin over the variables ``item * m + bin``; `size` counts further ones, which weigh 0."""
        weights, capacities = self._weights()
        n, m = weights.shape
        rows = np.zeros((m, size))
        for b in range(m):
            rows[b, np.arange(n) * m + b] = weights[:, b]
        fixed = np.asarray((rows > capacities[:, None]).any(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (rows / capacities[:, None]).sum(axis=0)
            density = np.where(share > 0, values / share, np.inf)
        order = np.argsort(-density, kind="stable")
        unit = np.array([resolution(np.append(a, b)) for a, b in zip(rows, capacities)])
        rate = bl.price_rates(np.maximum(values, margin), rows, capacities, unit, rows > 0, fixed, TAU)
        return bl.Prices(rows, capacities, unit, order, rate, rows > 0), bl.Fixed(fixed, order)


def _check_weights(weights: Floats, capacities: Floats) -> None:
    wide_range_warning("weights", weights)
    if (weights < 0).any():
        raise InvalidInput.argument("weights", expected="weights >= 0", got=float(weights.min()))
    if (capacities <= 0).any():
        raise InvalidInput.argument("capacities", expected="capacities > 0", got=float(capacities.min()))


@dataclass(frozen=True, eq=False)
class GAP(_Bins):
    """Generalised assignment: put items into bins for most profit; an item may stay out.

    Parameters
    ----------
    profit : array_like of shape (n, m)
        Of item i in bin b.
    weights : array_like of shape (n, m) or (n,)
    capacities : array_like of shape (m,)

    Notes
    -----
    Placing all items is NP-hard to decide, so no formulation of this kind can promise it. "placement" (B11, certified
    and exact, whole weights) is the default up to capacity 50, else "price" (certified, n x m variables, biased);
    "slack_binary" is the usual one.
    """

    profit: ArrayLike
    weights: ArrayLike
    capacities: ArrayLike

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"placement": "certified", "price": "certified", "slack_binary": "classic"}
    )
    maximise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        v = numbers(self.profit, "profit", ndim=2)
        b = numbers(self.capacities, "capacities", shape=(v.shape[1],))
        a = check.array(self.weights, "weights", ndim=(1, 2))
        a = numbers(np.repeat(a[:, None], v.shape[1], axis=1) if a.ndim == 1 else a, "weights", ndim=2, shape=v.shape)
        _check_weights(a, b)
        for name, value in (("profit", v), ("weights", a), ("capacities", b)):
            object.__setattr__(self, name, value)

    def _weights(self) -> tuple[Floats, Floats]:
        return np.asarray(self.weights), np.asarray(self.capacities)

    @property
    def default(self) -> str:
        """The name "placement" where capacities are small and weights whole, else "price"."""
        small = self._whole() and float(np.max(self.capacities, initial=0.0)) <= SMALL_CAPACITY
        return "placement" if small else "price"

    @property
    def value_scale(self) -> float:
        """The largest absolute profit."""
        return float(np.max(np.abs(self.profit), initial=0.0))

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        profit = np.asarray(self.profit)
        n, m = profit.shape
        if formulation == "placement":
            places = self._places()
            value = profit[places.item, places.bin]
            terms = bl.Terms(value.size)
            terms.add_linear(np.arange(value.size), -value)
            i, j = places.conflicts()
            terms.add_pairs(i, j, np.maximum(np.minimum(value[i], value[j]), 0.0) + margin)
            return terms, (bl.Conflicts(i, j),)
        i, j = self._same_item()
        value = profit.ravel()
        if formulation == "price":
            terms = bl.Terms(n * m)
            prices, fixed = self._price_blocks(value, n * m, margin)
            terms.add_linear(np.arange(n * m), np.where(fixed.mask, margin, -value))
            terms.add_pairs(i, j, np.maximum(np.minimum(value[i], value[j]), 0.0) + margin)
            bl.add_prices(terms, prices, fixed.mask)
            return terms, (fixed, prices, bl.Conflicts(i, j))
        return self._classic(margin, penalty), ()

    def _classic(self, margin: float, penalty: float | None) -> bl.Terms:
        profit = np.asarray(self.profit)
        weights, capacities = self._weights()
        n, m = profit.shape
        lam = max(float(profit.max(initial=0.0)), 0.0) + margin if penalty is None else penalty
        widths = [bl.slack_widths(b) for b in capacities]
        terms = bl.Terms(n * m + sum(map(len, widths)))
        terms.add_linear(np.arange(n * m), -profit.ravel())
        i, j = self._same_item()
        terms.add_pairs(i, j, lam)
        first = n * m
        for b, width in enumerate(widths):
            index = np.concatenate([np.arange(n) * m + b, first + np.arange(len(width))])
            terms.add_square(index, np.concatenate([weights[:, b], width]), capacities[b], lam)
            first += len(width)
        return terms

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """Capacities and one bin an item, or the conflicts of placements."""
        if self._formulation(formulation) == "placement":
            return pair_rows(*self._places().conflicts(), name="conflict")
        return self._rows(np.asarray(self.profit).size)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of an assignment."""
        return self._assigned(solution, formulation)

    def objective(self, solution: Any) -> float:
        """Total profit."""
        s = self._where(solution)
        inside = np.flatnonzero(s >= 0)
        return float(np.asarray(self.profit)[inside, s[inside]].sum())

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Move, exchange and insert single items while the profit grows."""
        from qubo_relax.improve.bins import improve_gap

        return improve_gap(np.asarray(self.profit), *self._weights(), self._where(solution), rng, time_limit)


@dataclass(frozen=True, eq=False)
class BinPacking(_Bins):
    """Pack items into as few bins as possible; an item may stay out where the bins do not suffice.

    Parameters
    ----------
    weights : array_like of shape (n,)
        Each at most `capacity`.
    capacity : float
    bins : int, optional
        What first-fit decreasing needs when left out.

    Notes
    -----
    The objective counts bins used, and a bin for each item left out. "placement" (B11, certified; exact where `bins`
    is at least the optimum) up to capacity 50, else "price" (certified, biased); "one_hot" is the usual one.
    """

    weights: ArrayLike
    capacity: float
    bins: int | None = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"placement": "certified", "price": "certified", "one_hot": "classic"}
    )

    def __post_init__(self) -> None:
        a = numbers(self.weights, "weights")
        b = numbers([number(self.capacity, "capacity")], "capacity")
        _check_weights(a, b)
        if (a > b[0]).any():
            raise InvalidInput.argument("weights", expected="items that fit a bin", got=float(a.max()))
        object.__setattr__(self, "weights", a)
        object.__setattr__(self, "capacity", float(b[0]))
        from qubo_relax.improve.bins import first_fit

        count = int(first_fit(a, float(b[0])).max(initial=-1)) + 1
        object.__setattr__(self, "bins", count if self.bins is None else check.positive_int(self.bins, "bins"))

    def _weights(self) -> tuple[Floats, Floats]:
        m = int(self.bins or 0)
        return np.repeat(np.asarray(self.weights)[:, None], m, axis=1), np.full(m, self.capacity)

    @property
    def default(self) -> str:
        """The name "placement" where the capacity is small and weights whole, else "price"."""
        return "placement" if self._whole() and self.capacity <= SMALL_CAPACITY else "price"

    @property
    def value_scale(self) -> float:
        """1, the cost of a bin."""
        return 1.0

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        n, m = self.n, int(self.bins or 0)
        lam = 1.0 + margin
        reward = lam + margin
        if formulation == "placement":
            places = self._places()
            size, box = places.item.size, places.bin
            i, j = places.conflicts()
        else:
            size, box = n * m, np.tile(np.arange(m), n)
            i, j = self._same_item()
        z, y = np.arange(size), size + box
        if formulation == "one_hot":
            return self._classic(margin, penalty), ()
        terms = bl.Terms(size + m)
        terms.add_linear(size + np.arange(m), 1.0)
        terms.add_linear(z, -reward)
        terms.add_pairs(i, j, reward + margin)
        terms.add_implications(z, y, lam)
        blocks: list[bl.Block] = [bl.Conflicts(i, j), bl.Implications(z, y)]
        if formulation == "price":
            values = np.concatenate([np.full(size, reward), np.zeros(m)])
            prices, fixed = self._price_blocks(values, size + m, margin)
            bl.add_prices(terms, prices, fixed.mask)
            blocks += [fixed, prices]
        return terms, tuple(blocks)

    def _classic(self, margin: float, penalty: float | None) -> bl.Terms:
        n, m, lam = self.n, int(self.bins or 0), 1.0 + margin if penalty is None else penalty
        width = bl.slack_widths(self.capacity)
        terms = bl.Terms(n * m + m + m * len(width))
        terms.add_linear(n * m + np.arange(m), 1.0)
        for i in range(n):
            terms.add_square(i * m + np.arange(m), 1.0, 1.0, lam)
        for b in range(m):
            slack = n * m + m + b * len(width) + np.arange(len(width))
            index = np.concatenate([np.arange(n) * m + b, slack, [n * m + b]])
            terms.add_square(index, np.concatenate([np.asarray(self.weights), width, [-self.capacity]]), 0.0, lam)
        return terms

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """No overfull bin, no item twice, no item in a closed bin."""
        n, m = self.n, int(self.bins or 0)
        if self._formulation(formulation) == "placement":
            places = self._places()
            size = places.item.size
            rows = pair_rows(*places.conflicts(), name="conflict")
            return rows + implication_rows(np.arange(size), size + places.bin, "needs bin")
        rows = self._rows(n * m + m)
        return rows + implication_rows(np.arange(n * m), n * m + np.tile(np.arange(m), n), "needs bin")

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a packing; a bin is open where used."""
        s = self._where(solution)
        opened = np.isin(np.arange(int(self.bins or 0)), s).astype(np.int8)
        return np.concatenate([self._assigned(solution, formulation), opened])

    def objective(self, solution: Any) -> float:
        """Bins used, plus one for each item left out."""
        s = self._where(solution)
        return float(np.unique(s[s >= 0]).size + (s < 0).sum())

    def bound(self) -> float:
        """Total weight over capacity, rounded up."""
        return float(np.ceil(np.asarray(self.weights).sum() / self.capacity - 1e-9))

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Place what was left out, empty bins into others, and compare with first-fit decreasing."""
        from qubo_relax.improve.bins import improve_bins

        best = improve_bins(np.asarray(self.weights), self.capacity, int(self.bins or 0), self._where(solution))
        return min([self._where(solution), best], key=self.objective)
