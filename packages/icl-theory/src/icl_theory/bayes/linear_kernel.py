"""The compiled sequential posterior of Gaussian linear regression: a rank-one update a step, O(d^2)."""

from __future__ import annotations

import math

from icl_theory.compiling import kernel


@kernel
def sequential(x, y, w0, S0, noise2, mean, var, log_predictive, w, S, g):
    """Fill mean, var, log_predictive, each (n, length), from x (n, length, d) and y (n, length).

    w0 (d,), S0 (d, d): prior mean and covariance. noise2: noise variance. w (d,), S (d, d), g (d,): scratch.
    """
    n, length, d = x.shape
    for p in range(n):
        for i in range(d):
            w[i] = w0[i]
            for j in range(d):
                S[i, j] = S0[i, j]
        for k in range(length):
            m, v = 0.0, 0.0
            for i in range(d):
                total = 0.0
                for j in range(d):
                    total += S[i, j] * x[p, k, j]
                g[i] = total
                m += w[i] * x[p, k, i]
                v += total * x[p, k, i]
            # Rounding can leave a variance that is zero in exact arithmetic a little below it. NaN stays NaN.
            v = max(v, 0.0)
            q = v + noise2
            r = y[p, k] - m
            mean[p, k] = m
            var[p, k] = v
            log_predictive[p, k] = -0.5 * (math.log(2.0 * math.pi * q) + r * r / q)
            for i in range(d):
                c = g[i] / q
                w[i] += c * r
                for j in range(d):
                    S[i, j] -= c * g[j]
            if k % 64 == 63:
                for i in range(d):
                    for j in range(i):
                        half = 0.5 * (S[i, j] + S[j, i])
                        S[i, j] = half
                        S[j, i] = half
