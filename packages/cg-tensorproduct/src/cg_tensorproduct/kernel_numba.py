"""Fused CPU kernels of the full product: forward and backward, `LANES` samples at a time.

One tile of the batch is transposed so that samples are lanes; then every pair of degrees is a few small matrix products
whose accumulators stay in registers, and each path is written straight to its place in the caller's layout. Nothing of
the size of the outer product exists.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cg_tensorproduct.simd import LANES, fma, fma2, load, neg, peek, poke, store, zeros

# Columns of the tables that `plan_kernel` builds.
# pairs: x row, x step a copy, x step a component, the same for y, copies, blocks, paths
X0, XU, XC, Y0, YV, YC, MUL1, MUL2, BLOCK0, BLOCK1, PATH0, PATH1 = range(12)
# blocks: component of x and y in the first column of A, columns, even and odd rows, first entry of A, first row, M
I0, J0, N, EVEN, ODD, A0, ROW0, M_ = range(8)
# paths: first scratch row, width, first output column, step a copy, step a component
S0, WIDTH, COL0, COPY, STEP = range(5)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _load_tile(x, index, factor, at, count, tile):
    """Real columns -> complex rows: row r holds Re at 2 r and Im at 2 r + 1, one sample a lane."""
    xs, width = x.reshape(-1), x.shape[1]
    for r in range(index.shape[0]):
        re, im = at * width + index[r, 0], at * width + index[r, 1]
        a, b = factor[r, 0], factor[r, 1]
        base = 2 * r * LANES
        for t in range(count):
            poke(tile, base + t, a * peek(xs, re + t * width))
            poke(tile, base + LANES + t, b * peek(xs, im + t * width))


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _outer(X, Y, i, step_i, j, step_j, n, z):
    """z[k] = X[i + k step] Y[j - k step], stored as Re, Im, -Re."""
    for k in range(n):
        a, b = 2 * LANES * (i + k * step_i), 2 * LANES * (j - k * step_j)
        xr, xi, yr, yi = load(X, a), load(X, a + LANES), load(Y, b), load(Y, b + LANES)
        nil = zeros(X)
        minus = fma2(xi, yi, neg(fma2(xr, yr, nil)))
        base = 3 * LANES * k
        store(z, base, neg(minus))
        store(z, base + LANES, fma2(xr, yi, fma2(xi, yr, nil)))
        store(z, base + 2 * LANES, minus)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _rows(A, a0, n, first, last, shift, z, rows, row0, C):
    """Rows first..last of ``C = A z`` for M > 0: plane `shift` of z goes to out[+M], the next one to out[-M]."""
    r = first
    while r + 1 < last:
        p0 = p1 = m0 = m1 = zeros(z)
        at0, at1 = a0 + r * n, a0 + (r + 1) * n
        for k in range(n):
            base = (3 * k + shift) * LANES
            zp, zm = load(z, base), load(z, base + LANES)
            c0, c1 = A[at0 + k], A[at1 + k]
            p0, m0 = fma(c0, zp, p0), fma(c0, zm, m0)
            p1, m1 = fma(c1, zp, p1), fma(c1, zm, m1)
        store(C, rows[row0 + r, 0] * LANES, p0)
        store(C, rows[row0 + r, 1] * LANES, m0)
        store(C, rows[row0 + r + 1, 0] * LANES, p1)
        store(C, rows[row0 + r + 1, 1] * LANES, m1)
        r += 2
    if r < last:
        p0 = m0 = zeros(z)
        at0 = a0 + r * n
        for k in range(n):
            base = (3 * k + shift) * LANES
            c0 = A[at0 + k]
            p0, m0 = fma(c0, load(z, base), p0), fma(c0, load(z, base + LANES), m0)
        store(C, rows[row0 + r, 0] * LANES, p0)
        store(C, rows[row0 + r, 1] * LANES, m0)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _rows_zero(A, a0, n, first, last, shift, z, rows, row0, C):
    """The same for M = 0, where one plane is enough."""
    r = first
    while r + 1 < last:
        p0 = p1 = zeros(z)
        at0, at1 = a0 + r * n, a0 + (r + 1) * n
        for k in range(n):
            zp = load(z, (3 * k + shift) * LANES)
            p0, p1 = fma(A[at0 + k], zp, p0), fma(A[at1 + k], zp, p1)
        store(C, rows[row0 + r, 0] * LANES, p0)
        store(C, rows[row0 + r + 1, 0] * LANES, p1)
        r += 2
    if r < last:
        p0 = zeros(z)
        for k in range(n):
            p0 = fma(A[a0 + r * n + k], load(z, (3 * k + shift) * LANES), p0)
        store(C, rows[row0 + r, 0] * LANES, p0)


@njit(cache=True, error_model="numpy", nogil=True)
def couple(x, y, out, index1, factor1, index2, factor2, pairs, blocks, rows, paths, A, sizes):
    """Full product of the rows of `x` and `y` into `out`."""
    X = np.zeros(2 * LANES * x.shape[1], A.dtype)
    Y = np.zeros(2 * LANES * y.shape[1], A.dtype)
    z = np.empty(3 * LANES * sizes[0], A.dtype)
    C = np.empty(LANES * sizes[1], A.dtype)
    for at in range(0, x.shape[0], LANES):
        count = min(LANES, x.shape[0] - at)
        _load_tile(x, index1, factor1, at, count, X)
        _load_tile(y, index2, factor2, at, count, Y)
        for p in range(pairs.shape[0]):
            P = pairs[p]
            for u in range(P[MUL1]):
                for v in range(P[MUL2]):
                    x0, y0 = P[X0] + u * P[XU], P[Y0] + v * P[YV]
                    for b in range(P[BLOCK0], P[BLOCK1]):
                        B = blocks[b]
                        n, even, last = B[N], B[EVEN], B[EVEN] + B[ODD]
                        _outer(X, Y, x0 + B[I0] * P[XC], P[XC], y0 + B[J0] * P[YC], P[YC], n, z)
                        if B[M_] == 0:
                            _rows_zero(A, B[A0], n, 0, even, 0, z, rows, B[ROW0], C)
                            _rows_zero(A, B[A0], n, even, last, 1, z, rows, B[ROW0], C)
                        else:
                            _rows(A, B[A0], n, 0, even, 0, z, rows, B[ROW0], C)
                            _rows(A, B[A0], n, even, last, 1, z, rows, B[ROW0], C)
                    _write(C, paths, P[PATH0], P[PATH1], u * P[MUL2] + v, at, count, out)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _write(C, paths, first, last, copy, at, count, out):
    outs, line = out.reshape(-1), out.shape[1]
    for t in range(count):
        for q in range(first, last):
            P = paths[q]
            step, row = P[STEP], P[S0] * LANES + t
            column = (at + t) * line + P[COL0] + copy * P[COPY]
            for _ in range(P[WIDTH]):
                poke(outs, column, peek(C, row))
                row += LANES
                column += step


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _read(C, paths, first, last, copy, at, count, g):
    gs, line = g.reshape(-1), g.shape[1]
    for t in range(count):
        for q in range(first, last):
            P = paths[q]
            step, row = P[STEP], P[S0] * LANES + t
            column = (at + t) * line + P[COL0] + copy * P[COPY]
            for _ in range(P[WIDTH]):
                poke(C, row, peek(gs, column))
                row += LANES
                column += step


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _columns(A, a0, n, even, last, M, C, rows, row0, z):
    """``gz = A^T gO``, stored as Re, Im."""
    for k in range(n):
        re = im = zeros(C)
        for r in range(even):
            a = A[a0 + r * n + k]
            re = fma(a, load(C, rows[row0 + r, 0] * LANES), re)
            if M > 0:
                im = fma(a, load(C, rows[row0 + r, 1] * LANES), im)
        for r in range(even, last):
            a = A[a0 + r * n + k]
            im = fma(a, load(C, rows[row0 + r, 0] * LANES), im)
            if M > 0:
                re = fma(-a, load(C, rows[row0 + r, 1] * LANES), re)
        store(z, 2 * LANES * k, re)
        store(z, 2 * LANES * k + LANES, im)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _scatter(X, Y, GX, GY, i, step_i, j, step_j, n, z):
    """GX += gz conj Y, GY += gz conj X."""
    for k in range(n):
        a, b = 2 * LANES * (i + k * step_i), 2 * LANES * (j - k * step_j)
        xr, xi, yr, yi = load(X, a), load(X, a + LANES), load(Y, b), load(Y, b + LANES)
        re, im = load(z, 2 * LANES * k), load(z, 2 * LANES * k + LANES)
        minus = neg(re)
        store(GX, a, fma2(re, yr, fma2(im, yi, load(GX, a))))
        store(GX, a + LANES, fma2(im, yr, fma2(minus, yi, load(GX, a + LANES))))
        store(GY, b, fma2(re, xr, fma2(im, xi, load(GY, b))))
        store(GY, b + LANES, fma2(im, xr, fma2(minus, xi, load(GY, b + LANES))))


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _store_tile(G, index, factor, at, count, gx):
    """Transpose of `_load_tile`."""
    gxs = gx.reshape(-1)
    for t in range(count):
        start = (at + t) * gx.shape[1]
        for r in range(index.shape[0]):
            gxs[start + r] = 0
        for r in range(index.shape[0]):
            re, im = start + index[r, 0], start + index[r, 1]
            poke(gxs, re, peek(gxs, re) + factor[r, 0] * peek(G, 2 * r * LANES + t))
            poke(gxs, im, peek(gxs, im) + factor[r, 1] * peek(G, (2 * r + 1) * LANES + t))


@njit(cache=True, error_model="numpy", nogil=True)
def back(x, y, g, gx, gy, index1, factor1, index2, factor2, pairs, blocks, rows, paths, A, sizes):
    """Gradients of ``(couple(x, y) * g).sum()`` into `gx` and `gy`."""
    X = np.zeros(2 * LANES * x.shape[1], A.dtype)
    Y = np.zeros(2 * LANES * y.shape[1], A.dtype)
    z = np.empty(3 * LANES * sizes[0], A.dtype)
    C = np.zeros(LANES * sizes[1], A.dtype)
    for at in range(0, x.shape[0], LANES):
        count = min(LANES, x.shape[0] - at)
        _load_tile(x, index1, factor1, at, count, X)
        _load_tile(y, index2, factor2, at, count, Y)
        GX, GY = np.zeros_like(X), np.zeros_like(Y)
        for p in range(pairs.shape[0]):
            P = pairs[p]
            for u in range(P[MUL1]):
                for v in range(P[MUL2]):
                    _read(C, paths, P[PATH0], P[PATH1], u * P[MUL2] + v, at, count, g)
                    x0, y0 = P[X0] + u * P[XU], P[Y0] + v * P[YV]
                    for b in range(P[BLOCK0], P[BLOCK1]):
                        B = blocks[b]
                        i, j = x0 + B[I0] * P[XC], y0 + B[J0] * P[YC]
                        _columns(A, B[A0], B[N], B[EVEN], B[EVEN] + B[ODD], B[M_], C, rows, B[ROW0], z)
                        _scatter(X, Y, GX, GY, i, P[XC], j, P[YC], B[N], z)
        _store_tile(GX, index1, factor1, at, count, gx)
        _store_tile(GY, index2, factor2, at, count, gy)
