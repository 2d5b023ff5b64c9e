"""The selective scan, forward and backward on one thread, against mambapy's parallel scan."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import torch
from icl_theory import selective_scan
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired

# batch, length, channels, states; bar and aim as ours / mambapy
CASES = {(8, 64, 64, 16): (1 / 5, 1 / 10), (4, 256, 128, 16): (1 / 5, 1 / 6), (2, 1024, 64, 16): (1 / 5, 1 / 6)}


def inputs(batch: int, length: int, channels: int, states: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    u, delta = torch.randn(batch, length, channels, generator=g), torch.rand(batch, length, channels, generator=g)
    A = -torch.rand(channels, states, generator=g) - 0.1
    B, C = torch.randn(2, batch, length, states, generator=g)
    return [t.requires_grad_() for t in (u, delta, A, B, C)]


def ours(args: list[torch.Tensor]) -> torch.Tensor:
    return selective_scan(*args)


def mambapy(args: list[torch.Tensor]) -> torch.Tensor:
    from mambapy.pscan import pscan

    u, delta, A, B, C = args
    # As mambapy's MambaBlock.selective_scan has it.
    hs = pscan(torch.exp(delta.unsqueeze(-1) * A), delta.unsqueeze(-1) * B.unsqueeze(2) * u.unsqueeze(-1))
    return (hs @ C.unsqueeze(-1)).squeeze(3)


def step(function, args):
    y = function(args)
    torch.autograd.grad(y.sum(), args)
    return y


def run(progress: Progress) -> Sequence[Ratio]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ratios = []
    try:
        for shape, (bar, aim) in progress.track(CASES.items(), "selective scan"):
            args = inputs(*shape)
            torch.testing.assert_close(ours(args), mambapy(args), rtol=1e-3, atol=1e-3)
            timing = paired(lambda a=args: step(ours, a), lambda a=args: step(mambapy, a), repeats=9, warmup=2)
            case = f"forward and backward, shape {shape}"
            ratios.append(Ratio.of(case, "mambapy pscan", metadata.version("mambapy"), timing, bar, aim))
    finally:
        torch.set_num_threads(threads)
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("icl-theory/selective-scan", run),)
