"""Training runs for the claims: one cell is one optimizer, learning rate and seed on one problem, one process each."""

from __future__ import annotations

import json
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import Context, Series, Table
from lemmata_core.files import atomic_write

from optim_rmnp.dominance import dominance, momentum_matrices, polar_alignment
from optim_rmnp.grouping import param_groups
from optim_rmnp.layout import matrix_views, read_layout
from optim_rmnp.optimizer import RMNP
from optim_rmnp.row_norm import update_scale
from optim_rmnp.step import Rule, step_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import nn

AUX_LR = 3e-3
NAMES = {"adamw": "AdamW", "muon": "Muon", "rmnp": "RMNP"}


@dataclass(frozen=True)
class Cell:
    """One training run.

    Attributes
    ----------
    problem : str
        Of `lemmata_core.testbeds.problem`.
    optimizer : {"adamw", "muon", "rmnp", "short", "columns"}
        The last two are RMNP with the norm over other lines of the matrix: ablations, not offered as options.
    lr : float
        Of the matrices; the rest has AdamW at 3e-3 (under "adamw" everything has `lr`).
    seed, steps, evaluate_every : int
    width : int
        Of the text model.
    measure : int
        Record the momenta's dominance every so many steps; 0: never.
    """

    problem: str
    optimizer: str
    lr: float
    seed: int
    steps: int
    evaluate_every: int
    width: int = 64
    measure: int = 0


def make_optimizers(kind: str, lr: float, model: nn.Module) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of a `Cell` for a model of the testbeds, with decay 0.1 and betas (0.9, 0.95).

    Parameters
    ----------
    kind : str
        As `Cell.optimizer`.
    lr : float
    model : torch.nn.Module

    Returns
    -------
    tuple of torch.optim.Optimizer
        Muon has torch's own AdamW beside it.
    """
    betas = (0.9, 0.95)
    if kind == "adamw":
        return (torch.optim.AdamW(model.parameters(), lr=lr, betas=betas, weight_decay=0.1, fused=True),)
    fused = any(name.endswith("qkv.weight") for name, _ in model.named_parameters())
    groups = param_groups(model, lr=lr, aux_lr=AUX_LR, stacked={"*.qkv.weight": 3} if fused else None)
    if kind == "rmnp":
        return (RMNP(groups),)
    rest = [
        {"params": g["params"], "lr": g["lr"], "weight_decay": g["weight_decay"]}
        for g in groups
        if g["algorithm"] == "adamw"
    ]
    adamw = torch.optim.AdamW(rest, betas=betas, fused=True)
    matrices = [g for g in groups if g["algorithm"] == "rmnp"]
    if kind == "muon":
        return torch.optim.Muon([p for g in matrices for p in g["params"]], lr=lr, weight_decay=0.1), adamw
    return OtherLines(matrices, kind), adamw


class OtherLines(torch.optim.Optimizer):
    """The ablation: RMNP's step with norms over columns, or over the lines along the longer side ("short").

    Scale, decay and momentum are those of RMNP's rows, so that only the direction of the norm differs.
    """

    def __init__(self, groups: list[dict[str, Any]], lines: str) -> None:
        super().__init__(groups, {"stacked": 1, "lines": lines})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(param)
                layout = read_layout(param.shape, group, "a parameter")
                rule = Rule(
                    group["lr"], group["weight_decay"], 0.95, True, 1e-12, update_scale(layout.rows, layout.fan_in)
                )
                for w, g, m in zip(*(matrix_views(t, layout) for t in (param, param.grad, state["momentum_buffer"]))):
                    for part in range(0, w.shape[0], layout.rows):
                        pieces = [t[part : part + layout.rows] for t in (w, g, m)]
                        if group["lines"] == "columns" or layout.rows > layout.fan_in:
                            pieces = [t.t() for t in pieces]
                        step_blocked(pieces[0], pieces[1], pieces[2], rule)
        return loss


def run_cell(cell: Cell) -> dict[str, Any]:
    """Train one cell. Runs in a worker.

    Returns
    -------
    dict
        ``evaluated``, ``held_out_loss``, ``accuracy``, and ``dominance``: a list of measurements.
    """
    from lemmata_core import testbeds

    problem = testbeds.problem(cell.problem) if cell.width == 64 else testbeds.text(cell.problem, width=cell.width)
    records: list[dict[str, Any]] = []

    def watch(done: int, _model: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        if cell.measure and done % cell.measure == 0:
            records.append(measure(done, optimizers[0]))

    history = testbeds.train(
        problem,
        lambda model: make_optimizers(cell.optimizer, cell.lr, model),
        cell.steps,
        cell.seed,
        evaluate_every=cell.evaluate_every,
        after_step=watch,
    )
    return {
        "evaluated": list(history.evaluated),
        "held_out_loss": list(history.held_out_loss),
        "accuracy": history.accuracy,
        "dominance": records,
    }


def measure(step: int, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Dominance of an optimizer's momenta along their short side, averaged over the matrices as the paper does."""
    matrices = [m for _, m in momentum_matrices(optimizer)]
    found = [dominance(m, orientation="short") for m in matrices]
    return {
        "step": step,
        "r_min": fmean(d.r_min for d in found),
        "r_avg": fmean(d.r_avg for d in found),
        "r_max": fmean(d.r_max for d in found),
        "strict": fmean(d.strict_fraction for d in found),
        "gaussian": fmean(d.gaussian_r for d in found),
        "cosine": fmean(polar_alignment(m) for m in matrices),
    }


