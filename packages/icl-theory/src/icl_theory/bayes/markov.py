"""Markov chains whose transition rows have a Dirichlet prior: the add-constant rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int

from icl_theory.bayes.family import Family, Posterior, Prompts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class MarkovPosterior(Posterior):
    """Predictions of the next symbol: entry ``[:, k]`` conditions on the first k symbols.

    It unpacks as ``probs, log_predictive``.

    Attributes
    ----------
    mean, var : ndarray, shape (n, length, states)
        Of the transition probabilities out of the current context.
    log_predictive : ndarray, shape (n, length)
        Log probability of the symbol that came.
    """

    @property
    def probs(self) -> NDArray[Any]:
        """Probability of each symbol coming next, shape (n, length, states)."""
        return self.mean

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.probs, self.log_predictive))


class MarkovDirichlet(Family):
    """A chain of the given order; every context's row of probabilities is Dirichlet(concentration, ...).

    Parameters
    ----------
    states : int
        Size of the alphabet, >= 2.
    order : int
        Symbols in a context, >= 0. The first `order` symbols of a sequence are uniform.
    concentration : float
        > 0; what is added to each count.

    Raises
    ------
    InvalidInput
    """

    def __init__(self, states: int, order: int = 1, concentration: float = 1.0) -> None:
        self.states = positive_int(states, "states", minimum=2)
        self.order = positive_int(order, "order", minimum=0)
        self.concentration = in_range(concentration, "concentration", 0.0, low_open=True)
        if self.states**self.order > 1 << 20:
            raise InvalidInput.argument("order", expected="at most 2^20 contexts", got=f"{self.states}^{self.order}")
        self.dim = self.states
        self.inputs = None

    def draw_inputs(self, n: int, length: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        """Return placeholders: a chain has no inputs but its own past."""
        return np.zeros((n, length, 0))

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw chains: y are the symbols, f the true probabilities, shape (n, length, states). See `Family.draw`."""
        n, length = x.shape[:2]
        contexts = self.states**self.order
        # Exponentials of the log make tiny concentrations safe: gamma draws below 1 underflow to zero together.
        shape = (n, contexts, self.states)
        log_gamma: NDArray[Any] = (
            np.log(rng.standard_gamma(self.concentration + 1.0, shape)) + np.log(rng.random(shape)) / self.concentration
        )
        rows = np.exp(log_gamma - log_gamma.max(-1, keepdims=True))
        rows /= rows.sum(-1, keepdims=True)
        y = np.empty((n, length), np.int64)
        f = np.full((n, length, self.states), 1 / self.states)
        context, every = np.zeros(n, np.int64), np.arange(n)
        for k in range(length):
            if k >= self.order:
                f[:, k] = rows[every, context]
            y[:, k] = np.minimum((rng.random((n, 1)) > np.cumsum(f[:, k], -1)).sum(-1), self.states - 1)
            context = (context * self.states + y[:, k]) % contexts
        return y, f, np.zeros(n, np.int64)

    def posterior(self, prompts: Prompts) -> MarkovPosterior:
        """The prediction for prompts of this family."""
        return self.predict(prompts.y)

    def predict(self, seq: ArrayLike) -> MarkovPosterior:  # type: ignore[override]
        """Return the prediction after every prefix.

        Parameters
        ----------
        seq : array_like of int, shape (n, length)
            Symbols 0 .. states - 1.

        Returns
        -------
        MarkovPosterior

        Raises
        ------
        InvalidInput
        """
        symbols = array(seq, "seq", ndim=2, dtype=np.int64)
        if symbols.size and (symbols.min() < 0 or symbols.max() >= self.states):
            raise InvalidInput.argument(
                "seq", expected=f"symbols 0 to {self.states - 1}", got=f"{symbols.min()} to {symbols.max()}"
            )
        n, length = symbols.shape
        contexts = self.states**self.order
        probs = np.full((n, length, self.states), 1 / self.states)
        var = np.zeros_like(probs)
        counts = np.full((n, contexts, self.states), self.concentration)
        context, every = np.zeros(n, np.int64), np.arange(n)
        for k in range(length):
            if k >= self.order:
                row = counts[every, context]
                total = row.sum(-1, keepdims=True)
                probs[:, k] = row / total
                var[:, k] = probs[:, k] * (1 - probs[:, k]) / (total + 1)
                counts[every, context, symbols[:, k]] += 1
            context = (context * self.states + symbols[:, k]) % contexts
        seen = np.take_along_axis(probs, symbols[..., None], -1)[..., 0]
        return MarkovPosterior(probs, var, np.log(seen))


def combine(prior: NDArray[Any], parts: Sequence[MarkovPosterior]) -> MarkovPosterior:
    """Average chains' predictions by their running evidence."""
    logp = np.stack([p.log_predictive for p in parts], -1)
    with np.errstate(divide="ignore"):
        joint = np.log(prior) + np.concatenate([np.zeros_like(logp[:, :1]), np.cumsum(logp[:, :-1], 1)], 1)
    weights = np.exp(joint - joint.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    means = np.stack([p.mean for p in parts], -1)
    mean = (means * weights[:, :, None]).sum(-1)
    spread = np.stack([p.var for p in parts], -1) + np.square(means - mean[..., None])
    var = (spread * weights[:, :, None]).sum(-1)
    with np.errstate(divide="ignore"):
        terms = np.log(weights) + logp
    top = terms.max(-1, keepdims=True)
    return MarkovPosterior(mean, var, np.log(np.exp(terms - top).sum(-1)) + top[..., 0], weights)
