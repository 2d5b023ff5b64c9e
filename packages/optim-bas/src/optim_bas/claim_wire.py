"""The claim on communication: two gloo processes train one net, on averaged gradients and on exchanged signs.

A block sends four bytes beside its signs, so that the bytes saved depend on the rows' length d: 32 / (1 + 32 / d).
Bytes and loss are those of one net, whose rows have 256 entries and more; bytes alone are measured on longer and
shorter rows too.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict
from torch.multiprocessing.spawn import spawn

WORKERS = 2
# Attention's two matrices of one block of GPT-2, 2.4 million entries; and as many entries in short rows.
MATRICES = {"768, matrices of GPT-2": [(2304, 768), (768, 768)], "64": [(36_864, 64)]}
GRADIENTS, MEAN, VOTE = "gradients", "signs, mean", "signs, vote"
AGGREGATES = {GRADIENTS: None, MEAN: "mean", VOTE: "vote"}
SMOKE_STEPS = 4


@dataclass(frozen=True)
class Net:
    """A byte GPT, and the learning rate of all its runs."""

    width: int
    layers: int
    heads: int
    rate: float


# 0.84 million entries, whose shortest rows have 256; and at scale full the net of the other claims.
WIDE = Net(256, 1, 4, 2e-3)
SMALL = Net(64, 2, 2, 5e-3)


@dataclass(frozen=True)
class Run:
    """One training run of both workers."""

    net: Net
    exchange: str
    seed: int
    steps: int
    windows: int = 128  # held-out windows that are scored


def runs_of(scale: Scale) -> list[Run]:
    """Gradients beside signs on three seeds, for each length of training; the vote on one seed of the shortest."""
    lengths = {Scale.SMOKE: (SMOKE_STEPS,), Scale.LAPTOP: (20, 60), Scale.FULL: (20, 60, 250)}[scale]
    seeds, windows = ((0,), 16) if scale is Scale.SMOKE else ((0, 1, 2), 128)
    nets = (WIDE, SMALL) if scale is Scale.FULL else (WIDE,)
    return [
        Run(net, name, seed, steps, windows)
        for net in nets
        for steps in lengths
        for seed in seeds
        for name in AGGREGATES
        if name != VOTE or (seed == 0 and steps == lengths[0])
    ]


_Found = dict[Run, dict[str, Any]]


def run_wire(context: Context) -> Evidence:
    """Bytes that a process sends in a step, read from its sockets, and the losses."""
    runs = runs_of(context.scale)
    with context.progress.task("two processes", total=1) as task, tempfile.TemporaryDirectory() as folder:
        _run_both(context, folder, runs)
        answer = json.loads((Path(folder) / "0.json").read_text(encoding="utf-8"))
        task.advance()
    found: _Found = dict(zip(runs, answer["runs"]))
    lengths = sorted({run.steps for run in runs})
    gaps = {steps: _gaps(found, WIDE, MEAN, steps) for steps in lengths}
    values = {
        "ratio": min(_ratio(found, WIDE, MEAN, steps) for steps in lengths),
        **{f"gap_{steps}": fmean(each) for steps, each in gaps.items()},
        "vote_gap": _gaps(found, WIDE, VOTE, lengths[0])[0],
        "identical": float(all(run["identical"] for run in found.values())),
    }
    shown = "; ".join(f"{fmean(each):+.2f} % after {steps} steps ({_listed(each)})" for steps, each in gaps.items())
    first = [(run, result) for run, result in found.items() if run.seed == 0 and run.net == WIDE]
    return Evidence(
        headline=f"one net, width {WIDE.width}: {values['ratio']:.1f} times fewer bytes; loss from that of averaged "
        f"gradients {shown}",
        values=values,
        tables=(_losses(found), *_matrices(answer["bytes"])),
        series=(
            Series(
                f"Training on kjv with two workers, {lengths[-1]} steps",
                "step",
                "loss of a worker's batch, nats a byte",
                {
                    run.exchange: ([float(i) for i in range(run.steps)], result["losses"])
                    for run, result in first
                    if run.steps == lengths[-1]
                },
            ),
        ),
        settings={
            "workers": WORKERS,
            "steps": lengths,
            "seeds": sorted({run.seed for run in runs}),
            "batch a worker": 6,
            "optimizer": "BAS",
            "nets": [asdict(net) for net in dict.fromkeys(run.net for run in runs)],
        },
        timed=frozenset({"ratio", "headline"}),
    )


def _run_both(context: Context, folder: str, runs: list[Run]) -> None:
    """Both ranks: in this process and one of the executor's, which have torch loaded; else in two new ones."""
    import torch.distributed as dist

    host, process = context.executor.submit(_place).result()
    mine, own = _place()
    if host == mine and process != own and not dist.is_initialized():
        other = context.executor.submit(_worker, 1, folder, runs)
        _worker(0, folder, runs)
        other.result()
    else:  # a serial executor runs in this process, and a cluster's workers may have no way to it
        spawn(_worker, (folder, runs), nprocs=WORKERS)


def _place() -> tuple[str, int]:
    return platform.node(), os.getpid()


def _of(found: _Found, net: Net, exchange: str, steps: int) -> list[dict[str, Any]]:
    return [result for run, result in found.items() if (run.net, run.exchange, run.steps) == (net, exchange, steps)]


