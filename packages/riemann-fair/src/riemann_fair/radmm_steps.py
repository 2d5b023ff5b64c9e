"""The inner loop of the ADMM: Riemannian CG for ``tr(H^T L H) + (alpha/2) ||H - B||_F^2`` on orthonormal blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from riemann_fair.laplacian import Operator
from riemann_fair.retraction import gram, inverse_root, polar, qr_retraction, tangent

if TYPE_CHECKING:
    from riemann_fair.radmm import RADMMParams

REFRESH_EVERY = 20


def reachable(grad_tol: float, H: np.ndarray) -> float:
    """The gradient norm that the dtype can reach: float32 never gets to 1e-5 and would burn all iterations."""
    return max(grad_tol, 50 * float(np.finfo(H.dtype).eps) * float(np.sqrt(H.shape[1])))


def _direction(G: np.ndarray, before: tuple[np.ndarray, np.ndarray] | None, H: np.ndarray, rule: str) -> np.ndarray:
    """The next CG direction; `before` holds the previous gradient and direction, transported by tangent projection."""
    if before is None:
        return -G
    old = float(np.vdot(before[0], before[0])) + 1e-16
    top = float(np.vdot(G, G - tangent(H, before[0]))) if rule == "PR+" else float(np.vdot(G, G))
    D = -G + G.dtype.type(max(0.0, top / old)) * tangent(H, before[1])
    return np.asarray(-G if np.vdot(G, D) > 0 else D)


def curve_steps(
    op: Operator,
    H: np.ndarray,
    LH: np.ndarray | None,
    B: np.ndarray,
    alpha: float,
    steps: int,
    params: RADMMParams,
    memory: list[float],
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Riemannian CG with one product a step: along the polar retraction everything else is k x k.

    ``H(t) = (H + t D) M(t)`` with ``M = (H^T H + t (H^T D + D^T H) + t^2 D^T D)^(-1/2)``, and L H(t) follows from
    L H and L D. The true Gram matrix of H is used: with I in its place rounding grows from step to step until H
    collapses. L H is carried from one outer iteration to the next and recomputed every 20 steps.

    `memory` holds the last step length and the steps since L H was computed.
    """
    a = H.dtype.type(alpha)
    used, before, size = 0, None, np.inf
    for _ in range(steps):
        if LH is None or memory[1] >= REFRESH_EVERY:
            H = polar(H)
            LH = op.laplacian(H)
            used += 1
            memory[1] = 0
        memory[1] += 1
        G = tangent(H, 2 * LH + a * (H - B))
        size = float(np.linalg.norm(G))
        if size < reachable(params.grad_tol, H):
            break
        D = _direction(G, before, H, params.beta)
        LD = op.laplacian(D)
        used += 1
        t, M = _search_curve(H, D, LH, LD, B, alpha, memory)
        if t == 0:
            break
        M, t = M.astype(H.dtype), H.dtype.type(t)
        H, LH = (H + t * D) @ M, (LH + t * LD) @ M
        before = (G, D)
    return H, op.laplacian(H) if LH is None else LH, used, size


def _search_curve(
    H: np.ndarray,
    D: np.ndarray,
    LH: np.ndarray,
    LD: np.ndarray,
    B: np.ndarray,
    alpha: float,
    memory: list[float],
) -> tuple[float, np.ndarray]:
    """A step near the minimum of phi along the curve, and M at it; the k x k cost makes a fine search free."""
    a, b, c = (np.asarray(m, dtype=np.float64) for m in (H.T @ LH, H.T @ LD, D.T @ LD))
    hb, db = (np.asarray(m, dtype=np.float64) for m in (H.T @ B, D.T @ B))
    hh, hd, dd = gram(H), np.asarray(H.T @ D, dtype=np.float64), gram(D)

    def at(t: float) -> tuple[float, np.ndarray]:
        M = inverse_root(hh + t * (hd + hd.T) + t * t * dd)
        quadratic = np.sum((M @ M) * (a + t * (b + b.T) + t * t * c))
        return float(quadratic - alpha * np.sum(M * (hb + t * db).T)), M

    start = at(0.0)
    t = memory[0]
    tried = [(0.0, *start), (t, *at(t))]
    for _ in range(12):
        if tried[-1][1] >= start[0]:
            t *= 0.4
        elif len(tried) == 2 or tried[-1][1] < min(v for _, v, _ in tried[:-1]):
            if tried[-1][0] < max(x for x, _, _ in tried):
                break
            t *= 2.0
        else:
            break
        tried.append((t, *at(t)))
    best = min(tried, key=lambda x: x[1])
    for _ in range(2):
        guess = _parabola(sorted(tried, key=lambda x: x[1])[:3])
        if guess is None or guess <= 0:
            break
        tried.append((guess, *at(guess)))
        best = min(tried, key=lambda x: x[1])
    if best[0] > 0:
        memory[0] = best[0]
    return best[0], best[2]


def _parabola(points: list[tuple[float, float, np.ndarray]]) -> float | None:
    """Where the parabola through three points has its minimum; None where it opens downwards."""
    (x0, y0, _), (x1, y1, _), (x2, y2, _) = sorted(points, key=lambda p: p[0])
    if x0 == x1 or x1 == x2:
        return None
    slope0, slope1 = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    curvature = (slope1 - slope0) / (x2 - x0)
    if curvature <= 0:
        return None
    return (x0 + x1) / 2 - slope0 / (2 * curvature)


def armijo_steps(
    op: Operator,
    H: np.ndarray,
    LH: np.ndarray | None,
    B: np.ndarray,
    alpha: float,
    steps: int,
    params: RADMMParams,
    memory: list[float],  # noqa: ARG001 - the searches share a signature
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Riemannian CG as published: Armijo c = 1e-4, halving from step 1, 25 times at most, smallest step 1e-5."""
    a = H.dtype.type(alpha)
    retract = qr_retraction if params.retraction == "qr" else polar

    def cost(X: np.ndarray, LX: np.ndarray) -> float:
        gap = X - B
        return float(np.sum(X * LX, dtype=np.float64) + alpha / 2 * np.sum(gap * gap, dtype=np.float64))

    LH = op.laplacian(H)
    used, before, size = 1, None, np.inf
    for _ in range(steps):
        G = tangent(H, 2 * LH + a * (H - B))
        size = float(np.linalg.norm(G))
        if size < reachable(params.grad_tol, H):
            break
        D = _direction(G, before, H, params.beta)
        slope, here = float(np.vdot(G, D)), cost(H, LH)
        t, accepted = 1.0, False
        for _ in range(26):
            X = retract(H + H.dtype.type(t) * D)
            LX = op.laplacian(X)
            used += 1
            if cost(X, LX) <= here + 1e-4 * t * slope:
                accepted = True
                break
            t *= 0.5
            if t < 1e-5:
                break
        if not accepted:
            break
        H, LH, before = X, LX, (G, D)
    return H, LH, used, size
