"""Native kernel of mode uvu, the product of message passing: channels are the lanes, one sample at a time.

The second input turns into a small sparse operator G[k, i] for each path; then ``out[k, u] = W[u] sum_i G[k, i] x[i,
u]`` runs over channels `LANES` at a time with x transposed in the first-level cache. The backward keeps only x, y and
W: the same loop gives the gradients of x, W and G, and that of y follows from G's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cg_tensorproduct.simd import LANES, fma, fma2, load, peek, poke, store, total, zeros

# Columns of the tables that `plan_uvu` builds.
# terms of input or output: first column, copies, components, step a copy, step a component, first scratch number
COL, MUL, DIM, USTEP, KSTEP, ROW = range(6)
# paths: input term, output term, first column of y, step a component of y, first weight (or -1), step a copy of u,
# first row of the operator, first and last entry
# rows: first entry of each row of the operators; entries: component of x, first and last coefficient; js, values:
# component of y and coupling of each coefficient
TERM1, TERM3, Y0, YSTEP, W0, WSTEP, K0, E0, E1 = range(9)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _gather(source, start, terms, scratch):
    """Rows of components with channels as lanes, from the sample at `start` in a caller's layout."""
    for t in range(terms.shape[0]):
        T = terms[t]
        mul, step, dim = T[MUL], T[USTEP], T[DIM]
        padded = (mul + LANES - 1) // LANES * LANES
        base, column = T[ROW], start + T[COL]
        if dim == 3 and T[KSTEP] == 1:  # side by side: the loads of a copy share their cache line
            for u in range(mul):
                poke(scratch, base + u, peek(source, column))
                poke(scratch, base + padded + u, peek(source, column + 1))
                poke(scratch, base + 2 * padded + u, peek(source, column + 2))
                column += step
            continue
        for k in range(dim):
            row, at = base + k * padded, column + k * T[KSTEP]
            for u in range(mul):
                poke(scratch, row + u, peek(source, at))
                at += step


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _scatter(scratch, terms, start, target):
    """The reverse."""
    for t in range(terms.shape[0]):
        T = terms[t]
        mul, step, dim = T[MUL], T[USTEP], T[DIM]
        padded = (mul + LANES - 1) // LANES * LANES
        base, column = T[ROW], start + T[COL]
        if dim == 3 and T[KSTEP] == 1:
            for u in range(mul):
                poke(target, column, peek(scratch, base + u))
                poke(target, column + 1, peek(scratch, base + padded + u))
                poke(target, column + 2, peek(scratch, base + 2 * padded + u))
                column += step
        elif dim == 5 and T[KSTEP] == 1:
            for u in range(mul):
                poke(target, column, peek(scratch, base + u))
                poke(target, column + 1, peek(scratch, base + padded + u))
                poke(target, column + 2, peek(scratch, base + 2 * padded + u))
                poke(target, column + 3, peek(scratch, base + 3 * padded + u))
                poke(target, column + 4, peek(scratch, base + 4 * padded + u))
                column += step
        else:
            for k in range(dim):
                row, at = base + k * padded, column + k * T[KSTEP]
                for u in range(mul):
                    poke(target, at, peek(scratch, row + u))
                    at += step


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _operator(y, start, P, entries, js, values, G):
    """Values of the operator's entries: G[e] = sum of c y[j]."""
    first, step = start + P[Y0], P[YSTEP]
    for e in range(P[E0], P[E1]):
        value = peek(values, 0) * 0
        for n in range(entries[e, 1], entries[e, 2]):
            value += peek(values, n) * peek(y, first + peek(js, n) * step)
        poke(G, e - P[E0], value)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _weights(w, start, P, mul, W):
    """Weights of a path as lanes; those past the last copy are zero, since a NaN left there would reach the sums."""
    W[:] = 0
    if P[W0] < 0:
        W[:mul] = 1
        return
    at, step = start + P[W0], P[WSTEP]
    for u in range(mul):
        poke(W, u, peek(w, at))
        at += step


