"""Time of a step over torch's fused AdamW, one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired
from optim_bas import BAS

PEER = "torch.optim.AdamW(fused=True)"
ENTRIES = 1 << 22


def stepper(make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer], columns: int) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    param = torch.nn.Parameter(torch.randn(ENTRIES // columns, columns, generator=generator))
    param.grad = torch.randn(param.shape, generator=generator)
    return make([param]).step


def run(progress: Progress) -> Sequence[Ratio]:
    """Measure native and plain steps on rows of 512 and 2048."""
    torch.set_num_threads(1)
    kinds = {
        "native": ({"fused": True}, 1.2, 1.2),
        "native, look-ahead": ({"fused": True, "nesterov": True}, None, None),
        "plain torch": ({"fused": False}, 8.0, 8.0),
    }
    ratios = []
    cases = [(columns, name) for columns in (512, 2048) for name in kinds]
    for columns, name in progress.track(cases, "step time"):
        keys, bar, aim = kinds[name]
        ours = stepper(lambda params, keys=keys: BAS(params, **keys), columns)
        peer = stepper(lambda params: torch.optim.AdamW(params, fused=True), columns)
        timing = paired(ours, peer, repeats=15, warmup=2)
        case = f"{name}, {ENTRIES // columns} rows of {columns}"
        ratios.append(Ratio.of(case, PEER, torch.__version__, timing, bar=bar, aim=aim))
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("optim-bas/step-time", run),)
