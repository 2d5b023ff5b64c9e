"""The claim on communication: two gloo processes train one net, on averaged gradients and on exchanged signs."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict
from torch.multiprocessing.spawn import spawn

WORKERS = 2
# A net of 0.84 million entries. A block sends four bytes beside its signs, so that bytes saved depend on the rows'
# length: 32 / (1 + 32 / 256) = 28.4 for the shortest here. Rows of 64 save 21 times, those of large models 31.
WIDTH, LAYERS, HEADS = 256, 1, 4
RATE = 2e-3  # AdamW's best of 1e-3, 2e-3, 3e-3 and 5e-3 for this net
HELD_OUT_WINDOWS = 128
SMOKE_STEPS = 8


def run_wire(context: Context) -> Evidence:
    """Bytes that a process sends in a step, read from its sockets, and the losses."""
    steps = SMOKE_STEPS if context.scale is Scale.SMOKE else 150
    with context.progress.task("two processes", total=1) as task, tempfile.TemporaryDirectory() as folder:
        # Processes of their own, started by spawn: an executor's worker cannot be two ranks.
        spawn(_worker, (folder, steps), nprocs=WORKERS)
        found: dict[str, dict[str, Any]] = json.loads((Path(folder) / "0.json").read_text(encoding="utf-8"))
        task.advance()
    base = found["gradients"]
    gap = {name: 100 * (run["loss"] / base["loss"] - 1) for name, run in found.items()}
    rows = [(name, run["bytes"], base["bytes"] / run["bytes"], run["loss"], gap[name]) for name, run in found.items()]
    ratio = base["bytes"] / found["signs, mean"]["bytes"]
    return Evidence(
        headline=f"{ratio:.1f} times fewer bytes, loss {gap['signs, mean']:+.1f} % from that of averaged gradients",
        values={
            "ratio": ratio,
            "gap": gap["signs, mean"],
            "vote_gap": gap["signs, vote"],
            "identical": float(all(run["identical"] for run in found.values())),
        },
        tables=(
            Table(
                "A step of two workers",
                ("exchange", "bytes sent by a worker", "times fewer", "held-out loss", "above averaged gradients, %"),
                rows,
                # Retransmissions are in the count.
                timed=("bytes sent by a worker", "times fewer"),
            ),
        ),
        series=(
            Series(
                "Training on kjv with two workers",
                "step",
                "loss of a worker's batch, nats a byte",
                {n: ([float(i) for i in range(steps)], r["losses"]) for n, r in found.items()},
            ),
        ),
        settings={
            "workers": WORKERS,
            "steps": steps,
            "rate": RATE,
            "batch a worker": 6,
            "optimizer": "BAS",
            "net": f"byte GPT, width {WIDTH}, {LAYERS} layer, {base['parameters']} parameters",
        },
        timed=frozenset({"ratio", "headline"}),
    )


def accept_wire(evidence: Evidence) -> Verdict:
    """At most a 28th of the bytes, a loss within 1 %, and replicas identical bit for bit."""
    v = evidence.values
    text = (
        f"{v['ratio']:.1f} times fewer bytes than averaging gradients, loss {v['gap']:+.1f} % "
        f"(vote {v['vote_gap']:+.1f} %), replicas {'identical' if v['identical'] else 'differ'}"
    )
    ok = v["ratio"] >= 28 and v["gap"] <= 1 and v["identical"] == 1
    return Verdict.holds(text) if ok else Verdict.does_not_hold(text + " (asked: 28 times, 1 %)")


def _worker(rank: int, folder: str, steps: int) -> None:
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORKERS)
    runs = {"gradients": None, "signs, mean": "mean", "signs, vote": "vote"}
    found: dict[str, Any] = {name: _train(rank, aggregate, steps) for name, aggregate in runs.items()}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _train(rank: int, aggregate: str | None, steps: int) -> dict[str, Any]:
    import torch.distributed as dist
    from lemmata_core import testbeds
    from torch.nn.parallel import DistributedDataParallel

    from optim_bas.exchange import SignExchange, local_gradients
    from optim_bas.optimizer import BAS
    from optim_bas.wire import settled_bytes_sent

    problem = testbeds.text("kjv", batch=6, width=WIDTH, layers=LAYERS, heads=HEADS)
    inputs, targets = problem.held_out
    problem = replace(problem, held_out=(inputs[:HELD_OUT_WINDOWS], targets[:HELD_OUT_WINDOWS]))
    model = DistributedDataParallel(problem.model(0))
    exchange = None if aggregate is None else SignExchange(aggregate=aggregate)
    if exchange is not None:
        local_gradients(model)
    optimizer = BAS(
        model.parameters(),
        lr=RATE,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        exchange=exchange,
        fused=None if steps > 8 else False,
    )
    batches = torch.Generator().manual_seed(1000 + rank)
    losses: list[float] = []
    before = 0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * testbeds.schedule(step, steps)
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
        "bytes": sent / max(1, steps - 1),
        "loss": problem.evaluate(model.module).loss,
        "losses": losses,
        "parameters": flat.numel(),
        "identical": bool(torch.equal(others[0], others[1])),
    }
