"""Weak duality for relaxed fairness: a number below the objective of every feasible H, and what it is good for.

For every mu >= 0, ``k - (sum of the k largest eigenvalues of A - mu Q Q^T) - mu delta^2`` bounds the objective of
``min tr(H^T L H), ||Q^T H||_F <= delta`` from below. The multiplier that the ADMM's stationary point implies is near
the best mu; a few evaluations around it find it. Ritz values fall short of eigenvalues, so each evaluation subtracts
its residuals.

At the best mu eigenvalues cross or nearly cross, so that penalties reach no or hardly any violations in between. The
eigenvectors just left and right of the crossing, with the ADMM's block, span a space of at most 3k dimensions in which
the relaxed problem is solved exactly: rotate from the left block to the right one until the violation is delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse.linalg as spla

from riemann_fair.laplacian import Operator

EVALUATIONS = 14
DENSE_UP_TO = 600


@dataclass
class DualBound:
    """The best dual value found, and the eigenvector blocks on both sides of the best mu."""

    value: float
    multiplier: float
    blocks: list[np.ndarray]


def multiplier_at(op: Operator, H: np.ndarray, LH: np.ndarray) -> float:
    """The mu that best solves the stationarity ``(I - H H^T)(L H + mu Q Q^T H) = 0``, by least squares."""
    N = op.space.normal_part(H)
    N = N - H @ (H.T @ N)
    G = LH - H @ (H.T @ LH)
    size = float(np.vdot(N, N))
    return max(0.0, -float(np.vdot(N, G)) / size) if size > 1e-20 else 0.0


def dual_bound(op: Operator, k: int, delta: float, mu: float, H: np.ndarray) -> DualBound:
    """Climb the concave dual function, whose slope at mu is ``||Q^T X(mu)||_F^2 - delta^2``.

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
    DualBound
    """
    # No violation exceeds sqrt(k), and a larger tolerance allows no more than that one.
    delta = min(delta, k**0.5 + 1.0)
    low, high = 0.0, np.inf
    sides: dict[bool, np.ndarray] = {}
    best, at, X, stretch = -np.inf, mu, H, 0.02
    for _ in range(EVALUATIONS):
        try:
            value, violation, X = _dual(op, k, delta, mu, X)
        except spla.ArpackNoConvergence:
            # What was found before stands; nothing has an objective below 0.
            break
        if value > best:
            best, at = value, mu
        slope = violation**2 - delta**2
        sides[slope > 0] = X
        if abs(slope) < 1e-9 or (mu == 0 and slope <= 0):
            break
        if slope > 0:
            low = mu
        else:
            high = mu
        if high - low < 1e-4 * max(1.0, mu):
            break
        step = (1 + stretch) * mu + 1e-3 if slope > 0 else (1 - stretch) * mu - 1e-3
        stretch = min(3 * stretch, 0.9)
        mu = max(step, 0.0) if low <= step < high and len(sides) != 2 else (low + high) / 2
    return DualBound(max(float(best), 0.0), float(at), list(sides.values()))


def _dual(op: Operator, k: int, delta: float, mu: float, X: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Dual value at mu, the violation of its eigenvectors, and the eigenvectors."""

    def matvec(x: np.ndarray) -> np.ndarray:
        x = np.ravel(x)
        return op.apply(x) - mu * op.space.normal_part(x)

    if op.n <= DENSE_UP_TO:
        Q = op.space.basis()
        M = np.eye(op.n) - op.dense_laplacian() - mu * (Q @ Q.T)
        theta, V = scipy.linalg.eigh(M, subset_by_index=(op.n - k, op.n - 1))
        slack = 1e-12 * op.n
    else:
        penalised = spla.LinearOperator((op.n, op.n), matvec=matvec, dtype=np.float64)
        v0: Any = X @ np.ones(X.shape[1])
        theta, V = spla.eigsh(penalised, k=k, which="LA", tol=1e-7, v0=v0, ncv=min(op.n, max(4 * k, 30)))
        residuals = np.column_stack([matvec(V[:, j]) for j in range(k)]) - V * theta
        slack = float(np.linalg.norm(residuals, axis=0).sum())
    return float(k - theta.sum() - slack - mu * delta**2), op.space.violation(V), V


def relaxed_in_span(op: Operator, blocks: list[np.ndarray], k: int, delta: float) -> np.ndarray:
    """The optimum of the relaxed problem among the blocks in the span of `blocks`.

    Bisection on the multiplier of the small problem, then the geodesic between the two eigenblocks at the crossing;
    in a crossing of two eigenvalues that geodesic stays in their eigenspace, so the objective does not rise.

    Parameters
    ----------
    op : Operator
    blocks : list of ndarray of shape (n, k)
    k : int
    delta : float

    Returns
    -------
    ndarray of shape (n, k)
        Orthonormal, ``||Q^T H||_F <= delta`` where the span allows it.
    """
    U, s, _ = np.linalg.svd(np.column_stack(blocks), full_matrices=False)
    S = U[:, s > 1e-8 * s[0]]
    a = S.T @ op.laplacian(S)
    N = S.T @ op.space.normal_part(S)
    a, N = (a + a.T) / 2, (N + N.T) / 2

    def block(mu: float) -> np.ndarray:
        return np.asarray(scipy.linalg.eigh(a + mu * N)[1][:, :k])

    def excess(Z: np.ndarray) -> float:
        return float(np.sqrt(max(np.sum(Z * (N @ Z)), 0.0))) - delta * (1 - 1e-9)

    left = block(0.0)
    if excess(left) <= 0:
        return np.asarray(S @ left)
    low, high = 0.0, 1.0
    while excess(block(high)) > 0:
        low, high = high, 2 * high
        if high > 1e9:
            return np.asarray(S @ block(high))
    for _ in range(60):
        middle = (low + high) / 2
        if excess(block(middle)) > 0:
            low = middle
        else:
            high = middle
    left, right = block(low), block(high)
    P, c, Qt = np.linalg.svd(left.T @ right)
    left, right = left @ P, right @ Qt.T
    angle = np.arccos(np.clip(c, -1, 1))
    turning = angle > 1e-9
    side = np.zeros_like(left)
    side[:, turning] = (right - left * c)[:, turning] / np.sin(angle[turning])

    def between(t: float) -> np.ndarray:
        return np.asarray(left * np.cos(t * angle) + side * np.sin(t * angle))

    t = scipy.optimize.brentq(lambda x: excess(between(x)), 0.0, 1.0) if excess(between(1.0)) < 0 else 1.0
    return np.asarray(S @ between(t))
