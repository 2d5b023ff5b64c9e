"""A fast Legendre transform by divide and conquer, with a counter of its operations: the paper's O(L^2 log^2 L) a
signal.

For one order m the transform is ``c[l] = sum_j s[j] P[l, m](x[j])``, l = m .. lmax, from data s on the nodes x.
Driscoll and Healy's idea: keep the Chebyshev moments ``Z_l[k] = sum_j s[j] P_l(x[j]) T_k(x[j])`` of two neighbouring
degrees; by the three-term recurrence ``P_{l+r} = A_r P_l + B_r P_{l-1}`` with polynomials A_r, B_r of degree r and r -
1, the moments of two degrees half way up follow by products with short polynomials, and half as many moments are needed
there. A correctness reference and an operation count: in wall time a matrix product wins at every degree of practical
interest, and the polynomials lose digits quickly as m grows, so degrees above 48 are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

Array = NDArray[np.float64]
HIGHEST = 48
_DIRECT = 4  # below this many degrees a block is finished by plain sums


@dataclass
class Counter:
    """Multiply-adds performed so far."""

    operations: float = 0.0


def legendre_fast(data: Array, nodes: Array, m: int, lmax: int, counter: Counter | None = None) -> Array:
    """Sums of `data` against the orthonormal Legendre functions of one order.

    Parameters
    ----------
    data : ndarray [n]
        Values at the nodes, quadrature weights included.
    nodes : ndarray [n]
        cos(theta) of each.
    m, lmax : int
        Order, and the highest degree (at most 48).
    counter : Counter, optional
        Counts multiply-adds; a transform of length n counts ``2.5 n log2 n``.

    Returns
    -------
    ndarray [lmax - m + 1]
        ``sum_j data[j] P[l, m](theta[j])`` for l = m .. lmax.

    Raises
    ------
    InvalidInput
        If lmax exceeds 48: without a stabilised split the recurrence loses its digits.
    """
    if lmax > HIGHEST:
        raise InvalidInput.argument("lmax", expected=f"at most {HIGHEST}", got=lmax)
    counter = counter or Counter()
    count = lmax - m + 1
    size = 1 << max(0, (count - 1).bit_length())
    # the first function of the order, up to its constant: sin^m theta
    norm = np.sqrt(1 / (4 * np.pi)) * np.prod([np.sqrt((2 * k + 1) / (2 * k)) for k in range(1, m + 1)])
    start = data * norm * np.sqrt(np.maximum(1 - nodes * nodes, 0)) ** m
    angles = np.arccos(np.clip(nodes, -1, 1))
    moments = np.cos(np.outer(np.arange(2 * size), angles)) @ start
    counter.operations += (
        2.5 * len(nodes) * np.log2(max(2, len(nodes)))
    )  # a cosine transform does this on Chebyshev nodes
    out = np.zeros(size)
    _split(moments[: 2 * size], np.zeros(2 * size), m, m, size, out, counter)
    return out[:count]


def recurrence(m: int, degree: int) -> tuple[float, float]:
    """a, b of ``P[l+1] = a x P[l] - b P[l-1]`` at l = `degree`, for orthonormal functions of order m."""
    a = np.sqrt((4 * (degree + 1) ** 2 - 1) / ((degree + 1) ** 2 - m * m))
    lower = np.sqrt(max(degree * degree - m * m, 0) / (4 * degree * degree - 1)) if degree > 0 else 0.0
    return float(a), float(a * lower)


def _split(Z: Array, Zm: Array, m: int, degree: int, size: int, out: Array, counter: Counter) -> None:
    """Outputs degree .. degree + size - 1 from the first 2 size moments of P[degree] and P[degree - 1]."""
    if size <= _DIRECT:
        _finish(Z, Zm, m, degree, size, out, counter)
        return
    half = size // 2
    _split(Z[:size], Zm[:size], m, degree, half, out, counter)
    A, B = _shifted(m, degree, half)
    Am, Bm = _shifted(m, degree, half - 1)
    upper = _times(A, Z, size, counter) + _times(B, Zm, size, counter)
    below = _times(Am, Z, size, counter) + _times(Bm, Zm, size, counter)
    _split(upper, below, m, degree + half, half, out, counter)


def _finish(Z: Array, Zm: Array, m: int, degree: int, size: int, out: Array, counter: Counter) -> None:
    for r in range(size):
        out[degree - m + r] = Z[0]
        if r + 1 < size:
            a, b = recurrence(m, degree + r)
            n = len(Z) - 1
            # x T_k = (T_{k+1} + T_{|k-1|}) / 2
            times_x = 0.5 * (Z[1 : n + 1] + np.concatenate([Z[1:2], Z[: n - 1]]))
            Z, Zm = a * times_x - b * Zm[:n], Z[:n]
            counter.operations += 3 * n


_SHIFTED: dict[tuple[int, int, int], tuple[Array, Array]] = {}


def _shifted(m: int, degree: int, r: int) -> tuple[Array, Array]:
    """Chebyshev coefficients of A_r and B_r (tables of the method, not counted)."""
    key = m, degree, r
    if key not in _SHIFTED:
        A, Am = np.array([1.0]), np.array([0.0])
        B, Bm = np.array([0.0]), np.array([1.0])
        for k in range(r):
            a, b = recurrence(m, degree + k)
            A, Am = np.polynomial.chebyshev.chebsub(a * np.polynomial.chebyshev.chebmulx(A), b * Am), A
            B, Bm = np.polynomial.chebyshev.chebsub(a * np.polynomial.chebyshev.chebmulx(B), b * Bm), B
        _SHIFTED[key] = A, B
    return _SHIFTED[key]


def _times(polynomial: Array, Z: Array, keep: int, counter: Counter) -> Array:
    """The first `keep` moments of polynomial times the function whose moments Z are: T_n T_k = (T_{n+k} + T_{|n-k|}) /
    2.

    Done by FFT on the even extension; polynomial of degree <= keep / 2, Z of length 2 keep.
    """
    length = 4 * keep
    even = np.zeros(length)
    even[: len(Z)] = Z
    even[-len(Z) + 1 :] = Z[:0:-1]
    kernel = np.zeros(length)
    kernel[0] = polynomial[0]
    kernel[1 : len(polynomial)] = 0.5 * polynomial[1:]
    kernel[-len(polynomial) + 1 :] += 0.5 * polynomial[:0:-1] if len(polynomial) > 1 else 0.0
    product = np.fft.irfft(np.fft.rfft(even) * np.fft.rfft(kernel).real, length)
    # two real transforms of the data (the kernel's is a table), half of each by symmetry, and a multiplication
    counter.operations += 2.5 * length / 2 * np.log2(length) + length / 2
    return product[:keep]


@lru_cache(maxsize=1 << 16)
def fast_operations(count: int, n_theta: int) -> float:
    """Multiply-adds of `legendre_fast` for `count` degrees from `n_theta` nodes, without running it."""
    total = 2.5 * n_theta * np.log2(max(2, n_theta))
    size = 1 << max(0, (count - 1).bit_length())
    blocks = 1
    while size > _DIRECT:
        length = 4 * size
        total += blocks * 4 * (2.5 * length / 2 * np.log2(length) + length / 2)
        size //= 2
        blocks *= 2
    return float(total + blocks * sum(3 * (2 * size - 1 - r) for r in range(size - 1)))
