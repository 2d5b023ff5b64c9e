"""Reading and writing: round trips, real instances, errors that name the line."""

from pathlib import Path

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax.io import read_constraints, read_facility, read_mkp, read_tsplib

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("ending", ["qubo", "mtx", "npz"])
def test_a_written_quadratic_comes_back(tmp_path, ending):
    rng = np.random.default_rng(0)
    q = qr.Qubo.from_matrix(np.triu(rng.normal(size=(9, 9)) * (rng.random((9, 9)) < 0.5)), offset=1.25)
    path = tmp_path / f"q.{ending}"
    qr.write(q, path)
    back = qr.read(path)
    X = rng.integers(0, 2, (50, 9))
    np.testing.assert_array_equal(back.energy(X), q.energy(X))


def test_a_symmetric_market_file_means_each_pair_twice(tmp_path):
    path = tmp_path / "s.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 3\n2 1 4\n")
    q = qr.read(path)
    assert q.energy([1, 1]) == 3 + 2 * 4


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.qubo", "p qubo 0 2 1 1\n0 x 1\n", r"a\.qubo, line 2"),
        ("a.qubo", "", "header"),
        ("a.qubo", "p qubo 0 2 0 1\n0 5 1\n", "^j:"),
        ("a.mc", "2 1\n1 2 three\n", r"a\.mc, line 2"),
        ("a.tsp", "DIMENSION: 3\nEDGE_WEIGHT_TYPE: XRAY\nNODE_COORD_SECTION\n1 0 0\n2 0 1\n3 1 1\n", "XRAY"),
        ("a.upit", "0 1\n1 x\n", r"a\.upit, line 2"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, name, text, match):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match=match):
        qr.read(path)


def test_tsplib_optima():
    # Optimal lengths as TSPLIB publishes them.
    for name, length in (("gr17", 2085), ("bays29", 2020), ("berlin52", 7542)):
        problem, _ = read_tsplib(DATA / f"{name}.tsp")
        tour = problem.improve(np.random.default_rng(0).permutation(problem.n))
        assert problem.objective(tour) == length
        np.testing.assert_array_equal(problem.decode(problem.encode(tour)), tour)


def test_upper_rows_and_lower_rows_agree(tmp_path):
    head = "DIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: {}\nEDGE_WEIGHT_SECTION\n{}\nEOF\n"
    forms = {
        "UPPER_ROW": "1 2 3",
        "LOWER_ROW": "1 2 3",
        "UPPER_DIAG_ROW": "0 1 2 0 3 0",
        "FULL_MATRIX": "0 1 2 1 0 3 2 3 0",
        "LOWER_DIAG_ROW": "0 1 0 2 3 0",
    }
    for form, numbers in forms.items():
        path = tmp_path / "t.tsp"
        path.write_text(head.format(form, numbers))
        np.testing.assert_array_equal(read_tsplib(path)[0].distances, [[0, 1, 2], [1, 0, 3], [2, 3, 0]])


def test_no_end_on_the_usual_form_of_newman1_is_feasible():
    pit = qr.read(DATA / "newman1.upit")
    for penalty in (10.0, None):
        q = pit.qubo("direct", penalty=penalty)
        for method in ("pgd", "adam"):
            r = qr.minimize(q, method, restarts=8, steps=300, constraints=pit.constraints("direct"))
            assert r.feasible_fraction == 0.0


def test_the_newman_pit():
    pit = qr.read(DATA / "newman1.upit")
    assert (pit.n, len(pit.arcs)) == (1060, 3922)
    assert pit.objective(pit.solve_exact()) == pytest.approx(26086899.026, abs=1e-3)
    header = "NAME: x\nNBLOCKS: 1060\nOBJECTIVE_FUNCTION:\n"
    copy = DATA / "newman1.upit"
    assert header.count("OBJECTIVE") == 1
    assert copy.exists()


def test_a_minelib_header_is_skipped(tmp_path):
    (tmp_path / "p.upit").write_text("NAME: p\nTYPE: UPIT\nNBLOCKS: 2\nOBJECTIVE_FUNCTION:\n0 -1\n1 3\nEOF\n")
    (tmp_path / "p.prec").write_text("0 0\n1 1 0\n")
    pit = qr.read(tmp_path / "p.upit")
    assert pit.objective(pit.solve_exact()) == 2


def test_or_library():
    assert read_mkp(DATA / "mknap1.txt").objective(read_mkp(DATA / "mknap1.txt").solve_exact()) == 3800
    last = read_mkp(DATA / "mknap1.txt", 6)
    assert last.objective(last.solve_exact(20.0)) == 16537
    assert read_mkp(DATA / "OR10x100-0.25_1.dat").n == 100
    cap = read_facility(DATA / "cap71.txt")
    assert np.asarray(cap.cost).shape == (50, 16)
    result = qr.minimize(cap, restarts=8, steps=200)
    assert result.objective == pytest.approx(932615.75, rel=1e-6)


def test_graphs_and_a_linear_program(tmp_path):
    pytest.importorskip("highspy")
    g11 = qr.read(DATA / "G11.txt")
    assert (g11.n, g11.weights.w.size) == (800, 1600)
    path = tmp_path / "m.lp"
    path.write_text("Maximize\n obj: 3 x + 2 y + z\nSubject To\n c: 2 x + 2 y + z <= 3\nBinary\n x y z\nEnd\n")
    lp = qr.read(path)
    assert lp.objective(lp.solve_exact()) == -4  # x and z
    assert qr.verify_conditions(lp).status == "certified"


def test_constraints_from_csv(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("x0,x1,sense,rhs\n1,1,<=,1\n1,,>=,0\n")
    rows = read_constraints(path)
    assert [r.sense for r in rows] == ["<=", ">="]
    path.write_text("1,zz,<=,1\n")
    with pytest.raises(InvalidInput, match="line 1"):
        read_constraints(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.qubo", b"p qubo 0 2 1 1\n0 0 \xff\n"),
        ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n% offset {}\n1 1 1\n1 1 2\n"),
        ("a.npz", b"PK\x03\x04"),
        ("a.tsp", b"DIMENSION: \xff\n"),
        ("a.upit", b"0 \xff\n"),
        ("a.txt", b"\xff"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=name):
        qr.read(tmp_path / name)


@pytest.mark.parametrize("kind", ["mkp", "facility"])
def test_an_infinite_size_is_no_size(tmp_path, kind):
    (tmp_path / "a.txt").write_text("inf 2 0\n1 2 3\n")
    with pytest.raises(InvalidInput, match=r"a\.txt"):
        qr.read(tmp_path / "a.txt", kind)
