"""The optimistic learner: good predictions of the next round make regret and violation small, bad ones cost little."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range

from oco_anytime.certificate import STATUSES, Certificate
from oco_anytime.domains.base import Domain, positive, vector
from oco_anytime.hints import Hint, HintSource
from oco_anytime.implicit import FAR, half_space_step
from oco_anytime.interface import Learner, reading_state, scales, state_head, state_numbers, warn_exceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

#: closer to 0 than this the constraint counts as met with equality
_KINK = 1e-10
#: exp(z) is capped here, so that squares of weighted gradients stay finite
_Z_MAX = 300.0
#: of a number that comes in, so that no product of a step, a weight and a gradient overflows
_LARGEST = 1e60
_NUMBERS = (
    "t", "z", "hm", "eg", "ve", "w_sum", "r_sum", "eta", "gf", "ga", "total", "violated", "weight", "status",
    "exceeded",
)  # fmt: skip


class OptimisticCOCO(Learner):
    """Optimistic steps, implicit in the predicted constraint.

    Parameters
    ----------
    domain : Domain
    lipschitz : None, float or pair of float
        G = max of both; None: the largest gradient so far.
    regret_budget : float
        w0.
    eps : float
        Of the summable schedule, whose clock is here the prediction error of the constraint.
        A gradient of norm up to 1e-60 counts as none, and none may hold a number beyond 1e60.
    tangent : bool
        Measure gradients and hints on the directions of the domain only [N]: smaller norms and prediction errors, the
        same inner products on the domain.
    hints : HintSource, optional
        Makes the hints when `predict` is given none; see `oco_anytime.hints`.
    x0 : array_like, shape (d,), optional
        First decision, a point of the domain; its centre unless given.
    diameter : float, optional
        An upper bound of the diameter in place of the domain's.

    Raises
    ------
    InvalidInput
        For any argument outside the above.

    Notes
    -----
    The paper's optimistic algorithm has regret and violation that scale with the cumulative prediction error [P];
    ancestor: Lekeufack, Jordan, arXiv 2412.08060. The mechanism here is [I]; the certificate Regret_t(u) <= D^2/(2 eta)
    + R - W for every feasible fixed u is [N].
    """

    def __init__(
        self,
        domain: Domain,
        *,
        lipschitz: Any = None,
        regret_budget: float = 1.0,
        eps: float = 0.3,
        tangent: bool = False,
        hints: HintSource | None = None,
        x0: ArrayLike | None = None,
        diameter: float | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise InvalidInput.argument("domain", expected="a domain of oco_anytime.domains", got=type(domain).__name__)
        if hints is not None and not isinstance(hints, HintSource):
            raise InvalidInput.argument("hints", expected="a source from oco_anytime.hints", got=type(hints).__name__)
        self.domain, self.hints = domain, hints
        self._d = domain.diameter if diameter is None else positive(diameter, "diameter")
        given = None if lipschitz is None else _fit_scales(lipschitz)
        self._given = given
        self._tangent, self._warned = bool(tangent), False
        self.regret_budget, self.eps = positive(regret_budget, "regret_budget"), positive(eps, "eps")
        y = domain.project(domain.center()) if x0 is None else vector(x0, "x0", domain.dim).copy()
        if not domain.contains(y, 1e-9):
            raise InvalidInput.argument("x0", expected="a point of the domain", got=str(y))
        self._y, self._ccv = y, np.zeros(1)
        self._settings = {
            "regret_budget": self.regret_budget,
            "eps": self.eps,
            "diameter": float(self._d),
            "scales": "given" if given else "learned",
            "tangent": self._tangent,
        }
        self._num = dict.fromkeys(_NUMBERS, 0.0)
        self._num["eta"] = math.inf
        if given:
            self._num["gf"], self._num["ga"] = given
        self._play: tuple[Vector, Vector, Vector | None, float, float, float, float, float] | None = None

    def predict(self, hint: Hint | None = None) -> Vector:
        """The decision x_t.

        Parameters
        ----------
        hint : Hint, optional
            The prediction of this round; without one, that of `hints`, if any.

        Returns
        -------
        numpy.ndarray, shape (d,), float64
            Read-only; the same until `update`, unless another hint is given.

        Raises
        ------
        InvalidInput
            For a hint of the wrong shape, NaN or infinity.
        """
        if hint is None:
            if self._play is not None:
                return self._play[0]
            hint = self.hints.next() if self.hints is not None else None
        ch, level, bh = self._checked(hint)
        ch, ah = self._along(ch), None if level is None else self._along(level)
        lam, e, w = self._weight()
        eta = self._step_size(ch, ah)
        if level is None or ah is None or not ah.any():
            x, theta, ah = self.domain._project(self._y - eta * ch), 0.0, None
        else:
            # the row as given tells where its constraint is met; both rows move the projection by the same amount
            x, theta = half_space_step(self.domain, self._y, ch, level, bh, eta, w)
        m = ch if ah is None else ch + (theta * w) * ah
        x.flags.writeable = False
        self._play = (x, m, ah, theta, lam, e, w, eta)
        return x

    def _checked(self, hint: Hint | None) -> tuple[Vector, Vector | None, float]:
        d = self.domain.dim
        if hint is None:
            return np.zeros(d), None, 0.0
        if not isinstance(hint, Hint):
            raise InvalidInput.argument("hint", expected="a Hint or None", got=type(hint).__name__)
        c = (
            np.zeros(d)
            if hint.cost_grad is None
            else _fit(vector(hint.cost_grad, "hint.cost_grad", d), "hint.cost_grad")
        )
        a = None if hint.a is None else _fit(vector(hint.a, "hint.a", d), "hint.a")
        return c, a, in_range(hint.b, "hint.b")

    def _along(self, g: Vector) -> Vector:
        along: Vector = self.domain._tangent(g[None])[0] if self._tangent else g
        return along

    def _weight(self) -> tuple[float, float, float]:
        """(lambda, e, w), fixed before the violation is seen; exp(lambda/2) pays for that."""
        s = self._num
        k = 0.25 / (1.0 + 1.0 / self.eps)
        n = 1.0 + s["eg"]
        lam = math.sqrt(k / n) / (1.0 + math.log(n)) ** (0.5 * (1.0 + self.eps))
        reach = 2.0 * self._scale() * self._d * math.sqrt(n)
        room = self.regret_budget + (s["ve"] / reach if reach > 0.0 else 0.0)
        e = min(room, math.sqrt(n))
        return lam, e, e + math.exp(0.5 * lam) * lam * math.exp(min(s["z"], _Z_MAX))

    def _scale(self) -> float:
        return max(self._num["gf"], self._num["ga"])

    def _step_size(self, ch: Vector, ah: Vector | None) -> float:
        s = self._num
        if s["hm"] > 0.0:
            return min(s["eta"], self._d / math.sqrt(2.0 * s["hm"]))
        G = self._scale()
        if G == 0.0:
            # nothing seen yet: the hint is the only scale there is
            G = max(float(np.linalg.norm(ch)), 0.0 if ah is None else float(np.linalg.norm(ah))) or 1.0
        return min(s["eta"], self._d / G)

    def update(self, cost_grad: ArrayLike, violation: ArrayLike = 0.0, violation_grad: ArrayLike | None = None) -> Self:
        """Take in the round.

        Parameters
        ----------
        cost_grad : array_like, shape (d,)
        violation : float or array_like, shape (m,)
            g_t(x_t) with its sign: near 0 it tells whether the hinted constraint was met with equality.
        violation_grad : array_like, shape (d,) or (m, d), optional
            Needed where the violation is positive; at 0 the hint's is taken if none comes.

        Returns
        -------
        OptimisticCOCO
            Itself.

        Raises
        ------
        InvalidInput
            If `predict` was not called for this round, and as `AnytimeCOCO.update`. The state is as before.
        """
        if self._play is None:
            raise InvalidInput.argument("update", expected="predict before it", got="no decision for this round")
        c = _fit(vector(cost_grad, "cost_grad", self.domain.dim), "cost_grad")
        values = _fit(vector(np.atleast_1d(array(violation, "violation")), "violation"), "violation", least=0.0)
        g, shown = self._largest(values, violation_grad)
        seen, c = c, self._along(c)
        a = None if shown is None else self._along(shown)
        x, m, ah, theta, lam, e, w, eta = self._play
        s = dict(self._num)
        v = max(g, 0.0)
        s["status"] = max(s["status"], 1.0) if v > 0.0 and (a is None or not a.any()) else s["status"]
        sigma, row = self._subgradient(g, a, ah, theta)
        self._grow(s, c, a if v > 0.0 else None)
        G = max(s["gf"], s["ga"])
        gr = c + (w * sigma) * row
        miss = sigma * row - (theta * ah if ah is not None else 0.0)
        if G > 0.0:
            s["eg"] += float(miss @ miss) / G**2
            s["z"] += lam * v / (2.0 * G * self._d)
        s["ve"] += e * v
        if s["z"] > _Z_MAX:
            s["z"], s["status"] = _Z_MAX, 3.0
        # at the kink theta a is a subgradient only up to |g|: both signs are charged
        s["w_sum"] += w * sigma * v
        step = eta * gr
        length, far = float(np.linalg.norm(step)), FAR * self._d
        # no projection is exact from further away; only a weight without limit (no feasible point) leads there
        y = self.domain._project(self._y - (step if length <= far else _cut(gr, far)))
        off, back = x - y, x - self._y
        diff = gr - m
        s["r_sum"] += float(diff @ off) - (float(off @ off) + float(back @ back)) / (2.0 * eta)
        if sigma > 0.0:
            s["r_sum"] += w * sigma * max(-g, 0.0)
        s["hm"] = min(s["hm"] + float(diff @ diff), _LARGEST**5)
        s["eta"], s["weight"] = eta, w if v > 0.0 else s["weight"]
        s["t"] += 1
        s["violated"] += v > 0.0
        s["total"] += v
        positive_parts = np.maximum(values, 0.0)
        if positive_parts.size > self._ccv.size:
            self._ccv = np.concatenate([self._ccv, np.zeros(positive_parts.size - self._ccv.size)])
        self._ccv[: positive_parts.size] += positive_parts
        self._num, self._y, self._play = s, y, None
        if self.hints is not None:
            self.hints.observe(seen, shown, 0.0 if shown is None else float(shown @ x) - g)
        if s["exceeded"] and not self._warned:
            self._warned = True
            warn_exceeded(stacklevel=2)
        return self

    def _largest(self, values: Vector, grad: ArrayLike | None) -> tuple[float, Vector | None]:
        """The largest constraint (first index on ties) and its gradient, if one came."""
        if values.size == 0:
            return -math.inf, None
        i = int(np.argmax(values))
        if grad is None:
            if values[i] > 0.0:
                raise InvalidInput.argument(
                    "violation_grad", expected="a subgradient, since the violation is positive", got="None"
                )
            return float(values[i]), None
        rows = np.atleast_2d(array(grad, "violation_grad", finite=False))
        if rows.shape != (values.size, self.domain.dim):
            expected = f"shape ({values.size}, {self.domain.dim})"
            raise InvalidInput.argument("violation_grad", expected=expected, got=f"shape {rows.shape}")
        return float(values[i]), _fit(vector(rows[i], "violation_grad", self.domain.dim), "violation_grad")

    def _subgradient(self, g: float, a: Vector | None, ah: Vector | None, theta: float) -> tuple[float, Vector]:
        """Sigma and the row: at the kink the subgradient must match the hint's."""
        if abs(g) <= _KINK and ah is not None:
            return theta, ah if a is None else a
        zero = np.zeros(self.domain.dim)
        return (1.0, a) if g > 0.0 and a is not None else (0.0, zero)

    def _grow(self, s: dict[str, float], c: Vector, a: Vector | None) -> None:
        old = max(s["gf"], s["ga"])
        room = 1.0 + 1e-9 if self._given else 1.0
        for name, row in (("gf", c), ("ga", a)):
            size = 0.0 if row is None else float(np.linalg.norm(row))
            if size > s[name] * room:
                s[name] = size
                s["exceeded"] += self._given is not None
        new = max(s["gf"], s["ga"])
        if new > old > 0.0:
            s["z"] = max(0.0, s["z"] - math.log(new / old))

    def certificate(self) -> Certificate:
        """What is guaranteed so far: `regret_upper` = D^2/(2 eta) + R - W [N]."""
        s = self._num
        upper = 0.0 if s["t"] == 0 else self._d**2 / (2.0 * s["eta"]) + s["r_sum"] - s["w_sum"]
        return Certificate(
            t=int(s["t"]),
            regret_upper=upper,
            regret_budget=None,
            ccv=s["total"],
            ccv_per_constraint=self._ccv.copy(),
            violated_rounds=int(s["violated"]),
            penalty=s["weight"],
            lipschitz=(s["gf"], s["ga"]),
            lipschitz_exceeded=int(s["exceeded"]),
            epochs=1,
            status=STATUSES[int(s["status"])],
        )

    def state_dict(self) -> dict[str, Any]:
        """The state between rounds (a decision that waits for its update is made again by `predict`)."""
        numbers: dict[str, Any] = {name: float(value) for name, value in self._num.items()}
        if math.isinf(numbers["eta"]):
            numbers["eta"] = None
        return {
            **state_head(self, self._settings),
            "y": self._y.copy(),
            "ccv": self._ccv.copy(),
            "numbers": numbers,
            "warned": self._warned,
            "hints": None if self.hints is None else self.hints.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take over a state; see `Learner.load_state_dict`."""
        with reading_state(self, self._settings, state):
            y, ccv = vector(state["y"], "state['y']", self.domain.dim), vector(state["ccv"], "state['ccv']")
            given = dict(state["numbers"])
            eta = math.inf if given["eta"] is None else in_range(given["eta"], "state['numbers']['eta']", 0.0)
            numbers = {**state_numbers({"numbers": {**given, "eta": 0.0}}, "numbers", _NUMBERS), "eta": eta}
            warned = bool(state["warned"])
            if (self.hints is None) != (state["hints"] is None):
                raise InvalidInput.argument("state['hints']", expected="hints as this learner has", got=state["hints"])
            if self.hints is not None:
                self.hints.load_state_dict(state["hints"])
        self._y, self._ccv, self._num, self._play = y.copy(), ccv.copy(), numbers, None
        self._warned = warned
        return self


def _fit(x: Vector, name: str, least: float = 1.0 / _LARGEST) -> Vector:
    """`x`, or zeros for a norm up to `least`.

    Raises
    ------
    InvalidInput
        For a number beyond `_LARGEST`.
    """
    square = float(x @ x)
    if least**2 < square < _LARGEST**2:
        return x
    if square and np.abs(x).max() > _LARGEST:
        expected = f"numbers up to {_LARGEST:g} in magnitude"
        raise InvalidInput.argument(name, expected=expected, got=f"{np.abs(x).max():g}")
    return np.zeros_like(x) if least and square <= least**2 else x


def _fit_scales(lipschitz: Any) -> tuple[float, float] | None:
    pair = scales(lipschitz)
    for value in pair or ():
        in_range(value, "lipschitz", 1.0 / _LARGEST, _LARGEST)
    return pair


def _cut(g: Vector, length: float) -> Vector:
    """A vector of that length along `g`, whose own square may overflow."""
    unit: Vector = g / np.abs(g).max()
    return (length / float(np.linalg.norm(unit))) * unit
