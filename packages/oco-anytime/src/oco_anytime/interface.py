"""The interface of every learner, and the checks at its door."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput

from oco_anytime.domains.base import positive, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.certificate import Certificate
    from oco_anytime.domains.base import Domain, Vector

STATE_VERSION = 1
_F8 = np.dtype(np.float64)


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


class Round:
    """One round's constraint input, checked: the door of every `update`."""

    def __init__(self, dim: int) -> None:
        self.dim, self.shape = dim, (dim,)
        self.m = 0  # unknown until a violation or a vector of them comes
        self._no_rows = np.zeros((0, dim))
        self._scalar = np.zeros(1)
        self._row = (1, dim)

    def cost(self, c: ArrayLike) -> Vector:
        """The cost gradient as a contiguous vector; whether it is finite is for the compiled round to see."""
        if type(c) is np.ndarray and c.dtype is _F8 and c.shape == self.shape and c.flags.carray:
            return c
        return vector(c, "cost_grad", self.dim, finite=False)

    def constraint(self, violation: ArrayLike, grad: ArrayLike | None) -> tuple[Vector, Vector]:
        """Violations of shape (m,) and gradients of shape (m, d); gradients have no rows if nothing is violated."""
        single: Any = violation
        if isinstance(single, float | int) or np.ndim(single) == 0:
            value = _number(single)
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


def check_state(learner: Learner, state: Mapping[str, Any]) -> None:
    """Whether `state` was written by such a learner; `InvalidInput` if not."""
    mine = {"version": STATE_VERSION, "learner": type(learner).__name__, "dim": learner.domain.dim}
    if not hasattr(state, "get"):
        raise InvalidInput.argument("state", expected="a dictionary of state_dict()", got=type(state).__name__)
    theirs = {key: state.get(key) for key in mine}
    if theirs != mine:
        raise InvalidInput.argument("state", expected=str(mine), got=str(theirs))
