"""The one-dimensional equation behind implicit steps: how much of a half-space's normal a step must take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from oco_anytime.domains.base import Domain, Vector

_TOL = 1e-13
_STEPS = 60
#: a pull over so many diameters ends on the face where the half-space is nearest
FAR = 1e6


def half_space_step(
    domain: Domain, y: Vector, c: Vector, a: Vector, b: float, eta: float, w: float
) -> tuple[Vector, float]:
    """The minimiser of <c, x> + w max(0, a.x - b) + ||x - y||^2/(2 eta) over the domain.

    Parameters
    ----------
    domain : Domain
    y, c, a : numpy.ndarray, shape (d,)
    b : float
    eta, w : float
        Positive.

    Returns
    -------
    x : numpy.ndarray, shape (d,)
    theta : float
        In [0, 1]: the subgradient of max(0, .) that the optimality condition picks; x = Proj(y - eta (c + theta w a)).

    Notes
    -----
    a.x(theta) is non-increasing and continuous, so a bracketed secant (Illinois) finds a.x(theta) = b to 1e-13 or
    in 60 steps.
    """
    start = y - eta * c
    x0 = domain._project(start)
    f0 = float(a @ x0) - b
    if f0 <= 0.0 or w <= 0.0:
        return x0, 0.0
    pull, part = (eta * w) * a, 1.0
    size = eta * w * float(np.linalg.norm(a))
    if size > FAR * domain.diameter:
        # a weight without limit (no feasible point): further away lies nothing new, and no projection is exact
        part = min(1.0, FAR * (domain.diameter + float(np.linalg.norm(start - x0))) / size)
        pull *= part
    x1 = domain._project(start - pull)
    f1 = float(a @ x1) - b
    if f1 >= 0.0:
        return x1, 1.0
    lo, hi, x, theta = 0.0, 1.0, x1, 1.0
    scale = max(1.0, abs(b))
    side = 0
    for _ in range(_STEPS):
        theta = (lo * f1 - hi * f0) / (f1 - f0)
        if not lo < theta < hi:
            theta = 0.5 * (lo + hi)
        x = domain._project(start - theta * pull)
        f = float(a @ x) - b
        if abs(f) <= _TOL * scale or hi - lo <= 4e-16:
            break
        if f > 0.0:
            lo, f0 = theta, f
            if side == 1:
                f1 *= 0.5
            side = 1
        else:
            hi, f1 = theta, f
            if side == -1:
                f0 *= 0.5
            side = -1
    return x, theta * part


def cut(domain: Domain, y: Vector, a: Vector, b: float) -> Vector:
    """The projection of `y` onto the domain and {a.x <= b}; where they do not meet, a point near the half-space."""
    x = domain._project(y)
    if float(a @ x) <= b:
        return x
    size = float(a @ a)
    # the distance to the half-space is a first guess of the multiplier
    w = (float(a @ y) - b) / size if float(a @ y) > b else 1.0 / np.sqrt(size)
    far = FAR * (domain.diameter + float(np.linalg.norm(y - x))) / np.sqrt(size)
    while True:
        found, theta = half_space_step(domain, y, np.zeros(y.size), a, b, 1.0, w)
        if theta < 1.0 or float(a @ found) <= b + _TOL or w >= far:
            return found
        w = min(4.0 * w, far)
