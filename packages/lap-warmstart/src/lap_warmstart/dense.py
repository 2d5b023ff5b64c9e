"""The dense shortest-augmenting-path method: column reduction, row reduction, greedy, search, gates, repair.

Every kernel works on a C-ordered matrix `c` (n rows, m columns, float64 or float32) and the column duals `v`; the row
dual of a matched row is implied, ``u[i] = c[i, x[i]] - v[x[i]]``. `x` maps rows to columns and `y` columns to rows, -1
for free. `gate` is the cost at which a row may stay unmatched, infinite where it may not.

Reductions, here and in `core`, and `search` are long on purpose, since arrays are handed over field by field. What
runs once a row scan costs, as a function, up to a fifth of the kernel, and still 2 - 5 % of dense solves of 60 to 250
rows where numba inlines it; the search from one row costs 10 % of gated solves of 20 rows, whose paths are short.
"""

from __future__ import annotations

import numpy as np

from lap_warmstart.simd import LANES, fmin, inner, kernel, mask_diff_le, mask_le, relax, row_min, trailing_zeros

OK, NAN, UNBOUNDED, INFEASIBLE, OVERFLOW = range(5)
SAFE = 4.4e307


@kernel
def survey(c, v, start, stop):
    """Lower `v` to the column minima of rows ``start..stop``; return whether an entry needs a second look.

    One comparison finds NaN, infinities and entries so large that differences could overflow.
    """
    odd = 0
    for i in range(start, stop):
        row = c[i]
        for j in range(row.size):
            t = np.float64(row[j])
            odd |= not (abs(t) < SAFE)
            v[j] = fmin(t, v[j])
    return odd != 0


@kernel
def second_look(c):
    """Judge a matrix with odd entries: NAN, UNBOUNDED, OVERFLOW or OK (nothing worse than +inf)."""
    low = np.inf
    top = -np.inf
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            t = np.float64(c[i, j])
            if t != t:
                return NAN
            low = min(low, t)
            if t < np.inf:
                top = max(top, t)
    if low == -np.inf:
        return UNBOUNDED
    return OVERFLOW if top > -np.inf and (top - low) * 2.0 == np.inf else OK


@inner
def first_free(c, v, y, bound):
    """Return the first free column with ``c[j] - v[j] <= bound``, or -1."""
    m = c.size
    whole = m - m % LANES
    for b in range(0, whole, LANES):
        bits = mask_diff_le(c, b, v, bound)
        while bits != 0:
            j = b + trailing_zeros(bits)
            if y[j] < 0:
                return j
            bits &= bits - 1
    for j in range(whole, m):
        if np.float64(c[j]) - v[j] <= bound and y[j] < 0:
            return j
    return -1


@kernel
def column_reduction(c, v, x, y):
    """Match each row to the first column whose minimum it holds, then transfer the reduction (LAPJV, steps a and b).

    LAPJV goes from the last column to the first; this order gives the identity on constant costs, as SciPy does.

    `v` holds the column minima on entry.
    """
    n = c.shape[0]
    owner = np.empty(n, np.int64)
    count = np.empty(n, np.int64)
    for i in range(n):
        owner[i] = -1
        count[i] = 0
    for i in range(n):
        row = c[i]
        whole = n - n % LANES
        for b in range(0, whole, LANES):
            bits = mask_diff_le(row, b, v, 0.0)
            while bits != 0:
                j = b + trailing_zeros(bits)
                if owner[j] < 0:
                    owner[j] = i
                bits &= bits - 1
        for j in range(whole, n):
            if owner[j] < 0 and np.float64(row[j]) <= v[j]:
                owner[j] = i
    for j in range(n):
        i = owner[j]
        if count[i] == 0:
            x[i] = j
            y[j] = i
        count[i] += 1
    for i in range(n):
        if count[i] == 1:
            j = x[i]
            held = v[j]
            v[j] = -np.inf
            second = row_min(c[i], v)
            v[j] = held
            if second < np.inf:
                v[j] = held - (second - (np.float64(c[i, j]) - held))


