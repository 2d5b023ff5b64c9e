"""Bounds of arXiv 2510.10981 as functions, the drift they need, and the counterexample to mean pooling."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int
from lemmata_core.rng import generator

from icl_theory.bayes.mixture import checked_types

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray

    from icl_theory.bayes.mixture import Mixture


def posterior_variance_bound(
    k: int,
    B_f: float,
    alpha_true: float,
    D: ArrayLike,
    nu2: ArrayLike,
    b: ArrayLike,
    minimax: float = 0.0,
    n_types: int | None = None,
) -> float:
    """Bound E Var(f | P^k) for a mixture of types (Theorem 3; constants as in the paper).

    minimax + 5 B_f^2 [ (1 - alpha) / alpha exp(-D_min k / 2) + (T - 1) exp(-C k) ],
    C = min_j D_j^2 / (8 (nu_j^2 + b_j D_j / 2)).

    Parameters
    ----------
    k : int
        Pairs seen, >= 1.
    B_f : float
        Bound of abs(f), > 0.
    alpha_true : float
        Prior weight of the true type, in (0, 1].
    D, nu2, b : float or array_like, one a wrong type
        Drift D > 0, variance proxy nu^2 >= 0 and scale b >= 0 of the log-ratios.
    minimax : float
        Minimax risk of the true type after k pairs.
    n_types : int, optional
        T > len(D); ``len(D) + 1`` if not given.

    Raises
    ------
    InvalidInput
        If a drift is not positive too: the theorem needs D_j > 0 (nested types have D_j -> 0).
    """
    k = positive_int(k, "k")
    B_f, alpha = (
        in_range(B_f, "B_f", 0.0, 1e100, low_open=True),
        in_range(alpha_true, "alpha_true", 0.0, 1.0, low_open=True),
    )
    minimax = in_range(minimax, "minimax", 0.0)
    drift = np.atleast_1d(array(D, "D", ndim=(0, 1)))
    proxy, scale = (array(v, name, ndim=(0, 1)) for v, name in ((nu2, "nu2"), (b, "b")))
    for name, value in (("nu2", proxy), ("b", scale)):
        if value.ndim and value.shape != drift.shape:
            raise InvalidInput.argument(
                name, expected=f"a number, or one a wrong type ({len(drift)})", got=f"shape {value.shape}"
            )
        if (value < 0).any():
            raise InvalidInput.argument(name, expected="numbers >= 0", got=f"{value.tolist()}")
    if not drift.size or drift.min() <= 0:
        raise InvalidInput.argument("D", expected="drifts D_j > 0, as Theorem 3 needs them", got=f"{drift.tolist()}")
    types = len(drift) + 1 if n_types is None else positive_int(n_types, "n_types", minimum=len(drift) + 1)
    with np.errstate(divide="ignore"):
        C = float(np.min(drift**2 / (8 * (proxy + scale * drift / 2))))
    pairs = float(min(k, 10**300))  # beyond it a float ends, and the bound does not change
    decay = (1 - alpha) / alpha * math.exp(-float(drift.min()) * pairs / 2) + (types - 1) * math.exp(-C * pairs)
    return float(minimax + 5 * B_f**2 * decay)


def bayes_gap_rate(m: float, N: float, p: float, alpha: float, d_eff: float) -> float:
    """Return m^(-2 alpha / d_eff) + m / (p N) + 1 / N: Theorem 2 without its constants and logarithms.

    Only its growth in m, N and p means something. All arguments > 0.
    """
    m, N, p, alpha, d_eff = (
        in_range(v, name, 0.0, low_open=True)
        for v, name in ((m, "m"), (N, "N"), (p, "p"), (alpha, "alpha"), (d_eff, "d_eff"))
    )
    with np.errstate(over="ignore", divide="ignore"):
        return float(np.power(np.float64(m), -2 * alpha / d_eff) + np.divide(m, p * N) + np.divide(1, N))


def optimal_width(N: float, p: float, alpha: float, d_eff: float) -> float:
    """Return (p N)^(d_eff / (d_eff + 2 alpha)), the width that balances Theorem 2 up to constants. Arguments > 0."""
    N, p, alpha, d_eff = (
        in_range(v, name, 0.0, low_open=True) for v, name in ((N, "N"), (p, "p"), (alpha, "alpha"), (d_eff, "d_eff"))
    )
    with np.errstate(over="ignore"):
        return float(np.power(np.float64(p * N), d_eff / (d_eff + 2 * alpha)))


def shift_bound(B_M: float, B_f: float, L: float, lip: float, wasserstein: ArrayLike) -> float:
    """Bound the change of the Bayes gap under a shift of inputs (Theorem 4).

    (2 (B_M + B_f) / p) sum over k of (L + lip) W^(k).

    Parameters
    ----------
    B_M, B_f : float
        Bounds of the model and of f.
    L, lip : float
        Hoelder constants of the Bayes predictor and of the model (the paper's Lambda) in the prompt metric.
    wasserstein : array_like, shape (p,)
        W_1 between prompts of k pairs, k = 1 .. p.

    Returns
    -------
    float
        It says nothing of the posterior variance, which may change under the shift.

    Raises
    ------
    InvalidInput
    """
    W = np.atleast_1d(array(wasserstein, "wasserstein", ndim=(0, 1)))
    if not W.size or W.min() < 0:
        raise InvalidInput.argument("wasserstein", expected="distances >= 0", got=f"{W.tolist()}")
    B_M, B_f, L, lip = (
        in_range(v, name, 0.0, 1e100) for v, name in ((B_M, "B_M"), (B_f, "B_f"), (L, "L"), (lip, "lip"))
    )
    return float(2 * (B_M + B_f) * (L + lip) * (W / W.size).sum())


class Drift(NamedTuple):
    """Estimates, one a wrong type: drift D, variance proxy nu2, scale b (0: the log-ratios look sub-Gaussian)."""

    D: NDArray[Any]
    nu2: NDArray[Any]
    b: NDArray[Any]


def estimate_drift(
    mixture: Mixture, n: int = 4000, rng: RNGLike = None, *, true_type: int = 0, length: int = 8
) -> Drift:
    """Estimate what Theorem 3 needs from prompts of one type: estimates, not certificates.

    Parameters
    ----------
    mixture : Mixture
    n : int
        Prompts.
    rng : numpy.random.Generator, int or None
    true_type : int
        Index of the true type.
    length : int
        Steps looked at. D is the least mean drift over them; where it falls with the length (nested types), no D > 0
        serves for ever.

    Returns
    -------
    Drift
        nu2 is the largest variance over steps; b the inverse of the largest lambda up to which the empirical moment
        generating function stays below exp(lambda^2 nu2 / 2), with 5 % of slack, or 0 if it does wherever n draws can
        tell.

    Raises
    ------
    InvalidInput
    """
    checked_types(mixture)
    n, length = positive_int(n, "n", minimum=2), positive_int(length, "length")
    i = positive_int(true_type, "true_type", minimum=0, maximum=len(mixture.families) - 1)
    source = generator(rng)
    x = mixture.draw_inputs(n, length, source)
    y, _, _ = mixture.families[i].draw(x, source)
    logs = [p.log_predictive for p in mixture.components(x, y)]
    found = []
    for j, other in enumerate(logs):
        if j == i:
            continue
        Z = other - logs[i]
        mean = Z.mean(0)
        nu2 = float(Z.var(0).max())
        # Beyond sqrt(2 log n / nu2) the empirical function hangs on single draws.
        grid = np.linspace(0.05, 1.0, 20) * math.sqrt(2 * math.log(n) / max(nu2, 1e-300)) / 2
        fits = [
            all(
                np.log(np.mean(np.exp(s * lam * (Z - mean)), 0)).max() <= 1.05 * lam**2 * nu2 / 2 + 3 / math.sqrt(n)
                for s in (1, -1)
            )
            for lam in grid
        ]
        b = 0.0 if all(fits) else 1 / grid[max(0, fits.index(False) - 1)]
        found.append((float(-mean.max()), nu2, float(b)))
    return Drift(*(np.array(column) for column in zip(*found)))


class Collision(NamedTuple):
    """Two prompts that mean pooling cannot tell apart: probabilities, Bayes means, best shared answer, and gap."""

    p1: Fraction
    p2: Fraction
    mean1: Fraction
    mean2: Fraction
    shared: Fraction
    gap: Fraction


def collision_example() -> Collision:
    """Compute, in exact fractions, a Bayes gap that no uniform-attention model escapes.

    f = +1 or -1 with equal odds, x = 0, noise -2, 0, 2 with odds 1/4, 1/2, 1/4, p = 2. The prompts {1} and {1, 1} have
    the same pooled vector for every feature map, but different Bayes means; so the gap of any such model is at least
    `gap`, although the bound of Theorem 2 tends to zero.
    """
    noise = {-2: Fraction(1, 4), 0: Fraction(1, 2), 2: Fraction(1, 4)}
    odds, means = [], []
    for k in (1, 2):
        total = weighed = Fraction(0)
        for f, draws in product((1, -1), product(noise, repeat=k)):
            if all(f + e == 1 for e in draws):
                weight = Fraction(1, 2) * math.prod(noise[e] for e in draws)
                total += weight
                weighed += f * weight
        odds.append(total)
        means.append(weighed / total)
    shared = (odds[0] * means[0] + odds[1] * means[1]) / (odds[0] + odds[1])
    gap = sum((w * (m - shared) ** 2 for w, m in zip(odds, means)), Fraction(0)) / 2
    return Collision(odds[0], odds[1], means[0], means[1], shared, gap)
