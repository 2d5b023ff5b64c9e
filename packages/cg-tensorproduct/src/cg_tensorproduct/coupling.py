"""Coupling coefficients: Clebsch-Gordan blocks, e3nn's real 3j tensor, and the factors of the signal product.

For fixed (l1, l2, M) the numbers <l1 m1 l2 M-m1 | l3 M> are the orthonormal eigenvectors of the tridiagonal matrix of
J^2 in the product basis; its eigenvalues l3 (l3 + 1) are simple. That keeps full accuracy at every degree, where the
lowering operator (2e-4 at l = 32) and sums of factorials in floating point do not. numpy and scipy only.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, fsum, lgamma, log, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_SQRT_HALF = sqrt(0.5)
_CLEAR = 1e-8  # far above the rounding of an entry of a unit vector
_PLAIN_ENOUGH = 16  # up to this l1 + l2 LAPACK's vectors are exact to 4e-15 as they come


def check_degrees(*degrees: int) -> tuple[int, ...]:
    """Return `degrees` as plain integers, or raise `InvalidInput` if one is no integer >= 0."""
    for value in degrees:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise InvalidInput.argument("l", expected="integers >= 0", got=degrees)
    return tuple(int(value) for value in degrees)


def triangle(l1: int, l2: int, l3: int) -> bool:
    """Whether l3 occurs in l1 x l2."""
    return abs(l1 - l2) <= l3 <= l1 + l2


def first_m1(l1: int, l2: int, M: int) -> int:
    """The smallest m1 of the block (l1, l2, M)."""
    return max(-l1, M - l2)


def block(l1: int, l2: int, M: int) -> Array:
    """The orthogonal matrix <l1 m1 l2 M-m1 | l3 M> of one magnetic number.

    Parameters
    ----------
    l1, l2, M : int
        ``0 <= M <= l1 + l2``. Negative M follows from the factor ``(-1)**(l1 + l2 - l3)``.

    Returns
    -------
    ndarray [n, n], float64, read-only
        Rows m1 = max(-l1, M - l2) .. min(l1, M + l2), columns l3 = max(|l1 - l2|, M) .. l1 + l2. Condon-Shortley
        phase: the entry of the largest m1 is positive.
    """
    return blocks(l1, l2)[M]


@lru_cache(maxsize=4096)  # every pair to l = 63
def blocks(l1: int, l2: int) -> tuple[Array, ...]:
    """`block` for every M = 0 .. l1 + l2, at once because the arrays are small and calls of numpy are not."""
    made = _mirrored(blocks(l2, l1)) if l1 < l2 else _made_blocks(l1, l2)
    for vectors in made:
        vectors.flags.writeable = False
    return tuple(made)


def _mirrored(given: tuple[Array, ...]) -> list[Array]:
    """Exchange symmetry: rows reversed, columns times (-1)^(l1+l2-l3)."""
    made = [vectors[::-1].copy() for vectors in given]
    for vectors in made:
        vectors[:, -2::-2] *= -1
    return made


def _made_blocks(l1: int, l2: int) -> list[Array]:
    M = np.arange(l1 + l2 + 1)[:, None]
    m1 = np.maximum(-l1, M - l2) + np.arange(2 * l2 + 1)  # past the end of the shorter blocks: not read
    m2 = M - m1
    diagonal = (l1 * (l1 + 1) + l2 * (l2 + 1) + 2 * m1 * m2).astype(float)
    squares = ((l1 - m1) * (l1 + m1 + 1) * (l2 + m2) * (l2 - m2 + 1)).astype(float)
    off = np.sqrt(np.maximum(squares, 0))
    l3 = np.arange(l1 - l2, l1 + l2 + 1)
    eigenvalues = (l3 * (l3 + 1)).astype(float)
    made = []
    for k in range(l1 + l2 + 1):
        n = min(2 * l2, l1 + l2 - k) + 1
        if n == 1:
            made.append(np.ones((1, 1)))
            continue
        vectors = _eigenvectors(diagonal[k, :n], off[k, : n - 1])
        if l1 + l2 > _PLAIN_ENOUGH:
            vectors = _refine(vectors, diagonal[k, :n], squares[k, : n - 1], eigenvalues[-n:])
        made.append(vectors)
    _fix_signs(made, diagonal, off, eigenvalues)
    return made


def _eigenvectors(diagonal: Array, off: Array) -> Array:
    from scipy.linalg import LinAlgError, lapack

    # dstev rather than scipy.linalg.eigh_tridiagonal: the same LAPACK, a third of the time a call on small blocks.
    _, vectors, info = lapack.dstev(diagonal, off)
    if info != 0:  # pragma: no cover - QL on these matrices has not been seen to fail
        raise LinAlgError(f"dstev failed with info={info}")
    return np.asarray(vectors)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Dekker's product: ``a * b`` as a rounded value and its exact error."""
    split = 134217729.0  # 2**27 + 1
    a_high, b_high = split * a, split * b
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _refine(vectors: Array, diagonal: Array, squares: Array, eigenvalues: Array) -> Array:
    """One first-order correction with the exact eigenvalues and a residual in twice the working precision.

    The rounding of the square roots alone moves the vectors by eps |J^2| / gap, 1e-13 at l = 64; the residual of the
    exact matrix sees that, and the correction takes it to the last bit.
    """
    off = np.sqrt(squares)
    root, tail = _two_product(off, off)
    off_low = (squares - root - tail) / (2 * off)
    total, rest = _two_product(diagonal[:, None] - eigenvalues, vectors)
    for rows, values in ((slice(1, None), vectors[:-1]), (slice(None, -1), vectors[1:])):
        term, error = _two_product(off[:, None], values)
        before = total[rows]
        after = before + term
        back = after - before
        rest[rows] += (before - (after - back)) + (term - back) + error + off_low[:, None] * values
        total[rows] = after
    gaps = eigenvalues[:, None] - eigenvalues
    np.fill_diagonal(gaps, np.inf)
    corrected = vectors - vectors @ ((vectors.T @ (total + rest)) / gaps)
    # Newton's step for the length; |v|^2 - 1 is far below one here.
    square, low = _two_product(corrected, corrected)
    excess = np.array([fsum([-1.0, *square[:, k], *low[:, k]]) for k in range(square.shape[1])])
    return np.asarray(corrected - 0.5 * excess * corrected)


