"""Right values, all verified by exhaustive search or SciPy: the tables of examples, through every method."""

import math
from pathlib import Path

import numpy as np
import pytest
from lap_warmstart import ColumnDuals, Infeasible, certify, solve

DATA = Path(__file__).parent / "data"
inf = math.inf
METHODS = ("auto", "core", "dense", "lapjv", "sparse")

PINS = [
    ([[1, 1, 1, 2], [3, 2, 4, 1], [4, 4, 2, 4], [2, 3, 3, 3]], 6, [1, 3, 2, 0]),
    ([[9, 7.6, 7.5, 7], [3.5, 8.5, 5.5, 6.5], [12.5, 9.5, 9, 10.5], [4.5, 11, 9.5, 11.5]], 26.5, [3, 2, 1, 0]),
    ([[inf, 11, 8], [8, inf, 7]], 16, [2, 0]),
    (
        [
            [-625, 2187.5, -156.25, 1e6],
            [-2500, 1e6, -2500, -2500],
            [-1015.625, 1015.625, 1e6, 1e6],
            [1e6] * 4,
        ],
        996328.125,
        [2, 3, 0, 1],
    ),
    ([[5, 1], [2, 9], [4, 4]], 3, [1, 0, -1]),
    ([[4, 1, 3], [2, 0, 5], [3, 2, 2]], 5, [1, 0, 2]),
    ([[1e16, 1e16 + 2], [1e16 + 4, 1e16]], 2e16, [0, 1]),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("cost", "value", "columns"), PINS)
def test_pinned_problem(cost, value, columns, method):
    r = solve(np.array(cost, dtype=float), method=method)
    assert r.objective == value
    assert r.row_to_col.tolist() == columns
    assert certify(cost, r).optimal


@pytest.mark.parametrize("method", METHODS)
def test_maximise(method):
    r = solve([[7, 4, 3], [6, 8, 5], [9, 4, 4]], maximize=True, method=method)
    assert (r.objective, r.row_to_col.tolist()) == (20, [2, 1, 0])
    assert (r.u[:, None] + r.v >= [[7, 4, 3], [6, 8, 5], [9, 4, 4]]).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("gate", "columns", "matched"), [(0.15, [1, -1, -1], 0.1), (0.35, [1, 0, -1], 0.3), (inf, [1, 0, -1], 0.3)]
)
def test_gate_leaves_rows_unmatched(gate, columns, matched, method):
    cost = [[0.3, 0.1], [0.2, 0.6], [0.4, 0.9]]
    r = solve(cost, unmatched_cost=gate, method=method)
    assert r.row_to_col.tolist() == columns
    assert r.objective == pytest.approx(matched)
    assert r.n_unmatched_rows == columns.count(-1)
    assert certify(cost, r).optimal


def test_filtering_after_solving_is_not_gating():
    r = solve([[0.5, 0.7], [0.1, 0.9]], unmatched_cost=0.65)
    assert r.row_to_col.tolist() == [-1, 0]
    assert r.objective == 0.1


def test_a_pair_at_exactly_the_gate_stays_unmatched():
    assert solve([[2.0]], unmatched_cost=2.0).row_to_col.tolist() == [-1]


@pytest.mark.parametrize("method", ["auto", "core", "dense", "lapjv"])
@pytest.mark.parametrize(("n", "value"), [(5, 35), (50, 22100), (200, 1353400)])
def test_machol_wien(n, value, method):
    k = np.arange(1, n + 1)
    assert solve(np.outer(k, k), method=method).objective == value


@pytest.mark.parametrize("method", METHODS)
def test_or_library_assign100(method):
    numbers = (DATA / "assign100.txt").read_text().split()
    cost = np.array(numbers[1:], dtype=np.int64).reshape(100, 100)
    r = solve(cost, method=method)
    assert r.objective == 305
    assert certify(cost, r).optimal


def test_infeasible_names_the_violator_and_partial_gives_the_rest():
    cost = [[inf, inf, 4], [inf, inf, inf], [inf, 4, inf]]
    with pytest.raises(Infeasible, match="rows 1 ") as caught:
        solve(cost)
    assert caught.value.rows == (1,)
    r = solve(cost, on_infeasible="partial")
    assert (r.status, r.objective, r.row_ind.size) == ("partial", 8, 2)
    assert certify(cost, r).optimal


PARTIAL = [
    ([[1e-3, 2e-3, 1e12], [1.5e-3, inf, inf], [2e-3, inf, inf]], 0.0035, [1, 0, -1]),
    ([[1e-3, 2e-3, 1e12], [2e-3, inf, inf], [1.5e-3, inf, inf]], 0.0035, [1, -1, 0]),
    ([[inf, 1, inf, inf], [inf, 3, inf, inf], [2, inf, 3, 1e15], [5, 7, 1e15, inf]], 9, [1, -1, 2, 0]),
    ([[inf, inf], [1, 2]], 1, [-1, 0]),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("cost", "value", "columns"), PARTIAL)
def test_partial_has_most_pairs_then_least_cost(cost, value, columns, method):
    r = solve(cost, on_infeasible="partial", method=method)
    assert r.objective == pytest.approx(value, rel=1e-15)
    assert r.row_to_col.tolist() == columns
    assert certify(cost, r).optimal
    with pytest.raises(Infeasible):
        solve(cost, method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_square_problems_name_rows_in_any_memory_order(order, method):
    cost = np.array([[1.0, inf, inf], [2.0, inf, inf], [3.0, 1.0, 1.0]], order=order)
    with pytest.raises(Infeasible) as caught:
        solve(cost, method=method)
    assert (caught.value.rows, caught.value.columns) == ((0, 1), (0,))


def test_violator_of_a_larger_conflict():
    with pytest.raises(Infeasible) as caught:
        solve(PARTIAL[2][0])
    assert (caught.value.rows, caught.value.columns) == ((0, 1), (1,))


@pytest.mark.parametrize("method", METHODS)
def test_seeds_with_free_columns_below_zero_are_repaired(method):
    r = solve([[5, 1]], warm_start=ColumnDuals((0, -10)), method=method, fallback="none")
    assert (r.objective, r.row_to_col.tolist()) == (1, [1])
    r = solve([[3, 1]], unmatched_cost=2, warm_start=ColumnDuals((0, -4)), method=method, fallback="none")
    assert (r.objective, r.row_to_col.tolist(), r.n_unmatched_rows) == (1, [1], 0)
    cost = [[0, 5, 6, 1], [3, 7, 0, 7], [4, 4, 2, 4]]
    r = solve(cost, warm_start=ColumnDuals((-9, -9, -9, -9)), method=method, fallback="none")
    assert r.objective == 4
    assert r.row_to_col.tolist() in ([0, 2, 1], [0, 2, 3])  # a tie
