"""Bad input and the traps: each names what is wrong before any work, or gives the right answer all the same."""

import math

import numpy as np
import pytest
from lap_warmstart import (
    AssignmentResult,
    AssignmentStream,
    ColumnDuals,
    Infeasible,
    RowDuals,
    certify,
    linear_sum_assignment,
    predict,
    solve,
    solve_batch,
)
from lap_warmstart.compat.lap import lapmod
from lap_warmstart.errors import InvalidDtype
from lemmata_core import InvalidInput
from scipy import optimize
from scipy import sparse as sp

inf, nan = math.inf, math.nan

BAD = [
    ([[1.0, nan], [2.0, 3.0]], {}, r"NaN at \(0, 1\)"),
    ([[1.0, 2.0], [-inf, 3.0]], {}, r"-inf at \(1, 0\)"),
    ([[1.0, inf], [2.0, 3.0]], {"maximize": True}, r"inf at \(0, 1\)"),
    ([1.0, 2.0], {}, "2-D"),
    ([[1.0], [1.0, 2.0]], {}, "unequal"),
    (np.zeros((2, 2, 2)), {}, "2-D"),
    (np.array([["a"]]), {}, "real numbers"),
    (np.array([[1j]]), {}, "real numbers"),
    (np.array([[object()]]), {}, "real numbers"),
    (np.ma.masked_array([[1.0]], mask=[[True]]), {}, "masked"),
    (np.array([[2**53 + 1]]), {}, r"2\*\*53"),
    (np.array([[2**63 + 1]], dtype=np.uint64), {}, r"2\*\*53"),
    ([[1e308, -1e308], [0.0, 1.0]], {}, "rescale"),
    ([[1.0]], {"method": "magic"}, "method"),
    ([[1.0]], {"fallback": "magic"}, "fallback"),
    ([[1.0]], {"on_infeasible": "magic"}, "on_infeasible"),
    ([[1.0]], {"unmatched_cost": nan}, "unmatched_cost"),
    ([[1.0]], {"unmatched_cost": "x"}, "unmatched_cost"),
    ([[1.0]], {"unmatched_cost": "3"}, "unmatched_cost"),
    ([[1.0]], {"unmatched_cost": True}, "unmatched_cost"),
    ([[1.0]], {"unmatched_cost": 10**400}, "unmatched_cost"),
    ([[1.0]], {"warm_start": [10**400]}, "warm_start"),
    ([[1.0]], {"warm_start": RowDuals([1.0, 2.0])}, "shape"),
    ([[1.0]], {"warm_start": [nan]}, "NaN at 0"),
    ([[1.0]], {"warm_start": ColumnDuals("x")}, "warm_start"),
    ([[1.0]], {"warm_start": [1j]}, "row duals: 1 numbers"),
    ([[1.0]], {"warm_start": "nets"}, "'net' or 'auto'"),
    ([[1.0]], {"warm_start": 7}, "DualPredictor"),
]


@pytest.mark.parametrize(("cost", "options", "message"), BAD)
def test_bad_input_is_named(cost, options, message):
    with pytest.raises(InvalidInput, match=message):
        solve(cost, **options)


def test_what_is_no_sequence_is_named():
    with pytest.raises(InvalidInput, match=r"^costs: expected"):
        solve_batch(np.array(1.0))
    with pytest.raises(InvalidInput, match=r"^row_ids: expected 1 hashable ids"):
        AssignmentStream().solve([[1.0]], row_ids=3)


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (2, 0), (0, 3)])
def test_empty_problems_are_valid(rows, columns):
    r = solve(np.empty((rows, columns)))
    assert (r.objective, r.row_ind.size, r.u.shape, r.v.shape) == (0.0, 0, (rows,), (columns,))
    assert certify(np.empty((rows, columns)), r).optimal
    a, b = linear_sum_assignment(np.empty((rows, columns)))
    assert a.size == b.size == 0


def test_large_bad_input_is_named_too():
    cost = np.random.default_rng(0).random((300, 300))
    cost[200, 7] = nan
    with pytest.raises(InvalidInput, match=r"NaN at \(200, 7\)"):
        solve(cost)
    with pytest.raises(InvalidInput, match=r"NaN at \(7, 200\)"):
        solve(np.asfortranarray(cost.T))
    with pytest.raises(InvalidInput, match=r"NaN at \(200, 7\)"):
        solve(cost, unmatched_cost=0.5)


