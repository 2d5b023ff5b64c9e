"""Bytes that this process has sent over its TCP connections, as the kernel counts them (Linux)."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys

# struct tcp_info of linux/tcp.h: the 64-bit counts tcpi_bytes_sent and tcpi_bytes_retrans. The first includes the
# second, which between processes of one machine depends on nothing but its load.
_COUNTS, _COUNTS_OFFSET = struct.Struct("=QQ"), 200


def bytes_sent() -> int:
    """Bytes sent so far over all open TCP connections of this process, those sent again not counted.

    Returns
    -------
    int

    Raises
    ------
    OSError
        On systems other than Linux 4.19 or newer.
    """
    if not sys.platform.startswith("linux"):
        raise OSError("TCP byte counts are read from Linux's TCP_INFO")
    total = 0
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone
        with contextlib.suppress(OSError):  # no longer open, or not connected
            if not stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as sock:
                if sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6):
                    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    if len(info) >= _COUNTS_OFFSET + _COUNTS.size:
                        sent, again = _COUNTS.unpack_from(info, _COUNTS_OFFSET)
                        total += sent - again
    return total


def settled_bytes_sent() -> int:
    """`bytes_sent` once all workers have what was sent to them, which all of them have to ask for together.

    A collective returns while its last bytes still wait for their turn, on a busy machine for long. Whoever has passed
    the barrier had received them; its own few bytes are in the count.
    """
    import torch.distributed as dist

    dist.barrier()
    return bytes_sent()


def measure(parameters: int, workers: int) -> tuple[int, int, int]:
    """Bytes that one of `workers` processes sends: all-reduce of float32, mean and vote of signs.

    Parameters
    ----------
    parameters : int
        1000 or more; rows have 1000 entries.
    workers : int

    Returns
    -------
    tuple of int
    """
    import json
    import tempfile
    from pathlib import Path

    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as folder:
        spawn(_measuring, (folder, parameters // 1000, workers), nprocs=workers)
        found = json.loads((Path(folder) / "0.json").read_text(encoding="utf-8"))
    return found["all_reduce"], found["mean"], found["vote"]


def _measuring(rank: int, folder: str, rows: int, workers: int) -> None:
    import json
    from pathlib import Path

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=workers)
    found = {name: bytes_of_a_step([(rows, 1000)], name) for name in ("all_reduce", "mean", "vote")}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def bytes_of_a_step(shapes: list[tuple[int, int]], how: str) -> int:
    """Bytes that this process sends in a step of matrices of these shapes, in an initialised process group.

    Parameters
    ----------
    shapes : list of tuple of int
    how : {"all_reduce", "mean", "vote"}
    """
    import torch
    import torch.distributed as dist

    from optim_bas.exchange import SignExchange
    from optim_bas.optimizer import BAS

    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    grads = [torch.randn(shape, generator=generator) for shape in shapes]
    if how == "all_reduce":
        before = settled_bytes_sent()
        dist.all_reduce(torch.cat([grad.flatten() for grad in grads]))
        return settled_bytes_sent() - before
    for param, grad in zip(params, grads):
        param.grad = grad
    optimizer = BAS(params, exchange=SignExchange(aggregate=how))
    optimizer.step()  # the first compares the replicas
    before = settled_bytes_sent()
    optimizer.step()
    return settled_bytes_sent() - before
