"""What two gloo processes find, case by case, as one JSON document: run by `test_two_workers.py`."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from optim_bas import BAS, SignExchange, local_gradients
from optim_bas.wire import settled_bytes_sent as bytes_sent
from torch.nn.parallel import DistributedDataParallel

HYPER = {"lr": 0.02, "betas": (0.9, 0.95), "weight_decay": 0.1}
SHAPES = {"w": (24, 40), "b": (24,), "e": (30, 7), "s": ()}


def start(name):
    return torch.randn(SHAPES[name], generator=torch.Generator().manual_seed(len(name) + ord(name)))


def gradient(name, step, worker):
    generator = torch.Generator().manual_seed(1000 * worker + 10 * step + ord(name))
    grad = torch.randn(SHAPES[name], generator=generator)
    if name == "w":
        grad[:, 3] = 0  # an input that is always off
    if name == "e":
        grad[worker::2] = 0  # tokens that only the other worker sees
        grad[4:6] = 0  # and two that nobody does
    return grad


def params():
    return {name: torch.nn.Parameter(start(name)) for name in SHAPES}


def identical(tensors):
    for tensor in tensors:
        others = [torch.empty_like(tensor) for _ in range(2)]
        dist.all_gather(others, tensor.detach().contiguous())
        if not torch.equal(
            others[0].view(torch.uint8) if others[0].ndim else others[0],
            others[1].view(torch.uint8) if others[1].ndim else others[1],
        ):
            return False
    return True


def mean_is_the_average(rank, **keys):
    """The exchange's weights against the average of two single-process updates, 20 steps."""
    own = params()
    optimizer = BAS(list(own.values()), **HYPER, exchange=SignExchange(aggregate="mean"), fused=False, **keys)
    # Single-process optimizers with a learning rate of 1 and no decay, whose weights are put to 0 before each step:
    # what they hold afterwards is minus their update.
    workers = [{n: torch.nn.Parameter(torch.zeros(s)) for n, s in SHAPES.items()} for _ in range(2)]
    singles = [BAS(list(w.values()), **{**HYPER, "lr": 1.0, "weight_decay": 0.0}, fused=False, **keys) for w in workers]
    expected = {name: start(name) for name in SHAPES}
    for step in range(20):
        for name, param in own.items():
            param.grad = gradient(name, step, rank)
        optimizer.step()
        for worker, (weights, single) in enumerate(zip(workers, singles)):
            for name, param in weights.items():
                param.data.zero_()
                param.grad = gradient(name, step, worker)
            single.step()
        for name in SHAPES:
            update = -(workers[0][name].detach() + workers[1][name].detach()) / 2
            expected[name] = expected[name] * (1 - HYPER["lr"] * HYPER["weight_decay"]) - update * HYPER["lr"]
    same = all(torch.equal(own[name].detach(), expected[name]) for name in SHAPES)
    return {"bits": same, "replicas": identical(own.values())}


def vote_is_the_majority(rank):
    own = params()
    optimizer = BAS(list(own.values()), **HYPER, exchange=SignExchange(aggregate="vote"), fused=False)
    workers = [{n: torch.nn.Parameter(torch.zeros(s)) for n, s in SHAPES.items()} for _ in range(2)]
    singles = [BAS(list(w.values()), **{**HYPER, "lr": 1.0, "weight_decay": 0.0}, fused=False) for w in workers]
    expected = {name: start(name) for name in SHAPES}
    for step in range(20):
        for name, param in own.items():
            param.grad = gradient(name, step, rank)
        optimizer.step()
        updates = []
        for worker, (weights, single) in enumerate(zip(workers, singles)):
            for name, param in weights.items():
                param.data.zero_()
                param.grad = gradient(name, step, worker)
            single.step()
            updates.append({name: -param.detach() for name, param in weights.items()})
        for name in SHAPES:
            a, b = (u[name] for u in updates)
            rows = a.reshape(1, -1) if a.ndim < 2 else a
            sizes = sum((u[name].reshape(rows.shape)).abs().amax(1, keepdim=True) for u in updates) / 2
            sign = (a.sign() + b.sign()).sign().reshape(rows.shape)
            move = (sizes * sign).reshape(a.shape)
            expected[name] = expected[name] * (1 - HYPER["lr"] * HYPER["weight_decay"]) - move * HYPER["lr"]
    close = all(torch.allclose(own[n].detach(), expected[n], rtol=1e-6, atol=1e-7) for n in SHAPES)
    return {"close": close, "replicas": identical(own.values())}


