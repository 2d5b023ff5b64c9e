"""The learner of the paper, its budgeted penalty, and what every learner of this package shares."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import one_of

from oco_anytime.certificate import STATUSES, Certificate, static_regret_bound
from oco_anytime.domains.base import Domain, positive, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

STATE_VERSION = 1
_F8 = np.dtype(np.float64)
_PENALTIES = {"none": 0, "lyapunov": 1, "budgeted": 2}
_SCHEDULES = {"sqrt": 0, "summable": 1, "fixed": 2}
_CLOCKS = {"rounds": 0, "violations": 1}
_AGGREGATES = {"max": 0, "sum": 1, "each": 2}


class Learner(ABC):
    """The interface of every learner: `predict`, `update`, `certificate`, `state_dict`.

    Attributes
    ----------
    domain : Domain
    """

    domain: Domain

    @abstractmethod
    def predict(self) -> Vector:
        """The decision x_t: shape (d,), float64, read-only; the same until the next `update`."""

    @abstractmethod
    def update(self, cost_grad: ArrayLike, violation: ArrayLike = 0.0, violation_grad: ArrayLike | None = None) -> Self:
        """Take in the round: gradients at the point that `predict` returned. Returns self."""

    @abstractmethod
    def certificate(self) -> Certificate:
        """What is guaranteed so far."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The whole state: a new dictionary of numbers, strings and arrays (`oco_anytime.state.to_json` writes it)."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take over a state from a learner built with the same arguments; the next rounds equal its bit for bit."""

    def observe(
        self, cost: Callable[[Vector], tuple[float, ArrayLike]], constraint: Callable[[Vector], Any] | None = None
    ) -> Self:
        """Evaluate the round's functions at the decision and update.

        Parameters
        ----------
        cost : callable
            ``x -> (value, gradient)``.
        constraint : callable, optional
            ``x -> (value, gradient)``; satisfied where the value is at most 0. For m constraints ``(values, rows)``.

        Returns
        -------
        Learner
            Itself.
        """
        x = self.predict()
        _, grad = cost(x)
        if constraint is None:
            return self.update(grad)
        value, row = constraint(x)
        return self.update(grad, value, row)


def scales(lipschitz: Any) -> tuple[float, float] | None:
    """The argument `lipschitz` as (Gf, Ga), or None when they are to be learned."""
    if lipschitz is None:
        return None
    pair = (lipschitz, lipschitz) if np.ndim(lipschitz) == 0 else tuple(lipschitz)
    if len(pair) != 2:
        raise InvalidInput.argument("lipschitz", expected="None, a number, or a pair (Lf, La)", got=lipschitz)
    return positive(pair[0], "lipschitz"), positive(pair[1], "lipschitz")


class _Round:
    """One round's constraint input, checked: the door of every `update`."""

    def __init__(self, dim: int) -> None:
        self.dim, self.shape = dim, (dim,)
        self.m = 0  # unknown until a violation or a vector of them comes
        self._no_rows = np.zeros((0, dim))
        self._scalar = np.zeros(1)
        self._row = (1, dim)

    def cost(self, c: ArrayLike) -> Vector:
        if type(c) is np.ndarray and c.dtype is _F8 and c.shape == self.shape and c.flags.carray:
            return c
        return vector(c, "cost_grad", self.dim, finite=False)

    def constraint(self, violation: ArrayLike, grad: ArrayLike | None) -> tuple[Vector, Vector]:
        """Violations of shape (m,) and gradients of shape (m, d); gradients have no rows if nothing is violated."""
        if isinstance(violation, float | int) or np.ndim(violation) == 0:
            value = _number(violation)
            if value <= 0.0:
                v = self._scalar
                v[0] = 0.0
                return v if self.m <= 1 else np.zeros(self.m), self._no_rows
            if self.m > 1:
                raise InvalidInput.argument("violation", expected=f"shape ({self.m},) as before", got="a number")
            v = self._scalar
            v[0] = value
        else:
            v = vector(violation, "violation", self.m if self.m > 1 else None, finite=False)
            if v.size == 0:
                self._scalar[0] = 0.0
                return self._scalar, self._no_rows
            if self.m == 1 and v.size > 1:
                raise InvalidInput.argument("violation", expected="one constraint as before", got=f"shape {v.shape}")
            if np.isnan(v).any():
                raise InvalidInput.argument("violation", expected="finite numbers", got="NaN")
            if not (v > 0.0).any():
                return v, self._no_rows
        return v, self._rows(grad, v.size)

    def _rows(self, grad: ArrayLike | None, m: int) -> Vector:
        if grad is None:
            raise InvalidInput.argument(
                "violation_grad", expected="a subgradient, since the violation is positive", got="None"
            )
        if type(grad) is np.ndarray and grad.dtype is _F8 and grad.flags.carray:
            a = grad
        else:
            try:
                a = np.require(np.asarray(grad, dtype=_F8), requirements=["C", "W", "A"])
            except (TypeError, ValueError):
                raise InvalidInput.argument("violation_grad", expected="numbers", got=type(grad).__name__) from None
        if a.ndim == 1 and m == 1:
            a = a.reshape(1, -1)
        if a.shape != (m, self.dim):
            raise InvalidInput.argument("violation_grad", expected=f"shape ({m}, {self.dim})", got=f"shape {a.shape}")
        return a


