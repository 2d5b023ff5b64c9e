"""A whole Mamba block, forward and backward on one thread, against transformers' MambaMixer on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import torch
from icl_theory import MambaBlock
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired

BATCH, LENGTH, WIDTH, STATES = 4, 256, 64, 16


def mixer(use_mambapy: bool):
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    config = MambaConfig(hidden_size=WIDTH, state_size=STATES, num_hidden_layers=1, use_mambapy=use_mambapy)
    torch.manual_seed(0)
    return MambaMixer(config, layer_idx=0).train()


def step(block, x):
    y = block(x)
    parameters = dict(sorted(block.named_parameters()))
    grads = torch.autograd.grad(y.square().sum(), list(parameters.values()))
    return y, grads


def run(progress: Progress) -> Sequence[Ratio]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ratios = []
    version = metadata.version("transformers")
    try:
        x = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
        cases = {"reference path": (False, 1 / 5, 1 / 20, 3), "mambapy path": (True, 1 / 5, None, 5)}
        for name, (use, bar, aim, repeats) in progress.track(cases.items(), "against transformers"):
            peer = mixer(use)
            ours = MambaBlock(WIDTH, STATES)
            ours.load_state_dict(peer.state_dict())
            (y, grads), (y2, grads2) = step(ours, x), step(peer, x)
            torch.testing.assert_close(y, y2, rtol=1e-3, atol=1e-5)
            for a, b in zip(grads, grads2):
                torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)
            timing = paired(lambda o=ours: step(o, x), lambda p=peer: step(p, x), repeats=repeats)
            case = f"block, forward and backward, shape {(BATCH, LENGTH, WIDTH, STATES)}"
            ratios.append(Ratio.of(case, f"transformers MambaMixer, {name}", version, timing, bar, aim))
    finally:
        torch.set_num_threads(threads)
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("icl-theory/mamba-block", run),)
