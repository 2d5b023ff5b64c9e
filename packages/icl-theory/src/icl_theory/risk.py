"""Where a predictor's risk comes from: the gap to Bayes, and what Bayes cannot know (arXiv 2510.10981, Theorem 1)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, Table
from lemmata_core.check import array, positive_int
from lemmata_core.rng import spawn

from icl_theory.bayes.family import Family
from icl_theory.bayes.mixture import checked_types
from icl_theory.estimates import Estimate, Moments

if TYPE_CHECKING:
    from lemmata_core.progress import Progress
    from lemmata_core.rng import RNGLike
    from numpy.typing import NDArray

    from icl_theory.bayes.mixture import Mixture

Predictor = Callable[[Any, Any], Any]
QUANTITIES = ("risk", "risk_naive", "bayes_gap", "posterior_variance", "identity_gap")
# Prompts a task: fixed, so that the draws do not depend on the executor.
CHUNK = 1024


@dataclass(frozen=True)
class RiskReport:
    """The risk of a predictor M against noise-free targets f, averaged over k = 1 .. length - 1, and its parts.

    Attributes
    ----------
    risk : Estimate
        bayes_gap + posterior_variance, prompt by prompt: the same mean as `risk_naive`, usually with less noise.
    risk_naive : Estimate
        Mean of (M - f)^2.
    bayes_gap : Estimate
        Mean of (M - E[f | prompt])^2.
    posterior_variance : Estimate
        Mean of the exact Var(f | prompt).
    identity_gap : Estimate
        Mean of (M - f)^2 - (M - E f)^2 - Var f: zero by Theorem 1; `identity_gap.z` is its z score.
    per_k : Table
        A row for each k: the five means, each followed by its standard error, and the z score of the identity.
    n, length : int
        Standard errors are over the n prompts; the k of one prompt are dependent and averaged first.
    """

    risk: Estimate
    risk_naive: Estimate
    bayes_gap: Estimate
    posterior_variance: Estimate
    identity_gap: Estimate
    per_k: Table
    n: int
    length: int


def call_model(model: Predictor, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the model's predictions at k = 1 .. length - 1 as float64.

    Modules get float32 tensors and no gradient, in evaluation mode; other callables float64 arrays.
    """
    import torch

    from icl_theory.modes import measuring

    if isinstance(model, torch.nn.Module):
        place = next(model.parameters(), torch.zeros(1))
        with measuring(model):
            out = model(*(torch.from_numpy(np.asarray(a)).to(place) for a in (x, y))).double().cpu().numpy()
    else:
        out = model(x.copy(), y.copy())
    return array(out, "model(x, y)", shape=(y.shape[0], y.shape[1] - 1, *np.shape(out)[2:]), finite=False)


def _part(
    model: Predictor, family: Family, n: int, length: int, rng: np.random.Generator
) -> tuple[Moments, Moments, int]:
    prompts = family.sample(n, length, rng)
    posterior = family.posterior(prompts)
    m, v, f = (a[:, 1:] for a in (posterior.mean, posterior.var, prompts.f))
    out = call_model(model, prompts.x, prompts.y)
    if out.shape != f.shape:
        raise InvalidInput.argument("model(x, y)", expected=f"shape {f.shape}", got=f"shape {out.shape}")
    naive, gap = np.square(out - f), np.square(out - m)
    if f.ndim == 3:
        naive, gap, v = naive.sum(-1), gap.sum(-1), v.sum(-1)
    stacked = np.stack([gap + v, naive, gap, v, naive - gap - v], -1)
    whole, each = Moments(), Moments()
    whole.add(stacked.mean(1))
    each.add(stacked)
    return whole, each, int((~np.isfinite(out)).any(axis=tuple(range(1, out.ndim))).sum())


