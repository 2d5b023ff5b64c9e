"""The compiled forward and backward pass of the one-layer models in the basis of patterns."""

from __future__ import annotations

import math

from icl_theory.compiling import kernel


@kernel
def hinge_step(
    K, g, gated, first_irrelevant, first_outlier, strength, relevant, irrelevant, outlier, size, y, z,
    want, F, gK, gg, kq, gq, T, G, s,
):  # fmt: skip
    """Fill F (n,) and, if `want`, add the gradients of the summed hinge loss to gK and gg; return that loss.

    K (rows, rows): scores between patterns. g (rows,): gate pre-activation of each. kq, gq (rows,), T, G, s
    (length + 1,): scratch. A product of gates below 1e-308 becomes 0, as its share of F does.
    """
    # Long on purpose: a backward pass of its own costs 2 - 3 % of a training step, and the sums over an example's
    # patterns, each written twice below, cost 25 - 50 % of this kernel as inlined functions.
    n, width = y.shape
    rows = g.shape[0]
    last, label = width - 1, rows - 1
    loss = 0.0
    for p in range(n):
        q1, q2, qs = relevant[p, last], first_irrelevant + irrelevant[p, last], size[p, last]
        for r in range(rows):
            kq[r] = K[r, q1] + qs * K[r, q2]
            gq[r] = 0.0
        keep, total = 1.0, 0.0
        for back in range(width):
            i = last - back
            r1, r2, c2 = relevant[p, i], first_irrelevant + irrelevant[p, i], size[p, i]
            score = kq[r1] + c2 * kq[r2] + y[p, i] * kq[label]
            if outlier[p, i] >= 0:
                score += strength * kq[first_outlier + outlier[p, i]]
            G[i] = 1.0
            if gated:
                a = g[r1] + c2 * g[r2] + y[p, i] * g[label]
                if outlier[p, i] >= 0:
                    a += strength * g[first_outlier + outlier[p, i]]
                e = math.exp(-abs(a))
                up, down = 1.0 / (1.0 + e), e / (1.0 + e)
                s[i] = up if a > 0 else down
                G[i] = s[i] * keep
                keep *= down if a > 0 else up
                if a != a:
                    G[i] = a
            T[i] = G[i] * y[p, i] * score
            total += T[i]
        F[p] = total
        margin = 1.0 - z[p] * total
        if margin <= 0.0:
            continue
        loss += margin
        if not want:
            continue
        before = 0.0
        for i in range(width):
            r1, r2, c2 = relevant[p, i], first_irrelevant + irrelevant[p, i], size[p, i]
            d = -z[p] * G[i] * y[p, i]
            gq[r1] += d
            gq[r2] += d * c2
            gq[label] += d * y[p, i]
            if outlier[p, i] >= 0:
                gq[first_outlier + outlier[p, i]] += d * strength
            if gated:
                # dF / da_i = (1 - s_i) T_i - s_i * sum of T_j over earlier examples j
                d = -z[p] * ((1.0 - s[i]) * T[i] - s[i] * before)
                gg[r1] += d
                gg[r2] += d * c2
                gg[label] += d * y[p, i]
                if outlier[p, i] >= 0:
                    gg[first_outlier + outlier[p, i]] += d * strength
                before += T[i]
        for r in range(rows):
            gK[r, q1] += gq[r]
            gK[r, q2] += qs * gq[r]
    return loss