def missing_gradients(rank):
    """A worker without a gradient sends its momentum; a tensor that nobody has one for stays."""
    own = params()
    optimizer = BAS(list(own.values()), **HYPER, exchange=SignExchange())
    for step in range(4):
        for name, param in own.items():
            has = not (step == 2 and name == "w" and rank == 1) and name != "b"
            param.grad = gradient(name, step, rank) if has else None
        optimizer.step()
    return {
        "replicas": identical(own.values()),
        "untouched": torch.equal(own["b"].detach(), start("b")),
        "steps": [int(optimizer.state[p]["step"]) for p in own.values()],
    }


def different_weights(rank, *, added=False):
    param = torch.nn.Parameter(torch.zeros(4, 4) + (rank and 1e-6))
    param.grad = torch.ones(4, 4)
    try:
        if added:
            same = torch.nn.Parameter(torch.zeros(4, 4))
            same.grad = torch.ones(4, 4)
            optimizer = BAS([same], exchange=SignExchange())
            optimizer.step()
            optimizer.add_param_group({"params": [param]})
        else:
            optimizer = BAS([param], exchange=SignExchange())
        optimizer.step()
    except ValueError as error:
        return {"raised": str(error), "unchanged": bool((param == (rank and 1e-6)).all())}
    return {"raised": ""}


def averaged_momentum(rank):
    own = params()
    optimizer = BAS(list(own.values()), **HYPER, exchange=SignExchange())
    for name, param in own.items():
        param.grad = gradient(name, 0, rank)
    optimizer.step()
    workers = [group["workers"] for group in optimizer.param_groups]
    alone = BAS(list(params().values()))
    try:
        alone.load_state_dict(optimizer.state_dict())
        refused = ""
    except ValueError as error:
        refused = str(error)
    optimizer.average_momentum()
    alone.load_state_dict(optimizer.state_dict())
    states = [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
    return {"workers": workers, "refused": refused, "same": identical(states)}


def wire(rank):
    """Bytes that this process sends in a step of a million parameters, and in DDP's all-reduce of them."""
    found = {}
    for aggregate in ("mean", "vote"):
        param = torch.nn.Parameter(torch.zeros(1000, 1000))
        optimizer = BAS([param], exchange=SignExchange(aggregate=aggregate))
        for step in range(2):
            param.grad = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(step + rank))
            before = bytes_sent()
            optimizer.step()
            found[aggregate] = bytes_sent() - before
    dense = torch.zeros(1000, 1000)
    before = bytes_sent()
    dist.all_reduce(dense)
    return {**found, "all_reduce": bytes_sent() - before}


def ddp(rank):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
    local_gradients(model)
    optimizer = BAS(model.parameters(), lr=0.01, exchange=SignExchange())
    data = torch.randn(16, 6, generator=torch.Generator().manual_seed(rank))
    model(data).square().mean().backward()
    alone = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    alone.load_state_dict(model.module.state_dict())
    alone(data).square().mean().backward()
    local = all(torch.allclose(p.grad, q.grad) for p, q in zip(model.parameters(), alone.parameters()))
    for _ in range(20):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    return {"local": local, "replicas": identical(model.parameters())}


