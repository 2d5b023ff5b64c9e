"""General polytopes: exact projections by a dual active-set method, with second lines where it gives up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array

from oco_anytime.domains.base import Domain, ProjectionFailed, ends, vector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

_FEASIBLE = 1e-10
_SOLVER_TOL = 1e-11
_LARGE = 500
_FAR = 10.0


class Polytope(Domain):
    """{A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}, bounded and not empty.

    Parameters
    ----------
    A_ub, A_eq : array_like or scipy sparse, shape (k, d), optional
    b_ub, b_eq : array_like, shape (k,), optional
    lower, upper : float or array_like, shape (d,), optional
        Infinite unless given.

    Raises
    ------
    InvalidInput
        If nothing tells the dimension, shapes do not fit, the set is empty or unbounded.

    Notes
    -----
    Rows are scaled to norm 1. Up to 500 variables DAQP solves (every call starts cold, so that the answer does not
    depend on history); beyond, OSQP and an active-set refinement. What is returned has been verified.
    """

    _kkt: Any = None

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: ArrayLike | None = None,
        A_eq: Any = None,
        b_eq: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> None:
        self.dim = _dimension(A_ub, A_eq, lower, upper)
        self._A, self._b = _rows("A_ub", "b_ub", A_ub, b_ub, self.dim, equal=False)
        self._E, self._e = _rows("A_eq", "b_eq", A_eq, b_eq, self.dim, equal=True)
        self._lo = ends("lower", -np.inf if lower is None else lower, self.dim)
        self._up = ends("upper", np.inf if upper is None else upper, self.dim)
        if (self._lo == np.inf).any() or (self._up == -np.inf).any():
            raise InvalidInput.argument("lower, upper", expected="bounds that leave points", got="infinity")
        if (self._lo > self._up).any():
            i = int(np.argmax(self._lo > self._up))
            got = f"{self._lo[i]:g} > {self._up[i]:g} at {i}"
            raise InvalidInput.argument("lower, upper", expected="lower <= upper everywhere", got=got)
        sides = np.concatenate([self._b, self._e, self._lo, self._up])
        self._scale = max(1.0, float(np.abs(sides[np.isfinite(sides)]).max(initial=0.0)))
        self._inner = self._feasible_point()
        self.diameter = self._diameter()
        self._stack()
        self._local = threading.local()
        self._basis: Vector | None = None

    def _stack(self) -> None:
        """The rows as DAQP wants them: bounds first, then inequalities, then equations (sense 5)."""
        d = self.dim
        big = 1e30
        keep = _independent(self._E)
        E, e = self._E[keep], self._e[keep]
        self._rows = np.ascontiguousarray(np.vstack([self._A, E]))
        none = np.full(self._b.size, -big)
        self._upper = np.concatenate([np.clip(self._up, -big, big), self._b, e])
        self._lower = np.concatenate([np.clip(self._lo, -big, big), none, e])
        self._sense = np.zeros(self._upper.size, dtype=np.int32)
        self._sense[d + self._b.size :] = 5

    def _linprog(self, c: Vector) -> Any:
        from scipy.optimize import linprog

        return linprog(
            c,
            A_ub=self._A if self._b.size else None,
            b_ub=self._b if self._b.size else None,
            A_eq=self._E if self._e.size else None,
            b_eq=self._e if self._e.size else None,
            bounds=np.column_stack([self._lo, self._up]),
            method="highs-ds",
        )

    def _feasible_point(self) -> Vector:
        found = self._linprog(np.zeros(self.dim))
        if found.x is None:
            raise InvalidInput.argument(
                "A_ub, b_ub, A_eq, b_eq, lower, upper", expected="a set with points", got="none"
            )
        return np.asarray(found.x, dtype=float)

    def _diameter(self) -> float:
        """Of the bounding box; linear programs give the sides that no bound gives."""
        low, high = self._lo.copy(), self._up.copy()
        for i in range(self.dim):
            for side, sign in ((low, 1.0), (high, -1.0)):
                if not np.isfinite(side[i]):
                    c = np.zeros(self.dim)
                    c[i] = sign
                    found = self._linprog(c)
                    if found.x is None or found.status == 3:
                        raise InvalidInput.argument(
                            "A_ub, A_eq, lower, upper", expected="a bounded set", got=f"coordinate {i} without limit"
                        )
                    side[i] = found.x[i]
        return max(float(np.linalg.norm(np.maximum(high - low, 0.0))), np.finfo(float).tiny)

    def __getstate__(self) -> dict[str, Any]:
        """Without the solver's workspaces, which belong to threads."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_local", "_kkt")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._local = threading.local()

    def _project(self, y: Vector) -> Vector:
        if self.dim > _LARGE:
            x = self._by_osqp(y)
            if x is not None:
                return x
        x = self._by_daqp(y, _SOLVER_TOL)
        if x is None:
            x = self._by_daqp(y, _SOLVER_TOL + 1e-15 * float(np.abs(y).max()))
        if x is None:
            x = self._pulled_in(y)
        if x is None and self.dim <= _LARGE:
            x = self._by_osqp(y)
        if x is None:
            raise ProjectionFailed("no method met the optimality conditions; is the point very far away?")
        return x

    def _solve(self, y: Vector, tol: float) -> tuple[Vector, Vector, int]:
        """DAQP's answer, multipliers (of the stacked rows) and exit flag."""
        import daqp

        model = getattr(self._local, "model", None)
        if model is None or self._local.tol != tol:
            model = daqp.Model()
            model.settings = {"primal_tol": tol, "dual_tol": _SOLVER_TOL, "iter_limit": 10 * self._upper.size + 1000}
            flag, _ = model.setup(np.eye(self.dim), -y, self._rows, self._upper, self._lower, self._sense)
            if flag < 0:
                return y, np.zeros(self._upper.size), int(flag)
            self._local.model, self._local.tol = model, tol
        # an explicit sense makes it a cold start: the same bits as a fresh model gives
        model.update(f=-y, sense=self._sense)
        x, _, flag, info = model.solve()
        return x, info["lam"], flag

    def _by_daqp(self, y: Vector, tol: float) -> Vector | None:
        x, multipliers, flag = self._solve(y, tol)
        if flag <= 0:
            self._local.model = None
            return None
        return x if self._is_projection(x, y, multipliers) else None

    def _is_projection(self, x: Vector, y: Vector, multipliers: Vector) -> bool:
        """Feasible, and y - x a combination of the rows' normals (whose signs the solver's answer already has)."""
        kkt = self._kkt
        if kkt is None:
            from oco_anytime.projections import kkt

            self._kkt = kkt
        broken, gap, top = kkt(self._rows, self._lower, self._upper, x, y, multipliers)
        if not broken <= _FEASIBLE * self._scale:
            return False
        # equations that others imply are not among the stacked rows
        if self._e.size and self._worst(x) > _FEASIBLE * self._scale:
            return False
        return bool(gap <= 1e-10 * max(self._scale, top))

    def _worst(self, x: Vector) -> float:
        worst = max(0.0, float((self._lo - x).max()), float((x - self._up).max()))
        if self._b.size:
            worst = max(worst, float((self._A @ x - self._b).max()))
        if self._e.size:
            worst = max(worst, float(np.abs(self._E @ x - self._e).max()))
        return worst

    def _violation(self, x: Vector) -> float:
        return self._worst(x) / self._scale

    def _normals(self, active: np.ndarray, upper: np.ndarray) -> tuple[Vector, Vector]:
        """Outward normals and right-hand sides of stacked rows, `upper` telling which side."""
        d = self.dim
        N = np.zeros((active.size, d))
        bounds = active < d
        N[np.flatnonzero(bounds), active[bounds]] = 1.0
        N[~bounds] = self._rows[active[~bounds] - d]
        return np.where(upper[:, None], N, -N), np.where(upper, self._upper[active], -self._lower[active])

    def _on_face(self, y: Vector, active: np.ndarray, upper: np.ndarray) -> tuple[Vector, Vector]:
        """The projection of y onto the face's affine hull, and the multipliers of its rows."""
        if self.dim > _LARGE:
            return self._on_large_face(y, active, upper)
        N, rhs = self._normals(active, upper)
        pinv = np.linalg.pinv(N, rcond=1e-12)
        lam = pinv.T @ (y - pinv @ rhs)
        x = y - pinv @ (N @ y - rhs)
        for _ in range(3):
            x = x - pinv @ (N @ x - rhs)
        return x, lam

    def _on_large_face(self, y: Vector, active: np.ndarray, upper: np.ndarray) -> tuple[Vector, Vector]:
        """As `_on_face`, with the coordinates at a bound taken out first: they are most of the active rows."""
        d = self.dim
        at, sign = active[active < d], np.where(upper, 1.0, -1.0)
        rows = self._rows[active[active >= d] - d] * sign[active >= d, None]
        _, rhs = self._normals(active[active >= d], upper[active >= d])
        free = np.ones(d, dtype=bool)
        free[at] = False
        x = y.copy()
        x[at] = np.where(upper[active < d], self._upper[at], self._lower[at])
        if rows.size:
            N, rhs = rows[:, free], rhs - rows[:, at] @ x[at]
            pinv = np.linalg.pinv(N, rcond=1e-12)
            for _ in range(4):
                x[free] -= pinv @ (N @ x[free] - rhs)
        else:
            pinv = np.empty((int(free.sum()), 0))
        lam = np.empty(active.size)
        lam[active >= d] = pinv.T @ (y - x)[free]
        lam[active < d] = sign[active < d] * (y - x - rows.T @ lam[active >= d])[at]
        return x, lam

    def _accept(self, x: Vector, lam: Vector, active: np.ndarray, y: Vector) -> bool:
        free = active < self.dim + self._b.size
        small = 1e-10 * max(1.0, float(np.abs(y - x).max()))
        return self._worst(x) <= _FEASIBLE * self._scale and bool((lam[free] >= -small).all())

    def _pulled_in(self, y: Vector) -> Vector | None:
        """Far points: project a nearer point of the same ray, and try whether its face holds for y itself."""
        x = self._inner
        for _ in range(60):
            far = float(np.linalg.norm(y - x))
            th = min(1.0, _FAR * max(1.0, float(np.linalg.norm(x))) / far) if far > 0.0 else 1.0
            near, lam, flag = self._solve(x + th * (y - x), _SOLVER_TOL)
            if flag <= 0:
                self._local.model = None
                return None
            active = np.flatnonzero((lam != 0.0) | (self._sense == 5))
            point, multipliers = self._on_face(y, active, (lam[active] > 0.0) | (self._sense[active] == 5))
            if self._accept(point, multipliers, active, y):
                return point
            if float(np.abs(near - x).max()) == 0.0 and th == 1.0:
                return None
            x = near
        return None

    def _by_osqp(self, y: Vector) -> Vector | None:
        """OSQP for a first guess of the active rows, then: drop the worst wrong sign, add the worst broken row."""
        import osqp
        from scipy import sparse

        # matrices, not arrays: osqp warns at anything that spmatrix does not cover
        A = sparse.csc_matrix(np.vstack([np.eye(self.dim), self._rows]))
        solver = osqp.OSQP()
        solver.setup(
            sparse.csc_matrix(np.eye(self.dim)), -y, A, self._lower, self._upper, eps_abs=1e-6, eps_rel=1e-6,
            polishing=True, verbose=False, max_iter=20000,
        )  # fmt: skip
        found = solver.solve(raise_error=False)
        lam = np.asarray(found.y, dtype=float)
        if not np.isfinite(lam).all():
            return None
        equal = self._sense == 5
        size = 1e-6 * max(1.0, float(np.abs(lam).max()))
        side = np.where(lam > size, 1, np.where(lam < -size, -1, 0))
        side[equal] = 1
        for _ in range(60):
            active = np.flatnonzero(side)
            x, multipliers = self._on_face(y, active, side[active] > 0)
            if self._accept(x, multipliers, active, y):
                return x
            wrong = np.where(equal[active], np.inf, multipliers)
            Nx = np.concatenate([x, self._rows @ x])
            over, under = Nx - self._upper, self._lower - Nx
            broken = np.where(side == 0, np.maximum(over, under), -np.inf)
            worst = int(np.argmax(broken))
            if wrong.size and wrong.min() < 0.0 and -wrong.min() >= broken[worst]:
                side[active[int(np.argmin(wrong))]] = 0
            elif broken[worst] > 0.0:
                side[worst] = 1 if over[worst] >= under[worst] else -1
            else:
                return None
        return None

    def center(self) -> Vector:
        """The projection of the bounding box's middle, or of the origin where a side is open."""
        middle = 0.5 * (self._lo + self._up)
        return self._project(np.where(np.isfinite(middle), middle, 0.0))

    def _support(self, c: Vector) -> Vector:
        size = float(np.abs(c).max()) or 1.0
        return np.asarray(self._linprog(c / size).x, dtype=float)

    def _tangent(self, G: Vector) -> Vector:
        if not self._e.size:
            return G.copy()
        if self._basis is None:
            _, s, vt = np.linalg.svd(self._E, full_matrices=False)
            self._basis = vt[s > 1e-12 * s[0]].T
        return G - (G @ self._basis) @ self._basis.T

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper), rows scaled to norm 1."""
        return self._A, self._b, self._E, self._e, self._lo, self._up


def _dimension(A_ub: Any, A_eq: Any, lower: Any, upper: Any) -> int:
    for name, A in (("A_ub", A_ub), ("A_eq", A_eq)):
        if A is not None:
            shape = A.shape if hasattr(A, "tocsr") else array(A, name, ndim=2).shape
            if shape[1]:
                return int(shape[1])
    for name, bound in (("lower", lower), ("upper", upper)):
        given = None if bound is None else array(bound, name, finite=False)
        if given is not None and given.ndim == 1 and given.size:
            return int(given.size)
    raise InvalidInput.argument("A_ub", expected="a matrix, or bounds that are vectors", got="nothing that tells d")


def _rows(name: str, rhs_name: str, A: Any, b: Any, d: int, *, equal: bool) -> tuple[Vector, Vector]:
    """Rows scaled to norm 1; zero rows are checked and dropped."""
    if A is None:
        if b is not None:
            raise InvalidInput.argument(name, expected=f"rows for {rhs_name}", got="None")
        return np.empty((0, d)), np.empty(0)
    M = array(A.toarray() if hasattr(A, "toarray") else A, name, ndim=2, shape=(None, d))
    rhs = np.zeros(M.shape[0]) if b is None else vector(array(b, rhs_name).ravel(), rhs_name, M.shape[0])
    norms = np.linalg.norm(M, axis=1)
    zero = norms == 0.0
    if (np.abs(rhs[zero]) > 0.0).any() if equal else (rhs[zero] < 0.0).any():
        raise InvalidInput.argument(rhs_name, expected="what a zero row can satisfy", got=str(rhs[zero]))
    return M[~zero] / norms[~zero, None], rhs[~zero] / norms[~zero]


def _independent(E: Vector) -> np.ndarray:
    """Rows that span all others: solvers stumble over equations that say the same twice."""
    from scipy.linalg import qr

    if not E.size:
        return np.arange(0)
    _, R, order = qr(E.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    return np.sort(order[: int((diagonal > 1e-10 * diagonal[0]).sum())])
