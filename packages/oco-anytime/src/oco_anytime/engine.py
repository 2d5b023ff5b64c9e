"""The engine under `AnytimeCOCO` and the baselines that take adaptive gradient steps: one compiled round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int

from oco_anytime.certificate import STATUSES, Certificate, static_regret_bound
from oco_anytime.domains.base import Domain, checked_domain, positive, vector
from oco_anytime.interface import Learner, Round, reading_state, scales, state_head, state_numbers, warn_exceeded
from oco_anytime.penalty import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

_PENALTIES = {"none": 0, "lyapunov": 1, "budgeted": 2}
_SCHEDULES = {"sqrt": 0, "summable": 1, "fixed": 2}
_CLOCKS = {"rounds": 0, "violations": 1}
_AGGREGATES = {"max": 0, "sum": 1, "each": 2}
#: scalars of the state, by the names of their places in `oco_anytime.kernels`
_SCALARS = (
    "T", "TAU", "H", "E", "W", "GF", "GA", "ROOT_S", "VE", "NV", "VR", "CCV", "UNIT", "EXC", "STATUS", "WEIGHT",
    "REACH", "BANK", "EPOCHS",
)  # fmt: skip


class PenaltyLearner(Learner):
    """Adaptive projected gradient steps on cost plus weighted violation: the engine under `AnytimeCOCO`.

    The subclasses fix the options; see `AnytimeCOCO` for their meaning.
    """

    _compiled_loop = True

    # Long because a third of it is the signature: the rest fills two tables, numbers for the kernels, names for states.
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

        self._k = k
        self.domain = domain = checked_domain(domain)
        given = scales(lipschitz)
        self._given_rows = given[1] if given else 0.0
        self._tangent = bool(tangent)
        self.aggregate = one_of(aggregate, "aggregate", _AGGREGATES)
        cfg = np.zeros(k.N_CFG)
        cfg[k.C_D] = domain.diameter if diameter is None else positive(diameter, "diameter")
        cfg[k.C_W0] = positive(regret_budget, "regret_budget")
        cfg[k.C_PACE] = positive(pace, "pace")
        cfg[k.C_EPS] = positive(eps, "eps")
        cfg[k.C_PENALTY], cfg[k.C_SCHEDULE] = _PENALTIES[penalty], _SCHEDULES[schedule]
        cfg[k.C_CLOCK], cfg[k.C_AGG] = _CLOCKS[clock], _AGGREGATES[aggregate]
        cfg[k.C_KNOWN] = given is not None
        cfg[k.C_HORIZON], cfg[k.C_DOUBLING] = horizon, doubling
        cfg[k.C_CD], cfg[k.C_LAM] = math.sqrt(2.0) * cfg[k.C_D], 1.0
        cfg[k.C_CHECK] = check
        self._cfg = cfg
        self._settings = {
            "penalty": penalty,
            "schedule": schedule,
            "clock": clock,
            "aggregate": aggregate,
            "regret_budget": cfg[k.C_W0].item(),
            "pace": cfg[k.C_PACE].item(),
            "eps": cfg[k.C_EPS].item(),
            "diameter": cfg[k.C_D].item(),
            "scales": "given" if given else "learned",
            "tangent": self._tangent,
            "horizon": None if doubling else float(horizon),
        }
        self._begin(given, x0)

    def _begin(self, given: tuple[float, float] | None, x0: ArrayLike | None) -> None:
        """The state before the first round."""
        k, cfg, domain = self._k, self._cfg, self.domain
        self._s = np.zeros(k.N_STATE)
        self._s[k.UNIT] = self._s[k.EPOCHS] = 1.0
        self._s[k.REACH] = cfg[k.C_D]
        if given:
            self._s[k.GF], self._s[k.GA] = given
        self._z, self._n, self._ccv = np.zeros(1), np.zeros(1), np.zeros(1)
        self._round = Round(domain.dim)
        self._set = domain.compiled()
        self._x = self._start(x0)
        self._view: Vector | None = None
        self._warned = False

    def _start(self, x0: ArrayLike | None) -> Vector:
        if x0 is None:
            center = self.domain.center()
            return center if self.domain.contains(center, 1e-9) else self.domain.project(center)
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
                raise self._unfit(name)
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
        new[:] = self._x
        if self._k.advance(*mine, new, c, v, a, np.empty(new.size)):
            try:
                new = self.domain._project(new)
            except BaseException:
                for target, source in zip(mine, kept):
                    target[:] = source
                raise
            self._x, self._view = new, None

    @staticmethod
    def _unfit(name: str) -> InvalidInput:
        expected = f"finite numbers up to {LARGEST:g} in magnitude"
        return InvalidInput.argument(name, expected=expected, got="NaN, infinity or a larger one")

    def _check_finite(self, c: Vector, v: Vector, a: Vector) -> None:
        for name, value in (("cost_grad", c), ("violation", v), ("violation_grad", a)):
            flat = value.ravel()
            # a sum of squares may overflow where the numbers do not (vdot does so in silence)
            if not math.isfinite(np.vdot(flat, flat)) and not (np.abs(flat) <= LARGEST).all():
                raise self._unfit(name)

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
        warn_exceeded(stacklevel=3)

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
            each), ``scalars`` by name, ``horizon`` (of the current epoch), ``version``, ``learner``, ``dim``,
            ``settings`` (the arguments, which must agree when it is taken over).
        """
        return {
            **state_head(self, self._settings),
            "x": self._x.copy(),
            "z": self._z.copy(),
            "n": self._n.copy(),
            "ccv": self._ccv.copy(),
            "rows": self._round.m,
            "scalars": {name: float(self._s[getattr(self._k, name)]) for name in _SCALARS},
            "horizon": float(self._cfg[self._k.C_HORIZON]),
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
            If it is damaged, or of a learner of another kind, version, dimension or setting. The state is as before.
        """
        with reading_state(self, self._settings, state):
            self._take_over(*self._read(state))
        return self

    def _read(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
        k = self._k
        s = self._s.copy()
        for name, value in state_numbers(state, "scalars", _SCALARS).items():
            s[getattr(k, name)] = value
        rows = positive_int(state["rows"], "state['rows']", minimum=0)
        penalties = max(rows, 1) if self.aggregate == "each" else 1
        sizes = {"x": self.domain.dim, "z": penalties, "n": penalties, "ccv": max(rows, 1)}
        arrays = [vector(state[key], f"state[{key!r}]", size).copy() for key, size in sizes.items()]
        return s, arrays, rows, in_range(state["horizon"], "state['horizon']", 0.0), bool(state["warned"])

    def _take_over(self, s: Vector, arrays: list[Vector], rows: int, horizon: float, warned: bool) -> None:
        self._s, self._view = s, None
        self._x, self._z, self._n, self._ccv = arrays
        self._cfg[self._k.C_HORIZON] = horizon
        self._round.m, self._warned = rows, warned

    def __getstate__(self) -> dict[str, Any]:
        """Pickles hold the arguments and the state, no compiled code and no cached view."""
        kept = dict(self.__dict__)
        kept["_k"], kept["_view"], kept["_set"], kept["_round"] = None, None, None, self._round.m
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        from oco_anytime import kernels

        m = kept.pop("_round")
        self.__dict__.update(kept)
        self._k, self._round, self._set = kernels, Round(self.domain.dim), self.domain.compiled()
        self._round.m = m
