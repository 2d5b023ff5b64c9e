"""`lemmata bench`: the ratios of a checkout's packages to their peers."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import sys
import tempfile
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write
from lemmata_core.plain import plain
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio

from lemmata_tools.results import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console, RenderableType
    from rich.table import Table

SCHEMA = 1
Key = tuple[str, str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A ratio, or why there is none.

    Attributes
    ----------
    package, benchmark : str
        `benchmark` is the id, or the file's path where the file cannot be loaded.
    case, peer, peer_version, ratio, low, high, bar, aim
        As in `lemmata_core.timing.Ratio`; NaN and None where `error` is set.
    error : str
        The traceback.
    """

    package: str
    benchmark: str
    case: str = ""
    peer: str = ""
    peer_version: str = ""
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    bar: float | None = None
    aim: float | None = None
    error: str = ""

    @property
    def key(self) -> Key:
        """What makes two measurements comparable."""
        return self.benchmark, self.case, self.peer

    @property
    def result(self) -> str:
        """Whether the bar is met: "error", "missed", "met", or "measured" where there is no bar; and the aim."""
        if self.error:
            return "error"
        met = self.bar is None or self.ratio <= self.bar
        if met and self.aim is not None and self.ratio <= self.aim:
            return "aim met"
        return "missed" if not met else "measured" if self.bar is None else "met"

    def worse_than(self, stored: Row | None) -> bool:
        """Whether this ratio's quartiles lie above those of a stored one."""
        return stored is not None and not self.error and not stored.error and self.low > stored.high


@dataclass
class _Store:
    """The file of ``--save``. Until a run ends it holds the old rows too, so that an interruption loses neither."""

    path: Path | None
    before: Sequence[Row]
    machine: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        measured = {row.key for row in self.rows}
        self._write([*(row for row in self.before if row.key not in measured), *self.rows])

    def finish(self, packages: Sequence[str]) -> None:
        self._write([*(row for row in self.before if row.package not in packages), *self.rows])

    def _write(self, rows: Sequence[Row]) -> None:
        if self.path is not None:
            document = {"schema": SCHEMA, "machine": self.machine, "rows": [plain(asdict(row)) for row in rows]}
            with atomic_write(self.path) as file:
                json.dump(document, file, indent=1, allow_nan=False)


def run_bench(root: Path, names: Sequence[str], save: Path | None, against: Path | None, console: Console) -> int:
    """Measure, and print a table.

    Parameters
    ----------
    root : pathlib.Path
        The checkout.
    names : sequence of str
        Packages; none means all.
    save : pathlib.Path or None
        Written as ratios come. In a file that exists the rows of other packages are kept.
    against : pathlib.Path or None
        What an earlier run saved. A ratio whose lower quartile is above the stored upper one is flagged.
    console : rich.console.Console
        Where the table goes.

    Returns
    -------
    int
        1 where a file could not be loaded, a benchmark raised, or a ratio is flagged; else 0. A missed bar is a result.

    Raises
    ------
    InvalidInput
        For an unknown package, and files that cannot be used, before anything is measured.
    """
    packages = _packages(root, names)
    stored_on, stored = _read(against, "--against") if against is not None else ({}, [])
    store = _Store(save, _check_save(save), machine())
    try:
        _measure(root, packages, store)
    except KeyboardInterrupt:
        _print(store.rows, stored, console)
        raise
    store.finish(packages)
    if not store.rows:
        console.print(f"no benchmarks in {', '.join(packages) or 'packages/'}")
        return 0
    _print(store.rows, stored, console)
    known = {row.key: row for row in stored}
    worse = [row for row in store.rows if row.worse_than(known.get(row.key))]
    _closing(store, worse, known, stored_on, against, console)
    return 1 if worse or any(row.error for row in store.rows) else 0


def _packages(root: Path, names: Sequence[str]) -> list[str]:
    known = sorted(path.parent.name for path in (root / "packages").glob("*/pyproject.toml"))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput.argument(
            "PACKAGE", expected=f"one of {', '.join(known)}" if known else "none, for there are none", got=unknown[0]
        )
    return [name for name in known if not names or name in names]


def _read(path: Path, option: str) -> tuple[dict[str, Any], list[Row]]:
    expected = "a file that lemmata bench --save wrote"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise InvalidInput.argument(option, expected=f"schema {SCHEMA}", got=document["schema"])
        return dict(document["machine"]), [_row(data) for data in document["rows"]]
    except OSError as err:
        raise InvalidInput.argument(option, expected=expected, got=f"{path} ({err.strerror or err})") from err
    except (ValueError, KeyError, TypeError) as err:
        if isinstance(err, InvalidInput):
            raise
        raise InvalidInput.argument(option, expected=expected, got=f"{path} ({type(err).__name__}: {err})") from err


def _row(data: Mapping[str, Any]) -> Row:
    # NaN and infinity are strings in JSON.
    numbers = {name: float(data[name]) for name in ("ratio", "low", "high")}
    limits = {name: None if data[name] is None else float(data[name]) for name in ("bar", "aim")}
    return Row(**{**data, **numbers, **limits})


