"""Sharded parameters on two gloo processes against one process; run from `two_workers.py`."""

import torch
import torch.distributed.checkpoint as dcp
from optim_bas import BAS
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

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


def checkpoint(rank, folder):
    """Save sharded state, load it into a fresh model, compare every bit."""
    torch.manual_seed(0)
    models = [torch.nn.Linear(10, 7) for _ in range(2)]
    for model in models:
        fully_shard(model)
    optimizers = [BAS(model.parameters(), **HYPER) for model in models]
    models[0](torch.ones(2, 10)).sum().backward()
    optimizers[0].step()
    optimizers[1].allocate()

    def tensors(optimizer):
        return {
            f"{number}.{key}": value
            for number, state in enumerate(optimizer.state.values())
            for key, value in state.items()
        }

    dcp.save(tensors(optimizers[0]), checkpoint_id=folder)
    target = tensors(optimizers[1])
    dcp.load(target, checkpoint_id=folder)
    same = []
    for name, value in tensors(optimizers[0]).items():
        other = tensors(optimizers[1])[name]
        a, b = (t.to_local() if isinstance(t, DTensor) else t for t in (value, other))
        same.append(a.dtype == b.dtype and bool(torch.equal(a, b)))
    return {"same": same}


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
    "runs-cut": runs_that_are_cut,
    "exchange-dtensor": with_exchange,
}
