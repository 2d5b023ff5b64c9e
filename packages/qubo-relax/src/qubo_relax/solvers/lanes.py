"""What one block of lanes is given and gives back, and when it must stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Stop:
    """When to stop and whom to tell.

    Attributes
    ----------
    deadline : float
        Of ``time.monotonic()``.
    callback : callable, optional
        Given the steps done and the best energy known; ends the run by returning True.
    advance : callable, optional
        Counts the steps of all lanes.
    best : float
        The lowest energy of a finished lane, NaN before there is one.
    """

    deadline: float = np.inf
    callback: Callable[[int, float], bool | None] | None = None
    advance: Callable[[float], None] | None = None
    best: float = np.nan

    def count(self, steps: int) -> None:
        """Tell the counter that so many steps of one lane are done."""
        if self.advance is not None:
            self.advance(steps)

    def note(self, energy: float) -> None:
        """Remember the energy of a finished lane."""
        self.best = float(np.fmin(self.best, energy))

    def reason(self, step: int) -> str:
        """Why to end at this step, "done" for no reason."""
        if time.monotonic() >= self.deadline:
            return "time_limit"
        if self.callback is not None and self.callback(step, self.best):
            return "callback"
        return "done"


@dataclass(frozen=True)
class Lanes:
    """Where a block of lanes ended.

    Attributes
    ----------
    X : ndarray of shape (B, n)
        Points of the box, before rounding.
    steps : int
        Steps or sweeps done.
    ended : {"done", "time_limit", "interrupted", "callback"}
    """

    X: NDArray[Any]
    steps: int
    ended: str


def chunk(nnz: int, n: int, lanes: int, seconds: float = 0.1) -> int:
    """Steps between two looks at the clock: about `seconds` of work."""
    return max(1, int(seconds * 1e9 / max(1, (nnz + 8 * n) * lanes)))
