"""Kernels of the core method: solve on the few edges of small reduced cost, then price all others and repeat.

The core is a CSR graph: `ptr` (n + 1), `col` (int32), `val` (float64). `cx` holds the cost of each row's matched edge.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lap_warmstart.simd import LANES, mask_diff_le, row_min, trailing_zeros

PRICED = 8


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def reduce_core(ptr, col, val, v, x, y, cx, gate, passes, budget):
    """Augmenting row reduction on the core, at most `budget` row scans; return the scans made.

    As in LAPJV a free row takes its cheapest column, which is lowered to where the second cheapest is as good, and the
    row that held it goes next. A scan costs some 16 entries here, so that it pays long before searches do.
    """
    n = x.size
    free = np.empty(n, np.int64)
    n_free = 0
    for i in range(n):
        if x[i] < 0:
            free[n_free] = i
            n_free += 1
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


@njit(cache=True, nogil=True)
def _push(keys, items, size, key, item):
    k = size
    while k > 0:
        up = (k - 1) >> 1
        if keys[up] <= key:
            break
        keys[k] = keys[up]
        items[k] = items[up]
        k = up
    keys[k] = key
    items[k] = item


@njit(cache=True, nogil=True)
def _drop_first(keys, items, size):
    """Remove the root of a heap of `size` entries."""
    key = keys[size - 1]
    item = items[size - 1]
    size -= 1
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[k] = keys[child]
        items[k] = items[child]
        k = child
    keys[k] = key
    items[k] = item


@njit(cache=True, nogil=True)
def search_core(ptr, col, val, v, x, y, cx, rows, start, stop, gate, quota):
    """Augment along shortest paths of the core from the free rows ``rows[start:stop]``.

    Dijkstra with a binary heap, pruned at the best sink found: a free column, or a row that would rather pay the gate.
    Returns (next position, row scans, row without a path or -1), early once `quota` scans are exceeded.
    """
    m = v.size
    dist = np.full(m, np.inf)
    pred = np.empty(m, np.int32)
    edge = np.empty(m)
    touched = np.empty(m, np.int64)
    settled = np.empty(m, np.int64)
    room = col.size + 1
    keys = np.empty(room)
    items = np.empty(room, np.int32)
    scans = 0
    for k in range(start, stop):
        r = rows[k]
        size = 0
        n_touched = 0
        n_settled = 0
        found = -1
        best = gate
        last = r
        i = r
        shift = 0.0
        level = -np.inf
        while True:
            scans += 1
            for e in range(ptr[i], ptr[i + 1]):
                j = col[e]
                # Rounding must not lower a settled distance: it would close a loop of predecessors.
                t = max((val[e] - v[j]) + shift, level)
                if t < dist[j] and t < best:
                    if dist[j] == np.inf:
                        touched[n_touched] = j
                        n_touched += 1
                    dist[j] = t
                    pred[j] = i
                    edge[j] = val[e]
                    if y[j] < 0:
                        best = t
                        found = j
                    else:
                        _push(keys, items, size, t, j)
                        size += 1
            i = -1
            while size > 0:
                key = keys[0]
                j = np.int64(items[0])
                if key >= best:
                    break
                _drop_first(keys, items, size)
                size -= 1
                if key == dist[j]:
                    level = key
                    i = y[j]
                    break
            if i < 0:
                break
            settled[n_settled] = j
            n_settled += 1
            shift = level - (cx[i] - v[j])
            if gate + shift < best:
                best = gate + shift
                last = i
                found = -1
        if best == np.inf:
            return k, scans, r
        for q in range(n_settled):
            j = settled[q]
            v[j] += min(dist[j] - best, 0.0)
        j = found
        if found < 0:
            j = x[last]
            x[last] = -1
        while j >= 0:
            i = np.int64(pred[j])
            y[j] = i
            cx[i] = edge[j]
            j, x[i] = x[i], j
            if i == r:
                break
        for q in range(n_touched):
            dist[touched[q]] = np.inf
        if scans > quota:
            return k + 1, scans, -1
    return stop, scans, -1


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
