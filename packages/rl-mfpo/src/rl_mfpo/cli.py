"""The command line."""

from __future__ import annotations

from typing import Annotated

import typer
from lemmata_core.check import one_of
from lemmata_core.cli import JsonOption, app, emit

import rl_mfpo
from rl_mfpo.functions import PROBLEMS

main = app("rl-mfpo", "Golden-section search for the least value of a function.")


@main.command()
def minimise(
    problem: Annotated[str, typer.Argument(help=f"One of {', '.join(PROBLEMS)}.")],
    tol: Annotated[float, typer.Option(help="Width of the bracket at which to stop.")] = 1e-8,
    as_json: JsonOption = False,
) -> None:
    """Minimise a built-in function on its interval."""
    chosen = PROBLEMS[one_of(problem, "problem", PROBLEMS)]
    solution = rl_mfpo.minimise(chosen.function, chosen.low, chosen.high, tol=tol)
    emit(solution, as_json=as_json)
