"""The claim on communication: two gloo processes train one net, on averaged gradients and on exchanged signs.

A block sends four bytes beside its signs, so that the bytes saved depend on the rows' length d: 32 / (1 + 32 / d). They
are measured on matrices of GPT-2 (rows of 768), and beside them on the net that is trained, whose rows of 64 save less.
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
# Attention's two matrices of one block of GPT-2, 2.4 million entries.
GPT2_MATRICES = [(2304, 768), (768, 768)]
GRADIENTS, MEAN, VOTE = "gradients", "signs, mean", "signs, vote"
AGGREGATES = {GRADIENTS: None, MEAN: "mean", VOTE: "vote"}
SMOKE_STEPS = 15


@dataclass(frozen=True)
class Net:
    """A byte GPT, and AdamW's best learning rate for it."""

    width: int
    layers: int
    heads: int
    rate: float
    windows: int  # held-out windows that are scored


# The net of the other claims, and one of 0.84 million entries whose shortest rows have 256.
SMALL = Net(64, 2, 2, 5e-3, 800)
WIDE = Net(256, 1, 4, 2e-3, 128)


@dataclass(frozen=True)
class Run:
    """One training run of both workers."""

    net: Net
    exchange: str
    seed: int
    steps: int


def runs_of(scale: Scale) -> list[Run]:
    """Three seeds of the small net from scale laptop on; at scale full of the wide one too. The vote once a net."""
    steps = SMOKE_STEPS if scale is Scale.SMOKE else 150
    nets = (SMALL, WIDE) if scale is Scale.FULL else (SMALL,)
    seeds = (0,) if scale is Scale.SMOKE else (0, 1, 2)
    return [
        Run(net, name, seed, steps)
        for net in nets
        for seed in seeds
        for name in AGGREGATES
        if name != VOTE or seed == 0
    ]


def run_wire(context: Context) -> Evidence:
    """Bytes that a process sends in a step, read from its sockets, and the losses."""
    runs = runs_of(context.scale)
    with context.progress.task("two processes", total=1) as task, tempfile.TemporaryDirectory() as folder:
        _run_both(context, folder, runs)
        answer = json.loads((Path(folder) / "0.json").read_text(encoding="utf-8"))
        task.advance()
    sizes: dict[str, float] = answer["bytes"]
    found: dict[Run, dict[str, Any]] = dict(zip(runs, answer["runs"]))
    ratio = sizes[GRADIENTS] / sizes[MEAN]
    values = {
        "ratio": ratio,
        "trained_ratio": _ratio(found, SMALL, MEAN),
        "gap": fmean(_gaps(found, SMALL, MEAN)),
        "vote_gap": fmean(_gaps(found, SMALL, VOTE)),
        "identical": float(all(run["identical"] for run in found.values())),
    }
    first = [(run, result) for run, result in found.items() if run.seed == 0 and run.net == SMALL]
    return Evidence(
        headline=f"{ratio:.1f} times fewer bytes on rows of 768 ({values['trained_ratio']:.1f} on the trained net's of "
        f"64), loss {values['gap']:+.1f} % from that of averaged gradients",
        values=values,
        tables=(
            Table(
                "A step of two workers, matrices of GPT-2",
                ("exchange", "bytes sent by a worker", "times fewer"),
                [(name, size, sizes[GRADIENTS] / size) for name, size in sizes.items()],
                # Retransmissions are in the count.
                timed=("bytes sent by a worker", "times fewer"),
            ),
            _losses(found),
        ),
        series=(
            Series(
                "Training on kjv with two workers",
                "step",
                "loss of a worker's batch, nats a byte",
                {run.exchange: ([float(i) for i in range(run.steps)], result["losses"]) for run, result in first},
            ),
        ),
        settings={
            "workers": WORKERS,
            "steps": runs[0].steps,
            "seeds": sorted({run.seed for run in runs}),
            "batch a worker": 6,
            "optimizer": "BAS",
            "nets": [asdict(net) for net in dict.fromkeys(run.net for run in runs)],
        },
        timed=frozenset({"ratio", "trained_ratio", "headline"}),
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


def _of(found: dict[Run, dict[str, Any]], net: Net, exchange: str) -> list[dict[str, Any]]:
    return [result for run, result in found.items() if (run.net, run.exchange) == (net, exchange)]


def _gaps(found: dict[Run, dict[str, Any]], net: Net, exchange: str) -> list[float]:
    """By how many per cent a loss is above that of averaged gradients, one a seed."""
    pairs = zip(_of(found, net, exchange), _of(found, net, GRADIENTS))
    return [100 * (ours["loss"] / base["loss"] - 1) for ours, base in pairs]


def _ratio(found: dict[Run, dict[str, Any]], net: Net, exchange: str) -> float:
    return float(_of(found, net, GRADIENTS)[0]["bytes"] / _of(found, net, exchange)[0]["bytes"])


def _losses(found: dict[Run, dict[str, Any]]) -> Table:
    rows = []
    for net in dict.fromkeys(run.net for run in found):
        for name in AGGREGATES:
            gaps = _gaps(found, net, name)
            loss = fmean(result["loss"] for result in _of(found, net, name))
            text = ", ".join(f"{gap:+.2f}" for gap in gaps)
            rows.append((net.width, name, _ratio(found, net, name), loss, fmean(gaps), text))
    columns = ("width", "exchange", "times fewer bytes", "held-out loss", "above averaged gradients, %", "each seed")
    return Table("Bytes and loss of the nets that were trained", columns, rows, timed=("times fewer bytes",))


def accept_wire(evidence: Evidence) -> Verdict:
    """At most a 28th of the bytes on rows of 768, a loss within 1 %, and replicas identical bit for bit."""
    v = evidence.values
    text = (
        f"{v['ratio']:.1f} times fewer bytes than averaging gradients on GPT-2's rows of 768, {v['trained_ratio']:.1f} "
        f"on the trained net's rows of 64; loss {v['gap']:+.1f} % (vote {v['vote_gap']:+.1f} %), replicas "
        f"{'identical' if v['identical'] else 'differ'}"
    )
    ok = v["ratio"] >= 28 and v["gap"] <= 1 and v["identical"] == 1
    return Verdict.holds(text) if ok else Verdict.does_not_hold(text + " (asked: 28 times, 1 %)")


def _worker(rank: int, folder: str, runs: list[Run]) -> None:
    import torch.distributed as dist

    from optim_bas.wire import bytes_of_a_step

    torch.set_num_threads(1)
    # A rank that fails must not leave the other waiting.
    patience = timedelta(seconds=120)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORKERS, timeout=patience)
    trained = [_train(rank, run) for run in runs]
    sizes = {name: bytes_of_a_step(GPT2_MATRICES, how or "all_reduce") for name, how in AGGREGATES.items()}
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
    problem = replace(problem, held_out=(inputs[: net.windows], targets[: net.windows]))
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