def adamw_groups(rank):
    own = params()
    groups = [{"params": [own["w"]]}, {"params": [own["b"], own["e"], own["s"]], "algorithm": "adamw"}]
    optimizer = BAS(groups, **HYPER, exchange=SignExchange())
    alone = torch.nn.Parameter(start("b"))
    adamw = torch.optim.AdamW([alone], **HYPER)
    for step in range(3):
        for name, param in own.items():
            param.grad = gradient(name, step, rank)
        alone.grad = (gradient("b", step, 0) + gradient("b", step, 1)) / 2
        optimizer.step()
        adamw.step()
    return {"replicas": identical(own.values()), "adamw": torch.allclose(own["b"], alone, rtol=1e-5, atol=1e-7)}


def half(rank):
    param = torch.nn.Parameter(start("w").bfloat16())
    group = {"params": [param], "stochastic_rounding": True}
    optimizer = BAS([group], **{**HYPER, "betas": (0.95, 0.95)}, exchange=SignExchange())
    for step in range(10):
        param.grad = gradient("w", step, rank).bfloat16()
        optimizer.step()
    return {"replicas": identical([param.detach().view(torch.int16).int()])}


def scaler(rank):
    """One worker alone finds an infinity in step 1: all skip; the other steps are those without a scaler."""
    own, plain = params(), params()
    scaled, bare = (BAS(list(p.values()), **HYPER, exchange=SignExchange()) for p in (own, plain))
    amp = torch.amp.GradScaler("cpu", init_scale=1024.0)
    skipped = []
    for step in range(4):
        amp.scale(torch.zeros(1))
        for name in SHAPES:
            plain[name].grad = gradient(name, step, rank)
            own[name].grad = gradient(name, step, rank) * amp.get_scale()
        if step == 1 and rank == 1:
            own["w"].grad[0, 0] = torch.inf
        if step == 2:
            amp.unscale_(scaled)
        before = [p.detach().clone() for p in own.values()]
        amp.step(scaled)
        amp.update()
        skipped.append(all(torch.equal(a, b) for a, b in zip(before, own.values())))
        if step != 1:
            bare.step()
    same = all(torch.equal(own[name], plain[name]) for name in SHAPES)
    return {"skipped": skipped, "same": same, "replicas": identical(own.values())}


def dying(rank, finish):
    """The other worker dies between two steps: this one's step fails, and its weights stay."""
    own = params()
    groups = [{"params": [own["w"], own["e"]]}, {"params": [own["b"], own["s"]], "algorithm": "adamw"}]
    optimizer = BAS(groups, **HYPER, exchange=SignExchange())
    for step in range(2):
        for name, param in own.items():
            param.grad = gradient(name, step, rank)
        if step == 1 and rank == 1:
            finish({})
            os._exit(0)
        before = [p.detach().clone() for p in own.values()]
        try:
            optimizer.step()
            raised = ""
        except RuntimeError as error:
            raised = str(error)
    finish({"raised": raised, "unchanged": all(torch.equal(a, b) for a, b in zip(before, own.values()))})
    os._exit(0)


CASES = {
    "mean": mean_is_the_average,
    "mean-nesterov": lambda rank: mean_is_the_average(rank, nesterov=True),
    "mean-heads": lambda rank: mean_is_the_average(rank, block=("rows", 5)),
    "vote": vote_is_the_majority,
    "missing": missing_gradients,
    "different": different_weights,
    "added": lambda rank: different_weights(rank, added=True),
    "averaged": averaged_momentum,
    "wire": wire,
    "ddp": ddp,
    "adamw": adamw_groups,
    "half": half,
    "scaler": scaler,
}


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    from sharded_cases import SHARDED, checkpoints

    found = {name: case(rank) for name, case in {**CASES, **SHARDED}.items()}
    found["checkpoints"] = checkpoints(rank, folder)
    # The last, since it leaves no group to go on with.
    dying(rank, lambda end: Path(folder, f"{rank}.json").write_text(json.dumps({**found, "dying": end})))


if __name__ == "__main__":
    mp.spawn(worker, (sys.argv[1],), nprocs=2)
