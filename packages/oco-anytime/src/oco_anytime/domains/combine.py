"""Domains made of domains: products, intersections, and one known by its projection only."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

from oco_anytime.domains.base import Domain, ProjectionFailed, positive, vector
from oco_anytime.domains.polytope import Polytope
from oco_anytime.domains.simple import Ball

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oco_anytime.domains.base import Vector

_TOL = 1e-13
_ROUNDS = 20000


def _check_members(members: Sequence[Any]) -> None:
    if not members or not all(isinstance(m, Domain) for m in members):
        got = ", ".join(type(m).__name__ for m in members) or "nothing"
        raise InvalidInput.argument("domains", expected="one or more domains", got=got)


class Product(Domain):
    """The Cartesian product: vectors are the members' vectors one after the other.

    Parameters
    ----------
    *domains : Domain
    """

    def __init__(self, *domains: Domain) -> None:
        _check_members(domains)
        self.domains = domains
        self.dim = sum(m.dim for m in domains)
        self.diameter = float(np.sqrt(sum(m.diameter**2 for m in domains)))
        ends = np.cumsum([0, *(m.dim for m in domains)])
        self._parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    def _project(self, y: Vector) -> Vector:
        return np.concatenate([m._project(np.ascontiguousarray(y[p])) for m, p in zip(self.domains, self._parts)])

    def _violation(self, x: Vector) -> float:
        return max(m._violation(x[p]) for m, p in zip(self.domains, self._parts))

    def center(self) -> Vector:
        """The members' centres."""
        return np.concatenate([m.center() for m in self.domains])

    def _support(self, c: Vector) -> Vector:
        return np.concatenate([m._support(np.ascontiguousarray(c[p])) for m, p in zip(self.domains, self._parts)])

    def _tangent(self, G: Vector) -> Vector:
        parts = [m._tangent(np.ascontiguousarray(G[..., p])) for m, p in zip(self.domains, self._parts)]
        return np.concatenate(parts, axis=-1)

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector] | None:
        """The members' rows on a diagonal, if all are polyhedra."""
        from scipy.linalg import block_diag

        rows = [m.polyhedron() for m in self.domains]
        known = [r for r in rows if r is not None]
        if len(known) < len(rows):
            return None
        A_ub, A_eq = (block_diag(*(r[k] for r in known)).reshape(-1, self.dim) for k in (0, 2))
        b_ub, b_eq, lower, upper = (np.concatenate([r[k] for r in known]) for k in (1, 3, 4, 5))
        return A_ub, b_ub, A_eq, b_eq, lower, upper

    def cvxpy(self, x: Any) -> list[Any]:
        """The members' constraints on their parts."""
        return [limit for m, p in zip(self.domains, self._parts) for limit in m.cvxpy(x[p])]