@pytest.mark.parametrize("method", ["auto", "core", "dense", "lapjv", "sparse"])
def test_a_row_of_infinities_is_not_matched(method):
    cost = np.random.default_rng(1).random((300, 300))
    cost[17] = inf
    with pytest.raises(Infeasible) as caught:
        solve(cost, method=method)
    assert caught.value.rows == (17,)
    r = solve(cost, method=method, on_infeasible="partial")
    assert r.row_ind.size == 299
    assert r.row_to_col[17] == -1
    assert certify(cost, r).optimal


@pytest.mark.parametrize("factor", [1e-300, 1e300])
@pytest.mark.parametrize("n", [12, 300])
def test_scaling_keeps_the_matching(factor, n):
    cost = np.random.default_rng(2).random((n, n))
    np.testing.assert_array_equal(solve(cost).row_to_col, solve(cost * factor).row_to_col)


def test_denormals_and_negative_zero():
    cost = np.array([[5e-324, -0.0], [0.0, 1e-323]])
    assert solve(cost).row_to_col.tolist() == [1, 0]


@pytest.mark.parametrize("cost", [np.zeros((300, 300)), np.ones((8, 8)), np.eye(40)])
def test_ties(cost):
    r = solve(cost)
    assert r.objective == optimize.linear_sum_assignment(cost)[1].size * cost.min()
    assert certify(cost, r).optimal


def test_constant_costs_give_the_identity_as_in_scipy():
    rows, columns = linear_sum_assignment(np.ones((8, 8)))
    np.testing.assert_array_equal(rows, np.arange(8))
    np.testing.assert_array_equal(columns, np.arange(8))


def test_drop_in_raises_what_scipy_raises():
    with pytest.raises(ValueError, match="infeasible"):
        linear_sum_assignment(np.full((3, 3), inf))
    with pytest.raises(ValueError, match="invalid numeric entries"):
        linear_sum_assignment(np.diag([nan, 1, 1]))
    with pytest.raises(ValueError, match="invalid numeric entries"):
        linear_sum_assignment(np.diag([1, -inf, 1]))
    with pytest.raises(ValueError, match="matrix"):
        linear_sum_assignment([1, 2, 3])
    with pytest.raises(TypeError, match="Cannot cast array data"):
        linear_sum_assignment(np.identity(3).astype(str))
    with pytest.raises(InvalidDtype):
        linear_sum_assignment(np.array([[1 + 1j]]))
    assert linear_sum_assignment(np.identity(3, dtype=bool))[1].tolist() != [0, 1, 2]
    assert linear_sum_assignment([[1, 2], [3, 1]], maximize=True)[1].tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.int64, bool, ">f8"])
def test_every_real_dtype(dtype):
    cost = np.random.default_rng(3).integers(0, 2 if dtype is bool else 100, (40, 50)).astype(dtype)
    r = solve(cost)
    rows, columns = optimize.linear_sum_assignment(cost.astype(np.float64))
    assert r.objective == cost.astype(np.float64)[rows, columns].sum()
    assert certify(cost, r).optimal


@pytest.mark.parametrize("n", [40, 300])
def test_float32_is_solved_exactly(n):
    cost = np.random.default_rng(4).random((n, n), dtype=np.float32)
    rows, columns = optimize.linear_sum_assignment(cost.astype(np.float64))
    assert solve(cost).objective == pytest.approx(math.fsum(cost.astype(np.float64)[rows, columns]), rel=1e-14)


@pytest.mark.parametrize("n", [40, 300])
def test_read_only_strided_and_fortran_input(n):
    base = np.random.default_rng(5).random((2 * n, 2 * n))
    view = base[::2, ::2]
    expected = solve(view.copy()).objective
    frozen = view.copy()
    frozen.flags.writeable = False
    for cost in (view, frozen, np.asfortranarray(view), frozen.T, view[::-1, ::-1]):
        assert solve(cost).objective == pytest.approx(expected, rel=1e-14)


def test_price_wars_are_bounded():
    cost = np.random.default_rng(7).random((1500, 1500))
    assert solve(cost, method="dense").stats.row_scans <= 40 * 1500


def test_answers_are_read_only_and_deterministic():
    cost = np.random.default_rng(8).random((300, 310))
    a, b = solve(cost), solve(cost)
    assert a.u.tobytes() == b.u.tobytes()
    assert a.row_to_col.tobytes() == b.row_to_col.tobytes()
    with pytest.raises(AttributeError):
        a.status = "partial"
    with pytest.raises(ValueError, match="read-only"):
        a.u[0] = 1.0


