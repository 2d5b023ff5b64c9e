"""The `lemmata` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from lemmata_core import Claim, InvalidInput, Outcome, Scale
from lemmata_core.cli import FAILED, INTERRUPTED, JsonOption, app, emit

if TYPE_CHECKING:
    from lemmata_core.progress import Progress
    from rich.console import Console
    from rich.text import Text

    from lemmata_tools.reproduce import Plan, Settings
    from lemmata_tools.results import Result

STYLES = {
    str(Outcome.HOLDS): "green",
    str(Outcome.DOES_NOT_HOLD): "yellow",
    str(Outcome.NOT_TESTABLE): "dim",
    "error": "bold red",
}

command = app("lemmata-tools", "Run the claims of the installed lemmata packages and report what came out.")


@command.command()
def reproduce(
    packages: Annotated[
        list[str] | None, typer.Argument(metavar="[PACKAGE]...", help="All installed by default.")
    ] = None,
    claim: Annotated[list[str] | None, typer.Option(help="Only this claim; may be given several times.")] = None,
    scale: Annotated[
        Scale, typer.Option(help="smoke: seconds a claim; laptop: minutes a package; full.")
    ] = Scale.SMOKE,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every claim's generator.")] = 0,
    executor: Annotated[str, typer.Option(help="serial, local, local:N or tcp://HOST:PORT (Dask).")] = "local",
    out: Annotated[Path, typer.Option(help="Folder for results and the report.")] = Path("lemmata-results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is finished.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for a claim that does not hold.")] = False,
) -> None:
    """Run claims, keep what finishes, and write a report. The same command goes on after an interruption."""
    from lemmata_core.progress import Progress

    from lemmata_tools import reproduce as runner
    from lemmata_tools import results

    chosen = runner.plan(packages or (), claim or ())
    settings = runner.Settings(scale=scale, seed=seed, spec=executor, out=out, fresh=fresh)
    runner.prepare(out)
    with runner.only_one(out):
        finished = _run(chosen, settings, Progress())
        results.save_all(out, finished)
        page = _report(out)
    for package in chosen.broken:
        typer.echo(f"error: {package.name} cannot be loaded: {package.error}", err=True)
    _closing(finished, page, settings)
    failed = bool(chosen.broken) or any(r.verdict == results.ERROR for r in finished)
    rejected = strict and any(r.verdict == Outcome.DOES_NOT_HOLD for r in finished)
    raise typer.Exit(FAILED if failed or rejected else 0)


def _normal(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _run(chosen: Plan, settings: Settings, progress: Progress) -> list[Result]:
    from lemmata_tools import reproduce as runner

    console = _console()
    width = max((len(c.id) for _, c in chosen.claims), default=5)
    done = 0

    def row(*cells: str) -> None:
        if console.is_terminal:
            # Through the console that draws the bars, or they would tear the line.
            (progress.console or console).print(_row(width, *cells), no_wrap=True, overflow="ellipsis", crop=True)
        else:
            console.print(_row(width, *cells), soft_wrap=True)

    row("claim", "verdict", "seconds", "finding")
    with progress.task("claims", total=len(chosen.claims)) as task:

        def observe(claim: Claim, state: str, result: Result | None) -> None:
            nonlocal done
            if result is None:
                task.note(f"running {claim.id}")
                return
            done += 1
            task.advance()
            seconds = "kept" if state == "kept" else f"{result.seconds:.1f}"
            row(claim.id, result.verdict, seconds, _finding(result))

        try:
            return runner.run(chosen, settings, progress, observe)
        except KeyboardInterrupt:
            task.close()
            typer.echo(
                f"interrupted: {done} of {len(chosen.claims)} claims are finished and kept in {settings.out}; "
                f"the same command{' without --fresh' if settings.fresh else ''} goes on from there",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from None


def _row(width: int, claim: str, verdict: str, seconds: str, finding: str) -> Text:
    from rich.text import Text

    line = Text(f"{claim:<{width}}  ")
    line.append(f"{verdict:<14}", STYLES.get(verdict, "bold"))
    line.append(f"  {seconds:>7}  {finding}")
    return line


def _finding(result: Result) -> str:
    text = result.reason if result.evidence is None else str(result.evidence["headline"])
    return " ".join(text.split())


def _console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def _report(out: Path) -> Path | None:
    try:
        from lemmata_tools.report import write_report
    except ImportError:  # matplotlib is what the page is drawn with
        return None
    return write_report(out)


def _closing(finished: list[Result], page: Path | None, settings: Settings) -> None:
    counts = [
        f"{sum(r.verdict == verdict for r in finished)} {text}"
        for verdict, text in (
            (Outcome.HOLDS, "hold"),
            (Outcome.DOES_NOT_HOLD, "do not hold"),
            (Outcome.NOT_TESTABLE, "not testable"),
            ("error", "failed with an error"),
        )
        if verdict != "error" or any(r.verdict == "error" for r in finished)
    ]
    typer.echo(f"\n{len(finished)} claims at scale {settings.scale}, seed {settings.seed}: {', '.join(counts)}")
    if page is not None:
        typer.echo(f"report: {page}")
    if settings.scale == Scale.SMOKE:
        typer.echo(
            "further: lemmata reproduce PACKAGE --scale laptop runs what the packages' figures come from (minutes each)"
        )


@command.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that lemmata reproduce wrote.")],
    other: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="A second one to compare with.")] = None,
    same: Annotated[
        bool, typer.Option("--same", help="Check that both are equal but for times; exit code 1 if not.")
    ] = False,
) -> None:
    """Rebuild the page of a run, or compare two runs."""
    from lemmata_tools.results import differences

    if other is None:
        if same:
            raise InvalidInput("--same: expected two folders, got one")
        from lemmata_tools.report import write_report

        typer.echo(f"report: {write_report(folder)}")
        return
    if not same:
        from lemmata_tools.report import compare

        typer.echo(compare(folder, other))
        return
    found = differences(folder, other)
    for line in found:
        typer.echo(line)
    typer.echo(f"{len(found)} differences" if found else "equal but for times")
    raise typer.Exit(FAILED if found else 0)


@command.command("list")
def list_packages(as_json: JsonOption = False) -> None:
    """List the installed packages with their versions, claims and extras."""
    from lemmata_tools.listing import installed, table

    rows = installed()
    if as_json:
        emit(rows, as_json=True)
    elif rows:
        _console().print(table(rows))
    else:
        typer.echo("no installed package offers claims")


@command.command()
def bench(
    packages: Annotated[
        list[str] | None, typer.Argument(metavar="[PACKAGE]...", help="All in the checkout by default.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the ratios to this file.")] = None,
    against: Annotated[Path | None, typer.Option(help="Flag ratios that are worse than in this file.")] = None,
) -> None:
    """Measure the packages against their peers. Ratios are ours over the peer's: lower is better."""
    from lemmata_tools.bench import run_bench
    from lemmata_tools.checkout import require_root

    root = require_root("bench")
    raise typer.Exit(run_bench(root, [_normal(name) for name in packages or ()], save, against, _console()))


