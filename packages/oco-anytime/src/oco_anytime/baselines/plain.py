"""What the baselines share that keep a decision, a queue and nothing else."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array

from oco_anytime.certificate import Certificate
from oco_anytime.domains.base import Domain, checked_domain, vector, within
from oco_anytime.interface import Learner, reading_state, state_head, state_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector


#: of a number that comes in, so that no square and no product with a queue overflows
_LARGEST = 1e100


class QueueLearner(Learner):
    """A decision x, a queue Q, counts. Several constraints act through the largest (first index on ties).

    Parameters
    ----------
    domain : Domain
    x0 : array_like, shape (d,), optional
    """

    _start_queue = 0.0

    def __init__(self, domain: Domain, *, x0: ArrayLike | None = None) -> None:
        self.domain = domain = checked_domain(domain)
        x = domain.project(domain.center()) if x0 is None else vector(x0, "x0", domain.dim)
        if not domain.contains(x, 1e-9):
            raise InvalidInput.argument("x0", expected="a point of the domain", got=str(x))
        self._set_x(x.copy())
        self._t = self._violated = 0
        self._q = self._start_queue
        self._gf = self._ga = self._total = 0.0
        self._ccv = np.zeros(1)

    def _set_x(self, x: Vector) -> None:
        x.flags.writeable = False
        self._x = x

    def predict(self) -> Vector:
        """The decision x_t, shape (d,), read-only."""
        return self._x

    def update(self, cost_grad: ArrayLike, violation: ArrayLike = 0.0, violation_grad: ArrayLike | None = None) -> Self:
        """Take in the round; see `AnytimeCOCO.update`. Signed violations with their gradients are used where given."""
        c = within(vector(cost_grad, "cost_grad", self.domain.dim), "cost_grad", _LARGEST)
        values = within(vector(np.atleast_1d(array(violation, "violation")), "violation"), "violation", _LARGEST)
        v, a = 0.0, np.zeros(self.domain.dim)
        if values.size:
            i = int(np.argmax(values))
            v = float(values[i])
            if violation_grad is not None:
                rows = array(violation_grad, "violation_grad", finite=False)
                rows = rows[None] if rows.ndim == 1 else rows
                if rows.shape != (values.size, self.domain.dim):
                    raise InvalidInput.argument(
                        "violation_grad",
                        expected=f"shape ({values.size}, {self.domain.dim})",
                        got=f"shape {rows.shape}",
                    )
                a = within(vector(rows[i], "violation_grad", self.domain.dim), "violation_grad", _LARGEST)
            elif v > 0.0:
                raise InvalidInput.argument(
                    "violation_grad", expected="a subgradient, since the violation is positive", got="None"
                )
        x = self._step(self._t + 1, c, v, a)
        positive = np.maximum(values, 0.0)
        if positive.size > self._ccv.size:
            self._ccv = np.concatenate([self._ccv, np.zeros(positive.size - self._ccv.size)])
        self._ccv[: positive.size] += positive
        self._t += 1
        self._violated += v > 0.0
        self._total += max(v, 0.0)
        self._gf = max(self._gf, float(np.linalg.norm(c)))
        self._ga = max(self._ga, float(np.linalg.norm(a)) if v > 0 else 0.0)
        self._set_x(x)
        return self

    @abstractmethod
    def _step(self, t: int, c: Vector, v: float, a: Vector) -> Vector:
        """The next decision after round t (from 1); updates the queue once nothing can fail any more."""

    def certificate(self) -> Certificate:
        """Counts; these methods have no certificate, so `regret_upper` is NaN."""
        return Certificate(
            t=self._t,
            regret_upper=float("nan"),
            regret_budget=None,
            ccv=self._total,
            ccv_per_constraint=self._ccv.copy(),
            violated_rounds=self._violated,
            penalty=self._q,
            lipschitz=(self._gf, self._ga),
            lipschitz_exceeded=0,
            epochs=1,
            status="ok",
        )

    _numbers: tuple[str, ...] = ("_t", "_violated", "_q", "_gf", "_ga", "_total")

    def state_dict(self) -> dict[str, Any]:
        """The whole state: see `Learner.state_dict`."""
        return {
            **state_head(self, self._settings()),
            "x": self._x.copy(),
            "ccv": self._ccv.copy(),
            "numbers": {name: getattr(self, name) for name in self._numbers},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take over a state: see `Learner.load_state_dict`."""
        with reading_state(self, self._settings(), state):
            x, ccv = vector(state["x"], "state['x']", self.domain.dim), vector(state["ccv"], "state['ccv']")
            numbers = state_numbers(state, "numbers", self._numbers)
        self._set_x(x.copy())
        self._ccv = ccv.copy()
        for name, value in numbers.items():
            setattr(self, name, int(value) if name in ("_t", "_violated") else value)
        return self

    def _settings(self) -> dict[str, Any]:
        """The arguments that a round depends on."""
        return {}
