"""Sharded parameters on two gloo processes against one process; run from `two_workers.py`."""

import torch
import torch.distributed.checkpoint as dcp
from optim_bas import BAS
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

HYPER = {"lr": 0.02, "betas": (0.9, 0.95), "weight_decay": 0.1}


def against_one_process(shape, dim, **keys):
    """Largest distance of weights, and whether codes agree, after 6 steps."""
    mesh = init_device_mesh("cpu", (2,))
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    whole = torch.nn.Parameter(start.clone())
    cut = torch.nn.Parameter(distribute_tensor(start, mesh, [Shard(dim)]))
    optimizers = [BAS([p], **HYPER, **keys) for p in (whole, cut)]
    for step in range(6):
        grad = torch.randn(shape, generator=torch.Generator().manual_seed(step))
        whole.grad, cut.grad = grad.clone(), distribute_tensor(grad, mesh, [Shard(dim)])
        for optimizer in optimizers:
            optimizer.step()
    state = optimizers[1].state[cut]
    codes = state["exp_avg"].full_tensor()
    second = state["exp_avg_sq"]
    second = second.full_tensor() if isinstance(second, DTensor) else second
    return {
        "distance": float((whole.detach() - cut.detach().full_tensor()).abs().max()),
        "codes": bool((optimizers[0].state[whole]["exp_avg"] != codes).float().mean() < 0.01),
        "second": bool(torch.allclose(optimizers[0].state[whole]["exp_avg_sq"], second, rtol=1e-5)),
    }


def fsdp(rank):
    torch.manual_seed(0)
    make = lambda: torch.nn.Sequential(torch.nn.Linear(9, 13), torch.nn.LayerNorm(13), torch.nn.Linear(13, 3))  # noqa: E731
    alone, model = make(), make()
    model.load_state_dict(alone.state_dict())
    fully_shard(model)
    data = torch.randn(8, 9, generator=torch.Generator().manual_seed(1))
    optimizers = [BAS(m.parameters(), **HYPER) for m in (alone, model)]
    for _ in range(6):
        for m, optimizer in zip((alone, model), optimizers):
            optimizer.zero_grad()
            m(data).square().mean().backward()
            optimizer.step()
    gaps = [float((p - q.full_tensor()).detach().abs().max()) for p, q in zip(alone.parameters(), model.parameters())]
    return {"distance": max(gaps)}


