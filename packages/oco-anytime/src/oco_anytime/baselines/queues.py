"""Primal-dual baselines of the literature, with the parameters their authors published."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lemmata_core.check import in_range, positive_int

from oco_anytime.baselines.plain import QueueLearner
from oco_anytime.implicit import cut, half_space_step

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Domain, Vector


class DriftPlusPenalty(QueueLearner):
    """Neely, Yu, "Online convex optimization with time-varying constraints" (arXiv 1702.04783).

    Published guarantee: O(sqrt T) regret and O(sqrt T) long-term violation (where violations and slack may cancel)
    for stochastic constraints, or for comparators feasible by windows, under a Slater point.

    x' = Proj(x - (V c + Q a)/(2 alpha)), Q = max(0, Q + g(x) + <a, x' - x>), with V = sqrt T and alpha = T.

    Parameters
    ----------
    domain : Domain
    horizon : int, optional
        T; None puts the round t in its place.
    x0 : array_like, shape (d,), optional
    """

    def __init__(self, domain: Domain, *, horizon: int | None = None, x0: ArrayLike | None = None) -> None:
        super().__init__(domain, x0=x0)
        self.horizon = None if horizon is None else positive_int(horizon, "horizon")

    def _settings(self) -> dict[str, Any]:
        return {"horizon": self.horizon}

    def _step(self, t: int, c: Vector, v: float, a: Vector) -> Vector:
        n = float(self.horizon or t)
        x = self.domain._project(self._x - (math.sqrt(n) * c + self._q * a) / (2.0 * n))
        self._q = max(0.0, self._q + v + float(a @ (x - self._x)))
        return x


class ClippedPrimalDual(QueueLearner):
    """Primal-dual steps on clipped constraints, after Yi, Li, Yang, Xie, Chai, Johansson (2021 to 2023).

    Published guarantee: regret O(T^max(c, 1-c)) and violation without cancelling O(T^(1-c/2)), which is T^(1/2) and
    T^(3/4) at c = 1/2 (T^(1-c) violation under a Slater point).

    x' = Proj(x - t^-c (c_t + q a [v > 0])); q = max(0, (1 - t^-c t^-(1-c)) q + t^-(1-c) v). [I: the update's powers]

    Parameters
    ----------
    domain : Domain
    c : float
        In (0, 1).
    x0 : array_like, shape (d,), optional
    """

    def __init__(self, domain: Domain, *, c: float = 0.5, x0: ArrayLike | None = None) -> None:
        super().__init__(domain, x0=x0)
        self.c = in_range(c, "c", 0.0, 1.0, low_open=True, high_open=True)

    def _settings(self) -> dict[str, Any]:
        return {"c": self.c}

    def _step(self, t: int, c: Vector, v: float, a: Vector) -> Vector:
        rate, dual = t**-self.c, t ** -(1.0 - self.c)
        x = self.domain._project(self._x - rate * (c + self._q * a if v > 0 else c))
        self._q = max(0.0, (1.0 - rate * dual) * self._q + dual * max(v, 0.0))
        return x


class RectifiedCOCO(QueueLearner):
    """The rectified method (RECOO), after Guo, Liu, Wei, Ying (NeurIPS 2022).

    Published guarantee: O(sqrt T) regret with O(1) violation for a fixed constraint, O(T^(3/4)) violation for
    adversarial ones.

    x' = argmin <c, x> + Q gamma max(0, g_t(x)) + alpha ||x - x_t||^2 with alpha = sqrt t, gamma = t^(1/4), and g_t
    taken affine at x_t; Q = max(Q + gamma max(0, g_t(x')), t^(1/4)). [I: the powers; they give that order, since
    Q gamma >= sqrt t makes sum v(x') = O(sqrt T), and moving back from x' to x costs at most sqrt(T O(sqrt T)).]

    Parameters
    ----------
    domain : Domain
    x0 : array_like, shape (d,), optional
    """

    _start_queue = 1.0

    def _step(self, t: int, c: Vector, v: float, a: Vector) -> Vector:
        gamma = t**0.25
        b = float(a @ self._x) - v
        x, _ = half_space_step(self.domain, self._x, c, a, b, 0.5 / math.sqrt(t), self._q * gamma)
        self._q = max(self._q + gamma * max(0.0, float(a @ x) - b), gamma)
        return x


class LatestConstraintProjection(QueueLearner):
    """Gradient step, then projection onto the domain and the latest constraint's linearisation.

    The cutter idea of CLASP (2026): x' = Proj onto X and {a_t.x <= a_t.x_t - g_t(x_t)} of the gradient step. Published
    guarantee of the full method: O(sqrt T) regret and violation for convex losses; this is its plainest form, with
    the AdaGrad-norm step.

    Parameters
    ----------
    domain : Domain
    x0 : array_like, shape (d,), optional
    """

    _numbers = (*QueueLearner._numbers, "_h")

    def __init__(self, domain: Domain, *, x0: ArrayLike | None = None) -> None:
        super().__init__(domain, x0=x0)
        self._h = 0.0

    def _step(self, t: int, c: Vector, v: float, a: Vector) -> Vector:  # noqa: ARG002 - the interface
        h = self._h + float(c @ c)
        y = self._x - (self.domain.diameter / math.sqrt(2.0 * h)) * c if h > 0.0 else self._x
        usable = float(a @ a) > 0.0
        x = cut(self.domain, y, a, float(a @ self._x) - v) if usable else self.domain._project(y)
        self._h = h
        return x
