"""Block Krylov subspace on the fair subspace, for graphs of high degree.

A block of four float64 columns costs little more than one column there, because the indices are what is read. The start
is improved by power steps that read every eighth neighbour only (together less than one full product).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from riemann_fair.laplacian import Operator
from riemann_fair.retraction import orthonormal_complement, orthonormalise
from riemann_fair.spectral import Ritz

SAMPLED_STEPS = 6
STRIDE = 8
# Sampling needs neighbours to sample from.
SAMPLE_ABOVE_DEGREE = 64


def block_krylov(
    op: Operator,
    m: int,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    x0: np.ndarray | None = None,
) -> Ritz:
    """The m largest Ritz pairs of A on the fair subspace, residuals at most `tol`.

    Parameters
    ----------
    op : Operator
    m : int
        Wanted pairs, trivial one excluded.
    tol : float
        Absolute residual ``||P A x - theta x||``.
    max_iter : int or None
        Block products at most; None: 10 n, at least 300.
    rng : numpy.random.Generator
    x0 : ndarray of shape (n, k), optional
        Start; then nothing is sampled.

    Returns
    -------
    Ritz
        `AX` comes from the products that were made, so residuals computed with it are true ones.
    """
    dimension = op.n - op.space.rank - (op.trivial is not None)
    width = min(-(-(m + 1) // 4) * 4, dimension)
    limit = max_iter if max_iter is not None else max(300, 10 * op.n)
    most = min(max(8 * width, 2 * 2**20 // op.n), dimension)
    V, sampled = _start(op, width, rng, x0)
    basis, images = V, np.zeros((op.n, 0))
    T = np.zeros((0, 0))
    history: list[dict[str, Any]] = []
    products, status = 0, "max_iter"
    while True:
        W = op.project(op.apply(V))
        products += 1
        images = np.column_stack([images, W])
        T = _bordered(T, basis.T @ W, V.shape[1])
        theta, S = np.linalg.eigh(T)
        theta, S = theta[::-1], S[:, ::-1]
        whole = basis.shape[1] >= dimension
        W = W - basis @ (basis.T @ W)
        W = op.project(W - basis @ (basis.T @ W))
        residuals = np.linalg.norm(W @ S[-V.shape[1] :, :m], axis=0)
        worst = float(residuals.max())
        history.append({"products": products, "residual": worst, "objective": float(m - theta[:m].sum())})
        if basis.shape[1] >= m and (worst <= tol or whole):
            status = "converged"
            break
        if products >= limit:
            break
        room = dimension - basis.shape[1]
        if basis.shape[1] + width > most and basis.shape[1] > 3 * width:
            basis, images, T = basis @ S[:, : 2 * width], images @ S[:, : 2 * width], np.diag(theta[: 2 * width])
            room = dimension - basis.shape[1]
        V = _next_block(op, W, basis, min(width, room), rng)
        if V.shape[1] == 0:
            status = "converged"
            break
        basis = np.column_stack([basis, V])
    X, AX = basis @ S[: basis.shape[1], :m], images @ S[:, :m]
    return Ritz(X, AX, status, products, products + sampled, history)


def _bordered(T: np.ndarray, column: np.ndarray, m: int) -> np.ndarray:
    """T grown by the block column of inner products with the newest block."""
    p = T.shape[0]
    out = np.zeros((p + m, p + m))
    out[:p, :p] = T
    out[:, p:] = column
    out[p:, :p] = column[:p].T
    return (out + out.T) / 2


def _next_block(op: Operator, W: np.ndarray, basis: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    try:
        V, _ = orthonormalise(W)
        if width == V.shape[1]:
            return V
    except np.linalg.LinAlgError:
        pass
    fill = op.project(rng.standard_normal((op.n, W.shape[1])))
    return orthonormal_complement(W, basis, fill)[:, :width]


def _start(op: Operator, width: int, rng: np.random.Generator, x0: np.ndarray | None) -> tuple[np.ndarray, float]:
    """An orthonormal feasible block, and the products that its sampled power steps cost."""
    V = rng.standard_normal((op.n, width))
    if x0 is not None:
        use = min(width, x0.shape[1])
        V[:, :use] = x0[:, :use] + 1e-6 * V[:, :use] * np.abs(x0).max()
    V = op.project(op.project(V))
    fill = op.project(rng.standard_normal((op.n, width)))
    V = _orthonormal(V, fill)
    sparse = sp.issparse(op.W) and op.W.nnz > SAMPLE_ABOVE_DEGREE * op.n and width % 4 == 0
    if x0 is not None or not sparse:
        return V, 0.0
    from riemann_fair.products import sampled_rows_times_block

    columns = op.narrow()
    s = op.scale[:, None]
    Y = np.empty_like(V)
    for turn in range(SAMPLED_STEPS):
        Z = s * V
        sampled_rows_times_block(op.W.indptr, columns, op.W.data, op.uniform, STRIDE, turn, Z, Y)
        if op.tau:
            Y += op.tau / op.n * Z.sum(axis=0)
        V = _orthonormal(op.project(s * Y), fill)
    return V, SAMPLED_STEPS / STRIDE


def _orthonormal(V: np.ndarray, fill: np.ndarray) -> np.ndarray:
    try:
        return orthonormalise(V)[0]
    except np.linalg.LinAlgError:
        return orthonormal_complement(V, None, fill)
