"""Mixtures of families: running evidences decide which type a prompt came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput

from icl_theory.bayes.family import Family, Posterior, Prompts, average, probabilities
from icl_theory.bayes.markov import MarkovDirichlet, MarkovPosterior, combine

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Mixture(Family):
    """A task type is drawn with probability `weights`, then a task of that type.

    Parameters
    ----------
    families : sequence of Family
        Of one input dimension; mixtures may be nested. Inputs are drawn as the first family draws them. Or
        `MarkovDirichlet` families of one alphabet (say, of several orders), whose `predict` takes sequences.
    weights : array_like, shape (types,), optional
        Prior probabilities; uniform if not given.

    Raises
    ------
    InvalidInput
    """

    def __init__(self, families: Sequence[Family], weights: ArrayLike | None = None) -> None:
        given: object = families
        self.families = tuple(families) if isinstance(given, Sequence) else ()
        if not self.families or not all(isinstance(f, Family) for f in self.families):
            raise InvalidInput.argument("families", expected="one Family or more, in a sequence", got=families)
        chains = [_is_chain(f) for f in self.families]
        if len({f.dim for f in self.families}) > 1 or len(set(chains)) > 1:
            raise InvalidInput.argument(
                "families", expected="one input dimension (Markov: one alphabet)", got=[f.dim for f in self.families]
            )
        self.weights = probabilities(weights, "weights", len(self.families))
        self.dim = self.families[0].dim
        self.inputs = self.families[0].inputs
        self.is_chain = chains[0]

    def draw_inputs(self, n: int, length: int, rng: np.random.Generator) -> NDArray[Any]:
        """Inputs as the first family draws them."""
        return self.families[0].draw_inputs(n, length, rng)

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw types, then each type's tasks. See `Family.draw`."""
        which: NDArray[Any] = np.asarray(rng.choice(len(self.families), size=x.shape[0], p=self.weights))
        y = f = None
        for t, family in enumerate(self.families):
            rows = which == t
            y_, f_, _ = family.draw(x[rows], rng)
            y = np.empty((x.shape[0], *y_.shape[1:]), y_.dtype) if y is None else y
            f = np.empty((x.shape[0], *f_.shape[1:])) if f is None else f
            y[rows], f[rows] = y_, f_
        assert y is not None  # noqa: S101 - there is one family at least
        assert f is not None  # noqa: S101
        return y, f, which

    def components(self, x: ArrayLike, y: ArrayLike) -> list[Posterior]:
        """Every type's own prediction."""
        return [family.predict(x, y) for family in self.families]

    def posterior(self, prompts: Prompts) -> Posterior:
        """The prediction for prompts of this family."""
        return self.predict(prompts.y) if self.is_chain else self.predict(prompts.x, prompts.y)

    def predict(self, x: ArrayLike, y: ArrayLike | None = None) -> Posterior:
        """Return the prediction after every prefix; `weights` are the types' posterior probabilities.

        Parameters
        ----------
        x : array_like, shape (n, length, dim)
            Or, for a mixture of Markov families, sequences of shape (n, length), alone.
        y : array_like, shape (n, length)

        Returns
        -------
        Posterior

        Raises
        ------
        InvalidInput
        """
        if self.is_chain:
            return combine(self.weights, [f.predict(x) for f in self.families])  # type: ignore[call-arg, misc]
        if y is None:
            raise InvalidInput.argument("y", expected="responses of shape (n, length)", got=None)
        parts = self.components(x, y)
        stacked = [np.stack([getattr(p, name) for p in parts], -1) for name in ("mean", "var", "log_predictive")]
        errors = [p.error for p in parts if p.error is not None]
        return Posterior(
            *average(self.weights, *stacked),
            exact=all(p.exact for p in parts),
            error=np.max(errors, axis=0) if errors else None,
        )


def checked_types(mixture: Mixture) -> Mixture:
    """Check a mixture against what Theorem 3 of arXiv 2510.10981 speaks of: types to tell apart, each possible."""
    given: object = mixture
    if not isinstance(given, Mixture) or mixture.is_chain or len(mixture.families) < 2:
        raise InvalidInput.argument("mixture", expected="a Mixture of two regression families or more", got=mixture)
    if mixture.weights.min() <= 0:
        raise InvalidInput.argument(
            "mixture", expected="weights > 0, as Theorem 3 needs them", got=f"weights {mixture.weights.tolist()}"
        )
    return mixture


def _is_chain(family: Family) -> bool:
    return isinstance(family, MarkovDirichlet) or (isinstance(family, Mixture) and family.is_chain)


__all__ = ["MarkovPosterior", "Mixture"]