@command.command()
def new(name: Annotated[str, typer.Argument(help="Name of the distribution, in lower case with hyphens.")]) -> None:
    """Make a package whose tests, claims and README pass at once."""
    from lemmata_tools.checkout import require_root
    from lemmata_tools.new import new_package

    root = require_root("new")
    for path in new_package(root, name):
        typer.echo(str(path.relative_to(root)))


@command.command()
def lock(
    name: Annotated[str | None, typer.Argument(help="With --upgrade: the one package that may move.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check that uv.lock is pinned; exit code 1 if not.")
    ] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Let versions move.")] = False,
) -> None:
    """Write the pins in the root pyproject.toml from a resolution."""
    from lemmata_tools import lock as locking
    from lemmata_tools.checkout import require_root

    root = require_root("lock")
    if check:
        missing = locking.missing_pins(root)
        for pin in missing:
            typer.echo(f"not pinned: {pin}")
        raise typer.Exit(FAILED if missing else 0)
    if name is not None and not upgrade:
        raise InvalidInput("NAME: expected with --upgrade only, got it without")
    for line in locking.lock(root, upgrade=upgrade, name=name):
        typer.echo(line)


@command.command()
def release(
    name: Annotated[str, typer.Argument(help="The package.")],
    bump: Annotated[
        str | None, typer.Option(help="major, minor or patch; by default the version stands as it is.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
) -> None:
    """Check, build, try in a clean environment and tag a release."""
    from lemmata_tools.checkout import require_root
    from lemmata_tools.release import release as run_release

    root = require_root("release")
    raise typer.Exit(run_release(root, _normal(name), bump, dry_run, _console()))


def main() -> None:
    """Entry point of the command."""
    from lemmata_core.executor import THREAD_VARIABLES

    # Before any numerical library loads: the threads of a claim do not depend on the executor.
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    command()


if __name__ == "__main__":
    main()
