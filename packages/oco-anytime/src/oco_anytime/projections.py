"""Compiled Euclidean projections onto the simple sets. Importing this module loads numba; the domains do so lazily.

Every function works in place on `x` and may use `work`, of the same length. A set is described by a code and four
parameters; an array with two dimensions says that the set has no such parameter. So the number of dimensions tells sets
apart when a round is compiled, and what is compiled holds the projection of one kind of set only.
"""

import math

import numpy as np
from numba import njit

BALL, BOX, SIMPLEX, L1, EQ_BOX, LE_BOX = range(6)

# The reference counts of views cost more than the arithmetic of a small round: `_nrt=False` leaves them out of
# functions that allocate nothing. Leaves become part of their callers; stages stay functions of their own, since what
# is copied into every caller is compiled again with each of them, and a call costs some 10 ns. Neither is called from
# Python, so that the code which unpacks arguments is not wanted.
_OPTIONS = {"cache": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_INNER = {**_OPTIONS, "no_cpython_wrapper": True}
leaf = njit(forceinline=True, **_INNER)
leaf_sum = njit(forceinline=True, fastmath={"reassoc", "nsz", "contract"}, **_INNER)
stage = njit(**_INNER)
entry = njit(cache=True, error_model="numpy", no_cfunc_wrapper=True)
entry_stage = njit(**_OPTIONS)


@leaf_sum
def dot(a, b):
    """Inner product; the sum may be reordered so that it vectorises, the same way in every call."""
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    return s


@leaf_sum
def _distance_squared(a, b):
    s = 0.0
    for i in range(a.size):
        s += (a[i] - b[i]) ** 2
    return s


@stage
def _scaled_norm(a):
    """The norm where squares vanish or overflow."""
    big = 0.0
    for i in range(a.size):
        big = max(big, abs(a[i]))
    if big == 0.0 or not math.isfinite(big):
        return big
    s = 0.0
    for i in range(a.size):
        s += (a[i] / big) ** 2
    return big * math.sqrt(s)


@leaf
def norm(a):
    """Euclidean norm that neither overflows nor underflows."""
    s = dot(a, a)
    return math.sqrt(s) if 1e-200 < s < 1e200 else _scaled_norm(a)


@leaf_sum
def _sum(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


@leaf
def ball(center, radius, x, work):
    """Onto the Euclidean ball."""
    s = _distance_squared(x, center)
    if 1e-200 < s < 1e200:
        r = math.sqrt(s)
    else:
        for i in range(x.size):
            work[i] = x[i] - center[i]
        r = _scaled_norm(work)
    if r > radius:
        f = radius / r
        for i in range(x.size):
            x[i] = center[i] + f * (x[i] - center[i])


@stage
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
def simplex(total, x, work):
    """Onto {x >= 0, sum x = total}: a threshold among the entries within `total` of the largest."""
    n = x.size
    top = x[0]
    for i in range(1, n):
        top = max(top, x[i])
    k = n - n  # no literal, which would be a second signature of what takes it
    for i in range(n):
        # the largest entry is subtracted first: entries of 1e12 would otherwise lose the differences that matter
        u = x[i] - top
        x[i] = u
        if u > -total:
            work[k] = u
            k += 1
    tau, k = _threshold(total, work, k)
    for i in range(n):
        x[i] = max(0.0, x[i] - tau)
    shift = (total - _sum(x, n)) / k
    for i in range(n):
        if x[i] > 0.0:
            x[i] = max(0.0, x[i] + shift)


@leaf
def l1(radius, x, work):
    """Onto the l1 ball: the simplex of the absolute values, with their signs."""
    n = x.size
    s, top = 0.0, 0.0
    for i in range(n):
        s += abs(x[i])
        top = max(top, abs(x[i]))
    if s <= radius:
        return
    k = n - n
    for i in range(n):
        u = abs(x[i]) - top
        if u > -radius:
            work[k] = u
            k += 1
    tau, k = _threshold(radius, work, k)
    for i in range(n):
        u = (abs(x[i]) - top) - tau
        x[i] = 0.0 if u <= 0.0 else (u if x[i] > 0.0 else -u)


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


@stage
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
def _row(code, lower, upper, w, total, x, work):
    """Onto {lower <= x <= upper, w . x = total}, or <= for the code LE_BOX."""
    level = 0.0
    for i in range(x.size):
        work[i] = x[i]
        level += w[i] * min(max(x[i], lower[i]), upper[i])
    if code == LE_BOX and level <= total:
        for i in range(x.size):
            x[i] = min(max(x[i], lower[i]), upper[i])
    else:
        eq_box(lower, upper, w, total, work, x)


@stage
def project(code, p, q, w, total, x, work):
    """Project `x` onto the set (code, p, q, w, total)."""
    if p.ndim == 2:
        if w.ndim == 2:
            simplex(total, x, work)
        else:
            l1(total, x, work)
    elif q.ndim == 2:
        ball(p, total, x, work)
    elif w.ndim == 2:
        for i in range(x.size):
            x[i] = min(max(x[i], p[i]), q[i])
    else:
        _row(code, p, q, w, total, x, work)


@entry
def project_rows(code, p, q, w, total, X):
    """Project every row of `X`."""
    work = np.empty(X.shape[1])
    for i in range(X.shape[0]):
        project(code, p, q, w, total, X[i], work)


@entry
def projected(code, p, q, w, total, y):
    """A new array with the projection of `y`."""
    x = y.copy()
    project(code, p, q, w, total, x, np.empty(y.size))
    return x


@entry
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