class Intersection(Domain):
    """The points common to all members, which must have one.

    Parameters
    ----------
    *domains : Domain
        Of one dimension.

    Raises
    ------
    InvalidInput
        If dimensions differ or no common point is found.

    Notes
    -----
    Polyhedra become one `Polytope`; one ball with polyhedra is solved by a search for the ball's multiplier; anything
    else by Dykstra's method, whose answer is returned only once all members agree on it.
    """

    def __init__(self, *domains: Domain) -> None:
        _check_members(domains)
        self.domains = domains
        self.dim = domains[0].dim
        if any(m.dim != self.dim for m in domains):
            got = ", ".join(str(m.dim) for m in domains)
            raise InvalidInput.argument("domains", expected="domains of one dimension", got=got)
        flat = [m for m in domains if m.polyhedron() is not None]
        round_ = [m for m in domains if m.polyhedron() is None]
        self.diameter = min(m.diameter for m in domains)
        self._polytope: Polytope | None = None
        self._ball = round_[0] if len(round_) == 1 and isinstance(round_[0], Ball) else None
        if flat and (not round_ or self._ball is not None):
            self._polytope = _joined(flat)
            self.diameter = min(self.diameter, self._polytope.diameter)
        try:
            self._inner = self._project(domains[0].center())
        except ProjectionFailed:
            raise InvalidInput.argument("domains", expected="sets with a common point", got="none found") from None

    def _project(self, y: Vector) -> Vector:
        if self._polytope is not None and self._ball is None:
            return self._polytope._project(y)
        if self._polytope is not None and self._ball is not None:
            return self._with_ball(y, self._polytope, self._ball)
        return self._dykstra(y)

    def _with_ball(self, y: Vector, flat: Polytope, ball: Ball) -> Vector:
        """X = Proj_flat((y + mu c)/(1 + mu)); its distance from the ball's centre c falls in mu: find radius."""
        c, radius = ball.center(), ball.radius

        def at(th: float) -> tuple[Vector, float]:
            x = flat._project(c + th * (y - c))
            return x, float(np.linalg.norm(x - c)) - radius

        tol = _TOL * max(1.0, radius)
        x, over = at(1.0)
        if over <= tol:
            return x
        low, high = 0.0, 1.0
        x, under = at(low)
        if under > tol:
            raise ProjectionFailed("the ball and the polyhedron have no common point")
        inside = x
        for k in range(200):
            th = low - under * (high - low) / (over - under) if k % 3 else 0.5 * (low + high)
            if not low < th < high:
                th = 0.5 * (low + high)
                if not low < th < high:
                    break
            x, gap = at(th)
            if abs(gap) <= tol:
                return x
            if gap > 0.0:
                high, over = th, gap
            else:
                low, under, inside = th, gap, x
        return inside

    def _dykstra(self, y: Vector) -> Vector:
        x = y.copy()
        steps = [np.zeros(self.dim) for _ in self.domains]
        scale = max(1.0, float(np.abs(y).max()))
        for _ in range(_ROUNDS):
            moved = 0.0
            for i, m in enumerate(self.domains):
                point = x + steps[i]
                new = m._project(point)
                steps[i] = point - new
                moved = max(moved, float(np.abs(new - x).max()))
                x = new
            # every increment is normal to its member at the common point, so agreement is the proof
            if moved <= 1e-12 * scale and self._violation(x) <= 1e-10:
                return x
        raise ProjectionFailed(f"the members still disagree by {moved:.1e} after {_ROUNDS} rounds of Dykstra's method")

    def _violation(self, x: Vector) -> float:
        return max(m._violation(x) for m in self.domains)

    def center(self) -> Vector:
        """A common point."""
        return self._inner.copy()

    def _support(self, c: Vector) -> Vector:
        from oco_anytime.hindsight import best_fixed

        if self._polytope is not None and self._ball is not None:
            A, b, E, e, lower, upper = self._polytope.polyhedron()
            eye = np.eye(self.dim)
            below, above = np.isfinite(upper), np.isfinite(lower)
            rows = np.vstack([A, E, -E, eye[below], -eye[above]])
            rhs = np.concatenate([b, e, -e, upper[below], -lower[above]])
            return best_fixed(self._ball, c, rows, rhs).x
        return best_fixed(self, c).x

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector] | None:
        """The joined rows, if all members are polyhedra."""
        return self._polytope.polyhedron() if self._polytope is not None and self._ball is None else None

    def cvxpy(self, x: Any) -> list[Any]:
        """All members' constraints."""
        return [limit for m in self.domains for limit in m.cvxpy(x)]


def _joined(members: list[Domain]) -> Polytope:
    rows = [r for m in members if (r := m.polyhedron()) is not None]
    A_ub, A_eq = (np.vstack([r[k] for r in rows]) for k in (0, 2))
    b_ub, b_eq = (np.concatenate([r[k] for r in rows]) for k in (1, 3))
    lower, upper = np.max([r[4] for r in rows], axis=0), np.min([r[5] for r in rows], axis=0)
    try:
        return Polytope(A_ub, b_ub, A_eq, b_eq, lower, upper)
    except InvalidInput:
        raise InvalidInput.argument("domains", expected="sets with a common point", got="none found") from None


class Custom(Domain):
    """A set known by its projection.

    Parameters
    ----------
    project : callable
        From shape (d,) to the nearest point, shape (d,); a pure function.
    diameter : float
        An upper bound.
    dim : int
    """

    def __init__(self, project: Callable[[Vector], Any], diameter: float, dim: int) -> None:
        if not callable(project):
            raise InvalidInput.argument("project", expected="a callable", got=project)
        self._function = project
        self.diameter = positive(diameter, "diameter")
        self.dim = positive_int(dim, "dim")

    def _project(self, y: Vector) -> Vector:
        return vector(self._function(y.copy()), "project(y)", self.dim).copy()

    def _violation(self, x: Vector) -> float:
        return float(np.abs(self._project(x) - x).max()) / max(1.0, float(np.abs(x).max()))

    def center(self) -> Vector:
        """The projection of the origin."""
        return self._project(np.zeros(self.dim))

    def _support(self, c: Vector) -> Vector:
        size = float(np.linalg.norm(c))
        if size == 0.0:
            return self.center()
        # far along -c, at a distance where a ball of this diameter is resolved to 1e-9
        return self._project(self.center() - (1e6 * self.diameter / size) * c)
