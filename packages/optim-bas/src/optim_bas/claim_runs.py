"""Training runs for the claims: one cell is one optimizer, learning rate and seed on one problem, one process each."""

from __future__ import annotations

import json
from concurrent.futures import as_completed
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import Context, Scale, Series
from lemmata_core.files import atomic_write

from optim_bas.claim_peers import AdamMini, Lion, gefen, muon
from optim_bas.optimizer import BAS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lemmata_core.testbeds import Problem
    from torch import nn

_QUICK_WINDOWS = 128
# Steps over which the curves of the batches' losses are averaged.
_SMOOTHING = 20
# What a step costs beside AdamW's, the net's own time included; the others are at 1.15.
_STEP_COST = {"adamw": 1.0, "lion": 1.0, "nadam": 1.5, "float32": 1.4, "muon": 1.4, "gefen": 2.6}
BETAS, DECAY = (0.9, 0.95), 0.1
NAMES = {
    "adamw": "AdamW",
    "bas": "BAS",
    "nesterov": "BAS nesterov",
    "nadam": "AdamW with look-ahead",
    "float32": "BAS, float32 momentum",
    "heads": "BAS, one head a block in qkv",
    "nesterov-heads": "BAS nesterov, one head a block in qkv",
    "qkv": "BAS, AdamW for qkv",
    "embeddings": "BAS, AdamW for embeddings and head",
    "mini": "Adam-mini's rule",
    "lion": "Lion",
    "muon": "Muon",
    "gefen": "Gefen",
}


@dataclass(frozen=True)
class Cell:
    """One training run.

    Attributes
    ----------
    problem : str
        Of `lemmata_core.testbeds.problem`; for `pretrain` > 0 the text that follows the other one.
    optimizer : str
        A key of `NAMES`.
    lr : float
    seed, steps : int
    switch : int
        Train with AdamW for so many of the steps, then go on with `optimizer` by `BAS.from_adamw`; 0: from the start.
    pretrain : int
        Train so many steps with AdamW on the other text before, at `pretrain_lr`; `optimizer` takes its state over
        unless `fresh`.
    pretrain_lr : float
    fresh : bool
    batch : int
        0: the problem's own.
    """

    problem: str
    optimizer: str
    lr: float
    seed: int
    steps: int
    switch: int = 0
    pretrain: int = 0
    pretrain_lr: float = 5e-3
    fresh: bool = False
    batch: int = 0


def make_optimizer(
    kind: str, lr: float, model: nn.Module, *, plain: bool = False
) -> torch.optim.Optimizer | tuple[torch.optim.Optimizer, ...]:
    """The optimizer of a `Cell` for a model of the testbeds, with decay 0.1 and betas (0.9, 0.95).

    Parameters
    ----------
    kind : str
        A key of `NAMES`.
    lr : float
    model : torch.nn.Module
    plain : bool
        BAS by plain torch instead of the one-pass kernel.

    Returns
    -------
    torch.optim.Optimizer or tuple of them
    """
    shared: dict[str, Any] = {"lr": lr, "betas": BETAS, "weight_decay": DECAY}
    params = list(model.parameters())
    if kind == "adamw":
        return torch.optim.AdamW(params, **shared, fused=True)
    if kind == "lion":
        return Lion(params, **shared)
    if kind == "mini":
        return AdamMini(params, **shared)
    if kind in ("muon", "gefen"):
        return {"muon": muon, "gefen": gefen}[kind](model, lr, BETAS, DECAY)
    options: dict[str, dict[str, Any]] = {
        "nadam": {"nesterov": True, "block": 1, "momentum_dtype": torch.float32},
        "float32": {"momentum_dtype": torch.float32},
        "nesterov": {"nesterov": True},
        "nesterov-heads": {"nesterov": True},
    }
    return BAS(_groups(kind, model), **shared, **options.get(kind, {}), fused=False if plain else None)


def _groups(kind: str, model: nn.Module) -> list[dict[str, Any]]:
    """Parameters, with those that a variant treats otherwise in a group of their own."""
    special: dict[str, dict[str, Any]] = {
        "qkv": {"algorithm": "adamw"},
        "embeddings": {"algorithm": "adamw"},
        "heads": {"block": ("rows", 32)},
        "nesterov-heads": {"block": ("rows", 32)},
    }
    if kind not in special:
        return [{"params": list(model.parameters())}]
    words = ("tokens", "positions", "head") if kind == "embeddings" else ("qkv",)
    chosen: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, param in model.named_parameters():
        (chosen if any(word in name.split(".") for word in words) else rest).append(param)
    return [{"params": rest}, {"params": chosen, **special[kind]}]


