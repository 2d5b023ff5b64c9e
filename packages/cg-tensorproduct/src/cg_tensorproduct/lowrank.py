"""Arbitrary path weights as a sum of per-degree factors: ``K[l1, l2, l3] = sum_r a[r, l1] b[r, l2] c[r, l3]``.

The signal product mixes all degrees at once, so a weight a path costs one signal product for each term of such a sum.
Taking one l1 at a time, the singular vectors of the matrix over (l2, l3) give an exact sum of at most (L1 + 1) min(L2 +
1, L3 + 1) terms. Entries without a path are free, and alternating least squares over the others uses that freedom when
fewer terms are asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Factors = tuple[Array, Array, Array]


def exact_factors(K: Array, tol: float) -> Factors:
    """Factors of `K`, dropping singular values below `tol` times the largest."""
    terms: list[tuple[float, int, Array, Array]] = []
    for l1, matrix in enumerate(K):
        left, singular, right = np.linalg.svd(matrix)
        terms.extend((value, l1, left[:, k], right[k]) for k, value in enumerate(singular))
    terms.sort(key=lambda term: -term[0])
    kept = [term for term in terms if term[0] > tol * max(terms[0][0], np.finfo(float).tiny)]
    shape = len(kept)
    a, b, c = np.zeros((shape, K.shape[0])), np.zeros((shape, K.shape[1])), np.zeros((shape, K.shape[2]))
    for r, (value, l1, u, v) in enumerate(kept):
        a[r, l1], b[r], c[r] = np.cbrt(value), np.cbrt(value) * u, np.cbrt(value) * v
    return a, b, c


def truncated_factors(K: Array, paths: NDArray[np.bool_], rank: int, tol: float, sweeps: int = 300) -> Factors:
    """At most `rank` terms that fit `K` where `paths` is true.

    Starts from the largest terms of `exact_factors` (filled up with small random ones, always the same) and improves
    each factor in turn by regularised least squares.
    """
    a, b, c = exact_factors(np.where(paths, K, 0), tol)
    if len(a) <= rank:
        pad = rank - len(a)
        return tuple(np.concatenate([f, np.zeros((pad, f.shape[1]))]) for f in (a, b, c))  # type: ignore[return-value]
    rng = np.random.default_rng(0)
    factors = [f[:rank] + 1e-2 * rng.standard_normal((rank, f.shape[1])) for f in (a, b, c)]
    weight = paths.astype(float)
    for sweep in range(sweeps):
        ridge = max(1e-13, 1e-3 * 0.8**sweep)
        for axis in range(3):
            first, second = (factors[k] for k in range(3) if k != axis)
            design = np.einsum("ri,rj->ijr", first, second).reshape(-1, rank)
            target = np.moveaxis(K, axis, 0).reshape(K.shape[axis], -1)
            mask = np.moveaxis(weight, axis, 0).reshape(K.shape[axis], -1)
            for entry in range(K.shape[axis]):
                rows = design[mask[entry] > 0]
                normal = rows.T @ rows + ridge * np.eye(rank) * max(1e-300, np.square(rows).sum() / max(rank, 1))
                factors[axis][:, entry] = np.linalg.lstsq(normal, rows.T @ target[entry][mask[entry] > 0], rcond=None)[
                    0
                ]
    return factors[0], factors[1], factors[2]


def expand(factors: Factors) -> Array:
    """The tensor that factors stand for."""
    return np.einsum("ri,rj,rk->ijk", *factors)
