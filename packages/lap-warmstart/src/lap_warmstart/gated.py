"""Gated problems in one compiled call: only entries below the gate can be used, since column duals are at most 0."""

from __future__ import annotations

import numpy as np

from lap_warmstart.dense import NAN, OK, OVERFLOW, SAFE, UNBOUNDED
from lap_warmstart.heap import search_core
from lap_warmstart.simd import LANES, kernel, mask_not_above, trailing_zeros

CROWDED = 5
# Searches times edges beyond which one call could take a noticeable time.
LONG = 100_000_000


@kernel
def collect_below(c, bound, limit, ptr):
    """Collect the entries of at most `bound` of a matrix that nobody has checked yet.

    Returns
    -------
    tuple
        (status, col, val). NAN, UNBOUNDED and OVERFLOW as for `dense.assign`; CROWDED when a row has more than `limit`
        such entries.
    """
    n, m = c.shape
    whole = m - m % LANES
    col = np.empty(8 * n + m, np.int32)
    val = np.empty(8 * n + m)
    put = 0
    for i in range(n):
        row = c[i]
        if put + m > col.size:
            more_col = np.empty(2 * col.size + m, np.int32)
            more_val = np.empty(2 * col.size + m)
            for e in range(put):
                more_col[e] = col[e]
                more_val[e] = val[e]
            col = more_col
            val = more_val
        for b in range(0, whole, LANES):
            bits = mask_not_above(row, b, bound)
            while bits != 0:
                j = b + trailing_zeros(bits)
                bits &= bits - 1
                col[put] = j
                val[put] = row[j]
                put += 1
        for j in range(whole, m):
            if not row[j] > bound:
                col[put] = j
                val[put] = row[j]
                put += 1
        for e in range(ptr[i], put):
            if not abs(val[e]) < SAFE:
                return (NAN if val[e] != val[e] else UNBOUNDED if val[e] == -np.inf else OVERFLOW), col, val
        if put - ptr[i] > limit:
            return CROWDED, col, val
        ptr[i + 1] = put
    return OK, col[:put], val[:put]


@kernel
def assign_gated(c, bound, gate, limit, x, y, out):
    """Check, collect and solve a gated problem from cold; CROWDED where that is too much for one call.

    Parameters
    ----------
    c : (n, m) array
    bound : float
        The largest number below `gate`.
    limit : int
        Entries below the gate that a row may have.
    x, y : (n,), (m,) int64 arrays, written
    out : (n + m,) float64 array, written
        The matched costs (0 where unmatched), then the column duals.

    Returns
    -------
    tuple
        (status, row scans, edges, rows matched greedily, rows searched)
    """
    n = c.shape[0]
    ptr = np.empty(n + 1, np.int64)
    ptr[0] = 0
    status, col, val = collect_below(c, bound, limit, ptr)
    if status != OK:
        return status, 0, 0, 0, 0
    cx = out[:n]
    v = out[n:]
    for i in range(n):
        x[i] = -1
        cx[i] = 0.0
    for j in range(y.size):
        y[j] = -1
        v[j] = 0.0
    rows = np.empty(n, np.int64)
    left = 0
    taken = 0
    for i in range(n):
        if ptr[i] == ptr[i + 1]:
            continue
        least = np.inf
        for e in range(ptr[i], ptr[i + 1]):
            least = min(least, val[e])
        for e in range(ptr[i], ptr[i + 1]):
            if val[e] == least and y[col[e]] < 0:
                x[i] = col[e]
                y[col[e]] = i
                cx[i] = least
                taken += 1
                break
        if x[i] < 0:
            rows[left] = i
            left += 1
    scans = 0
    if left * col.size > LONG:
        return CROWDED, 0, 0, 0, 0
    if left:
        _, scans, _ = search_core(ptr, col, val, v, x, y, cx, rows, 0, left, gate, 1 << 62)
        for i in range(n):
            if x[i] < 0:
                cx[i] = 0.0
    return OK, scans, col.size, taken, left
