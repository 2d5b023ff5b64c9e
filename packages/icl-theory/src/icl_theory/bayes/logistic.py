"""Logistic regression, Gaussian prior: no closed form, so quadrature, or importance sampling above dimension 3."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int

from icl_theory.bayes.family import Family, Inputs, Posterior, average, covariance
from icl_theory.bayes.finite import signs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Nodes an axis, by dimension; the error estimate compares with half as many.
NODES = {1: 512, 2: 96, 3: 32}
DRAWS = 1 << 13
_CHUNK = 1 << 22


class LogisticGaussian(Family):
    """P(y = +1 | x) = sigmoid(w . x), w ~ N(0, prior_cov); the target f(x) is that probability.

    Parameters
    ----------
    dim : int
    prior_cov : array_like, shape (dim, dim), optional
        Positive definite; the identity if not given.
    method : {"auto", "quadrature", "importance"}
        "quadrature": product Gauss-Hermite, dim <= 3. "importance": self-normalised, 8192 draws of the prior with a
        fixed seed. Either way the answer says ``exact=False`` and carries an error estimate a prefix: the change on
        halving the nodes, or the standard error from the effective sample size.
    inputs : callable, optional
        As in `LinearGaussian`.

    Raises
    ------
    InvalidInput
        A singular `prior_cov` too.
    """

    def __init__(
        self, dim: int, prior_cov: ArrayLike | None = None, method: str = "auto", *, inputs: Inputs | None = None
    ) -> None:
        self.dim = positive_int(dim, "dim")
        self.prior_cov = covariance(prior_cov, "prior_cov", self.dim)
        one_of(method, "method", ("auto", "quadrature", "importance"))
        self.method = method if method != "auto" else ("quadrature" if self.dim <= 3 else "importance")
        if self.method == "quadrature" and self.dim > 3:
            raise InvalidInput.argument("method", expected='"importance" above dimension 3', got=method)
        self.root = np.linalg.cholesky(self.prior_cov)
        self.inputs = inputs

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw weights and labels. See `Family.draw`."""
        w = rng.standard_normal((x.shape[0], self.dim)) @ self.root.T
        f = np.exp(-np.logaddexp(0.0, -np.einsum("nlj,nj->nl", x, w)))
        return np.where(rng.random(f.shape) < f, 1.0, -1.0), f, np.zeros(x.shape[0], np.int64)

    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return the prediction after every prefix.

        Parameters
        ----------
        x : array_like, shape (n, length, dim)
        y : array_like, shape (n, length)
            Labels -1 or +1.

        Returns
        -------
        Posterior
            With ``exact=False``.

        Raises
        ------
        InvalidInput
        """
        xs, ys = self.checked(x, y)
        signs(ys)
        if self.method == "quadrature":
            fine, coarse = (self._grid(count) for count in (NODES[self.dim], NODES[self.dim] // 2))
            best, other = self._average(xs, ys, *fine), self._average(xs, ys, *coarse)
            return Posterior(best[0], best[1], best[2], exact=False, error=np.abs(best[0] - other[0]))
        w = np.random.default_rng(20_251_010).standard_normal((DRAWS, self.dim)) @ self.root.T
        mean, var, logp, ess = self._average(xs, ys, w, np.full(DRAWS, 1 / DRAWS))
        return Posterior(mean, var, logp, exact=False, error=np.sqrt(var / ess))

    def _grid(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        from scipy.special import roots_hermitenorm

        nodes, weights = roots_hermitenorm(count)
        keep = weights > 1e-25 * weights.max()
        nodes, weights = nodes[keep], weights[keep] / weights.sum()
        grid = np.array(list(product(nodes, repeat=self.dim)))
        mass = np.array([np.prod(p) for p in product(weights, repeat=self.dim)])
        # Outer nodes weigh less than rounding, and cost as much as the others.
        keep = mass > 1e-25 * mass.max()
        return grid[keep] @ self.root.T, mass[keep]

    def _average(
        self, x: NDArray[Any], y: NDArray[Any], w: NDArray[Any], mass: NDArray[Any]
    ) -> tuple[NDArray[Any], ...]:
        rows = max(1, _CHUNK // max(1, len(w) * x.shape[1]))
        parts = []
        for start in range(0, max(1, len(x)), rows):
            t = x[start : start + rows] @ w.T
            f = np.exp(-np.logaddexp(0.0, -t))
            logp = -np.logaddexp(0.0, -y[start : start + rows, :, None] * t)
            mean, var, log_predictive, weights = average(mass, f, np.zeros_like(f), logp)
            parts.append((mean, var, log_predictive, 1 / np.square(weights).sum(-1)))
        return tuple(np.concatenate(column) for column in zip(*parts))
