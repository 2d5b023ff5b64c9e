"""What a method may be told: every option does what it says, and nothing else is taken."""

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax.theory import is_vertex_minimum


def sparse_qubo(n=80, seed=0, degree=4):
    g = np.random.default_rng(seed)
    i, j = g.integers(0, n, n * degree // 2), g.integers(0, n, n * degree // 2)
    return qr.Qubo.from_coo(n, i, j, g.choice([-1.0, 1.0], i.size), g.normal(size=n), concavity=1e-6)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ({"options": {"temperature": 3}}, "options"),
        ({"options": {"momentum": np.nan}}, "momentum"),
        ({"options": {"momentum": 1.0}}, "momentum"),
        ({"options": {"sigma": "automatic"}}, "sigma"),
        ({"options": {"betas": [0.9]}}, "betas"),
        ({"options": {"reorder": "amd"}}, "reorder"),
        ({"options": {"reset": 1}}, "reset"),
        ({"options": {"rounds": 0}}, "rounds"),
        ({"options": ["sigma"]}, "options"),
        ({"method": "graduated+"}, "method"),
        ({"method": "auto+anneal"}, "method"),
        ({"device": "cuda"}, "device"),
        ({"callback": 3}, "callback"),
        ({"stop_at": "low"}, "stop_at"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(InvalidInput, match=match):
        qr.minimize(sparse_qubo(), **call)


def test_constraints_belong_to_a_plain_quadratic():
    with pytest.raises(InvalidInput, match="constraints"):
        qr.minimize(qr.problems.MIS((2, [])), constraints=[])


def test_mutation_never_makes_a_lane_worse_and_helps():
    q = sparse_qubo(300)
    before = qr.minimize(q, "flip", restarts=8, steps=40)
    after = qr.minimize(q, "flip+mutate", restarts=8, steps=40)
    assert (after.energies <= before.energies + 1e-12).all()
    assert after.energies.mean() < before.energies.mean()
    assert is_vertex_minimum(q, after.samples).all()
    alone = qr.minimize(q, "mutate", restarts=1, steps=40, options={"rounds": 2, "share": 0.1})
    assert alone.certificate.status == "local_min"


@pytest.mark.parametrize("method", ["pgd", "graduated", "anneal", "graduated+anneal", "tabu"])
def test_reordering_keeps_samples_valid_and_labels_in_place(method):
    q = sparse_qubo()
    r = qr.minimize(q, method, restarts=4, steps=60, options={"reorder": "rcm", "sigma": 0.01})
    assert is_vertex_minimum(q, r.samples).all()
    np.testing.assert_allclose(r.energies, q.energy(r.samples))
    if method == "pgd":  # its steps do not depend on the order of the variables
        plain = qr.minimize(q, method, restarts=4, steps=60)
        assert (r.samples == plain.samples).mean() > 0.9


def test_reordering_brings_neighbours_near():
    from qubo_relax.solvers.prepared import band_order, reordered

    g = np.random.default_rng(0)
    place = g.permutation(400)
    q = qr.Qubo.from_coo(400, place[:-1], place[1:], np.ones(399))
    i, j = reordered(q, band_order(q)).quadratic.nonzero()
    assert np.abs(i - j).max() <= 2


def test_sigma_auto_takes_the_better_of_a_pilot():
    points = np.random.default_rng(1).random((9, 2))
    tour = qr.problems.TSP(np.linalg.norm(points[:, None] - points, axis=-1))
    for target in (tour, qr.problems.MIS((60, np.random.default_rng(2).integers(0, 30, (150, 2)) + np.array([0, 30])))):
        runs = {
            s: qr.minimize(target, "graduated", restarts=6, steps=160, improve=False, options={"sigma": s})
            for s in (0.0, 0.01, "auto")
        }
        assert any(np.array_equal(runs["auto"].samples, runs[s].samples) for s in (0.0, 0.01))


def test_the_callback_hears_the_best_energy():
    heard = []
    q = sparse_qubo(2000)
    r = qr.minimize(q, restarts=40, steps=400, callback=lambda step, best: heard.append(best))
    assert np.isnan(heard[0])
    assert np.nanmin(heard) >= r.energy - 1e-9
    assert np.isfinite(heard[-1])


def test_a_short_time_limit_shortens_the_schedule_instead_of_breaking_it_off():
    q = sparse_qubo(20_000, degree=8)
    short = qr.minimize(q, restarts=1, steps=1_000_000, time_limit=1.0)
    assert short.status == "time_limit"
    hot = qr.minimize(q, restarts=1, steps=3)
    assert short.energy < hot.energy
    assert short.wall_time < 3.0


@pytest.mark.parametrize("options", [{"reset": True}, {"lr": 0.2, "betas": (0.8, 0.99)}])
def test_adam_is_told_its_rates(options):
    q = sparse_qubo(2000)
    told, untold = (qr.minimize(q, "adam", restarts=3, steps=200, options=o) for o in (options, None))
    assert is_vertex_minimum(q, told.samples).all()
    assert not np.array_equal(told.samples, untold.samples)


@pytest.mark.parametrize("method", ["pgd", "adam"])
def test_leaps_end_on_vertices_where_the_bare_iteration_creeps(method):
    p = qr.problems.SetCover([[0, 3, 5], [1, 2, 5], [0, 1, 4], [2, 3, 4], [0, 1, 2, 3, 4, 5]])
    shipped = qr.minimize(p.qubo(), method, 32, 2000)
    bare = qr.minimize(p.qubo(), method, 32, 2000, options={"leaps": False, "kick": 0.0})
    assert shipped.binary_fraction == 1.0
    assert shipped.n_iter < 2000
    assert bare.binary_fraction < 1.0
    assert is_vertex_minimum(p.qubo(), shipped.samples).all()


@pytest.mark.parametrize("method", ["pgd", "adam"])
def test_leaps_do_not_tie_lanes_together(method):
    q = sparse_qubo(60)
    few = qr.minimize(q, method, 3, 400, rng=5)
    many = qr.minimize(q, method, 40, 400, rng=5)
    np.testing.assert_array_equal(many.samples[:3], few.samples)


def test_a_leap_is_taken_only_downhill():
    from qubo_relax.solvers.pgd import Leaps
    from qubo_relax.solvers.prepared import Prepared

    q = sparse_qubo(30)
    prep = Prepared.of(q)
    X = np.random.default_rng(0).random((30, 64)).astype(np.float32)
    G = np.empty_like(X)
    prep.gradient(X, G)
    leap = Leaps(X, prep.gradient)
    live = np.arange(64) % 2 == 0
    leap(X, G, live)  # the first look has nothing to go by
    X = np.clip(X + 0.05 * np.random.default_rng(1).standard_normal(X.shape), 0, 1).astype(np.float32)
    prep.gradient(X, G)
    before = X.copy()
    leap(X, G, live)
    taken = (before != X).any(axis=0)
    assert 0 < taken.sum() < live.sum()
    assert not taken[~live].any()
    assert (q.energy(X.T[taken]) < q.energy(before.T[taken])).all()
    again = np.empty_like(G)
    prep.gradient(X, again)
    np.testing.assert_array_equal(G, again)
