"""Open-pit mining: choose blocks, each with all the blocks above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint, resolution
from qubo_relax.precedence import check_arcs, closure_pairs, levels
from qubo_relax.problems.base import Problem, choices, implication_rows, mask, numbers, readable, wide_range_warning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TAU = 0.5


@dataclass(frozen=True)
class PitModel:
    """A pit as arrays over (block, period) variables: what the formulations and the exact methods read."""

    value: Floats
    arcs: Ints
    weights: Floats
    capacity: Floats


@dataclass(frozen=True, eq=False)
class OpenPit(Problem):
    """The ultimate pit, with capacity rows, several periods or a quadratic risk where given.

    Parameters
    ----------
    value : array_like of shape (n,)
        Profit of each block; negative for waste.
    arcs : array_like of int of shape (m, 2)
        ``(i, j)``: block i needs block j to be taken too. Acyclic.
    resource : array_like of shape (d, n) or (n,), optional
        Amounts >= 0 that a block uses of each resource.
    capacity : array_like of shape (d,) or (d, periods), optional
        What there is of each resource (in each period).
    periods : int, optional
        Then a variable says that a block is gone by the end of a period, and capacities are cumulative.
    discount : float or sequence of float, optional
        Factor a period in (0, 1], or the factor of each period, not increasing; 1 when left out.
    risk : array_like of shape (n, n), optional
        Symmetric C: the objective becomes ``v.x - x'Cx``.

    Notes
    -----
    Without rows or risk this is a maximum closure: `solve_exact` solves it by max-flow in milliseconds and is the
    method to use. The formulations: "closure" (certified, exact), "removal" (certified, exact), "accumulated"
    (certified, exact, immediate arcs only), "direct" (the usual one; refuted for every penalty), "price" (certified
    with capacity rows, its objective discounted), "slack_binary" (the usual one with rows).
    """

    value: ArrayLike
    arcs: ArrayLike
    resource: ArrayLike | None = None
    capacity: ArrayLike | None = None
    periods: int | None = None
    discount: float | Sequence[float] | None = None
    risk: ArrayLike | None = None

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "closure": "certified",
            "removal": "certified",
            "accumulated": "certified",
            "price": "certified",
            "direct": "classic",
            "slack_binary": "classic",
        }
    )
    maximise: ClassVar[bool] = True
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "anneal"})

    def __post_init__(self) -> None:
        v = numbers(self.value, "value")
        n = v.size
        wide_range_warning("value", v)
        self._set("value", v)
        self._set("arcs", check_arcs(self.arcs, n))
        if (self.resource is None) != (self.capacity is None):
            raise InvalidInput.argument("capacity", expected="resource and capacity together", got="one of them")
        periods = 1 if self.periods is None else check.positive_int(self.periods, "periods")
        if self.resource is not None:
            a = check.array(np.asarray(self.resource), "resource", ndim=(1, 2))
            a = numbers(np.atleast_2d(a), "resource", ndim=2)
            if a.shape[1] != n:
                raise InvalidInput.argument("resource", expected=f"shape (d, {n})", got=f"shape {a.shape}")
            if (a < 0).any():
                raise InvalidInput.argument(
                    "resource", expected="amounts >= 0 (complement the variable)", got="negative"
                )
            b = np.atleast_1d(check.array(np.asarray(self.capacity), "capacity", ndim=(0, 1, 2)))
            b = numbers(b[:, None] if b.ndim == 1 else b, "capacity", ndim=2)
            if b.shape[0] != a.shape[0] or b.shape[1] not in (1, periods):
                want = f"shape ({a.shape[0]},) or ({a.shape[0]}, {periods})"
                raise InvalidInput.argument("capacity", expected=want, got=f"shape {b.shape}")
            if n and (b <= 0).any():
                raise InvalidInput.argument("capacity", expected="numbers > 0", got=float(b.min()))
            self._set("resource", a)
            self._set("capacity", b)
        if self.risk is not None:
            C = numbers(self.risk, "risk", ndim=2, shape=(n, n))
            if not np.allclose(C, C.T, rtol=1e-12, atol=0):
                raise InvalidInput.argument("risk", expected="a symmetric matrix", got="an unsymmetric one")
            if periods > 1:
                raise InvalidInput.argument("risk", expected="None with several periods", got="a matrix")
            self._set("risk", C)
        self._set("discount", self._factors(periods))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _factors(self, periods: int) -> Floats:
        given: Any = self.discount
        d: Floats = np.ones(periods)
        if given is not None and np.ndim(given) == 0:
            d = np.power(check.in_range(given, "discount", 0.0, 1.0, low_open=True), np.arange(float(periods)))
        elif given is not None:
            d = numbers(given, "discount", shape=(periods,))
        if (d <= 0).any() or (np.diff(d) > 0).any() or not np.isfinite(d).all():
            raise InvalidInput.argument("discount", expected="factors > 0 that do not increase", got=self.discount)
        return d

    @property
    def n(self) -> int:
        """Number of blocks."""
        return int(np.size(self.value))

    @property
    def n_periods(self) -> int:
        """Number of periods, 1 when there is only one."""
        return 1 if self.periods is None else int(self.periods)

    @property
    def default(self) -> str:
        """The name "price" with capacity rows, "closure" without."""
        return "closure" if self.resource is None else "price"

    @property
    def value_scale(self) -> float:
        """The largest absolute value of a block."""
        return float(np.max(np.abs(self.value), initial=0.0))

    def model(self) -> PitModel:
        """The pit over its (block, period) variables, variable ``i * periods + t``."""
        v, arcs, T = np.asarray(self.value), np.asarray(self.arcs), self.n_periods
        step = np.asarray(self.discount) - np.append(np.asarray(self.discount)[1:], 0.0)
        value = (v[:, None] * step).ravel()
        base, t = np.arange(self.n) * T, np.arange(T)
        across = (arcs[:, None, :] * T + t[None, :, None]).reshape(-1, 2)
        along = np.stack([base[:, None] + t[:-1], base[:, None] + t[1:]], axis=-1).reshape(-1, 2)
        weights, capacity = np.zeros((0, self.n * T)), np.zeros(0)
        if self.resource is not None:
            a, b = np.asarray(self.resource), np.asarray(self.capacity)
            total = np.cumsum(np.broadcast_to(b, (len(b), T)), axis=1)
            weights = np.zeros((len(a), T, self.n * T))
            for k in range(T):
                weights[:, k, base + k] = a
            weights, capacity = weights.reshape(-1, self.n * T), total.ravel()
        return PitModel(value, np.concatenate([across, along]).astype(np.int64), weights, capacity)

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        m = self.model()
        n = m.value.size
        if self.resource is not None and formulation in ("closure", "removal", "accumulated", "direct"):
            raise InvalidInput.argument("formulation", expected='"price" or "slack_binary" with rows', got=formulation)
        size = n
        if formulation == "slack_binary":
            bits = [bl.slack_widths(b) for b in m.capacity]
            size += sum(map(len, bits))
        terms = bl.Terms(size)
        cost, up, down = self._objective(terms, m.value)
        if formulation == "price":
            return price_terms(terms, m, margin, cost, down)
        terms.add_linear(np.arange(n), cost)
        if formulation in ("direct", "slack_binary"):
            lam = (self.value_scale or 1.0) + margin if penalty is None else penalty
            if formulation == "direct":
                terms.add_implications(m.arcs[:, 0], m.arcs[:, 1], lam)
                return terms, ()
            child, parent = closure_pairs(n, m.arcs)
            terms.add_implications(child, parent, np.maximum(cost + up, 0.0)[parent] + margin)
            first = n
            for a, b, width in zip(m.weights, m.capacity, bits):
                index = np.concatenate([np.arange(n), first + np.arange(len(width))])
                terms.add_square(index, np.concatenate([a, width]), b, lam)
                first += len(width)
            return terms, ()
        return closure_terms(
            terms, formulation, m.arcs, margin, np.maximum(cost + up, 0.0), np.maximum(down - cost, 0.0)
        )

    def _objective(self, terms: bl.Terms, value: Floats) -> tuple[Floats, Floats, Floats]:
        """Adds the risk pairs; the linear costs and what couplings add to entering and to staying."""
        if self.risk is None:
            return -value, np.zeros(value.size), np.zeros(value.size)
        C = np.asarray(self.risk)
        i, j = np.nonzero(np.triu(C, 1))
        terms.add_pairs(i, j, 2 * C[i, j])
        off = 2 * (C - np.diag(np.diag(C)))
        return np.diag(C) - value, np.maximum(off, 0).sum(axis=1), np.maximum(-off, 0).sum(axis=1)

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """One row an immediate arc, and the (cumulative) capacity rows."""
        self._formulation(formulation)
        m = self.model()
        rows = implication_rows(m.arcs[:, 0], m.arcs[:, 1])
        return rows + [
            LinearConstraint(a, "<=", b, f"capacity {k}") for k, (a, b) in enumerate(zip(m.weights, m.capacity))
        ]

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[Any]:
        """The blocks taken, bool of shape (n,); with periods the first period each is gone, -1 for never."""
        p = np.asarray(x)[: self.n * self.n_periods]
        z = self._point(p, self.n * self.n_periods).reshape(self.n, self.n_periods)
        if self.periods is None:
            return z[:, 0]
        return np.where(z.any(axis=1), z.argmax(axis=1), -1)

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of a pit (or of a schedule); not for "slack_binary", whose slack it would have to invent."""
        if self._formulation(formulation) == "slack_binary":
            raise InvalidInput.argument("formulation", expected="one without slack variables", got="slack_binary")
        s = self._pit(solution)
        if self.periods is None:
            return s.astype(np.int8)
        t = np.arange(self.n_periods)
        return ((s[:, None] >= 0) & (t >= s[:, None])).astype(np.int8).ravel()

    def _pit(self, solution: Any) -> NDArray[Any]:
        if self.periods is None:
            return mask(solution, self.n)
        return choices(solution, self.n, -1, self.n_periods - 1)

    def objective(self, solution: Any) -> float:
        """Discounted value, less the risk."""
        s = self._pit(solution)
        if self.periods is not None:
            taken = s >= 0
            return float(np.asarray(self.value)[taken] @ np.asarray(self.discount)[s[taken]])
        x = s.astype(np.float64)
        risk = 0.0 if self.risk is None else float(x @ np.asarray(self.risk) @ x)
        return float(np.asarray(self.value) @ x) - risk

    def is_feasible(self, solution: Any) -> bool:
        """Every needed block is there (in time) and no (cumulative) capacity is exceeded."""
        s = readable(self._pit, solution)
        if s is None:
            return False
        m = self.model()
        x = self.encode(s, self.default).astype(np.float64)
        fits = m.weights @ x <= m.capacity * (1 + 1e-9)
        return bool(fits.all() and (x[m.arcs[:, 0]] <= x[m.arcs[:, 1]]).all())

    def start(self) -> NDArray[Any]:
        """The empty pit."""
        return np.zeros(self.n, dtype=bool) if self.periods is None else np.full(self.n, -1)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[Any]:
        """Cone moves and max-flow windows; with rows Lagrangian pits and iterated repair; with periods in sequence."""
        from qubo_relax.improve.pits import improve_pit

        return np.asarray(improve_pit(self, self._pit(solution), rng, time_limit))

    def sequence(self, rng: Any = 0, time_limit: float | None = None) -> NDArray[Any]:
        """A schedule that keeps each period's OWN capacity, which cumulative rows do not ask for: period after period.

        Rows of single periods are differences of two variables, for which there is no structural certificate; this is
        the method for them. `improve` looks further, within the cumulative rows.

        Raises
        ------
        InvalidInput
            Without periods.
        """
        from qubo_relax.improve.pits import in_sequence

        if self.periods is None:
            raise InvalidInput.argument("periods", expected="a number of periods", got=None)
        return in_sequence(self, rng, time_limit)

    def solve_exact(self, time_limit: float | None = None) -> NDArray[Any] | None:
        """Max-flow for the ultimate pit; HiGHS with rows, periods or risk."""
        from qubo_relax.exact import solve_pit

        return solve_pit(self, time_limit)

    def bound(self) -> float | None:
        """The optimum by max-flow; with rows a Lagrangian bound; None with risk of mixed couplings."""
        from qubo_relax.improve.lagrange import pit_bound

        return pit_bound(self)

    def plot(self, solution: Any, ax: Any = None, *, width: int | None = None) -> Any:
        """A section (or the plan of depths) of the pit."""
        from qubo_relax.plots import plot_pit

        return plot_pit(self, solution, ax, width=width)


