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


def run(claim, folder):
    with executor("serial") as pool:
        return claim.run(Context(Scale.SMOKE, np.random.default_rng(0), pool, Progress(), folder))


@pytest.mark.parametrize("name", ["memory", "adam-limit", "sign-limit"])
def test_an_exact_claim_holds(name, tmp_path):
    claim = BY_ID[name]
    verdict = claim.accept(run(claim, tmp_path))
    assert verdict.outcome is Outcome.HOLDS, verdict.reason


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
