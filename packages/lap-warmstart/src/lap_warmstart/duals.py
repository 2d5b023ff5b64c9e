"""Kernels on dual solutions: the Min-Trick, the dual bound that compares seeds, density and slack.

Sources: Min-Trick and density, arXiv 2605.09382; the dual bound test is ours.
"""

from __future__ import annotations

import numpy as np

from lap_warmstart.dense import SAFE
from lap_warmstart.simd import LANES, fmin, kernel, mask_diff_le, row_min


@kernel
def lower_columns(c, u, v, start, stop):
    """Min-Trick: ``v[j] = min(v[j], min_i c[i, j] - u[i])`` over the rows ``start..stop``."""
    for i in range(start, stop):
        row = c[i]
        ui = u[i]
        for j in range(row.size):
            v[j] = fmin(np.float64(row[j]) - ui, v[j])


@kernel
def survey_and_lower(c, u, v, w, start, stop):
    """Do `dense.survey` (column minima to `v`, odd entries) and the Min-Trick of `u` (to `w`) in one pass.

    Four rows at a time, since loading and storing `v` and `w` for each row costs as much as reading the matrix.
    """
    odd = 0
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        row0, row1, row2, row3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
        for j in range(row0.size):
            t0, t1, t2, t3 = np.float64(row0[j]), np.float64(row1[j]), np.float64(row2[j]), np.float64(row3[j])
            odd |= not (abs(t0) < SAFE)
            odd |= not (abs(t1) < SAFE)
            odd |= not (abs(t2) < SAFE)
            odd |= not (abs(t3) < SAFE)
            v[j] = fmin(fmin(fmin(t0, t1), fmin(t2, t3)), v[j])
            w[j] = fmin(fmin(fmin(t0 - u0, t1 - u1), fmin(t2 - u2, t3 - u3)), w[j])
    for i in range(whole, stop):
        row = c[i]
        ui = u[i]
        for j in range(row.size):
            t = np.float64(row[j])
            odd |= not (abs(t) < SAFE)
            v[j] = fmin(t, v[j])
            w[j] = fmin(t - ui, w[j])
    return odd != 0


@kernel
def row_minima(c, v, u, start, stop):
    """``u[i] = min_j c[i, j] - v[j]`` for the rows ``start..stop``."""
    for i in range(start, stop):
        u[i] = row_min(c[i], v)


@kernel
def sampled_minima(c, seeds, rows, low):
    """``low[s, k] = min_j c[rows[k], j] - seeds[s, j]``."""
    for k in range(rows.size):
        for s in range(seeds.shape[0]):
            low[s, k] = row_min(c[rows[k]], seeds[s])


@kernel
def bounds(c, seeds, gate, start, stop, totals):
    """Add ``sum_i min(gate, min_j c[i, j] - v[j])`` for each seed v (a row of `seeds`), rows ``start..stop``."""
    for i in range(start, stop):
        for s in range(seeds.shape[0]):
            u = row_min(c[i], seeds[s])
            if u < np.inf:
                totals[s] += min(u, gate)


@kernel
def tight_entries(c, u, v, eps):
    """Count the entries with ``|c - u - v| < eps``."""
    count = 0
    for i in range(c.shape[0]):
        row = c[i]
        for j in range(row.size):
            count += abs(np.float64(row[j]) - u[i] - v[j]) < eps
    return count


@kernel
def tight_sample(c, v, rows, tight, flat):
    """For each sampled row, count its entries of least reduced cost and those equal to its largest cost."""
    m = c.shape[1]
    whole = m - m % LANES
    for k in range(rows.size):
        row = c[rows[k]]
        u = row_min(row, v)
        count = 0
        top = -np.inf
        for j in range(m):
            top = max(top, np.float64(row[j]))
        same = 0
        for j in range(m):
            same += np.float64(row[j]) == top
        for b in range(0, whole, LANES):
            bits = mask_diff_le(row, b, v, u)
            while bits != 0:
                count += 1
                bits &= bits - 1
        for j in range(whole, m):
            count += np.float64(row[j]) - v[j] <= u
        tight[k] = count if u < np.inf else 0
        flat[k] = same / m


@kernel
def coarse_rows(c, picked, v_picked, u, start, stop):
    """``u[i] = min over the picked columns of c[i, j] - v_picked`` for the rows ``start..stop``."""
    for i in range(start, stop):
        best = np.inf
        for k in range(picked.size):
            best = fmin(np.float64(c[i, picked[k]]) - v_picked[k], best)
        u[i] = best


@kernel
def least_slack(c, u, v):
    """Return ``min_ij c[i, j] - u[i] - v[j]`` and the largest finite absolute entry."""
    worst = np.inf
    top = 0.0
    for i in range(c.shape[0]):
        row = c[i]
        worst = min(worst, row_min(row, v) - u[i])
        low = np.inf
        for j in range(row.size):
            t = abs(np.float64(row[j]))
            low = fmin(-t if t < np.inf else np.inf, low)
        if low < np.inf:
            top = max(top, -low)
    return worst, top