def checkpoints(rank, folder):
    """Sharded state through torch.distributed.checkpoint: into a fresh sharded model, and to disk for one process."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        saved, loaded = (sharded_run(dtype, steps) for steps in (3, 0))
        state = {"optim": get_optimizer_state_dict(*saved)}
        dcp.save(state, checkpoint_id=f"{folder}/dcp-{name}")
        target = {"optim": get_optimizer_state_dict(*loaded)}
        dcp.load(target, checkpoint_id=f"{folder}/dcp-{name}")
        set_optimizer_state_dict(*loaded, target["optim"])
        pairs = [(a, b) for (_, a), (_, b) in zip(kept(saved[1]), kept(loaded[1]), strict=True)]
        found[name] = bool(pairs) and all(
            type(a) is type(b) and a.dtype == b.dtype and torch.equal(local(a), local(b)) for a, b in pairs
        )
        whole = {key: a.full_tensor() if isinstance(a, DTensor) else a for key, a in kept(saved[1])}
        if rank == 0:
            torch.save(whole, f"{folder}/dcp-{name}.pt")
    return found


def checkpoint_model(dtype):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 3)).to(dtype)


def sharded_run(dtype, steps):
    """A sharded model and its optimizer after so many steps."""
    model = checkpoint_model(dtype)
    fully_shard(model)
    optimizer = BAS(model.parameters(), **HYPER)
    for step in range(steps):
        for param in model.parameters():
            grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(step)).to(dtype)
            param.grad = distribute_tensor(grad, param.device_mesh, param.placements)
        optimizer.step()
    return model, optimizer


def kept(optimizer):
    """All tensors of the state, by parameter and name."""
    return [
        (f"{number}.{key}", optimizer.state[param][key])
        for number, param in enumerate(p for group in optimizer.param_groups for p in group["params"])
        for key in sorted(optimizer.state[param])
    ]


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def from_adamw(rank):
    options = ({}, {"block": "tensor"}, {"block": ("rows", 2)}, {"momentum_dtype": torch.bfloat16})
    return [converted_run(**keys) for keys in options]


def converted_run(**keys):
    """AdamW on a sharded model, then BAS: as on one process."""
    alone, model = checkpoint_model(torch.float32), checkpoint_model(torch.float32)
    fully_shard(model)
    for m in (alone, model):
        optimizer = torch.optim.AdamW(m.parameters(), lr=0.02)
        for step in range(6):
            if step == 3:
                optimizer = BAS.from_adamw(optimizer, **keys)
            for param in m.parameters():
                grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(step))
                sharded = isinstance(param, DTensor)
                param.grad = distribute_tensor(grad, param.device_mesh, param.placements) if sharded else grad
            optimizer.step()
    gaps = [float((p - q.full_tensor()).detach().abs().max()) for p, q in zip(alone.parameters(), model.parameters())]
    return {
        "distance": max(gaps),
        "sharded": isinstance(optimizer.state[next(iter(model.parameters()))]["exp_avg"], DTensor),
    }


def two_dimensions(rank):
    """A mesh that replicates over one dimension and cuts over the other."""
    mesh = init_device_mesh("cpu", (2, 1))
    start = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    whole = torch.nn.Parameter(start.clone())
    cut = torch.nn.Parameter(distribute_tensor(start, mesh, [Shard(0), Replicate()]))
    optimizers = [BAS([p], **HYPER, block=4) for p in (whole, cut)]
    for step in range(4):
        grad = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
        whole.grad, cut.grad = grad.clone(), distribute_tensor(grad, mesh, [Shard(0), Replicate()])
        for optimizer in optimizers:
            optimizer.step()
    return {"distance": float((whole - cut.full_tensor()).detach().abs().max())}


def runs_that_are_cut(rank):
    mesh = init_device_mesh("cpu", (2,))
    param = torch.nn.Parameter(distribute_tensor(torch.ones(4, 12), mesh, [Shard(1)]))
    param.grad = distribute_tensor(torch.ones(4, 12), mesh, [Shard(1)])
    try:
        BAS([param], block=4).step()
    except ValueError as error:
        return {"raised": str(error)}
    return {"raised": ""}


def with_exchange(rank):
    from optim_bas import SignExchange

    mesh = init_device_mesh("cpu", (2,))
    param = torch.nn.Parameter(distribute_tensor(torch.ones(4, 12), mesh, [Shard(0)]))
    try:
        BAS([param], exchange=SignExchange())
    except ValueError as error:
        return {"raised": str(error)}
    return {"raised": ""}


LAYOUTS = {
    "rows": ((10, 6), 0, {}),
    "rows-uneven": ((7, 6), 0, {}),
    "rows-empty": ((1, 6), 0, {}),
    "columns": ((10, 6), 1, {}),
    "columns-uneven": ((10, 7), 1, {"nesterov": True}),
    "vector": ((9,), 0, {}),
    "tensor": ((7, 6), 0, {"block": "tensor"}),
    "tensor-columns": ((7, 6), 1, {"block": "tensor", "scale": "mean"}),
    "heads": ((12, 6), 0, {"block": ("rows", 4)}),
    "heads-columns": ((11, 6), 1, {"block": ("rows", 4)}),
    "runs": ((6, 12), 0, {"block": 5}),
    "runs-columns": ((6, 12), 1, {"block": 3}),
    "random": ((10, 6), 0, {"rounding": "stochastic"}),
    "random-columns": ((10, 6), 1, {"rounding": "stochastic"}),
    "bfloat16-momentum": ((10, 6), 1, {"momentum_dtype": torch.bfloat16}),
    "other-dim": ((6, 10), 1, {"fused": False}),
}

SHARDED = {
    **{
        f"shard-{name}": (lambda rank, c=case: against_one_process(c[0], c[1], **c[2]))
        for name, case in LAYOUTS.items()
    },
    "fsdp": fsdp,
    "from-adamw": from_adamw,
    "mesh": two_dimensions,
    "runs-cut": runs_that_are_cut,
    "exchange-dtensor": with_exchange,
}
