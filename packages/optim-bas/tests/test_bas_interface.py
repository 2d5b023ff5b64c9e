"""The command, the claims and the import."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from lemmata_core import Context, Evidence, Outcome, Scale
from lemmata_core.executor import executor
from lemmata_core.progress import Progress
from optim_bas.claim_runs import Cell, run_cell, run_family
from optim_bas.claims import CLAIMS
from optim_bas.cli import main
from typer.testing import CliRunner

BY_ID = {claim.id.partition("/")[2]: claim for claim in CLAIMS}


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_memory_says_what_a_model_costs():
    done = invoke("memory", "--parameters", "7e9", "--row", "4096", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["adamw"] == pytest.approx(56.0)
    assert found["of_adamw"] == pytest.approx(0.125 * (1 + 8 / 4096))


def test_a_number_that_makes_no_sense_is_one_line_on_stderr():
    done = invoke("memory", "--parameters", "-1")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1


def test_convert_writes_a_checkpoint_that_bas_goes_on_with(tmp_path):
    from optim_bas import BAS

    model = torch.nn.Linear(32, 16)
    adamw = torch.optim.AdamW(model.parameters(), lr=0.02)
    model(torch.ones(4, 32)).sum().backward()
    adamw.step()
    torch.save({"optimizer": adamw.state_dict()}, tmp_path / "in.pt")
    done = invoke("convert", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.exit_code == 0, done.output
    loaded = torch.load(tmp_path / "out.pt", weights_only=True)
    bas = BAS(model.parameters())
    bas.load_state_dict(loaded["optimizer"])
    assert bas.param_groups[0]["lr"] == 0.02
    bas.step()


@pytest.mark.parametrize("content", [None, b"nonsense"])
def test_convert_refuses_what_is_no_checkpoint(content, tmp_path):
    if content is not None:
        (tmp_path / "in.pt").write_bytes(content)
    done = invoke("convert", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.exit_code == 2
    assert "IN: expected" in done.stderr
    assert not (tmp_path / "out.pt").exists()


def test_convert_names_a_target_that_cannot_be_written_and_may_overwrite_its_source(tmp_path):
    model = torch.nn.Linear(3, 2)
    torch.save(torch.optim.AdamW(model.parameters()).state_dict(), tmp_path / "a.pt")
    for target in (tmp_path, tmp_path / "missing" / "b.pt"):
        done = invoke("convert", tmp_path / "a.pt", target)
        assert done.exit_code == 2
        assert "OUT: expected" in done.stderr
    assert invoke("convert", tmp_path / "a.pt", tmp_path / "a.pt").exit_code == 0
    assert torch.load(tmp_path / "a.pt", weights_only=True)["param_groups"][0]["algorithm"] == "bas"


@pytest.mark.parametrize("optimizer", ["bas", "adamw"])
def test_train_reports_loss_and_state(optimizer):
    done = invoke("train", "--optimizer", optimizer, "--steps", "3", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert 3 < found["loss"] < 5
    assert found["state_bytes_per_parameter"] == pytest.approx(8.0 if optimizer == "adamw" else 1.11, abs=0.02)


def test_train_refuses_an_unknown_optimizer():
    done = invoke("train", "--optimizer", "base")
    assert done.exit_code == 2
    assert "did you mean 'bas'?" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's TCP_INFO")
def test_wire_measures_real_bytes():
    done = invoke("wire", "--parameters", "100000", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["all_reduce"] / found["mean"] > 28


def run(claim, folder):
    with executor("serial") as pool:
        return claim.run(Context(Scale.SMOKE, np.random.default_rng(0), pool, Progress(), folder))


@pytest.mark.parametrize("name", ["memory", "adam-limit", "sign-limit", "rate"])
def test_an_exact_claim_holds(name, tmp_path):
    claim = BY_ID[name]
    verdict = claim.accept(run(claim, tmp_path))
    assert verdict.outcome is Outcome.HOLDS, verdict.reason


TRAINED = ["parity", "parity-digits", "parity-peers", "transfer", "fp8", "finetune", "convert"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "convert" else pytest.mark.slow) for n in TRAINED])
def test_a_claim_about_training_gives_evidence_at_smoke_scale(name, tmp_path):
    """What twenty steps say is not the claim; that they can be run, judged and found again is."""
    claim = BY_ID[name]
    evidence = run(claim, tmp_path)
    assert claim.accept(evidence).outcome in (Outcome.HOLDS, Outcome.DOES_NOT_HOLD)
    assert all(len(row) == len(table.columns) for table in evidence.tables for row in table.rows)
    assert list(tmp_path.glob("*.json")) or name != "parity"


def test_cells_that_share_their_pretraining_are_what_each_is_alone():
    cells = [Cell("pydoc", kind, 2e-3, 0, 2, pretrain=3) for kind in ("adamw", "bas", "nesterov")]
    together = run_family(cells, quick=True)
    assert together == [run_cell(cell, quick=True) for cell in cells]
    assert len({result["held_out_loss"] for result in together}) == len(cells)


@pytest.mark.parametrize(
    ("name", "values", "holds"),
    [
        ("parity", {"bas_kjv": 1, "bas_pydoc": 0.9, "nesterov_kjv": 0, "nesterov_pydoc": 0}, True),
        ("parity", {"bas_kjv": 0, "bas_pydoc": 1.1, "nesterov_kjv": 0, "nesterov_pydoc": 0}, False),
        ("parity-digits", {"bas_digits_vit": 1.2, "nesterov_digits_vit": 0}, False),
        ("parity-peers", {"bas": 4.0, "mini": 4.1}, True),
        ("parity-peers", {"bas": 4.0, "mini": 3.9}, False),
        ("parity-peers", {"bas": 4.0, "mini": 4.1, "gefen": 4.0}, True),
        ("parity-peers", {"bas": 4.0, "mini": 4.1, "gefen": 3.9}, False),
        ("transfer", {"adamw": 1, "bas": 2}, True),
        ("transfer", {"adamw": 1, "bas": 3}, False),
        ("fp8", {"gap": 0.6}, False),
        ("finetune", {"bas": 0.5, "bas_early": 2.5}, False),
        ("convert", {"early": 0.3, "end": 0}, False),
        ("wire", {"ratio": 29, "gap_20": 0.5, "gap_60": -2, "vote_gap": 3, "identical": 1}, True),
        ("wire", {"ratio": 27, "gap_20": 0.5, "gap_60": 0.5, "vote_gap": 0, "identical": 1}, False),
        ("wire", {"ratio": 29, "gap_20": 0.5, "gap_60": 1.1, "vote_gap": 0, "identical": 1}, False),
        ("wire", {"ratio": 29, "gap_20": 1.1, "gap_60": 0.5, "vote_gap": 0, "identical": 1}, False),
        ("wire", {"ratio": 29, "gap_20": 0.5, "gap_60": 0.5, "vote_gap": 0, "identical": 0}, False),
        ("rate", {"slope": -0.2, "low": -0.3, "high": -0.1}, False),
    ],
)
def test_a_rule_about_training_draws_its_line(name, values, holds):
    outcome = BY_ID[name].accept(Evidence(headline="", values=values)).outcome
    assert outcome is (Outcome.HOLDS if holds else Outcome.DOES_NOT_HOLD)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("memory", {"of_adamw": 0.13, "formula": 0.126, "worst_matrix": 0.126}),
        ("memory", {"of_adamw": 0.126, "formula": 0.126, "worst_matrix": 0.128}),
        ("adam-limit", {"distance": 1e-5}),
        ("sign-limit", {"signs": 1.0, "distance": 0.0}),
        ("sign-limit", {"signs": 0.0, "distance": 1e-3}),
    ],
)
def test_a_rule_rejects_what_it_should(name, values):
    assert BY_ID[name].accept(Evidence(headline="", values=values)).outcome is Outcome.DOES_NOT_HOLD


def test_the_import_loads_nothing_heavy():
    code = "import sys, torch; before = set(sys.modules); import optim_bas; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"matplotlib", "numba", "rich", "scipy", "sklearn", "typer"}
    assert not {name for name in done.stdout.split() if name.startswith(("torch._dynamo", "torch.distributed.tensor"))}