@kernel
def greedy(c, v, x, y, start, stop):
    """Match rows to the first free column of least reduced cost; return the sum of the row minima."""
    total = 0.0
    for i in range(start, stop):
        u = row_min(c[i], v)
        total += u
        if x[i] < 0 and u < np.inf:
            j = first_free(c[i], v, y, u)
            if j >= 0:
                x[i] = j
                y[j] = i
    return total


@inner
def _tied(t, y, second, classical):
    """Return a column at `second`, or -1: a free one if there is any (`classical`: the first)."""
    m = t.size
    whole = m - m % LANES
    tied = -1
    for b in range(0, whole, LANES):
        bits = mask_le(t, b, second)
        while bits != 0:
            j = b + trailing_zeros(bits)
            bits &= bits - 1
            if classical or y[j] < 0:
                return j
            if tied < 0:
                tied = j
    for j in range(whole, m):
        if t[j] <= second:
            if classical or y[j] < 0:
                return j
            if tied < 0:
                tied = j
    return tied


@kernel
def row_reduction(c, v, x, y, free, state, budget, gate, classical, t, quota):
    """Augmenting row reduction (LAPJV, step c), at most `budget` row scans.

    With float costs the published rule can run price wars of hundreds of thousands of scans, hence the budget.
    Long on purpose: see the top of this file.

    Parameters
    ----------
    free : int64 array
        The free rows; on return the first ``state[2]`` entries are those left.
    state : (5,) int64 array
        Pass (0 or 1), position, rows left so far, rows of this pass, scans. Start with (0, 0, 0, n_free, 0).
    classical : bool
        Keep to the published choice among ties.
    quota : int
        Return False, to be called again, once so many scans were made in this call.
    """
    m = c.shape[1]
    scans = state[4]
    ceiling = scans + quota
    while state[0] < 2:
        k = state[1]
        n_free = state[2]
        stop = state[3]
        while k < stop:
            if scans >= ceiling:
                state[1] = k
                state[2] = n_free
                state[4] = scans
                return False
            i = free[k]
            k += 1
            if scans >= budget:
                free[n_free] = i
                n_free += 1
                continue
            scans += 1
            row = c[i]
            first = np.inf
            for j in range(m):
                r = np.float64(row[j]) - v[j]
                t[j] = r
                first = fmin(r, first)
            if first >= gate or first == np.inf:
                free[n_free] = i
                n_free += 1
                continue
            j = 0
            while t[j] > first:
                j += 1
            t[j] = np.inf
            second = gate
            for q in range(m):
                second = fmin(t[q], second)
            if second == np.inf:
                free[n_free] = i
                n_free += 1
                continue
            lowered = v[j] - (second - first)
            lowers = lowered < v[j]
            if lowers:
                v[j] = lowered
            elif y[j] >= 0:
                # A tie: a free column among the equals ends the chain, which the classical rule does not look for.
                tied = _tied(t, y, second, classical)
                if tied >= 0:
                    j = tied
            i0 = y[j]
            x[i] = j
            y[j] = i
            if i0 >= 0:
                x[i0] = -1
                if lowers:
                    k -= 1
                    free[k] = i0
                else:
                    free[n_free] = i0
                    n_free += 1
        state[0] += 1
        state[1] = 0
        state[4] = scans
        if state[0] < 2:
            state[2] = 0
            state[3] = n_free
        else:
            state[2] = n_free
    return True


@inner
def _queue_columns(d, vw, y, level, queue, n_queue, reached):
    """Queue the columns at distance `level`; return (a free one or -1, new length of the queue)."""
    m = d.size
    whole = m - m % LANES
    begin = n_queue
    for b in range(0, whole, LANES):
        bits = mask_le(d, b, level)
        while bits != 0:
            j = b + trailing_zeros(bits)
            bits &= bits - 1
            if y[j] < 0:
                return j, begin
            queue[n_queue] = j
            n_queue += 1
    for j in range(whole, m):
        if d[j] <= level:
            if y[j] < 0:
                return j, begin
            queue[n_queue] = j
            n_queue += 1
    for q in range(begin, n_queue):
        j = queue[q]
        reached[q] = d[j]
        d[j] = np.inf
        vw[j] = -np.inf
    return -1, n_queue


