"""`oco-anytime` on the command line: environments, runs, comparisons, projections, and decisions over a pipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from lemmata_core import InvalidInput
from lemmata_core.cli import INTERRUPTED, emit
from lemmata_core.cli import app as make_app
from lemmata_core.progress import Progress

from oco_anytime.named import LEARNERS, make_environment, make_learner

app = make_app("oco-anytime", "Online decisions under constraints, with a guarantee at every round.")


def parse_domain(text: str) -> Any:
    """A domain from ``ball:D[:RADIUS]``, ``box:D[:LOWER:UPPER]``, ``simplex:D[:TOTAL]``, ``capped:D:TOTAL:CAP``,
    ``l1:D[:RADIUS]`` or ``budget:BUDGET:W1,W2,..[:CAP]``.
    """
    from oco_anytime import domains

    kind, *rest = text.split(":")
    expected = "ball:D[:R], box:D[:LO:UP], simplex:D[:TOTAL], capped:D:TOTAL:CAP, l1:D[:R] or budget:B:W1,W2,..[:CAP]"
    try:
        if kind == "budget":
            weights = [float(w) for w in rest[1].split(",")]
            return domains.BudgetSet(weights, float(rest[0]), *map(float, rest[2:]))
        classes: dict[str, Any] = {
            "ball": domains.Ball,
            "box": domains.Box,
            "simplex": domains.Simplex,
            "capped": domains.CappedSimplex,
            "l1": domains.L1Ball,
        }
        return classes[kind](int(rest[0]), *map(float, rest[1:]))
    except InvalidInput:
        raise
    except (KeyError, IndexError, ValueError, TypeError):
        raise InvalidInput.argument("domain", expected=expected, got=text) from None


def _writable(path: Path, name: str) -> None:
    """A file that cannot be written is told before the work, not after it."""
    if not path.parent.is_dir():
        raise InvalidInput.argument(name, expected="a file in a folder that exists", got=str(path))
    if path.is_dir():
        raise InvalidInput.argument(name, expected="a file", got=f"the folder {path}")


@app.command()
def envs() -> None:
    """List the environments and the learners."""
    from oco_anytime.environments import BY_NAME

    typer.echo("environments: " + ", ".join(BY_NAME))
    for name, what in LEARNERS.items():
        typer.echo(f"learner {name}: {what}")


@app.command()
def run(
    env: str,
    learner: str = "anytime",
    rounds: Annotated[int, typer.Option(min=0)] = 10_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the run here (.npz).")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from OUT.checkpoint, where an interruption left it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Play one learner in one environment."""
    from lemmata_core.timing import preparation

    from oco_anytime import play

    if out is not None:
        _writable(out, "--out")
    environment = make_environment(env, rounds, seed)
    player = make_learner(learner, environment.domain, rounds)
    checkpoint = None if out is None else out.with_name(out.name + ".checkpoint")
    if checkpoint is not None and not resume:
        checkpoint.unlink(missing_ok=True)
    if resume and checkpoint is None:
        raise InvalidInput.argument("--resume", expected="--out, whose checkpoint is continued", got="no --out")
    with Progress().task(f"{learner} on {env}", rounds) as task, preparation() as kernels:
        result = play(player, environment, rounds, record="all", progress=task, checkpoint=checkpoint)
    if out is not None and result.status == "complete":
        result.to_npz(out)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
    emit(summary(result, player, kernels.seconds), as_json=as_json)
    if result.status != "complete":
        raise typer.Exit(INTERRUPTED)


def summary(result: Any, player: Any, kernels: float) -> dict[str, Any]:
    """What a run comes to; the seconds in which kernels were compiled or loaded stand apart."""
    c = player.certificate()
    ccv = result.ccv[-1] if result.rounds else np.zeros(1)
    upper = float(c.regret_upper)
    return {
        "rounds": result.rounds,
        "cost": float(result.cost.sum()),
        "ccv": np.atleast_1d(ccv).tolist(),
        "regret_upper": None if np.isnan(upper) else upper,
        "violated_rounds": c.violated_rounds,
        "status": c.status if result.status == "complete" else result.status,
        "seconds": result.wall_time - kernels,
        "kernel_seconds": kernels,
    }


@app.command()
def compare(
    env: str,
    learners: str = "anytime,paper,fixed,doubling,recoo",
    rounds: Annotated[int, typer.Option(min=1)] = 5000,
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    out: Annotated[Path, typer.Option(help="The report: one page, no network.")] = Path("report.html"),
    executor: Annotated[str, typer.Option(help="serial, local, local:N or tcp://HOST:PORT")] = "serial",
) -> None:
    """Play several learners over several seeds and write a page with tables and plots."""
    from lemmata_core.executor import executor as open_executor

    _writable(out, "--out")
    from oco_anytime.report import comparison, write

    names = [n.strip() for n in learners.split(",") if n.strip()]
    if not names:
        raise InvalidInput.argument("--learners", expected="names, with commas between them", got=repr(learners))
    probe = make_environment(env, 1, 0)
    for name in names:
        make_learner(name, probe.domain, rounds)
    with open_executor(executor) as pool:
        table, series = comparison(env, names, rounds, seeds, pool, Progress())
    write(out, f"{env}: {', '.join(names)}", table, series)
    for row in table.rows:
        typer.echo("  ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row))
    typer.echo(f"report: {out}")


@app.command()
def project(domain: str) -> None:
    """Read a JSON vector (or a list of them) from stdin and print its projection."""
    target = parse_domain(domain)
    try:
        y = np.array(json.load(sys.stdin), dtype=float)
    except (ValueError, TypeError) as err:
        raise InvalidInput.argument("stdin", expected="a JSON list of numbers", got=str(err)) from None
    x = target.project_batch(y) if y.ndim == 2 else target.project(y)
    typer.echo(json.dumps(x.tolist()))


@app.command()
def stream(
    domain: Annotated[str, typer.Option(help="Such as simplex:20; see the README.")],
    state: Annotated[Path | None, typer.Option(help="Kept here by rename; continued if it exists.")] = None,
    save_every: Annotated[int, typer.Option(min=1, help="Rounds between two saves.")] = 100,
    learner: str = "anytime",
) -> None:
    """Decide over a pipe: JSON lines in, a decision a line out.

    First comes the decision of the first round; then every line {"cost_grad": [..], "violation": 0.1,
    "violation_grad": [..]} is answered by {"t": .., "x": [..], "ccv": .., "regret_upper": ..}, the next decision.
    """
    from oco_anytime.stream import serve

    if learner == "fixed":
        raise InvalidInput.argument("--learner", expected="a learner without a horizon", got=learner)
    if state is not None:
        _writable(state, "--state")
    serve(make_learner(learner, parse_domain(domain), 1), sys.stdin, sys.stdout, state, save_every)


def main() -> None:
    """Run the command line."""
    app()
