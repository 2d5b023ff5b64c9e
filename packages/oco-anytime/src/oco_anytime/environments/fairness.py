"""Regression on a stream that must treat two groups alike on average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import Ball
from oco_anytime.environments.base import Environment, Outcome, in_stream

if TYPE_CHECKING:
    from oco_anytime.domains.base import Vector


class FairRegression(Environment):
    """Linear regression, one patient a round, with a bound on the gap between the sexes' mean predictions.

    Data: scikit-learn's diabetes table (442 rows, shipped with it; extra ``data``), shuffled by the seed and repeated.
    Cost: squared error / 2 of the standardised target. Constraint: |mean prediction of one sex - of the other| over
    the last `window` rows is at most `tol`. The column of the sex itself is not a feature.

    Parameters
    ----------
    rounds : int
    tol : float
    window : int
    radius : float
        Of the ball of coefficients (with an intercept).
    rng : int, SeedSequence or Generator
    """

    def __init__(
        self, rounds: int = 2000, tol: float = 0.05, window: int = 100, radius: float = 2.0, rng: Any = 0
    ) -> None:
        rounds = positive_int(rounds, "rounds", minimum=0)
        self.tol = in_range(tol, "tol", 0.0)
        self.window = positive_int(window, "window", minimum=2)
        try:
            from sklearn.datasets import load_diabetes
        except ImportError:
            got = "an installation without scikit-learn"
            raise InvalidInput.argument("environment", expected="pip install oco-anytime[data]", got=got) from None
        X, y = load_diabetes(return_X_y=True)
        group = X[:, 1] > 0
        X = np.delete(X, 1, axis=1)
        X = X / X.std(axis=0) / np.sqrt(X.shape[1])
        y = (y - y.mean()) / y.std()
        rng = generator(rng)
        repeats = -(-(rounds + self.window) // y.size)
        order = np.concatenate([rng.permutation(y.size) for _ in range(repeats)])[: rounds + self.window]
        self._X = np.column_stack([X, np.full(y.size, 1.0)])[order]
        self._y, self._group = y[order], group[order]
        self.rounds, self.domain = rounds, Ball(self._X.shape[1], radius)

    def round(self, t: int, x: Vector) -> Outcome:
        """Patient t (from 0) with the coefficients x."""
        in_stream(t, self.rounds)
        row, target = self._X[t + self.window], self._y[t + self.window]
        error = float(row @ x) - float(target)
        part = slice(t + 1, t + 1 + self.window)
        rows, one = self._X[part], self._group[part]
        if one.all() or not one.any():
            return Outcome(0.5 * error**2, error * row, -self.tol)
        gap = rows[one].mean(axis=0) - rows[~one].mean(axis=0)
        value = float(gap @ x)
        return Outcome(0.5 * error**2, error * row, abs(value) - self.tol, np.sign(value) * gap)
