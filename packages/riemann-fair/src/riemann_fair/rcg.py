"""Riemannian conjugate gradients inside the fair subspace: locally optimal, block, on the Grassmannian.

The equality constraint is absorbed: null(C^T) is a linear space, its Stiefel manifold is the feasible set, and the
gradient is projected with P. Each step minimises over the span of the block, its residual and the last direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from lemmata_core import check

from riemann_fair.laplacian import Operator
from riemann_fair.spectral import Ritz

DROP_BELOW = 1e-6


@dataclass(frozen=True)
class RCGParams:
    """Constants of `rcg`.

    Attributes
    ----------
    guard : int or None
        Columns beyond the wanted ones; None: half of the wanted, at least 1.
    """

    guard: int | None = None

    def __post_init__(self) -> None:
        if self.guard is not None:
            check.positive_int(self.guard, "guard", minimum=0)


def rcg(
    op: Operator,
    m: int,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    params: RCGParams | None = None,
    x0: np.ndarray | None = None,
) -> Ritz:
    """The m largest Ritz pairs of A on the fair subspace.

    Parameters
    ----------
    op : Operator
    m : int
        Wanted pairs, trivial one excluded.
    tol : float
        Largest residual ``||P A x - theta x||``.
    max_iter : int or None
        Steps at most; None: 1000.
    rng : numpy.random.Generator
    params : RCGParams, optional
    x0 : ndarray of shape (n, k), optional
        Start.

    Returns
    -------
    Ritz
    """
    dimension = op.n - op.space.rank - (op.trivial is not None)
    guard = (params or RCGParams()).guard
    width = min(m + (max(1, m // 2) if guard is None else guard), dimension)
    X = op.project(rng.standard_normal((op.n, width)))
    if x0 is not None:
        use = min(width, x0.shape[1])
        X[:, :use] = op.project(x0[:, :use]) + 1e-8 * X[:, :use]
    X = _basis([X])
    AX = op.project(op.apply(X))
    theta, V = np.linalg.eigh(X.T @ AX)
    X, AX, theta = X @ V[:, ::-1], AX @ V[:, ::-1], theta[::-1]
    D: np.ndarray | None = None
    products, status = 1, "max_iter"
    history: list[dict[str, Any]] = []
    for step in range(1, (max_iter or 1000) + 1):
        R = AX - X * theta
        worst = float(np.linalg.norm(R[:, :m], axis=0).max())
        history.append({"products": products, "residual": worst, "objective": float(m - theta[:m].sum())})
        if worst <= tol or X.shape[1] == dimension:
            status = "converged"
            break
        R = op.project(R - X @ (X.T @ R))
        # Only directions outside X are new, so one block product a step is enough: A X is carried along.
        S = _basis([X, R] if D is None else [X, R, D], keep=X.shape[1])
        if S.shape[1] == X.shape[1]:
            break
        fresh = S[:, X.shape[1] :]
        AF = op.project(op.apply(fresh))
        products += 1
        AS = np.column_stack([AX, AF])
        T = S.T @ AS
        values, V = np.linalg.eigh((T + T.T) / 2)
        V = V[:, ::-1][:, :width]
        outside = V.copy()
        outside[: X.shape[1]] = 0
        D = S @ outside
        X, AX, theta = S @ V, AS @ V, values[::-1][:width]
        if step % 20 == 0:
            X = _basis([op.project(X)])
            AX = op.project(op.apply(X))
            products += 1
            theta, V = np.linalg.eigh(X.T @ AX)
            X, AX, theta = X @ V[:, ::-1], AX @ V[:, ::-1], theta[::-1]
    return Ritz(X[:, :m], AX[:, :m], status, products, products, history)


def _basis(blocks: list[np.ndarray], keep: int = 0) -> np.ndarray:
    """Orthonormal basis of the blocks' span; the first `keep` columns are orthonormal already and stay as they are.

    Two rounds of Cholesky-QR through an eigendecomposition with columns scaled to unit length; directions below 1e-6
    relative are dropped.
    """
    fixed = blocks[0][:, :keep]
    free = np.column_stack(blocks)[:, keep:]
    for _ in range(2):
        if keep:
            free = free - fixed @ (fixed.T @ free)
        norms = np.linalg.norm(free, axis=0)
        free = free[:, norms > 1e-300] / norms[norms > 1e-300]
        w, V = np.linalg.eigh(free.T @ free)
        good = w > DROP_BELOW**2 * w.max(initial=0.0)
        free = free @ (V[:, good] / np.sqrt(w[good]))
    if keep:
        free = free - fixed @ (fixed.T @ free)
    return np.column_stack([fixed, free])
