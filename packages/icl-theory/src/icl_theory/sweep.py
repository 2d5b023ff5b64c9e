"""Sweeps on any executor, kept cell by cell: a killed sweep goes on where it was."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, Table
from lemmata_core.check import array, in_range, one_of, positive_int
from lemmata_core.files import atomic_write

from icl_theory.prompts import LABELS, TEST_MIX, PromptSpec

if TYPE_CHECKING:
    from lemmata_core.progress import Progress

Cell = Mapping[str, Any]
COLUMNS = (
    "model", "labels", "kappa_test", "train_fraction", "alpha", "seed", "error", "stderr", "low", "high", "n",
    "n_nonfinite", "vote_error", "bayes_floor", "train_status",
)  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """What `run_cells` found.

    Attributes
    ----------
    results : tuple
        One a cell, in the cells' order; None for a cell that was not run.
    reused : int
        Cells taken from the store.
    status : str
        "finished" or "interrupted".
    """

    results: tuple[dict[str, Any] | None, ...]
    reused: int
    status: str


def run_cells(
    function: Callable[[dict[str, Any]], dict[str, Any]],
    cells: Sequence[Cell],
    *,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
    label: str = "cells",
) -> Sweep:
    """Call ``function(cell)`` for every cell that the store does not hold yet.

    Parameters
    ----------
    function : callable
        Top-level; from a cell to a dict of numbers, strings and lists.
    cells : sequence of mapping
        Plain values. All randomness must come from the cell (a seed), never from the worker.
    executor : concurrent.futures.Executor, optional
    store : path, optional
        Folder with one JSON file a cell, named by a digest of function, cell and package version. A file that does not
        read is computed again.
    progress : lemmata_core.progress.Progress, optional
    label : str

    Returns
    -------
    Sweep
        Ctrl-C returns what is done, with status "interrupted".
    """
    folder = None if store is None else Path(store)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    names = [_digest(function, cell) for cell in cells]
    results: list[dict[str, Any] | None] = [_read(folder, name) for name in names]
    todo = [i for i, result in enumerate(results) if result is None]
    reused, status = len(cells) - len(todo), "finished"
    task = progress.task(label, len(cells)) if progress else None
    if task:
        task.advance(reused)

    def keep(i: int, result: dict[str, Any]) -> None:
        results[i] = result
        if folder is not None:
            with atomic_write(folder / f"{names[i]}.json") as file:
                json.dump({"cell": dict(cells[i]), "result": result}, file)
        if task:
            task.advance()

    try:
        if executor is None:
            for i in todo:
                keep(i, function(dict(cells[i])))
        else:
            futures = {executor.submit(function, dict(cells[i])): i for i in todo}
            try:
                for future in as_completed(futures):
                    keep(futures[future], future.result())
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        if task:
            task.close()
    return Sweep(tuple(results), reused, status)


def _digest(function: Callable[..., Any], cell: Cell) -> str:
    what = {"function": f"{function.__module__}.{function.__qualname__}", "version": metadata.version("icl-theory")}
    return hashlib.sha256(json.dumps(what | {"cell": dict(cell)}, sort_keys=True).encode()).hexdigest()[:32]


def _read(folder: Path | None, name: str) -> dict[str, Any] | None:
    if folder is None:
        return None
    try:
        result = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, dict) else None


def robustness_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Train one model at one share of outliers, and test it at every alpha, rule, magnitude and count in the cell.

    Keys: model, seed, train_fraction, alphas, labels, kappas (of mixed test outliers), counts, steps, n, length. The
    result's "errors" are rows (labels, kappa, count, alpha, error, stderr, low, high, n_nonfinite).
    """
    from icl_theory.gated import GatedLinearICL
    from icl_theory.patterns import PatternBank, tasks_all
    from icl_theory.training import evaluate, train, uninterrupted

    bank = PatternBank(rng=cell["seed"])
    tasks = tasks_all(bank.n_relevant)
    model = GatedLinearICL(bank.d, gate=cell["model"], rng=cell["seed"])
    length = cell.get("length", 20)
    spec = PromptSpec(length=length, outlier_fraction=cell["train_fraction"])
    result = uninterrupted(train(model, bank, tasks, spec, steps=cell["steps"], rng=cell["seed"]))
    rows = []
    for labels in cell["labels"]:
        for kappa in cell["kappas"]:
            for count in cell.get("counts", ["bernoulli"]):
                for alpha in cell["alphas"]:
                    test = PromptSpec(
                        length=length, outlier_fraction=alpha, kappa_max=1.0, kappa_outlier=kappa, labels=labels,
                        count=count, outlier_mix=TEST_MIX,
                    )  # fmt: skip
                    e = evaluate(model, bank, tasks, test, n=cell["n"], rng=cell["seed"])
                    rows.append([labels, kappa, count, alpha, e.value, e.stderr, e.low, e.high, e.n_nonfinite])
    return {"errors": rows, "status": result.status}


