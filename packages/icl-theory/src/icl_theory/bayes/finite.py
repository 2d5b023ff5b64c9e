"""A finite set of tasks with known probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, one_of, positive_int

from icl_theory.bayes.family import Family, Inputs, Posterior, average, deviation, moderate, probabilities

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Task = Callable[["NDArray[Any]"], "NDArray[Any]"]
LogLikelihood = Callable[["NDArray[Any]", "NDArray[Any]"], "NDArray[Any]"]


class FiniteTasks(Family):
    """One of finitely many tasks, drawn with probability `prior`.

    Parameters
    ----------
    weights : array_like, shape (tasks, dim), or a sequence of callables
        Rows w give f(x) = w . x. Callables map x of shape (..., dim) to f of shape (...).
    prior : array_like, shape (tasks,), optional
        Uniform if not given.
    noise : float
        Standard deviation of the Gaussian noise, > 0.
    likelihood : {"gaussian", "bernoulli"} or callable
        "gaussian": y = f(x) + N(0, noise^2). "bernoulli": y in {-1, +1}, and the target is f(x) = P(y = +1 | x) =
        sigmoid(task(x)). A callable ``likelihood(y, f)`` returns log densities; such a family predicts, but cannot
        draw.
    dim : int, optional
        Needed with callables.
    inputs : callable, optional
        As in `LinearGaussian`.

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self,
        weights: ArrayLike | Sequence[Task],
        prior: ArrayLike | None = None,
        noise: float = 0.5,
        likelihood: str | LogLikelihood = "gaussian",
        *,
        dim: int | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        given: Any = weights
        self.functions: tuple[Task, ...] = ()
        if isinstance(given, Sequence) and len(given) and all(callable(task) for task in given):
            self.functions = tuple(given)
            self.weights = None
            self.dim = positive_int(1 if dim is None else dim, "dim")
        else:
            self.weights = moderate(array(given, "weights", ndim=2, copy=True), "weights")
            if not self.weights.size:
                raise InvalidInput.argument("weights", expected="one task at least", got=f"shape {self.weights.shape}")
            self.dim = self.weights.shape[1]
            if dim not in {None, self.dim}:
                raise InvalidInput.argument("dim", expected=f"{self.dim}, as weights have it", got=dim)
        count = len(self.functions) if self.weights is None else len(self.weights)
        self.prior = probabilities(prior, "prior", count)
        self.noise = deviation(noise, "noise")
        self.likelihood = (
            likelihood if callable(likelihood) else one_of(likelihood, "likelihood", ("gaussian", "bernoulli"))
        )
        self.inputs = inputs

    def targets(self, x: NDArray[Any]) -> NDArray[Any]:
        """Every task's f(x), shape (..., tasks)."""
        raw = self._values(x)
        return _sigmoid(raw) if self.likelihood == "bernoulli" else raw

    def _values(self, x: NDArray[Any]) -> NDArray[Any]:
        if self.weights is not None:
            return np.asarray(x @ self.weights.T)
        return np.stack([array(task(x), "weights: task(x)", shape=x.shape[:-1]) for task in self.functions], -1)

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw tasks and responses; the type is the task's index. See `Family.draw`."""
        if callable(self.likelihood):
            raise InvalidInput.argument(
                "likelihood", expected='"gaussian" or "bernoulli", to draw from', got=self.likelihood
            )
        which: NDArray[Any] = np.asarray(rng.choice(len(self.prior), size=x.shape[0], p=self.prior))
        f = np.take_along_axis(self.targets(x), which[:, None, None], -1)[..., 0]
        if self.likelihood == "bernoulli":
            return np.where(rng.random(f.shape) < f, 1.0, -1.0), f, which
        return f + self.noise * rng.standard_normal(f.shape), f, which

    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return the prediction after every prefix; `weights` are the tasks' posterior probabilities.

        Parameters
        ----------
        x : array_like, shape (n, length, dim)
        y : array_like, shape (n, length)
            With "bernoulli": -1 or +1.

        Returns
        -------
        Posterior

        Raises
        ------
        InvalidInput
        """
        xs, ys = self.checked(x, y)
        f = self._values(xs)
        if self.likelihood == "bernoulli":
            signs(ys)
            # From the logit: 1 - f rounds to zero long before the log likelihood stops to matter.
            logp, f = -np.logaddexp(0.0, -ys[..., None] * f), _sigmoid(f)
        elif self.likelihood == "gaussian":
            logp = -0.5 * (np.log(2 * np.pi * self.noise**2) + np.square((ys[..., None] - f) / self.noise))
        else:
            custom: Any = self.likelihood
            logp = array(custom(ys[..., None], f), "likelihood(y, f)", shape=f.shape, finite=False)
        return Posterior(*average(self.prior, f, np.zeros_like(f), logp))


def signs(y: NDArray[Any]) -> None:
    """Refuse responses that are not labels."""
    if not np.isin(y, (-1.0, 1.0)).all():
        raise InvalidInput.argument("y", expected="labels -1 or +1", got=f"{np.setdiff1d(y, (-1.0, 1.0))[:3].tolist()}")


def _sigmoid(t: NDArray[Any]) -> NDArray[Any]:
    p: NDArray[Any] = np.exp(-np.logaddexp(0.0, -t))
    return p
