import json
import subprocess
import sys

import icl_theory
import numpy as np
import pytest
from icl_theory.claims import CLAIMS
from icl_theory.cli import main
from lemmata_core import Context, Outcome, Scale
from lemmata_core.executor import executor
from lemmata_core.progress import Progress
from typer.testing import CliRunner


def test_every_public_name_is_there():
    assert all(getattr(icl_theory, name) is not None for name in icl_theory.__all__)
    assert set(icl_theory.__all__) == set(dir(icl_theory))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        icl_theory.nothing  # noqa: B018


def test_the_import_loads_nothing_heavy():
    code = "import sys, icl_theory; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"cvxpy", "matplotlib", "numba", "rich", "scipy", "sklearn", "torch", "typer"}
    assert not heavy & set(done.stdout.split())


def test_the_collision_as_json():
    done = CliRunner().invoke(main, ["collision", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["gap"] == "1/255"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_at_smoke_scale(claim, tmp_path):
    with executor("serial") as serial:
        evidence = claim.run(Context(Scale.SMOKE, np.random.default_rng(0), serial, Progress(), tmp_path))
    verdict = claim.accept(evidence)
    assert verdict.outcome is Outcome.HOLDS, verdict.reason
