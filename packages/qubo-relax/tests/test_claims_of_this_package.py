"""The rules that accept: what a figure of each kind leads to, and what is said where data is missing."""

from dataclasses import replace
from pathlib import Path

import pytest
from lemmata_core import Evidence, Outcome
from qubo_relax import claims, claims_work


def _classic(**more):
    return Evidence(headline="", values={"refuted": 3.0, "infeasible_ends": 0.9, **more})


NEWMAN = Path(__file__).parent / "data" / "newman1.upit"
SOURCE = Path(__file__).parents[1] / "src"


@pytest.mark.skipif(SOURCE not in Path(claims_work.__file__).parents, reason="a wheel does not carry newman1")
def test_newman1_is_found_in_a_checkout():
    assert claims_work.newman_file() == NEWMAN


def test_newman1_decides_where_it_is_at_hand():
    assert claims.accept_classic_fails(_classic(feasible_newman=0.0)).outcome == Outcome.HOLDS
    assert claims.accept_classic_fails(_classic(feasible_newman=0.1)).outcome == Outcome.DOES_NOT_HOLD
    without = claims.accept_classic_fails(_classic())
    assert without.outcome == Outcome.HOLDS
    assert "newman1: not testable here" in without.reason


def test_ends_on_newman1():
    method, usual, certified = claims_work.newman_ends(str(NEWMAN), "pgd", 0, 8, 100)
    assert (method, usual, certified) == ("pgd", 0.0, 1.0)


def test_a_task_broken_off_is_no_evidence(monkeypatch):
    from qubo_relax.solvers import pgd

    kernel = pgd.pgd
    monkeypatch.setattr(pgd, "pgd", lambda *words: replace(kernel(*words), ended="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        claims_work.newman_ends(str(claims_work.newman_file()), "pgd", 0, 8, 1)


@pytest.mark.parametrize(
    ("valid", "binary", "steps", "outcome"),
    [
        (1.0, 1.0, 2000.0, Outcome.HOLDS),
        (1.0, 0.98, 2000.0, Outcome.DOES_NOT_HOLD),
        (0.999, 1.0, 2000.0, Outcome.DOES_NOT_HOLD),
        (1.0, 0.5, 300.0, Outcome.HOLDS),
    ],
)
def test_both_halves_of_gradient_valid_decide(valid, binary, steps, outcome):
    values = {"valid_after": valid, "binary_default": binary, "steps": steps}
    values |= {"binary_worst": 0.0, "binary_bare": 0.0, "binary_bare_wide": 0.0}
    assert claims.accept_gradient_valid(Evidence(headline="", values=values)).outcome == outcome
