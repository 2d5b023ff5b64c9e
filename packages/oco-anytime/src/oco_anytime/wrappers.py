"""Linear models on a stream that keep a constraint, in the interfaces of river and scikit-learn (duck-typed)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, one_of, positive_int

from oco_anytime.domains import Ball
from oco_anytime.learner import AnytimeCOCO

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector


class ConstrainedLinear:
    """Online linear regression or classification under convex constraints on the coefficients.

    Parameters
    ----------
    constraint : callable, optional
        ``(coef, row, y) -> (value, gradient)`` with respect to the coefficients (the intercept is the last one); called
        after each row, satisfied where the value is at most 0.
    loss : {"squared", "logistic"}
        For targets that are numbers, or 0 and 1.
    radius : float
        Of the ball that holds the coefficients.
    n_features : int, optional
        Room for features; river's dictionaries may name new ones until it is full. Told by the first rows of
        `partial_fit`.
    **options
        Of `AnytimeCOCO`, such as ``regret_budget``.

    Attributes
    ----------
    learner_ : AnytimeCOCO
        With `certificate` and `state_dict`.
    coef_ : numpy.ndarray, shape (n_features,)
    intercept_ : float
    """

    def __init__(
        self,
        constraint: Callable[[Vector, Vector, float], tuple[float, ArrayLike]] | None = None,
        *,
        loss: str = "squared",
        radius: float = 10.0,
        n_features: int | None = None,
        **options: Any,
    ) -> None:
        if constraint is not None and not callable(constraint):
            raise InvalidInput.argument("constraint", expected="a callable", got=constraint)
        self.constraint = constraint
        self.loss = one_of(loss, "loss", ("squared", "logistic"))
        self.radius = in_range(radius, "radius", 0.0, low_open=True)
        self.n_features = None if n_features is None else positive_int(n_features, "n_features")
        self.options = options
        self._columns: dict[Hashable, int] = {}

    def _start(self, n: int) -> None:
        if not hasattr(self, "learner_"):
            self.n_features = self.n_features or n
            self.learner_ = AnytimeCOCO(Ball(self.n_features + 1, self.radius), **self.options)

    def learn_one(self, x: Mapping[Hashable, float], y: float) -> Self:
        """Take in one row as river does.

        Parameters
        ----------
        x : mapping of feature to number
        y : float

        Returns
        -------
        ConstrainedLinear
            Itself.

        Raises
        ------
        InvalidInput
            If there are more features than room.
        """
        row = self._row(x, learn=True)
        self._learn(row, in_range(y, "y"))
        return self

    def predict_one(self, x: Mapping[Hashable, float]) -> float:
        """The prediction for one row: a number, or the probability of 1. Unknown features count as 0."""
        row = self._row(x, learn=False)
        return float(self._link(row @ self.learner_.predict()))

    def _row(self, x: Mapping[Hashable, float], *, learn: bool) -> Vector:
        if not hasattr(self, "learner_"):
            self._start(max(len(x), 1))
        room = self.n_features or 0
        if learn:
            new = [name for name in x if name not in self._columns]
            if len(self._columns) + len(new) > room:
                got = f"{len(self._columns) + len(new)}"
                raise InvalidInput.argument("x", expected=f"at most n_features = {room} features", got=got)
            for name in new:
                self._columns[name] = len(self._columns)
        row = np.zeros(room + 1)
        row[-1] = 1.0
        for name, value in x.items():
            if name in self._columns:
                row[self._columns[name]] = in_range(value, "x")
        return row

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take in rows one after the other, as scikit-learn does.

        Parameters
        ----------
        X : array_like, shape (n, n_features)
        y : array_like, shape (n,)

        Returns
        -------
        ConstrainedLinear
            Itself.
        """
        rows = array(X, "X", ndim=2)
        targets = array(y, "y", shape=(rows.shape[0],))
        self._start(rows.shape[1])
        if rows.shape[1] != self.n_features:
            raise InvalidInput.argument("X", expected=f"{self.n_features} features", got=rows.shape[1])
        for row, target in zip(rows, targets):
            self._learn(np.append(row, 1.0), float(target))
        return self

    def predict(self, X: ArrayLike) -> Vector:
        """Predictions for rows, shape (n,): numbers, or probabilities of 1."""
        if not hasattr(self, "learner_"):
            raise InvalidInput.argument("predict", expected="rows learned before", got="none")
        rows = array(X, "X", ndim=2, shape=(None, self.n_features))
        return np.asarray(self._link(rows @ self.coef_ + self.intercept_), dtype=float)

    def _link(self, score: Any) -> Any:
        return score if self.loss == "squared" else 1.0 / (1.0 + np.exp(-np.clip(score, -500.0, 500.0)))

    def _learn(self, row: Vector, y: float) -> None:
        if self.loss == "logistic" and y not in (0.0, 1.0):
            raise InvalidInput.argument("y", expected="0 or 1", got=y)
        coef = self.learner_.predict()
        # squared and logistic loss have the same derivative in the score: prediction - target
        grad = (float(self._link(row @ coef)) - y) * row
        if self.constraint is None:
            self.learner_.update(grad)
        else:
            self.learner_.update(grad, *self.constraint(coef, row, y))

    @property
    def coef_(self) -> Vector:
        """Coefficients without the intercept."""
        return self.learner_.predict()[:-1]

    @property
    def intercept_(self) -> float:
        """The intercept."""
        return float(self.learner_.predict()[-1])
