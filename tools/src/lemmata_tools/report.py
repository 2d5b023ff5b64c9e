"""The page of a run, and two runs beside each other."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput, Outcome, Series, Table
from lemmata_core.page import Cell, Page, Section

from lemmata_tools.results import ERROR, Result, load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# A verdict: its colour, and how it is counted.
_VERDICTS = {
    str(Outcome.HOLDS): ("good", "hold"),
    str(Outcome.DOES_NOT_HOLD): ("bad", "do not hold"),
    str(Outcome.NOT_TESTABLE): ("neutral", "not testable"),
    ERROR: ("alert", "failed with an error"),
}


def write_report(folder: Path) -> Path:
    """Rebuild the page of a run from its ``results.json``.

    Parameters
    ----------
    folder : pathlib.Path
        The run's folder, or the file itself.

    Returns
    -------
    pathlib.Path
        ``index.html`` beside the results: one file that loads nothing. Every claim has the anchor ``#NAME/ID``.

    Raises
    ------
    InvalidInput
        Where there are no results.
    """
    machine, results = load_all(folder)
    page = _page(machine, results)
    return page.write((folder if folder.is_dir() else folder.parent) / "index.html")


def compare(a: Path, b: Path) -> str:
    """Two runs beside each other, for the terminal.

    Returns
    -------
    str
        A table of claims with both verdicts and headlines, those whose verdict differs marked and counted.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    runs = [{(r.id, r.scale, r.seed): r for r in load_all(folder)[1]} for folder in (a, b)]
    keys = list(dict.fromkeys([*runs[0], *runs[1]]))
    table = RichTable("", "claim", str(a), str(b), box=box.SIMPLE_HEAD, show_lines=False, pad_edge=False)
    changed = 0
    for key in keys:
        pair = [run.get(key) for run in runs]
        verdicts = [result.verdict if result else "not run" for result in pair]
        differs = verdicts[0] != verdicts[1]
        changed += differs
        name = key[0] if len({k[1:] for k in keys}) == 1 else f"{key[0]} ({key[1]}, seed {key[2]})"
        sides = [f"{verdict}: {_finding(r)}" if r else verdict for verdict, r in zip(verdicts, pair, strict=True)]
        table.add_row("≠" if differs else "", *(Text(text) for text in (name, *sides)))
    width = max(80, min(shutil.get_terminal_size((120, 24)).columns, 200))
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(table)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    return "\n".join([*lines, f"{changed} of {len(keys)} verdicts differ"])


def _finding(result: Result) -> str:
    headline = (result.evidence or {}).get("headline") or result.reason
    return " ".join(str(headline).split())


def _page(machine: Mapping[str, Any], results: Sequence[Result]) -> Page:
    versions = {result.package: result.version for result in results}
    whose = next(iter(versions)) if len(versions) == 1 else f"{len(versions)} packages"
    page = Page(f"Claims of {whose}" if results else "No claims were run", subtitle=_counted(results))
    page.facts(_provenance(machine, results))
    if not results:
        return page
    summary = page.section("Summary")
    parts = {package: page.section(f"{package} {version}", id=package) for package, version in versions.items()}
    times = Counter(result.id for result in results)
    # A claim that was run once has its id as anchor; of several runs each says which it is.
    anchors = [_claim(parts[r.package], r, r.id if times[r.id] == 1 else f"{r.id}-{r.scale}-{r.seed}") for r in results]
    summary.table(_summary(results, anchors), search=True, filters=("Package", "Verdict"), stack=True)
    return page


def _counted(results: Sequence[Result]) -> str:
    if not results:
        return ""
    counts = Counter(result.verdict for result in results)
    parts = [f"{counts[verdict]} {_VERDICTS.get(verdict, ('', verdict))[1]}" for verdict in {**_VERDICTS, **counts}]
    kept = [part for part in parts if not part.startswith("0 ")]
    return f"{len(results)} claim{'s' if len(results) > 1 else ''}: {', '.join(kept)}"


