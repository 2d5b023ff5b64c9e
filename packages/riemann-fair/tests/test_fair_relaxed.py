"""Relaxed fairness with its certificate, the price-of-fairness path, pymanopt manifolds."""

import numpy as np
import pymanopt
import pytest
from lemmata_core import InvalidInput
from pymanopt.optimizers import ConjugateGradient, TrustRegions
from riemann_fair import (
    FairGrassmann,
    FairStiefel,
    RADMMParams,
    constraint_matrix,
    fair_embedding,
    fairness_path,
    modified_sbm,
)


@pytest.fixture(scope="module")
def graph():
    return modified_sbm(600, 2, 4, rng=0)


@pytest.mark.parametrize("delta", [0.1, 0.3, 0.6, 0.9])
def test_every_level_is_reached_and_certified(graph, delta):
    found = fair_embedding(graph.affinity, graph.groups, 4, tolerance=delta, rng=3)
    assert found.solver == "radmm"
    assert found.status == "converged"
    assert found.fairness_violation <= delta + 1e-6
    assert found.lower_bound <= found.objective <= found.lower_bound * (1 + 1e-4)
    assert found.embedding.T @ found.embedding == pytest.approx(np.eye(4), abs=1e-10)


def test_an_inactive_tolerance_is_plain_clustering(graph):
    plain = fair_embedding(graph.affinity, None, 4, solver="dense")
    found = fair_embedding(graph.affinity, graph.groups, 4, tolerance=1.3, rng=0)
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)


def test_the_bound_is_below_every_feasible_block(graph):
    found = fair_embedding(graph.affinity, graph.groups, 4, tolerance=0.5, rng=0)
    fair = fair_embedding(graph.affinity, graph.groups, 4, solver="dense")
    assert found.lower_bound < fair.objective
    assert found.objective < fair.objective


def test_the_path_falls_from_fair_to_plain(graph):
    path = fairness_path(graph.affinity, graph.groups, 4, grid=5, rng=0)
    assert (np.diff(path.delta) < 0).all()
    assert (np.diff(path.objective) > -1e-6).all()
    assert (path.violation <= path.delta + 1e-6).all()
    assert (path.objective >= path.lower_bound - 1e-8).all()
    assert (path.objective <= path.lower_bound * (1 + 1e-3)).all()
    assert path.balance[0] < path.balance[-1]
    assert len(path.to_frame()) == len(path.table().rows) == 5
    assert path.plot().axes


def test_an_eigensolver_that_gives_up_leaves_a_bound_that_holds(graph, monkeypatch):
    from riemann_fair import dual

    def given_up(*args):
        raise dual.spla.ArpackNoConvergence("no", np.zeros(0), np.zeros((600, 0)))

    monkeypatch.setattr(dual, "_dual", given_up)
    # Without its certificate the answer is not called converged.
    with pytest.warns(UserWarning, match="max_iter"):
        found = fair_embedding(graph.affinity, graph.groups, 4, tolerance=0.5, rng=0)
    assert found.lower_bound == 0
    assert found.fairness_violation <= 0.5 + 1e-6


def test_a_path_needs_groups(graph):
    with pytest.raises(InvalidInput, match="groups"):
        fairness_path(graph.affinity, None, 4)


def test_a_callback_stops_the_run(graph):
    seen = []

    def after_three(record):
        seen.append(record["outer"])
        return len(seen) == 3

    found = fair_embedding(graph.affinity, graph.groups, 4, solver="radmm", rng=0, callback=after_three)
    assert (found.status, found.n_iter) == ("stopped", 3)
    assert found.fairness_violation < 1e-10


def test_a_time_limit_is_kept(graph):
    with pytest.warns(UserWarning, match="time_limit"):
        found = fair_embedding(
            graph.affinity, graph.groups, 4, solver="radmm", params=RADMMParams(time_limit=0.0), rng=0
        )
    assert found.n_iter == 1