def closure_terms(
    terms: bl.Terms, formulation: str, arcs: Ints, margin: float, cost: Floats, value: Floats
) -> tuple[bl.Terms, Sequence[bl.Block]]:
    """B3 in one of its three weightings; `cost` and `value` are what a block can lose by entering and by leaving."""
    n = cost.size
    if formulation == "accumulated":
        weight = accumulated_weights(n, arcs, cost + margin)
        size = value[value > 0]
        if weight.max(initial=0.0) > 1e12 * (size.min() if size.size else margin or 1.0):
            raise InvalidInput.argument("formulation", expected="weights within 1e12 of the values", got="accumulated")
        terms.add_implications(arcs[:, 0], arcs[:, 1], weight[arcs[:, 1]])
        return terms, (bl.Implications(arcs[:, 0], arcs[:, 1], transitive=False),)
    child, parent = closure_pairs(n, arcs)
    if formulation == "closure":
        terms.add_implications(child, parent, cost[parent] + margin)
        return terms, (bl.Implications(child, parent),)
    terms.add_implications(child, parent, value[child] + margin)
    return terms, (bl.Removals(child, parent),)


def accumulated_weights(n: int, arcs: Ints, own: Floats) -> Floats:
    """``L_j = own_j + sum over parents l of L_l``: grows with the number of paths, so it can overflow."""
    level = levels(n, arcs)
    weight = own.copy()
    by_level = arcs[np.argsort(level[arcs[:, 0]], kind="stable")]
    starts = np.searchsorted(level[by_level[:, 0]], np.arange(level.max(initial=0) + 2))
    for a, b in pairwise(starts):
        np.add.at(weight, by_level[a:b, 0], weight[by_level[a:b, 1]])
    return weight


