"""Kernels of the core method: solve on the few edges of small reduced cost, then price all others and repeat.

The core is a CSR graph: `ptr` (n + 1), `col` (int32), `val` (float64). `cx` holds the cost of each row's matched edge.
"""

from __future__ import annotations

import numpy as np

from lap_warmstart.dense import free_rows
from lap_warmstart.simd import LANES, inner, kernel, mask_diff_le, row_min, trailing_zeros

PRICED = 8


@inner
def _collect(row, v, bound, begin, limit, col, val, base):
    """Append the entries with ``row[j] - v[j] <= bound``, at most `limit`, walking cyclically from block `begin`."""
    m = row.size
    blocks = m // LANES
    count = 0
    for q in range(blocks):
        b = begin + q
        if b >= blocks:
            b -= blocks
        bits = mask_diff_le(row, b * LANES, v, bound)
        while bits != 0:
            j = b * LANES + trailing_zeros(bits)
            bits &= bits - 1
            col[base + count] = j
            val[base + count] = row[j]
            count += 1
            if count == limit:
                return count
    for j in range(blocks * LANES, m):
        if np.float64(row[j]) - v[j] <= bound:
            col[base + count] = j
            val[base + count] = row[j]
            count += 1
            if count == limit:
                return count
    return count


@inner
def _mean_above(row, v, u):
    """Return the mean excess of the finite reduced costs over `u`."""
    total = 0.0
    count = 0
    for j in range(row.size):
        t = np.float64(row[j]) - v[j] - u
        if t < np.inf:
            total += t
            count += 1
    return total / max(count, 1)


