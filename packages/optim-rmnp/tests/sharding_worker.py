"""One of the processes that `test_rmnp_sharding.py` starts: python sharding_worker.py RANK WORLD FOLDER CASES.

Writes FOLDER/RANK.json: a result a case. Every process runs the same cases in the same order.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from optim_rmnp import RMNP, DominanceMonitor, dominance
from optim_rmnp.wire import bytes_sent
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

STEPS = 3


def values(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def gradient(shape, step):
    g = values(shape, 10 + step)
    if step == 1:
        g[0] = 0  # for zero_rows="hold"
    return g


def alone(shape, **options):
    """The weights, momentum and stepper of one process that holds everything."""
    p = nn.Parameter(values(shape, 0))
    keys = {k: options.pop(k) for k in ("input_dim", "stacked", "kind", "algorithm") if k in options}
    optimizer = RMNP([{"params": [p], **keys}], lr=0.05, fused=False, **options)
    for step in range(STEPS):
        p.grad = gradient(shape, step)
        optimizer.step()
    return p.detach(), optimizer.state[p]


def sharded(mesh, shape, placements, **options):
    """Largest distances of weight and state from one process, and bytes sent in the last step."""
    p = nn.Parameter(distribute_tensor(values(shape, 0), mesh, placements))
    keys = {k: options.pop(k) for k in ("input_dim", "stacked", "kind", "algorithm") if k in options}
    optimizer = RMNP([{"params": [p], **keys}], lr=0.05, **options)
    sent = 0
    for step in range(STEPS):
        p.grad = distribute_tensor(gradient(shape, step), mesh, placements)
        dist.barrier()
        time.sleep(0.05)
        before = bytes_sent()
        optimizer.step()
        time.sleep(0.05)
        sent = bytes_sent() - before
        dist.barrier()
    weight, state = alone(shape, **options, **keys)
    gaps = [(p.full_tensor() - weight).abs().max().item()]
    for name, tensor in state.items():
        own = optimizer.state[p][name]
        own = own.full_tensor() if isinstance(own, DTensor) else own
        gaps.append((own - tensor).abs().max().item())
    return {"gap": max(gaps), "sent": sent, "local": list(p.to_local().shape)}


def fsdp(mesh):
    """A fully_shard'ed model of odd sizes against one process."""
    from optim_rmnp import param_groups
    from torch.distributed.fsdp import fully_shard

    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 1, bias=False))

    def run(model):
        optimizer = RMNP(param_groups(model, lr=0.05, head="2"), fused=False)
        for step in range(STEPS):
            model(values((4, 5), step)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return {name: p.full_tensor() if isinstance(p, DTensor) else p for name, p in model.named_parameters()}

    model = build()
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    ours, theirs = run(model), run(build())
    return {"gap": max((ours[n] - theirs[n]).abs().max().item() for n in ours), "parameters": len(ours)}


def ddp():
    """Replicas after a few steps on different data: distance between the ranks, and from the averaged gradient."""
    torch.manual_seed(0)
    model = nn.Linear(6, 4, bias=False)
    weight = model.weight.detach().clone()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = RMNP(wrapped.parameters(), lr=0.05)
    data = [values((3, 6), 50 + rank) for rank in range(dist.get_world_size())]
    for _ in range(STEPS):
        wrapped(data[dist.get_rank()]).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    everyone = [torch.empty_like(weight) for _ in data]
    dist.all_gather(everyone, model.weight.detach())
    p = nn.Parameter(weight)
    single = RMNP([p], lr=0.05)
    for _ in range(STEPS):
        (sum((x @ p.t()).square().sum() for x in data) / len(data)).backward()
        single.step()
        single.zero_grad()
    return {
        "identical": all(torch.equal(everyone[0], other) for other in everyone),
        "gap": (everyone[0] - p.detach()).abs().max().item(),
    }


def refusals(mesh):
    """Names of the errors for gradients that are not what the parameter needs."""
    found = []
    for grad in ("partial", "plain"):
        p = nn.Parameter(distribute_tensor(values((4, 6), 0), mesh, [Replicate()]))
        before = p.to_local().clone()
        if grad == "partial":
            p.grad = DTensor.from_local(values((4, 6), 1), mesh, [Partial()])
        else:
            p.__dict__["grad"] = None
        optimizer = RMNP([("w", p)])
        try:
            if grad == "plain":
                from optim_rmnp.sharding import gradient_fault

                raise ValueError(gradient_fault(p, values((4, 6), 1)))
            optimizer.step()
        except ValueError as err:
            found.append(f"{type(err).__name__}: {err}")
        assert torch.equal(p.to_local(), before)
    return found


def batched(mesh):
    """Collectives of a step over many cut matrices: they must go as one."""
    params = [nn.Parameter(distribute_tensor(values((9, 8), i), mesh, [Shard(1)])) for i in range(6)]
    optimizer = RMNP(params)
    calls = []
    original = dist.all_reduce

    def counted(tensor, *args, **kwargs):
        calls.append(tensor.numel())
        return original(tensor, *args, **kwargs)

    for p in params:
        p.grad = distribute_tensor(values((9, 8), 7), mesh, [Shard(1)])
    dist.all_reduce = counted
    optimizer.step()
    dist.all_reduce = original
    return calls


def reference_norm(mesh):
    """The norms of cut rows agree with DTensor's own vector_norm."""
    x = values((7, 10), 3)
    p = nn.Parameter(distribute_tensor(torch.zeros(7, 10), mesh, [Shard(1)]))
    p.grad = distribute_tensor(x, mesh, [Shard(1)])
    RMNP([p], lr=1.0, weight_decay=0.0, adjust_lr_fn="none").step()
    norms = torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(1)]), dim=1, keepdim=True).full_tensor()
    return (p.full_tensor() + x / norms).abs().max().item()


