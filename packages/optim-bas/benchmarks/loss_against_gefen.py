"""Held-out loss over Gefen's, the nearest optimizer with a shared second moment; its CPU path takes minutes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from importlib import metadata

import torch
from lemmata_core import testbeds
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio
from optim_bas import BAS


def run(progress: Progress) -> Sequence[Ratio]:
    """400 steps on kjv at 5e-3, seed 0: a ratio of losses, so that low and high are the ratio itself."""
    from gefen import Gefen

    torch.set_num_threads(1)
    shared = {"lr": 5e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}
    problem = testbeds.problem("kjv")
    losses = []
    for make in progress.track([BAS, Gefen], "loss against Gefen"):
        with contextlib.redirect_stdout(io.StringIO()):
            losses.append(testbeds.train(problem, lambda net, make=make: make(net.parameters(), **shared), 400, 0).loss)
    ratio = losses[0] / losses[1]
    case = f"loss, {losses[0]:.4f} against {losses[1]:.4f} nats a byte"
    return [Ratio(case, "gefen", metadata.version("gefen"), ratio, ratio, ratio, bar=1.0, aim=1.0)]


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("optim-bas/loss-against-gefen", run),)
