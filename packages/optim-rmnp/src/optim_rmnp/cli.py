"""The command line: ``optim-rmnp cost | dominance | train``. It needs the extra ``cli``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from lemmata_core.cli import JsonOption, app, emit
from lemmata_core.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

main = app("optim-rmnp", "Row-normalised momentum: what it costs, what it looks like, and a first run on real text.")


@main.command()
def cost(
    sizes: Annotated[str, typer.Option(help="Sizes of square matrices, separated by commas.")] = "256,512,1024",
    repeats: Annotated[int, typer.Option(help="Measurements of each.")] = 5,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Time row normalisation against Newton-Schulz, in turn, and fit how both grow."""
    import torch
    from lemmata_core.timing import growth

    from optim_rmnp.claims_theory import paired_preconditioners
    from optim_rmnp.describe import format_table

    numbers = _sizes(sizes)
    torch.set_num_threads(positive_int(threads, "threads"))
    rows: list[dict[str, Any]] = []
    for n in Progress().track(numbers, "preconditioners"):
        x = torch.randn(n, n)
        half = paired_preconditioners(x, torch.bfloat16, positive_int(repeats, "repeats"))
        single = paired_preconditioners(x, torch.float32, repeats)
        ours, theirs = min(half[0], single[0]), (half[1], single[1])
        ratios = {"ratio_bfloat16": theirs[0] / ours, "ratio_float32": theirs[1] / ours}
        seconds = {"row_normalisation": ours, "newton_schulz_bfloat16": theirs[0], "newton_schulz_float32": theirs[1]}
        rows.append({"size": n, **seconds, **ratios})
    exponents = {}
    if len(set(numbers)) >= 3:
        entries = [n * n for n in numbers]
        exponents = {key: growth(entries, [row[key] for row in rows]).exponent for key in seconds}
    if as_json:
        emit({"seconds": rows, "exponents": exponents}, as_json=True)
        return
    head = ("size", "row normalisation", "Newton-Schulz bf16", "ratio", "Newton-Schulz f32", "ratio")
    cells: list[tuple[str, ...]] = [
        (
            f"{row['size']} x {row['size']}",
            f"{1e6 * row['row_normalisation']:.1f} us",
            f"{1e6 * row['newton_schulz_bfloat16']:.1f} us",
            f"{row['ratio_bfloat16']:.0f}x",
            f"{1e6 * row['newton_schulz_float32']:.1f} us",
            f"{row['ratio_float32']:.0f}x",
        )
        for row in rows
    ]
    typer.echo(format_table(head, cells))
    if exponents:
        own, half_, single_ = exponents.values()
        typer.echo(f"seconds grow as entries^{own:.2f}; Newton-Schulz as entries^{half_:.2f} and entries^{single_:.2f}")


