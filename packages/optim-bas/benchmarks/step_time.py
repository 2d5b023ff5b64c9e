"""Time and memory of a step, one thread: over torch's fused AdamW, and over other optimizers that save memory."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from importlib import metadata

import torch
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, growth, paired
from optim_bas import BAS, state_bytes

FUSED = "torch.optim.AdamW(fused=True)"
ENTRIES = 1 << 22
# Most peers have no fast path on a CPU; a quarter of the entries says the same in a quarter of the time.
PEER_ENTRIES = 1 << 18

Params = list[torch.nn.Parameter]


def stepped(
    make: Callable[[Params], torch.optim.Optimizer], columns: int, entries: int = ENTRIES
) -> torch.optim.Optimizer:
    """An optimizer on one matrix with a gradient, stepped once."""
    generator = torch.Generator().manual_seed(0)
    param = torch.nn.Parameter(torch.randn(entries // columns, columns, generator=generator))
    param.grad = torch.randn(param.shape, generator=generator)
    with contextlib.redirect_stdout(io.StringIO()):
        optimizer = make([param])
        optimizer.step()
    return optimizer


def run_adamw(progress: Progress) -> Sequence[Ratio]:
    """Native and plain steps over fused AdamW, on rows of 512 and 2048."""
    torch.set_num_threads(1)
    kinds = {
        "native": ({"fused": True}, 1.2, 1.2),
        "native, look-ahead": ({"fused": True, "nesterov": True}, None, None),
        "native, rounded at random": ({"fused": True, "rounding": "stochastic"}, None, None),
        "plain torch": ({"fused": False}, 8.0, 8.0),
    }
    ratios = []
    cases = [(columns, name) for columns in (512, 2048) for name in kinds]
    for columns, name in progress.track(cases, "over fused AdamW"):
        keys, bar, aim = kinds[name]
        ours = stepped(lambda params, keys=keys: BAS(params, **keys), columns)
        peer = stepped(lambda params: torch.optim.AdamW(params, fused=True), columns)
        timing = paired(ours.step, peer.step, repeats=11 if keys["fused"] is False else 31, warmup=2)
        case = f"{name}, {ENTRIES // columns} rows of {columns}"
        ratios.append(Ratio.of(case, FUSED, torch.__version__, timing, bar=bar, aim=aim))
    return ratios


def peers() -> dict[str, tuple[str, Callable[[Params], torch.optim.Optimizer]]]:
    """Name, distribution and maker of each peer."""
    from bitsandbytes.optim import AdamW8bit, Lion8bit
    from lion_pytorch import Lion
    from pytorch_optimizer import SignSGD
    from torchao.optim import AdamW8bit as AOAdamW8bit
    from torchao.optim import AdamWFp8

    return {
        "AdamW(foreach=True)": ("torch", lambda params: torch.optim.AdamW(params, foreach=True)),
        "AdamWFp8": ("torchao", AdamWFp8),
        "AdamW8bit (torchao)": ("torchao", AOAdamW8bit),
        "AdamW8bit (bitsandbytes)": ("bitsandbytes", AdamW8bit),
        "Lion8bit": ("bitsandbytes", Lion8bit),
        "Lion": ("lion-pytorch", Lion),
        "SignSGD with momentum": ("pytorch-optimizer", SignSGD),
        "Gefen": ("gefen", _gefen),
    }


def _gefen(params: Params) -> torch.optim.Optimizer:
    from gefen import Gefen

    return Gefen(params)


def run_peers(progress: Progress) -> Sequence[Ratio]:
    """BAS's native step over each peer's, and bytes of state over each peer's and AdamW's.

    Bytes are counts, not times: low and high are the ratio itself.
    """
    torch.set_num_threads(1)
    ours = stepped(BAS, 512, PEER_ENTRIES)
    held = state_bytes(ours).per_parameter
    times, states = [], [_bytes(held, FUSED, "torch", 8.0, bar=1.03 / 8, aim=0.127)]
    for name, (distribution, make) in progress.track(list(peers().items()), "over other optimizers"):
        peer = stepped(make, 512, PEER_ENTRIES)
        timing = paired(ours.step, peer.step, repeats=5)
        times.append(Ratio.of(f"native, {name}", distribution, metadata.version(distribution), timing))
        states.append(_bytes(held, name, distribution, _stored(peer) / PEER_ENTRIES))
    return times + states


def _bytes(
    ours: float, name: str, distribution: str, theirs: float, bar: float | None = None, aim: float | None = None
) -> Ratio:
    case = f"state, {ours:.4f} bytes a parameter against {theirs:.4f}, {name}"
    ratio = ours / theirs
    return Ratio(case, distribution, metadata.version(distribution), ratio, ratio, ratio, bar=bar, aim=aim)


def run_growth(progress: Progress) -> Sequence[Ratio]:
    """The exponent of a native step's time over the number of entries, beyond the caches; 1 is linear."""
    torch.set_num_threads(1)
    sizes, seconds = [1 << k for k in (22, 23, 24)], []
    for entries in progress.track(sizes, "growth"):
        ours = stepped(BAS, 2048, entries)
        seconds.append(paired(ours.step, ours.step, repeats=9).a_seconds)
    found = growth(sizes, seconds)
    case = "native, exponent of the time over 2^22 to 2^24 entries"
    return [Ratio(case, "linear", "-", found.exponent, found.low, found.high, aim=1.05)]


def _stored(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all tensors in the state, those inside tensor subclasses too."""

    def size(value: object) -> int:
        if isinstance(value, torch.Tensor):
            inner = getattr(value, "__tensor_flatten__", None)
            if inner is not None:
                return sum(size(getattr(value, name)) for name in inner()[0])
            return value.numel() * value.element_size() if value.numel() > 1 else 0
        if isinstance(value, dict):
            return sum(size(v) for v in value.values())
        return sum(size(v) for v in value) if isinstance(value, (list, tuple)) else 0

    return sum(size(state) for state in optimizer.state.values())


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("optim-bas/step-time", run_adamw),
    Benchmark("optim-bas/peers", run_peers),
    Benchmark("optim-bas/growth", run_growth),
)