# Runs that two claims share (the same RMNP runs are held against AdamW and against Muon) are trained once a process.
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
    missing = [cell for cell in cells if cell not in results]
    with context.progress.task(description, total=len(cells)) as task:
        task.advance(len(results))
        # The longest first, so that no core waits for one at the end.
        missing.sort(key=lambda cell: (cell.optimizer == "muon", cell.width, cell.steps), reverse=True)
        futures = {context.executor.submit(run_cell, cell): cell for cell in missing}
        for future in as_completed(futures):
            cell = futures[future]
            results[cell] = future.result()
            _save(context, cell, results[cell])
            task.advance()
    _done.update(results)
    return {cell: results[cell] for cell in cells}


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


@dataclass(frozen=True)
class Best:
    """The learning rate of a grid with the lowest mean loss over the seeds.

    Attributes
    ----------
    lr : float
    mean, spread : float
        Of the final held-out loss over the seeds; the standard deviation is 0 for one seed.
    losses : tuple of float
        One a seed.
    """

    lr: float
    mean: float
    spread: float
    losses: tuple[float, ...]


def best_of(results: dict[Cell, dict[str, Any]], optimizer: str) -> Best:
    """The best learning rate of `optimizer` among finished cells."""
    by_lr: dict[float, list[float]] = {}
    for cell, result in results.items():
        if cell.optimizer == optimizer:
            by_lr.setdefault(cell.lr, []).append(result["held_out_loss"][-1])
    lr, losses = min(by_lr.items(), key=lambda item: fmean(item[1]))
    return Best(lr, fmean(losses), stdev(losses) if len(losses) > 1 else 0.0, tuple(losses))


def loss_table(results: dict[Cell, dict[str, Any]], title: str) -> Table:
    """Final held-out losses: a row an optimizer and learning rate."""
    lines: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for cell, result in results.items():
        lines.setdefault((cell.optimizer, cell.lr), []).append(result)
    rows = []
    for (optimizer, lr), found in lines.items():
        losses = [result["held_out_loss"][-1] for result in found]
        spread = stdev(losses) if len(losses) > 1 else None
        accuracy = fmean(result["accuracy"] for result in found)
        each = ", ".join(f"{loss:.4f}" for loss in losses)
        rows.append((NAMES.get(optimizer, optimizer), lr, fmean(losses), spread, each, accuracy))
    return Table(title, ("optimizer", "learning rate", "loss", "deviation", "each seed", "accuracy"), rows)


def loss_curves(
    results: dict[Cell, dict[str, Any]], chosen: Iterable[tuple[str, float]], title: str, unit: str
) -> Series:
    """Held-out loss over the steps, mean and range over the seeds, of the chosen (optimizer, learning rate) pairs."""
    lines = {}
    for optimizer, lr in chosen:
        found = [r for c, r in results.items() if c.optimizer == optimizer and c.lr == lr]
        columns = list(zip(*(r["held_out_loss"] for r in found)))
        steps = found[0]["evaluated"]
        name = f"{NAMES.get(optimizer, optimizer)} {lr:g}"
        lines[name] = (steps, [fmean(c) for c in columns], [min(c) for c in columns], [max(c) for c in columns])
    return Series(title, "step", f"held-out loss, {unit}", lines)
