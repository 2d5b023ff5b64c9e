"""Predictors of row duals, and what the paper builds on them: the Min-Trick, the dual bound and the density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int
from numpy.typing import ArrayLike, NDArray

from lap_warmstart.rowdualnet import RowDualNet
from lap_warmstart.warm import DualPredictor

__all__ = [
    "DualPredictor",
    "KthSmallest",
    "LinearRow",
    "RowDualNet",
    "RowMean",
    "RowMin",
    "density",
    "dual_bound",
    "min_trick",
]

Vector = NDArray[np.float64]


def _matrix(cost: object) -> NDArray[Any]:
    from lap_warmstart.problem import for_kernels, numeric

    c = for_kernels(np.ascontiguousarray(numeric(cost)[0]))
    if np.isnan(c).any():
        raise InvalidInput.argument("cost", expected="no NaN", got="NaN")
    return c


def _filled(cost: object) -> NDArray[Any]:
    c = _matrix(cost)
    if c.size == 0:
        raise InvalidInput.argument("cost", expected="at least one row and one column", got=f"shape {c.shape}")
    return c


def min_trick(cost: ArrayLike, u: ArrayLike) -> Vector:
    """Return the largest column duals that are feasible with row duals `u`: ``v_j = min_i (c_ij - u_i)``.

    Feasible by construction, whatever `u` is: no projection is needed (arXiv 2605.09382). Where there are more columns
    than rows, v is also at most 0.

    Parameters
    ----------
    cost : array-like (n, m)
    u : array-like (n,)
        Finite.

    Returns
    -------
    ndarray of float64 (m,)
    """
    from lap_warmstart.duals import lower_columns

    c = _matrix(cost)
    rows = array(u, "u", ndim=1, shape=(c.shape[0],))
    v = np.full(c.shape[1], np.inf)
    lower_columns(c, rows, v, 0, c.shape[0])
    return np.minimum(v, 0.0) if c.shape[0] < c.shape[1] else v


def dual_bound(cost: ArrayLike, v: ArrayLike) -> float:
    """Return ``sum_j v_j + sum_i min_j (c_ij - v_j)``: a lower bound on the optimum, equal to it for optimal duals.

    Parameters
    ----------
    cost : array-like (n, m), n <= m
        For n < m, `v` has to be at most 0.
    v : array-like (m,)
    """
    from lap_warmstart.duals import row_minima

    c = _matrix(cost)
    columns = array(v, "v", ndim=1, shape=(c.shape[1],))
    if c.shape[0] > c.shape[1] or (c.shape[0] < c.shape[1] and columns.size and float(columns.max()) > 0.0):
        raise InvalidInput.argument("v", expected="n <= m, and v <= 0 where n < m", got=f"shape {c.shape}")
    u = np.empty(c.shape[0])
    row_minima(c, columns, u, 0, u.size)
    return float(np.sum(columns) + np.sum(u))


def density(cost: ArrayLike, u: ArrayLike, v: ArrayLike, eps: float | None = None) -> float:
    """Return the number of tight entries a row, ``|c_ij - u_i - v_j| < eps`` (the paper's rho).

    Parameters
    ----------
    eps : float, optional
        ``1e-9 max(1, max |c|)`` unless told otherwise.
    """
    from lap_warmstart.duals import tight_entries

    c = _matrix(cost)
    rows, columns = array(u, "u", ndim=1, shape=(c.shape[0],)), array(v, "v", ndim=1, shape=(c.shape[1],))
    if eps is None:
        finite = c[np.isfinite(c)]
        eps = 1e-9 * max(1.0, float(np.abs(finite).max(initial=0.0)))
    return float(tight_entries(c, rows, columns, float(eps)) / max(c.shape[0], 1))


@dataclass(frozen=True)
class RowMin:
    """Predicts each row's minimum."""

    def predict(self, cost: ArrayLike) -> Vector:
        """Predict row duals of `cost` (n, m): (n,)."""
        return np.asarray(_filled(cost).min(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class RowMean:
    """Predicts each row's mean (the paper's ablation)."""

    def predict(self, cost: ArrayLike) -> Vector:
        """Predict row duals of `cost` (n, m): (n,)."""
        c = _matrix(cost)
        finite = np.isfinite(c)
        mean = np.where(finite, c, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        return np.asarray(mean, dtype=np.float64)


@dataclass(frozen=True)
class KthSmallest:
    """Predicts each row's k-th smallest cost, k = 1 the minimum."""

    k: int

    def __post_init__(self) -> None:
        positive_int(self.k, "k")

    def predict(self, cost: ArrayLike) -> Vector:
        """Predict row duals of `cost` (n, m): (n,)."""
        c = _filled(cost)
        k = min(self.k, c.shape[1]) - 1
        return np.asarray(np.partition(c, k, axis=1)[:, k], dtype=np.float64)


@dataclass(frozen=True)
class LinearRow:
    """A linear model of the row features, fitted by ridge regression (the paper's ablation).

    Attributes
    ----------
    weights : ndarray (F,)
    mu, sd : ndarray (F,)
        Standardisation of the features.
    """

    weights: Vector
    mu: Vector
    sd: Vector

    @classmethod
    def fit(cls, costs: Sequence[ArrayLike], ridge: float = 1.0) -> LinearRow:
        """Fit to the optimal row duals of `costs`, found by the exact solver.

        Raises
        ------
        InvalidInput
            If there is no matrix, one of them is empty or not finite, or `ridge` is not a number > 0.
        """
        from lap_warmstart.features import row_features
        from lap_warmstart.solve import solve

        ridge = in_range(ridge, "ridge", 0.0, low_open=True)
        given: Any = costs
        if not isinstance(given, np.ndarray | Sequence) or isinstance(given, str | bytes) or len(given) == 0:
            raise InvalidInput.argument("costs", expected="matrices, at least one", got=type(costs).__name__)
        features, targets = [], []
        for matrix in costs:
            cost = _filled(matrix)
            if not np.isfinite(cost).all():
                raise InvalidInput.argument("costs", expected="finite numbers", got="infinity")
            f = row_features(cost, cost.min(axis=0))
            target = (solve(cost).u - f.base) / f.scale
            features.append(f.x.astype(np.float64))
            targets.append(target - target.mean())
        x, y = np.vstack(features), np.concatenate(targets)
        mu, sd = x.mean(axis=0), x.std(axis=0) + 1e-3
        z = (x - mu) / sd
        normal = z.T @ z + ridge * len(z) * 1e-3 * np.eye(z.shape[1])
        try:
            weights = np.linalg.solve(normal, z.T @ y)
        except np.linalg.LinAlgError:  # a ridge that rounding swallows: the shortest solution
            weights = np.linalg.lstsq(normal, z.T @ y, rcond=None)[0]
        return cls(weights, mu, sd)

    def predict(self, cost: ArrayLike) -> Vector:
        """Predict row duals of `cost` (n, m): (n,)."""
        from lap_warmstart.features import row_features

        c = _filled(cost)
        f = row_features(c, c.min(axis=0).astype(np.float64))
        return f.base + f.scale * (np.clip((f.x - self.mu) / self.sd, -6.0, 6.0) @ self.weights)