def _fix_signs(made: list[Array], diagonal: Array, off: Array, eigenvalues: Array) -> None:
    """Make the entry of the largest m1 positive in every column, where it may lie far below rounding.

    An eigenvector of a tridiagonal matrix with positive off-diagonals changes its sign once for each larger
    eigenvalue, so either end that stands clear of rounding decides.
    """
    changes = 1 - 2 * (np.arange(len(eigenvalues) - 1, -1, -1) % 2)
    ends = np.concatenate([vectors[-1] for vectors in made])
    others = np.concatenate([vectors[0] * changes[-len(vectors) :] for vectors in made])
    decided = np.where(np.abs(ends) > _CLEAR, ends, others)
    signs, unclear = np.where(decided < 0, -1.0, 1.0), np.abs(decided) <= _CLEAR
    start = 0
    for k, vectors in enumerate(made):
        n = len(vectors)
        vectors *= signs[start : start + n]
        if unclear[start : start + n].any():
            for column in np.flatnonzero(unclear[start : start + n]):
                eigenvalue = float(eigenvalues[len(eigenvalues) - n + column])
                _carry_sign(vectors[:, column], diagonal[k, :n], off[k, : n - 1], eigenvalue)
        start += n


def _carry_sign(vector: Array, diagonal: Array, off: Array, eigenvalue: float) -> None:
    """Carry the sign of the last entry inwards by the three-term recursion, which is stable in that direction as long
    as the vector grows, to the first entry above a fifth of the largest; there the computed sign can be trusted.
    """
    magnitude = np.abs(vector)
    enough = 0.2 * magnitude.max()
    after, here = 0.0, 1.0
    k = len(diagonal) - 1
    while magnitude[k] <= enough:
        coupled = off[k] * after if k < len(off) else 0.0
        before = ((eigenvalue - diagonal[k]) * here - coupled) / off[k - 1]
        scale = max(abs(before), abs(here))
        after, here = here / scale, before / scale
        k -= 1
    if here * vector[k] < 0:
        vector *= -1


def real_basis(l: int) -> NDArray[np.complex128]:  # noqa: E741
    """The unitary matrix Q of e3nn's real basis: rows are complex m, columns real m."""
    q = np.zeros((2 * l + 1, 2 * l + 1), dtype=complex)
    q[l, l] = 1
    m = np.arange(1, l + 1)
    sign = (-1.0) ** m
    q[l - m, l + m] = _SQRT_HALF
    q[l - m, l - m] = -1j * _SQRT_HALF
    q[l + m, l + m] = sign * _SQRT_HALF
    q[l + m, l - m] = 1j * sign * _SQRT_HALF
    return q * (-1j) ** l


def _complex_tensor(l1: int, l2: int, l3: int) -> Array:
    out = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    sign = (-1.0) ** (l1 + l2 - l3)
    for M in range(l3 + 1):
        m1 = np.arange(first_m1(l1, l2, M), min(l1, M + l2) + 1)
        column = block(l1, l2, M)[:, l3 - max(abs(l1 - l2), M)]
        out[l1 + m1, l2 + M - m1, l3 + M] = column
        out[l1 - m1, l2 - M + m1, l3 - M] = sign * column
    return out