@inner
def _flip(pred, x, y, j, r):
    """Match along the path of predecessors that ends in column `j` and starts in row `r`."""
    while j >= 0:
        i = np.int64(pred[j])
        y[j] = i
        j, x[i] = x[i], j
        if i == r:
            break


@kernel
def search(c, v, x, y, rows, start, stop, gate, quota):
    """Augment along shortest paths from the free rows ``rows[start:stop]`` (Dijkstra on the reduced costs).

    Long on purpose: see the top of this file.

    Returns
    -------
    tuple
        (position of the next row to do, row scans made, row without any path or -1). It returns early once `quota`
        scans are exceeded, so that the caller can be interrupted.
    """
    m = c.shape[1]
    d = np.empty(m)
    vw = np.empty(m)
    reached = np.empty(m)
    queue = np.empty(m, np.int64)
    pred = np.empty(m, np.int32)
    scans = 0
    for k in range(start, stop):
        r = rows[k]
        # Loops, here and elsewhere: copying a slice would compile numba's string formatting for its error message.
        for j in range(m):
            d[j] = np.inf
            vw[j] = v[j]
        sink = gate
        last = r
        level = relax(c[r], vw, 0.0, d, pred, r)
        scans += 1
        head = 0
        n_queue = 0
        found = -1
        least = level
        while True:
            if head == n_queue:
                level = max(level, least)
                if level >= sink or level == np.inf:
                    break
                found, n_queue = _queue_columns(d, vw, y, level, queue, n_queue, reached)
                if found >= 0:
                    break
            j = queue[head]
            head += 1
            i = y[j]
            shift = level - (np.float64(c[i, j]) - v[j])
            if gate + shift < sink:
                sink = gate + shift
                last = i
                if sink <= level:
                    break
            least = relax(c[i], vw, shift, d, pred, i)
            scans += 1
            if least <= level:
                found, n_queue = _queue_columns(d, vw, y, level, queue, n_queue, reached)
                if found >= 0:
                    break
        if found < 0 and sink == np.inf:
            return k, scans, r
        bound = level if found >= 0 else sink
        j = found
        if found < 0:
            # Row `last` gives up its column; the path is flipped from there.
            j = x[last]
            x[last] = -1
        _flip(pred, x, y, j, r)
        for q in range(n_queue):
            v[queue[q]] += min(reached[q] - bound, 0.0)
        if scans > quota:
            return k + 1, scans, -1
    return stop, scans, -1


@kernel
def repair(c, v, x, y):
    """Set ``v = 0`` on free columns and unmatch each row that now has a cheaper edge there, until nothing changes.

    The second half of "raise and repair": a free column must carry ``v = 0`` in a rectangular or gated problem.
    Returns the number of rows unmatched.
    """
    n, m = c.shape
    raised = np.empty(m, np.int64)
    undone = 0
    while True:
        count = 0
        for j in range(m):
            if y[j] < 0 and v[j] < 0.0:
                v[j] = 0.0
                raised[count] = j
                count += 1
        if count == 0:
            return undone
        for i in range(n):
            if x[i] < 0:
                continue
            u = np.float64(c[i, x[i]]) - v[x[i]]
            for k in range(count):
                if np.float64(c[i, raised[k]]) < u:
                    y[x[i]] = -1
                    x[i] = -1
                    undone += 1
                    break


@kernel
def free_rows(x, rows):
    """List the unmatched rows in `rows` and return their number."""
    count = 0
    for i in range(x.size):
        if x[i] < 0:
            rows[count] = i
            count += 1
    return count