def run_cell(cell: Cell, *, quick: bool = False) -> dict[str, Any]:
    """Train one cell. Runs in a worker.

    Parameters
    ----------
    cell : Cell
    quick : bool
        BAS by plain torch, and part of the held-out data: for a few steps, a fresh worker would wait longer for the
        kernel's compiler and for the scores than train.

    Returns
    -------
    dict
        ``held_out_loss`` and ``accuracy`` at the end, ``train_loss`` a list of one a step.
    """
    from lemmata_core import testbeds

    if not cell.pretrain:
        problem = testbeds.problem(cell.problem) if not cell.batch else testbeds.text(cell.problem, batch=cell.batch)
        return _trained(cell, problem, None, None, quick)
    return run_family((cell,), quick=quick)[0]


def run_family(cells: Sequence[Cell], *, quick: bool = False) -> list[dict[str, Any]]:
    """Train cells that differ in what follows the same pretraining, which runs once. Runs in a worker.

    Parameters
    ----------
    cells : sequence of Cell
        Of one problem, seed, `pretrain` > 0 and `pretrain_lr`.
    quick : bool
        See `run_cell`.

    Returns
    -------
    list of dict
        See `run_cell`.
    """
    from lemmata_core import testbed_data, testbeds

    first = cells[0]
    texts = ("kjv", "pydoc") if first.problem == "pydoc" else ("pydoc", "kjv")
    union = bytes(sorted(set(testbed_data.corpus("kjv")) | set(testbed_data.corpus("pydoc"))))
    before, problem = (testbeds.text(text, vocabulary=union) for text in texts)
    made: list[torch.optim.Optimizer] = []

    def pretrainer(net: nn.Module) -> torch.optim.Optimizer:
        made.append(torch.optim.AdamW(net.parameters(), lr=first.pretrain_lr, betas=BETAS, weight_decay=DECAY))
        return made[0]

    model = testbeds.train(before, pretrainer, first.pretrain, first.seed).model
    results = []
    for cell in cells:
        own, optimizer = deepcopy((model, made[0]))
        results.append(_trained(cell, problem, own, optimizer, quick))
    return results


def _trained(
    cell: Cell, problem: Problem, model: nn.Module | None, before: torch.optim.Optimizer | None, quick: bool
) -> dict[str, Any]:
    """The run that the claim looks at, from a fresh net or from `model` with its optimizer `before`."""
    from lemmata_core import testbeds

    if quick:
        inputs, targets = problem.held_out
        problem = replace(problem, held_out=(inputs[:_QUICK_WINDOWS], targets[:_QUICK_WINDOWS]))
    history = testbeds.train(
        problem,
        lambda net: _start(cell, net, before, quick),
        cell.steps,
        cell.seed,
        model=model,
        after_step=_switch(cell, quick) if cell.switch else None,
    )
    return {"held_out_loss": history.loss, "accuracy": history.accuracy, "train_loss": list(history.train_loss)}


def _start(
    cell: Cell, net: nn.Module, before: torch.optim.Optimizer | None, plain: bool
) -> torch.optim.Optimizer | tuple[torch.optim.Optimizer, ...]:
    if before is None or cell.fresh:
        return make_optimizer("adamw" if cell.switch else cell.optimizer, cell.lr, net, plain=plain)
    for group in before.param_groups:
        # The schedule starts anew, at this run's rate.
        group.pop("initial_lr", None)
        group["lr"] = cell.lr
    if cell.optimizer == "adamw":
        return before
    return BAS.from_adamw(before, nesterov=cell.optimizer == "nesterov", fused=False if plain else None)


def _switch(cell: Cell, plain: bool) -> Callable[..., torch.optim.Optimizer | None]:
    def after_step(
        done: int, _: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...]
    ) -> torch.optim.Optimizer | None:
        if done != cell.switch or cell.optimizer == "adamw":
            return None
        nesterov = cell.optimizer == "nesterov"
        return BAS.from_adamw(optimizers[0], nesterov=nesterov, fused=False if plain else None)

    return after_step