def _provenance(machine: Mapping[str, Any], results: Sequence[Result]) -> dict[str, object]:
    versions = {result.package: result.version for result in results}
    runs = sorted({(result.scale, result.seed) for result in results})
    cores = f", {machine['cores']} cores" if machine.get("cores") else ""
    facts = {
        "Date": str(machine.get("date", "")).replace("T", " ").replace("+00:00", " UTC"),
        "Run": "; ".join(f"scale {scale}, seed {seed}" for scale, seed in runs),
        "Machine": ", ".join(str(machine[k]) for k in ("processor", "system") if machine.get(k)) + cores,
        "Python": machine.get("python"),
        "Libraries": machine.get("libraries"),
        "Packages": versions,
        "Commit": machine.get("commit"),
    }
    return {name: value for name, value in facts.items() if value}


def _summary(results: Sequence[Result], anchors: Sequence[str]) -> Table:
    columns = ("Package", "Claim", "Statement", "Paper", "Here", "Verdict", "Scale", "Seconds")
    rows = [
        (
            result.package,
            Cell(result.id.partition("/")[2] or result.id, href=f"#{anchor}"),
            result.statement,
            result.paper,
            _finding(result),
            _badge(result.verdict),
            result.scale,
            _tenths(result.seconds),
        )
        for result, anchor in zip(results, anchors, strict=True)
    ]
    return Table("What was claimed and what was found", columns, rows)


def _badge(verdict: str) -> Cell:
    return Cell(verdict, kind=_VERDICTS.get(verdict, ("neutral", ""))[0])


def _claim(package: Section, result: Result, anchor: str) -> str:
    part = package.section(result.id, id=anchor)
    part.text(result.statement, kind="lead")
    part.badge(result.verdict, result.reason, kind=_badge(result.verdict).kind)
    evidence = result.evidence or {}
    part.facts(
        {
            name: value
            for name, value in {
                "The paper": result.paper,
                "Here": evidence.get("headline"),
                "Source": result.source,
                "Run": f"scale {result.scale}, seed {result.seed}, {_seconds(result.seconds)}",
            }.items()
            if value
        }
    )
    if result.error:
        part.code(result.error.rstrip())
    for series in evidence.get("series") or ():
        _attempt(part, "plot", lambda: part.series(Series(**series)))  # noqa: B023 - called at once
    for table in evidence.get("tables") or ():
        _attempt(part, "table", lambda: part.table(Table(**table)))  # noqa: B023 - called at once
    _values(part, evidence)
    if evidence.get("settings"):
        part.details("Settings").facts(evidence["settings"])
    part.text("Run it again:", kind="note")
    part.code(_command(result), wrap=True)
    return part.id


def _attempt(part: Section, what: str, add: Callable[[], None]) -> None:
    # Results of another version, or edited by hand: one picture less, but a page.
    try:
        add()
    except (InvalidInput, TypeError, AttributeError) as err:
        part.text(f"A {what} cannot be shown: {err}", kind="note")


def _values(part: Section, evidence: Mapping[str, Any]) -> None:
    values = evidence.get("values") or {}
    if values:
        timed = set(evidence.get("timed") or ())
        rows = [(name, value, "yes" if name in timed else "") for name, value in values.items()]
        columns = ["name", "value", "varies from run to run"]
        if not timed & set(values):
            columns, rows = columns[:2], [row[:2] for row in rows]  # type: ignore[misc]
        part.details("Values that the verdict is read from").table(Table("Values", columns, rows), search=False)


def _seconds(seconds: object) -> str:
    return f"{seconds:.3g} s" if isinstance(seconds, (int, float)) else f"{seconds} s"


def _tenths(seconds: object) -> object:
    return round(seconds, 1) if isinstance(seconds, float) else seconds


def _command(result: Result) -> str:
    words = ["lemmata", "reproduce", result.package, "--claim", result.id]
    return shlex.join([*words, "--scale", result.scale, "--seed", str(result.seed)])
