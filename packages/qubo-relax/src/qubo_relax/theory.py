"""When a point of the box is a local minimizer: theorems T1 to T4, and a checker for each.

The statements are ours, of the kind that arXiv 2606.28734 proves; ``f`` is a `Qubo`, ``g = c + S x`` its multilinear
field, ``D_i(v) = (1 - 2 v_i) g_i(v)`` the change of energy when bit ``i`` of a vertex ``v`` is flipped.

**T1, concave slices.** If ``eps > 0`` (or every kept diagonal is below ``eps``), ``f`` is strictly concave in each
coordinate, so no fractional point is a local minimizer, and a vertex ``v`` is one if and only if ``D_i(v) > -eps`` for
all ``i``. (The inward slope at ``v`` is ``D_i + eps``; a slope of exactly 0 descends, the second derivative being
``-2 eps``.) With ``eps`` below the smallest non-zero ``|D_i|`` the local minimizers are the vertices that no single
flip improves.

**T2, multilinear (eps = 0).** Let F be the fractional coordinates of ``x``, T those at a bound with inward slope 0
and N those at a bound with positive inward slope. ``x`` is a local minimizer if and only if no inward slope is
negative, ``g_F = 0``, ``S_FF = 0``, ``S_FT = 0``, and ``s_i s_j S_ij >= 0`` for all ``i, j`` in T, where ``s`` is +1
at 0 and -1 at 1: a form with zero diagonal is copositive if and only if its entries are non-negative. So with ``eps =
0`` a fractional point can be a local minimizer: ``-x1 - x2 + x1 x2`` is constant along ``(1, t)``.

**T3, convex slices (a kept positive diagonal).** Strict complementarity and a positive definite Hessian on F suffice; a
violated first- or second-order condition refutes; everything between is undecided.

**T4, rounding.** With ``eps >= 0`` setting each fractional coordinate in turn to its better end never raises ``f``;
single flips that improve then end in a local minimizer after finitely many steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax.qubo import Qubo, minimum_threshold, scale_of
from qubo_relax.terms import FactoredQubo

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class PointCertificate:
    """What `certify_point` found.

    Attributes
    ----------
    status : {"local_min", "not_local_min", "undecided"}
    binary : bool
        Whether every coordinate is exactly 0 or 1.
    worst_gain : float
        At a binary point the smallest flip gain ``min_i D_i`` (negative: a flip improves); elsewhere the smallest
        of the inward slopes and ``-|gradient|`` of the fractional coordinates.
    direction : ndarray of shape (n,) or None
        A direction into the box along which ``f`` falls (possibly only to second order), when there is one.
    reason : str
    """

    status: str
    binary: bool
    worst_gain: float
    direction: NDArray[np.float64] | None
    reason: str


def certify_point(qubo: Qubo | FactoredQubo, x: ArrayLike) -> PointCertificate:
    """Decide whether `x` is a local minimizer of the quadratic on the box.

    Parameters
    ----------
    qubo : Qubo or FactoredQubo
    x : array_like of shape (n,)
        A point of ``[0, 1]^n``.

    Returns
    -------
    PointCertificate
        Exact by T1 or T2 unless a convex diagonal was kept, where T3 may leave it undecided.
    """
    p = _in_box(qubo, x)
    binary = bool(np.isin(p, (0.0, 1.0)).all())
    if isinstance(qubo, FactoredQubo):
        return _concave(qubo, p, binary)
    bend = np.full(qubo.n, -qubo.concavity) if qubo.diagonal is None else qubo.diagonal - qubo.concavity
    if (bend < 0).all():
        return _concave(qubo, p, binary)
    if not bend.any():
        return _multilinear(qubo, p, binary)
    return _general(qubo, p, binary, bend)


def _in_box(qubo: Qubo | FactoredQubo, x: ArrayLike) -> NDArray[np.float64]:
    if not isinstance(qubo, Qubo | FactoredQubo):
        raise InvalidInput.argument("qubo", expected="a Qubo", got=type(qubo).__name__)
    p: NDArray[np.float64] = check.array(x, "x", shape=(qubo.n,))
    if (p < 0).any() or (p > 1).any():
        raise InvalidInput.argument("x", expected=f"a point of [0, 1]^{qubo.n}", got=x)
    return p


def _unit(n: int, i: int, sign: float) -> NDArray[np.float64]:
    e = np.zeros(n)
    e[i] = sign
    return e


def _first_order(
    qubo: Qubo | FactoredQubo, p: NDArray[np.float64], tol: float
) -> tuple[float, NDArray[np.float64] | None]:
    """The worst of the inward slopes and minus the gradient's size, with a first-order descent direction if any."""
    g = qubo.gradient(p)
    inside = (p > 0) & (p < 1)
    slope = np.where(inside, -np.abs(g), np.where(p == 1.0, -g, g))
    i = int(np.argmin(slope))
    if slope[i] >= -tol:
        return float(slope[i]), None
    sign = -np.sign(g[i]) if inside[i] else (1.0 if p[i] == 0.0 else -1.0)
    return float(slope[i]), _unit(qubo.n, i, sign)


