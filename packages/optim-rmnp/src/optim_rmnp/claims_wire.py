"""The claim about the wire: two processes step one sharded matrix, and the kernel counts what each sends."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import Context, Evidence, Scale, Table, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

WIRE_SHAPE = (256, 512)


def run_sharding(context: Context) -> Evidence:
    """Two gloo processes step one sharded matrix; the kernel counts what each sends."""
    peers = context.scale is not Scale.SMOKE  # Muon's gathers take seconds, and are not the claim
    with tempfile.TemporaryDirectory(dir=context.workdir) as folder, context.progress.task("two processes", 1) as task:
        spawn = multiprocessing.get_context("spawn")
        results = [spawn.SimpleQueue() for _ in range(2)]
        workers = [spawn.Process(target=wire_worker, args=(rank, folder, peers, results[rank])) for rank in range(2)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join(240)
            codes = [worker.exitcode for worker in workers]
            if codes != [0, 0]:
                raise RuntimeError(f"the two processes ended with exit codes {codes}")
            sent = [queue.get() for queue in results]
        finally:
            for worker in workers:
                worker.kill()
        task.advance()
    rows, columns = WIRE_SHAPE
    cases = list(sent[0])
    table = Table(
        f"Bytes sent by one process for a {rows} x {columns} float32 matrix ({4 * rows * columns} bytes)",
        ("optimizer and placement", "bytes"),
        [(case, max(s[case] for s in sent)) for case in cases],
    )
    worst = {case: float(max(s[case] for s in sent)) for case in cases}
    return Evidence(
        headline=f"{worst['RMNP Shard(0)']:.0f} bytes with whole rows, {worst['RMNP Shard(1)']:.0f} with cut rows"
        + (f"; Muon {worst['Muon Shard(0)']:.0f}" if peers else ""),
        values={"whole": worst["RMNP Shard(0)"], "cut": worst["RMNP Shard(1)"], "rows": float(rows)},
        tables=(table,),
        settings={"processes": 2, "backend": "gloo", "shape": list(WIRE_SHAPE)},
    )


def wire_worker(rank: int, folder: str, peers: bool, result: Any) -> None:
    """One of the two processes: sends back bytes by case."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from optim_rmnp.optimizer import RMNP

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{Path(folder).as_posix()}/meet", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    sent = {}
    optimizers: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {"RMNP": RMNP}
    if peers:
        optimizers["Muon"] = torch.optim.Muon
    for name, make in optimizers.items():
        for dim in (0, 1):
            values = torch.randn(WIRE_SHAPE, generator=torch.Generator().manual_seed(0))
            param = torch.nn.Parameter(distribute_tensor(values, mesh, [Shard(dim)]))
            param.grad = distribute_tensor(values, mesh, [Shard(dim)])
            optimizer = make([param])
            optimizer.step()  # the first step may open connections
            sent[f"{name} Shard({dim})"] = bytes_of(optimizer.step)
    result.put(sent)
    dist.destroy_process_group()


def bytes_of(call: Callable[[], object]) -> int:
    """Bytes this process sends while `call` runs, other ranks running it too."""
    import torch.distributed as dist

    from optim_rmnp.wire import bytes_sent

    dist.barrier()
    time.sleep(0.2)  # until the barrier's own last message is out
    before = bytes_sent()
    call()
    time.sleep(0.2)
    after = bytes_sent()
    dist.barrier()
    return after - before


def accept_sharding(evidence: Evidence) -> Verdict:
    """Nothing for whole rows; at most 8 bytes a row for cut ones."""
    v = evidence.values
    text = f"whole rows: {v['whole']:.0f} bytes; cut rows: {v['cut']:.0f} bytes for {v['rows']:.0f} rows"
    ok = v["whole"] == 0 and v["cut"] <= 8 * v["rows"]
    return Verdict.of(ok, text, asked="0, and 8 a row")
