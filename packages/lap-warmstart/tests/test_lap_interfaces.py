"""Streams, batches, drop-ins, the command line, saved answers, the certificate's no, and the README."""

import json
import math
import pickle
import time
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from lap_warmstart import AssignmentResult, AssignmentStream, RowDuals, certify, solve, solve_batch
from lap_warmstart.cli import _timed, cli
from lap_warmstart.compat.lap import lapjv, lapmod
from lap_warmstart.compat.scipy import min_weight_full_bipartite_matching
from lap_warmstart.errors import Infeasible
from lemmata_core import InvalidInput
from scipy import sparse as sp
from typer.testing import CliRunner


def frames(count=200, seed=0):
    """Points that move, are born and die; detections in random order, some missing."""
    rng = np.random.default_rng(seed)
    points, ids, following = rng.random((60, 2)), list(range(60)), 60
    for _ in range(count):
        points = points + 0.01 * rng.standard_normal(points.shape)
        keep = rng.random(len(points)) > 0.05
        born = int(rng.integers(0, 6))
        points = np.vstack([points[keep], rng.random((born, 2))])
        ids = [i for i, k in zip(ids, keep) if k] + list(range(following, following + born))
        following += born
        seen = rng.permutation(points + 0.01 * rng.standard_normal(points.shape))[: max(1, len(points) - 2)]
        yield np.linalg.norm(points[:, None] - seen, axis=-1), ids


@pytest.mark.parametrize("gate", [None, 0.1])
def test_a_stream_answers_as_cold_solves_do(gate):
    stream = AssignmentStream(unmatched_cost=gate)
    for cost, ids in frames():
        r, cold = stream.solve(cost, ids), solve(cost, unmatched_cost=gate)
        penalty = gate or 0.0
        assert r.objective + penalty * r.n_unmatched_rows == pytest.approx(
            cold.objective + penalty * cold.n_unmatched_rows, rel=1e-11
        )
        assert certify(cost, r).optimal


def test_a_stream_needs_less_search_and_forgets_on_reset():
    rng = np.random.default_rng(0)
    cost = rng.random((400, 400))
    stream = AssignmentStream()
    first = stream.solve(cost)
    second = stream.solve(cost * (1 + 1e-4 * rng.random(cost.shape)))
    assert second.stats.seed == "warm"
    assert second.stats.row_scans < 0.5 * first.stats.row_scans
    stream.reset()
    assert stream.solve(cost).stats.seed == "cold"
    with pytest.raises(InvalidInput, match="row_ids"):
        stream.solve(cost, [0] * 400)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("shape", [(20, 10, 10), (20, 10, 14), (5, 14, 10), (3, 260, 260)])
def test_batches(workers, shape):
    stack = np.random.default_rng(1).random(shape)
    for costs in (stack, list(stack), stack.astype(np.float32), np.asfortranarray(stack)):
        for cost, r in zip(costs, solve_batch(costs, workers=workers), strict=True):
            assert r.objective == pytest.approx(solve(cost).objective, rel=1e-14)
            assert certify(cost, r).optimal


def test_ragged_batches_and_their_errors():
    rng = np.random.default_rng(2)
    costs = [rng.random((n, n + 2)) for n in range(1, 8)]
    assert [r.objective for r in solve_batch(costs)] == [solve(c).objective for c in costs]
    stack = rng.random((3, 4, 4))
    stack[1, 2, 3] = math.nan
    with pytest.raises(InvalidInput, match=r"NaN at \(2, 3\)"):
        solve_batch(stack)
    assert solve_batch(np.empty((0, 3, 3))) == []
    across = np.asfortranarray(rng.random((3, 4, 4)))
    across.flags.writeable = False
    assert [r.objective for r in solve_batch(across)] == [solve(c).objective for c in across]
    assert [r.n_unmatched_rows for r in solve_batch(stack[:1], unmatched_cost=-1.0)] == [4]


