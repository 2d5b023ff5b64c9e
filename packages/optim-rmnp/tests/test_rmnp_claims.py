"""The claims: what they accept, what they refuse, and that they run."""

import json
from concurrent.futures import Executor, Future

import numpy as np
import pytest
import torch
from lemmata_core import Context, Evidence, Outcome, Scale
from lemmata_core.progress import Progress
from optim_rmnp import claims_theory, claims_training, claims_wire
from optim_rmnp.claims import (
    CLAIMS,
    GRIDS,
    accept_beats,
    accept_dominance,
    accept_matches,
    accept_orientation,
    cells_for,
    run_comparison,
)
from optim_rmnp.claims_training import Cell, OtherLines, best_of, make_optimizers, run_cell, run_cells
from optim_rmnp.step import Rule, step_rows


class Here(Executor):
    """Runs tasks in the caller's thread and counts them."""

    def __init__(self):
        self.count = 0

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("LEMMATA_PROGRESS", "0")
    return Context(
        scale=Scale.SMOKE, rng=np.random.default_rng(0), executor=Here(), progress=Progress(), workdir=tmp_path
    )


def outcome(accept, **values):
    return accept(Evidence(headline="", values={k: float(v) for k, v in values.items()})).outcome is Outcome.HOLDS


def test_every_claim_of_the_design_is_there_and_text_does_not_stand_alone():
    ids = {claim.id.partition("/")[2] for claim in CLAIMS}
    asked = {"cost", "equivalence", "dominance", "beats-adamw", "matches-muon", "orientation", "rate", "sharding"}
    assert asked <= ids
    for name in ("beats-adamw", "matches-muon"):
        assert {f"{name}-pixels", f"{name}-vit", f"{name}-conv"} <= ids
    assert all(claim.requires == ("sklearn",) for claim in CLAIMS if claim.id.endswith(("pixels", "vit", "conv")))


@pytest.mark.parametrize(
    ("accept", "values", "holds"),
    [
        (claims_theory.accept_cost, {"lowest_ratio": 13, "exponent_rows": 1.15, "exponent_newton_schulz": 1.35}, True),
        (claims_theory.accept_cost, {"lowest_ratio": 12, "exponent_rows": 1.0, "exponent_newton_schulz": 1.5}, False),
        (claims_theory.accept_cost, {"lowest_ratio": 99, "exponent_rows": 1.2, "exponent_newton_schulz": 1.5}, False),
        (claims_theory.accept_cost, {"lowest_ratio": 99, "exponent_rows": 1.0, "exponent_newton_schulz": 1.3}, False),
        (claims_theory.accept_equivalence, {"slope": -0.54}, True),
        (claims_theory.accept_equivalence, {"slope": -0.44}, False),
        (claims_theory.accept_rate, {"slope_quadratic": -0.25, "slope_network": -0.22}, True),
        (claims_theory.accept_rate, {"slope_quadratic": -0.25, "slope_network": -0.2}, False),
        (claims_wire.accept_sharding, {"whole": 0, "cut": 2048, "rows": 256}, True),
        (claims_wire.accept_sharding, {"whole": 1, "cut": 10, "rows": 256}, False),
        (claims_wire.accept_sharding, {"whole": 0, "cut": 2049, "rows": 256}, False),
        (accept_orientation, {"rows": 2.0, "short": 2.1, "columns": 2.2}, True),
        (accept_orientation, {"rows": 2.0, "short": 2.1, "columns": 1.9}, False),
        (accept_matches, {"rmnp": 1.01, "peer": 1.0}, True),
        (accept_matches, {"rmnp": 1.02, "peer": 1.0}, False),
        (accept_dominance, {"r_min": 1.1, "r_avg": 5.1, "growth": 1.1, "strict": 0, "gaussian": 9}, True),
        (accept_dominance, {"r_min": 1.1, "r_avg": 4.9, "growth": 1.1, "strict": 0, "gaussian": 9}, False),
        (accept_dominance, {"r_min": 0.9, "r_avg": 5.1, "growth": 1.1, "strict": 0, "gaussian": 9}, False),
        (accept_dominance, {"r_min": 1.1, "r_avg": 5.1, "growth": 0.9, "strict": 0, "gaussian": 9}, False),
    ],
)
def test_rules_accept_at_the_bar_and_refuse_beyond_it(accept, values, holds):
    assert outcome(accept, **values) is holds


