"""The problems of `hindsight` with all rows at once: linear programs, an exact step on the ball, cvxpy for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oco_anytime.domains.simple import Ball, L1Ball

if TYPE_CHECKING:
    from oco_anytime.domains.base import Domain, Vector


def solver(domain: Domain, c: Vector, cost: Any) -> Any:
    """From rows A and right-hand sides b to (x, objective, status), by what suits the domain and the cost."""
    if cost is not None:
        return lambda A, b: _cvxpy(domain, c, A, b, cost)
    if isinstance(domain, Ball):
        return lambda A, b: _on_ball(domain, c, A, b)
    if isinstance(domain, L1Ball):
        return lambda A, b: _on_l1(domain, c, A, b)
    rows = domain.polyhedron()
    if rows is not None:
        return lambda A, b: _linear_program(rows, c, A, b)
    return lambda A, b: _cvxpy(domain, c, A, b, None)


def _linear_program(rows: Any, c: Vector, A: Vector, b: Vector) -> tuple[Vector, float, str]:
    from scipy.optimize import linprog

    A_ub, b_ub, A_eq, b_eq, lower, upper = rows
    size = float(np.abs(c).max()) or 1.0
    found = linprog(
        c / size,
        A_ub=np.vstack([A_ub, A]) if A_ub.size or A.size else None,
        b_ub=np.concatenate([b_ub, b]) if A_ub.size or A.size else None,
        A_eq=A_eq if A_eq.size else None,
        b_eq=b_eq if A_eq.size else None,
        bounds=np.column_stack([lower, upper]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        return np.full(c.size, np.nan), np.inf, "infeasible"
    return found.x, float(c @ found.x), "optimal"


def _on_l1(domain: L1Ball, c: Vector, A: Vector, b: Vector) -> tuple[Vector, float, str]:
    # x = p - n with p, n >= 0 and sum p + n <= radius
    d = domain.dim
    one, none = np.ones((1, 2 * d)), np.empty((0, 2 * d))
    lifted = (one, np.array([domain.radius]), none, np.empty(0), np.zeros(2 * d), np.full(2 * d, domain.radius))
    x, objective, status = _linear_program(lifted, np.concatenate([c, -c]), np.hstack([A, -A]), b)
    return x[:d] - x[d:], objective, status


def _on_ball(domain: Ball, c: Vector, A: Vector, b: Vector) -> tuple[Vector, float, str]:
    """Linear cost on a ball and a polyhedron: y(mu) = argmin <c,y> + mu ||y||^2/2 runs along one ray while its active
    rows stay the same, and ||y(mu)|| falls in mu, so the right mu follows in a few solves.
    """
    center, radius = domain.center(), domain.radius
    size = float(np.linalg.norm(c))
    if A.shape[0] == 0:
        x = domain.support(c)
        return x, float(c @ x), "optimal"
    unit = c / size if size > 0.0 else c
    norms = np.linalg.norm(A, axis=1)
    flat = norms <= 0.0
    if (b[flat] < 0.0).any():
        return np.full(c.size, np.nan), np.inf, "infeasible"
    rows, rhs = A[~flat] / norms[~flat, None], (b[~flat] - A[~flat] @ center) / norms[~flat]
    y = _quadratic(np.zeros(c.size), rows, rhs)
    if y is None or np.linalg.norm(y[0]) > radius * (1.0 + 1e-12):
        return np.full(c.size, np.nan), np.inf, "infeasible"
    if size == 0.0:
        return center + y[0], 0.0, "optimal"
    return _along_ray(center, radius, c, unit, rows, rhs)


def _along_ray(
    center: Vector, radius: float, c: Vector, unit: Vector, rows: Vector, rhs: Vector
) -> tuple[Vector, float, str]:
    mu, lo, hi = 1.0 / radius, 0.0, np.inf
    status = "inaccurate"
    point = center
    for _ in range(300):
        found = _quadratic(-unit / mu, rows, rhs)
        if found is None:
            return np.full(c.size, np.nan), np.inf, "infeasible"
        point, active = found
        inside = float(np.linalg.norm(point)) <= radius
        lo, hi = (lo, mu) if inside else (mu, hi)
        base, ray = _ray(unit, rows[active], rhs[active])
        length, gap = float(np.linalg.norm(ray)), radius**2 - float(base @ base)
        if length <= 1e-13:
            # a vertex: the optimum if the cost alone holds it there, else the ray goes on from it at a smaller mu
            held = np.linalg.lstsq(rows[active].T, -unit, rcond=1e-12)[0] if active.size else np.empty(0)
            if inside and (held >= -1e-12).all():
                status = "optimal"
                break
            want = 0.0 if inside else np.inf
        else:
            want = length / np.sqrt(gap) if gap > 0.0 else np.inf
        if abs(want - mu) <= 1e-14 * mu or (np.isfinite(hi) and hi - lo <= 1e-15 * hi) or mu <= 1e-13 / radius:
            status = "optimal"
            break
        bisect = 0.5 * (lo + hi) if np.isfinite(hi) and lo > 0.0 else (0.25 * hi if np.isfinite(hi) else 4.0 * lo)
        mu = want if lo < want < hi else bisect
    x = center + point
    return x, float(c @ x), status


def _quadratic(y: Vector, rows: Vector, rhs: Vector) -> tuple[Vector, np.ndarray] | None:
    """The projection of y onto {rows x <= rhs} and its active rows, by DAQP's dual active-set method."""
    import daqp

    x, _, flag, info = daqp.solve(np.eye(y.size), -y, rows, rhs, primal_tol=1e-12, dual_tol=1e-12, iter_limit=10000)
    if flag <= 0:
        return None
    return x, np.flatnonzero(np.asarray(info["lam"]) > 0.0)


def _ray(c: Vector, rows: Vector, rhs: Vector) -> tuple[Vector, Vector]:
    """Minimum-norm point of {rows x = rhs}, and -c projected on the rows' null space."""
    if rows.shape[0] == 0:
        return np.zeros(c.size), -c
    base = np.linalg.lstsq(rows, rhs, rcond=1e-12)[0]
    ray = rows.T @ np.linalg.lstsq(rows.T, c, rcond=1e-12)[0] - c
    return np.asarray(base, dtype=float), np.asarray(ray, dtype=float)


def _cvxpy(domain: Domain, c: Vector, A: Vector, b: Vector, cost: Any) -> tuple[Vector, float, str]:
    import cvxpy as cp

    x = cp.Variable(domain.dim)
    limits = domain.cvxpy(x)
    if A.shape[0]:
        limits.append(A @ x <= b)
    value = c @ x if cost is None else c @ x + cost(x)
    problem: Any = cp.Problem(cp.Minimize(value), limits)
    problem.solve(solver=cp.CLARABEL)
    if x.value is None:
        return np.full(c.size, np.nan), np.inf, "infeasible"
    return np.array(x.value), float(problem.value), "optimal" if problem.status == cp.OPTIMAL else "inaccurate"
