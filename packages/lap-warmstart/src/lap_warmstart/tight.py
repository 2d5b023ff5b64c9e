"""Kernels for zero-heavy problems: lists of tight columns and a maximum matching on them (Pothen-Fan)."""

from __future__ import annotations

import numpy as np

from lap_warmstart.core import _collect
from lap_warmstart.dense import free_rows
from lap_warmstart.simd import inner, kernel, row_min


@kernel
def list_tight(c, v, above_zero, limit, ptr, col, val, low, start, stop):
    """List up to `limit` entries of least reduced cost of each row, walking cyclically from a column that moves.

    `above_zero` says that no reduced cost is negative (`v` holds the column minima): then nearly every row minimum of
    a zero-heavy matrix is 0 and the walk stops when the list is full, long before the end of the row.
    """
    n, m = c.shape
    blocks = max(m // 16, 1)
    for i in range(start, stop):
        row = c[i]
        base = ptr[i]
        begin = (i * blocks // n) % blocks
        count = 0
        if above_zero:
            low[i] = 0.0
            count = _collect(row, v, 0.0, begin, limit, col, val, base)
        if count == 0:
            low[i] = row_min(row, v)
            if low[i] < np.inf:
                count = _collect(row, v, low[i], begin, limit, col, val, base)
        ptr[i + 1] = base + count


@inner
def _find_path(ptr, col, y, root, ahead, seen, stamp, at, stack, via):
    """Look depth first for a path from the free row `root` to a free column.

    The path stands in `stack` (rows) and `via` (the columns between them). `ahead` and `at` are each row's and each
    level's next edge, ``seen[j] == stamp`` marks columns met before. Returns (column or -1, depth of the last row).
    """
    depth = 0
    stack[0] = root
    at[0] = ptr[root]
    while depth >= 0:
        i = stack[depth]
        while ahead[i] < ptr[i + 1]:
            j = col[ahead[i]]
            ahead[i] += 1
            if y[j] < 0:
                return j, depth
        deeper = False
        while at[depth] < ptr[i + 1]:
            j = col[at[depth]]
            at[depth] += 1
            if seen[j] != stamp:
                seen[j] = stamp
                via[depth] = j
                depth += 1
                stack[depth] = y[j]
                at[depth] = ptr[y[j]]
                deeper = True
                break
        if not deeper:
            depth -= 1
    return -1, -1


@kernel
def maximum_matching(ptr, col, x, y):
    """Extend the matching (x, y) on the graph to a maximum one: depth-first search with lookahead (Pothen and Fan).

    Returns the number of rows left free.
    """
    n = x.size
    ahead = np.empty(n, np.int64)
    seen = np.empty(y.size, np.int64)
    for i in range(n):
        ahead[i] = ptr[i]
    for j in range(y.size):
        seen[j] = -1
    at = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    via = np.empty(n, np.int64)
    free = np.empty(n, np.int64)
    n_free = free_rows(x, free)
    stamp = 0
    while True:
        progress = False
        left = 0
        for f in range(n_free):
            j, depth = _find_path(ptr, col, y, free[f], ahead, seen, stamp, at, stack, via)
            if depth < 0:
                free[left] = free[f]
                left += 1
                continue
            progress = True
            while depth >= 0:
                i = stack[depth]
                x[i] = j
                y[j] = i
                depth -= 1
                if depth >= 0:
                    j = via[depth]
        n_free = left
        stamp += 1
        if not progress or n_free == 0:
            return n_free
