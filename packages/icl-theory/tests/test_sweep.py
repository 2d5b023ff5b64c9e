import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from icl_theory import PhaseDiagram, phase_diagram
from icl_theory.sweep import run_cells
from lemmata_core import InvalidInput

CALLS = []


def double(cell):
    CALLS.append(cell["x"])
    if cell.get("stop") == cell["x"]:
        raise KeyboardInterrupt
    return {"y": 2 * cell["x"]}


def test_finished_cells_are_not_run_again(tmp_path):
    CALLS.clear()
    cells = [{"x": i} for i in range(5)]
    first = run_cells(double, cells[:3], store=tmp_path)
    second = run_cells(double, cells, store=tmp_path)
    assert (first.reused, second.reused) == (0, 3)
    assert [r["y"] for r in second.results] == [0, 2, 4, 6, 8]
    assert CALLS == [0, 1, 2, 3, 4]


def test_an_interruption_returns_what_is_done(tmp_path):
    CALLS.clear()
    done = run_cells(double, [{"x": i, "stop": 2} for i in range(4)], store=tmp_path)
    assert done.status == "interrupted"
    assert [r and r["y"] for r in done.results] == [0, 2, None, None]


def test_a_training_broken_off_leaves_no_cell(tmp_path, monkeypatch):
    from icl_theory import training

    def breaks(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training._PatternTrainer, "step", breaks)
    broken = phase_diagram([0.1], [0.5], ("mamba",), seeds=1, steps=60, n=200, store=tmp_path)
    assert (broken.status, broken.table.rows) == ("interrupted", ())
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_cell_is_computed_again(tmp_path):
    CALLS.clear()
    run_cells(double, [{"x": 1}], store=tmp_path)
    [file] = tmp_path.glob("*.json")
    file.write_text('{"result": ')
    assert run_cells(double, [{"x": 1}], store=tmp_path).results == ({"y": 2},)
    assert CALLS == [1, 1]
    assert json.loads(file.read_text())["cell"] == {"x": 1}


def test_a_small_diagram_and_its_table(tmp_path):
    diagram = phase_diagram([0.1, 0.6], [0.0, 0.5], seeds=1, steps=60, n=200, store=tmp_path / "cells")
    assert len(diagram.table.rows) == 2 * 2 * 2
    again = phase_diagram([0.1, 0.6], [0.0, 0.5], seeds=1, steps=60, n=200, store=tmp_path / "cells")
    assert again == diagram
    assert again.reused == 4
    diagram.save(tmp_path / "t.csv")
    diagram.save(tmp_path / "t.parquet")
    assert PhaseDiagram.load(tmp_path / "t.csv").table == diagram.table
    import pandas as pd

    one, two = pd.read_csv(tmp_path / "t.csv"), pd.read_parquet(tmp_path / "t.parquet")
    assert list(one.columns) == list(diagram.table.columns)
    np.testing.assert_allclose(one["error"], two["error"])
    assert one.groupby(["model", "train_fraction"]).size().tolist() == [2, 2, 2, 2]


def test_the_boundary_is_interpolated():
    from icl_theory.sweep import COLUMNS, Table

    def row(alpha, error, seed):
        return ("mamba", "flip", 2.0, 0.5, alpha, seed, error, 0.0, 0.0, 1.0, 10, 0, 0.5, 0.0, "finished")

    rows = [row(a, e + s, i) for a, e in ((0.2, 0.0), (0.4, 0.02), (0.6, 0.1)) for i, s in enumerate((-0.0, 0.0))]
    diagram = PhaseDiagram(Table("", COLUMNS, tuple(rows)))
    assert diagram.boundary(0.06).rows[0][-1] == pytest.approx(0.5)
    assert diagram.boundary(0.2).rows[0][-1] == 0.6
    assert np.isnan(PhaseDiagram(Table("", COLUMNS, (row(0.2, 0.5, 0),))).boundary(0.1).rows[0][-1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"alphas": [1.0]}, "alphas"),
        ({"train_fractions": []}, "train_fractions"),
        ({"models": ["gru"]}, "models"),
        ({"labels": ["flop"]}, "labels"),
        ({"kappas": [0.0]}, "kappas"),
        ({"seeds": 0}, "seeds"),
    ],
)
def test_bad_input_is_named(change, named):
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        phase_diagram(**({"alphas": [0.1], "train_fractions": [0.1]} | change))


@pytest.mark.slow
def test_200_settings_are_killed_and_resumed(tmp_path):
    shares = ",".join(f"{0.01 * i:.2f}" for i in range(50))
    command = [
        sys.executable,
        "-m",
        "icl_theory",
        "phase",
        "--out",
        str(tmp_path),
        "--executor",
        "local:2",
        "--shares",
        shares,
    ]
    command += ["--seeds", "2", "--steps", "40", "--n", "200", "--alphas", "0.3"]
    cells = tmp_path / "cells"
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while len(list(cells.glob("*.json"))) < 40:
            assert running.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = {file: file.stat().st_mtime_ns for file in cells.glob("*.json")}
    assert 40 <= len(before) < 200
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(before)} trainings were there already" in done.stderr
    assert all(file.stat().st_mtime_ns == time_ for file, time_ in before.items())
    import pandas as pd

    table = pd.read_csv(tmp_path / "phase.csv")
    assert len(table) == len(list(cells.glob("*.json"))) == 200
    assert not table.duplicated(["model", "train_fraction", "seed"]).any()