@pytest.mark.parametrize(
    ("rmnp", "peer", "wins", "holds"),
    [(1.0, 1.1, 2, True), (1.0, 1.1, 1, False), (1.1, 1.0, 0, False), (1.0, 1.0, 0, False)],
)
def test_a_lower_mean_that_not_every_seed_shares_is_open_and_does_not_hold(rmnp, peer, wins, holds):
    values = {"rmnp": rmnp, "peer": peer, "wins": wins, "seeds": 2, "rmnp_spread": 0, "peer_spread": 0}
    assert outcome(accept_beats, **values) is holds


def test_grids_are_three_rates_and_the_laptop_runs_them_on_text():
    assert all(len(rates) == 3 for grid in GRIDS.values() for rates in grid.values())
    cells = cells_for("kjv", ("rmnp", "adamw"), Scale.LAPTOP)
    assert len(cells) == 2 * 3 * 2
    assert {cell.steps for cell in cells} == {400}
    assert len(cells_for("digits_vit", ("rmnp", "muon"), Scale.LAPTOP)) == 2 * 2
    assert len(cells_for("digits_vit", ("rmnp", "muon"), Scale.FULL)) == 2 * 3 * 3


def tiny(optimizer="rmnp", seed=0, lr=5e-3, **options):
    return Cell("kjv", optimizer, lr, seed, 2, 2, width=16, **options)


@pytest.fixture
def fast(monkeypatch):
    """Held-out scores on a sixteenth of the text: what is tested here is not the loss."""
    from lemmata_core import testbeds

    monkeypatch.setattr(testbeds, "HELD_OUT", 0.003)
    monkeypatch.setattr(claims_training, "_done", {})


def test_finished_cells_are_found_again_after_an_interruption_and_unreadable_ones_are_not(context, fast, monkeypatch):
    cells = [tiny(seed=0), tiny(seed=1)]
    first = run_cells(context, cells[:1], "")
    assert context.executor.count == 1
    monkeypatch.setattr(claims_training, "_done", {})
    again = run_cells(context, cells, "")
    assert context.executor.count == 2
    assert again[cells[0]] == first[cells[0]]
    monkeypatch.setattr(claims_training, "_done", {})
    for path in context.workdir.glob("*.json"):
        path.write_text(path.read_text()[:20])
    assert run_cells(context, cells, "") == again
    assert context.executor.count == 4


def test_runs_that_two_claims_share_are_trained_once_a_process(context, fast, tmp_path):
    run_cells(context, [tiny()], "")
    other = tmp_path / "other"
    other.mkdir()
    run_cells(Context(context.scale, context.rng, context.executor, context.progress, other), [tiny()], "")
    assert context.executor.count == 1


def test_a_cell_gives_plain_values_that_follow_from_the_cell(fast):
    cell = tiny(measure=1)
    result = run_cell(cell)
    assert json.loads(json.dumps(result)) == result == run_cell(cell)
    assert [record["step"] for record in result["dominance"]] == [1, 2]
    assert all(record["r_min"] <= record["r_avg"] <= record["r_max"] for record in result["dominance"])


@pytest.mark.parametrize("kind", ["rmnp", "adamw", "muon", "short", "columns"])
def test_every_optimizer_of_a_cell_owns_every_parameter_once(kind):
    from lemmata_core import testbeds

    model = testbeds.text(b"abcdefgh " * 300, width=16, layers=1, context=8).model()
    made = make_optimizers(kind, 0.01, model)
    owned = [id(p) for o in made for g in o.param_groups for p in g["params"]]
    assert sorted(owned) == sorted(id(p) for p in model.parameters())
    assert made[0].param_groups[0]["lr"] == 0.01


