"""The best fixed decision against full problems solved by others."""

import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import AnytimeCOCO, HindsightTracker, best_fixed, domains, play_linear
from oco_anytime.environments import Stream
from scipy.optimize import linprog


@pytest.mark.parametrize("domain", [domains.Box(6, -1, 1), domains.Simplex(6), domains.CappedSimplex(6, 2, 0.7)])
def test_constraint_generation_equals_the_full_linear_program(domain):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 6))
    b = A @ domain.project(rng.standard_normal(6)) + rng.random(500) * (rng.random(500) < 0.5)
    c = rng.standard_normal(6)
    *_, A_eq, b_eq, lower, upper = domain.polyhedron()
    bounds = np.column_stack([lower, upper])
    full = linprog(c, A, b, A_eq if A_eq.size else None, b_eq if A_eq.size else None, bounds, method="highs")
    found = best_fixed(domain, c, A, b)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(full.fun, rel=1e-9, abs=1e-9)
    assert (A @ found.x <= b + 1e-9).all()
    assert domain.contains(found.x, 1e-9)
    assert found.n_active < 100


@pytest.mark.parametrize("make", [lambda d: domains.Ball(d, 2.0, np.ones(d)), domains.L1Ball])
def test_round_domains_equal_an_interior_point_method(make):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    for d in (1, 2, 4):
        domain = make(d)
        for _ in range(5):
            A = rng.standard_normal((12, d))
            b = A @ domain.project(3 * rng.standard_normal(d)) + rng.random(12) * (rng.random(12) < 0.5)
            c = rng.standard_normal(d)
            x = cp.Variable(d)
            problem = cp.Problem(cp.Minimize(c @ x), [*domain.cvxpy(x), A @ x <= b])
            problem.solve(solver=cp.CLARABEL)
            found = best_fixed(domain, c, A, b)
            assert found.objective == pytest.approx(problem.value, rel=1e-6, abs=1e-6)
            assert (A @ found.x <= b + 1e-9).all()
            assert domain.contains(found.x, 1e-9)


def test_a_product_with_a_ball_is_optimal_to_the_solvers_tolerance():
    rng = np.random.default_rng(8)
    domain = domains.Product(domains.Ball(3), domains.Simplex(2))
    A = rng.standard_normal((40, 5))
    u = domain.project(0.3 * rng.standard_normal(5))
    found = best_fixed(domain, rng.standard_normal(5), A, A @ u + 0.1 * rng.random(40))
    assert found.status == "optimal"
    assert domain.contains(found.x, 1e-6)


def test_a_cost_that_is_not_linear():
    cp = pytest.importorskip("cvxpy")
    found = best_fixed(domains.Box(2, -1, 1), [0, 0], [[1, 1]], [0.5], cost=lambda x: cp.sum_squares(x - 1.0))
    np.testing.assert_allclose(found.x, [0.25, 0.25], atol=1e-6)


def test_no_feasible_point_is_said_so():
    for domain in (domains.Ball(2), domains.Box(2), domains.L1Ball(2)):
        found = best_fixed(domain, [1, 0], [[1, 0]], [-5])
        assert (found.status, found.objective) == ("infeasible", np.inf)


def test_the_tracker_gives_the_regret_curve():
    env = Stream("random", 64, 2, 5)
    run = play_linear(AnytimeCOCO(env.domain), *env.linear(64))
    tracker = HindsightTracker(env.domain)
    for c, a, b, x in zip(env.costs, env.A, env.b, run.x):
        tracker.push(c, a, b, x)
    ts, regret = tracker.regret()
    np.testing.assert_array_equal(ts, [1, 2, 4, 8, 16, 32, 64])
    best = best_fixed(env.domain, env.costs.sum(axis=0), env.A, env.b)
    assert regret[-1] == pytest.approx(run.cumulative_cost[-1] - best.objective, abs=1e-9)
    np.testing.assert_allclose(run.regret_at([64], [best]), regret[-1:])
    assert (regret <= run.certificate[ts - 1] + 1e-9).all()
    with pytest.raises(InvalidInput, match=r"^x:"):
        HindsightTracker(env.domain).push([1, 0]).regret()


def test_bad_shapes_name_the_argument():
    with pytest.raises(InvalidInput, match=r"^A:"):
        best_fixed(domains.Ball(2), [1, 0], [[1, 2, 3]], [0])
    with pytest.raises(InvalidInput, match=r"^b:"):
        best_fixed(domains.Ball(2), [1, 0], [[1, 2], [2, 3]], [0, 1, 2])