def _gaps(found: _Found, net: Net, exchange: str, steps: int) -> list[float]:
    """By how many per cent a loss is above that of averaged gradients, one a seed."""
    pairs = zip(_of(found, net, exchange, steps), _of(found, net, GRADIENTS, steps))
    return [100 * (ours["loss"] / base["loss"] - 1) for ours, base in pairs]


def _ratio(found: _Found, net: Net, exchange: str, steps: int) -> float:
    """How many times fewer bytes were sent a step, on the seed where that is least."""
    pairs = zip(_of(found, net, GRADIENTS, steps), _of(found, net, exchange, steps))
    return min(float(base["bytes"] / ours["bytes"]) for base, ours in pairs)


def _listed(gaps: list[float]) -> str:
    return ", ".join(f"{gap:+.2f}" for gap in gaps)


def _losses(found: _Found) -> Table:
    rows = []
    for net, name, steps in dict.fromkeys((run.net, run.exchange, run.steps) for run in found):
        gaps = _gaps(found, net, name, steps)
        loss = fmean(result["loss"] for result in _of(found, net, name, steps))
        rows.append((net.width, steps, name, _ratio(found, net, name, steps), loss, fmean(gaps), _listed(gaps)))
    columns = (
        "width",
        "steps",
        "exchange",
        "times fewer bytes",
        "held-out loss",
        "above averaged gradients, %",
        "seeds",
    )
    return Table("Bytes and loss of the nets that were trained", columns, rows, timed=("times fewer bytes",))


def _matrices(sizes: dict[str, dict[str, float]]) -> tuple[Table, ...]:
    """The bytes of a step by the length of rows; nothing at scale smoke."""
    if not sizes:
        return ()
    rows = [
        (length, name, size, found[GRADIENTS] / size) for length, found in sizes.items() for name, size in found.items()
    ]
    columns = ("entries a row", "exchange", "bytes sent by a worker", "times fewer")
    # A barrier's few bytes are in the count.
    return (Table("A step of two workers, 2.4 million entries", columns, rows, timed=columns[2:]),)


def accept_wire(evidence: Evidence) -> Verdict:
    """On one net: at most a 28th of the bytes, a loss within 1 % at every length, replicas identical bit for bit."""
    v = evidence.values
    gaps = {name.removeprefix("gap_"): gap for name, gap in v.items() if name.startswith("gap_")}
    text = (
        f"{v['ratio']:.1f} times fewer bytes than averaging gradients on the net that was trained; loss "
        + ", ".join(f"{gap:+.2f} % after {steps} steps" for steps, gap in gaps.items())
        + f" (vote {v['vote_gap']:+.2f} %), replicas {'identical' if v['identical'] else 'differ'}"
    )
    ok = v["ratio"] >= 28 and max(gaps.values()) <= 1 and v["identical"] == 1
    return Verdict.of(ok, text, asked="28 times, 1 %")


def _worker(rank: int, folder: str, runs: list[Run]) -> None:
    import torch.distributed as dist

    from optim_bas.wire import bytes_of_a_step

    torch.set_num_threads(1)
    # A rank that fails must not leave the other waiting.
    patience = timedelta(seconds=120)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORKERS, timeout=patience)
    trained = [_train(rank, run) for run in runs]
    quick = runs[0].steps == SMOKE_STEPS
    sizes = {
        length: {name: bytes_of_a_step(shapes, how or "all_reduce") for name, how in AGGREGATES.items()}
        for length, shapes in ({} if quick else MATRICES).items()
    }
    text = json.dumps({"runs": trained, "bytes": sizes})
    (Path(folder) / f"{rank}.json").write_text(text, encoding="utf-8")
    dist.destroy_process_group()


def _train(rank: int, run: Run) -> dict[str, Any]:
    import torch.distributed as dist
    from lemmata_core import testbeds
    from torch.nn.parallel import DistributedDataParallel

    from optim_bas.exchange import SignExchange, local_gradients
    from optim_bas.optimizer import BAS
    from optim_bas.wire import settled_bytes_sent

    net = run.net
    problem = testbeds.text("kjv", batch=6, width=net.width, layers=net.layers, heads=net.heads)
    inputs, targets = problem.held_out
    problem = replace(problem, held_out=(inputs[: run.windows], targets[: run.windows]))
    model = DistributedDataParallel(problem.model(run.seed))
    aggregate = AGGREGATES[run.exchange]
    exchange = None if aggregate is None else SignExchange(aggregate=aggregate)
    if exchange is not None:
        local_gradients(model)
    # For a few steps the kernel's compiler would take longer than the training.
    fused = None if run.steps > SMOKE_STEPS else False
    shared: dict[str, Any] = {"lr": net.rate, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": fused}
    optimizer = BAS(model.parameters(), **shared, exchange=exchange)
    batches = torch.Generator().manual_seed(1000 * (run.seed + 1) + rank)
    losses: list[float] = []
    before = 0
    for step in range(run.steps):
        for group in optimizer.param_groups:
            group["lr"] = net.rate * testbeds.schedule(step, run.steps)
        inputs, targets = problem.sample(batches)
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step == 0:  # the first compares the replicas
            before = settled_bytes_sent()
    sent = settled_bytes_sent() - before
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(flat) for _ in range(WORKERS)]
    dist.all_gather(others, flat)
    return {
        "bytes": sent / max(1, run.steps - 1),
        "loss": problem.evaluate(model.module).loss,
        "losses": losses,
        "identical": bool(torch.equal(others[0], others[1])),
    }
