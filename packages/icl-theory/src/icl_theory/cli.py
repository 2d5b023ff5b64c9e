"""The command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from lemmata_core import InvalidInput, Series, Table
from lemmata_core.check import one_of
from lemmata_core.cli import JsonOption, app, emit
from lemmata_core.files import atomic_write

main = app("icl-theory", "In-context learning under outliers, and as Bayesian inference, with exact answers.")


def _writable(option: str, *suffixes: str) -> Callable[[Path | None], Path | None]:
    """Check a file's name and folder before the work, which may take minutes."""

    def check(path: Path | None) -> Path | None:
        if path is not None and (path.suffix not in suffixes or not path.parent.is_dir()):
            named = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
            raise InvalidInput.argument(option, expected=f"a {named} file in a folder that exists", got=str(path))
        return path

    return check


Save = Annotated[
    Path | None,
    typer.Option("--save", callback=_writable("--save", ".csv", ".json"), help="Write the table to .csv or .json."),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", callback=_writable("--plot", ".svg", ".png", ".pdf"), help="Draw to .svg, .png or .pdf (extra plot)."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
Steps = Annotated[int, typer.Option(help="Training steps.")]


def show(table: Table, series: Sequence[Series], *, as_json: bool, save: Path | None, plot: Path | None) -> None:
    """Print a table, and write it and its pictures where wanted."""
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    if save is not None:
        _save(table, rows, save)
    if plot is not None:
        from icl_theory.plots import draw

        draw(series, plot)
    if as_json:
        emit({"title": table.title, "rows": rows}, as_json=True)
        return
    cells = [[str(c) for c in table.columns], *([_cell(v) for v in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    typer.echo(table.title)
    for row in cells:
        typer.echo("  ".join(text.rjust(width) for text, width in zip(row, widths)).rstrip())


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _save(table: Table, rows: list[dict[str, object]], path: Path) -> None:
    with atomic_write(path) as file:
        if path.suffix == ".json":
            json.dump(rows, file, indent=1)
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)
        file.write(text.getvalue())


def _numbers(text: str, name: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as err:
        raise InvalidInput.argument(name, expected="numbers with commas between", got=text) from err


@main.command()
def outliers(
    alpha: Annotated[float, typer.Option(help="Share of outliers at test.")] = 0.8,
    labels: Annotated[str, typer.Option(help="flip, target or random.")] = "flip",
    share: Annotated[float, typer.Option(help="Share of outliers in training.")] = 0.6,
    kappa: Annotated[float, typer.Option(help="Magnitude of test outliers.")] = 2 / 0.3,
    placement: Annotated[str, typer.Option(help="random, farthest or closest.")] = "random",
    count: Annotated[str, typer.Option(help="bernoulli or exact.")] = "bernoulli",
    steps: Steps = 2000,
    seed: Seed = 0,
    as_json: JsonOption = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Train Mamba and linear attention, and print their errors beside the closed forms."""
    from icl_theory import TEST_MIX, GatedLinearICL, PatternBank, PromptSpec, evaluate, tasks_all, theory, train
    from icl_theory.training import uninterrupted

    spec = PromptSpec(outlier_fraction=share)
    test = PromptSpec(
        outlier_fraction=alpha, kappa_max=1.0, kappa_outlier=kappa, labels=labels, placement=placement, count=count,
        outlier_mix=TEST_MIX,
    )  # fmt: skip
    bank, rows, lines = PatternBank(rng=seed), [], {}
    for name, gate in (("Mamba", "mamba"), ("linear attention", "none")):
        model = GatedLinearICL(bank.d, gate=gate, rng=seed)
        result = uninterrupted(train(model, bank, tasks_all(6), spec, steps=steps, rng=seed))
        e = evaluate(model, bank, tasks_all(6), test, rng=seed)
        rows.append((name, e.value, e.low, e.high, theory.vote_error(alpha, 20, labels), theory.bayes_floor(alpha, 20)))
        lines[name] = (list(range(result.steps)), result.losses.tolist())
    table = Table(
        f"Error at alpha = {alpha:g}, {labels} labels",
        ("model", "error", "low", "high", "vote error", "floor"),
        tuple(rows),
    )
    show(table, [Series("Training", "step", "hinge loss", lines)], as_json=as_json, save=save, plot=plot)


@main.command()
def phase(
    out: Annotated[Path, typer.Option(help="Folder for the table and for finished cells; run again to go on.")],
    executor: Annotated[str, typer.Option(help="serial, local, local:N or tcp://HOST:PORT.")] = "local",
    alphas: Annotated[str, typer.Option(help="Test shares.")] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    shares: Annotated[str, typer.Option(help="Training shares.")] = "0,0.2,0.4,0.6,0.8",
    labels: Annotated[str, typer.Option(help="Rules of test outliers, with commas between.")] = "flip",
    models: Annotated[str, typer.Option(help="mamba, none (linear attention).")] = "mamba,none",
    kappa: Annotated[float, typer.Option(help="Magnitude of test outliers.")] = 2 / 0.3,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    steps: Steps = 2000,
    n: Annotated[int, typer.Option(help="Test prompts a figure.")] = 4000,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write phase.parquet too (extra parquet).")] = False,
    as_json: JsonOption = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Sweep shares of outliers in training and at test; write OUT/phase.csv, one tidy table."""
    from lemmata_core.executor import executor as open_executor
    from lemmata_core.progress import Progress

    from icl_theory.plots import phase_series
    from icl_theory.sweep import phase_diagram

    with open_executor(executor) as pool:
        diagram = phase_diagram(
            _numbers(alphas, "--alphas"), _numbers(shares, "--shares"), models.split(","), labels.split(","), [kappa],
            seeds, pool, out / "cells", Progress(), steps=steps, n=n,
        )  # fmt: skip
        diagram.save(out / "phase.csv")
        if parquet:
            diagram.save(out / "phase.parquet")
        if diagram.status != "finished":
            raise KeyboardInterrupt
    typer.echo(
        f"{len(diagram.table.rows)} rows in {out / 'phase.csv'}; {diagram.reused} trainings were there already",
        err=True,
    )
    show(diagram.boundary(), phase_series(diagram), as_json=as_json, save=save, plot=plot)


@main.command()
def probe(
    share: Annotated[float, typer.Option(help="Share of outliers in training.")] = 0.6,
    steps: Steps = 2000,
    seed: Seed = 0,
    as_json: JsonOption = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Train Mamba, and look at its attention and its gates."""
    from icl_theory import MambaICL, PatternBank, PromptSpec, probe_attention, probe_gates, tasks_all, train
    from icl_theory.training import uninterrupted

    bank, tasks, spec = PatternBank(rng=seed), tasks_all(6), PromptSpec(outlier_fraction=share)
    model = MambaICL(bank.d, rng=seed)
    uninterrupted(train(model, bank, tasks, spec, steps=steps, rng=seed))
    gates = probe_gates(model, bank, tasks, spec)
    rows: list[tuple[Any, ...]] = [
        (f"sum of scores, {name}", value) for name, value, *_ in probe_attention(model, bank, tasks, spec).rows
    ]
    rows += [
        ("median gate, clean", gates.clean),
        ("median gate, outlier", gates.outlier),
        ("log-gate slope", gates.slope),
    ]
    ranks = [float(row[0]) for row in gates.table.rows]  # type: ignore[arg-type]
    line = {"Mamba": (ranks, [float(row[1]) for row in gates.table.rows])}  # type: ignore[arg-type]
    picture = Series("Gate of clean examples", "rank from the query", "mean log G", line)
    show(Table("Inside Mamba", ("quantity", "value"), tuple(rows)), [picture], as_json=as_json, save=save, plot=plot)


@main.command()
def risk(
    family: Annotated[str, typer.Option(help="A .toml file, linear or logistic.")] = "linear",
    model: Annotated[str, typer.Option(help="uniform (trained first), bayes or zero.")] = "uniform",
    m: Annotated[int, typer.Option(help="Features of the uniform-attention model.")] = 16,
    cardinality: Annotated[bool, typer.Option("--cardinality", help="Tell the model 1/k.")] = False,
    length: Annotated[int, typer.Option(help="Pairs in a prompt.")] = 17,
    n: Annotated[int, typer.Option(help="Prompts.")] = 4000,
    steps: Steps = 500,
    seed: Seed = 0,
    as_json: JsonOption = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Split a predictor's risk into its gap to Bayes and the posterior variance."""
    import numpy as np

    from icl_theory import UniformAttention, decompose, fit_least_squares
    from icl_theory._cli_families import family_from
    from icl_theory.plots import risk_series
    from icl_theory.risk import QUANTITIES, Predictor
    from icl_theory.training import uninterrupted

    one_of(model, "--model", ("uniform", "bayes", "zero"))
    tasks = family_from(family)
    predictor: Predictor
    if model == "uniform":
        trained = UniformAttention(tasks.dim, m, cardinality=cardinality, rng=seed)
        uninterrupted(fit_least_squares(trained, tasks, steps=steps, length=length, rng=seed))
        predictor = trained
    elif model == "bayes":
        predictor = lambda x, y: tasks.predict(x, y).mean[:, 1:]  # noqa: E731
    else:
        predictor = lambda x, y: np.zeros((len(y), length - 1))  # noqa: ARG005, E731
    report = decompose(predictor, tasks, n, length, rng=seed + 1)
    estimates = [(name, asdict(getattr(report, name))) for name in QUANTITIES]
    rows = tuple((name, e["value"], e["stderr"], e["low"], e["high"]) for name, e in estimates)
    table = Table("Risk and its parts", ("quantity", "value", "stderr", "low", "high"), rows)
    show(table, [risk_series(report)], as_json=as_json, save=save, plot=plot)


@main.command()
def mixture(
    kind: Annotated[str, typer.Option(help="separated or nested.")] = "separated",
    length: Annotated[int, typer.Option(help="Pairs in a prompt.")] = 33,
    n: Annotated[int, typer.Option(help="Prompts of each type.")] = 4000,
    seed: Seed = 0,
    as_json: JsonOption = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Measure how fast a Bayes mixture forgets wrong task types."""
    from icl_theory._claims_forgetting import nested, separated
    from icl_theory.plots import mixture_series
    from icl_theory.risk import mixture_study

    made = {"separated": separated, "nested": nested}[one_of(kind, "--kind", ("separated", "nested"))]()
    study = mixture_study(made, n, length, seed)
    rows = tuple(
        (
            "all" if s.type < 0 else s.type,
            float(s.wrong[-1]),
            s.exponential.rate,
            s.exponential.r2,
            s.power.rate,
            s.power.r2,
        )
        for s in (*study.types, study.all)
    )
    columns = ("true type", f"wrong weight at k = {length - 1}", "exp rate", "exp R2", "power", "power R2")
    table = Table(f"Forgetting of {kind} types", columns, rows)
    show(table, [mixture_series(study)], as_json=as_json, save=save, plot=plot)


@main.command()
def collision(as_json: JsonOption = False, save: Save = None) -> None:
    """Print the Bayes gap that no mean-pooling model escapes, in exact fractions."""
    from icl_theory.bounds import collision_example

    rows = tuple((name, str(value), float(value)) for name, value in collision_example()._asdict().items())
    table = Table("Two prompts that pool alike: {1} and {1, 1}", ("quantity", "exactly", "value"), rows)
    show(table, [], as_json=as_json, save=save, plot=None)


@main.command(name="scan-bench")
def scan_bench(
    batch: Annotated[int, typer.Option()] = 4,
    length: Annotated[int, typer.Option()] = 256,
    channels: Annotated[int, typer.Option()] = 128,
    states: Annotated[int, typer.Option()] = 16,
    as_json: JsonOption = False,
    save: Save = None,
) -> None:
    """Time the compiled scan, forward and backward, against the torch backend."""
    import torch
    from lemmata_core.check import positive_int
    from lemmata_core.timing import paired

    from icl_theory import selective_scan

    sizes = {"batch": batch, "length": length, "channels": channels, "states": states}
    for name, size in sizes.items():
        positive_int(size, name)
    g = torch.Generator().manual_seed(0)
    u, delta = torch.randn(batch, length, channels, generator=g), torch.rand(batch, length, channels, generator=g)
    A = -torch.rand(channels, states, generator=g) - 0.1
    B, C = torch.randn(2, batch, length, states, generator=g)
    args = [t.requires_grad_() for t in (u, delta, A, B, C)]

    def step(backend: str) -> None:
        y = selective_scan(args[0], args[1], args[2], args[3], args[4], backend=backend)
        assert isinstance(y, torch.Tensor)  # noqa: S101
        torch.autograd.grad(y.sum(), args)

    timing = paired(lambda: step("compiled"), lambda: step("torch"), repeats=7)
    rows = (("compiled", timing.a_seconds * 1e3), ("torch, two-level", timing.b_seconds * 1e3))
    table = Table(f"Scan of shape {tuple(sizes.values())}, {torch.get_num_threads()} threads", ("backend", "ms"), rows)
    show(table, [], as_json=as_json, save=save, plot=None)
