"""Compiled projection onto flows: damped Newton on the node potentials. Importing this module loads numba.

The dual of  min ||x - y||^2/2  over  0 <= x <= cap, outflow - inflow = supply  has one potential a node; its solution
gives x_a = clip(y_a + p_tail - p_head, 0, cap_a), and the residual r = supply - (out - in of x) is minus its gradient.
A zero residual is therefore itself the proof that x is the projection.

Integer structure (see `oco_anytime.domains.flow`): `ends` (2, m) tail and head as unknowns, -1 for a fixed node;
`spot` (m,) place of the arc's entry in L, -1 if none; `ptr`, `row` the columns of L; `tptr`, `target`, `run` the
places that the elimination of a column updates.
"""

import math

import numpy as np
from numba import njit

CONVERGED, STALLED = 0, 1
_MAX_NEWTON = 30
_ANTI_CYCLE = 12

# not called from Python: no code to unpack their arguments
_inner = njit(cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inner
def _factor(ptr, row, tptr, target, run, L, diag):
    """LDL^T in place, right-looking; `run` marks targets that lie side by side, so that the loop vectorises."""
    for j in range(diag.size):
        d = 1.0 / diag[j]
        end = ptr[j + 1]
        for p in range(ptr[j], end):
            v = L[p]
            if v == 0.0:
                continue
            f = v * d
            diag[row[p]] -= f * v
            k = tptr[p]
            if run[p]:
                count = end - p - 1
                if count > 0:
                    # slices, because an index that might be negative keeps the loop from vectorising
                    to, of = L[target[k] : target[k] + count], L[p + 1 : end]
                    for q in range(count):
                        to[q] -= f * of[q]
            else:
                for q in range(p + 1, end):
                    L[target[k]] -= f * L[q]
                    k += 1
        for p in range(ptr[j], end):
            L[p] *= d


@_inner
def _solve(ptr, row, L, diag, x):
    n = diag.size
    for j in range(n):
        v = x[j]
        for p in range(ptr[j], ptr[j + 1]):
            x[row[p]] -= L[p] * v
    for j in range(n - 1, -1, -1):
        v = x[j] / diag[j]
        for p in range(ptr[j], ptr[j + 1]):
            v -= L[p] * x[row[p]]
        x[j] = v


@_inner
def _assemble(ends, spot, free, eps, L, diag):
    L[:] = 0.0
    diag[:] = 1e-14
    for a in range(free.size):
        t, h = ends[0, a], ends[1, a]
        if t == h:
            continue
        w = 1.0 if free[a] else eps
        if t >= 0:
            diag[t] += w
        if h >= 0:
            diag[h] += w
        if spot[a] >= 0:
            L[spot[a]] -= w


@_inner
def _residual(ends, supply, x, r):
    """R = supply - (out - in); returns its largest size."""
    for v in range(r.size):
        r[v] = supply[v]
    for a in range(x.size):
        t, h = ends[0, a], ends[1, a]
        if t == h:
            continue
        if t >= 0:
            r[t] -= x[a]
        if h >= 0:
            r[h] += x[a]
    big = 0.0
    for v in range(r.size):
        big = max(big, abs(r[v]))
    return big


@_inner
def _slope(u, du, cap, lin, s):
    """Slope of the dual at u + s du, and its own slope."""
    g, h = -lin, 0.0
    for a in range(u.size):
        e = du[a]
        x = u[a] + s * e
        if x <= 0.0:
            continue
        if x >= cap[a]:
            x = cap[a]
        else:
            h += e * e
        g += x * e
    return g, h


@_inner
def _line_search(u, du, cap, lin, g0, upper):
    """A step whose slope is small against |g0|: s = 1 if it serves, else bracketing and three ways in turn."""
    size = -g0
    s = 1.0
    g, h = _slope(u, du, cap, lin, s)
    if -0.5 * size <= g <= min(0.3, upper) * size:
        return s
    low, glow, _hlow = 0.0, g0, 0.0
    if g < 0.0:
        while g < -0.1 * size:
            low, glow, _hlow = s, g, h
            ahead = s - g / h if h > 0.0 else 100.0 * s
            s = min(max(4.0 * s, ahead), 100.0 * s)
            g, h = _slope(u, du, cap, lin, s)
            if s > 1e18:
                return low
        if g <= min(0.1, upper) * size:
            return s
    high, ghigh, hhigh = s, g, h
    for k in range(60):
        if k % 3 == 0:
            s = high - ghigh / hhigh if hhigh > 0.0 else low
        elif k % 3 == 1:
            s = low - glow * (high - low) / (ghigh - glow)
        else:
            s = 0.5 * (low + high)
        if not low < s < high:
            s = 0.5 * (low + high)
            if not low < s < high:
                break
        g, h = _slope(u, du, cap, lin, s)
        if -0.1 * size <= g <= min(0.1, upper) * size:
            return s
        if g < 0.0:
            low, glow, _hlow = s, g, h
        else:
            high, ghigh, hhigh = s, g, h
    return low


@_inner
def _newton(ends, spot, ptr, row, tptr, target, run, supply, cap, y, tol, p, x, r, L, diag, free, u, du, d):
    """Newton from the potentials p; True once the residual is within tol."""
    m, n = y.size, diag.size
    factored = 0.0
    for it in range(_MAX_NEWTON + 1):
        changed = it == 0
        for a in range(m):
            t, h = ends[0, a], ends[1, a]
            v = y[a]
            if t != h:
                v += (p[t] if t >= 0 else 0.0) - (p[h] if h >= 0 else 0.0)
            u[a] = v
            inside = 0.0 < v < cap[a]
            if inside != free[a]:
                free[a] = inside
                changed = True
            x[a] = min(max(v, 0.0), cap[a])
        big = _residual(ends, supply, x, r)
        if big <= tol:
            return True
        if it == _MAX_NEWTON:
            return False
        eps = min(1e-2, 0.1 * big)
        if changed or eps < 0.1 * factored:
            factored = eps
            _assemble(ends, spot, free, eps, L, diag)
            _factor(ptr, row, tptr, target, run, L, diag)
        for v in range(n):
            d[v] = r[v]
        _solve(ptr, row, L, diag, d)
        g0, lin = 0.0, 0.0
        for v in range(n):
            g0 -= r[v] * d[v]
            lin += supply[v] * d[v]
        if not g0 < 0.0:
            return False
        for a in range(m):
            t, h = ends[0, a], ends[1, a]
            du[a] = 0.0 if t == h else (d[t] if t >= 0 else 0.0) - (d[h] if h >= 0 else 0.0)
        s = _line_search(u, du, cap, lin, g0, 1.0 if it < _ANTI_CYCLE else 1e-3)
        for v in range(n):
            p[v] += s * d[v]
    return False


@_inner
def _refine(ends, spot, ptr, row, tptr, target, run, supply, cap, enough, x, r, L, diag, free, u, d):
    """Correct x itself on its free arcs: no y in it, so nothing cancels."""
    m, n = x.size, diag.size
    big = _residual(ends, supply, x, r)
    for _ in range(4):
        if big <= enough:
            break
        for a in range(m):
            free[a] = 0.0 < x[a] < cap[a]
        _assemble(ends, spot, free, 1e-13, L, diag)
        _factor(ptr, row, tptr, target, run, L, diag)
        for v in range(n):
            d[v] = r[v]
        _solve(ptr, row, L, diag, d)
        for a in range(m):
            t, h = ends[0, a], ends[1, a]
            u[a] = x[a]
            if free[a] and t != h:
                move = (d[t] if t >= 0 else 0.0) - (d[h] if h >= 0 else 0.0)
                u[a] = min(max(x[a] + move, 0.0), cap[a])
        new = _residual(ends, supply, u, r)
        if not new < big:
            break
        big = new
        for a in range(m):
            x[a] = u[a]
    return big


@njit(cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True)
def project(ends, spot, ptr, row, tptr, target, run, supply, cap, scale, y, x):
    """Project y onto the flows; returns (status, largest residual)."""
    m, n = y.size, supply.size
    top = 0.0
    for a in range(m):
        top = max(top, abs(y[a]))
    nodes = np.empty((4, n))
    arcs = np.empty((2, m))
    p, r, diag, d = nodes[0], nodes[1], nodes[2], nodes[3]
    u, du = arcs[0], arcs[1]
    L = np.empty(row.size)
    free = np.zeros(m, dtype=np.bool_)
    # from 0 to y itself; if that fails, from far away in steps: potentials of y/2^k, doubled, start y/2^(k-1)
    near = np.empty(m)
    steps, k, ok = -1, 0, False
    p[:] = 0.0
    while True:
        f = 0.5**k
        for a in range(m):
            near[a] = f * y[a]
        tol = max(1e-12 * scale, 4e-16 * top * f)
        ok = _newton(ends, spot, ptr, row, tptr, target, run, supply, cap, near, tol, p, x, r, L, diag, free, u, du, d)
        if steps < 0 and not ok:
            steps = k = max(1, math.ceil(math.log2(max(top / scale, 2.0))))
            p[:] = 0.0
        elif k == 0:
            break
        else:
            k -= 1
            for v in range(n):
                p[v] *= 2.0
    big = _refine(ends, spot, ptr, row, tptr, target, run, supply, cap, 4e-15 * scale, x, r, L, diag, free, u, d)
    return (CONVERGED if ok else STALLED), big
