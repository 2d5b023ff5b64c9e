"""Rows that lie across the memory: tall C-ordered and wide F-ordered matrices, solved without turning them."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lap_warmstart import (
    ColumnDuals,
    Infeasible,
    RowDuals,
    certify,
    linear_sum_assignment,
    passes,
    pricing,
    problem,
    solve,
)
from lap_warmstart.compat.lap import lapjv
from lemmata_core import InvalidInput
from scipy import optimize


def lay(cost, wide):
    """The same numbers with rows across the memory: tall and C-ordered, or wide and F-ordered."""
    return cost.T if wide else cost


@st.composite
def tall(draw):
    m = draw(st.integers(2, 40))
    n = m + draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["floats", "float32", "ties", "product", "low rank"]))
    if kind == "ties":
        cost = rng.integers(0, 4, (n, m)).astype(float)
    elif kind == "product":
        cost = np.outer(np.arange(1.0, n + 1), np.arange(1.0, m + 1))
    else:
        cost = rng.random((n, 2)) @ rng.random((2, m)) if kind == "low rank" else rng.random((n, m))
    if draw(st.booleans()):
        cost[rng.random((n, m)) < draw(st.sampled_from([0.3, 0.8]))] = math.inf
    return cost.astype(np.float32) if kind == "float32" else cost


@settings(max_examples=150, deadline=None)
@given(tall(), st.booleans(), st.booleans(), st.sampled_from(["none", "rows", "columns", "duals"]),
       st.sampled_from(["bound", "density", "none"]), st.booleans())  # fmt: skip
def test_equals_scipy(cost, wide, maximize, start, fallback, give_up):
    cost = lay(-cost if maximize else cost, wide)
    before = cost.tobytes("A")
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "TURNED", 0)
        patch.setattr(pricing, "COPIED", 0)
        if give_up:
            # Left to the dense search across the memory at once.
            patch.setattr(pricing, "ROUNDS", 1)
        try:
            rows, columns = optimize.linear_sum_assignment(cost, maximize)
        except ValueError:
            with pytest.raises(Infeasible):
                solve(cost, maximize=maximize)
            assert certify(cost, solve(cost, maximize=maximize, on_infeasible="partial")).optimal
            return
        warm = {
            "none": lambda: None,
            "rows": lambda: RowDuals(rng.normal(size=cost.shape[0]) * 10),
            "columns": lambda: ColumnDuals(rng.normal(size=cost.shape[1])),
            "duals": lambda: solve(cost, maximize=maximize),
        }[start]()
        r = solve(cost, maximize=maximize, warm_start=warm, fallback=fallback)
    assert r.method == "core"
    assert r.objective == pytest.approx(math.fsum(cost[rows, columns].astype(float)), rel=1e-12, abs=1e-12)
    assert certify(cost, r).optimal
    assert cost.tobytes("A") == before


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["floats", "ties", "constant", "falling", "masked"])
def test_the_core_lists_the_cheapest_entries(kind, dtype):
    # Against a full sort by reduced cost, then by the distance from the column where the row starts.
    rng = np.random.default_rng(1)
    m, n, k = 331, 77, 16
    a = (rng.integers(0, 4, (m, n)) if kind == "ties" else rng.random((m, n))).astype(dtype)
    if kind == "constant":
        a[:] = 1
    if kind == "falling":
        a = np.sort(a, axis=0)[::-1].copy()
    if kind == "masked":
        a[rng.random((m, n)) < 0.97] = math.inf
    v = -0.1 * rng.random(m) if kind == "floats" else np.zeros(m)
    p = problem.Problem(a.T, (m, n), True, False, False, math.inf)
    assert p.across
    graph, low = passes.select_core(p, v, k)
    reduced = a.astype(np.float64) - v[:, None]
    for i in range(n):
        order = np.lexsort(((np.arange(m) - i * m // n) % m, reduced[:, i]))[:k]
        order = order[np.isfinite(reduced[order, i])]
        np.testing.assert_array_equal(graph.col[graph.ptr[i] : graph.ptr[i + 1]], order)
        np.testing.assert_array_equal(graph.val[graph.ptr[i] : graph.ptr[i + 1]], a[order, i])
        assert low[i] == reduced[:, i].min()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "integers", "potentials", "masked", "constant"])
def test_agrees_with_the_turned_matrix(kind, wide, monkeypatch):
    rng = np.random.default_rng(2)
    n, m = 420, 300
    cost = {
        "uniform": lambda: rng.random((n, m)),
        "integers": lambda: rng.integers(0, 1000, (n, m)).astype(float),
        "potentials": lambda: rng.random((n, m)) + 10 * rng.random((n, 1)) + 10 * rng.random(m),
        "masked": lambda: np.where(rng.random((n, m)) < 0.95, math.inf, rng.random((n, m))),
        "constant": lambda: np.ones((n, m)),
    }[kind]()
    cost = lay(cost, wide)
    expected = solve(np.asarray(cost, order="C" if wide else "F")).objective
    for copied in (pricing.COPIED, 0):
        monkeypatch.setattr(pricing, "COPIED", copied)
        r = solve(cost)
        assert r.objective == pytest.approx(expected, rel=1e-12)
        assert certify(cost, r).optimal
        again = solve(cost, warm_start=r)
        assert again.objective == pytest.approx(expected, rel=1e-12)
        assert certify(cost, again).optimal


@pytest.mark.parametrize("wide", [False, True])
def test_what_is_wrong_is_named_where_it_stands(wide):
    rng = np.random.default_rng(3)
    cost = lay(rng.random((420, 300)), wide)
    spoilt = cost.copy(order="K")
    spoilt[7, 200] = math.nan
    with pytest.raises(InvalidInput, match=r"NaN at \(7, 200\)"):
        solve(spoilt)
    spoilt[7, 200] = -math.inf
    with pytest.raises(InvalidInput, match=r"-inf at \(7, 200\)"):
        solve(spoilt)
    spoilt = cost.copy(order="K")
    line = (17, slice(None)) if wide else (slice(None), 17)
    spoilt[line] = math.inf
    with pytest.raises(Infeasible) as caught:
        solve(spoilt)
    assert (caught.value.rows if wide else caught.value.columns) == (17,)
    r = solve(spoilt, on_infeasible="partial")
    assert r.row_ind.size == 299
    assert certify(spoilt, r).optimal


@pytest.mark.parametrize("method", ["dense", "lapjv", "sparse", "core"])
def test_other_methods_and_predictors_take_it(method):
    cost = np.random.default_rng(4).random((420, 300))
    expected = solve(cost).objective
    assert solve(cost, method=method).objective == pytest.approx(expected, rel=1e-12)
    assert solve(cost, method=method, warm_start="net").objective == pytest.approx(expected, rel=1e-12)


SHAPES = [(2400, 1600), (1600, 2400), (3000, 1000), (1000, 3000)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_copy_of_a_rectangular_matrix(shape, order, dtype):
    cost = np.asarray(np.random.default_rng(5).random(shape), dtype=dtype, order=order)
    cost.flags.writeable = False
    for call in (solve, linear_sum_assignment, lambda c: lapjv(c, extend_cost=True)):
        call(cost)
        tracemalloc.start()
        call(cost)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The core: 16 entries a row, in float64 whatever the costs are.
        assert peak < (0.1 if dtype is np.float64 else 0.2) * cost.nbytes


def test_no_copy_in_the_memory_of_the_process(peaks):
    # Matrices of more than 32 MB, so that what is freed goes back to the system.
    shapes = (3000, 2000), (2000, 3000), (5000, 1000), (1000, 5000)
    cases = [f"{order},{n},{m}" for n, m in shapes for order in "CF"]
    found = peaks(*cases)
    assert len(found) == len(cases)
    for solved, copied in found:
        assert copied > 0.9
        assert solved < 0.1
