"""What a task family is: it draws prompts, and predicts after every prefix at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int
from lemmata_core.rng import generator

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray

Inputs = Callable[[np.random.Generator, int, int], "NDArray[Any]"]

LARGEST = 1e50  # of inputs, targets and parameters


@dataclass(frozen=True)
class Prompts:
    """Prompts drawn from a family.

    Attributes
    ----------
    x : ndarray, shape (n, length, dim)
    y : ndarray, shape (n, length)
        Noisy responses.
    f : ndarray, shape (n, length) or (n, length, outputs)
        Noise-free targets.
    type : ndarray of int, shape (n,)
        Index of the task type each prompt came from.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    f: NDArray[Any]
    type: NDArray[Any]


@dataclass(frozen=True)
class Posterior:
    """The Bayes prediction after every prefix: entry ``[:, k]`` conditions on the first k pairs and ``x[:, k]``.

    Attributes
    ----------
    mean, var : ndarray, shape (n, length)
        Of the noise-free target f(x[:, k]).
    log_predictive : ndarray, shape (n, length)
        Log density (or probability) of ``y[:, k]``; its running sum is the log evidence.
    weights : ndarray, shape (n, length, types), or None
        Posterior probabilities of task types (mixtures, supports, finite sets).
    exact : bool
        False for quadrature and importance sampling.
    error : ndarray, shape (n, length), or None
        Where not exact: an estimate of the absolute error of `mean`.
    """

    mean: NDArray[Any]
    var: NDArray[Any]
    log_predictive: NDArray[Any]
    weights: NDArray[Any] | None = None
    exact: bool = True
    error: NDArray[Any] | None = None


class Family(ABC):
    """Tasks f ~ prior, inputs x i.i.d., responses y given f(x)."""

    dim: int
    inputs: Inputs | None

    @abstractmethod
    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return the Bayes prediction after every prefix.

        Parameters
        ----------
        x : array_like, shape (n, length, dim)
        y : array_like, shape (n, length)

        Raises
        ------
        InvalidInput
        """

    @abstractmethod
    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw a task for each prompt; return (y, f, type) at the inputs `x`."""

    def draw_inputs(self, n: int, length: int, rng: np.random.Generator) -> NDArray[Any]:
        """Inputs of shape (n, length, dim): standard normal unless the family was given `inputs`."""
        if self.inputs is None:
            return rng.standard_normal((n, length, self.dim))
        return array(self.inputs(rng, n, length), "inputs(rng, n, length)", shape=(n, length, self.dim))

    def sample(self, n: int, length: int, rng: RNGLike = None) -> Prompts:
        """Draw prompts.

        Parameters
        ----------
        n, length : int
            Prompts, and pairs in each.
        rng : numpy.random.Generator, int or None

        Returns
        -------
        Prompts
        """
        n, length = positive_int(n, "n", minimum=0), positive_int(length, "length")
        source = generator(rng)
        x = self.draw_inputs(n, length, source)
        y, f, kind = self.draw(x, source)
        return Prompts(x, y, f, kind)

    def posterior(self, prompts: Prompts) -> Posterior:
        """The prediction for prompts of this family."""
        return self.predict(prompts.x, prompts.y)

    def checked(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Check prompts against the family's dimension."""
        xs = moderate(array(x, "x", ndim=3, shape=(None, None, self.dim)), "x")
        return xs, moderate(array(y, "y", ndim=2, shape=xs.shape[:2]), "y")


def moderate(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Refuse numbers whose squares, over the square of the least noise, leave float64: the answer would be NaN."""
    if values.size and np.abs(values).max() > LARGEST:
        got = f"{np.abs(values).max():g}"
        raise InvalidInput.argument(name, expected=f"numbers up to {LARGEST:g} in magnitude: rescale", got=got)
    return values


def deviation(value: float, name: str) -> float:
    """Check a standard deviation, from 1 / `LARGEST` to `LARGEST`."""
    return in_range(value, name, 1 / LARGEST, LARGEST)


def covariance(value: ArrayLike | None, name: str, dim: int, *, allow_singular: bool = False) -> NDArray[np.float64]:
    """Check a covariance: symmetric, and positive definite or, with `allow_singular`, semidefinite. None: identity."""
    if value is None:
        return np.eye(dim)
    matrix = moderate(array(value, name, ndim=2, shape=(dim, dim)), name)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    if np.abs(matrix / scale - matrix.T / scale).max() > 1e-10:
        raise InvalidInput.argument(name, expected="a symmetric matrix", got="entries that differ across the diagonal")
    half: NDArray[np.float64] = matrix / 2 + matrix.T / 2
    least = scale * float(np.linalg.eigvalsh(half / scale)[0])
    if least < -1e-10 * scale:
        kind = "semidefinite" if allow_singular else "definite"
        raise InvalidInput.argument(name, expected=f"a positive {kind} matrix", got=f"an eigenvalue {least:.3g}")
    if not allow_singular and _is_singular(half):
        raise InvalidInput.argument(
            name,
            expected="a positive definite matrix (a singular prior has no density)",
            got=f"a singular one, eigenvalues {np.linalg.eigvalsh(half).tolist()}",
        )
    return half


def _is_singular(matrix: NDArray[np.float64]) -> bool:
    """Whether a semidefinite matrix is singular to rounding, whatever the units of its rows."""
    variances = np.diag(matrix)
    if variances.min() <= 0:
        return True
    root = np.sqrt(variances)
    return bool(np.linalg.eigvalsh(matrix / root / root[:, None])[0] <= 1e-12)


def probabilities(value: ArrayLike | None, name: str, n: int) -> NDArray[np.float64]:
    """Check prior probabilities: non-negative, summing to one. None is uniform."""
    if value is None:
        return np.full(n, 1 / n)
    weights = array(value, name, ndim=1, shape=(n,))
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise InvalidInput.argument(name, expected="probabilities >= 0 that sum to 1", got=f"{weights.tolist()}")
    normed: NDArray[np.float64] = weights / weights.sum()
    return normed


def average(
    prior: NDArray[Any], means: NDArray[Any], variances: NDArray[Any], log_predictives: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Average component predictions by their running evidence.

    Parameters
    ----------
    prior : ndarray, shape (types,)
    means, variances, log_predictives : ndarray, shape (n, length, types)

    Returns
    -------
    mean, var, log_predictive : ndarray, shape (n, length)
    weights : ndarray, shape (n, length, types)
        Everything in log space: evidences of long prompts differ by hundreds of nats. A prompt that no component can
        produce has NaN from there on.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_joint = np.log(prior) + np.concatenate(
            [np.zeros_like(log_predictives[:, :1]), np.cumsum(log_predictives[:, :-1], axis=1)], axis=1
        )
        top = log_joint.max(-1, keepdims=True)
        weights = np.exp(log_joint - top)
        weights /= weights.sum(-1, keepdims=True)
        mean = (weights * means).sum(-1)
        var = (weights * (variances + np.square(means - mean[..., None]))).sum(-1)
        terms = np.log(weights) + log_predictives
        peak = terms.max(-1, keepdims=True)
        peak = np.where(np.isfinite(peak), peak, 0.0)
        log_predictive = np.log(np.exp(terms - peak).sum(-1)) + peak[..., 0]
    return mean, var, log_predictive, weights