def test_lapx_answers():
    lap = pytest.importorskip("lap")
    rng = np.random.default_rng(3)
    for limit in (0.1, 0.3, 0.7, 1e9, math.inf):
        for n, m in ((5, 5), (4, 9), (9, 4), (40, 50)):
            cost = rng.random((n, m))
            for ours, theirs in zip(
                lapjv(cost, extend_cost=True, cost_limit=limit),
                lap.lapjv(cost, extend_cost=True, cost_limit=limit),
                strict=True,
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    x, y = lapjv(rng.random((4, 4)), return_cost=False)
    assert (x.dtype, y.shape) == (np.dtype(np.int32), (4,))
    with pytest.raises(InvalidInput, match="extend_cost"):
        lapjv(rng.random((4, 5)))
    graph = sp.csr_array(rng.random((6, 6)))
    assert lapmod(6, graph.data, graph.indptr, graph.indices)[0] == pytest.approx(solve(graph.toarray()).objective)


def test_peers_agree():
    from lap_warmstart.compare import PEERS, compare, peer, value

    cost = np.random.default_rng(4).integers(0, 1000, (60, 60)).astype(float)
    expected = solve(cost).objective
    for name in PEERS:
        try:
            run, _ = peer(name)
        except InvalidInput:
            continue
        assert value(cost, run(cost)) == expected, name
    assert compare(["uniform"], [40], ["scipy"], 1)[0]["peer"] == "scipy"


def test_sparse_drop_in():
    graph = sp.csr_array(np.array([[4.0, 1.0], [2.0, 5.0]]))
    assert min_weight_full_bipartite_matching(graph)[1].tolist() == [1, 0]
    assert min_weight_full_bipartite_matching(graph, maximize=True)[1].tolist() == [0, 1]
    with pytest.raises(ValueError, match="infeasible"):
        min_weight_full_bipartite_matching(sp.csr_array(([1.0], ([0], [0])), shape=(2, 2)))


def test_certificate_rejects_what_is_not_optimal():
    cost = np.random.default_rng(5).random((30, 30))
    data = solve(cost).to_dict()
    assert certify(cost, AssignmentResult.from_dict(data)).optimal
    pairs = data["row_to_col"]
    for i, j in ((0, 1), (3, 20), (10, 29)):
        swapped = dict(data, row_to_col=list(pairs))
        swapped["row_to_col"][i], swapped["row_to_col"][j] = pairs[j], pairs[i]
        answer = AssignmentResult.from_dict(swapped)
        c = certify(cost, answer)
        assert not c.optimal
        assert c.gap > 0.0
    assert not certify(cost, AssignmentResult.from_dict(dict(data, u=[t + 0.01 for t in data["u"]]))).optimal
    assert not certify(cost, AssignmentResult.from_dict(dict(data, row_to_col=[0] * 30))).optimal
    with pytest.raises(InvalidInput, match="shape"):
        certify(cost[:20], answer)


def test_results_survive_pickle_and_json():
    cost = np.random.default_rng(6).random((5, 7))
    for options in ({}, {"unmatched_cost": 0.2}, {"maximize": True}, {"unmatched_cost": 0.6, "maximize": True}):
        for given in (cost, cost.T):
            r = solve(given, **options)
            for copy in (pickle.loads(pickle.dumps(r)), AssignmentResult.from_dict(json.loads(r.to_json()))):  # noqa: S301
                assert copy.objective == r.objective
                assert copy.row_to_col.tolist() == r.row_to_col.tolist()
                assert copy.u.tolist() == pytest.approx(r.u.tolist(), abs=1e-15)
                assert certify(given, copy).optimal


def invoke(*words):
    return CliRunner().invoke(cli, [str(w) for w in words])


def test_the_printed_time_is_that_of_the_solve_and_not_of_the_compiler():
    kernel = numba.njit(lambda n: n + 1)
    walls = []

    def first_of_a_process():
        start = time.perf_counter()
        kernel(1)
        walls.append(time.perf_counter() - start)
        return SimpleNamespace(wall_time=walls[-1])

    _, seconds, kernels = _timed(first_of_a_process)
    assert [seconds, kernels] == [walls[1], walls[0] - walls[1]]
    _, seconds, kernels = _timed(lambda: SimpleNamespace(wall_time=3.0))
    assert [seconds, kernels] == [3.0, 0.0]


@pytest.mark.parametrize("kind", ["npy", "csv", "npz", "mtx", "sparse.npz"])
def test_command_line_solves_and_certifies(tmp_path, kind):
    from scipy.io import mmwrite

    cost = np.random.default_rng(7).integers(1, 100, (12, 12)).astype(float)
    path, answer = tmp_path / f"cost.{kind}", tmp_path / "r.json"
    {
        "npy": lambda: np.save(path, cost),
        "csv": lambda: np.savetxt(path, cost, delimiter=","),
        "npz": lambda: np.savez(path, cost=cost),
        "mtx": lambda: mmwrite(path, sp.coo_array(cost)),
        "sparse.npz": lambda: sp.save_npz(path, sp.csr_array(cost)),
    }[kind]()
    done = invoke("solve", path, "--out", answer, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["objective"] == solve(cost).objective
    assert invoke("certify", path, answer).exit_code == 0
    assert invoke("solve", path, "--warm", answer).exit_code == 0
    data = json.loads(answer.read_text())
    data["row_to_col"][:2] = data["row_to_col"][1::-1]
    answer.write_text(json.dumps(data))
    assert invoke("certify", path, answer).exit_code == 1


def test_command_line_interrupted_ends_with_130(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    np.save(tmp_path / "c.npy", np.ones((3, 3)))
    monkeypatch.setattr("lap_warmstart.solve", interrupt)
    done = invoke("solve", tmp_path / "c.npy")
    assert (done.exit_code, done.stderr) == (130, "error: interrupted\n")


def test_command_line_exit_codes(tmp_path):
    infeasible, bad = tmp_path / "i.csv", tmp_path / "b.csv"
    infeasible.write_text("inf,inf\n1,2\n")
    bad.write_text("1,nan\n1,2\n")
    assert invoke("solve", infeasible).exit_code == 1
    assert invoke("solve", infeasible, "--partial").exit_code == 0
    for words in (
        ("solve", bad),
        ("solve", tmp_path / "none.npy"),
        ("certify", bad, bad),
        ("solve", tmp_path / "x.txt"),
    ):
        assert invoke(*words).exit_code == 2, words
    assert invoke("solve", infeasible, "--unmatched-cost", "1.5").exit_code == 0
    assert json.loads(invoke("solve", infeasible, "--partial", "--json").stdout)["wall_time"] > 0
    assert invoke("info").exit_code == 0
    assert invoke("bench", "--sizes", "30", "--families", "uniform", "--peers", "scipy").exit_code == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", b""), ("a.npz", b""), ("a.npz", b"PK\x03\x04junk"), ("a.mtx", b""), ("a.csv", b"a,b\n1,2\n"),
        ("a.csv", b"1,2\n3\n"), ("a.npy", b"\x93NUMPY"),
        ("a.mtx", b"%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 99999999999999999999999\n"),
        ("a.mtx", b"%%MatrixMarket matrix array real general\n99999999 99999999\n1\n"),
    ],
)  # fmt: skip
def test_command_line_refuses_damaged_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert invoke("solve", tmp_path / name).exit_code == 2


@pytest.mark.parametrize("indices", [[7, 0], [0, -3]])
def test_sparse_matrices_that_are_none_are_refused(tmp_path, indices):
    forged = {"format": b"csr", "shape": [2, 2], "data": [1.0, 2.0], "indices": indices, "indptr": [0, 1, 2]}
    np.savez(tmp_path / "a.npz", **forged)
    assert invoke("solve", tmp_path / "a.npz").exit_code == 2
    del forged["data"]
    np.savez(tmp_path / "a.npz", **forged)
    assert invoke("solve", tmp_path / "a.npz").exit_code == 2


def test_damage_inside_a_compressed_archive_is_bad_input(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", cost=np.random.default_rng(0).random((50, 50)))
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    for at in range(60, len(raw) - 200, 1500):
        raw[at] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(raw)
    assert invoke("solve", tmp_path / "a.npz").exit_code == 2


def test_every_sparse_format_is_read(tmp_path):
    cost = np.random.default_rng(0).random((6, 6))
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(tmp_path / "a.npz", sp.csr_array(cost).asformat(kind))
        assert invoke("solve", tmp_path / "a.npz").exit_code == 0, kind


@pytest.mark.parametrize(
    ("field", "value"),
    [("row_to_col", [math.inf, 0]), ("row_to_col", [0.5, 1]), ("shape", [math.inf, 2]), ("u", [[1.0], [1.0]])],
)
def test_answers_that_make_no_sense_are_refused(tmp_path, field, value):
    cost = np.eye(2)
    np.save(tmp_path / "c.npy", cost)
    (tmp_path / "r.json").write_text(json.dumps(solve(cost).to_dict() | {field: value}))
    assert invoke("certify", tmp_path / "c.npy", tmp_path / "r.json").exit_code == 2


@pytest.mark.parametrize("content", ["", "[]", "3", "{}", '{"shape": [2, 2], "row_to_col": [0]}', "\x00"])
def test_command_line_refuses_damaged_answers(tmp_path, content):
    np.save(tmp_path / "c.npy", np.eye(2))
    (tmp_path / "r.json").write_text(content)
    assert invoke("certify", tmp_path / "c.npy", tmp_path / "r.json").exit_code == 2
    assert invoke("solve", tmp_path / "c.npy", "--warm", tmp_path / "r.json").exit_code == 2


def test_infeasible_pickles():
    error = pickle.loads(pickle.dumps(Infeasible("x", (1,), (2,))))  # noqa: S301
    assert (str(error), error.rows, error.columns) == ("x", (1,), (2,))


def test_a_warm_start_from_an_earlier_answer_of_any_orientation():
    cost = np.random.default_rng(8).random((300, 340))
    for given in (cost, cost.T, np.asfortranarray(cost)):
        for options in ({}, {"maximize": True}, {"unmatched_cost": 0.01}):
            before = solve(given, **options)
            r = solve(given, warm_start=before, **options)
            assert r.objective == pytest.approx(before.objective, rel=1e-12)
            assert certify(given, r).optimal
            assert solve(given, warm_start=RowDuals(before.u), **options).objective == pytest.approx(before.objective)
