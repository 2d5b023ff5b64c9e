"""Small problems in one compiled call: check, reduce, search. A 10 x 10 problem takes some two microseconds."""

from __future__ import annotations

import numpy as np

from lap_warmstart.dense import (
    INFEASIBLE,
    OK,
    column_reduction,
    first_free,
    free_rows,
    row_reduction,
    search,
    second_look,
    survey,
)
from lap_warmstart.simd import kernel, row_min


@kernel
def assign(c, gate, x, y, out):
    """Solve a small problem from cold in one call: check, reduce, search.

    Parameters
    ----------
    c : (n, m) array, n <= m unless there is a gate
    gate : float
    x, y : (n,), (m,) int64 arrays, written
    out : (n + m,) float64 array, written
        The matched costs (0 where unmatched), then the column duals.

    Returns
    -------
    tuple
        (status, row scans, rows left free by column reduction or greedy, rows searched)
    """
    n, m = c.shape
    v = out[n:]
    for j in range(m):
        v[j] = np.inf
        y[j] = -1
    for i in range(n):
        x[i] = -1
    if survey(c, v, 0, n):
        status = second_look(c)
        if status != OK:
            return status, 0, 0, 0
    free = np.empty(n, np.int64)
    if n == m and gate == np.inf:
        for j in range(m):
            if v[j] == np.inf:
                v[j] = 0.0
                return INFEASIBLE, 0, 0, 0
        column_reduction(c, v, x, y)
    else:
        for j in range(m):
            v[j] = 0.0
        for i in range(n):
            u = row_min(c[i], v)
            if u < gate:
                j = first_free(c[i], v, y, u)
                if j >= 0:
                    x[i] = j
                    y[j] = i
    left = free_rows(x, free)
    n_free = left
    scans = 0
    if n_free > 0:
        state = np.empty(5, np.int64)
        for k in range(5):
            state[k] = 0
        state[3] = n_free
        row_reduction(c, v, x, y, free, state, 4 * n, gate, False, np.empty(m), 1 << 62)
        n_free = state[2]
        scans = state[4]
        _, more, fault = search(c, v, x, y, free, 0, n_free, gate, 1 << 62)
        scans += more
        if fault >= 0:
            return INFEASIBLE, scans, left, n_free
    for i in range(n):
        out[i] = np.float64(c[i, x[i]]) if x[i] >= 0 else 0.0
    return OK, scans, left, n_free


@kernel
def assign_batch(c, gate, x, out, counts, start, stop):
    """Apply `assign` to the problems ``start..stop`` of a batch (B, n, m); what it returns goes to `counts` (B, 4)."""
    y = np.empty(c.shape[2], np.int64)
    for k in range(start, stop):
        status, scans, left, searched = assign(c[k], gate, x[k], y, out[k])
        counts[k, 0] = status
        counts[k, 1] = scans
        counts[k, 2] = left
        counts[k, 3] = searched
