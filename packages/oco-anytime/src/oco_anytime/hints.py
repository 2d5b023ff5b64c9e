"""Predictions of the next round for `OptimisticCOCO`: what they are, and simple ways to make them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

if TYPE_CHECKING:
    import collections.abc
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector


@dataclass(frozen=True)
class Hint:
    """A prediction of the next round: cost gradient, and a constraint ``a . x <= b``.

    Attributes
    ----------
    cost_grad : array_like, shape (d,), or None
    a : array_like, shape (d,), or None
    b : float
    """

    cost_grad: ArrayLike | None = None
    a: ArrayLike | None = None
    b: float = 0.0


class HintSource:
    """Makes hints from the rounds seen so far."""

    def next(self) -> Hint | None:
        """The hint for the coming round; None while there is nothing to go by."""
        raise NotImplementedError

    def observe(self, cost_grad: Vector, a: Vector | None, b: float) -> None:
        """Take in a round: gradient, and its constraint as ``a . x <= b`` (None where no gradient came)."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for checkpoints."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state."""


class _Memory(HintSource):
    """Keeps the last `size` rounds."""

    def __init__(self, size: int) -> None:
        self._rounds: deque[tuple[Vector, Vector | None, float]] = deque(maxlen=size)

    def observe(self, cost_grad: Vector, a: Vector | None, b: float) -> None:
        """Take in a round."""
        self._rounds.append((cost_grad.copy(), None if a is None else a.copy(), float(b)))

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for checkpoints."""
        return {"rounds": [(c.tolist(), None if a is None else a.tolist(), b) for c, a, b in self._rounds]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state."""
        rounds = [
            (np.array(c, dtype=float), None if a is None else np.array(a, dtype=float), float(b))
            for c, a, b in state["rounds"]
        ]
        self._rounds.clear()
        self._rounds.extend(rounds)


class Last(_Memory):
    """The next round will be as the last."""

    def __init__(self) -> None:
        super().__init__(1)

    def next(self) -> Hint | None:
        """The last round."""
        return Hint(*self._rounds[-1]) if self._rounds else None


class Mean(_Memory):
    """The mean of the last `window` rounds (constraints: of those that showed one).

    Parameters
    ----------
    window : int
    """

    def __init__(self, window: int) -> None:
        super().__init__(positive_int(window, "window"))

    def next(self) -> Hint | None:
        """The mean."""
        if not self._rounds:
            return None
        c = np.mean([c for c, _, _ in self._rounds], axis=0)
        shown = [(a, b) for _, a, b in self._rounds if a is not None]
        if not shown:
            return Hint(c)
        return Hint(c, np.mean([a for a, _ in shown], axis=0), float(np.mean([b for _, b in shown])))


class Periodic(_Memory):
    """The round one `period` ago.

    Parameters
    ----------
    period : int
    """

    def __init__(self, period: int) -> None:
        self.period = positive_int(period, "period")
        super().__init__(self.period)

    def next(self) -> Hint | None:
        """The round one period ago, once there is one."""
        return Hint(*self._rounds[0]) if len(self._rounds) == self.period else None


class Callable(HintSource):
    """Hints from a function or a model.

    Parameters
    ----------
    fn : callable
        ``t -> Hint or None`` for round t (from 0); it owns what it remembers, which checkpoints do not hold.
    """

    def __init__(self, fn: collections.abc.Callable[[int], Hint | None]) -> None:
        if not callable(fn):
            raise InvalidInput.argument("fn", expected="a callable", got=fn)
        self._fn, self._t = fn, 0

    def next(self) -> Hint | None:
        """What the function says for this round."""
        return self._fn(self._t)

    def observe(self, cost_grad: Vector, a: Vector | None, b: float) -> None:  # noqa: ARG002 - the interface
        """Count the round."""
        self._t += 1

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for checkpoints."""
        return {"t": self._t}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state."""
        self._t = int(state["t"])
