"""Training of RowDualNet (extra ``torch``). Under torchrun it uses DistributedDataParallel."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from lemmata_core.files import atomic_write
from lemmata_core.progress import Progress
from lemmata_core.rng import generator
from numpy.typing import NDArray
from torch import Tensor, nn

from lap_warmstart.features import NAMES, POSITIONS
from lap_warmstart.instances import FAMILIES, generate
from lap_warmstart.result import AssignmentResult
from lap_warmstart.rowdualnet import CLIP, RowDualNet

ANCHORS = 4
# Width, blocks, width of the edge network, listed columns.
SIZES = {"small": (64, 2, 32, 16), "paper": (192, 4, 64, 24)}


@dataclass(frozen=True)
class TrainReport:
    """What a training did.

    Attributes
    ----------
    out : str
        Where the best network was saved.
    epochs : int
        Epochs done.
    train_loss, validation_loss : float
        Of the last and of the best epoch.
    wall_time : float
        Seconds.
    instances : int
    """

    out: str
    epochs: int
    train_loss: float
    validation_loss: float
    wall_time: float
    instances: int


@dataclass
class Example:
    """A labelled instance, as small as training needs it: lists instead of a matrix."""

    x: Any
    reduced: Any
    columns: Any
    target: Any
    own_column: Any
    own_reduced: Any


def central_duals(cost: NDArray[np.float64], r: AssignmentResult, anchors: int = ANCHORS) -> NDArray[np.float64]:
    """Return optimal row duals from the middle of the optimal face: (n,).

    Dual solutions are not unique, and a solver returns an arbitrary corner. With the dual of one row (the anchor) kept,
    the row-maximal and the row-minimal optimal duals are shortest paths from and to that row, on the reduced costs
    ``c[i, x(k)] - u[i] - v[x(k)]`` of an edge from k to i. This is their mean, averaged over evenly spaced anchors,
    which is optimal because the optimal face is convex.
    """
    n = cost.shape[0]
    reduced = np.maximum(cost[:, r.row_to_col] - r.u[:, None] - r.v[r.row_to_col], 0.0)
    total = np.zeros(n)
    picked = np.unique(np.linspace(0, n - 1, min(anchors, n)).astype(np.int64))
    for graph, sign in ((np.ascontiguousarray(reduced.T), 1.0), (reduced, -1.0)):
        for anchor in picked:
            shift = sign * _distances(graph, int(anchor))
            total += shift - shift.mean()
    return np.asarray(r.u + total / (2.0 * picked.size))


def _distances(graph: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Return the distances from `start` by Dijkstra on a dense graph: ``graph[k, i]`` leads from k to i."""
    far = np.full(graph.shape[0], np.inf)
    waiting = far.copy()
    far[start] = waiting[start] = 0.0
    for _ in range(far.size):
        k = int(np.argmin(waiting))
        if waiting[k] == np.inf:
            break
        shorter = far[k] + graph[k] < far
        far[shorter] = far[k] + graph[k][shorter]
        waiting[k] = np.inf
        waiting[shorter] = far[shorter]
    return np.where(far < np.inf, far, 0.0)


def label(family: str, n: int, seed: int, positional: bool, listed: int) -> Example:
    """Draw an instance, solve it exactly and keep its features, its lists and its optimal duals.

    The target is the centre of the optimal row duals, relative to the features' base and in units of their scale.
    """
    from lap_warmstart.features import row_features
    from lap_warmstart.solve import solve

    cost = generate(family, n, seed)
    r = solve(cost)
    minima = cost.min(axis=0)
    f = row_features(cost, minima, positional=positional, listed=listed)
    own = r.row_to_col
    own_reduced = (cost[np.arange(n), own] - minima[own] - f.base) / f.scale
    target = (central_duals(cost, r) - f.base) / f.scale
    return Example(
        f.x, f.reduced, f.columns, (target - target.mean()).astype(np.float32), own, own_reduced.astype(np.float32)
    )


