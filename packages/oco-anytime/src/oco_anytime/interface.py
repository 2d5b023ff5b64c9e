"""The interface of every learner, and the checks at its door."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range

from oco_anytime.domains.base import contiguous, positive, vector
from oco_anytime.state import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def to_json(self) -> str:
        """`state_dict` as JSON text; ``load_state_dict(json.loads(text))`` takes it over bit for bit."""
        return to_json(self.state_dict())

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
    pair = (lipschitz, lipschitz) if np.ndim(lipschitz) == 0 else tuple(np.ravel(lipschitz).tolist())
    if len(pair) != 2:
        raise InvalidInput.argument("lipschitz", expected="None, a number, or a pair (Lf, La)", got=lipschitz)
    return positive(pair[0], "lipschitz"), positive(pair[1], "lipschitz")


def warn_exceeded(stacklevel: int) -> None:
    """Tell once that a given Lipschitz constant was too small; `stacklevel` as if called with warnings.warn."""
    warnings.warn(
        "a gradient exceeded the given Lipschitz constant: the larger value is used from here on, and the bound "
        "is the one for unknown scales",
        stacklevel=stacklevel + 1,
    )


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
                if grad is not None:
                    self._fitting(np.shape(grad), max(self.m, 1))
                v = self._scalar
                v[0] = 0.0
                return v if self.m <= 1 else np.zeros(self.m), self._no_rows
            if self.m > 1:
                raise InvalidInput.argument("violation", expected=f"shape ({self.m},) as before", got="a number")
            v = self._scalar
            v[0] = value
        else:
            v = vector(violation, "violation", self.m if self.m > 1 else None, finite=False)
            if grad is not None and v.size:
                self._fitting(np.shape(grad), v.size)
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
            if m == 1 and grad.shape == self.shape:
                return grad.reshape(self._row)
            a = grad
        else:
            a = contiguous(array(grad, "violation_grad", finite=False))
        self._fitting(a.shape, m)
        return a.reshape(self._row) if a.ndim == 1 else a

    def _fitting(self, shape: tuple[int, ...], m: int) -> None:
        if shape != (m, self.dim) and (m != 1 or shape != self.shape):
            raise InvalidInput.argument("violation_grad", expected=f"shape ({m}, {self.dim})", got=f"shape {shape}")


def _number(value: Any) -> float:
    try:
        x = float("a text" if isinstance(value, str | bytes) else value)
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput.argument("violation", expected="a finite number", got=value) from None
    if not math.isfinite(x):
        raise InvalidInput.argument("violation", expected="a finite number", got=x)
    return x


def state_head(learner: Learner, settings: dict[str, Any]) -> dict[str, Any]:
    """What a state says about its learner; `settings` are the arguments that a round depends on."""
    return {
        "version": STATE_VERSION,
        "learner": type(learner).__name__,
        "dim": learner.domain.dim,
        "settings": dict(settings),
    }


@contextmanager
def reading_state(learner: Learner, settings: dict[str, Any], state: Mapping[str, Any]) -> Iterator[None]:
    """Check the head of `state`; within the block, whatever does not fit becomes `InvalidInput`."""
    mine = state_head(learner, settings)
    if not isinstance(state, Mapping):
        raise InvalidInput.argument("state", expected="a dictionary of state_dict()", got=type(state).__name__)
    theirs = state.get("settings")
    for key, value in mine.items():
        if key == "settings" and isinstance(theirs, Mapping):
            for name in [*value, *(other for other in theirs if other not in value)]:
                if name not in value or name not in theirs or theirs[name] != value[name]:
                    got, expected = theirs.get(name), str(value.get(name))
                    raise InvalidInput.argument(f"state['settings'][{name!r}]", expected=expected, got=got)
        elif state.get(key) != value:
            raise InvalidInput.argument(f"state[{key!r}]", expected=str(value), got=state.get(key))
    try:
        yield
    except InvalidInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        got = f"{type(err).__name__}: {err}"
        raise InvalidInput.argument("state", expected="what state_dict() of such a learner wrote", got=got) from None


def state_numbers(state: Mapping[str, Any], key: str, names: Collection[str]) -> dict[str, float]:
    """The finite numbers ``state[key][name]`` of exactly these names."""
    if set(state[key]) != set(names):
        raise InvalidInput.argument(f"state[{key!r}]", expected=", ".join(names), got=", ".join(map(str, state[key])))
    return {name: in_range(state[key][name], f"state[{key!r}][{name!r}]") for name in names}
