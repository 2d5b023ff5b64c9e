"""One policy trained by several processes (torch.distributed, gloo or nccl), each with its own environments.

Every rank collects into its own replay and computes gradients on its own batch; gradients and the entropy are
averaged, so that
all ranks keep the same parameters. Start it with ``torchrun --nproc-per-node 2 train.py``::

    from rl_mfpo import distributed

    with distributed.session():
        agent = distributed.make("HalfCheetah-v5", seed=0)
        agent.learn(1_000_000, callback=[CheckpointCallback(10_000, "ckpt")])
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from torch import Tensor, nn

from rl_mfpo.agent import MFPO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rl_mfpo.environments import EnvLike
    from rl_mfpo.learner import MFPOLearner


@contextmanager
def session(backend: str | None = None, *, timeout: float = 300.0) -> Iterator[int]:
    """Join the process group that torchrun describes (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); leave it at the end.

    Parameters
    ----------
    backend : {"gloo", "nccl"}, optional
        By default nccl where every rank of this machine has a GPU of its own, else gloo.
    timeout : float
        Seconds that a rank waits for the others. A rank that fails ends the others: at once where its connection
        closes, at the latest after this time.

    Yields
    ------
    int
        The rank.

    Raises
    ------
    InvalidInput
        Outside torchrun.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InvalidInput.argument("environment", expected="the variables of torchrun", got=f"no {', '.join(missing)}")
    seconds = in_range(timeout, "timeout", 0.0, low_open=True)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if backend is None:
        backend = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() >= local else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def make(env: EnvLike, *, seed: int, **options: Any) -> MFPO:
    """Make this rank's agent: `MFPO` with the seed ``seed + rank``, joined to the others by `distribute`.

    Parameters
    ----------
    env, **options
        As in `MFPO`. ``batch_size`` is a rank's: the gradient is that of all ranks' batches together.
    seed : int
        The same on every rank.
    """
    return distribute(MFPO(env, seed=positive_int(seed, "seed", minimum=0) + dist.get_rank(), **options))


def resume(path: str | os.PathLike[str], env: EnvLike | None = None, device: str | torch.device = "auto") -> MFPO:
    """Go on from a checkpoint, which every rank must be able to read.

    Rank 0 goes on as `MFPO.resume` does. The others take parameters, optimisers and counters from it, and begin with an
    empty replay and new episodes; no rank updates before each has a batch.

    Parameters
    ----------
    path, env, device
        As in `MFPO.resume`.
    """
    agent, rank = MFPO.resume(path, env, device), dist.get_rank()
    if rank == 0:
        return distribute(agent)
    world: Any = agent.env_id if env is None else env
    copies = agent.n_envs if isinstance(world, str) else 1
    agent.close()
    # A seed that no rank had before: the episodes and draws of its first start are not met again.
    seed = agent.seed + rank + 1_000_003 * (1 + agent.num_timesteps)
    fresh = MFPO(world, config=agent.config, seed=seed, device=device, n_envs=copies, vectorization=agent.vectorization)
    fresh.learner.load_state_dict({**agent.learner.state_dict(), "generator": fresh.learner.generator.get_state()})
    fresh.num_timesteps = agent.num_timesteps
    return distribute(fresh)


def distribute(agent: MFPO) -> MFPO:
    """Join an agent to those of the other ranks: parameters become rank 0's, gradients are averaged from now on.

    `learn` counts the transitions of one rank; every rank must be given the same numbers. It ends on all ranks at the
    step
    at which it ends on one. Rank 0 alone writes checkpoints and logs.
    """
    distribute_learner(agent.learner)
    agent.rank = dist.get_rank()
    agent.agree = any_rank
    return agent


def distribute_learner(learner: MFPOLearner) -> None:
    """The same for a bare learner: one flat all-reduce an optimiser and update, one of a number for the entropy."""
    with torch.no_grad():
        for tensor in [*learner.parameters(), *learner.policy.buffers()]:
            dist.broadcast(tensor.data, src=0)
    learner.reduce_gradients = average_gradients
    learner.reduce_scalar = average


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Replace the gradients by their means over the ranks, in one all-reduce."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
        gradient.copy_(part.view_as(gradient))


def average(value: Tensor) -> Tensor:
    """The mean of a tensor over the ranks."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank."""
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    told = torch.tensor(float(flag), device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told > 0)
