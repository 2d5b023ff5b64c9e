"""Building the symmetric matrix of a large quadratic from pairs: compiled, one pass a half, little extra memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(cache=True)
def _count(rows: Any, cols: Any, counts: Any) -> None:
    for k in range(rows.size):
        if rows[k] != cols[k]:
            counts[rows[k] + 1] += 1
            counts[cols[k] + 1] += 1


@njit(cache=True)
def _scatter(rows: Any, cols: Any, vals: Any, cursor: Any, indices: Any, data: Any, linear: Any) -> None:
    for k in range(rows.size):
        a, b = rows[k], cols[k]
        if a == b:
            linear[a] += vals[k]
            continue
        p = cursor[a]
        indices[p], data[p] = b, vals[k]
        cursor[a] = p + 1
        p = cursor[b]
        indices[p], data[p] = a, vals[k]
        cursor[b] = p + 1


@njit(cache=True)
def _transpose(n: Any, indptr: Any, indices: Any, data: Any, cursor: Any, t_indices: Any, t_data: Any) -> None:
    # The array is structurally symmetric, so its transpose has the same row pointers, and visiting the rows in order
    # fills each row of the transpose in increasing column order: a sort for the price of a copy.
    for r in range(n):
        for p in range(indptr[r], indptr[r + 1]):
            c = indices[p]
            q = cursor[c]
            t_indices[q], t_data[q] = r, data[p]
            cursor[c] = q + 1


@njit(cache=True)
def _merge(n: Any, indptr: Any, indices: Any, data: Any, out_ptr: Any) -> int:
    write = 0
    for r in range(n):
        p, end = indptr[r], indptr[r + 1]
        while p < end:
            c, total = indices[p], data[p]
            p += 1
            while p < end and indices[p] == c:
                total += data[p]
                p += 1
            if total != 0.0:
                indices[write], data[write] = c, total
                write += 1
        out_ptr[r + 1] = write
    return write


def symmetric_csr(
    n: int, rows: NDArray[Any], cols: NDArray[Any], vals: NDArray[np.float64], linear: NDArray[np.float64]
) -> sparse.csr_array:
    """The symmetric zero-diagonal matrix of the pairs; values of ``i == j`` are added to `linear` in place.

    Parameters
    ----------
    n : int
    rows, cols : ndarray of int32 of shape (m,)
    vals : ndarray of float64 of shape (m,)
    linear : ndarray of float64 of shape (n,)
        Changed in place.

    Returns
    -------
    scipy.sparse.csr_array
        Sorted indices, duplicates summed, zeros dropped; int32 indices, int64 row pointers above 2^31 entries.
    """
    rows, cols = np.ascontiguousarray(rows), np.ascontiguousarray(cols)
    counts = np.zeros(n + 1, dtype=np.int64)
    _count(rows, cols, counts)
    indptr = np.cumsum(counts)
    total = int(indptr[-1])
    indices, data = np.empty(total, dtype=rows.dtype), np.empty(total)
    _scatter(rows, cols, np.ascontiguousarray(vals), indptr[:-1].copy(), indices, data, linear)
    t_indices, t_data = np.empty_like(indices), np.empty_like(data)
    _transpose(n, indptr, indices, data, indptr[:-1].copy(), t_indices, t_data)
    del indices, data
    out_ptr = np.zeros(n + 1, dtype=np.int64)
    used = _merge(n, indptr, t_indices, t_data, out_ptr)
    if used < total:
        t_indices, t_data = t_indices[:used], t_data[:used]
    if used < 2**31:
        out_ptr = out_ptr.astype(np.int32)
    S = sparse.csr_array((t_data, t_indices, out_ptr), shape=(n, n), copy=False)
    S.has_sorted_indices = True
    S.has_canonical_format = True
    return S
