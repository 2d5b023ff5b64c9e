"""Kernels for rows that lie across the memory: a tall C-ordered or a wide F-ordered matrix, read without turning it.

Reading such a row costs a cache line an entry, thirty times a row that lies along the memory. So a pass goes line by
line and treats all rows at once. `a` is the matrix as it lies, a line a column of the problem: ``a[j, i]`` is the cost
of row i and column j. Its column minima and Min-Tricks are the row minima of the problem and the other way round.
"""

from __future__ import annotations

import numpy as np

from lap_warmstart.simd import LANES, kernel, mask_less_le, trailing_zeros

# Every so many lines are taken first, so that costs that fall from line to line do not replace the lists each time.
SAMPLED = 32


@kernel
def cheapest(a, v, start, stop, top, cut, cols, vals, counts):
    """Keep the cheapest entries of each row among the lines ``start..stop``, by reduced cost ``a[j, i] - v[j]``.

    Among equals the columns from ``i * m // n`` on come first, cyclically, so that rows with the same ties list
    different columns. The lists are exact whatever the order of the lines.

    Parameters
    ----------
    a : (m, n) array
    top : (n,) float64 array
        The largest reduced cost that a row still takes; falls to that of its last entry once its list is full.
    cut : (n,) int64 array
        At `top` exactly, only columns less than this far from the row's first are taken. Start with m.
    cols, vals : (n, k) arrays, counts : (n,) int64 array
        The lists, cheapest first. Start with ``counts = 0``.
    """
    m, n = a.shape
    keep = cols.shape[1]
    whole = n - n % LANES
    for step in (SAMPLED, 1):
        for j in range(start, stop, step):
            if step == 1 and (j - start) % SAMPLED == 0:
                continue
            row = a[j]
            vj = v[j]
            for b in range(0, n, LANES):
                # The tail takes all its entries as candidates.
                bits = (np.int64(1) << (n - whole)) - 1
                if b < whole:
                    bits = mask_less_le(row, b, vj, top)
                while bits != 0:
                    i = b + trailing_zeros(bits)
                    bits &= bits - 1
                    t = np.float64(row[i]) - vj
                    if t > top[i]:
                        continue
                    first = i * m // n
                    far = j - first if j >= first else j - first + m
                    if t == top[i] and far >= cut[i]:
                        continue
                    q = min(counts[i], keep - 1)
                    while q > 0:
                        jq = np.int64(cols[i, q - 1])
                        tq = vals[i, q - 1] - v[jq]
                        if tq < t or (tq == t and (jq - first if jq >= first else jq - first + m) < far):
                            break
                        cols[i, q] = jq
                        vals[i, q] = vals[i, q - 1]
                        q -= 1
                    cols[i, q] = j
                    vals[i, q] = row[i]
                    counts[i] = min(counts[i] + 1, keep)
                    if counts[i] == keep:
                        jq = np.int64(cols[i, keep - 1])
                        top[i] = vals[i, keep - 1] - v[jq]
                        cut[i] = jq - first if jq >= first else jq - first + m


@kernel
def unmatch(v, x, y, threshold, slack, safe, bad, cols, vals, counts):
    """Unmatch the rows whose cheapest listed edge beats their own by more than `slack`; bring their lists to the front.

    Returns the number of such rows, which are written to `bad`. See `core.price` for `safe`.
    """
    found = 0
    for i in range(x.size):
        if counts[i] == 0:
            safe[i] = max(safe[i], threshold[i])
            continue
        least = vals[i, 0] - v[cols[i, 0]]
        if least >= threshold[i] - slack[i]:
            safe[i] = threshold[i]
            continue
        safe[i] = least
        bad[found] = i
        counts[found] = counts[i]
        for q in range(counts[found]):
            cols[found, q] = cols[i, q]
            vals[found, q] = vals[i, q]
        found += 1
        if x[i] >= 0:
            y[x[i]] = -1
            x[i] = -1
    return found
