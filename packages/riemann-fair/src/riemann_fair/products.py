"""Compiled row loops over a CSR matrix. Everything here works on arrays that were checked before.

Unweighted graphs are passed with a data array that is not read. Reductions may be reassociated by the compiler;
NaN and infinity keep their meaning.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from riemann_fair.tiles import tiled_product

_FAST = {"reassoc", "contract", "nsz", "arcp"}


def block_product(W: Any, uniform: float, Z: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
    """``W Z`` for a C-contiguous block Z (n, m) of float32 or float64; `columns`: W's indices in a narrower type."""
    m = Z.shape[1]
    width = -(-m // 4) * 4
    if width != m:
        wide = np.zeros((Z.shape[0], width), dtype=Z.dtype)
        wide[:, :m] = Z
        Z = wide
    Y = np.empty_like(Z)
    indices = W.indices if columns is None else columns
    _rows_times_block(W.indptr, indices, W.data, uniform, np.ascontiguousarray(Z), Y)
    return Y[:, :m] if width != m else Y


# The gathers below are compiled without reassociation: with it LLVM emits vector gathers, about twice as slow on the
# machines tried (block of 4: 2.9 against 1.4 ns an entry, single: 1.9 against 1.1). They are inlined by LLVM, not by
# numba, which would hand them the caller's flags. Unsigned indices spare Python's wrap-around of negative ones.
@numba.njit(cache=True, nogil=True)
def _rows_times_block(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, uniform: float, Z: np.ndarray, Y: np.ndarray
) -> None:
    """Four columns at a time in registers: one vector load and one add of each neighbour."""
    zero = Z[0, 0] * 0
    weight = zero + uniform
    one = np.uint64(1)
    for i in range(indptr.size - 1):
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for c in range(0, Z.shape[1], 4):
            a0 = a1 = a2 = a3 = zero
            p = start
            if uniform != 0:
                while p < end:
                    j = np.uint32(indices[p])
                    a0 += Z[j, c]
                    a1 += Z[j, c + 1]
                    a2 += Z[j, c + 2]
                    a3 += Z[j, c + 3]
                    p += one
                a0, a1, a2, a3 = a0 * weight, a1 * weight, a2 * weight, a3 * weight
            else:
                while p < end:
                    j = np.uint32(indices[p])
                    x = zero + data[p]
                    a0 += x * Z[j, c]
                    a1 += x * Z[j, c + 1]
                    a2 += x * Z[j, c + 2]
                    a3 += x * Z[j, c + 3]
                    p += one
            Y[i, c], Y[i, c + 1], Y[i, c + 2], Y[i, c + 3] = a0, a1, a2, a3


def projected(space: Any, trivial: np.ndarray | None, X: np.ndarray) -> np.ndarray:
    """X (n, m) without its part outside the fair subspace and along `trivial`; a new array."""
    Y = np.array(X, order="C")
    q = np.zeros(0) if trivial is None else trivial
    _project_block(Y, space.scale, space.codes, space.kd, np.ascontiguousarray(space.Z), space.sign, q)
    return Y


@numba.njit(cache=True, nogil=True)
def _project_block(
    Y: np.ndarray,
    cell_scale: np.ndarray,
    codes: np.ndarray,
    kd: np.ndarray,
    Z: np.ndarray,
    sign: float,
    q: np.ndarray,
) -> None:
    """In place, in two passes: cell sums and the trivial part; subtraction. Sums are float64 for float32 blocks too."""
    n, m = Y.shape
    sums = np.zeros((kd.size, m))
    along = np.zeros(m)
    deflate = q.size > 0
    for i in range(n):
        g, s = codes[i], cell_scale[i]
        for c in range(m):
            sums[g, c] += s * Y[i, c]
        if deflate:
            for c in range(m):
                along[c] += q[i] * Y[i, c]
    low = sign * (Z.T @ sums)
    coefficient = Z @ low
    for a in range(kd.size):
        for c in range(m):
            coefficient[a, c] += kd[a] * sums[a, c]
    for i in range(n):
        g, s = codes[i], cell_scale[i]
        for c in range(m):
            Y[i, c] -= s * coefficient[g, c]
        if deflate:
            for c in range(m):
                Y[i, c] -= q[i] * along[c]


@numba.njit(cache=True, nogil=True)
def sampled_rows_times_block(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    uniform: float,
    stride: int,
    turn: int,
    Z: np.ndarray,
    Y: np.ndarray,
) -> None:
    """An estimate of ``W Z`` (Z of shape (n, m), m a multiple of 4) from every `stride`-th entry of each row.

    Where a row's sample starts shifts with the row and the turn, so that no entry is left out for good. Runs of
    neighbours instead of single ones were slower: the prefetcher loses its way.
    """
    zero = Z[0, 0] * 0
    weight = zero + (uniform if uniform != 0 else 1.0)
    step = np.uint64(stride)
    for i in range(indptr.size - 1):
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if start == end:
            Y[i] = 0
            continue
        first = start + np.uint64((i + turn) % stride) % min(end - start, step)
        seen = (end - first - np.uint64(1)) // step + np.uint64(1)
        share = weight * (zero + (end - start) / seen)
        for c in range(0, Z.shape[1], 4):
            a0 = a1 = a2 = a3 = zero
            p = first
            if uniform != 0:
                while p < end:
                    j = np.uint32(indices[p])
                    a0 += Z[j, c]
                    a1 += Z[j, c + 1]
                    a2 += Z[j, c + 2]
                    a3 += Z[j, c + 3]
                    p += step
            else:
                while p < end:
                    j = np.uint32(indices[p])
                    x = zero + data[p]
                    a0 += x * Z[j, c]
                    a1 += x * Z[j, c + 1]
                    a2 += x * Z[j, c + 2]
                    a3 += x * Z[j, c + 3]
                    p += step
            Y[i, c], Y[i, c + 1], Y[i, c + 2], Y[i, c + 3] = share * a0, share * a1, share * a2, share * a3


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _coefficients(kd: np.ndarray, Z: np.ndarray, sign: float, sums: np.ndarray, c: np.ndarray) -> None:
    """``c = (diag(kd) + sign Z Z^T) sums``: what the projection takes away, by cell."""
    for a in range(kd.size):
        c[a] = kd[a] * sums[a]
    for b in range(Z.shape[1]):
        low = 0.0
        for a in range(kd.size):
            low += Z[a, b] * sums[a]
        low *= sign
        for a in range(kd.size):
            c[a] += Z[a, b] * low


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def lanczos_steps(
    width: int,
    tile_first: np.ndarray,
    runs: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    uniform: float,
    tau_n: float,
    s: np.ndarray,
    q: np.ndarray,
    cell_scale: np.ndarray,
    codes: np.ndarray,
    kd: np.ndarray,
    Z: np.ndarray,
    sign: float,
    locked: np.ndarray,
    full: bool,
    history: np.ndarray,
    alphas: np.ndarray,
    norms: np.ndarray,
    first: int,
    last: int,
    r: np.ndarray,
    before: np.ndarray,
    u: np.ndarray,
    w: np.ndarray,
) -> int:
    """Steps `first` to `last` of the Lanczos recurrence on ``P A P``; returns the number of steps done.

    Vectors stay unscaled: ``r`` has norm ``norms[j]``, the j-th Lanczos vector is ``r / norms[j]``, and row j of
    `history` is r. A step is the product and two passes over the vectors: (1) scaling, alpha, cell sums and the trivial
    part; (2) subtraction, norm, ``u = s r`` for the next product, and the history. The rows of `locked` are removed at
    every step; with `full`, so is the whole history, twice. Ends early when the Krylov space is exhausted.

    One long function, because every array it walks through is walked through once a pass.
    """
    n = r.size
    sums = np.zeros(kd.size)
    c = np.zeros(kd.size)
    for j in range(first, last):
        inv = 1.0 / norms[j]
        total = 0.0
        if tau_n != 0.0:
            for i in range(n):
                total += u[i]
        sums[:] = 0.0
        tiled_product(width, tile_first, runs, rows, columns, values, uniform, u, w)
        shift = tau_n * total
        alpha = trivial = 0.0
        for i in range(n):
            y = s[i] * (w[i] + shift) * inv
            w[i] = y
            alpha += r[i] * y
            trivial += q[i] * y
            sums[codes[i]] += cell_scale[i] * y
        alpha *= inv
        alphas[j] = alpha
        _coefficients(kd, Z, sign, sums, c)
        here = alpha * inv
        back = norms[j] / norms[j - 1] if j > 0 else 0.0
        square = 0.0
        row = history[j + 1]
        for i in range(n):
            y = w[i] - here * r[i] - back * before[i] - cell_scale[i] * c[codes[i]] - trivial * q[i]
            before[i] = r[i]
            r[i] = y
            u[i] = s[i] * y
            row[i] = y
            square += y * y
        if full or locked.shape[0] > 0:
            for b in range(locked.shape[0]):
                _remove(locked[b], 1.0, r)
            if full:
                for b in range(2 * (j + 1)):
                    _remove(history[b % (j + 1)], 1.0 / norms[b % (j + 1)] ** 2, r)
            square = 0.0
            for i in range(n):
                u[i] = s[i] * r[i]
                row[i] = r[i]
                square += r[i] * r[i]
        norms[j + 1] = np.sqrt(square)
        if norms[j + 1] < 1e-13:
            return j + 1
    return last


@numba.njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _remove(y: np.ndarray, factor: float, r: np.ndarray) -> None:
    """``r - (y . r) factor y``, in place."""
    dot = 0.0
    for i in range(r.size):
        dot += y[i] * r[i]
    dot *= factor
    for i in range(r.size):
        r[i] -= dot * y[i]
