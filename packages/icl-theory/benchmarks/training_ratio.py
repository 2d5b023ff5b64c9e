"""Training prompts a second, sampling included: the engine in the basis of patterns against a plain torch loop."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import torch
from icl_theory import GatedLinearICL, PatternBank, PromptSpec, tasks_all, train
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired

BANK, TASKS, SPEC = PatternBank(), tasks_all(6), PromptSpec()
STEPS, BATCH = 100, 256


def sample(generator):
    """Prompts of PromptSpec(), written with torch alone."""
    n, width = BATCH, SPEC.length + 1
    tasks = torch.from_numpy(TASKS)[torch.randint(len(TASKS), (n,), generator=generator)]
    sign = torch.randint(2, (n, width), generator=generator)
    which = torch.gather(tasks, 1, sign)
    x = RELEVANT[which]
    kappa = (2 * torch.rand(n, width, generator=generator) - 1) * SPEC.kappa_max
    x = x + kappa[..., None] * IRRELEVANT[torch.randint(BANK.n_irrelevant, (n, width), generator=generator)]
    spoilt = torch.rand(n, width, generator=generator) < SPEC.outlier_fraction
    spoilt[:, -1] = False
    v = OUTLIER[torch.randint(BANK.n_outlier, (n, width), generator=generator)]
    x = x + (SPEC.kappa_outlier * spoilt)[..., None] * v
    label = 1.0 - 2.0 * sign
    coin = 2.0 * torch.randint(2, (n, width), generator=generator) - 1
    y = torch.where(spoilt, coin, label)
    y[:, -1] = 0
    return torch.cat([x, y[..., None]], -1), label[:, -1]


RELEVANT, IRRELEVANT, OUTLIER = (
    torch.tensor(a, dtype=torch.float32) for a in (BANK.relevant, BANK.irrelevant, BANK.outlier)
)


def plain(gate: str) -> None:
    model = GatedLinearICL(BANK.d, gate=gate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        tokens, z = sample(generator)
        optimizer.zero_grad()
        torch.clamp(1 - z * model(tokens), min=0).mean().backward()
        optimizer.step()


def ours(gate: str) -> None:
    train(GatedLinearICL(BANK.d, gate=gate), BANK, TASKS, SPEC, steps=STEPS, batch=BATCH, lr=0.05)


def run(progress: Progress) -> Sequence[Ratio]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ratios = []
    try:
        for gate in progress.track(("mamba", "none"), "training"):
            timing = paired(lambda g=gate: ours(g), lambda g=gate: plain(g), repeats=7)
            ratios.append(
                Ratio.of(
                    f"training, gate {gate!r}, batch {BATCH}",
                    "plain torch loop",
                    metadata.version("torch"),
                    timing,
                    1 / 4,
                    1 / 4,
                )
            )
    finally:
        torch.set_num_threads(threads)
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("icl-theory/training", run),)