@pytest.mark.parametrize(
    ("shape", "lines", "turned"), [((6, 4), "short", True), ((4, 6), "short", False), ((4, 6), "columns", True)]
)
def test_the_ablation_differs_from_rmnp_in_nothing_but_the_lines(shape, lines, turned):
    w, g = torch.randn(shape), torch.randn(shape)
    p = torch.nn.Parameter(w.clone())
    p.grad = g
    OtherLines([{"params": [p], "lr": 0.1, "weight_decay": 0.1}], lines).step()
    m = torch.zeros(shape)
    scale = max(1, shape[0] / shape[1]) ** 0.5
    tensors = [t.t() for t in (w, g, m)] if turned else [w, g, m]
    step_rows(*tensors, Rule(0.1, 0.1, 0.95, True, 1e-12, scale))
    torch.testing.assert_close(p.detach(), w)


def test_the_best_rate_is_that_of_the_lowest_mean(fast):
    results = {
        tiny(seed=s, lr=lr): {"held_out_loss": [9.0, loss], "accuracy": 0.5, "evaluated": [1, 2]}
        for s, lr, loss in ((0, 0.1, 3.0), (1, 0.1, 1.0), (0, 0.2, 2.5), (1, 0.2, 2.0))
    }
    best = best_of(results, "rmnp")
    assert (best.lr, best.mean, best.losses) == (0.1, 2.0, (3.0, 1.0))
    assert best.spread == pytest.approx(2**0.5)


def test_newton_schulz_is_the_one_of_torch():
    from torch.optim import _muon

    for shape in ((16, 24), (24, 16)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        theirs = _muon._zeropower_via_newtonschulz(x, (3.4445, -4.7750, 2.0315), 5, 1e-7)
        torch.testing.assert_close(claims_theory.newton_schulz(x), theirs, rtol=0.05, atol=0.02)


def test_network_gradients_are_those_of_autograd():
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(2, 5, 3, generator=generator), torch.randn(2, 4, 5, generator=generator)]
    for w in weights:
        w.requires_grad_()
    x, y = torch.randn(2, 7, 3, generator=generator), torch.randn(2, 7, 4, generator=generator)
    loss = 0.5 * (torch.tanh(x @ weights[0].mT) @ weights[1].mT - y).square().sum(dim=2).mean(dim=1).sum()
    expected = torch.autograd.grad(loss, weights)
    for ours, theirs in zip(claims_theory.network_gradients(weights, x, y), expected):
        torch.testing.assert_close(ours, theirs)


def test_theory_claims_run_and_do_not_depend_on_when(context):
    by_id = {claim.id.partition("/")[2]: claim for claim in CLAIMS}
    first = by_id["equivalence"].run(context)
    assert first.values["slope"] == pytest.approx(-0.5, abs=0.05)
    short = [claims_theory.quadratic_run(steps, 1, 2) for steps in (64, 256)]
    assert short == [claims_theory.quadratic_run(steps, 1, 2) for steps in (64, 256)]
    assert short[1] < short[0]
    assert claims_theory.network_run(64, 1, 2) == claims_theory.network_run(64, 1, 2)


def test_a_comparison_gives_a_verdict_with_its_curve_and_settings(context, fast, monkeypatch):
    import optim_rmnp.claims

    monkeypatch.setattr(
        optim_rmnp.claims,
        "cells_for",
        lambda problem, kinds, scale: [tiny(kind, seed) for kind in kinds for seed in (0, 1)],
    )
    evidence = run_comparison(context, "kjv", "muon")
    assert {"rmnp", "peer", "wins", "seeds"} <= evidence.values.keys()
    assert evidence.settings["seeds"] == [0, 1]
    assert set(evidence.series[0].lines) == {"RMNP 0.005", "Muon 0.005"}
    assert accept_matches(evidence).reason


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_is_timed_where_the_processor_has_units_for_it(context, monkeypatch, units):
    monkeypatch.setattr(claims_theory, "has_bfloat16_units", lambda device: units)
    monkeypatch.setitem(claims_theory.COST_SQUARE, Scale.SMOKE, (32, 48, 64))
    evidence = claims_theory.run_cost(context)
    assert ("Newton-Schulz bfloat16" in evidence.tables[0].columns) is units
    assert evidence.values["lowest_ratio"] > 1
