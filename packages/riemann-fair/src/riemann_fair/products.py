"""Compiled row loops over a CSR matrix. Everything here works on arrays that were checked before.

Unweighted graphs are passed with a data array that is not read. Reductions may be reassociated by the compiler;
NaN and infinity keep their meaning.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

NOT_FINITE, NEGATIVE, ASYMMETRIC = 1, 2, 3
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@numba.njit(cache=True, nogil=True)
def scan(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, tolerance: float) -> int:
    """Look for a fault in a canonical CSR matrix: 0, NOT_FINITE, NEGATIVE or ASYMMETRIC.

    Rows are read in order. A pointer in every row says how many of its entries left of the diagonal have been
    matched by the rows above; both triangles agree exactly when each pointer stops at the diagonal.
    """
    n = indptr.size - 1
    biggest = 0.0
    for p in range(data.size):
        v = data[p]
        if not np.isfinite(v):
            return NOT_FINITE
        if v < 0:
            return NEGATIVE
        biggest = max(biggest, v)
    seen = indptr[:-1].copy()
    limit = tolerance * biggest
    for i in range(n):
        p = seen[i]
        end = indptr[i + 1]
        if p < end and indices[p] < i:
            return ASYMMETRIC
        if p < end and indices[p] == i:
            p += 1
        while p < end:
            j = indices[p]
            at = seen[j]
            if at >= indptr[j + 1] or indices[at] != i or abs(data[at] - data[p]) > limit:
                return ASYMMETRIC
            seen[j] = at + 1
            p += 1
    return 0


def block_product(W: Any, uniform: float, Z: np.ndarray) -> np.ndarray:
    """``W Z`` for a C-contiguous block Z (n, m) of float32 or float64."""
    m = Z.shape[1]
    width = -(-m // 4) * 4
    if width != m:
        wide = np.zeros((Z.shape[0], width), dtype=Z.dtype)
        wide[:, :m] = Z
        Z = wide
    Y = np.empty_like(Z)
    _rows_times_block(W.indptr, W.indices, W.data, uniform, np.ascontiguousarray(Z), Y)
    return Y[:, :m] if width != m else Y


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _rows_times_block(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, uniform: float, Z: np.ndarray, Y: np.ndarray
) -> None:
    """Four columns at a time in registers: LLVM makes one vector load and one add of each neighbour."""
    zero = Z[0, 0] * 0
    weight = zero + uniform
    for i in range(indptr.size - 1):
        for c in range(0, Z.shape[1], 4):
            a0 = a1 = a2 = a3 = zero
            if uniform != 0:
                for p in range(indptr[i], indptr[i + 1]):
                    j = indices[p]
                    a0 += Z[j, c]
                    a1 += Z[j, c + 1]
                    a2 += Z[j, c + 2]
                    a3 += Z[j, c + 3]
                a0, a1, a2, a3 = a0 * weight, a1 * weight, a2 * weight, a3 * weight
            else:
                for p in range(indptr[i], indptr[i + 1]):
                    j = indices[p]
                    w = zero + data[p]
                    a0 += w * Z[j, c]
                    a1 += w * Z[j, c + 1]
                    a2 += w * Z[j, c + 2]
                    a3 += w * Z[j, c + 3]
            Y[i, c], Y[i, c + 1], Y[i, c + 2], Y[i, c + 3] = a0, a1, a2, a3
