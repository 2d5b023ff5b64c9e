"""Linear regression with k active weights out of dim: every support is weighed."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

from icl_theory.bayes.family import Family, Inputs, Posterior, average, deviation
from icl_theory.bayes.linear import gaussian_prefixes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_SUPPORTS = 20_000
_CHUNK = 1 << 22  # numbers a chunk of prompts may hold for all supports


class SparseLinear(Family):
    """f(x) = w . x with exactly k weights from N(0, slab^2), the support uniform; y = f(x) + N(0, noise^2).

    Parameters
    ----------
    dim, k : int
        1 <= k <= dim, and at most 20 000 supports.
    noise, slab : float
        Standard deviations, > 0.
    inputs : callable, optional
        As in `LinearGaussian`.

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self, dim: int, k: int, noise: float = 0.5, slab: float = 1.0, *, inputs: Inputs | None = None
    ) -> None:
        self.dim = positive_int(dim, "dim")
        self.k = positive_int(k, "k", maximum=self.dim)
        self.noise = deviation(noise, "noise")
        self.slab = deviation(slab, "slab")
        self.inputs = inputs
        count = math.comb(self.dim, self.k)
        if count > MAX_SUPPORTS:
            raise InvalidInput.argument(
                "dim, k", expected=f"at most {MAX_SUPPORTS} supports, which are enumerated", got=f"{count}"
            )
        self.supports = np.array(list(combinations(range(self.dim), self.k)), np.int64)

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draw supports, weights and noise; the type is the support's index. See `Family.draw`."""
        n = x.shape[0]
        which: NDArray[Any] = np.asarray(rng.integers(len(self.supports), size=n))
        w = np.zeros((n, self.dim))
        np.put_along_axis(w, self.supports[which], self.slab * rng.standard_normal((n, self.k)), axis=1)
        f = np.einsum("nlj,nj->nl", x, w)
        return f + self.noise * rng.standard_normal(f.shape), f, which

    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return the prediction after every prefix; `weights` are the posterior probabilities of `supports`.

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
        count = len(self.supports)
        prior = np.full(count, 1 / count)
        zero, cov = np.zeros(self.k), self.slab**2 * np.eye(self.k)
        rows = max(1, _CHUNK // max(1, count * xs.shape[1]))
        parts = []
        for start in range(0, max(1, len(xs)), rows):
            x_, y_ = xs[start : start + rows], ys[start : start + rows]
            found = np.empty((3, *y_.shape, count))
            for s, support in enumerate(self.supports):
                found[..., s] = gaussian_prefixes(x_[..., support], y_, zero, cov, self.noise)
            parts.append(average(prior, *found))
        mean, var, log_predictive, weights = (np.concatenate(column) for column in zip(*parts))
        return Posterior(mean, var, log_predictive, weights)
