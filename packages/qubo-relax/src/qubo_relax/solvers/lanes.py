"""What one block of lanes is given and gives back, and when it must stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Stop:
    """The deadline (``time.monotonic()``, or infinity) and a callback that may end the run by returning True."""

    deadline: float = np.inf
    callback: Callable[[int, float], bool | None] | None = None

    def now(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.deadline


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

    X: NDArray[np.float32] | NDArray[np.int8]
    steps: int
    ended: str


def chunk(nnz: int, n: int, lanes: int, seconds: float = 0.1) -> int:
    """Steps between two looks at the clock: about `seconds` of work."""
    return max(1, int(seconds * 1e9 / max(1, (nnz + 8 * n) * lanes)))
