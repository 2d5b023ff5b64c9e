"""The examples of the repository run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_portfolio_prints_its_table_and_draws_its_picture(tmp_path):
    pytest.importorskip("skfolio")
    command = [sys.executable, EXAMPLES / "portfolio.py", "--days", "60", "--out", "made.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    table = done.stdout.splitlines()
    assert table[0].startswith("1990-03-29 to ")
    assert [line.split("  ")[0].strip() for line in table[2:8]] == [
        "oco-anytime",
        "multiplier 0.1",
        "multiplier 1",
        "multiplier 10",
        "cost only",
        "best fixed mix",
    ]
    assert (tmp_path / "made.png").stat().st_size > 1000
