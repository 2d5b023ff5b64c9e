"""The command line."""

from __future__ import annotations

from lemmata_core.cli import JsonOption, app, emit

main = app("icl-theory", "In-context learning under outliers, and as Bayesian inference, with exact answers.")


@main.command()
def collision(as_json: JsonOption = False) -> None:
    """Print the Bayes gap that no mean-pooling model escapes, in exact fractions."""
    from icl_theory.bounds import collision_example

    emit({name: str(value) for name, value in collision_example()._asdict().items()}, as_json=as_json)