@njit(cache=True, error_model="numpy", nogil=True)
def couple(x, y, w, out, terms1, terms3, paths, rows, entries, js, values, sizes):
    """Weighted products of the rows of `x` and `y` into `out`."""
    X, Z = np.zeros(sizes[0], values.dtype), np.zeros(sizes[1], values.dtype)
    G, W = np.zeros(sizes[2], values.dtype), np.zeros(sizes[3], values.dtype)
    xs, ys, ws, outs = x.reshape(-1), y.reshape(-1), w.reshape(-1), out.reshape(-1)
    for b in range(x.shape[0]):
        _gather(xs, b * x.shape[1], terms1, X)
        Z[:] = 0
        row = b * w.shape[1] if w.shape[0] > 1 else 0
        for p in range(paths.shape[0]):
            P = paths[p]
            A, C = terms1[P[TERM1]], terms3[P[TERM3]]
            padded = (A[MUL] + LANES - 1) // LANES * LANES
            _operator(ys, b * y.shape[1], P, entries, js, values, G)
            _weights(ws, row, P, A[MUL], W)
            for u in range(0, padded, LANES):
                weight = load(W, u)
                for k in range(C[DIM]):
                    t = zeros(X)
                    for e in range(rows[P[K0] + k], rows[P[K0] + k + 1]):
                        t = fma(G[e - P[E0]], load(X, A[ROW] + entries[e, 0] * padded + u), t)
                    at = C[ROW] + k * padded + u
                    store(Z, at, fma2(weight, t, load(Z, at)))
        _scatter(Z, terms3, b * out.shape[1], outs)


@njit(cache=True, error_model="numpy", nogil=True)
def back(x, y, w, g, gx, gy, gw, terms1, terms3, paths, rows, entries, js, values, sizes):
    """Gradients of ``(couple(x, y, w) * g).sum()`` into `gx`, `gy` and `gw`; shared weights add up over samples."""
    X, Z = np.zeros(sizes[0], values.dtype), np.zeros(sizes[1], values.dtype)
    GX = np.zeros(sizes[0], values.dtype)
    G, GG = np.zeros(sizes[2], values.dtype), np.empty(sizes[2] * LANES, values.dtype)
    W, GW = np.zeros(sizes[3], values.dtype), np.zeros(sizes[3], values.dtype)
    gys, gws = gy.reshape(-1), gw.reshape(-1)
    gys[:] = 0
    gws[:] = 0
    xs, ys, ws, gs, gxs = x.reshape(-1), y.reshape(-1), w.reshape(-1), g.reshape(-1), gx.reshape(-1)
    for b in range(x.shape[0]):
        _gather(xs, b * x.shape[1], terms1, X)
        _gather(gs, b * g.shape[1], terms3, Z)
        row = b * w.shape[1] if w.shape[0] > 1 else 0
        GX[:] = 0
        for p in range(paths.shape[0]):
            P = paths[p]
            A, C = terms1[P[TERM1]], terms3[P[TERM3]]
            padded = (A[MUL] + LANES - 1) // LANES * LANES
            _operator(ys, b * y.shape[1], P, entries, js, values, G)
            _weights(ws, row, P, A[MUL], W)
            GG[: (P[E1] - P[E0]) * LANES] = 0
            for u in range(0, padded, LANES):
                weight, gradient = load(W, u), zeros(X)
                for k in range(C[DIM]):
                    h = load(Z, C[ROW] + k * padded + u)
                    hw, t = fma2(h, weight, zeros(X)), zeros(X)
                    for e in range(rows[P[K0] + k], rows[P[K0] + k + 1]):
                        at = A[ROW] + entries[e, 0] * padded + u
                        xi = load(X, at)
                        t = fma(G[e - P[E0]], xi, t)
                        store(GX, at, fma(G[e - P[E0]], hw, load(GX, at)))
                        store(GG, (e - P[E0]) * LANES, fma2(hw, xi, load(GG, (e - P[E0]) * LANES)))
                    gradient = fma2(h, t, gradient)
                store(GW, u, gradient)
            if P[W0] >= 0:
                at = row + P[W0]
                for u in range(A[MUL]):
                    poke(gws, at, peek(gws, at) + peek(GW, u))
                    at += P[WSTEP]
            for e in range(P[E0], P[E1]):
                summed = total(load(GG, (e - P[E0]) * LANES))
                for n in range(entries[e, 1], entries[e, 2]):
                    at = b * y.shape[1] + P[Y0] + peek(js, n) * P[YSTEP]
                    poke(gys, at, peek(gys, at) + peek(values, n) * summed)
        _scatter(GX, terms1, b * gx.shape[1], gxs)
