"""Native kernel of mode uvu, the product of message passing: channels are the lanes, one sample at a time.

The second input turns into a small sparse operator G[k, i] for each path; then ``out[k, u] = W[u] sum_i G[k, i] x[i,
u]`` runs over channels `LANES` at a time with x transposed in the first-level cache. The backward keeps only x, y and
W: the same loop gives the gradients of x, W and G, and that of y follows from G's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cg_tensorproduct.simd import LANES, fma, fma2, load, store, total, zeros

# Columns of the tables that `plan_uvu` builds.
# terms of input or output: first column, copies, components, step a copy, step a component, first scratch number
COL, MUL, DIM, USTEP, KSTEP, ROW = range(6)
# paths: input term, output term, first column of y, step a component of y, first weight (or -1), step a copy of u,
# first row of the operator, first and last entry
# rows: first entry of each row of the operators; entries: component of x, first and last coefficient; js, values:
# component of y and coupling of each coefficient
TERM1, TERM3, Y0, YSTEP, W0, WSTEP, K0, E0, E1 = range(9)


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _gather(source, b, terms, scratch):
    """Rows of components with channels as lanes, from one sample of a caller's layout."""
    for t in range(terms.shape[0]):
        T = terms[t]
        padded = (T[MUL] + LANES - 1) // LANES * LANES
        for k in range(T[DIM]):
            base, column = T[ROW] + k * padded, T[COL] + k * T[KSTEP]
            for u in range(T[MUL]):
                scratch[base + u] = source[b, column + u * T[USTEP]]


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _scatter(scratch, terms, b, target):
    for t in range(terms.shape[0]):
        T = terms[t]
        padded = (T[MUL] + LANES - 1) // LANES * LANES
        for u in range(T[MUL]):
            column = T[COL] + u * T[USTEP]
            for k in range(T[DIM]):
                target[b, column + k * T[KSTEP]] = scratch[T[ROW] + k * padded + u]


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _operator(y, b, P, entries, js, values, G):
    """Values of the operator's entries: G[e] = sum of c y[j]."""
    for e in range(P[E0], P[E1]):
        G[e - P[E0]] = 0
        for n in range(entries[e, 1], entries[e, 2]):
            G[e - P[E0]] += values[n] * y[b, P[Y0] + js[n] * P[YSTEP]]


@njit(inline="never", cache=True, error_model="numpy", nogil=True)
def _weights(w, b, P, mul, W):
    row = b if w.shape[0] > 1 else 0
    for u in range(mul):
        W[u] = w[row, P[W0] + u * P[WSTEP]] if P[W0] >= 0 else 1


@njit(cache=True, error_model="numpy", nogil=True)
def couple(x, y, w, out, terms1, terms3, paths, rows, entries, js, values, sizes):
    """Weighted products of the rows of `x` and `y` into `out`."""
    X, Z = np.zeros(sizes[0], values.dtype), np.zeros(sizes[1], values.dtype)
    G, W = np.empty(sizes[2], values.dtype), np.zeros(sizes[3], values.dtype)
    for b in range(x.shape[0]):
        _gather(x, b, terms1, X)
        Z[:] = 0
        for p in range(paths.shape[0]):
            P = paths[p]
            A, C = terms1[P[TERM1]], terms3[P[TERM3]]
            padded = (A[MUL] + LANES - 1) // LANES * LANES
            _operator(y, b, P, entries, js, values, G)
            _weights(w, b, P, A[MUL], W)
            for u in range(0, padded, LANES):
                weight = load(W, u)
                for k in range(C[DIM]):
                    t = zeros(X)
                    for e in range(rows[P[K0] + k], rows[P[K0] + k + 1]):
                        t = fma(G[e - P[E0]], load(X, A[ROW] + entries[e, 0] * padded + u), t)
                    at = C[ROW] + k * padded + u
                    store(Z, at, fma2(weight, t, load(Z, at)))
        _scatter(Z, terms3, b, out)


@njit(cache=True, error_model="numpy", nogil=True)
def back(x, y, w, g, gx, gy, gw, terms1, terms3, paths, rows, entries, js, values, sizes):
    """Gradients of ``(couple(x, y, w) * g).sum()`` into `gx`, `gy` and `gw`; shared weights add up over samples."""
    X, Z = np.zeros(sizes[0], values.dtype), np.zeros(sizes[1], values.dtype)
    GX = np.zeros(sizes[0], values.dtype)
    G, GG = np.empty(sizes[2], values.dtype), np.empty(sizes[2] * LANES, values.dtype)
    W, GW = np.zeros(sizes[3], values.dtype), np.zeros(sizes[3], values.dtype)
    gy[:] = 0
    gw[:] = 0
    for b in range(x.shape[0]):
        _gather(x, b, terms1, X)
        _gather(g, b, terms3, Z)
        GX[:] = 0
        for p in range(paths.shape[0]):
            P = paths[p]
            A, C = terms1[P[TERM1]], terms3[P[TERM3]]
            padded = (A[MUL] + LANES - 1) // LANES * LANES
            _operator(y, b, P, entries, js, values, G)
            _weights(w, b, P, A[MUL], W)
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
                row = b if w.shape[0] > 1 else 0
                for u in range(A[MUL]):
                    gw[row, P[W0] + u * P[WSTEP]] += GW[u]
            for e in range(P[E0], P[E1]):
                summed = total(load(GG, (e - P[E0]) * LANES))
                for n in range(entries[e, 1], entries[e, 2]):
                    gy[b, P[Y0] + js[n] * P[YSTEP]] += values[n] * summed
        _scatter(GX, terms1, b, gx)
