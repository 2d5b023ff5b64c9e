"""Orthonormal blocks: retractions of the Stiefel manifold and the k x k algebra around them."""

from __future__ import annotations

import numpy as np


def symmetric_part(M: np.ndarray) -> np.ndarray:
    """``sym(M) = (M + M^T) / 2``."""
    return np.asarray((M + M.T) / 2)


def inverse_root(G: np.ndarray) -> np.ndarray:
    """``G^(-1/2)`` of a symmetric positive definite matrix, in float64."""
    w, V = np.linalg.eigh(G.astype(np.float64))
    return np.asarray((V / np.sqrt(np.maximum(w, np.finfo(np.float64).tiny))) @ V.T)


def polar(X: np.ndarray) -> np.ndarray:
    """Polar retraction ``X (X^T X)^(-1/2)``: the nearest orthonormal block, in the span of the columns of X."""
    Y = X @ inverse_root(gram(X)).astype(X.dtype)
    return np.asarray(Y @ inverse_root(gram(Y)).astype(X.dtype))


def gram(X: np.ndarray) -> np.ndarray:
    """``X^T X`` in float64 even for float32 blocks."""
    wide = X.astype(np.float64, copy=False)
    return np.asarray(wide.T @ wide)


def qr_retraction(X: np.ndarray) -> np.ndarray:
    """QR retraction with a positive diagonal of R, so that it is a smooth map."""
    Q, R = np.linalg.qr(X)
    return np.asarray(Q * np.where(np.diag(R) < 0, -1, 1).astype(X.dtype))


def tangent(H: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Projection of E on the tangent space of the Stiefel manifold at H: ``E - H sym(H^T E)``."""
    return np.asarray(E - H @ symmetric_part(H.T @ E).astype(E.dtype))


def orthonormalise(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q with orthonormal columns and R with ``W = Q R``, by two rounds of Cholesky-QR.

    Raises
    ------
    numpy.linalg.LinAlgError
        When W is too near to losing rank.
    """
    R = np.eye(W.shape[1])
    for _ in range(2):
        upper = np.linalg.cholesky(gram(W)).T
        if upper.diagonal().min() < 1e-7 * upper.diagonal().max():
            raise np.linalg.LinAlgError("the block has nearly lost rank")
        W = W @ np.linalg.inv(upper).astype(W.dtype)
        R = upper @ R
    return W, R


def orthonormal_complement(
    W: np.ndarray, known: np.ndarray | None, fill: np.ndarray, threshold: float = 1e-10
) -> np.ndarray:
    """Orthonormal columns spanning W as far as it has rank, completed from `fill`, orthogonal to `known`.

    Parameters
    ----------
    W : ndarray of shape (n, m)
    known : ndarray of shape (n, p) or None
        Orthonormal.
    fill : ndarray of shape (n, m)
        Random columns in the subspace that W lies in.
    threshold : float
        A column is dropped when orthogonalisation leaves less than this share of it.
    """
    done = np.zeros((W.shape[0], 0)) if known is None else known
    p = done.shape[1]
    for j in range(W.shape[1]):
        for candidate in (W[:, j], fill[:, j]):
            v = candidate.astype(np.float64)
            size = np.linalg.norm(v)
            for _ in range(3):
                v = v - done @ (done.T @ v)
            left = np.linalg.norm(v)
            if size > 0 and left > threshold * size and left > 1e-13:
                v /= left
                v -= done @ (done.T @ v)
                done = np.column_stack([done, v / np.linalg.norm(v)])
                break
    return np.asarray(done[:, p:])
