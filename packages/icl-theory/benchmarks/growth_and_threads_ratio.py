"""How times grow with sizes, and what a second thread gives: each against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import torch
from icl_theory import LinearGaussian, MambaICL, PatternBank, PromptSpec, selective_scan, tasks_all
from icl_theory.pattern_engine import PatternEngine
from icl_theory.prompts import draw_coefficients
from icl_theory.training import weights_of
from lemmata_core.executor import one_thread
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired

# Exponents of growth within 0.1, as what doubling a size multiplies the time by over 2^exponent.
AIM = 2**0.1
BANK = PatternBank()


def scan(batch: int, length: int, channels: int = 64, states: int = 16) -> Callable[[], object]:
    g = torch.Generator().manual_seed(0)
    u, delta = torch.randn(batch, length, channels, generator=g), torch.rand(batch, length, channels, generator=g)
    A = -torch.rand(channels, states, generator=g) - 0.1
    B, C = torch.randn(2, batch, length, states, generator=g)
    args = [t.requires_grad_() for t in (u, delta, A, B, C)]
    return lambda: torch.autograd.grad(selective_scan(*args).sum(), args)


def model(length: int) -> Callable[[], object]:
    spec = PromptSpec(length=length)
    found = draw_coefficients(BANK, tasks_all(6), spec, 512, np.random.default_rng(0))
    engine, weights = PatternEngine(BANK, spec), weights_of(MambaICL(BANK.d))
    return lambda: engine.run(weights, found, True)


def bayes(dim: int, length: int) -> Callable[[], object]:
    family = LinearGaussian(dim)
    prompts = family.sample(64, length, 0)
    return lambda: family.predict(prompts.x, prompts.y)


GROWTH: dict[str, tuple[Callable[..., Callable[[], object]], tuple[Any, ...], tuple[Any, ...], int]] = {
    "scan, forward and backward, length 2048 over 2 x length 1024": (scan, (2, 2048), (2, 1024), 2),
    "one-layer Mamba, forward and backward, length 80 over 2 x length 40": (model, (80,), (40,), 2),
    "Bayes prefixes, d = 64 over 4 x d = 32": (bayes, (64, 40), (32, 40), 4),
    "Bayes prefixes, 160 pairs over 2 x 80 pairs, d = 20": (bayes, (20, 160), (20, 80), 2),
}


def run(progress: Progress) -> Sequence[Ratio]:
    version, ratios = metadata.version("icl-theory"), []
    with one_thread():
        for case, (made, large, small, factor) in progress.track(GROWTH.items(), "growth"):
            t = paired(made(*large), made(*small), repeats=15, warmup=2)
            found = (t.ratio / factor, t.low / factor, t.high / factor)
            ratios.append(Ratio(case, "icl-theory itself", version, *found, None, AIM))
    threads = torch.get_num_threads()

    def on(count: int, step: Callable[[], object]) -> None:
        torch.set_num_threads(count)
        step()

    try:
        for shape, repeats, aim in (((8, 512, 128), 15, 1.0), ((8, 2048, 512), 7, 1 / 1.6)):
            step = scan(*shape)
            timing = paired(lambda s=step: on(2, s), lambda s=step: on(1, s), repeats=repeats, warmup=2)
            case = f"scan on two threads, shape {(*shape, 16)}"
            ratios.append(Ratio.of(case, "icl-theory on one", version, timing, None, aim))
    finally:
        torch.set_num_threads(threads)
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("icl-theory/growth-and-threads", run),)
