"""The command `qubo-relax`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from lemmata_core.cli import INTERRUPTED, JsonOption, app, emit
from lemmata_core.errors import InvalidInput
from lemmata_core.progress import Progress

# Answers of our own: the formulation has a counterexample; no sample is feasible.
REFUTED, INFEASIBLE = 3, 4

main = app("qubo-relax", "QUBOs whose every local minimum is valid: solve, verify, convert, compare.")


@dataclass(frozen=True)
class Answer:
    """What `solve` prints."""

    file: str
    variables: int
    formulation: str
    objective: float
    energy: float
    feasible: bool | None
    feasible_fraction: float
    status: str
    point: str
    formulation_verdict: str
    wall_time: float
    kernel_time: float
    solution: list[int]


def _load(words: list[str], kind: str | None, prec: Path | None) -> tuple[Any, Path]:
    from qubo_relax.io import KINDS, read

    if len(words) == 2:
        if kind is not None and kind != words[0]:
            raise InvalidInput.argument("kind", expected="one kind", got=f"{words[0]} and {kind}")
        kind = words[0]
    elif len(words) != 1:
        raise InvalidInput.argument("FILE", expected="a file, or a kind and a file", got=" ".join(words))
    if kind is not None and kind not in KINDS:
        raise InvalidInput.argument("kind", expected=f"one of {', '.join(KINDS)}", got=kind)
    path = Path(words[-1])
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    return read(path, kind, prec=prec), path


Words = Annotated[list[str], typer.Argument(help="[KIND] FILE; kinds: qubo, maxcut, tsp, pit, lp, mkp, facility.")]
Kind = Annotated[str | None, typer.Option(help="What the file holds, where its name does not say.")]
Prec = Annotated[Path | None, typer.Option(help="The .prec file of a pit.")]


@main.command()
def solve(
    words: Words,
    kind: Kind = None,
    prec: Prec = None,
    method: Annotated[str, typer.Option(help="auto, pgd, adam, graduated, anneal, ...")] = "auto",
    formulation: Annotated[str | None, typer.Option(help="Instead of the certified one.")] = None,
    restarts: int = 32,
    steps: int = 600,
    time: Annotated[float | None, typer.Option(help="Seconds for all.")] = None,
    seed: int = 0,
    certify: Annotated[bool, typer.Option(help="Also verify the formulation.")] = False,
    constraints: Annotated[Path | None, typer.Option(help="CSV rows for a quadratic.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture here (.svg, .png, .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Minimize a quadratic or solve a problem; the answer is a certified local minimizer."""
    from lemmata_core.timing import preparation

    from qubo_relax import Qubo, minimize
    from qubo_relax.io import read_constraints

    target, path = _load(words, kind, prec)
    rows = None if constraints is None else read_constraints(constraints)
    if plot is not None:
        _check_plot(plot)
    with preparation() as kernels:
        r = minimize(
            target,
            method,
            restarts,
            steps,
            time,
            seed,
            formulation=formulation,
            constraints=rows if isinstance(target, Qubo) else None,
            progress=Progress(),
        )
    verdict = "not asked (--certify)"
    if certify and r.status != "interrupted":
        verdict = _verdict(target, rows, formulation, time or 60.0)
    emit(_answer(target, path, formulation, r, verdict, kernels.seconds), as_json=as_json)
    if plot is not None:
        _draw(target, r, path, plot)
    if r.status == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if r.feasible is False:
        raise typer.Exit(INFEASIBLE)


def _verdict(target: Any, rows: Any, formulation: str | None, time_limit: float) -> str:
    from qubo_relax import Qubo, verify_conditions

    if isinstance(target, Qubo) and rows is None:
        return "no constraints: every vertex is feasible"
    c = verify_conditions(target, rows, formulation=formulation, time_limit=time_limit)
    return f"{c.status} ({c.method})"


