"""Weak duality for relaxed fairness: a number below the objective of every feasible H.

For every mu >= 0, ``k - (sum of the k largest eigenvalues of A - mu Q Q^T) - mu delta^2`` bounds the objective of
``min tr(H^T L H), ||Q^T H||_F <= delta`` from below. The multiplier that the ADMM's stationary point implies is near
the best mu; a few more evaluations around it do the rest. Ritz values fall short of eigenvalues, so each evaluation
subtracts its residuals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla

from riemann_fair.laplacian import Operator

EVALUATIONS = 8


def multiplier_at(op: Operator, H: np.ndarray, LH: np.ndarray) -> float:
    """The mu that best solves ``Q^T (L H - H H^T L H) = - mu Q^T H (I - ...)``, the normal part of stationarity."""
    if op.space.rank == 0:
        return 0.0
    # Stationarity of tr(H^T (L + mu Q Q^T) H): (I - H H^T)(L H + mu Q Q^T H) = 0; least squares in mu.
    N = op.space.normal_part(H)
    N = N - H @ (H.T @ N)
    G = LH - H @ (H.T @ LH)
    size = float(np.vdot(N, N))
    return max(0.0, -float(np.vdot(N, G)) / size) if size > 1e-20 else 0.0


def dual_bound(op: Operator, k: int, delta: float, mu: float, H: np.ndarray) -> float:
    """The best of a few evaluations of the dual function, the first at `mu`.

    Parameters
    ----------
    op : Operator
    k : int
    delta : float
        The allowed violation.
    mu : float
        A guess of the multiplier.
    H : ndarray of shape (n, k)
        Start of the eigensolver.

    Returns
    -------
    float
    """
    low, high = 0.0, np.inf
    best, X = -np.inf, H
    for _ in range(EVALUATIONS):
        value, violation, X = _dual(op, k, delta, mu, X)
        best = max(best, value)
        # The dual function is concave with slope violation^2 - delta^2.
        slope = violation**2 - delta**2
        if abs(slope) < 1e-6:
            break
        if slope > 0:
            low = mu
        else:
            high = mu
        if high - low < 1e-6 * max(1.0, mu):
            break
        step = 1.02 * mu + 1e-3 if slope > 0 else 0.98 * mu - 1e-3
        mu = step if low < step < high else (low + high) / 2
        if not np.isfinite(mu):
            mu = 2 * low + 1e-2
    return float(best)


def _dual(op: Operator, k: int, delta: float, mu: float, X: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Dual value at mu, the violation of its eigenvectors, and the eigenvectors."""

    def matvec(x: np.ndarray) -> np.ndarray:
        x = np.ravel(x)
        return op.apply(x) - mu * op.space.normal_part(x)

    if op.n <= 600:
        Q = op.space.basis()
        M = np.eye(op.n) - op.dense_laplacian() - mu * (Q @ Q.T)
        theta, V = scipy.linalg.eigh(M, subset_by_index=(op.n - k, op.n - 1))
        slack = 1e-12 * op.n
    else:
        penalised = spla.LinearOperator((op.n, op.n), matvec=matvec, dtype=np.float64)
        v0: Any = X @ np.ones(X.shape[1])
        theta, V = spla.eigsh(penalised, k=k, which="LA", tol=1e-6, v0=v0, ncv=min(op.n, max(4 * k, 30)))
        residuals = np.column_stack([matvec(V[:, j]) for j in range(k)]) - V * theta
        slack = float(np.linalg.norm(residuals, axis=0).sum())
    return float(k - theta.sum() - slack - mu * delta**2), op.space.violation(V), V