# Runs that several claims share are trained once a process.
_done: dict[Cell, dict[str, Any]] = {}


def run_cells(context: Context, cells: Sequence[Cell], description: str) -> dict[Cell, dict[str, Any]]:
    """Train cells on the context's executor; finished ones are kept in its folder and found again.

    Parameters
    ----------
    context : Context
    cells : sequence of Cell
    description : str
        For the progress bar.

    Returns
    -------
    dict of Cell to dict
        In the order of `cells`; see `run_cell`.
    """
    results = {}
    for cell in cells:
        kept = _done.get(cell) or _load(context, cell)
        if kept is not None:
            results[cell] = kept
    missing = [cell for cell in dict.fromkeys(cells) if cell not in results]
    with context.progress.task(description, total=len(cells)) as task:
        task.advance(len(results))
        # The longest first, so that no core waits for one at the end.
        families = sorted(_families(missing), key=_cost, reverse=True)
        quick = context.scale is Scale.SMOKE
        futures = {context.executor.submit(_run_any, family, quick=quick): family for family in families}
        for future in as_completed(futures):
            for cell, result in zip(futures[future], future.result()):
                results[cell] = result
                _save(context, cell, result)
                task.advance()
    _done.update(results)
    return {cell: results[cell] for cell in cells}


def _families(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Cells that begin with the same pretraining together, the others alone."""
    found: dict[Any, list[Cell]] = {}
    for cell in cells:
        shared = (cell.problem, cell.seed, cell.pretrain, cell.pretrain_lr) if cell.pretrain else cell
        found.setdefault(shared, []).append(cell)
    return [tuple(family) for family in found.values()]


def _cost(family: tuple[Cell, ...]) -> float:
    """Of training it, in steps of AdamW at the usual batch."""
    return family[0].pretrain + sum(_STEP_COST.get(c.optimizer, 1.15) * c.steps * (c.batch or 12) / 12 for c in family)


def _run_any(family: tuple[Cell, ...], *, quick: bool) -> list[dict[str, Any]]:
    return run_family(family, quick=quick) if family[0].pretrain else [run_cell(family[0], quick=quick)]


def _file_name(cell: Cell) -> str:
    return "-".join(str(value) for value in asdict(cell).values()) + ".json"


def _load(context: Context, cell: Cell) -> dict[str, Any] | None:
    try:
        loaded: dict[str, Any] = json.loads((context.workdir / _file_name(cell)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return loaded


def _save(context: Context, cell: Cell, result: dict[str, Any]) -> None:
    with atomic_write(context.workdir / _file_name(cell)) as file:
        json.dump(result, file)


def final_losses(results: dict[Cell, dict[str, Any]], optimizer: str, **where: Any) -> list[float]:
    """The final held-out losses of an optimizer, one a seed, of the cells whose attributes are `where`."""
    return [
        result["held_out_loss"]
        for cell, result in sorted(results.items(), key=lambda item: item[0].seed)
        if cell.optimizer == optimizer and all(getattr(cell, key) == value for key, value in where.items())
    ]


def gaps(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """By how many per cent each loss of ours is above theirs."""
    return [100 * (a / b - 1) for a, b in zip(ours, theirs)]


def loss_curves(
    results: dict[Cell, dict[str, Any]], chosen: Iterable[tuple[str, float]], title: str, unit: str, **where: Any
) -> Series:
    """The batches' loss over the steps, averaged over twenty: mean and range over the seeds, of (optimizer, rate)s."""
    lines = {}
    for optimizer, lr in chosen:
        found = [
            result["train_loss"]
            for cell, result in results.items()
            if (cell.optimizer, cell.lr) == (optimizer, lr) and all(getattr(cell, k) == v for k, v in where.items())
        ]
        ends = [min(start + _SMOOTHING, len(found[0])) for start in range(0, len(found[0]), _SMOOTHING)]
        columns = [[fmean(losses[max(0, end - _SMOOTHING) : end]) for losses in found] for end in ends]
        lines[f"{NAMES[optimizer]} {lr:g}"] = (
            ends,
            [fmean(c) for c in columns],
            [min(c) for c in columns],
            [max(c) for c in columns],
        )
    return Series(title, "step", f"loss of the batches, {unit}", lines)
