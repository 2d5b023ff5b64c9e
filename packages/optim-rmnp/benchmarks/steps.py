"""A step of RMNP against peers' steps, and its preconditioner against Newton-Schulz. One thread, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

import torch
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired
from optim_rmnp import RMNP, row_normalize

# Four GPT blocks of width 512: 12.6 million parameters.
SHAPES = [(1536, 512), (512, 512), (2048, 512), (512, 2048)] * 4
Maker = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def _lion(params):
    from lion_pytorch import Lion

    return Lion(params, lr=1e-4)


def _schedulefree(params):
    from schedulefree import AdamWScheduleFree

    optimizer = AdamWScheduleFree(params, lr=1e-3)
    optimizer.train()
    return optimizer


def _muon_optimizer(params):
    from muon import SingleDeviceMuon

    return SingleDeviceMuon(params, lr=0.02)


def _pytorch_optimizer(params):
    from pytorch_optimizer import Muon

    return Muon([{"params": params, "use_muon": True}])


def _heavyball(params):
    import heavyball

    heavyball.utils.compile_mode = None  # its default compiles for minutes on a CPU
    return heavyball.Muon(params, lr=1e-3)


TORCH = "torch"
# peer, distribution, maker, (bar, aim) for the native and for the plain path, repeats
PEERS: list[tuple[str, str, Maker, tuple[float | None, float | None], tuple[float | None, float | None], int]] = [
    ("torch.optim.AdamW(fused=True)", TORCH, lambda p: torch.optim.AdamW(p, fused=True), (0.80, 0.71), (2.0, 1.7), 15),
    (
        "torch.optim.AdamW(foreach=True)",
        TORCH,
        lambda p: torch.optim.AdamW(p, foreach=True),
        (None, 0.25),
        (1.0, 0.5),
        9,
    ),
    ("torch.optim.Muon", TORCH, torch.optim.Muon, (None, 0.01), (None, 0.02), 3),
    ("Lion", "lion-pytorch", _lion, (1.0, None), (1.0, None), 9),
    ("AdamWScheduleFree", "schedulefree", _schedulefree, (1.0, None), (1.0, None), 9),
    ("SingleDeviceMuon", "muon-optimizer", _muon_optimizer, (None, 0.01), (None, 0.02), 3),
    ("heavyball.Muon, not compiled", "heavyball", _heavyball, (None, 0.01), (None, 0.02), 3),
    ("pytorch_optimizer.Muon", "pytorch-optimizer", _pytorch_optimizer, (None, 0.01), (None, 0.02), 3),
]


def _optimizer(make: Maker) -> torch.optim.Optimizer:
    params = [torch.nn.Parameter(0.02 * torch.randn(shape)) for shape in SHAPES]
    for p in params:
        p.grad = torch.randn_like(p)
    return make(params)


def _step(optimizer: torch.optim.Optimizer) -> Callable[[], object]:
    # SingleDeviceMuon and others set gradients to None or change them: they are made once, and kept.
    grads = [[p, p.grad] for group in optimizer.param_groups for p in group["params"]]

    def call() -> None:
        optimizer.step()
        for p, g in grads:
            p.grad = g

    return call


def run_steps(progress: Progress) -> Sequence[Ratio]:
    """A step on 12.6 million parameters, native and plain, over a step of each peer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    ratios = []
    try:
        torch.manual_seed(0)
        ours = {"native": _step(_optimizer(lambda p: RMNP(p, fused=True)))}
        ours["plain"] = _step(_optimizer(lambda p: RMNP(p, fused=False)))
        for peer, distribution, make, native, plain, repeats in progress.track(PEERS, "steps against peers"):
            theirs = _step(_optimizer(make))
            version = metadata.version(distribution)
            for path, (bar, aim) in (("native", native), ("plain", plain)):
                timing = paired(ours[path], theirs, repeats=repeats, warmup=1)
                ratios.append(Ratio.of(f"{path} step, 12.6M parameters", peer, version, timing, bar, aim))
    finally:
        torch.set_num_threads(before)
    return ratios


def run_preconditioner(progress: Progress) -> Sequence[Ratio]:
    """Row normalisation over five Newton-Schulz steps in bfloat16, as `torch.optim.Muon` runs them."""
    from torch.optim import _muon

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    ratios = []
    shapes = [(128, 128), (256, 256), (512, 512), (768, 768), (1024, 1024), (3072, 768)]
    try:
        for m, n in progress.track(shapes, "preconditioners"):
            x = torch.randn(m, n, generator=torch.Generator().manual_seed(0))
            inner = max(1, 1_000_000 // x.numel())

            def ours(x=x, inner=inner):
                for _ in range(inner):
                    row_normalize(x)

            def theirs(x=x, inner=inner):
                for _ in range(inner):
                    _muon._zeropower_via_newtonschulz(x, (3.4445, -4.7750, 2.0315), 5, 1e-7)

            timing = paired(ours, theirs, repeats=7 if m < 768 else 3, warmup=1)
            bar = 0.01 if (m, n) == (512, 512) else None
            peer = "torch.optim.Muon's Newton-Schulz"
            version = metadata.version(TORCH)
            ratios.append(Ratio.of(f"row normalisation, {m} x {n}", peer, version, timing, bar, 0.002))
    finally:
        torch.set_num_threads(before)
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("optim-rmnp/step", run_steps),
    Benchmark("optim-rmnp/preconditioner", run_preconditioner),
)
