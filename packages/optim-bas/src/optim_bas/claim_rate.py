"""The claim on convergence: the gradient norm on a noisy quadratic over the number of steps."""

from __future__ import annotations

import math
from statistics import fmean

import torch
from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict
from lemmata_core.timing import growth

from optim_bas.step import bas_step

ROWS, COLUMNS = 8, 32


def mean_gradient_norm(steps: int, seed: int) -> float:
    """Mean l1 norm of the true gradient over a run of BAS on an L-smooth quadratic with bounded noise.

    Parameters
    ----------
    steps : int
        T. The learning rate is 0.3 T^(-1/2), the batch T / 16 noisy gradients (at least one), the betas (0.9, 0.95).
    seed : int

    Returns
    -------
    float
        Divided by the number of entries.
    """
    generator = torch.Generator().manual_seed(seed)
    curvature = torch.rand(ROWS, COLUMNS, generator=generator) * 0.9 + 0.1
    theta = torch.randn(ROWS, COLUMNS, generator=generator)
    m, v = torch.zeros_like(theta), torch.zeros(ROWS)
    lr = 0.3 / math.sqrt(steps)
    deviation = 1.0 / math.sqrt(max(1.0, steps / 16))
    norms = []
    for t in range(1, steps + 1):
        gradient = curvature * theta
        norms.append(float(gradient.abs().mean()))
        # The mean of a batch of uniform noises is bounded; two of them stand for it.
        noise = torch.rand(2, ROWS, COLUMNS, generator=generator).sum(0) - 1
        grad = gradient + deviation * noise
        bas_step(theta, grad, m, v, t, lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    return fmean(norms)


def run_rate(context: Context) -> Evidence:
    """Mean gradient norms over growing runs, and the slope of their logarithms."""
    most = {Scale.SMOKE: 9, Scale.LAPTOP: 13, Scale.FULL: 15}[context.scale]
    seeds = range(1 if context.scale is Scale.SMOKE else 3)
    lengths = [1 << k for k in range(6, most + 1)]
    cases = [(steps, seed) for steps in lengths for seed in seeds]
    found = dict(
        zip(cases, context.progress.track(context.executor.map(mean_gradient_norm, *zip(*cases)), "rate", len(cases)))
    )
    means = [fmean(found[steps, seed] for seed in seeds) for steps in lengths]
    fitted = growth(lengths, means)
    rule = [means[0] * (steps / lengths[0]) ** -0.25 for steps in lengths]
    return Evidence(
        headline=f"mean gradient norm falls as T^({fitted.exponent:.2f})",
        values={"slope": fitted.exponent, "low": fitted.low, "high": fitted.high},
        tables=(Table("Mean l1 norm of the gradient over a run", ("T", "norm"), list(zip(lengths, means))),),
        series=(
            Series(
                "Convergence on a noisy quadratic",
                "steps T",
                "mean gradient norm",
                {"BAS": ([float(n) for n in lengths], means), "T^(-1/4)": ([float(n) for n in lengths], rule)},
                log_x=True,
                log_y=True,
            ),
        ),
        settings={"shape": f"{ROWS} x {COLUMNS}", "rate": "0.3 T^(-1/2)", "batch": "T/16", "seeds": list(seeds)},
    )


def accept_rate(evidence: Evidence) -> Verdict:
    """A slope of at most -0.22."""
    slope = evidence.values["slope"]
    text = f"slope {slope:.3f} (95 %: {evidence.values['low']:.3f} to {evidence.values['high']:.3f})"
    return Verdict.of(slope <= -0.22, text, asked="-0.22")
