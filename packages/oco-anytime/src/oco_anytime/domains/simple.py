"""Sets whose projection is a formula or one multiplier: ball, box, simplices, l1 ball, budget set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

from oco_anytime.domains.base import Compiled, Domain, box_rows, ends, positive, vector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

# as in oco_anytime.projections, which loads numba and so is imported on first use
_BALL, _BOX, _SIMPLEX, _L1, _EQ_BOX, _LE_BOX = range(6)
_NONE = np.empty((0, 0))


class _Simple(Domain):
    """A domain that the compiled loop knows."""

    _spec: Compiled
    _compiled_project: Any = None

    def compiled(self) -> Compiled:
        """The set as the compiled loop knows it."""
        return self._spec

    def _project(self, y: Vector) -> Vector:
        project = self._compiled_project
        if project is None:
            from oco_anytime import projections

            project = self._compiled_project = projections.projected
        out: Vector = project(*self._spec, y)
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Without compiled code."""
        return {key: value for key, value in self.__dict__.items() if key != "_compiled_project"}

    def _project_rows(self, Y: Vector) -> Vector:
        from oco_anytime import projections

        out = Y.copy()
        projections.project_rows(*self._spec, out)
        return out


class Ball(_Simple):
    """The Euclidean ball.

    Parameters
    ----------
    d : int
    radius : float
    center : array_like, shape (d,), optional
        The origin unless given.
    """

    def __init__(self, d: int, radius: float = 1.0, center: ArrayLike | None = None) -> None:
        self.dim = positive_int(d, "d")
        self.radius = positive(radius, "radius")
        self.diameter = 2.0 * self.radius
        self._center = np.zeros(d) if center is None else vector(center, "center", self.dim).copy()
        self._spec = Compiled(_BALL, self._center, _NONE, _NONE, self.radius)

    def _violation(self, x: Vector) -> float:
        return max(0.0, float(np.linalg.norm(x - self._center)) - self.radius) / max(1.0, self.radius)

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return self._center.copy()

    def _support(self, c: Vector) -> Vector:
        size = np.linalg.norm(c)
        return self._center - (self.radius / size) * c if size > 0 else self._center.copy()

    def cvxpy(self, x: Any) -> list[Any]:
        """The set as constraints on a cvxpy variable."""
        import cvxpy

        cp: Any = cvxpy

        return [cp.norm(x - self._center) <= self.radius]


class Box(_Simple):
    """The box {lower <= x <= upper}.

    Parameters
    ----------
    d : int
    lower, upper : float or array_like, shape (d,)
        Finite, lower <= upper.
    """

    def __init__(self, d: int, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0) -> None:
        self.dim = positive_int(d, "d")
        self.lower, self.upper = _bounds(self.dim, lower, upper)
        self.diameter = max(float(np.linalg.norm(self.upper - self.lower)), np.finfo(float).tiny)
        self._spec = Compiled(_BOX, self.lower, self.upper, _NONE, 0.0)
        self._scale = max(1.0, float(np.abs(self.lower).max()), float(np.abs(self.upper).max()))

    def _violation(self, x: Vector) -> float:
        return max(0.0, float((self.lower - x).max()), float((x - self.upper).max())) / self._scale

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return 0.5 * (self.lower + self.upper)

    def _support(self, c: Vector) -> Vector:
        return np.where(c > 0, self.lower, self.upper)

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper)."""
        return *box_rows(self.dim), *box_rows(self.dim), self.lower, self.upper


class Simplex(_Simple):
    """The simplex {x >= 0, sum x = total}.

    Parameters
    ----------
    d : int
    total : float
        Positive.
    """

    def __init__(self, d: int, total: float = 1.0) -> None:
        self.dim = positive_int(d, "d")
        self.total = positive(total, "total")
        self.diameter = float(np.sqrt(2.0)) * self.total
        self._spec = Compiled(_SIMPLEX, _NONE, _NONE, _NONE, self.total)

    def _violation(self, x: Vector) -> float:
        off = abs(float(x.sum()) - self.total) / np.sqrt(self.dim)
        return float(max(0.0, float((-x).max()), off) / max(1.0, self.total))

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return np.full(self.dim, self.total / self.dim)

    def _support(self, c: Vector) -> Vector:
        x = np.zeros(self.dim)
        x[np.argmin(c)] = self.total
        return x

    def _tangent(self, G: Vector) -> Vector:
        centred: Vector = G - G.mean(axis=-1, keepdims=True)
        return centred

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper)."""
        one = np.ones((1, self.dim))
        return (
            *box_rows(self.dim), one, np.array([self.total]), np.zeros(self.dim), np.full(self.dim, self.total)
        )  # fmt: skip


