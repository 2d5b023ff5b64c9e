"""Compiled Euclidean projections onto the simple sets. Importing this module loads numba; the domains do so lazily.

Every function writes into `out` and may use `work`, both of the length of `y`; `out` may be `y` itself. A set is
described by a code and four parameters, so that one compiled round loop serves all of them.
"""

import math

import numpy as np
from numba import njit

BALL, BOX, SIMPLEX, L1, EQ_BOX, LE_BOX = range(6)

# One function of a round: calls with array arguments, and the reference counts of views, cost more than the arithmetic.
# `_nrt=False` leaves the counts out of functions that allocate nothing.
_OPTIONS = {"cache": True, "error_model": "numpy", "forceinline": True, "_nrt": False}
leaf = njit(**_OPTIONS)
leaf_sum = njit(fastmath={"reassoc", "nsz", "contract"}, **_OPTIONS)


@leaf_sum
def dot(a, b):
    """Inner product; the sum may be reordered so that it vectorises, the same way in every call."""
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    return s


@leaf
def norm(a):
    """Euclidean norm that neither overflows nor underflows."""
    s = dot(a, a)
    if 1e-200 < s < 1e200:
        return math.sqrt(s)
    big = 0.0
    for i in range(a.size):
        big = max(big, abs(a[i]))
    if big == 0.0 or not math.isfinite(big):
        return big
    s = 0.0
    for i in range(a.size):
        s += (a[i] / big) ** 2
    return big * math.sqrt(s)