def clebsch_gordan(l1: int, l2: int, l3: int, *, basis: str = "real") -> Array:
    """Clebsch-Gordan coefficients <l1 m1 l2 m2 | l3 m3>, orthonormal over (m1, m2) for each m3.

    Parameters
    ----------
    l1, l2, l3 : int
        Degrees, each >= 0.
    basis : {"real", "complex"}
        e3nn's real basis, or the complex one with the Condon-Shortley phase.

    Returns
    -------
    ndarray [2 l1 + 1, 2 l2 + 1, 2 l3 + 1], float64
        Zero if l3 does not occur in l1 x l2. The error is below 1e-14 for all degrees up to 64.

    Raises
    ------
    InvalidInput
        If a degree is no integer >= 0 or the basis is unknown.
    """
    l1, l2, l3 = check_degrees(l1, l2, l3)
    if basis not in ("real", "complex"):
        raise InvalidInput.argument("basis", expected="'real' or 'complex'", got=basis)
    if not triangle(l1, l2, l3):
        return np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    return _complex_tensor(l1, l2, l3) if basis == "complex" else _real_tensor(l1, l2, l3).copy()


@lru_cache(maxsize=4096)
def _real_tensor(l1: int, l2: int, l3: int) -> Array:
    # In the real basis (m1, m2) meets only m3 = +-|m1| +- |m2|: at most 4 complex terms an entry, so the matrix
    # products below add nothing but exact zeros to them.
    tensor = _complex_tensor(l1, l2, l3).astype(complex)
    tensor = np.tensordot(real_basis(l1), tensor, axes=(0, 0))
    tensor = np.tensordot(real_basis(l2), tensor, axes=(0, 1)).transpose(1, 0, 2)
    real = np.ascontiguousarray((tensor @ real_basis(l3).conj()).real)
    real.flags.writeable = False
    return real


def _log_delta(l1: int, l2: int, l3: int) -> float:
    J = l1 + l2 + l3
    return 0.5 * (lgamma(J - 2 * l1 + 1) + lgamma(J - 2 * l2 + 1) + lgamma(J - 2 * l3 + 1) - lgamma(J + 2))


def _log_norm(l1: int, l2: int, l3: int) -> float:
    return 0.5 * log((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1) / (4 * pi))


def gaunt_coefficient(l1: int, l2: int, l3: int) -> float:
    """The factor g with which a path stands in the pointwise product of two functions on the sphere.

    In e3nn's basis and with orthonormal real harmonics, ``(F G)[l3] = sum g(l1, l2, l3) w3j(l1, l2, l3) . (x[l1],
    y[l2])`` with all signs positive.

    Returns
    -------
    float
        ``Delta h! / ((h - l1)! (h - l2)! (h - l3)!) sqrt((2 l1 + 1)(2 l2 + 1)(2 l3 + 1) / 4 pi)`` with
        ``h = (l1 + l2 + l3) / 2``; zero when the sum is odd or the triangle is broken: these paths the pointwise
        product loses.

    Raises
    ------
    InvalidInput
        If a degree is no integer >= 0.
    """
    l1, l2, l3 = check_degrees(l1, l2, l3)
    if (l1 + l2 + l3) % 2 or not triangle(l1, l2, l3):
        return 0.0
    h = (l1 + l2 + l3) // 2
    multinomial = lgamma(h + 1) - lgamma(h - l1 + 1) - lgamma(h - l2 + 1) - lgamma(h - l3 + 1)
    return exp(_log_delta(l1, l2, l3) + multinomial + _log_norm(l1, l2, l3))


def bracket_coefficient(l1: int, l2: int, l3: int) -> float:
    """The factor g with which a path stands in the surface Poisson bracket r . (grad F x grad G).

    Returns
    -------
    float
        ``2 Delta (h + 1)! / ((h - l1)! (h - l2)! (h - l3)!) sqrt((2 l1 + 1)(2 l2 + 1)(2 l3 + 1) / 4 pi)`` with
        ``h = (l1 + l2 + l3 - 1) / 2``; zero when the sum is even or the triangle is broken. Never below 1.19682684
        otherwise.

    Raises
    ------
    InvalidInput
        If a degree is no integer >= 0.
    """
    l1, l2, l3 = check_degrees(l1, l2, l3)
    if (l1 + l2 + l3) % 2 == 0 or not triangle(l1, l2, l3):
        return 0.0
    h = (l1 + l2 + l3 - 1) // 2
    multinomial = lgamma(h + 2) - lgamma(h - l1 + 1) - lgamma(h - l2 + 1) - lgamma(h - l3 + 1)
    return 2 * exp(_log_delta(l1, l2, l3) + multinomial + _log_norm(l1, l2, l3))


def coupling_coefficient(l1: int, l2: int, l3: int) -> float:
    """`gaunt_coefficient` or `bracket_coefficient`, whichever does not vanish for the path."""
    l1, l2, l3 = check_degrees(l1, l2, l3)
    return bracket_coefficient(l1, l2, l3) if (l1 + l2 + l3) % 2 else gaunt_coefficient(l1, l2, l3)