@pytest.mark.parametrize("shape", [(9, 12), (300, 300), (420, 300)])
def test_a_predictor_cannot_write_to_the_costs(shape):
    class Scribbler:
        def predict(self, cost):
            cost[:] = 0.0
            return np.zeros(len(cost))

    cost = np.random.default_rng(9).random(shape)
    before = cost.copy()
    with pytest.raises(ValueError, match="read-only"):
        solve(cost, warm_start=Scribbler())
    np.testing.assert_array_equal(cost, before)


def test_infinite_predictions_are_replaced_and_noted():
    cost = np.random.default_rng(9).random((300, 300))
    r = solve(cost, warm_start=RowDuals(np.where(np.arange(300) == 5, inf, 0.1)))
    assert "replaced" in r.stats.notes[0]


def test_sparse_input_keeps_explicit_zeros_and_its_errors():
    graph = sp.csr_array(([0.0, 1.0, 2.0], ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    r = solve(graph)
    assert (r.objective, r.row_to_col.tolist()) == (3.0, [1, 0])
    assert certify(graph, r).optimal
    with pytest.raises(Infeasible) as caught:
        solve(sp.csr_array(([1.0, 1.0], ([0, 1], [0, 0])), shape=(2, 2)))
    assert (caught.value.rows, caught.value.columns) == ((0, 1), (0,))
    assert solve(sp.coo_array(([5.0, 1.0], ([0, 1], [0, 0])), shape=(2, 2)), on_infeasible="partial").objective == 1.0
    assert solve(graph, unmatched_cost=1.5).n_unmatched_rows == 1
    with pytest.raises(InvalidInput, match=r"NaN at \(1, 0\)"):
        solve(sp.csr_array(([1.0, nan], ([0, 1], [1, 0])), shape=(2, 2)))


@pytest.mark.parametrize("shape", [(60, 60), (50, 70), (70, 50)])
def test_sparse_equals_scipy(shape):
    rng = np.random.default_rng(10)
    graph = sp.random_array(shape, density=0.3, rng=rng, format="csr")
    rows, columns = sp.csgraph.min_weight_full_bipartite_matching(graph)
    assert solve(graph).objective == pytest.approx(graph.toarray()[rows, columns].sum())


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    cost = torch.rand(20, 20, generator=torch.Generator().manual_seed(0))
    assert solve(cost).objective == solve(cost.numpy()).objective
    assert solve(cost.bfloat16()).objective == solve(cost.bfloat16().float()).objective
    assert solve(cost.requires_grad_()).objective == solve(cost.detach()).objective
    with pytest.raises(InvalidInput, match="NaN"):
        solve(torch.full((2, 2), nan))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: lapmod(-math.inf, [1.0], [0, 1], [0]), "n"),
        (lambda: lapmod(2, [1.0, 2.0], [0, 2**53, 0], [0, 1]), "ii"),
        (lambda: lapmod(1, [1.0], [0, 1], [3]), "kk"),
        (lambda: predict.RowMin().predict(np.zeros((4, 0))), "cost"),
        (lambda: predict.KthSmallest(2).predict(np.zeros((4, 0))), "cost"),
        (lambda: predict.RowDualNet.load().predict(np.zeros((0, 0))), "cost"),
        (lambda: predict.RowDualNet.load().predict([[-math.inf, 1.0]]), "cost"),
        (lambda: predict.LinearRow.fit(3), "costs"),
        (lambda: predict.LinearRow.fit([np.zeros((4, 0))]), "cost"),
        (lambda: predict.LinearRow.fit([np.eye(3)], ridge=math.inf), "ridge"),
        (lambda: AssignmentResult.from_dict({"shape": [1, 1]}), "data"),
        (lambda: AssignmentResult.from_dict({**solve(np.eye(2)).to_dict(), "wall_time": 10**400}), "data"),
        (lambda: AssignmentResult.from_dict({**solve(np.eye(2)).to_dict(), "stats": 3}), "data"),
    ],
)
def test_predictors_and_records_name_what_does_not_fit(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}: "):
        call()


def test_a_damaged_network_is_named(tmp_path):
    predict.RowDualNet.load().save(tmp_path / "net.npz")
    content = bytearray((tmp_path / "net.npz").read_bytes())
    content[200:400] = bytes(200)
    (tmp_path / "net.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"net\.npz"):
        predict.RowDualNet.load(tmp_path / "net.npz")


def test_a_ridge_that_rounding_swallows_still_fits():
    fitted = predict.LinearRow.fit([np.eye(3)], ridge=5e-324)
    assert np.isfinite(fitted.predict(np.eye(3))).all()
