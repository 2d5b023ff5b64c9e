"""Held-out loss over Gefen's, the nearest optimizer with a shared second moment; its CPU path is slow."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from importlib import metadata
from statistics import fmean

import torch
from lemmata_core import testbeds
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio
from optim_bas import BAS


def run(progress: Progress) -> Sequence[Ratio]:
    """400 steps on kjv at 5e-3, three seeds: the ratio of the mean losses, low and high those of single seeds."""
    from gefen import Gefen

    torch.set_num_threads(1)
    shared = {"lr": 5e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}
    problem = testbeds.problem("kjv")
    seeds = (0, 1, 2)
    losses: dict[str, list[float]] = {"BAS": [], "Gefen": []}
    cells = [(name, make, seed) for name, make in (("BAS", BAS), ("Gefen", Gefen)) for seed in seeds]
    for name, make, seed in progress.track(cells, "loss against Gefen"):
        with contextlib.redirect_stdout(io.StringIO()):
            history = testbeds.train(problem, lambda net, make=make: make(net.parameters(), **shared), 400, seed)
        losses[name].append(history.loss)
    ours, theirs = losses.values()
    each = [a / b for a, b in zip(ours, theirs)]
    case = f"loss, mean of {len(seeds)} seeds: {fmean(ours):.4f} against {fmean(theirs):.4f} nats a byte"
    ratio = fmean(ours) / fmean(theirs)
    return [Ratio(case, "gefen", metadata.version("gefen"), ratio, min(each), max(each), bar=1.0, aim=1.0)]


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("optim-bas/loss-against-gefen", run),)