def _concave(qubo: Qubo | FactoredQubo, p: NDArray[np.float64], binary: bool) -> PointCertificate:
    if qubo.n == 0:
        return PointCertificate("local_min", True, np.inf, None, "there are no variables")
    if not binary:
        worst, direction = _first_order(qubo, p, 0.0)
        if direction is None:
            direction = _unit(qubo.n, int(np.argmax((p > 0) & (p < 1))), 1.0)
        return PointCertificate("not_local_min", False, worst, direction, "a fractional coordinate of a concave slice")
    gains = qubo.flip_gains(p)
    bend = qubo.concavity if qubo.diagonal is None else qubo.concavity - qubo.diagonal
    slope = gains + bend
    i = int(np.argmin(slope))
    if slope[i] > 0:
        return PointCertificate("local_min", True, float(gains.min()), None, "every inward slope is positive")
    direction = _unit(qubo.n, i, 1.0 - 2.0 * p[i])
    return PointCertificate("not_local_min", True, float(gains.min()), direction, f"flipping variable {i} descends")


def _multilinear(qubo: Qubo, p: NDArray[np.float64], binary: bool) -> PointCertificate:
    if qubo.n == 0:
        return PointCertificate("local_min", True, np.inf, None, "there are no variables")
    tol = 1e-12 * scale_of(qubo)
    worst, direction = _first_order(qubo, p, tol)
    if direction is not None:
        return PointCertificate("not_local_min", binary, worst, direction, "a first-order descent direction")
    inside = (p > 0) & (p < 1)
    tied = ~inside & (qubo.slopes(p) <= tol)
    s = np.where(p == 1.0, -1.0, 1.0)
    flat = np.flatnonzero(inside | tied)
    sub = qubo.quadratic[flat][:, flat].tocoo()
    i, j, v = flat[sub.coords[0]], flat[sub.coords[1]], sub.data
    # A fractional coordinate may move either way, so any coupling to it descends; two tied bounds need s_i s_j S_ij <
    # 0.
    descends = np.where(inside[i] | inside[j], np.abs(v) > tol, s[i] * s[j] * v < -tol)
    if not descends.any():
        return PointCertificate("local_min", binary, worst, None, "no first- or second-order descent direction (T2)")
    k = int(np.argmax(descends))
    a, b = (int(j[k]), int(i[k])) if inside[i[k]] and not inside[j[k]] else (int(i[k]), int(j[k]))
    direction = np.zeros(qubo.n)
    direction[a] = 1.0 if inside[a] else s[a]
    direction[b] = -np.sign(v[k]) * direction[a] if inside[b] else s[b]
    reason = f"moving variables {a} and {b} together descends to second order"
    return PointCertificate("not_local_min", binary, worst, direction, reason)


def _general(qubo: Qubo, p: NDArray[np.float64], binary: bool, bend: NDArray[np.float64]) -> PointCertificate:
    tol = 1e-10 * scale_of(qubo)
    worst, direction = _first_order(qubo, p, tol)
    if direction is not None:
        return PointCertificate("not_local_min", binary, worst, direction, "a first-order descent direction")
    inside = (p > 0) & (p < 1)
    tied = ~inside & (qubo.slopes(p) <= tol)
    free = np.flatnonzero(inside)
    concave = np.flatnonzero(tied & (bend < 0))
    if concave.size:
        i = int(concave[0])
        direction = _unit(qubo.n, i, 1.0 if p[i] == 0 else -1.0)
        return PointCertificate("not_local_min", binary, worst, direction, f"variable {i} descends to second order")
    hessian = qubo.quadratic[free][:, free].toarray() + np.diag(2 * bend[free])
    low, vectors = np.linalg.eigh(hessian) if free.size else (np.array([np.inf]), np.zeros((0, 1)))
    if low[0] < -tol:
        direction = np.zeros(qubo.n)
        direction[free] = vectors[:, 0]
        return PointCertificate("not_local_min", binary, worst, direction, "the Hessian has a negative direction")
    if low[0] > tol and not tied.any():
        return PointCertificate("local_min", binary, worst, None, "strict complementarity, Hessian positive definite")
    return PointCertificate("undecided", binary, worst, None, "a degenerate first- or second-order condition (T3)")


def round_point(qubo: Qubo, x: ArrayLike) -> NDArray[np.int8]:
    """T4: go through the fractional coordinates once, setting each to its better end; never raises the energy.

    Parameters
    ----------
    qubo : Qubo
        Without a convex kept diagonal.
    x : array_like of shape (n,)

    Returns
    -------
    ndarray of int8 of shape (n,)
    """
    p = _in_box(qubo, x).copy()
    if qubo.diagonal is not None and (qubo.diagonal > qubo.concavity).any():
        raise InvalidInput.argument("qubo", expected="a folded quadratic", got="a kept convex diagonal")
    g = qubo.field(p)
    if qubo.diagonal is not None:
        g = g + qubo.diagonal
    S = qubo.quadratic
    for i in np.flatnonzero((p > 0) & (p < 1)):
        new = 1.0 if g[i] < 0 else 0.0
        span = slice(S.indptr[i], S.indptr[i + 1])
        g[S.indices[span]] += (new - p[i]) * S.data[span]
        p[i] = new
    return p.astype(np.int8)


def is_vertex_minimum(qubo: Qubo, X: ArrayLike) -> NDArray[np.bool_]:
    """T1 for a batch of binary points (B, n): whether every flip gain exceeds ``-eps`` (``>= 0`` when ``eps = 0``)."""
    return np.asarray((qubo.flip_gains(np.atleast_2d(X)) > minimum_threshold(qubo)).all(axis=1))
