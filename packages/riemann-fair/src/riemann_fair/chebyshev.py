"""Chebyshev-filtered subspace iteration on the fair subspace, for very sparse graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from riemann_fair.laplacian import Operator
from riemann_fair.retraction import orthonormal_complement, orthonormalise
from riemann_fair.spectral import Ritz

GUARD = 4
DEGREES = (4, 32)
# A filter that lifts the first vector this much above the last wanted one leaves nothing of the last in float32.
AMPLIFICATION = 1e5


def chebyshev(
    op: Operator,
    m: int,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    x0: np.ndarray | None = None,
    dtype: Any = np.float64,
) -> Ritz:
    """The m largest Ritz pairs of A on the fair subspace; the trivial vector is deflated where it is known.

    Parameters
    ----------
    op : Operator
    m : int
        Wanted pairs, trivial one excluded.
    tol : float
        Largest residual ``||P A x - theta x||``.
    max_iter : int or None
        Filtered steps at most; None: 200.
    rng : numpy.random.Generator
    x0 : ndarray of shape (n, k), optional
        Start.
    dtype : dtype
        float32 or float64 for the blocks; Gram matrices are float64.

    Returns
    -------
    Ritz
    """
    dimension = op.n - op.space.rank - (op.trivial is not None)
    width = min(m + GUARD, dimension)
    X = rng.standard_normal((op.n, width))
    if x0 is not None:
        use = min(width, x0.shape[1])
        X[:, :use] = x0[:, :use]
    X = _orthonormal(op.project(op.project(X)).astype(dtype), op, rng)
    products, status = 0, "max_iter"
    history: list[dict[str, Any]] = []
    degree = DEGREES[0]
    for _ in range(max_iter or 200):
        AX = op.project(op.apply(X))
        products += 1
        theta, V = np.linalg.eigh(np.asarray(X.T @ AX, dtype=np.float64))
        theta, V = theta[::-1], V[:, ::-1].astype(dtype)
        X, AX = X @ V, AX @ V
        worst = float(np.linalg.norm((AX - X * theta.astype(dtype))[:, :m], axis=0).max())
        history.append({"products": products, "residual": worst, "objective": float(m - theta[:m].sum())})
        if worst <= tol or width == dimension:
            status = "converged"
            break
        edge = float(np.clip(theta[-1], -0.5, 0.999))
        degree = _degree(float(theta[0]), float(theta[m - 1]), edge)
        X = _orthonormal(op.project(_filtered(op, X, edge, float(theta[0]), degree)), op, rng)
        products += degree
    return Ritz(X[:, :m].astype(np.float64), None, status, products, products, history)


def _degree(first: float, last: float, edge: float) -> int:
    """The largest degree in DEGREES whose lift of the first over the last wanted value stays below AMPLIFICATION."""
    width = (edge + 1) / 2

    def growth(x: float) -> float:
        return float(np.arccosh(max((x - (edge - 1) / 2) / width, 1.0)))

    spread = growth(first) - growth(last)
    if spread <= 0:
        return DEGREES[1]
    return int(np.clip(np.log(AMPLIFICATION) / spread, *DEGREES))


def _filtered(op: Operator, X: np.ndarray, edge: float, top: float, degree: int) -> np.ndarray:
    """``T_p`` of A mapped so that [-1, edge] goes to [-1, 1], scaled to stay near 1 at `top`; P after each step."""
    centre, half = (edge - 1) / 2, (edge + 1) / 2
    sigma = half / max(top - centre, half)
    first = sigma
    Y = op.project((op.apply(X) - centre * X) * (sigma / half)).astype(X.dtype, copy=False)
    for _ in range(2, degree + 1):
        after = 1 / (2 / first - sigma)
        Z = op.project((op.apply(Y) - centre * Y) * (2 * after / half) - (sigma * after) * X).astype(
            X.dtype, copy=False
        )
        X, Y, sigma = Y, Z, after
    return Y


def _orthonormal(X: np.ndarray, op: Operator, rng: np.random.Generator) -> np.ndarray:
    try:
        return orthonormalise(X)[0]
    except np.linalg.LinAlgError:
        fill = op.project(rng.standard_normal(X.shape))
        return orthonormal_complement(X, None, fill).astype(X.dtype)