@kernel
def select(c, v, k, start, stop, ptr, col, val, low, width):
    """Collect about `k` (at least k/2, at most 2k) entries of least reduced cost of the rows ``start..stop``.

    The width of the window above the row minimum is carried from row to row, so that most rows need one pass for the
    minimum and one for the entries, both over data in cache. Ties beyond the limit are cut, starting at a column that
    moves with the row, so that rows with the same ties list different columns.

    Parameters
    ----------
    low : (n,) float64 array, written
        The row minima.
    width : float
        The window of the row before; 0 at the start.

    Returns
    -------
    float
        The window of the last row.
    """
    n, m = c.shape
    blocks = max(m // LANES, 1)
    limit = min(2 * k, m)
    for i in range(start, stop):
        row = c[i]
        u = row_min(row, v)
        low[i] = u
        base = ptr[i]
        if u == np.inf:
            ptr[i + 1] = base
            continue
        if width <= 0.0 or width == np.inf:
            width = _mean_above(row, v, u) * k / m
        begin = (i * blocks // n) % blocks
        count = 0
        floor = 0.0
        ceiling = np.inf
        for _ in range(48):
            count = _collect(row, v, u + width, begin, limit, col, val, base)
            if count == limit and u + width > u:
                ceiling = width
                width = 0.5 * (floor + ceiling)
                if ceiling - floor < 0.02 * ceiling:
                    break
            elif 2 * count < min(k, m) and width < ceiling:
                floor = width
                grown = width * (4.0 if count < 3 else 2.0)
                width = grown if grown < ceiling else 0.5 * (floor + ceiling)
                if width == np.inf or (ceiling < np.inf and ceiling - floor < 0.02 * ceiling):
                    break
            else:
                break
        ptr[i + 1] = base + count
        if count > 0:
            width *= min(max(np.sqrt(k / count), 0.7), 1.4)
    return width


@kernel
def greedy_core(ptr, col, val, v, low, x, y, cx):
    """Match rows to the first free column of a tight core edge; return the rows left free."""
    left = 0
    for i in range(x.size):
        if x[i] >= 0:
            continue
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if y[j] < 0 and val[e] - v[j] <= low[i]:
                x[i] = j
                y[j] = i
                cx[i] = val[e]
                break
        if x[i] < 0:
            left += 1
    return left


@kernel
def reduce_core(ptr, col, val, v, x, y, cx, gate, passes, budget):
    """Augmenting row reduction on the core, at most `budget` row scans; return the scans made.

    As in LAPJV a free row takes its cheapest column, which is lowered to where the second cheapest is as good, and the
    row that held it goes next. A scan costs some 16 entries here, so that it pays long before searches do.
    Long on purpose: see the top of `dense`.
    """
    n = x.size
    free = np.empty(n, np.int64)
    n_free = free_rows(x, free)
    scans = 0
    for _ in range(passes):
        k = 0
        stop = n_free
        n_free = 0
        while k < stop:
            if scans >= budget:
                return scans
            i = free[k]
            k += 1
            scans += 1
            first = np.inf
            second = np.inf
            e1 = -1
            e2 = -1
            for e in range(ptr[i], ptr[i + 1]):
                t = val[e] - v[col[e]]
                if t < second:
                    if t < first:
                        second = first
                        e2 = e1
                        first = t
                        e1 = e
                    else:
                        second = t
                        e2 = e
                elif t == second and y[col[e]] < 0:
                    e2 = e
            second = min(second, gate)
            if first >= gate or second == np.inf:
                continue
            j = np.int64(col[e1])
            lowered = v[j] - (second - first)
            lowers = lowered < v[j]
            if lowers:
                v[j] = lowered
            elif y[j] >= 0 and e2 >= 0:
                e1 = e2
                j = np.int64(col[e1])
            i0 = y[j]
            x[i] = j
            y[j] = i
            cx[i] = val[e1]
            if i0 >= 0:
                x[i0] = -1
                if lowers:
                    k -= 1
                    free[k] = i0
                else:
                    free[n_free] = i0
                    n_free += 1
    return scans


@kernel
def price(c, v, x, y, cx, gate, exact, start, stop, safe, bad, cols, vals, counts, n_bad):
    """Find the rows of ``start..stop`` with an edge cheaper than their own and unmatch them.

    Up to `PRICED` cheapest such edges of the k-th row found go to ``cols[k]``, ``vals[k]``. Returns the number of rows
    found so far. `exact` means that sums are exact (integers); else a few units in the last place are allowed. A row
    whose dual is at most ``safe[i]``, the bound it passed before, is skipped: column duals only fall between pricings.
    """
    m = v.size
    blocks = m // LANES
    largest = 0.0
    for j in range(m):
        largest = max(largest, abs(v[j]))
    best = np.empty(PRICED)
    for i in range(start, stop):
        row = c[i]
        threshold = gate if x[i] < 0 else cx[i] - v[x[i]]
        if threshold <= safe[i]:
            continue
        slack = 0.0 if exact else 8.0 * 2.0**-52 * (largest + abs(threshold))
        least = row_min(row, v)
        if least >= threshold - slack:
            safe[i] = threshold
            continue
        safe[i] = least
        count = 0
        bound = threshold
        for b in range(blocks + 1):
            # The tail block takes all its entries as candidates.
            bits = (np.int64(1) << (m - blocks * LANES)) - 1
            if b < blocks:
                bits = mask_diff_le(row, b * LANES, v, bound)
            while bits != 0:
                j = b * LANES + trailing_zeros(bits)
                bits &= bits - 1
                t = np.float64(row[j]) - v[j]
                if t >= bound:
                    continue
                q = count if count < PRICED else PRICED - 1
                while q > 0 and best[q - 1] > t:
                    best[q] = best[q - 1]
                    cols[n_bad, q] = cols[n_bad, q - 1]
                    vals[n_bad, q] = vals[n_bad, q - 1]
                    q -= 1
                best[q] = t
                cols[n_bad, q] = j
                vals[n_bad, q] = row[j]
                if count < PRICED:
                    count += 1
                if count == PRICED:
                    bound = best[PRICED - 1]
        bad[n_bad] = i
        counts[n_bad] = count
        n_bad += 1
        if x[i] >= 0:
            y[x[i]] = -1
            x[i] = -1
    return n_bad


@kernel
def add_edges(ptr, col, val, bad, cols, vals, counts, n_bad, new_ptr, new_col, new_val):
    """Write the core with the priced edges of the rows ``bad[:n_bad]`` (ascending) added."""
    k = 0
    put = 0
    for i in range(ptr.size - 1):
        new_ptr[i] = put
        for e in range(ptr[i], ptr[i + 1]):
            new_col[put] = col[e]
            new_val[put] = val[e]
            put += 1
        if k < n_bad and bad[k] == i:
            for q in range(counts[k]):
                new_col[put] = cols[k, q]
                new_val[put] = vals[k, q]
                put += 1
            k += 1
    new_ptr[ptr.size - 1] = put


@kernel
def repair_core(ptr, col, val, v, x, y, cx):
    """Raise and repair on core edges: free columns get ``v = 0``, rows that now have a cheaper edge are unmatched.

    Needed in rectangular and gated problems after pricing too, because it frees columns that may carry ``v < 0``.
    """
    undone = 0
    while True:
        raised = False
        for j in range(v.size):
            if y[j] < 0 and v[j] < 0.0:
                v[j] = 0.0
                raised = True
        if not raised:
            return undone
        for i in range(x.size):
            if x[i] < 0:
                continue
            u = cx[i] - v[x[i]]
            for e in range(ptr[i], ptr[i + 1]):
                j = col[e]
                if y[j] < 0 and val[e] - v[j] < u:
                    y[x[i]] = -1
                    x[i] = -1
                    undone += 1
                    break