class L1Ball(_Simple):
    """The l1 ball {sum |x| <= radius}.

    Parameters
    ----------
    d : int
    radius : float
        Positive.
    """

    def __init__(self, d: int, radius: float = 1.0) -> None:
        self.dim = positive_int(d, "d")
        self.radius = positive(radius, "radius")
        self.diameter = 2.0 * self.radius
        self._spec = Compiled(_L1, _NONE, _NONE, np.empty(0), self.radius)

    def _violation(self, x: Vector) -> float:
        over = (float(np.abs(x).sum()) - self.radius) / np.sqrt(self.dim)
        return float(max(0.0, over) / max(1.0, self.radius))

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return np.zeros(self.dim)

    def _support(self, c: Vector) -> Vector:
        x = np.zeros(self.dim)
        i = int(np.argmax(np.abs(c)))
        x[i] = -self.radius if c[i] >= 0 else self.radius
        return x

    def cvxpy(self, x: Any) -> list[Any]:
        """The set as constraints on a cvxpy variable."""
        import cvxpy

        cp: Any = cvxpy

        return [cp.norm1(x) <= self.radius]


class _OneRow(_Simple):
    """{0 <= x <= cap, w . x = total} or, with `le`, {.. w . x <= total}."""

    _le: bool

    def _set_up(self, weights: Vector, total: float, cap: Vector) -> None:
        self.dim = weights.size
        self._w, self._total, self._cap = weights, total, cap
        self._norm = float(np.linalg.norm(weights))
        code = _LE_BOX if self._le else _EQ_BOX
        self._spec = Compiled(code, np.zeros(self.dim), cap, weights, total)
        # no coordinate moves by more than its cap, or than the row allows alone
        reach = np.minimum(cap, total / weights)
        self.diameter = max(float(np.linalg.norm(reach)), np.finfo(float).tiny)
        self._scale = max(1.0, total / self._norm, float(cap.max()))

    def _violation(self, x: Vector) -> float:
        off = (float(self._w @ x) - self._total) / self._norm
        off = max(0.0, off) if self._le else abs(off)
        return max(0.0, float((-x).max()), float((x - self._cap).max()), off) / self._scale

    def _support(self, c: Vector) -> Vector:
        x, left = np.zeros(self.dim), self._total
        for i in np.argsort(c / self._w, kind="stable"):
            if self._le and c[i] >= 0:
                break
            x[i] = min(self._cap[i], left / self._w[i])
            left -= x[i] * self._w[i]
            if left <= 0:
                break
        return x

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper)."""
        row, rhs, none = self._w[None], np.array([self._total]), box_rows(self.dim)
        rows = (row, rhs, *none) if self._le else (*none, row, rhs)
        return *rows, np.zeros(self.dim), self._cap


class CappedSimplex(_OneRow):
    """The capped simplex {0 <= x <= cap, sum x = total}.

    Parameters
    ----------
    d : int
    total : float
        Positive, at most the sum of the caps.
    cap : float or array_like, shape (d,)
        Positive.
    """

    _le = False

    def __init__(self, d: int, total: float = 1.0, cap: ArrayLike = 1.0) -> None:
        d = positive_int(d, "d")
        total = positive(total, "total")
        _, caps = _bounds(d, 0.0, cap, "cap")
        if caps.sum() < total * (1.0 - 1e-12):
            raise InvalidInput.argument("total", expected=f"at most the sum of the caps, {caps.sum():g}", got=total)
        self._set_up(np.ones(d), min(total, float(caps.sum())), caps)
        # two points differ by at most 2 total in l1, and by cap in each coordinate
        self.diameter = min(self.diameter, float(np.sqrt(2.0 * total * min(total, float(caps.max())))))

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return self._project(np.full(self.dim, self._total / self.dim))

    def _tangent(self, G: Vector) -> Vector:
        centred: Vector = G - G.mean(axis=-1, keepdims=True)
        return centred


class BudgetSet(_OneRow):
    """The budget set {0 <= x <= cap, weights . x <= budget}.

    Parameters
    ----------
    weights : array_like, shape (d,)
        Positive prices.
    budget : float
        Positive.
    cap : float or array_like, shape (d,)
        Positive.
    """

    _le = True

    def __init__(self, weights: ArrayLike, budget: float, cap: ArrayLike = 1.0) -> None:
        w = vector(weights, "weights").copy()
        if w.size == 0 or (w <= 0).any():
            raise InvalidInput.argument("weights", expected="positive numbers", got=str(w))
        budget = positive(budget, "budget")
        _, caps = _bounds(w.size, 0.0, cap, "cap")
        self._set_up(w, budget, caps)

    def center(self) -> Vector:
        """A point of the domain where a learner may start."""
        return self._project(0.5 * np.minimum(self._cap, self._total / (self._w * self.dim)))


def _bounds(d: int, lower: ArrayLike, upper: ArrayLike, name: str = "upper") -> tuple[Vector, Vector]:
    lo, up = ends("lower", lower, d), ends(name, upper, d)
    if not (np.isfinite(lo).all() and np.isfinite(up).all()):
        raise InvalidInput.argument(name, expected="finite bounds (the domain must be bounded)", got="NaN or infinity")
    if (lo > up).any():
        i = int(np.argmax(lo > up))
        raise InvalidInput.argument(name, expected="lower <= upper everywhere", got=f"{lo[i]:g} > {up[i]:g} at {i}")
    return lo, up
