"""Properties against SciPy on random small problems: any input, any warm start, any method."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lap_warmstart import ColumnDuals, Infeasible, RowDuals, certify, linear_sum_assignment, solve
from scipy import optimize

FAST = settings(max_examples=150, deadline=None)


@st.composite
def matrices(draw, top=12):
    n, m = draw(st.integers(1, top)), draw(st.integers(1, top))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["zeros and ones", "few", "many", "floats"]))
    if kind == "floats":
        cost = rng.random((n, m))
    else:
        cost = rng.integers(0, {"zeros and ones": 2, "few": 5, "many": 1000}[kind], (n, m)).astype(float)
    if draw(st.booleans()):
        cost[rng.random((n, m)) < 0.3] = math.inf
    return np.asfortranarray(cost) if draw(st.booleans()) else cost


@st.composite
def warm_starts(draw):
    """A function of the shape, so that garbage fits."""
    seed, size = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([1e-6, 1.0, 1e3, 1e12, 1e17, 1e300]))
    kind = draw(st.sampled_from(["none", "rows", "columns", "bare", "infinite"]))

    def make(n, m):
        rng = np.random.default_rng(seed)
        rows, columns = rng.normal(size=n) * size, rng.normal(size=m) * size
        if kind == "infinite":
            rows[0] = math.inf
        return {"none": None, "columns": ColumnDuals(columns), "bare": rows}.get(kind, RowDuals(rows))

    return make


def reference(cost, maximize=False):
    try:
        rows, columns = optimize.linear_sum_assignment(cost, maximize)
    except ValueError:
        return None
    return math.fsum(cost[rows, columns])


@FAST
@given(matrices(), warm_starts(), st.sampled_from(["auto", "core", "dense", "lapjv", "sparse"]),
       st.sampled_from(["bound", "density", "none"]))  # fmt: skip
def test_equals_scipy_whatever_the_warm_start(cost, warm, method, fallback):
    before = cost.copy()
    expected = reference(cost)
    start = warm(*cost.shape)
    if expected is None:
        with pytest.raises(Infeasible):
            solve(cost, warm_start=start, method=method, fallback=fallback)
        return
    r = solve(cost, warm_start=start, method=method, fallback=fallback)
    assert r.objective == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert certify(cost, r).optimal
    np.testing.assert_array_equal(cost, before)


@FAST
@given(matrices(), st.sampled_from([0.3, 1.0, 2.0, 50.0]), warm_starts(),
       st.sampled_from(["auto", "core", "dense", "lapjv", "sparse"]))  # fmt: skip
def test_gate_equals_private_dummy_columns(cost, gate, warm, method):
    n, m = cost.shape
    padded = np.full((n, m + n), math.inf)
    padded[:, :m] = cost
    padded[np.arange(n), m + np.arange(n)] = gate
    r = solve(cost, unmatched_cost=gate, warm_start=warm(n, m), method=method)
    assert r.objective + gate * r.n_unmatched_rows == pytest.approx(reference(padded), rel=1e-12, abs=1e-12)
    assert certify(cost, r).optimal


@FAST
@given(matrices())
def test_drop_in_equals_scipy(cost):
    if reference(cost) is None:
        return
    rows, columns = linear_sum_assignment(cost)
    other_rows, other_columns = optimize.linear_sum_assignment(cost)
    # Which rows of a tall problem are matched may differ by a tie; their order may not.
    assert (np.diff(rows) > 0).all()
    assert (rows.dtype, rows.shape, columns.shape) == (np.dtype(np.int64), other_rows.shape, other_columns.shape)
    assert math.fsum(cost[rows, columns]) == pytest.approx(math.fsum(cost[other_rows, other_columns]), abs=1e-12)


@FAST
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_potentials_shift_the_objective_by_their_sums(n, seed):
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 100, (n, n))
    a, b = rng.integers(-50, 50, (2, n))
    assert solve(cost + a[:, None] + b).objective == solve(cost).objective + a.sum() + b.sum()


@FAST
@given(matrices())
def test_transpose_and_permutation_keep_the_objective(cost):
    if reference(cost) is None:
        return
    value = solve(cost).objective
    order = np.random.default_rng(0).permutation(cost.shape[0])
    assert solve(cost.T).objective == pytest.approx(value, abs=1e-12)
    assert solve(cost[order]).objective == pytest.approx(value, abs=1e-12)


@FAST
@given(matrices(), st.booleans())
def test_partial_has_as_many_pairs_as_possible_and_certifies(cost, maximize):
    given_cost = -cost if maximize else cost
    r = solve(given_cost, on_infeasible="partial", maximize=maximize)
    assert certify(given_cost, r).optimal
    expected = reference(given_cost, maximize)
    if expected is None:
        assert r.status == "partial"
    else:
        assert r.objective == pytest.approx(expected, abs=1e-12)
