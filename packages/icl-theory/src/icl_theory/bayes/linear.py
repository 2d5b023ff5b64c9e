"""Linear regression with a Gaussian prior on the weights."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, positive_int

from icl_theory.bayes.family import Family, Inputs, Posterior, covariance, deviation, moderate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Features = Callable[["NDArray[Any]"], "NDArray[Any]"]


class LinearGaussian(Family):
    """f(x) = w . phi(x), w ~ N(prior_mean, prior_cov), y = f(x) + N(0, noise^2).

    Parameters
    ----------
    dim : int
        Dimension of x.
    noise : float
        Standard deviation of the noise, > 0.
    prior_mean : array_like, shape (n_features,), optional
        Zero if not given.
    prior_cov : array_like, shape (n_features, n_features), optional
        Symmetric and positive definite; the identity if not given.
    features : optional
        None: phi(x) = x. ``("polynomial", degree)``: 1 and the powers of each coordinate. ``("fourier", count)``: 1,
        cos and sin of j pi x for j = 1..count. A callable from (..., dim) to (..., n_features).
    inputs : callable, optional
        ``inputs(rng, n, length)`` draws x of shape (n, length, dim). Standard normal if not given.
    allow_singular : bool
        Whether `prior_cov` may be singular (positive semidefinite): some combination of weights is then fixed, as in a
        mixture whose types live on subspaces.

    Raises
    ------
    InvalidInput
        A singular `prior_cov` too, unless `allow_singular`.
    """

    def __init__(
        self,
        dim: int,
        noise: float = 0.5,
        prior_mean: ArrayLike | None = None,
        prior_cov: ArrayLike | None = None,
        features: Features | tuple[str, int] | None = None,
        *,
        inputs: Inputs | None = None,
        allow_singular: bool = False,
    ) -> None:
        self.dim = positive_int(dim, "dim")
        self.noise = deviation(noise, "noise")
        self.features = _features(features)
        self.inputs = inputs
        size = self._phi(np.zeros((1, 1, self.dim))).shape[-1]
        self.prior_mean = (
            np.zeros(size)
            if prior_mean is None
            else moderate(array(prior_mean, "prior_mean", ndim=1, shape=(size,), copy=True), "prior_mean")
        )
        self.prior_cov = covariance(prior_cov, "prior_cov", size, allow_singular=allow_singular)

    def _phi(self, x: NDArray[Any]) -> NDArray[Any]:
        if self.features is None:
            return x
        phi = array(self.features(x), "features(x)")
        if phi.ndim != 3 or phi.shape[:2] != x.shape[:2] or not phi.shape[2]:
            raise InvalidInput.argument(
                "features", expected="(..., n_features) from (..., dim), n_features >= 1", got=f"shape {phi.shape}"
            )
        return phi

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw weights and noise; see `Family.draw`."""
        phi = self._phi(x)
        values, vectors = np.linalg.eigh(self.prior_cov)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        w = self.prior_mean + rng.standard_normal((x.shape[0], phi.shape[-1])) @ root.T
        f = np.einsum("nlj,nj->nl", phi, w)
        return f + self.noise * rng.standard_normal(f.shape), f, np.zeros(x.shape[0], np.int64)

    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return mean, variance and log predictive density after every prefix, in O(length d^2) a prompt.

        Parameters
        ----------
        x : array_like, shape (n, length, dim)
        y : array_like, shape (n, length)

        Returns
        -------
        Posterior

        Raises
        ------
        InvalidInput
        """
        xs, ys = self.checked(x, y)
        return Posterior(*gaussian_prefixes(self._phi(xs), ys, self.prior_mean, self.prior_cov, self.noise))


def gaussian_prefixes(
    phi: NDArray[Any], y: NDArray[Any], mean: NDArray[Any], cov: NDArray[Any], noise: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Mean, variance and log predictive density, each (n, length), of a Gaussian linear model on features `phi`."""
    from icl_theory.bayes.linear_kernel import sequential

    d = phi.shape[-1]
    out = np.empty((3, *y.shape))
    sequential(
        np.ascontiguousarray(phi), np.ascontiguousarray(y), mean, np.ascontiguousarray(cov), noise**2,
        out[0], out[1], out[2], np.empty(d), np.empty((d, d)), np.empty(d),
    )  # fmt: skip
    return out[0], out[1], out[2]


def _features(value: Features | tuple[str, int] | None) -> Features | None:
    if value is None or callable(value):
        return value
    expected = 'a callable, ("polynomial", degree) or ("fourier", count)'
    try:
        kind, count = value
        order = operator.index(count)
    except (TypeError, ValueError) as err:
        raise InvalidInput.argument("features", expected=expected, got=value) from err
    kinds: dict[str, Callable[[int], Features]] = {"polynomial": _Polynomial, "fourier": _Fourier}
    if kind not in kinds or order < 1:
        raise InvalidInput.argument("features", expected=expected, got=value)
    return kinds[kind](order)


class _Polynomial:
    # A class and not a closure, so that families can be sent to other processes.
    def __init__(self, degree: int) -> None:
        self.degree = degree

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([np.ones((*x.shape[:-1], 1)), *(x**j for j in range(1, self.degree + 1))], -1)


class _Fourier:
    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        waves = [g(np.pi * j * x) for j in range(1, self.count + 1) for g in (np.cos, np.sin)]
        return np.concatenate([np.ones((*x.shape[:-1], 1)), *waves], -1)