@pytest.fixture(scope="module")
def constraint():
    rng = np.random.default_rng(0)
    return constraint_matrix(rng.integers(0, 3, 30), degrees=rng.uniform(1, 4, 30)).C


@pytest.mark.parametrize("make", [FairStiefel, FairGrassmann])
def test_points_and_steps_stay_on_the_manifold(make, constraint):
    manifold = make(30, 3, constraint, rng=0)
    H = manifold.random_point()
    V = manifold.random_tangent_vector(H)
    assert manifold.norm(H, V) == pytest.approx(1)
    for point in (H, manifold.retraction(H, V), manifold.exp(H, V)):
        assert point.T @ point == pytest.approx(np.eye(3), abs=1e-12)
        assert np.abs(constraint.T @ point).max() < 1e-12
    assert manifold.projection(H, V) == pytest.approx(V, abs=1e-12)
    # A retraction agrees with the exponential map to first order.
    for t in (1e-3, 1e-4):
        gap = np.linalg.norm(manifold.retraction(H, t * V) - (H + t * V))
        assert gap < 2 * t**2
    assert manifold.dim == 28 * 3 - (6 if make is FairStiefel else 9)


@pytest.mark.parametrize("make", [FairStiefel, FairGrassmann])
def test_the_hessian_is_the_derivative_of_the_gradient(make, constraint):
    manifold = make(30, 3, constraint, rng=1)
    rng = np.random.default_rng(1)
    M = rng.standard_normal((30, 30))
    M = M + M.T
    H = manifold.random_point()
    V = manifold.random_tangent_vector(H)

    def gradient(X):
        return manifold.euclidean_to_riemannian_gradient(X, 2 * M @ X)

    t = 1e-6
    moved = [gradient(manifold.retraction(H, s * V)) for s in (t, -t)]
    numeric = manifold.projection(H, (moved[0] - moved[1]) / (2 * t))
    exact = manifold.euclidean_to_riemannian_hessian(H, 2 * M @ H, 2 * M @ V, V)
    assert exact == pytest.approx(numeric, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "optimizer"),
    [(FairGrassmann, TrustRegions), (FairStiefel, TrustRegions), (FairGrassmann, ConjugateGradient)],
)
def test_pymanopts_optimizers_reach_the_eigenvalues(make, optimizer):
    graph = modified_sbm(120, 3, 2, rng=0)
    info = constraint_matrix(graph.groups, degrees=graph.affinity.sum(axis=1))
    s = 1 / np.sqrt(graph.affinity.sum(axis=1))
    L = np.eye(120) - s[:, None] * graph.affinity.toarray() * s
    manifold = make(120, 2, info.C, rng=0)

    @pymanopt.function.numpy(manifold)
    def cost(H):
        return np.trace(H.T @ L @ H)

    @pymanopt.function.numpy(manifold)
    def gradient(H):
        return 2 * L @ H

    @pymanopt.function.numpy(manifold)
    def hessian(H, V):
        return 2 * L @ V

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    found = optimizer(verbosity=0).run(problem, initial_point=manifold.random_point())
    exact = fair_embedding(graph.affinity, graph.groups, 2, solver="dense").objective
    assert found.cost == pytest.approx(exact, rel=1e-6)


def test_pymanopt_as_a_solver():
    graph = modified_sbm(200, 2, 3, rng=0)
    exact = fair_embedding(graph.affinity, graph.groups, 3, solver="dense").objective
    for params in (None, TrustRegions(verbosity=0)):
        found = fair_embedding(graph.affinity, graph.groups, 3, solver="pymanopt", params=params, rng=0)
        assert found.objective == pytest.approx(exact, abs=1e-8)


def test_a_manifold_without_room_is_refused(constraint):
    with pytest.raises(InvalidInput, match="n - rank"):
        FairStiefel(30, 29, constraint)
    with pytest.raises(InvalidInput, match="C:"):
        FairGrassmann(31, 2, constraint)