@dataclass(frozen=True)
class PhaseDiagram:
    """Error by share of outliers in training and at test.

    Attributes
    ----------
    table : Table
        Tidy: one row a model, rule, magnitude, training share, test share and seed.
    status : str
        "finished" or "interrupted" (then the table holds what is done).
    reused : int
        Trainings taken from the store.
    """

    table: Table
    status: str = "finished"
    reused: int = field(default=0, compare=False)

    def boundary(self, level: float = 0.05) -> Table:
        """Return the largest test share up to which the mean error over seeds stays at or below `level`.

        Interpolated between the shares of the grid; NaN where the first is above already, and the last of the grid
        where none is.
        """
        level = in_range(level, "level", 0.0, 1.0)
        groups: dict[tuple[Any, ...], dict[float, list[float]]] = {}
        for row in self.table.rows:
            alphas = groups.setdefault(tuple(row[:4]), {})
            alphas.setdefault(float(row[4]), []).append(float(row[6]))  # type: ignore[arg-type]
        rows = [
            (*key, _crossing({a: float(np.mean(v)) for a, v in sorted(value.items())}, level))
            for key, value in groups.items()
        ]
        return Table(f"Tolerated share of outliers, error <= {level:g}", (*COLUMNS[:4], "alpha"), tuple(rows))

    def save(self, path: str | Path) -> None:
        """Write the table as CSV, or as Parquet where the name ends so (needs pyarrow).

        Raises
        ------
        InvalidInput
            For another suffix, or a folder that is not there.
        """
        target = Path(path)
        if target.suffix not in {".csv", ".parquet"} or not target.parent.is_dir():
            raise InvalidInput.argument(
                "path", expected="a .csv or .parquet name in a folder that exists", got=str(path)
            )
        if target.suffix == ".parquet":
            try:
                import pyarrow as pa
                from pyarrow import parquet
            except ImportError as err:
                raise InvalidInput.argument(
                    "path", expected="a .csv name, or the extra icl-theory[parquet]", got=str(path)
                ) from err
            columns = {name: [row[i] for row in self.table.rows] for i, name in enumerate(self.table.columns)}
            with atomic_write(target, "wb") as file:
                parquet.write_table(pa.table(columns), file)
            return
        with atomic_write(target) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.table.columns)
            writer.writerows(self.table.rows)

    @classmethod
    def load(cls, path: str | Path) -> PhaseDiagram:
        """Read a file that `save` wrote.

        Raises
        ------
        InvalidInput
            For any other file; an OSError where there is none.
        """
        kinds = [str, str, float, float, float, int, float, float, float, float, int, int, float, float, str]
        try:
            columns, *rows = _read_parquet(path) if Path(path).suffix == ".parquet" else _read_csv(path)
            table = tuple(tuple(kind(v) for kind, v in zip(kinds, row, strict=True)) for row in rows)
        except ValueError:
            columns = []
        if tuple(columns) != COLUMNS:
            raise InvalidInput.argument("path", expected="a file that PhaseDiagram.save wrote", got=str(path))
        return cls(Table("Phase diagram", COLUMNS, table))