class Network(nn.Module):
    """The network of `rowdualnet` in torch."""

    def __init__(self, n_features: int, size: str) -> None:
        super().__init__()
        h, depth, edge, _ = SIZES[size]
        act = nn.GELU(approximate="tanh")
        self.inputs = nn.Sequential(nn.Linear(n_features, h), act, nn.LayerNorm(h))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(h, h), act, nn.Linear(h, h), nn.Dropout(0.1)) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(h) for _ in range(depth))
        self.early = nn.Linear(h, 1)
        self.edge = nn.Sequential(nn.Linear(4, edge), act, nn.Linear(edge, h))
        self.mix = nn.LayerNorm(h)
        self.head = nn.Sequential(nn.Linear(h, h // 2), act, nn.Linear(h // 2, 1))
        self.register_buffer("mu", torch.zeros(n_features))
        self.register_buffer("sd", torch.ones(n_features))

    def forward(self, x: Tensor, reduced: Tensor, columns: Tensor) -> Tensor:
        """Predict the centred duals of one matrix: (n,)."""
        x = ((x - self.mu) / self.sd).clamp(-CLIP, CLIP)
        x = self.inputs(x)
        for blk, norm in zip(self.blocks, self.norms):
            x = norm(x + blk(x))
        early = self.early(x)[:, 0]
        reduced = reduced.clamp(max=50.0)
        v = scatter_min(reduced - early[:, None], columns)[columns]
        slack = reduced - early[:, None] - v
        rank = (torch.arange(slack.shape[1], dtype=slack.dtype, device=slack.device) / slack.shape[1]).expand_as(slack)
        edges = torch.stack([slack, torch.log(slack + 1e-3), v, rank], dim=-1)
        hidden = self.edge[1](self.edge[0](edges))
        message = self.edge[2]((torch.softmax(-slack, dim=1)[..., None] * hidden).sum(dim=1))
        x = x + self.mix(message)
        out = early + self.head(x)[:, 0]
        return out - out.mean()


def scatter_min(values: Tensor, columns: Tensor) -> Tensor:
    """Return the minimum of `values` for each column; the gradient goes through the minimum."""
    size = int(columns.max()) + 1
    out = torch.full((size,), torch.inf, dtype=values.dtype, device=values.device)
    return out.scatter_reduce(0, columns.reshape(-1).long(), values.reshape(-1), "amin")


def loss_of(prediction: Tensor, e: Example, weight: float = 1.0) -> Tensor:
    """Return the paper's loss: distance to the optimal duals plus `weight` times the complementary slackness.

    The Min-Trick is restricted to listed and optimal edges, so a step costs O(16 n).
    """
    scale = e.target.std() + 0.02
    near = (prediction - e.target).abs().mean()
    columns = torch.cat([e.columns.long(), e.own_column[:, None]], dim=1)
    values = torch.cat([e.reduced, e.own_reduced[:, None]], dim=1) - prediction[:, None]
    v = scatter_min(values, columns)
    slack = (e.own_reduced - prediction - v[e.own_column]).mean()
    return (near + weight * slack) / scale


def train(
    families: Sequence[str],
    sizes: Sequence[int],
    n_instances: int,
    *,
    size: str = "small",
    epochs: int = 35,
    rng: np.random.Generator | int | None = 0,
    device: str = "cpu",
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    resume: bool = True,
    positional: bool = False,
    executor: Executor | None = None,
) -> TrainReport:
    """Train a RowDualNet on random instances, labelled by the exact solver.

    Parameters
    ----------
    families : sequence of str
        Keys of `instances.FAMILIES`.
    sizes : sequence of int
        Instances go round over families and sizes; the largest size joins after the first quarter of the epochs.
    n_instances : int
        A tenth (at least one a family) is held out for validation.
    size : {"small", "paper"}
    epochs : int
        AdamW with a cosine schedule and warm-up; stops early after 8 epochs without improvement.
    rng : numpy.random.Generator, int or None
    device : str
    out : path
        The best network, an .npz file. Checkpoints stand beside it and are removed at the end.
    progress : Progress, optional
    resume : bool
        Go on from the checkpoints of an interrupted training with the same arguments.
    positional : bool
        Train with the published positional features.
    executor : concurrent.futures.Executor, optional
        Makes the labels.

    Raises
    ------
    InvalidInput
    """
    for family in families:
        one_of(family, "families", tuple(FAMILIES))
    one_of(size, "size", tuple(SIZES))
    positive_int(n_instances, "n_instances", minimum=2)
    positive_int(epochs, "epochs")
    if not sizes or min(sizes) < 32:
        raise InvalidInput.argument("sizes", expected="sizes of at least 32", got=list(sizes))
    folder = Path(out).resolve().parent
    if not folder.is_dir():
        raise InvalidInput.argument("out", expected="a file in an existing folder", got=str(out))
    settings = {
        "families": list(families), "sizes": [int(s) for s in sizes], "instances": n_instances, "size": size,
        "epochs": epochs, "positional": positional, "listed": SIZES[size][3],
        "seed": rng if isinstance(rng, int) else None,
    }  # fmt: skip
    begin = time.perf_counter()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    data = _examples(settings, generator(rng), Path(out), progress or Progress(), executor, resume)
    return _fit(data, settings, torch.device(device), Path(out), progress or Progress(), resume, begin, (rank, world))


def _examples(
    settings: dict[str, Any], rng: np.random.Generator, out: Path, progress: Progress, executor: Executor | None,
    resume: bool,
) -> list[Example]:  # fmt: skip
    """Make the labelled instances, or read those of an interrupted training."""
    path = out.with_suffix(".examples.pt")
    if resume and path.exists():
        stored = torch.load(path, weights_only=False)
        if stored["settings"] == settings:
            return stored["examples"]  # type: ignore[no-any-return]
    count = settings["instances"]
    families, sizes = settings["families"], settings["sizes"]
    seeds = rng.integers(0, 2**31, count).tolist()
    tasks = [
        (
            families[k % len(families)],
            sizes[(k // len(families)) % len(sizes)],
            seeds[k],
            settings["positional"],
            settings["listed"],
        )
        for k in range(count)
    ]
    examples = []
    with progress.task("labelling", total=count) as task:
        made = (label(*t) for t in tasks) if executor is None else executor.map(label, *zip(*tasks))
        for e in made:
            examples.append(Example(*(torch.as_tensor(np.array(t)) for t in vars(e).values())))
            task.advance()
    with atomic_write(path, "wb") as file:
        torch.save({"settings": settings, "examples": examples}, file)
    return examples


def _schedule(step: int, total: int) -> float:
    warm = max(1, total // 10)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1.0 + float(np.cos(np.pi * (step - warm) / max(1, total - warm))))


def _fresh_network(settings: dict[str, Any], examples: list[Example], device: torch.device) -> Network:
    """Make a network that standardises its input as these examples need."""
    net = Network(len(NAMES) + (len(POSITIONS) if settings["positional"] else 0), settings["size"]).to(device)
    stacked = torch.cat([e.x for e in examples])
    net.mu.copy_(stacked.mean(0))
    net.sd.copy_(stacked.std(0) + 1e-3)
    return net


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, rate: float, e: Example) -> float:
    """Take one step on one example; return the loss before it."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(model(e.x, e.reduced, e.columns), e)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _score(net: Network, valid: list[Example]) -> float:
    net.eval()
    with torch.no_grad():
        return float(np.mean([float(loss_of(net(e.x, e.reduced, e.columns), e)) for e in valid]))


def _resumed(
    checkpoint: Path, settings: dict[str, Any], net: Network, optimizer: torch.optim.Optimizer
) -> tuple[int, int, float, int]:
    """Load an interrupted training with the same settings; return its epochs, steps, best loss and stale epochs."""
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=False, map_location=net.mu.device)
        if state["settings"] == settings:
            net.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])
            return state["epoch"], state["step"], state["best"], state["stale"]
    return 0, 0, np.inf, 0


def _fit(  # the loop in one place, so that it reads top to bottom
    examples: list[Example], settings: dict[str, Any], device: torch.device, out: Path, progress: Progress,
    resume: bool, begin: float, place: tuple[int, int],
) -> TrainReport:  # fmt: skip
    rank, world = place
    seed = settings["seed"] or 0
    torch.manual_seed(seed)
    held = max(len(settings["families"]), len(examples) // 10)
    data = [Example(*(t.to(device) for t in vars(e).values())) for e in examples]
    rest, valid = data[:-held] or data, data[-held:]
    net = _fresh_network(settings, rest, device)
    model: nn.Module = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    rate = 2e-3 if settings["size"] == "small" else 2e-4
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=5e-5)
    epochs, largest = settings["epochs"], max(settings["sizes"])
    steps = epochs * max(1, len(rest) // world)
    checkpoint = out.with_suffix(".checkpoint.pt")
    start, step, best, stale = _resumed(checkpoint, settings, net, optimizer) if resume else (0, 0, np.inf, 0)
    done, last = start, np.inf
    with progress.task("training", total=epochs) as task:
        task.advance(start)
        for epoch in range(start, epochs):
            if stale >= 8:
                break
            order = np.random.default_rng([seed, epoch]).permutation(len(rest))
            all_sizes = epoch >= epochs // 4 or len(set(settings["sizes"])) == 1
            chosen = [k for k in order if all_sizes or len(rest[k].target) < largest]
            model.train()
            losses = []
            for k in chosen[rank : len(chosen) - len(chosen) % world : world]:
                losses.append(_step(model, optimizer, rate * _schedule(step, steps), rest[k]))
                step += 1
            last = float(np.mean(losses))
            score = _score(net, valid)
            stale = stale + 1 if score >= best else 0
            if rank == 0:
                if score < best:
                    record = {**settings, "epoch": epoch + 1, "validation_loss": score, "train_loss": last}
                    save(net, record | {"command": command(settings)}, out)
                state = {
                    "settings": settings, "net": net.state_dict(), "optimizer": optimizer.state_dict(),
                    "epoch": epoch + 1, "step": step, "best": min(best, score), "stale": stale,
                }  # fmt: skip
                with atomic_write(checkpoint, "wb") as file:
                    torch.save(state, file)
            best, done = min(best, score), epoch + 1
            task.advance()
            task.note(f"loss {last:.4f}, held out {score:.4f}")
    if rank == 0:
        for path in (checkpoint, out.with_suffix(".examples.pt")):
            path.unlink(missing_ok=True)
    return TrainReport(str(out), done, last, float(best), time.perf_counter() - begin, len(examples))


def command(settings: dict[str, Any]) -> str:
    """Return the command line that repeats a training with these settings."""
    return (
        f"lap-warmstart train --out M.npz --families {','.join(settings['families'])} "
        f"--sizes {','.join(map(str, settings['sizes']))} --instances {settings['instances']} "
        f"--epochs {settings['epochs']} --size {settings['size']} --seed {settings['seed']}"
    )


def save(net: Network, record: dict[str, Any], out: Path) -> None:
    """Write the weights of a torch network as a `RowDualNet`."""
    weights = {name: t.detach().cpu().numpy().astype(np.float32) for name, t in net.state_dict().items()}
    RowDualNet(weights, record).save(out)
