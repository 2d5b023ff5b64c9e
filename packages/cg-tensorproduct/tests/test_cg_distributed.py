"""Training in two processes gives the gradients of one."""

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from cg_tensorproduct import FullTensorProduct, FullyConnectedTensorProduct, TensorProduct
from torch import multiprocessing

RANKS = 2


class Model(torch.nn.Module):
    """One product of every kind that learns, and one that does not."""

    def __init__(self):
        super().__init__()
        self.mixed = FullyConnectedTensorProduct("4x0e+3x1o", "0e+1o", "4x0e+3x1o")
        self.edge = TensorProduct("4x0e+3x1o", "0e+1o", "4x0e+3x1o", [(0, 0, 0, "uvu", True), (1, 0, 1, "uvu", True)])
        self.full = FullTensorProduct("4x0e+3x1o", "0e+1o", algorithm="kernel")

    def forward(self, x, y):
        return self.full(self.edge(self.mixed(x, y), y), y).square().mean()


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(32, 13, generator=generator), torch.randn(32, 4, generator=generator)


def model():
    torch.manual_seed(1)
    return Model()


def train(rank, store, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    wrapped = torch.nn.parallel.DistributedDataParallel(model())
    x, y = (part.chunk(RANKS)[rank] for part in data())
    wrapped(x, y).backward()
    if rank == 0:
        torch.save([p.grad for p in wrapped.parameters()], out)
    dist.destroy_process_group()


def test_gradients_of_two_processes_are_those_of_one(tmp_path):
    store, out = Path(tempfile.mkdtemp(dir=tmp_path)) / "store", tmp_path / "gradients.pt"
    # a worker runs ordinary code: what pytest's settings turn into errors is not its business
    os.environ.pop("PYTHONWARNINGS", None)
    multiprocessing.spawn(train, (str(store), str(out)), nprocs=RANKS)
    single = model()
    single(*data()).backward()
    found = torch.load(out)
    assert len(found) == len(list(single.parameters())) == 2
    for a, p in zip(found, single.parameters()):
        assert torch.allclose(a, p.grad, rtol=1e-5, atol=1e-7)