def _check_save(path: Path | None) -> list[Row]:
    if path is None:
        return []
    if path.exists():
        _, before = _read(path, "--save")
    else:
        before = []
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as err:
        raise InvalidInput.argument(
            "--save", expected="a file in a folder that can be written to", got=f"{path} ({err.strerror or err})"
        ) from err
    return before


def _measure(root: Path, packages: Sequence[str], store: _Store) -> None:
    progress = Progress()
    files = [(name, path) for name in packages for path in _files(root / "packages" / name / "benchmarks")]
    with progress.task("benchmark files", total=len(files)) as task:
        for name, path in files:
            place = path.relative_to(root).as_posix()
            task.note(place)
            with _importable(path.parent):
                for benchmark in _guarded(name, place, store, _load(path, root)):
                    task.note(benchmark.id)
                    for ratio in _guarded(name, benchmark.id, store, _ratios(benchmark, progress)):
                        store.add(Row(name, benchmark.id, **asdict(ratio)))
            task.advance()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if _offers(path))


def _offers(path: Path) -> bool:
    # Studies with a main part of their own stand in the same folder: they are not imported.
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return True
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return "BENCHMARKS" in stored | names


def _guarded(package: str, what: str, store: _Store, items: Iterator[T]) -> Iterator[T]:
    """The items, which are made as they are asked for; where that raises, a row says so and the others go on."""
    try:
        yield from items
    except (Exception, SystemExit):  # noqa: BLE001 - a benchmark may raise anything
        store.add(Row(package, what, error=traceback.format_exc()))


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    # As if each file were run alone: its neighbours can be imported, and the next package's have the same names.
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None)
            if origin and str(origin).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _load(path: Path, root: Path) -> Iterator[Benchmark]:
    name = ".".join(("lemmata_benchmarks", *path.relative_to(root).with_suffix("").parts)).replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - the suffix is .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    benchmarks = module.BENCHMARKS
    if not isinstance(benchmarks, tuple) or not all(isinstance(b, Benchmark) for b in benchmarks):
        raise TypeError("BENCHMARKS is not a tuple of Benchmark")
    yield from benchmarks


def _ratios(benchmark: Benchmark, progress: Progress) -> Iterator[Ratio]:
    for ratio in benchmark.run(progress):
        if not isinstance(ratio, Ratio):
            raise TypeError(f"{benchmark.id}: run gave {type(ratio).__name__}, not Ratio")
        yield ratio


_STYLES = {"aim met": "bold green", "met": "green", "measured": "", "missed": "bold yellow", "error": "bold red"}


def _print(rows: Sequence[Row], stored: Sequence[Row], console: Console) -> None:
    from rich.measure import Measurement

    table = _table(rows, {row.key: row for row in stored}, compared=bool(stored))
    width = console.width
    if not console.is_terminal:
        # A log has no width: let no cell be folded.
        console.width = max(width, Measurement.get(console, console.options.update(width=1000), table).maximum)
    try:
        console.print(table)
    finally:
        console.width = width


def _table(rows: Sequence[Row], known: Mapping[Key, Row], *, compared: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="ours / peer, median with quartiles; lower is better")
    table.title_justify = "left"
    for name in ("benchmark", "case", "peer", "version"):
        table.add_column(name, overflow="fold")
    for name in ("ratio", "quartiles", "bar", "aim", *(["stored"] if compared else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for row in rows:
        before = known.get(row.key)
        cells: list[RenderableType] = [Text(text) for text in (row.benchmark, row.case, row.peer, row.peer_version)]
        cells += [
            "" if row.error else text for text in (_short(row.ratio), _span(row), _short(row.bar), _short(row.aim))
        ]
        cells += [_span(before) if before else ""] if compared else []
        result = Text(row.result, _STYLES[row.result])
        if row.worse_than(before):
            result.append(", worse", "bold red")
        if row.error:
            cells[1] = Text(row.error.strip().splitlines()[-1], "red")
        table.add_row(*cells, result)
    return table


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _span(row: Row) -> str:
    return "" if row.error else f"{row.low:.3g} to {row.high:.3g}"


def _closing(
    store: _Store,
    worse: Sequence[Row],
    known: Mapping[Key, Row],
    stored_on: Mapping[str, Any],
    against: Path | None,
    console: Console,
) -> None:
    measured = [row for row in store.rows if not row.error]
    barred = [row for row in measured if row.bar is not None]
    met = sum(row.result != "missed" for row in barred)
    lines = [f"{len(measured)} measured, {met} of {len(barred)} bars met, {len(store.rows) - len(measured)} failed"]
    if against is not None:
        packages = {row.package for row in store.rows}
        gone = [row for row in known.values() if row.package in packages and row.key not in {r.key for r in store.rows}]
        lines.append(f"{len(worse)} worse than in {against}, {len(gone)} stored there and not measured now")
        if any(stored_on.get(name) != store.machine.get(name) for name in ("processor", "cores")):
            lines.append(f"{against} was measured on another machine: {stored_on.get('processor', 'not known')}")
    if store.path is not None:
        lines.append(f"saved: {store.path}")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
