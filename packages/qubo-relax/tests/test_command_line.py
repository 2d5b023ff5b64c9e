"""The command: exit codes, JSON, pictures."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import qubo_relax as qr
from qubo_relax.cli import main
from typer.testing import CliRunner

DATA = Path(__file__).parent / "data"


def run(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


@pytest.fixture
def square(tmp_path):
    path = tmp_path / "square.qubo"
    qr.write(qr.problems.MaxCut((4, [(0, 1), (1, 2), (2, 3), (3, 0)])).qubo(), path)
    return path


def test_a_quadratic_is_solved_and_certified(square):
    done = run("solve", square, "--certify", "--json", "--restarts", 4, "--steps", 50)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["objective"] == -4
    assert answer["point"] == "local_min"


def test_a_refuted_quadratic_ends_with_three(tmp_path):
    qr.write(qr.Qubo([-1.0, -1.0], {(0, 1): 1.0}), tmp_path / "k2.qubo")
    (tmp_path / "rows.csv").write_text("1,1,<=,1\n")
    for method in ("auto", "milp"):
        done = run("verify", tmp_path / "k2.qubo", "--constraints", tmp_path / "rows.csv", "--method", method, "--json")
        assert done.exit_code == 3
        assert json.loads(done.stdout)["counterexample"] == [1, 1]


def test_an_interruption_ends_with_130_and_the_best_so_far(square, monkeypatch):
    from qubo_relax.solvers import anneal

    kernel = anneal.anneal
    monkeypatch.setattr(anneal, "anneal", lambda *words: replace(kernel(*words), ended="interrupted"))
    done = run("solve", square, "--certify", "--json", "--restarts", 4, "--steps", 50)
    assert done.exit_code == 130
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["objective"], answer["point"]) == ("interrupted", -4, "local_min")
    assert run("compare", square, "--time", 0.1).exit_code == 130


def test_no_feasible_sample_ends_with_four(tmp_path):
    qr.write(qr.Qubo([-1.0, -1.0], {(0, 1): 0.5}), tmp_path / "k2.qubo")
    (tmp_path / "rows.csv").write_text("1,1,<=,1\n")
    done = run("solve", tmp_path / "k2.qubo", "--constraints", tmp_path / "rows.csv", "--restarts", 2, "--steps", 5)
    assert done.exit_code == 4
    assert "feasible:" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "nowhere.qubo"),
        ("solve", "shape", "nowhere.qubo"),
        ("solve", "--kind", "tsp", "pit", "nowhere.upit"),
        ("verify", DATA / "G11.txt", "--method", "guess"),
    ],
)
def test_bad_input_ends_with_two_and_one_line(words):
    done = run(*words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_quadratic_needs_rows_to_be_verified(square):
    assert run("verify", square).exit_code == 2


def test_pictures_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("solve", "tsp", DATA / "gr17.tsp", "--restarts", 4, "--steps", 50, "--plot", tmp_path / "tour.svg")
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "tour.svg").read_text()[:500]
    words = ("solve", "pit", DATA / "newman1.upit", "--prec", DATA / "newman1.prec", "--restarts", 1, "--steps", 20)
    assert run(*words, "--plot", tmp_path / "pit.png").exit_code == 0
    assert (tmp_path / "pit.png").read_bytes()[:4] == b"\x89PNG"


def test_conversion(square, tmp_path):
    assert run("convert", square, tmp_path / "s.mtx").exit_code == 0
    assert run("convert", DATA / "gr17.tsp", tmp_path / "t.npz").exit_code == 0
    assert qr.read(tmp_path / "t.npz").n == 256
    assert run("convert", square, tmp_path / "s.xyz").exit_code == 2


def test_comparison(tmp_path):
    pytest.importorskip("dwave.samplers")
    (tmp_path / "g.txt").write_text("4 4\n1 2 1\n2 3 1\n3 4 1\n4 1 1\n")
    done = run("compare", tmp_path / "g.txt", "--time", 0.05)
    assert done.exit_code == 0, done.output
    assert "dwave SA" in done.stdout


def test_a_linear_program_prints_nothing_but_json(tmp_path):
    pytest.importorskip("highspy")
    (tmp_path / "m.lp").write_text("Maximize\n o: 3 x + 2 y\nSubject To\n c: 2 x + 2 y <= 3\nBinary\n x y\nEnd\n")
    code = f"from qubo_relax.cli import main; main(['verify', {str(tmp_path / 'm.lp')!r}, '--json'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "certified"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", ""),
        ("rows.csv", "5\n"),
        ("rows.csv", "1,x,<=,1\n"),
        ("q.npz", "PK junk"),
        ("q.npz", "junk"),
        ("q.qubo", "junk\n"),
        ("q.qubo", ""),
        ("q.qubo", "p qubo 0 2 1 1\n0 5 1\n"),
        ("q.qubo", "p qubo 0 2 1 1\n0 0 nan\n"),
        ("q.mtx", "junk\n"),
        ("q.tsp", "junk\n"),
        ("q.txt", "junk\n"),
    ],
)
def test_a_damaged_file_ends_with_two_and_one_line(tmp_path, square, name, content):
    (tmp_path / name).write_text(content)
    words = ("verify", square, "--constraints", tmp_path / name) if name == "rows.csv" else ("solve", tmp_path / name)
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert done.output.startswith("error: ")
    assert len(done.output.splitlines()) == 1


def test_a_picture_of_an_unknown_kind_is_refused_before_any_work(square, tmp_path):
    done = run("solve", square, "--plot", tmp_path / "picture.foo", "--restarts", 1000, "--steps", 100_000_000)
    assert done.exit_code == 2
    assert "plot: expected a name ending in" in done.output


@pytest.mark.parametrize(("coupling", "verdict"), [(1.5, "certified"), (1.0, "refuted")])
def test_solve_certifies_a_quadratic_under_rows(tmp_path, coupling, verdict):
    qr.write(qr.Qubo([-1.0, -1.0], {(0, 1): coupling}), tmp_path / "k2.qubo")
    (tmp_path / "rows.csv").write_text("1,1,<=,1\n")
    words = ("solve", tmp_path / "k2.qubo", "--certify", "--constraints", tmp_path / "rows.csv", "--json")
    done = run(*words, "--method", "flip", "--restarts", 8)
    answer = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert answer["formulation_verdict"].startswith(verdict)
    assert (answer["objective"], answer["feasible"], answer["point"]) == (-1, True, "local_min")