def price_terms(
    terms: bl.Terms, m: PitModel, margin: float, cost: Floats, down: Floats
) -> tuple[bl.Terms, Sequence[bl.Block]]:
    """B3 by removal with B5: `cost` is linear, `down` what couplings add to the loss of a block that leaves."""
    n = m.value.size
    child, parent = closure_pairs(n, m.arcs)
    fixed = np.asarray((m.weights > m.capacity[:, None]).any(axis=0))
    fixed = fixed | (np.bincount(child, fixed[parent], minlength=n) > 0)
    relevant = m.weights > 0
    for k in range(len(m.weights)):
        relevant[k] |= np.bincount(child, m.weights[k][parent] > 0, minlength=n) > 0
    loss = np.maximum(down - cost, 0.0)
    ancestors = np.bincount(child, minlength=n)
    order = np.lexsort((cost, ancestors))
    unit = np.array([resolution(np.append(a, b)) for a, b in zip(m.weights, m.capacity)])
    rate = bl.price_rates(np.maximum(loss, margin), m.weights, m.capacity, unit, relevant, fixed, TAU)
    prices = bl.Prices(m.weights, m.capacity, unit, order, rate, relevant)
    terms.add_linear(np.arange(n), np.where(fixed, margin + down, cost))
    weight = np.where(fixed, 0.0, loss) + margin
    terms.add_implications(child, parent, weight[child])
    bl.add_prices(terms, prices, fixed)
    return terms, (bl.Fixed(fixed, order), bl.Removals(child, parent), prices)
