"""Golden-section search (Kiefer 1953): one function value a step, and a bracket that shrinks by the golden ratio.

The worked example of `lemmata new`: one verb, checked at the door, one visible loop, one frozen dataclass out.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int

if TYPE_CHECKING:
    from collections.abc import Callable

INVERSE_RATIO = (math.sqrt(5) - 1) / 2  # 0.618..., the part of the bracket that a step keeps


@dataclass(frozen=True)
class Solution:
    """What `minimise` found.

    Attributes
    ----------
    x : float
        The best point.
    objective : float
        The function's value at `x`.
    low, high : float
        The last bracket: a minimiser of a unimodal function lies in it.
    status : str
        "converged" (``high - low <= tol``), "max_iter", or "rounding" (no number is left between the inner points).
    n_iter : int
        Steps; each kept 0.618 of the bracket.
    n_evaluations : int
    wall_time : float
        Seconds.
    """

    x: float
    objective: float
    low: float
    high: float
    status: str
    n_iter: int
    n_evaluations: int
    wall_time: float


def minimise(
    function: Callable[[float], float], low: float, high: float, *, tol: float = 1e-8, max_iter: int = 200
) -> Solution:
    """Find the least value of a unimodal function on an interval.

    Parameters
    ----------
    function : callable
        From float to float: falls, then rises, on ``[low, high]``.
    low, high : float
        Ends of the interval, ``low < high``.
    tol : float
        Width of the bracket at which to stop, absolute, > 0.
    max_iter : int
        Most steps to take.

    Returns
    -------
    Solution
        ``abs(x - minimiser) <= high - low``. The status says whether `tol` was reached.

    Raises
    ------
    InvalidInput
        If an argument is out of range, or the function's value is not a finite number.

    References
    ----------
    J. Kiefer, "Sequential minimax search for a maximum", Proc. AMS 4 (1953), 502-506.
    """
    start = time.perf_counter()
    if not callable(function):
        raise InvalidInput.argument("function", expected="a callable from float to float", got=function)
    a, b = in_range(low, "low"), in_range(high, "high")
    if not a < b:
        raise InvalidInput.argument("low, high", expected="low < high", got=f"{low!r}, {high!r}")
    tol = in_range(tol, "tol", 0.0, low_open=True)
    max_iter = positive_int(max_iter, "max_iter")

    left, right = b - INVERSE_RATIO * (b - a), a + INVERSE_RATIO * (b - a)
    f_left, n_evaluations, n_iter = _value(function, left), 1, 0
    # One of the two inner points is known at the start of a step; the other is evaluated only when a step is taken.
    known_left = True
    f_right = math.nan
    while b - a > tol and n_iter < max_iter and a < left < right < b:
        if known_left:
            f_right = _value(function, right)
        else:
            f_left = _value(function, left)
        n_evaluations += 1
        n_iter += 1
        if f_left <= f_right:
            b, right, f_right = right, left, f_left
            left, known_left = b - INVERSE_RATIO * (b - a), False
        else:
            a, left, f_left = left, right, f_right
            right, known_left = a + INVERSE_RATIO * (b - a), True
    return Solution(
        x=left if known_left else right,
        objective=f_left if known_left else f_right,
        low=a,
        high=b,
        status="converged" if b - a <= tol else ("max_iter" if n_iter == max_iter else "rounding"),
        n_iter=n_iter,
        n_evaluations=n_evaluations,
        wall_time=time.perf_counter() - start,
    )


def _value(function: Callable[[float], float], x: float) -> float:
    value = function(x)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput.argument("function", expected="finite numbers", got=f"{value!r} at {x!r}")
    return number
