"""Schedules of the Lyapunov parameter lambda: how fast the penalty answers a violation.

All are non-increasing in the clock ``n`` (rounds, or violated rounds) and know no horizon, except `fixed`.
Plain scalar functions; `oco_anytime.kernels` compiles them.
"""

import math


def sqrt_schedule(n: float) -> float:
    """Lambda = 1/(2 sqrt n): the known-horizon choice 1/(2 sqrt T) made anytime.

    Parameters
    ----------
    n : float
        The clock, at least 1.

    Returns
    -------
    float

    Notes
    -----
    [I] The default of paper mode, inferred from the ancestor's constant (arXiv 2310.18955) and the summaries of
    arXiv 2510.22579.
    """
    return 0.5 / math.sqrt(n)


def summable_schedule(n: float, rows: float, eps: float) -> float:
    """Lambda = sqrt(k/(m n)) / (1 + log n)^((1+eps)/2), k = 1/(4 (1 + 1/eps)): squares sum to at most 1/(4 m).

    Parameters
    ----------
    n : float
        The clock, at least 1.
    rows : float
        The number m of penalties that share the sum (1 unless ``aggregate="each"``).
    eps : float
        Positive; how fast the logarithm's power exceeds 1.

    Returns
    -------
    float

    Notes
    -----
    [I/N] ``sum 1/(n (1+log n)^(1+eps)) <= 1 + 1/eps`` by the integral test, which gives both clean bounds of the
    theory page.
    """
    k = 0.25 / (1.0 + 1.0 / eps)
    return math.sqrt(k / (rows * n)) / math.pow(1.0 + math.log(n), 0.5 * (1.0 + eps))


def fixed_schedule(horizon: float) -> float:
    """Lambda = 1/(2 sqrt T), constant: the ancestor with a known horizon T (arXiv 2310.18955) [P]."""
    return 0.5 / math.sqrt(horizon)
