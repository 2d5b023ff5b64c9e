"""What every domain offers, and the checks at its door."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

_F8 = np.dtype(np.float64)


class ProjectionFailed(ArithmeticError):  # noqa: N818 - part of the public interface
    """No method reached the accuracy that `Domain.project` promises; nothing was returned and no state changed."""


class Compiled(NamedTuple):
    """How the compiled loop names a simple set: see `oco_anytime.projections.project`."""

    code: int
    p: Vector
    q: Vector
    w: Vector
    total: float


def checked_domain(domain: Any) -> Domain:
    """`domain`, or `InvalidInput` if it is none."""
    if not isinstance(domain, Domain):
        raise InvalidInput.argument("domain", expected="a domain of oco_anytime.domains", got=type(domain).__name__)
    return domain


def vector(x: ArrayLike, name: str, dim: int | None = None, *, finite: bool = True) -> Vector:
    """`x` as a contiguous float64 vector, or `InvalidInput` naming it."""
    if (
        type(x) is np.ndarray
        and x.dtype is _F8
        and x.ndim == 1
        and (dim is None or x.size == dim)
        and x.flags.carray
        and (not finite or isfinite(np.vdot(x, x)))
    ):
        return x
    return contiguous(array(x, name, ndim=1, shape=(dim,), finite=finite))


def within(x: Vector, name: str, largest: float) -> Vector:
    """`x`, or `InvalidInput` where a finite number in it is beyond `largest`, lest what is computed overflows."""
    high = max(float(x.max()), -float(x.min())) if x.size else 0.0
    if high > largest:
        raise InvalidInput.argument(name, expected=f"numbers up to {largest:g} in magnitude", got=f"{high:g}")
    return x


def contiguous(x: Vector) -> Vector:
    """`x`, or a copy of it where compiled code could not read it as it lies."""
    return np.require(x, requirements=["C", "W", "A"])


def ends(name: str, bound: ArrayLike, d: int) -> Vector:
    """A number or d numbers as a new vector of d; infinities may be among them, NaN may not."""
    v = array(bound, name, ndim=(0, 1), finite=False)
    if np.isnan(v).any():
        raise InvalidInput.argument(name, expected="numbers", got="NaN")
    if v.ndim == 1 and v.size != d:
        raise InvalidInput.argument(name, expected=f"a number or a vector of {d}", got=f"shape {v.shape}")
    return np.array(np.broadcast_to(v, (d,)))


def positive(x: float, name: str) -> float:
    """`x` as a float that is finite and above 0."""
    return in_range(x, name, 0.0, low_open=True)


class Domain(ABC):
    """A convex compact set. Immutable: `project` is a pure function of its argument, bit for bit.

    Attributes
    ----------
    dim : int
        Dimension d of the surrounding space.
    diameter : float
        An upper bound of the distance between two of its points.
    """

    dim: int
    diameter: float

    def project(self, y: ArrayLike) -> Vector:
        """The nearest point of the domain.

        Parameters
        ----------
        y : array_like, shape (d,)
            Never changed.

        Returns
        -------
        numpy.ndarray, shape (d,), float64
            A new array for which ``contains(x, 1e-9)`` is true.

        Raises
        ------
        InvalidInput
            If `y` has another shape or holds NaN or infinity.
        ProjectionFailed
            If no method reaches the promised accuracy.
        """
        # the shortest way for an array that needs no conversion; a square that overflows (in silence) takes the
        # general door
        if (
            type(y) is np.ndarray
            and y.dtype is _F8
            and y.shape == (self.dim,)
            and y.flags.carray
            and isfinite(np.vdot(y, y))
        ):
            return self._project(y)
        return self._project(vector(y, "y", self.dim))

    def project_batch(self, Y: ArrayLike) -> Vector:
        """`project` for every row.

        Parameters
        ----------
        Y : array_like, shape (n, d)

        Returns
        -------
        numpy.ndarray, shape (n, d), float64

        Raises
        ------
        InvalidInput
            As `project`.
        """
        return self._project_rows(contiguous(array(Y, "Y", ndim=2, shape=(None, self.dim))))

    @abstractmethod
    def _project(self, y: Vector) -> Vector: ...

    def _project_rows(self, Y: Vector) -> Vector:
        return np.array([self._project(y) for y in Y]).reshape(Y.shape)

    def contains(self, x: ArrayLike, tol: float = 1e-9) -> bool:
        """Whether `x` satisfies every inequality and equation of the set up to `tol`.

        Relative: with rows scaled to norm 1, each may be broken by ``tol * max(1, largest |right-hand side|)``.

        Parameters
        ----------
        x : array_like, shape (d,)
        tol : float
            Not negative.

        Returns
        -------
        bool
            False too if `x` holds NaN or infinity.

        Raises
        ------
        InvalidInput
            If the shape differs, or `tol` is negative.
        """
        tol = in_range(tol, "tol", 0.0)
        point = vector(x, "x", self.dim, finite=False)
        return bool(np.isfinite(point).all()) and bool(self._violation(point) <= tol)

    @abstractmethod
    def _violation(self, x: Vector) -> float:
        """The largest relative violation, at least 0."""

    @abstractmethod
    def center(self) -> Vector:
        """A point of the domain where a learner may start, shape (d,)."""

    def support(self, c: ArrayLike) -> Vector:
        """A minimiser of ``<c, x>`` over the domain.

        Parameters
        ----------
        c : array_like, shape (d,)

        Returns
        -------
        numpy.ndarray, shape (d,)

        Raises
        ------
        InvalidInput
            If `c` has another shape or holds NaN or infinity.
        """
        return self._support(vector(c, "c", self.dim))

    @abstractmethod
    def _support(self, c: Vector) -> Vector: ...

    def tangent(self, g: ArrayLike) -> Vector:
        """`g` projected on the directions in which the domain extends [N].

        Inner products with differences of points stay the same, norms become smaller.

        Parameters
        ----------
        g : array_like, shape (d,)

        Returns
        -------
        numpy.ndarray, shape (d,)
        """
        projected: Vector = self._tangent(vector(g, "g", self.dim)[None])[0]
        return projected

    def _tangent(self, G: Vector) -> Vector:
        """`tangent` for the last axis of an array of any shape; a new array."""
        return G.copy()

    def compiled(self) -> Compiled | None:
        """The set as the compiled loop knows it, or None."""
        return None

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector] | None:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper) for linear programs, or None if it is none."""
        return None

    def cvxpy(self, x: Any) -> list[Any]:
        """The set as constraints on a cvxpy variable of shape (d,).

        Raises
        ------
        InvalidInput
            If the domain is known by its projection only.
        """
        rows = self.polyhedron()
        if rows is None:
            raise InvalidInput.argument("domain", expected="a set described by constraints", got=type(self).__name__)
        A_ub, b_ub, A_eq, b_eq, lower, upper = rows
        limits = [x >= lower, x <= upper]
        if A_ub.size:
            limits.append(A_ub @ x <= b_ub)
        if A_eq.size:
            limits.append(A_eq @ x == b_eq)
        return limits


def box_rows(d: int) -> tuple[Vector, Vector]:
    """No rows: the empty matrix and right-hand side of dimension d."""
    return np.empty((0, d)), np.empty(0)
