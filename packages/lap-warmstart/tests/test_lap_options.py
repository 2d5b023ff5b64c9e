"""Every option does what it says, alone and combined; what is handed in is checked at the door."""

import json
import math

import numpy as np
import pytest
from lap_warmstart import (
    AssignmentResult,
    AssignmentStream,
    ColumnDuals,
    RowDuals,
    certify,
    predict,
    solve,
    solve_batch,
)
from lap_warmstart.compat.lap import lapjv, lapmod
from lap_warmstart.instances import generate
from lap_warmstart.rowdualnet import RowDualNet
from lemmata_core import InvalidInput
from scipy import sparse as sp

inf = math.inf


class Spy:
    """A predictor that keeps what it was shown."""

    def predict(self, cost):
        self.seen = np.array(cost)
        return np.zeros(cost.shape[0])


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4)])
def test_a_predictor_sees_the_costs_whatever_the_method(shape, maximize):
    cost = np.random.default_rng(0).integers(1, 50, shape).astype(float)
    cost[1, 2] = -inf if maximize else inf
    shown = -cost if maximize else cost
    for method in ("auto", "core", "dense", "lapjv", "sparse"):
        spy = Spy()
        r = solve(cost, warm_start=spy, method=method, maximize=maximize)
        np.testing.assert_array_equal(spy.seen, shown)
        assert r.objective == solve(cost, maximize=maximize).objective
    graph, spy = sp.csr_array(np.where(np.isfinite(cost), cost, 0.0)), Spy()
    assert solve(graph, warm_start=spy, maximize=maximize).objective == r.objective
    np.testing.assert_array_equal(spy.seen, shown)
    assert solve(graph, warm_start="net", maximize=maximize).stats.predict_time > 0.0


@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (50, 30)])
def test_fallback_rules_on_a_graph(shape):
    graph = sp.random_array(shape, density=0.5, rng=np.random.default_rng(1), format="csr")
    cold = solve(graph)
    good, useless = RowDuals(cold.u), RowDuals(100.0 * np.random.default_rng(2).standard_normal(shape[0]))
    for rule in ("bound", "density", "none"):
        for start in (good, useless, ColumnDuals(cold.v), cold):
            r = solve(graph, warm_start=start, fallback=rule)
            assert r.objective == pytest.approx(cold.objective, rel=1e-12)
            assert certify(graph, r).optimal
    assert solve(graph, warm_start=good).stats.seed == "warm"
    assert solve(graph, warm_start=useless).stats.fell_back
    assert solve(graph, warm_start=useless, fallback="none").stats.seed == "warm"
    assert solve(graph, warm_start=good, fallback="density").stats.density > 0.0


def test_lapjv_takes_a_seed_instead_of_its_reductions():
    cost = generate("uniform", 300, 3)
    cold = solve(cost, method="lapjv")
    warm = solve(cost, method="lapjv", warm_start=cold)
    assert (warm.method, warm.stats.seed) == ("lapjv", "warm")
    assert warm.stats.row_scans < 0.1 * cold.stats.row_scans


def test_row_duals_may_be_any_array():
    torch = pytest.importorskip("torch")
    cost = generate("uniform", 60, 4)
    r = solve(cost)
    for start in (torch.tensor(np.array(r.u)), r.u.tolist(), tuple(r.u), RowDuals(torch.tensor(np.array(r.u)))):
        assert solve(cost, warm_start=start).stats.seed == "warm"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_batch(np.ones((2, 3, 3)), fallback="magic"), "fallback"),
        (lambda: solve_batch(np.ones((2, 3, 3)), on_infeasible="magic"), "on_infeasible"),
        (lambda: solve_batch([], method="magic"), "method"),
        (lambda: solve_batch([], unmatched_cost=math.nan), "unmatched_cost"),
        (lambda: solve_batch(5), "costs"),
        (lambda: solve_batch(np.ones((3, 3))), "2-D"),
        (lambda: solve_batch([[[1.0]]], workers=0), "workers"),
        (lambda: certify(np.ones((2, 2)), "answer"), "result"),
        (lambda: certify([[1.0, math.nan], [1.0, 1.0]], solve(np.ones((2, 2)))), r"NaN at \(0, 1\)"),
        (lambda: predict.KthSmallest(0), "k"),
        (lambda: predict.RowMin().predict([[math.nan]]), "NaN"),
        (lambda: predict.min_trick([[1.0, 2.0]], [1.0, 2.0]), "u"),
        (lambda: predict.dual_bound([[1.0], [2.0]], [0.0]), "v"),
        (lambda: solve(sp.csr_array([[1e308, -1e308], [1.0, 1.0]])), "rescale"),
        (lambda: AssignmentStream().solve(np.ones((2, 2)), [[1], [2]]), "row_ids"),
        (lambda: AssignmentStream().solve([1.0, 2.0], [0, 1]), "cost"),
        (lambda: AssignmentStream(method="magic"), "method"),
        (lambda: lapjv(np.eye(2), cost_limit=math.nan), "unmatched_cost"),
        (lambda: lapmod(2, [1.0, 1.0], [0, 1, 2], [0, 5]), "kk"),
        (lambda: lapmod(2, [1.0, 1.0], [0, 1], [0, 1]), "ii"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_stream_remembers_a_row_that_was_hidden_for_a_while():
    cost, others = generate("uniform", 60, 5), list(range(1, 60))
    stream = AssignmentStream(unmatched_cost=0.05)
    first = stream.solve(cost)
    for _ in range(25):
        stream.solve(cost[1:], others)
    assert stream._last[0][0] == first.u[0]
    assert certify(cost, stream.solve(cost)).optimal
    for _ in range(35):
        stream.solve(cost[1:], others)
    assert 0 not in stream._last


def test_answers_from_files_are_checked():
    data = solve(np.random.default_rng(6).random((4, 5))).to_dict()
    for change in ({"u": [0.0]}, {"row_to_col": [0, 1, 2, 9]}, {"row_to_col": [-2, 1, 2, 3]}, {"shape": [4, 6]}):
        with pytest.raises(ValueError, match="expected"):
            AssignmentResult.from_dict(json.loads(json.dumps(data | change)))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04junk", b"no"])
def test_damaged_networks_are_refused(tmp_path, content):
    (tmp_path / "n.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"\.npz"):
        RowDualNet.load(tmp_path / "n.npz")
    np.savez(tmp_path / "o.npz", mu=np.zeros(3))
    with pytest.raises(InvalidInput, match="RowDualNet"):
        RowDualNet.load(tmp_path / "o.npz")