@leaf_sum
def _sum(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


@leaf
def ball(center, radius, y, out):
    """Onto the Euclidean ball."""
    for i in range(y.size):
        out[i] = y[i] - center[i]
    r = norm(out)
    f = 1.0 if r <= radius else radius / r
    for i in range(y.size):
        out[i] = center[i] + f * out[i]


@leaf
def _threshold(total, work, k):
    """Michelot on the k candidates in `work`: (tau, number above it) with sum max(0, work - tau) = total."""
    tau = (_sum(work, k) - total) / k
    while True:
        j = 0
        for i in range(k):
            u = work[i]
            if u > tau:
                work[j] = u
                j += 1
        if j == k:
            return tau, k
        k = j
        tau = (_sum(work, k) - total) / k


@leaf
def simplex(total, y, out, work):
    """Onto {x >= 0, sum x = total}: a threshold among the entries within `total` of the largest."""
    n = y.size
    top = y[0]
    for i in range(1, n):
        top = max(top, y[i])
    k = 0
    for i in range(n):
        # the largest entry is subtracted first: entries of 1e12 would otherwise lose the differences that matter
        u = y[i] - top
        out[i] = u
        if u > -total:
            work[k] = u
            k += 1
    tau, k = _threshold(total, work, k)
    for i in range(n):
        out[i] = max(0.0, out[i] - tau)
    shift = (total - _sum(out, n)) / k
    for i in range(n):
        if out[i] > 0.0:
            out[i] = max(0.0, out[i] + shift)


@leaf
def l1(radius, y, out, work):
    """Onto the l1 ball: the simplex of the absolute values, with their signs."""
    n = y.size
    s, top = 0.0, 0.0
    for i in range(n):
        s += abs(y[i])
        top = max(top, abs(y[i]))
    if s <= radius:
        for i in range(n):
            out[i] = y[i]
        return
    k = 0
    for i in range(n):
        u = abs(y[i]) - top
        if u > -radius:
            work[k] = u
            k += 1
    tau, k = _threshold(radius, work, k)
    for i in range(n):
        u = (abs(y[i]) - top) - tau
        out[i] = 0.0 if u <= 0.0 else (u if y[i] > 0.0 else -u)


@leaf
def _shifted(tau, lower, upper, w, y, out):
    """Out = clip(y - tau w); returns (w . out, sum of w^2 over the entries strictly inside)."""
    level, slope = 0.0, 0.0
    for i in range(y.size):
        x = y[i] - tau * w[i]
        if x <= lower[i]:
            x = lower[i]
        elif x >= upper[i]:
            x = upper[i]
        else:
            slope += w[i] * w[i]
        out[i] = x
        level += w[i] * x
    return level, slope


@leaf
def eq_box(lower, upper, w, total, y, out):
    """Onto {lower <= x <= upper, w . x = total}, w > 0: safeguarded Newton on the one multiplier; `out` is not `y`.

    w . clip(y - tau w) is non-increasing and piecewise linear in tau, so Newton ends on the right piece; the last
    loop corrects x itself, where no large y can cancel.
    """
    lo, hi = np.inf, -np.inf
    for i in range(y.size):
        lo = min(lo, (y[i] - upper[i]) / w[i])
        hi = max(hi, (y[i] - lower[i]) / w[i])
    scale = 0.0
    for i in range(y.size):
        scale = max(scale, w[i] * max(abs(lower[i]), abs(upper[i])))
    tol = 1e-15 * max(scale, abs(total))
    tau = min(max(0.0, lo), hi)
    for _ in range(200):
        level, slope = _shifted(tau, lower, upper, w, y, out)
        res = level - total
        if abs(res) <= tol:
            break
        if res > 0.0:
            lo = tau
        else:
            hi = tau
        new = tau + res / slope if slope > 0.0 else np.inf
        if not (lo < new < hi):
            new = 0.5 * (lo + hi)
        if new == tau:
            break
        tau = new
    for _ in range(3):
        slope, level = 0.0, 0.0
        for i in range(y.size):
            level += w[i] * out[i]
            if lower[i] < out[i] < upper[i]:
                slope += w[i] * w[i]
        if slope == 0.0 or level == total:
            break
        step = (total - level) / slope
        for i in range(y.size):
            if lower[i] < out[i] < upper[i]:
                out[i] = min(max(out[i] + step * w[i], lower[i]), upper[i])


@leaf
def project(code, p, q, w, total, y, out, work):
    """Project `y` onto the set (code, p, q, w, total)."""
    if code == BALL:
        ball(p, total, y, out)
    elif code == SIMPLEX:
        simplex(total, y, out, work)
    elif code == L1:
        l1(total, y, out, work)
    elif code == BOX:
        for i in range(y.size):
            out[i] = min(max(y[i], p[i]), q[i])
    elif code == EQ_BOX:
        for i in range(y.size):
            work[i] = y[i]
        eq_box(p, q, w, total, work, out)
    else:
        level = 0.0
        for i in range(y.size):
            work[i] = y[i]
            level += w[i] * min(max(y[i], p[i]), q[i])
        if level <= total:
            for i in range(y.size):
                out[i] = min(max(y[i], p[i]), q[i])
        else:
            eq_box(p, q, w, total, work, out)


@njit(cache=True, error_model="numpy")
def project_rows(code, p, q, w, total, Y, out):
    """Project every row of `Y`."""
    work = np.empty(Y.shape[1])
    for i in range(Y.shape[0]):
        project(code, p, q, w, total, Y[i], out[i], work)


@njit(cache=True, error_model="numpy")
def projected(code, p, q, w, total, y):
    """A new array with the projection of `y`."""
    out = np.empty(y.size)
    project(code, p, q, w, total, y, out, np.empty(y.size))
    return out


@njit(cache=True, error_model="numpy")
def kkt(rows, lower, upper, x, y, lam):
    """Worst broken bound, worst entry of x - y + sum lam_i normal_i, and of y; stacked rows, bounds first."""
    d, broken, gap, top = x.size, 0.0, 0.0, 0.0
    r = np.empty(d)
    for j in range(d):
        broken = max(broken, lower[j] - x[j], x[j] - upper[j])
        r[j] = x[j] - y[j] + lam[j]
        top = max(top, abs(y[j]))
    for i in range(rows.shape[0]):
        a = rows[i]
        level, m = dot(a, x), lam[d + i]
        broken = max(broken, lower[d + i] - level, level - upper[d + i])
        if m != 0.0:
            for j in range(d):
                r[j] += m * a[j]
    for j in range(d):
        gap = max(gap, abs(r[j]))
    return broken, gap, top
