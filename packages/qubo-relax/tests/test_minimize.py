"""The solvers: certified ends, determinism, stops, memory of nothing."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax.instances import CERTIFIED, graph_matrix, instance
from qubo_relax.theory import is_vertex_minimum

METHODS = ("pgd", "adam", "graduated", "anneal", "graduated+anneal", "tabu", "flip")


def random_qubo(n=60, seed=0):
    rng = np.random.default_rng(seed)
    M = np.triu(rng.integers(-5, 6, (n, n)) * (rng.random((n, n)) < 0.2), 1)
    return qr.Qubo(rng.integers(-5, 6, n), M + M.T, concavity=0.25)


@pytest.mark.parametrize("method", METHODS)
def test_every_sample_is_a_local_minimizer(method):
    q = random_qubo()
    r = qr.minimize(q, method, restarts=9, steps=60)
    assert r.samples.shape == (9, 60)
    assert is_vertex_minimum(q, r.samples).all()
    assert r.certificate.status == "local_min"
    assert r.energy == r.energies.min() == q.energy(r.x)
    assert r.feasible is None


@pytest.mark.parametrize("method", METHODS)
def test_a_lane_depends_on_the_seed_alone(method):
    q = random_qubo()
    few, many = (qr.minimize(q, method, restarts=k, steps=40, rng=5).samples for k in (3, 40))
    np.testing.assert_array_equal(few, many[:3])
    if method != "graduated":  # from the middle of the box its lanes may well end in one point
        other = qr.minimize(q, method, restarts=3, steps=40, rng=6).samples
        assert not np.array_equal(few, other)


def test_an_executor_changes_nothing():
    q = random_qubo()
    plain = qr.minimize(q, restarts=70, steps=30, rng=1)
    with ThreadPoolExecutor(2) as pool:
        split = qr.minimize(q, restarts=70, steps=30, rng=1, executor=pool)
    np.testing.assert_array_equal(plain.samples, split.samples)


@pytest.mark.parametrize("name", list(CERTIFIED))
@pytest.mark.parametrize("method", ["pgd", "adam"])
def test_first_order_methods_end_valid_on_certified_forms(name, method):
    rng = np.random.default_rng(3)
    for _ in range(2):
        problem, formulation = instance(name, rng)
        r = qr.minimize(problem, method, restarts=8, steps=100, formulation=formulation, improve=False)
        assert r.feasible_fraction == 1.0
        assert r.feasible is True
        assert problem.is_feasible(r.solution)
        assert r.certificate.status == "local_min"


def test_a_symmetric_start_is_broken():
    # x = 0.5 is a saddle of max-cut: lanes must leave it, and in different directions.
    p = qr.problems.MaxCut(graph_matrix(np.random.default_rng(0), 20, 0.4))
    for method in ("graduated", "pgd", "adam"):
        r = qr.minimize(p, method, restarts=16, steps=200)
        assert r.unique_fraction > 1 / 16
        assert r.objective > 0.5 * p.weights.w.sum()


def test_lanes_that_end_in_one_point_are_reported():
    r = qr.minimize(qr.Qubo([-1.0, 1.0], np.zeros((2, 2))), restarts=10, steps=5)
    assert r.unique_fraction == 0.1


def test_the_time_limit_holds_and_something_is_returned():
    q = random_qubo(400, 1)
    qr.minimize(q, restarts=1, steps=1)
    t = time.monotonic()
    r = qr.minimize(q, restarts=1000, steps=100_000, time_limit=0.3)
    assert time.monotonic() - t < 3.0
    assert r.status == "time_limit"
    assert r.certificate.status == "local_min"


@pytest.mark.parametrize("method", ["pgd", "anneal", "graduated"])
def test_an_interruption_returns_the_best_so_far(method):
    def interrupt(step, energy):
        raise KeyboardInterrupt

    q = random_qubo()
    r = qr.minimize(q, method, restarts=4, steps=10_000, callback=interrupt)
    assert r.status == "interrupted"
    assert is_vertex_minimum(q, r.x[None])[0]
    stopped = qr.minimize(q, method, restarts=4, steps=10_000, callback=lambda step, energy: True)
    assert stopped.status == "interrupted"


def test_an_interruption_of_the_improver_keeps_the_sample(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    pit = qr.problems.OpenPit([10, -2, -2, -2], [(0, 1), (1, 2), (2, 3)])
    monkeypatch.setattr(type(pit), "improve", interrupt)
    r = qr.minimize(pit, restarts=4, steps=20)
    assert (r.status, r.feasible, r.objective) == ("interrupted", True, r.sample_objective)
    assert qr.certify_point(pit.qubo(), r.x).status == "local_min"


def test_an_interruption_inside_an_improver_that_anneals_is_told(monkeypatch):
    from qubo_relax.solvers import anneal

    kernel, calls = anneal.anneal, []

    def interrupt(prep, X0, steps, options, stop):
        calls.append(1)
        lanes = kernel(prep, X0, steps, options, stop)
        return lanes if len(calls) == 1 else replace(lanes, ended="interrupted")

    monkeypatch.setattr(anneal, "anneal", interrupt)
    risk = np.full((4, 4), 0.1)
    pit = qr.problems.OpenPit([10, -2, -2, -2], [(0, 1), (1, 2), (2, 3)], risk=risk)
    assert qr.minimize(pit, "anneal", restarts=4, steps=20).status == "interrupted"
    assert len(calls) == 2


def test_without_concavity_tied_pairs_are_settled_too():
    # +-1 weights make many ties: single flips alone would stop where two together still gain.
    rng = np.random.default_rng(0)
    for _ in range(10):
        M = np.triu(rng.choice([-1, 0, 0, 1], (40, 40)), 1)
        q = qr.Qubo(rng.integers(-1, 2, 40), M + M.T)
        r = qr.minimize(q, restarts=4, steps=5)
        for x in r.samples:
            assert qr.certify_point(q, x).status == "local_min"
        assert r.certificate.status == "local_min"


def test_stop_at_drops_the_rest():
    q = random_qubo()
    assert len(qr.minimize(q, restarts=320, steps=20, stop_at=1e9).samples) == 32


def test_an_uncertified_form_is_never_called_feasible():
    q = qr.Qubo([-1.0, -1.0], {(0, 1): 0.5})
    r = qr.minimize(q, restarts=4, steps=10, constraints=[qr.LinearConstraint([1, 1], "<=", 1)])
    assert r.feasible is False
    assert r.feasible_fraction == 0.0
    assert r.x.tolist() == [1, 1]


def test_a_bound_that_is_met_means_optimal():
    pit = qr.problems.OpenPit([10, -2, -2, -2], [(0, 1), (1, 2), (2, 3)])
    r = qr.minimize(pit, restarts=4, steps=20)
    assert (r.status, r.objective) == ("optimal", 4.0)


def test_certified_weights_stay_near_the_objective():
    # A penalty far above the objective would stall the objective's part of every gradient step.
    rng = np.random.default_rng(0)
    for name in CERTIFIED:
        problem, formulation = instance(name, rng, limit=14)
        q = problem.qubo(formulation)
        if q.quadratic.nnz and np.abs(q.linear).max() > 0:
            assert abs(q.quadratic).max() < 10 * (np.abs(q.linear).max() + problem.value_scale), name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"method": "magic"}, "method"),
        ({"restarts": 0}, "restarts"),
        ({"steps": -1}, "steps"),
        ({"backend": "jax"}, "backend"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"formulation": "price"}, "formulation"),
        ({"rng": "seed"}, "rng"),
    ],
)
def test_bad_arguments_are_named(words, name):
    with pytest.raises(InvalidInput, match=f"^{name}"):
        qr.minimize(random_qubo(10), **words)


def test_a_kept_convex_diagonal_is_refused():
    with pytest.raises(InvalidInput, match=r"^target:"):
        qr.minimize(qr.Qubo.from_matrix([[1.0]], fold=False))
