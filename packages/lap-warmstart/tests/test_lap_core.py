"""The core method and its ways out: zero-heavy, tracking, hard and gated problems of some hundred rows."""

import math

import numpy as np
import pytest
from lap_warmstart import ColumnDuals, RowDuals, certify, pricing, solve
from lap_warmstart.instances import FAMILIES, generate, tracking
from scipy import optimize


def check(cost, r):
    rows, columns = optimize.linear_sum_assignment(cost)
    assert r.objective == pytest.approx(math.fsum(cost[rows, columns]), rel=1e-11, abs=1e-12)
    assert certify(cost, r).optimal


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("n", [257, 600])
def test_every_family_cold_and_warm(family, n):
    cost = generate(family, n, n)
    cold = solve(cost)
    assert cold.method == "core"
    check(cost, cold)
    warm = solve(cost, warm_start=cold)
    check(cost, warm)
    rng = np.random.default_rng(0)
    noisy = RowDuals(cold.u + rng.standard_normal(n) * cold.u.std() * 0.1)
    for fallback in ("bound", "none", "density"):
        check(cost, solve(cost, warm_start=noisy, fallback=fallback))


@pytest.mark.parametrize("shape", [(300, 310), (310, 300), (300, 500), (600, 280)])
@pytest.mark.parametrize("kind", ["uniform", "integers", "few"])
def test_rectangular_core(shape, kind):
    rng = np.random.default_rng(1)
    cost = (
        rng.random(shape)
        if kind == "uniform"
        else rng.integers(0, 1000 if kind == "integers" else 3, shape).astype(float)
    )
    for order in "CF":
        r = solve(np.asarray(cost, order=order), method="core")
        check(cost, r)
        check(cost, solve(cost, method="core", warm_start=RowDuals(r.u + 0.05 * rng.standard_normal(shape[0]))))


@pytest.mark.parametrize("seed", range(30))
def test_rectangular_integers_after_pricing(seed):
    # Pricing frees columns that may keep v < 0; without the repair some of these come out wrong.
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(30, 60)), int(rng.integers(60, 90))
    cost = rng.integers(0, 30, (n, m)).astype(float)
    check(cost, solve(cost, method="core"))


@pytest.mark.parametrize(("plateau", "scans"), [(0.5, 3), (2.0, 30)])
@pytest.mark.parametrize("seed", range(3))
def test_tracking_costs_do_not_collapse(seed, plateau, scans, monkeypatch):
    # Above 1 no problem counts as flat, which leaves the cure to the core method's own restart. Its scans are of core
    # rows, at a hundredth of a dense scan's cost. Without any cure it were 442 000 and more.
    monkeypatch.setattr(pricing, "PLATEAU", plateau)
    cost = tracking(2000, seed)
    r = solve(cost)
    assert r.stats.rounds <= 12
    assert r.stats.row_scans <= scans * 2000
    assert certify(cost, r).optimal


@pytest.mark.parametrize("kind", ["tracking", "clipped", "clipped distances", "masked"])
def test_flat_costs(kind):
    rng = np.random.default_rng(7)
    cost = {
        "tracking": lambda: tracking(400, 0, side=300.0),
        "clipped": lambda: np.minimum(rng.random((400, 400)), 0.1),
        "clipped distances": lambda: np.minimum(generate("metric", 400, 0), 10.0),
        "masked": lambda: np.where(rng.random((400, 400)) < 0.1, rng.random((400, 400)), 100.0),
    }[kind]()
    check(cost, solve(cost))
    check(cost.astype(np.float32).astype(float), solve(cost.astype(np.float32)))


@pytest.mark.parametrize("family", ["half", "few", "block", "lowrank"])
def test_zero_heavy_problems_need_almost_no_search(family):
    rng = np.random.default_rng(2)
    n = 600
    cost = {
        "half": lambda: rng.integers(0, 2, (n, n)).astype(float),
        "few": lambda: rng.integers(0, 5, (n, n)).astype(float),
    }.get(family, lambda: generate(family, n, rng))()
    r = solve(cost)
    assert r.stats.row_scans <= 0.3 * n
    check(cost, r)
    again = solve(cost, warm_start=RowDuals(r.u))
    assert again.stats.row_scans <= 0.3 * n
    check(cost, again)


@pytest.mark.parametrize("shape", [(60, 80), (150, 180), (300, 250), (400, 450)])
@pytest.mark.parametrize("gate", [0.02, 0.3, 0.9, 2.0])
def test_gates_against_padding(shape, gate):
    rng = np.random.default_rng(3)
    n, m = shape
    cost = rng.random(shape)
    cost[rng.random(shape) < 0.2] = math.inf
    padded = np.full((n, m + n), math.inf)
    padded[:, :m] = cost
    padded[np.arange(n), m + np.arange(n)] = gate
    rows, columns = optimize.linear_sum_assignment(padded)
    expected = math.fsum(padded[rows, columns])
    first = solve(cost, unmatched_cost=gate)
    for options in (
        {}, {"method": "core"}, {"method": "dense"}, {"method": "sparse"}, {"warm_start": first},
        {"warm_start": RowDuals(rng.random(n)), "fallback": "none"},
    ):  # fmt: skip
        r = solve(cost, unmatched_cost=gate, **options)
        assert r.objective + gate * r.n_unmatched_rows == pytest.approx(expected, rel=1e-11)
        assert certify(cost, r).optimal
        assert (r.u[r.row_to_col < 0] == gate).all()
        assert (r.v[r.col_to_row < 0] == 0.0).all()


@pytest.mark.parametrize("size", [1e9, 1e12, 1e17, 1e300, 1.7e308])
@pytest.mark.parametrize("shape", [(300, 300), (300, 330), (330, 300)])
def test_huge_seeds_cost_no_digit_of_the_costs(shape, size):
    # Under duals of 1e17 the reduced costs of U(0, 1) would all be multiples of 16.
    rng = np.random.default_rng(6)
    cost = rng.random(shape)
    expected = solve(cost).objective
    n, m = shape
    for start in (
        RowDuals(rng.uniform(-1.0, 1.0, n) * size), RowDuals(np.where(np.arange(n) == 7, size, 0.0)),
        RowDuals(np.full(n, -size)), ColumnDuals(rng.uniform(-1.0, 1.0, m) * size), ColumnDuals(np.full(m, size)),
    ):  # fmt: skip
        for method in ("core", "dense", "sparse"):
            for fallback in ("none", "bound", "density"):
                r = solve(cost, warm_start=start, method=method, fallback=fallback)
                assert r.objective == pytest.approx(expected, rel=1e-13)
                assert np.abs(r.v).max() < 1e3


def test_exact_duals_need_almost_no_search():
    cost = generate("metric", 1000, 4)
    r = solve(cost)
    warm = solve(cost, warm_start=RowDuals(r.u))
    assert warm.stats.seed == "warm"
    assert warm.stats.row_scans < 0.1 * r.stats.row_scans
    shifted = solve(cost, warm_start=RowDuals(r.u + 12.5))
    assert shifted.stats.row_scans < 0.1 * r.stats.row_scans


@pytest.mark.parametrize("kind", ["uniform", "masked"])
def test_core_leaves_for_the_dense_method_where_paths_are_missing(kind):
    rng = np.random.default_rng(5)
    cost = rng.random((300, 300))
    if kind == "masked":
        cost[rng.random((300, 300)) < 0.97] = math.inf
        cost[np.arange(300), rng.permutation(300)] = 5.0
    check(cost, solve(cost, method="core"))
    product = np.outer(np.arange(1.0, 301), np.arange(1.0, 301))
    check(product, solve(product, method="core"))
