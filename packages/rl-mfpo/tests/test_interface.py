import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lemmata_core import Context, Evidence, Outcome, Scale
from lemmata_core.progress import Progress
from rl_mfpo.claims import CLAIMS
from rl_mfpo.cli import main
from typer.testing import CliRunner


def test_the_command_prints_the_solution_as_json():
    done = CliRunner().invoke(main, ["minimise", "parabola", "--tol", "1e-6", "--json"])
    assert done.exit_code == 0
    assert abs(json.loads(done.stdout)["x"] - 0.3) < 1e-6


def test_an_unknown_function_is_one_line_on_stderr():
    done = CliRunner().invoke(main, ["minimise", "parabol"])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean 'parabola'?" in done.stderr


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_holds_at_smoke_scale(claim, tmp_path):
    with ThreadPoolExecutor(1) as executor:
        evidence = claim.run(Context(Scale.SMOKE, np.random.default_rng(0), executor, Progress(), tmp_path))
    assert claim.accept(evidence).outcome is Outcome.HOLDS


def test_the_rule_rejects_an_evaluation_too_many():
    evidence = Evidence(headline="", values={"evaluations_above_rule": 1.0, "error_over_width": 0.5})
    assert CLAIMS[0].accept(evidence).outcome is Outcome.DOES_NOT_HOLD


def test_the_import_loads_nothing_heavy():
    code = "import sys, rl_mfpo; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"cvxpy", "matplotlib", "numba", "rich", "scipy", "sklearn", "torch", "typer"}
    assert not heavy & set(done.stdout.split())
