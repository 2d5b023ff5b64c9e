"""Bayes predictions for every prefix of a prompt: sequential updates against a solve a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import numpy as np
from icl_theory import LinearGaussian
from lemmata_core.executor import one_thread
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired

DIM, PAIRS, NOISE = 20, 41, 0.5


def batched_solves(x, y):
    """One batched ridge solve a prefix, as public code for in-context regression does."""
    n, length, d = x.shape
    means = np.zeros((n, length))
    for k in range(1, length):
        A = x[:, :k].transpose(0, 2, 1) @ x[:, :k] + NOISE**2 * np.eye(d)
        b = np.einsum("nkd,nk->nd", x[:, :k], y[:, :k])
        means[:, k] = np.einsum("nd,nd->n", np.linalg.solve(A, b[..., None])[..., 0], x[:, k])
    return means


def ridge_refits(x, y):
    from sklearn.linear_model import Ridge

    means = np.zeros(y.shape)
    for i in range(len(x)):
        for k in range(1, x.shape[1]):
            means[i, k] = Ridge(alpha=NOISE**2, fit_intercept=False).fit(x[i, :k], y[i, :k]).predict(x[i, k : k + 1])[0]
    return means


def run(progress: Progress) -> Sequence[Ratio]:
    family = LinearGaussian(DIM, NOISE)
    prompts = family.sample(256, PAIRS, 0)
    x, y = prompts.x, prompts.y
    few = x[:2], y[:2]
    ratios = []
    with one_thread(), progress.task("Bayes prefixes", 2) as task:
        np.testing.assert_allclose(family.predict(x, y).mean, batched_solves(x, y), rtol=1e-8, atol=1e-10)
        timing = paired(lambda: family.predict(x, y), lambda: batched_solves(x, y), repeats=9)
        case = f"means (and variances, evidence) of {PAIRS} prefixes, d = {DIM}"
        ratios.append(Ratio.of(case, "numpy batched solve", metadata.version("numpy"), timing, 1 / 15, 1 / 20))
        task.advance()
        np.testing.assert_allclose(family.predict(*few).mean, ridge_refits(*few), rtol=1e-8, atol=1e-10)
        # Per prompt on either side: ours needs many to be measured, scikit-learn but two.
        timing = paired(lambda: family.predict(x, y), lambda: ridge_refits(*few), repeats=5)
        scale = len(few[0]) / len(x)
        ratios.append(
            Ratio(
                f"{case}, a prompt", "scikit-learn Ridge a prefix", metadata.version("scikit-learn"),
                timing.ratio * scale, timing.low * scale, timing.high * scale, None, 1 / 1000,
            )
        )  # fmt: skip
        task.advance()
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("icl-theory/bayes-prefixes", run),)