def replicated_gradient(mesh):
    """A gradient that every process holds in full is cut as the parameter is."""
    p = nn.Parameter(distribute_tensor(values((6, 8), 0), mesh, [Shard(0)]))
    p.grad = None
    optimizer = RMNP([p], lr=0.05)
    from optim_rmnp.sharding import local_gradient

    whole = distribute_tensor(gradient((6, 8), 0), mesh, [Replicate()])
    own = local_gradient(p, whole)
    p.grad = distribute_tensor(gradient((6, 8), 0), mesh, [Shard(0)])
    optimizer.step()
    return bool(torch.equal(own, p.grad.to_local()))


def checkpoint(mesh):
    """A sharded optimizer's state dict loads into another one."""
    p = nn.Parameter(distribute_tensor(values((5, 8), 0), mesh, [Shard(0)]))
    optimizer = RMNP([p], lr=0.05, momentum_dtype=torch.float64)
    p.grad = distribute_tensor(gradient((5, 8), 0), mesh, [Shard(0)])
    optimizer.step()
    q = nn.Parameter(p.detach().clone())
    other = RMNP([q], lr=0.05, momentum_dtype=torch.float64)
    other.load_state_dict(optimizer.state_dict())
    for param, stepper in ((p, optimizer), (q, other)):
        param.grad = distribute_tensor(gradient((5, 8), 2), mesh, [Shard(0)])
        stepper.step()
    return bool(torch.equal(p.to_local(), q.to_local()))


def monitored(mesh):
    """The monitor sees the whole of a matrix whose rows are cut."""
    p = nn.Parameter(distribute_tensor(values((6, 8), 0), mesh, [Shard(1)]))
    optimizer = RMNP([p])
    monitor = DominanceMonitor(optimizer, every=1)
    p.grad = distribute_tensor(gradient((6, 8), 0), mesh, [Shard(1)])
    optimizer.step()
    expected = dominance(gradient((6, 8), 0))
    return abs(monitor.history[0].matrices[0].dominance.r_avg - expected.r_avg)


def two_processes():
    mesh = init_device_mesh("cpu", (2,))
    result = {}
    for shape in ((8, 6), (7, 5), (1, 9), (64, 48)):
        for dim in (0, 1):
            for hold in ("step", "hold"):
                result[f"{shape} {dim} {hold}"] = sharded(mesh, shape, [Shard(dim)], zero_rows=hold)
    result["replicate"] = sharded(mesh, (6, 4), [Replicate()])
    result["transposed 0"] = sharded(mesh, (7, 12), [Shard(0)], input_dim=0, stacked=3)
    result["transposed 1"] = sharded(mesh, (7, 12), [Shard(1)], input_dim=0, stacked=3)
    result["conv 0"] = sharded(mesh, (6, 3, 2, 2), [Shard(0)])
    result["conv 1"] = sharded(mesh, (6, 3, 2, 2), [Shard(1)])
    result["experts 0"] = sharded(mesh, (3, 4, 5), [Shard(0)])
    result["experts 2"] = sharded(mesh, (3, 4, 5), [Shard(2)])
    result["adamw 0"] = sharded(mesh, (7, 5), [Shard(0)], algorithm="adamw")
    result["adamw empty"] = sharded(mesh, (1, 5), [Shard(0)], algorithm="adamw")
    result["maximize plain 1"] = sharded(mesh, (6, 6), [Shard(1)], maximize=True, nesterov=False)
    result["stacked scale"] = sharded(mesh, (12, 2), [Shard(0)], stacked=3)
    result["fsdp"] = fsdp(mesh)
    result["ddp"] = ddp()
    result["refusals"] = refusals(mesh)
    result["batched"] = batched(mesh)
    result["reference"] = reference_norm(mesh)
    result["replicated gradient"] = replicated_gradient(mesh)
    result["checkpoint"] = checkpoint(mesh)
    result["monitor"] = monitored(mesh)
    return result


def four_processes():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return {
        "rows and columns": sharded(mesh, (7, 10), [Shard(0), Shard(1)]),
        "columns twice": sharded(mesh, (7, 10), [Shard(1), Shard(1)]),
        "rows twice": sharded(mesh, (7, 10), [Shard(0), Shard(0)]),
        "replicas of columns": sharded(mesh, (7, 10), [Replicate(), Shard(1)]),
    }


if __name__ == "__main__":
    rank, world, folder, cases = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder.as_posix()}/meet", rank=rank, world_size=world)
    found = {"two": two_processes, "four": four_processes}[cases]()
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