def _read_csv(path: str | Path) -> list[list[Any]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _read_parquet(path: str | Path) -> list[list[Any]]:
    from pyarrow import parquet

    columns = parquet.read_table(path).to_pydict()
    return [list(columns), *map(list, zip(*columns.values()))]


def _crossing(curve: Mapping[float, float], level: float) -> float:
    before: tuple[float, float] | None = None
    for alpha, error in curve.items():
        if not error <= level:
            if before is None:
                return float("nan")
            a, e = before
            return a + (alpha - a) * (level - e) / (error - e)
        before = (alpha, error)
    return float("nan") if before is None else before[0]


def phase_diagram(
    alphas: Sequence[float],
    train_fractions: Sequence[float],
    models: Sequence[str] = ("mamba", "none"),
    labels: Sequence[str] = ("flip",),
    kappas: Sequence[float] | None = None,
    seeds: int = 3,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
    *,
    steps: int = 2000,
    n: int = 4000,
    length: int = 20,
) -> PhaseDiagram:
    """Train each model at each training share, and test it at each test share (defaults of arXiv 2510.00399).

    Parameters
    ----------
    alphas : sequence of float
        Test shares, in [0, 1).
    train_fractions : sequence of float
        Training shares p_a, in [0, 1).
    models : sequence of {"mamba", "none"}
        "none" is linear attention.
    labels : sequence of {"flip", "target", "random"}
        Labelling rules of test outliers.
    kappas : sequence of float, optional
        Magnitudes of test outliers, which are `TEST_MIX` of the training ones; 2 / 0.3 if not given.
    seeds : int
        Seeds 0 .. seeds - 1.
    executor, store, progress
        As in `run_cells`; a cell is one training with all its tests.
    steps, n, length : int
        Training steps, test prompts a figure, examples a prompt.

    Returns
    -------
    PhaseDiagram

    Raises
    ------
    InvalidInput
    """
    for name, given in (("models", models), ("labels", labels), ("kappas", [1.0] if kappas is None else kappas)):
        if isinstance(given, str) or np.ndim(given) != 1 or not len(given):
            raise InvalidInput.argument(name, expected="a sequence, not empty", got=given)
    magnitudes = [2.0 / 0.3] if kappas is None else [in_range(k, "kappas", 0.0, low_open=True) for k in kappas]
    for name, shares in (("alphas", alphas), ("train_fractions", train_fractions)):
        values = array(shares, name, ndim=1)
        if not values.size or values.min() < 0 or values.max() >= 1:
            raise InvalidInput.argument(name, expected="shares in [0, 1)", got=f"{values.tolist()}")
    cells = [
        {
            "model": one_of(model, "models", ("mamba", "none")),
            "train_fraction": float(p),
            "seed": seed,
            "alphas": [float(a) for a in alphas],
            "labels": [one_of(rule, "labels", LABELS) for rule in labels],
            "kappas": magnitudes,
            "steps": positive_int(steps, "steps"),
            "n": positive_int(n, "n"),
            "length": positive_int(length, "length", minimum=2),
        }
        for model in models
        for p in train_fractions
        for seed in range(positive_int(seeds, "seeds"))
    ]
    sweep = run_cells(robustness_cell, cells, executor=executor, store=store, progress=progress, label="trainings")
    return PhaseDiagram(_tidy(cells, sweep.results, n, length), sweep.status, sweep.reused)


def _tidy(cells: Sequence[Cell], results: Sequence[dict[str, Any] | None], n: int, length: int) -> Table:
    from icl_theory.theory import bayes_floor, vote_error

    rows = []
    for cell, result in zip(cells, results):
        if result is None:
            continue
        for rule, kappa, _, alpha, error, stderr, low, high, bad in result["errors"]:
            rows.append(
                (
                    cell["model"], rule, kappa, cell["train_fraction"], alpha, cell["seed"], error, stderr, low, high,
                    n, bad, vote_error(alpha, length, rule), bayes_floor(alpha, length), result["status"],
                )
            )  # fmt: skip
    return Table("Phase diagram", COLUMNS, tuple(rows))
