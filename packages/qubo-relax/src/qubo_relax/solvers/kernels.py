"""Compiled inner loops. Lanes are float32; whatever is certified afterwards is float64.

One type signature each, so that a fresh clone compiles little: row pointers int64, indices int32, values float32
(float64 in `settle`), lanes innermost in the gradient kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE_BITS = 14
RUN = 64


def exponential_table() -> NDArray[np.float32]:
    """``-log(u)`` for evenly spread u, shuffled once and for all; its first `RUN` entries follow once more."""
    size = 1 << TABLE_BITS
    u = (np.arange(size) + 0.5) / size
    table = np.random.default_rng(0).permutation(-np.log(u)).astype(np.float32)
    return np.concatenate([table, table[:RUN]])


@njit(cache=True)
def anneal_sweeps(indptr: Any, indices: Any, data: Any, h: Any, s: Any, state: Any, table: Any, betas: Any) -> int:
    """Metropolis flips in index order, one sweep a beta; `h` is the field g, `s` is ``1 - 2 x``, both in place.

    A random number picks where in the shuffled table the next `RUN` variables read their thresholds, side by side: no
    random number a proposal, no jump in memory, and one branch, since a threshold is never negative. Row pointers and
    indices are unsigned, which spares a test for negative ones at every access.
    """
    n = np.uint64(h.size)
    run = np.uint64(RUN)
    mask = np.uint64(table.size - RUN - 1)
    r = state[0]
    flips = 0
    for t in range(betas.size):
        inverse = np.float32(1.0) / betas[t]
        for first in range(np.uint64(0), n, run):
            r ^= r << np.uint64(13)
            r ^= r >> np.uint64(7)
            r ^= r << np.uint64(17)
            shift = ((r >> np.uint64(11)) & mask) - first
            for i in range(first, min(first + run, n)):
                si = s[i]
                if si * h[i] < table[shift + i] * inverse:
                    for p in range(indptr[i], indptr[i + np.uint64(1)]):
                        h[indices[p]] += data[p] * si
                    s[i] = -si
                    flips += 1
    state[0] = r
    return flips


@njit(cache=True)
def _flip(indptr: Any, indices: Any, data: Any, g: Any, x: Any, i: int) -> None:
    step = 1.0 - 2.0 * x[i]
    for p in range(indptr[i], indptr[i + 1]):
        g[indices[p]] += data[p] * step
    x[i] = np.int8(1 - x[i])


@njit(cache=True)
def _flip_tied_pairs(indptr: Any, indices: Any, data: Any, g: Any, x: Any, tol: float) -> int:
    """Two neighbours of zero gain whose coupling pays when both flip: the second-order descents of T2."""
    flips = 0
    for i in range(g.size):
        si = 1.0 - 2.0 * x[i]
        if abs(g[i]) > 2.0 * tol:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if abs(g[j]) <= 2.0 * tol and si * (1.0 - 2.0 * x[j]) * data[p] < -2.0 * tol:
                _flip(indptr, indices, data, g, x, i)
                _flip(indptr, indices, data, g, x, j)
                flips += 2
                break
    return flips


@njit(cache=True)
def settle(
    indptr: Any,
    indices: Any,
    data: Any,
    linear: Any,
    X: Any,
    out: Any,
    tol: float,
    pairs: bool,
    max_sweeps: int,
) -> int:
    """T4 on each row of `X`: round fractional coordinates to their better ends, then flip while a flip gains > tol.

    With `pairs`, tied neighbours are flipped together too, so that the end is a local minimizer without concavity.
    """
    n = linear.size
    g = np.empty(n)
    total = 0
    for b in range(X.shape[0]):
        x, y = X[b], out[b]
        for i in range(n):
            acc = linear[i]
            for p in range(indptr[i], indptr[i + 1]):
                acc += data[p] * x[indices[p]]
            g[i] = acc
        for i in range(n):
            xi = np.float64(x[i])
            if 0.0 < xi < 1.0:
                new = 1.0 if g[i] < 0.0 else 0.0
                for p in range(indptr[i], indptr[i + 1]):
                    g[indices[p]] += data[p] * (new - xi)
                y[i] = np.int8(new)
            else:
                y[i] = np.int8(xi)
        for _ in range(max_sweeps):
            flips = 0
            for i in range(n):
                if (1.0 - 2.0 * y[i]) * g[i] < -tol:
                    _flip(indptr, indices, data, g, y, i)
                    flips += 1
            if flips == 0 and pairs:
                flips = _flip_tied_pairs(indptr, indices, data, g, y, tol)
            total += flips
            if flips == 0:
                break
    return total


@njit(cache=True, fastmath=True)
def graduated_sweeps(
    indptr: Any, indices: Any, data: Any, linear: Any, X: Any, V: Any, P: Any, mus: Any, noise: Any, step: Any, mom: Any
) -> None:
    """Gauss-Seidel gradient steps with momentum on ``f + mu x (1 - x)``, lanes innermost, in place."""
    n, B = X.shape
    acc = np.empty(B, dtype=np.float32)
    one, zero, two = np.float32(1.0), np.float32(0.0), np.float32(2.0)
    perturbed = P.shape[0] == n
    for t in range(mus.size):
        mu, level = mus[t], noise[t]
        for i in range(n):
            c = linear[i]
            for k in range(B):
                acc[k] = c
            if perturbed:
                row = P[i]
                for k in range(B):
                    acc[k] += level * row[k]
            for p in range(indptr[i], indptr[i + 1]):
                w = data[p]
                row = X[indices[p]]
                for k in range(B):
                    acc[k] += w * row[k]
            x, v = X[i], V[i]
            for k in range(B):
                new_v = mom * v[k] - step * (acc[k] + mu * (one - two * x[k]))
                new_x = x[k] + new_v
                inside = zero < new_x < one
                v[k] = new_v if inside else zero
                x[k] = min(max(new_x, zero), one)


@njit(cache=True, fastmath=True)
def gradient(indptr: Any, indices: Any, data: Any, linear: Any, eps: Any, X: Any, G: Any) -> None:
    """``G = c + S X + eps (1 - 2 X)`` for lanes innermost, shape (n, B)."""
    n, B = X.shape
    one, two = np.float32(1.0), np.float32(2.0)
    for i in range(n):
        out, x = G[i], X[i]
        c = linear[i]
        for k in range(B):
            out[k] = c + eps * (one - two * x[k])
        for p in range(indptr[i], indptr[i + 1]):
            w = data[p]
            row = X[indices[p]]
            for k in range(B):
                out[k] += w * row[k]