def _answer(target: Any, path: Path, formulation: str | None, r: Any, verdict: str, kernels: float) -> Answer:
    from qubo_relax import Qubo

    solution = r.x if r.solution is None else np.asarray(r.solution)
    return Answer(
        file=path.name,
        variables=r.x.size,
        formulation="" if isinstance(target, Qubo) else (formulation or target.default),
        objective=r.objective,
        energy=r.energy,
        feasible=r.feasible,
        feasible_fraction=r.feasible_fraction,
        status=r.status,
        point=r.certificate.status,
        formulation_verdict=verdict,
        wall_time=r.wall_time - kernels,
        kernel_time=kernels,
        solution=solution.astype(int).tolist(),
    )


def _check_plot(plot: Path) -> None:
    try:
        from qubo_relax.plots import check_ending

        check_ending(plot)
    except ImportError as err:
        raise InvalidInput.argument("plot", expected="the extra qubo-relax[plot]", got="no matplotlib") from err


def _draw(target: Any, r: Any, path: Path, plot: Path) -> None:
    from qubo_relax import problems
    from qubo_relax.io import read_tsplib
    from qubo_relax.plots import plot_energies, save

    if isinstance(target, problems.TSP) and r.solution is not None:
        save(target.plot(r.solution, coordinates=read_tsplib(path)[1]), plot)
    elif isinstance(target, problems.OpenPit | problems.MaxCut) and r.solution is not None:
        save(target.plot(r.solution), plot)
    else:
        save(plot_energies(r), plot)


@main.command()
def verify(
    words: Words,
    kind: Kind = None,
    prec: Prec = None,
    constraints: Annotated[Path | None, typer.Option(help="CSV: coefficients, sense, right side.")] = None,
    formulation: Annotated[str | None, typer.Option(help="Instead of the certified one.")] = None,
    method: Annotated[str, typer.Option(help="auto, structural, enumerate, milp, search")] = "auto",
    eps: Annotated[float | None, typer.Option(help="Concavity to decide for.")] = None,
    time: Annotated[float, typer.Option(help="Seconds for integer programs and search.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Prove that every local minimizer is feasible, or print one that is not (exit code 3)."""
    from qubo_relax import Qubo, verify_conditions
    from qubo_relax.io import read_constraints

    target, _ = _load(words, kind, prec)
    rows = None if constraints is None else read_constraints(constraints)
    if isinstance(target, Qubo) and rows is None:
        raise InvalidInput.argument("constraints", expected="a CSV file with a quadratic", got="none")
    c = verify_conditions(target, rows, method=method, eps=eps, time_limit=time, formulation=formulation, rng=0)
    emit(c, as_json=as_json)
    if c.status == "refuted":
        raise typer.Exit(REFUTED)


@main.command()
def convert(source: Path, target: Path, kind: Kind = None, prec: Prec = None, formulation: str | None = None) -> None:
    """Read any file and write its quadratic as .qubo, .mtx or .npz."""
    from qubo_relax import Qubo, write

    found, _ = _load([str(source)], kind, prec)
    write(found if isinstance(found, Qubo) else found.qubo(formulation), target)


@main.command()
def compare(
    words: Words,
    kind: Kind = None,
    prec: Prec = None,
    time: Annotated[float, typer.Option(help="Seconds for each line.")] = 5.0,
    seed: int = 0,
    as_json: JsonOption = False,
) -> None:
    """The certified form beside the usual ones, and every sampler that is installed, at equal time."""
    from qubo_relax.compare import compare as run

    target, _ = _load(words, kind, prec)
    rows = run(target, time, seed)
    if as_json:
        emit([asdict(r) for r in rows], as_json=True)
        return
    typer.echo(f"{'solver':<24} {'formulation':<14} {'best':>14} {'feasible':>8} {'samples':>7} {'wall s':>7}")
    for r in rows:
        best = "none" if r.best is None else f"{r.best:.6g}"
        typer.echo(
            f"{r.solver:<24} {r.formulation:<14} {best:>14} {r.feasible:>8.0%} {r.samples:>7} {r.wall_time:>7.2f}"
        )