def decompose(
    model: Predictor,
    family: Family,
    n: int,
    length: int,
    rng: RNGLike = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> RiskReport:
    """Estimate a predictor's risk, its gap to the Bayes predictor, and the posterior variance.

    Parameters
    ----------
    model : nn.Module or callable
        Called as ``model(x, y)`` with x (n, length, dim) and y (n, length); returns predictions of ``f[:, k]`` at
        k = 1 .. length - 1, shape (n, length - 1), each from the first k pairs and ``x[:, k]``. Modules get float32
        tensors without gradients, other callables float64 arrays.
    family : Family
        Whose prompts, and whose exact predictor.
    n : int
        Prompts, >= 2.
    length : int
        Pairs in a prompt, >= 2.
    rng : numpy.random.Generator, int or None
        The draws do not depend on the executor.
    executor : concurrent.futures.Executor, optional
        For a process pool, `model` and `family` must be picklable.
    progress : lemmata_core.progress.Progress, optional

    Returns
    -------
    RiskReport

    Raises
    ------
    InvalidInput
    """
    if not isinstance(family, Family):
        raise InvalidInput.argument("family", expected="a task family", got=family)
    if not callable(model):
        raise InvalidInput.argument("model", expected="a callable model(x, y)", got=model)
    n, length = positive_int(n, "n", minimum=2), positive_int(length, "length", minimum=2)
    sizes = [min(CHUNK, n - start) for start in range(0, n, CHUNK)]
    jobs = [(model, family, size, length, child) for size, child in zip(sizes, spawn(rng, len(sizes)))]
    parts = executor.map(_part, *zip(*jobs)) if executor else map(_part, *zip(*jobs))
    if progress:
        parts = progress.track(parts, "prompts", len(jobs))
    whole, each, bad = Moments(), Moments(), 0
    for one, many, count in parts:
        whole.merge(one)
        each.merge(many)
        bad += count
    found = [Estimate.of(float(whole.mean[i]), float(whole.stderr[i]), n, bad) for i in range(5)]
    columns = ["k", *(name + tail for name in QUANTITIES for tail in ("", "_stderr")), "identity_z"]
    rows = []
    for k in range(length - 1):
        here = [each.estimate((k, i)) for i in range(5)]
        rows.append((k + 1, *(number for e in here for number in (e.value, e.stderr)), here[4].z))
    per_k = Table("Risk after k pairs", tuple(columns), tuple(rows))
    return RiskReport(found[0], found[1], found[2], found[3], found[4], per_k, n, length)


@dataclass(frozen=True)
class Fit:
    """A straight line through logarithms: value ~ scale * exp(-rate k), or scale * k^-rate.

    Attributes
    ----------
    scale, rate, r2 : float
    """

    scale: float
    rate: float
    r2: float


@dataclass(frozen=True)
class TypeStudy:
    """How prompts of one true type are told from the others.

    Attributes
    ----------
    type : int
    k : ndarray, shape (length,)
        0 .. length - 1.
    wrong : ndarray, shape (length,)
        E[1 - pi_true] after k pairs.
    wrong_stderr : ndarray, shape (length,)
    excess : ndarray, shape (length,)
        Mean of the mixture's posterior variance less the true type's own.
    exponential, power : Fit
        Of `wrong`, over k >= 4.
    """

    type: int
    k: NDArray[Any]
    wrong: NDArray[Any]
    wrong_stderr: NDArray[Any]
    excess: NDArray[Any]
    exponential: Fit
    power: Fit


@dataclass(frozen=True)
class MixtureStudy:
    """Forgetting of wrong types, one `TypeStudy` a type; `all` averages them by the prior weights (type -1)."""

    types: tuple[TypeStudy, ...]
    all: TypeStudy
    n: int
    length: int


def fit_decay(k: NDArray[Any], value: NDArray[Any]) -> tuple[Fit, Fit]:
    """Fit exp(-rate k) and k^-rate through logarithms; points that are not positive are left out."""
    use = (value > 0) & (k > 0)
    fits = []
    for x in (k, np.log(np.maximum(k, 1e-300))):
        u, v = x[use], np.log(value[use])
        if len(u) < 3:
            fits.append(Fit(np.nan, np.nan, np.nan))
            continue
        slope, start = np.polyfit(u, v, 1)
        rest = v - (start + slope * u)
        spread = float(np.square(v - v.mean()).sum())
        fits.append(
            Fit(float(np.exp(start)), float(-slope), 1 - float(np.square(rest).sum()) / spread if spread else np.nan)
        )
    return fits[0], fits[1]


def mixture_study(mixture: Mixture, n: int, length: int, rng: RNGLike = None, *, fit_from: int = 4) -> MixtureStudy:
    """Measure how fast a mixture forgets wrong types (arXiv 2510.10981, Theorem 3).

    Parameters
    ----------
    mixture : Mixture
    n : int
        Prompts of each type.
    length : int
        Pairs in a prompt; k runs to length - 1.
    rng : numpy.random.Generator, int or None
    fit_from : int
        Least k of the fits.

    Returns
    -------
    MixtureStudy

    Raises
    ------
    InvalidInput
    """
    checked_types(mixture)
    n, length = positive_int(n, "n", minimum=2), positive_int(length, "length", minimum=2)
    k, studies = np.arange(length), []
    late = k >= positive_int(fit_from, "fit_from")
    for t, child in enumerate(spawn(rng, len(mixture.families))):
        wrong, excess = Moments(), Moments()
        for start in range(0, n, CHUNK):
            size = min(CHUNK, n - start)
            x = mixture.draw_inputs(size, length, child)
            y, _, _ = mixture.families[t].draw(x, child)
            both, own = mixture.predict(x, y), mixture.families[t].predict(x, y)
            assert both.weights is not None  # noqa: S101
            # Summed over the wrong types: 1 - pi would cancel.
            wrong.add(np.delete(both.weights, t, axis=-1).sum(-1))
            excess.add(both.var - own.var)
        fits = fit_decay(k[late], wrong.mean[late])
        studies.append(TypeStudy(t, k, wrong.mean, wrong.stderr, excess.mean, *fits))
    w = mixture.weights
    mean = sum(a * s.wrong for a, s in zip(w, studies))
    stderr = np.sqrt(sum((a * s.wrong_stderr) ** 2 for a, s in zip(w, studies)))
    extra = sum(a * s.excess for a, s in zip(w, studies))
    whole = TypeStudy(-1, k, mean, stderr, extra, *fit_decay(k[late], mean[late]))
    return MixtureStudy(tuple(studies), whole, n, length)
