"""Covering sets and locating facilities: assign everything, open what is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems.base import Problem, choices, implication_rows, mask, numbers, readable, wide_range_warning
from qubo_relax.problems.cuts import one_each
from qubo_relax.problems.graphs import incidence, vertex_weights
from qubo_relax.problems.knapsack import price_block

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def assign_open_terms(
    opening: Floats, client: Ints, facility: Ints, cost: Floats, margin: float, penalty: float | None
) -> tuple[bl.Terms, Sequence[bl.Block]]:
    """B8 over the variables ``x_j`` (open), then a ``y`` for each allowed (client, facility); penalty: the usual form.

    ``lam_j > F_j``, ``R_i > max_j (d_ij + lam_j)``, ``G_i > R_i`` less the cheapest assignment.
    """
    m, y = opening.size, opening.size + np.arange(client.size)
    count = int(client.max(initial=-1)) + 1
    terms = bl.Terms(m + client.size)
    terms.add_linear(np.arange(m), opening)
    terms.add_linear(y, cost)
    group = np.concatenate([np.full(m, -1), client])
    if penalty is not None:
        for i in range(count):
            terms.add_square(y[client == i], 1.0, 1.0, penalty)
        terms.add_implications(y, facility, penalty)
        return terms, ()
    lam = np.maximum(opening, 0.0) + margin
    reward, least = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(reward, client, cost + lam[facility])
    np.minimum.at(least, client, cost)
    reward = np.maximum(reward + margin, 0.0)
    terms.add_linear(y, -reward[client])
    terms.add_implications(y, facility, lam[facility])
    p, q = bl.group_pairs(group)
    conflict = np.maximum(reward - least, 0.0) + margin
    terms.add_pairs(p, q, conflict[group[p]])
    return terms, (bl.Implications(y, facility), bl.Groups(group))


@dataclass(frozen=True, eq=False)
class FacilityLocation(Problem):
    """Open facilities and serve every client from an open one at least total cost.

    Parameters
    ----------
    cost : array_like of shape (clients, facilities)
    opening : array_like of shape (facilities,)

    Notes
    -----
    The solution is the facility of each client; a facility is open where it has a client. "assign_open" (B8,
    certified and exact), "one_hot" the usual squared equality.
    """

    cost: ArrayLike
    opening: ArrayLike

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"assign_open": "certified", "one_hot": "classic"})

    def __post_init__(self) -> None:
        d = numbers(self.cost, "cost", ndim=2)
        wide_range_warning("cost", d)
        object.__setattr__(self, "cost", d)
        object.__setattr__(self, "opening", numbers(self.opening, "opening", shape=(d.shape[1],)))
        if d.shape[0] and not d.shape[1]:
            raise InvalidInput.argument("cost", expected="at least one facility", got=f"shape {d.shape}")

    @property
    def value_scale(self) -> float:
        """The largest absolute cost."""
        return max(float(np.max(np.abs(a), initial=0.0)) for a in (np.asarray(self.cost), np.asarray(self.opening)))

    def _pairs(self) -> tuple[Ints, Ints]:
        c, m = np.asarray(self.cost).shape
        return np.repeat(np.arange(c), m), np.tile(np.arange(m), c)

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        client, facility = self._pairs()
        d, F = np.asarray(self.cost), np.asarray(self.opening)
        classic = None if formulation == "assign_open" else ((self.value_scale or 1.0) if penalty is None else penalty)
        return assign_open_terms(F, client, facility, d.ravel(), margin, classic)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """One facility a client, and it must be open."""
        client, facility = self._pairs()
        m = np.asarray(self.cost).shape[1]
        rows = implication_rows(m + np.arange(client.size), facility, "needs facility")
        return rows + one_each(np.concatenate([np.full(m, -1), client]), "client")

    def decode(self, x: ArrayLike, formulation: str | None = None) -> Ints:
        """The facility of each client, -1 for none."""
        c, m = np.asarray(self.cost).shape
        y = self._point(x, m + c * m)[m:].reshape(c, m)
        return np.where(y.any(axis=1), y.argmax(axis=1), -1) if m else np.zeros(0, dtype=np.int64)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of an assignment, open where used."""
        s = self._assigned(solution)
        m = np.asarray(self.cost).shape[1]
        opened = np.isin(np.arange(m), s)
        return np.concatenate([opened, (s[:, None] == np.arange(m)).ravel()]).astype(np.int8)

    def _assigned(self, solution: Any) -> Ints:
        if not self.is_feasible(solution):
            raise InvalidInput.argument("solution", expected="the facility of each client", got=solution)
        return np.asarray(solution).astype(np.int64)

    def objective(self, solution: Any) -> float:
        """Cost of assigning plus cost of opening what is used (what pays for being opened is open too)."""
        s = self._assigned(solution)
        d, F = np.asarray(self.cost), np.asarray(self.opening)
        opened = np.isin(np.arange(F.size), s) | (F < 0)
        return float(d[np.arange(s.size), s].sum() + F[opened].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether every client has a facility."""
        c, m = np.asarray(self.cost).shape
        return readable(lambda s: choices(s, c, 0, m - 1), solution) is not None

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Ints:
        """Open, close or exchange single facilities, each client going to its cheapest open one."""
        from qubo_relax.improve.local import improve_facilities

        s = self._assigned(solution)
        if not s.size:
            return s
        d, F = np.asarray(self.cost), np.asarray(self.opening)
        opened = improve_facilities(d, F, np.isin(np.arange(F.size), s))
        best = np.flatnonzero(opened)[d[:, opened].argmin(axis=1)]
        return best if self.objective(best) < self.objective(s) else s


@dataclass(frozen=True, eq=False)
class SetCover(Problem):
    """Choose sets that cover all elements at least cost.

    Parameters
    ----------
    sets : sequence of iterables of hashable
        The elements are those that occur.
    costs : array_like of shape (len(sets),), optional
        Not negative; ones when left out.

    Notes
    -----
    "assign_open" (B8, certified and exact: each element is assigned to a set that covers it), "price" (certified, no
    extra variables: the complement is a packing; its objective is biased), "slack_binary" the usual one.
    """

    sets: Any
    costs: Any = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"assign_open": "certified", "price": "certified", "slack_binary": "classic"}
    )

    def __post_init__(self) -> None:
        M = incidence(self.sets)
        object.__setattr__(self, "sets", M)
        w = vertex_weights(self.costs, M.shape[0], "costs")
        if (w < 0).any():
            raise InvalidInput.argument("costs", expected="numbers >= 0", got=float(w.min()))
        object.__setattr__(self, "costs", w)

    @property
    def n(self) -> int:
        """Number of sets."""
        return int(self.sets.shape[0])

    @property
    def value_scale(self) -> float:
        """The largest cost."""
        return float(np.max(np.abs(self.costs), initial=0.0))

    def _pairs(self) -> tuple[Ints, Ints]:
        member = self.sets.T.tocoo()
        return member.coords[0].astype(np.int64), member.coords[1].astype(np.int64)

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        cost = np.asarray(self.costs)
        element, owner = self._pairs()
        if formulation == "assign_open":
            return assign_open_terms(cost, element, owner, np.zeros(element.size), margin, None)
        M = self.sets.T.toarray()
        if formulation == "price":
            # z = 1 - x is a packing: of each element's sets not all may be left out.
            prices, fixed = price_block(cost, M, np.maximum(M.sum(axis=1) - 1, 0), margin)
            terms = bl.Terms(self.n)
            terms.add_linear(np.arange(self.n), np.where(fixed.mask, margin, -cost))
            bl.add_prices(terms, prices, fixed.mask)
            terms.offset += float(cost.sum())
            return terms, (fixed, prices)
        lam = (self.value_scale or 1.0) + margin if penalty is None else penalty
        widths = [bl.slack_widths(float(row.sum() - 1)) for row in M]
        terms = bl.Terms(self.n + sum(map(len, widths)))
        first = self.n
        for row, width in zip(M, widths):
            index = np.concatenate([np.flatnonzero(row), first + np.arange(len(width))])
            terms.add_square(index, np.concatenate([np.ones(int(row.sum())), -np.array(width)]), 1.0, lam)
            first += len(width)
        terms.add_linear(np.arange(self.n), cost)
        return terms, ()

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """Each element covered; in "assign_open" by an assignment to a chosen set, in "price" over the complement."""
        name = self._formulation(formulation)
        if name == "assign_open":
            element, owner = self._pairs()
            rows = implication_rows(self.n + np.arange(element.size), owner, "needs set")
            return rows + one_each(np.concatenate([np.full(self.n, -1), element]), "element")
        M = self.sets.T.toarray()
        if name == "price":
            return [LinearConstraint(row, "<=", row.sum() - 1, f"element {e}") for e, row in enumerate(M)]
        return [LinearConstraint(row, ">=", 1.0, f"element {e}") for e, row in enumerate(M)]

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """The sets chosen, bool of shape (n,)."""
        chosen = self._point(np.asarray(x)[: self.n], self.n)
        return ~chosen if self._formulation(formulation) == "price" else chosen

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a cover, each element assigned to its first chosen set."""
        name = self._formulation(formulation)
        s = self._point(np.asarray(solution), self.n)
        if name == "price":
            return (~s).astype(np.int8)
        if name != "assign_open":
            raise InvalidInput.argument("formulation", expected="one without slack variables", got=name)
        element, owner = self._pairs()
        y = np.zeros(element.size, dtype=np.int8)
        usable = np.flatnonzero(s[owner])
        y[usable[np.unique(element[usable], return_index=True)[1]]] = 1
        return np.concatenate([s.astype(np.int8), y])

    def objective(self, solution: Any) -> float:
        """Total cost."""
        return float(np.asarray(self.costs)[mask(solution, self.n)].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether every element is covered."""
        s = readable(lambda x: mask(x, self.n), solution)
        return s is not None and bool((self.sets.T @ s.astype(np.float64) > 0).all())

    def start(self) -> NDArray[np.bool_]:
        """All sets."""
        return np.ones(self.n, dtype=bool)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Drop what is not needed; take sets out at random and cover greedily again."""
        from qubo_relax.improve.local import improve_cover

        return improve_cover(self.sets, np.asarray(self.costs), mask(solution, self.n), rng)