def _number(value: Any) -> float:
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise InvalidInput.argument("violation", expected="a finite number", got=value) from None
    if not math.isfinite(x):
        raise InvalidInput.argument("violation", expected="a finite number", got=x)
    return x


class PenaltyLearner(Learner):
    """Adaptive projected gradient steps on cost plus weighted violation: the engine under `AnytimeCOCO`.

    The subclasses fix the options; see `AnytimeCOCO` for their meaning.
    """

    _compiled_loop = True

    def __init__(
        self,
        domain: Domain,
        *,
        lipschitz: Any = None,
        penalty: str,
        schedule: str,
        clock: str,
        regret_budget: float = 2.0,
        pace: float = 2.0,
        eps: float = 0.3,
        aggregate: str = "max",
        tangent: bool = False,
        x0: ArrayLike | None = None,
        diameter: float | None = None,
        check: bool = True,
        horizon: float = 0.0,
        doubling: bool = False,
    ) -> None:
        from oco_anytime import kernels as k

        if not isinstance(domain, Domain):
            raise InvalidInput.argument("domain", expected="a domain of oco_anytime.domains", got=type(domain).__name__)
        self._k = k
        self.domain = domain
        given = scales(lipschitz)
        self._given_rows = given[1] if given else 0.0
        self.aggregate = one_of(aggregate, "aggregate", _AGGREGATES)
        cfg = np.zeros(k.N_CFG)
        cfg[k.C_D] = domain.diameter if diameter is None else positive(diameter, "diameter")
        cfg[k.C_W0] = positive(regret_budget, "regret_budget")
        cfg[k.C_PACE] = positive(pace, "pace")
        cfg[k.C_EPS] = positive(eps, "eps")
        cfg[k.C_PENALTY] = _PENALTIES[penalty]
        cfg[k.C_SCHEDULE] = _SCHEDULES[schedule]
        cfg[k.C_CLOCK] = _CLOCKS[clock]
        cfg[k.C_AGG] = _AGGREGATES[aggregate]
        cfg[k.C_KNOWN] = given is not None
        cfg[k.C_HORIZON], cfg[k.C_DOUBLING] = horizon, doubling
        cfg[k.C_CD], cfg[k.C_LAM] = math.sqrt(2.0) * cfg[k.C_D], 1.0
        self._cfg = cfg
        self._s = np.zeros(k.N_STATE)
        self._s[k.UNIT] = self._s[k.EPOCHS] = 1.0
        self._s[k.REACH] = cfg[k.C_D]
        if given:
            self._s[k.GF], self._s[k.GA] = given
        self._z, self._n, self._ccv = np.zeros(1), np.zeros(1), np.zeros(1)
        self._tangent, self._check = bool(tangent), bool(check)
        self._round = _Round(domain.dim)
        self._set = domain.compiled()
        self._x = self._start(x0)
        self._view: Vector | None = None
        self._warned = False

    def _start(self, x0: ArrayLike | None) -> Vector:
        if x0 is None:
            return self.domain.project(self.domain.center())
        x = vector(x0, "x0", self.domain.dim)
        if not self.domain.contains(x, 1e-9):
            raise InvalidInput.argument("x0", expected="a point of the domain", got=str(x))
        return x.copy()

    def predict(self) -> Vector:
        """The decision x_t.

        Returns
        -------
        numpy.ndarray, shape (d,), float64
            Read-only; later rounds do not change it.
        """
        if self._view is None:
            self._view = self._x.view()
            self._view.flags.writeable = False
        return self._view

    def update(self, cost_grad: ArrayLike, violation: ArrayLike = 0.0, violation_grad: ArrayLike | None = None) -> Self:
        """Take in what the round revealed and move to the next decision.

        Parameters
        ----------
        cost_grad : array_like, shape (d,)
            c_t, a subgradient of the cost at x_t.
        violation : float or array_like, shape (m,)
            g_t(x_t); at most 0 means satisfied.
        violation_grad : array_like, shape (d,) or (m, d), optional
            a_t, subgradients of the constraints at x_t; needed where a violation is positive.

        Returns
        -------
        PenaltyLearner
            Itself.

        Raises
        ------
        InvalidInput
            For NaN, infinity, another shape, or a positive violation without a gradient. The state is as before.
        """
        c = self._round.cost(cost_grad)
        v, a = self._round.constraint(violation, violation_grad)
        if self._tangent:
            self._check_finite(c, v, a)
            c, a = self.domain._tangent(c), self.domain._tangent(a)
        if self._round.m != v.size and (v.size > 1 or a.shape[0]):
            self._check_finite(c, v, a)
            self._know_rows(v.size)
        new = np.empty(self.domain.dim)
        if self._set is not None:
            code = self._k.update(self._cfg, self._s, self._z, self._n, self._ccv, self._x, c, v, a, *self._set, new)
            if code:
                name = ("cost_grad", "violation", "violation_grad")[code - 1]
                raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")
            self._x, self._view = new, None
        else:
            self._update_outside(c, v, a, new)
        if self._s[self._k.EXC] and not self._warned:
            self._warn()
        return self

    def _update_outside(self, c: Vector, v: Vector, a: Vector, new: Vector) -> None:
        """The round on a domain that projects itself; the state changes only once its projection has succeeded."""
        self._check_finite(c, v, a)
        kept = [b.copy() for b in (self._cfg, self._s, self._z, self._n, self._ccv)]
        mine = (self._cfg, self._s, self._z, self._n, self._ccv)
        if self._k.advance(*mine, self._x, c, v, a, np.empty(new.size), new):
            try:
                new = self.domain._project(new)
            except BaseException:
                for target, source in zip(mine, kept):
                    target[:] = source
                raise
            self._x, self._view = new, None

    def _check_finite(self, c: Vector, v: Vector, a: Vector) -> None:
        for name, value in (("cost_grad", c), ("violation", v), ("violation_grad", a)):
            if self._k.not_finite(value):
                raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")

    def _know_rows(self, m: int) -> None:
        """The number of constraints shows itself: give each its place in the state."""
        self._round.m = m
        if m == 1:
            return
        self._ccv = np.zeros(m)
        if self.aggregate == "each":
            self._z, self._n = np.zeros(m), np.zeros(m)
        if self.aggregate == "sum" and self._given_rows:
            # the given bound is for single rows; the sum of m of them is what the penalty sees
            self._s[self._k.GA] = m * self._given_rows

    def _before_rounds(self, rounds: int) -> None:
        """A chance to refuse rounds before any is played."""

    def _after_rounds(self) -> None:
        self._view = None
        if self._s[self._k.EXC] and not self._warned:
            self._warn()

    def _compiled_state(self) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        return self._cfg, self._s, self._z, self._n, self._ccv

    def _warn(self) -> None:
        self._warned = True
        warnings.warn(
            "a gradient exceeded the given Lipschitz constant: the larger value is used from here on, and the bound "
            "is the one for unknown scales",
            stacklevel=3,
        )

    def certificate(self) -> Certificate:
        """What is guaranteed so far, in O(1).

        Returns
        -------
        Certificate
            ``regret_upper`` is [N]: D sqrt(H/2) + D E/(2 sqrt2) - W, for every fixed feasible comparator.
        """
        k, s = self._k, self._s
        return Certificate(
            t=int(s[k.T]),
            regret_upper=float(k.certified(self._cfg, s)),
            regret_budget=self._bound(),
            ccv=float(s[k.CCV]),
            ccv_per_constraint=self._ccv.copy(),
            violated_rounds=int(s[k.VR]),
            penalty=float(s[k.WEIGHT]),
            lipschitz=(float(s[k.GF]), float(s[k.GA])),
            lipschitz_exceeded=int(s[k.EXC]),
            epochs=int(s[k.EPOCHS]),
            status=STATUSES[int(s[k.STATUS])],
        )

    def _bound(self) -> float | None:
        k, s, cfg = self._k, self._s, self._cfg
        if cfg[k.C_PENALTY] == k.P_NONE:
            return static_regret_bound(int(s[k.T]), cfg[k.C_D], s[k.GF], 0.0, 0, True)
        if cfg[k.C_SCHEDULE] != k.S_SUMMABLE:
            return None
        budget = cfg[k.C_W0] if cfg[k.C_PENALTY] == k.P_BUDGETED else 0.0
        known = bool(cfg[k.C_KNOWN]) and s[k.EXC] == 0
        return float(static_regret_bound(int(s[k.T]), cfg[k.C_D], s[k.GF], budget, self._z.size, known))

    def state_dict(self) -> dict[str, Any]:
        """The whole state.

        Returns
        -------
        dict
            Plain numbers and arrays: ``x``, ``z`` (exponents lambda Q), ``n`` (their clocks), ``ccv`` (a constraint
            each), ``scalars`` by name, ``horizon`` (of the current epoch), ``version``, ``learner``, ``dim``.
        """
        k = self._k
        names = [
            "T",
            "TAU",
            "H",
            "E",
            "W",
            "GF",
            "GA",
            "ROOT_S",
            "VE",
            "NV",
            "VR",
            "CCV",
            "UNIT",
            "EXC",
            "STATUS",
            "WEIGHT",
            "REACH",
            "BANK",
            "EPOCHS",
        ]
        return {
            "version": STATE_VERSION,
            "learner": type(self).__name__,
            "dim": self.domain.dim,
            "x": self._x.copy(),
            "z": self._z.copy(),
            "n": self._n.copy(),
            "ccv": self._ccv.copy(),
            "rows": self._round.m,
            "scalars": {name: float(self._s[getattr(k, name)]) for name in names},
            "horizon": float(self._cfg[k.C_HORIZON]),
            "warned": self._warned,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take over a state.

        Parameters
        ----------
        state : mapping
            From `state_dict` of a learner built with the same arguments (or read back from JSON).

        Returns
        -------
        PenaltyLearner
            Itself. The next rounds equal those of the saved learner bit for bit.

        Raises
        ------
        InvalidInput
            If it belongs to another learner, version or dimension. The state is as before.
        """
        check_state(self, state)
        k = self._k
        s = self._s.copy()
        for name, value in state["scalars"].items():
            s[getattr(k, name)] = value
        x = vector(state["x"], "state['x']", self.domain.dim).copy()
        arrays = [vector(state[key], f"state[{key!r}]").copy() for key in ("z", "n", "ccv")]
        self._s, self._x, self._view = s, x, None
        self._z, self._n, self._ccv = arrays
        self._cfg[k.C_HORIZON] = state["horizon"]
        self._round.m = int(state["rows"])
        self._warned = bool(state["warned"])
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickles hold the arguments and the state, no compiled code and no cached view."""
        kept = dict(self.__dict__)
        kept["_k"], kept["_view"], kept["_set"], kept["_round"] = None, None, None, self._round.m
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        from oco_anytime import kernels

        m = kept.pop("_round")
        self.__dict__.update(kept)
        self._k, self._round, self._set = kernels, _Round(self.domain.dim), self.domain.compiled()
        self._round.m = m


def check_state(learner: Learner, state: Mapping[str, Any]) -> None:
    """Whether `state` was written by such a learner; `InvalidInput` if not."""
    mine = {"version": STATE_VERSION, "learner": type(learner).__name__, "dim": learner.domain.dim}
    if not hasattr(state, "get"):
        raise InvalidInput.argument("state", expected="a dictionary of state_dict()", got=type(state).__name__)
    theirs = {key: state.get(key) for key in mine}
    if theirs != mine:
        raise InvalidInput.argument("state", expected=str(mine), got=str(theirs))


class AnytimeCOCO(PenaltyLearner):
    """Online convex optimization with adversarial constraints, guaranteed at every round, without a horizon.

    Parameters
    ----------
    domain : Domain
        X, with diameter D.
    lipschitz : None, float or pair of float
        Bounds (Gf, Ga) of ||c_t|| and ||a_t||; one number means both. None: learned on the way [N]; then the units
        of cost and constraint do not matter.
    penalty : {"budgeted", "lyapunov"}
        ``"lyapunov"``: w_t = Phi_t'(Q_t), Phi_t(q) = exp(lambda_t q) - 1 (arXiv 2510.22579) [P]. ``"budgeted"``: the
        same with the summable schedule as a floor, plus an increment that spends a stated share of the regret
        bound on violations [N]: Regret_t <= 2 Gf D ((1 + w0) sqrt t + 1) at every t.
    schedule : {"sqrt", "summable"}, optional
        lambda = 1/(2 sqrt n) [I], or square-summable [I/N]. By default sqrt for lyapunov, summable for budgeted.
    clock : {"rounds", "violations"}, optional
        n counts rounds [P] or violated rounds [N]. By default rounds for lyapunov, violations for budgeted.
    regret_budget : float
        w0. 4 suits streams where a violation is dearer than cost (flows, safety), 1 where costs rule.
    pace : float
        rho: how much of the budget one violation may take.
    eps : float
        Of the summable schedule.
    aggregate : {"max", "sum", "each"}
        Several constraints: the largest (as the ancestor, arXiv 2310.18955), the sum of positive parts, or a penalty
        each with its own guarantee [N].
    tangent : bool
        Project gradients on the directions of the domain first [N].
    x0 : array_like, shape (d,), optional
        First decision, a point of the domain; its centre unless given.
    diameter : float, optional
        An upper bound of the diameter in place of the domain's.
    check : bool
        Kept for callers that have checked their input; the compiled checks cost well under a microsecond and stay.

    Raises
    ------
    InvalidInput
        For any argument outside the above.

    Notes
    -----
    Step [P, adaptive OGD as in the ancestor]: x_{t+1} = Proj(x_t - D/sqrt(2 H_t) (c_t + w_t a_t)), H_t the sum of
    squared norms. O(d) state and time.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        lipschitz: Any = None,
        penalty: str = "budgeted",
        schedule: str | None = None,
        clock: str | None = None,
        regret_budget: float = 2.0,
        pace: float = 2.0,
        eps: float = 0.3,
        aggregate: str = "max",
        tangent: bool = False,
        x0: ArrayLike | None = None,
        diameter: float | None = None,
        check: bool = True,
    ) -> None:
        one_of(penalty, "penalty", ("budgeted", "lyapunov"))
        budgeted = penalty == "budgeted"
        schedule = one_of(schedule or ("summable" if budgeted else "sqrt"), "schedule", ("sqrt", "summable"))
        clock = one_of(clock or ("violations" if budgeted else "rounds"), "clock", _CLOCKS)
        super().__init__(
            domain,
            lipschitz=lipschitz,
            penalty=penalty,
            schedule=schedule,
            clock=clock,
            regret_budget=regret_budget,
            pace=pace,
            eps=eps,
            aggregate=aggregate,
            tangent=tangent,
            x0=x0,
            diameter=diameter,
            check=check,
        )

    @classmethod
    def paper(cls, domain: Domain, lipschitz: Any = None, **options: Any) -> Self:
        """The method as published: Lyapunov penalty, sqrt schedule, clock of rounds (arXiv 2510.22579).

        Parameters
        ----------
        domain : Domain
        lipschitz : None, float or pair of float
            G.
        **options
            Further arguments of the class.

        Returns
        -------
        AnytimeCOCO
        """
        return cls(domain, lipschitz=lipschitz, penalty="lyapunov", schedule="sqrt", clock="rounds", **options)
