"""Compiled part of `DynamicCOCO`: one round for K experts that share a gradient. Importing this module loads numba.

As in kernels.py, numba checks only this file's date for its cache: after an edit of kernels.py touch this file too.
"""

import math

import numpy as np

from oco_anytime.kernels import C_D, GF, UNIT, H, absorb, price
from oco_anytime.projections import dot, entry


@entry
def mix(cfg, s, Y, L, x):
    """X = sum p_i y_i with p_i ~ exp(-r (L_i - min L)), r = sqrt(2 log K)/(D sqrt H); uniform while H = 0."""
    K = L.size
    best = L[0]
    for i in range(1, K):
        best = min(best, L[i])
    rate = 0.0
    if s[H] > 0.0:
        rate = math.sqrt(2.0 * math.log(K)) / (cfg[C_D] * s[UNIT] * math.sqrt(s[H]))
    total = 0.0
    x[:] = 0.0
    for i in range(K):
        p = math.exp(-rate * (L[i] - best))
        total += p
        for j in range(x.size):
            x[j] += p * Y[i, j]
    for j in range(x.size):
        x[j] /= total


@entry
def round_(cfg, s, z, n, ccv, x, c, v, a, Y, L, new):
    """Price the round at x, charge the experts, and put their points before projection into `new`.

    Returns False where they stay as they are.
    """
    g = np.empty(x.size)
    first = s[GF] == 0.0
    price(cfg, s, z, n, ccv, c, v, a, g)
    if first and s[GF] > 0.0:
        L[:] = 0.0
    at = dot(g, x)
    for i in range(L.size):
        L[i] += dot(g, Y[i]) - at
    inv = absorb(s, g)
    step = cfg[C_D] / math.sqrt(2.0) * inv
    for i in range(L.size):
        for j in range(x.size):
            new[i, j] = Y[i, j] - step * g[j]
        step *= 2.0
    return inv > 0.0