def _sizes(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InvalidInput.argument("--sizes", expected="positive integers separated by commas", got=text)
    return numbers


@main.command()
def dominance(
    checkpoint: Annotated[Path, typer.Argument(help="A saved optimizer state dict, or a checkpoint that holds one.")],
    alignment: Annotated[bool, typer.Option(help="Also the cosine to the polar factor (an SVD a matrix).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the diagonal dominance of every momentum in a checkpoint of RMNP, Muon or AdamW."""
    from optim_rmnp.describe import format_table
    from optim_rmnp.dominance import dominance as measure
    from optim_rmnp.dominance import polar_alignment

    rows: list[dict[str, Any]] = []
    for name, matrix in _momenta(_load(checkpoint)):
        if not bool(matrix.isfinite().all()) or not bool((matrix != 0).any()):
            continue
        record = {"name": name, "shape": list(matrix.shape), "dominance": measure(matrix)}
        rows.append(record | ({"alignment": polar_alignment(matrix)} if alignment else {}))
    if not rows:
        raise InvalidInput.argument("CHECKPOINT", expected="momenta of matrices", got=f"none in {checkpoint}")
    if as_json:
        emit(rows, as_json=True)
        return
    head = ("matrix", "shape", "r_avg", "r_min", "r_max", "strict", "gaussian r", "cosine to polar")
    cells = []
    for row in rows:
        d = row["dominance"]
        figures = (d.r_avg, d.r_min, d.r_max, d.strict_fraction, d.gaussian_r)
        cosine = f"{row['alignment']:.3f}" if alignment else "-"
        shape = " x ".join(map(str, row["shape"]))
        cells.append((row["name"], shape, *(f"{x:.3g}" for x in figures), cosine))
    typer.echo(format_table(head, cells))


def _load(path: Path) -> dict[str, Any]:
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as err:
        # damaged bytes run into any exception of the unpickler's
        raise InvalidInput.argument(
            "CHECKPOINT", expected="a file of torch.save with tensors only", got=f"{path}"
        ) from err
    candidates = [loaded]
    if isinstance(loaded, dict):
        candidates += [loaded.get(key) for key in ("optimizer", "optimizer_state_dict", "optimizer_states")]
    for candidate in candidates:
        first = candidate[0] if isinstance(candidate, list) and candidate else candidate
        if isinstance(first, dict) and {"state", "param_groups"} <= first.keys():
            return first
    raise InvalidInput.argument("CHECKPOINT", expected="an optimizer's state dict", got=f"another object in {path}")


def _momenta(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and momenta as matrices (rows, fan-in)."""
    from optim_rmnp.groups import parameter_name
    from optim_rmnp.layout import matrix_views, read_layout

    for group in state["param_groups"]:
        for position, key in enumerate(group["params"]):
            own = state["state"].get(key, {})
            momentum = own.get("momentum_buffer", own.get("exp_avg"))
            if momentum is None or momentum.ndim < 2 or momentum.numel() == 0:
                continue
            name = parameter_name(group, position) if group.get("param_names") else f"parameter {key}"
            layout = read_layout(momentum.shape, group, name)
            views = [part for view in matrix_views(momentum.contiguous(), layout) for part in view.split(layout.rows)]
            for index, view in enumerate(views):
                yield (name if len(views) == 1 else f"{name}[{index}]"), view


_RATES = {"rmnp": 5e-3, "muon": 2e-2, "adamw": 1e-2}


@main.command()
def train(
    optimizer: Annotated[str, typer.Option(help=f"One of {', '.join(_RATES)}.")] = "rmnp",
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 400,
    text: Annotated[Path | None, typer.Option(help="A text to learn; the King James Version unless given.")] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of the matrices; 5e-3, 2e-2 or 1e-2 by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the optimizer's state dict here at the end.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a byte-level GPT of 0.1 million parameters on real text."""
    import torch
    from lemmata_core import testbeds
    from lemmata_core.files import atomic_write

    from optim_rmnp.claims_training import make_optimizers

    one_of(optimizer, "--optimizer", list(_RATES))
    rate = _RATES[optimizer] if lr is None else lr
    problem = testbeds.problem("kjv") if text is None else testbeds.text(text.read_bytes())
    made: tuple[torch.optim.Optimizer, ...] = ()

    def make(model: torch.nn.Module) -> tuple[torch.optim.Optimizer, ...]:
        nonlocal made
        made = make_optimizers(optimizer, rate, model)
        return made

    every = max(1, positive_int(steps, "--steps") // 4)
    with ExitStack() as stack:
        # Opened first: a folder that cannot be written to is better met before the training than after it.
        file = stack.enter_context(atomic_write(save, "wb")) if save is not None else None
        task = stack.enter_context(Progress().task(f"{optimizer}, learning rate {rate:g}", total=steps))

        def show(done: int, *_: object) -> None:
            task.advance()
            if not as_json and done % every == 0:
                task.note(f"step {done}")

        history = testbeds.train(problem, make, steps, seed, evaluate_every=every, after_step=show)
        if file is not None:
            torch.save(made[0].state_dict(), file)
    if as_json:
        emit(history_fields(history, optimizer, rate), as_json=True)
        return
    for step, loss in zip(history.evaluated, history.held_out_loss):
        typer.echo(f"step {step:>6}  held-out loss {loss:.4f} {problem.unit}")
    typer.echo(
        f"{optimizer} at {rate:g}: {history.loss:.4f} {problem.unit} after {steps} steps, {history.wall_time:.1f} s"
    )


def history_fields(history: Any, optimizer: str, lr: float) -> dict[str, Any]:
    """What ``train --json`` prints."""
    return {
        "optimizer": optimizer,
        "lr": lr,
        "problem": history.problem,
        "seed": history.seed,
        "steps": history.steps,
        "evaluated": list(history.evaluated),
        "held_out_loss": list(history.held_out_loss),
        "accuracy": history.accuracy,
        "wall_time": history.wall_time,
    }
