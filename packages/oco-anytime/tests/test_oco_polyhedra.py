"""Flows and polytopes: hand-computed projections, and thousands of degenerate ones."""

import itertools
import pickle

import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import AnytimeCOCO, domains, play
from oco_anytime.domains import FlowPolytope, Polytope
from oco_anytime.environments import LinearEnvironment

BRIDGE = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("a", "b")]
FLOWS = [
    (FlowPolytope(BRIDGE, "s", "t"), (0.9, 0.3, 0.2, 0.4, 0.5), (0.825, 0.175, 0.375, 0.625, 0.45)),
    (FlowPolytope(BRIDGE, "s", "t"), (0, 0, 0, 0, 0), (0.5, 0.5, 0.5, 0.5, 0)),
    (FlowPolytope([(0, 1)] * 3, 0, 1, 1, (1, 1, 0)), (0.5, 0.5, 0.9), (0.5, 0.5, 0)),
    (FlowPolytope([(0, 1), (0, 1), (2, 3), (3, 2)], 0, 1), (0, 0, 0.7, 0.2), (0.5, 0.5, 0.45, 0.45)),
    (FlowPolytope([(0, 1), (1, 2), (0, 2)], 0, 2, 2), (-3, 7, 0.5), (1, 1, 1)),
    (FlowPolytope([(0, 1)] * 3, 0, 1, 1.5), (1e6, -1e6, 1e6), (0.75, 0, 0.75)),
    (FlowPolytope([(0, 1)], 0, 1), (5,), (1,)),
    (FlowPolytope([(0, 1), (1, 1)], 0, 1), (5, 0.3), (1, 0.3)),
]


@pytest.mark.parametrize(("domain", "y", "x"), FLOWS)
def test_flow_projection_by_hand(domain, y, x):
    np.testing.assert_allclose(domain.project(y), x, atol=1e-12)


POLYTOPES = [
    (Polytope([[1, 2]], [2], lower=0, upper=[1.5, np.inf]), (2, 2), (1.2, 0.4)),
    (Polytope([[1, 1], [1, 1], [1, 1], [1e-3, 1e-3]], [1, 1, 1, 1e-3], lower=0), (1, 1), (0.5, 0.5)),
    (Polytope(A_eq=[[1, 1, 1], [2, 2, 2]], b_eq=[1, 2], lower=[0, 0, 0]), (1, 0, -1), (1, 0, 0)),
    (
        domains.Intersection(domains.Ball(2), Polytope([[1, 0]], [0.25], lower=-5, upper=5)),
        (2, 2),
        (0.25, 0.9682458366),
    ),
    (domains.Intersection(domains.Box(2), domains.Simplex(2)), (2, 0), (1, 0)),
    (domains.Intersection(domains.Ball(2), domains.L1Ball(2)), (2, 2), (0.5, 0.5)),
    (domains.Product(domains.Simplex(2), domains.Box(1)), (1, 0, 7), (1, 0, 1)),
    (domains.Custom(lambda y: np.clip(y, 0, 1), 2.0, 2), (3, -1), (1, 0)),
]


@pytest.mark.parametrize(("domain", "y", "x"), POLYTOPES)
def test_projection_by_hand(domain, y, x):
    got = domain.project(y)
    np.testing.assert_allclose(got, x, atol=6e-11)
    assert domain.contains(got, 1e-9)
    assert domain.contains(domain.center(), 1e-9)


def _nearest(domain, x, y):
    """The variational inequality at the worst vertex."""
    vertex = domain.support(-(y - x))
    size = max(1.0, np.abs(y).max()) * max(1.0, domain.diameter)
    return (y - x) @ (vertex - x) <= 1e-8 * size


def _graph(rng):
    """Parallel arcs, self-loops, zero capacities, parts apart, integer ties, demand up to the maximum flow."""
    n = int(rng.integers(2, 9))
    m = int(rng.integers(n, 4 * n))
    arcs = [(int(a), int(b)) for a, b in rng.integers(0, n, (m, 2))]
    path = [0, *rng.permutation(np.arange(1, n - 1))[: rng.integers(0, n - 1)].tolist(), n - 1]
    arcs += list(itertools.pairwise(path))
    caps = rng.choice([0.0, 1.0, 1.0, 2.0], len(arcs)) if rng.random() < 0.7 else 10 ** rng.uniform(-6, 3, len(arcs))
    caps[-(len(path) - 1) :] = max(1.0, caps.max()) if rng.random() < 0.3 else 1.0
    return FlowPolytope(arcs, 0, n - 1, 1.0, caps)


def test_two_thousand_degenerate_flow_graphs():
    rng = np.random.default_rng(0)
    for k in range(2000):
        domain = _graph(rng)
        y = rng.standard_normal(domain.dim) * 10.0 ** rng.choice([-8, -1, 0, 0, 0, 1, 3, 6])
        if k % 3 == 0:
            y = np.round(2 * y) / 2
        x = domain.project(y)
        assert domain.contains(x, 1e-9)
        assert (x >= 0).all()
        assert (x <= domain.capacity).all()
        if k % 10 == 0:
            assert _nearest(domain, x, y)
            np.testing.assert_array_equal(domain.project(y), x)


def _polytope(rng):
    """Integer rows, copies (rescaled too), many and dependent equations, single points, rows over eight decades."""
    n = int(rng.integers(1, 25))
    k = int(rng.integers(0, 2 * n + 1))
    A = rng.integers(-2, 3, (k, n)).astype(float) if rng.random() < 0.5 else rng.standard_normal((k, n))
    inside = np.round(rng.standard_normal(n), 1)
    b = A @ inside + rng.random(k) * (rng.random(k) < 0.6)
    if k and rng.random() < 0.5:
        copies = rng.integers(0, k, k // 2 + 1)
        A, b = np.vstack([A, A[copies]]), np.concatenate([b, b[copies]])
    size = 10.0 ** rng.uniform(-4, 4, b.size)
    E = e = None
    if rng.random() < 0.4:
        rank = int(rng.integers(1, n + 1))
        E = rng.standard_normal((rank + 1, rank)) @ rng.integers(-1, 2, (rank, n)) if rng.random() < 0.5 else np.eye(n)
        e = E @ inside
    lower, upper = inside - rng.integers(0, 3, n), inside + rng.integers(1, 3, n)
    return Polytope(A * size[:, None], b * size, E, e, lower, upper), inside


def test_two_thousand_random_polytopes():
    rng = np.random.default_rng(1)
    for k in range(2000):
        domain, inside = _polytope(rng)
        y = inside + rng.standard_normal(domain.dim) * 10.0 ** rng.choice([-6, -1, 0, 0, 1])
        if k % 3 == 0:
            y = np.round(y)
        x = domain.project(y)
        assert domain.contains(x, 1e-9)
        if k % 10 == 0:
            assert _nearest(domain, x, y)
            np.testing.assert_array_equal(domain.project(y), x)


def test_far_points_are_still_projected():
    rng = np.random.default_rng(2)
    for size in (1e3, 1e5):
        for _ in range(40):
            domain, inside = _polytope(rng)
            y = inside + size * rng.standard_normal(domain.dim)
            x = domain.project(y)
            assert domain.contains(x, 1e-9)
            assert _nearest(domain, x, y)


def test_a_large_polytope_is_projected_on_with_most_coordinates_at_a_bound():
    n, rng = 520, np.random.default_rng(9)
    domain = Polytope(rng.standard_normal((30, n)), 5.0 * rng.random(30), lower=-np.ones(n), upper=1.0)
    for size in (0.3, 1.0, 3.0):
        y = size * rng.standard_normal(n)
        x = domain.project(y)
        assert domain.contains(x, 1e-9)
        u = domain.support(x - y)
        assert (y - x) @ (u - x) <= 1e-7 * size * n


def test_the_second_line_agrees_with_the_first():
    rng = np.random.default_rng(3)
    for _ in range(60):
        domain, inside = _polytope(rng)
        y = inside + rng.standard_normal(domain.dim)
        second = domain._by_osqp(y)
        if second is not None:
            np.testing.assert_allclose(second, domain.project(y), atol=1e-7)
        third = domain._pulled_in(y)
        if third is not None:
            np.testing.assert_allclose(third, domain.project(y), atol=1e-7)


def _grid(k):
    arcs = []
    for i in range(k):
        for j in range(k):
            for a, b in ((i + 1, j), (i, j + 1)):
                if a < k and b < k:
                    arcs += [((i, j), (a, b)), ((a, b), (i, j))]
    return FlowPolytope(arcs, (0, 0), (k - 1, k - 1))


HISTORY = [_grid(4), Polytope([[1, 2, 1], [0, 1, -1]], [2, 0.1], lower=0, upper=1)]


@pytest.mark.parametrize("domain", HISTORY, ids=["flow", "polytope"])
def test_projections_have_no_memory_and_resume_is_exact(domain):
    rng = np.random.default_rng(4)
    y, z = rng.standard_normal((2, domain.dim))
    first = domain.project(y)
    domain.project(z)
    np.testing.assert_array_equal(domain.project(y), first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(domain)).project(y), first)  # noqa: S301
    costs, A = rng.standard_normal((2, 40, domain.dim))
    env = LinearEnvironment(domain, costs, A, A @ domain.center())
    whole = AnytimeCOCO(domain)
    run = play(whole, env, 40)
    half = AnytimeCOCO(domain)
    play(half, env, 17)
    again = AnytimeCOCO(domain).load_state_dict(half.state_dict())
    for t in range(17, 40):
        np.testing.assert_array_equal(again.predict(), run.x[t])
        o = env.round(t, again.predict())
        again.update(o.cost_grad, o.violation, o.violation_grad)
    np.testing.assert_array_equal(again.predict(), whole.predict())


def test_tangent_of_a_flow_removes_potentials():
    domain = _grid(3)
    rng = np.random.default_rng(5)
    g = rng.standard_normal(domain.dim)
    move = domain.project(rng.standard_normal(domain.dim)) - domain.center()
    assert domain.tangent(g) @ move == pytest.approx(g @ move, abs=1e-12)
    assert np.linalg.norm(domain.tangent(g)) < np.linalg.norm(g)


def test_a_flow_is_split_into_routes():
    domain = _grid(4)
    x = domain.project(np.random.default_rng(6).random(domain.dim))
    paths = domain.decompose(x)
    assert len(paths) <= domain.dim
    assert sum(w for _, w in paths) == pytest.approx(1.0, abs=1e-9)
    total = np.zeros(domain.dim)
    for path, weight in paths:
        assert domain.arcs[path[0]][0] == (0, 0)
        assert domain.arcs[path[-1]][1] == (3, 3)
        assert all(domain.arcs[a][1] == domain.arcs[b][0] for a, b in itertools.pairwise(path))
        total[list(path)] += weight
    assert (total <= x + 1e-9).all()
    assert domain.sample_path(x, 0) in [p for p, _ in paths]


def test_thousands_of_cycles_are_cancelled():
    n = 1500
    pairs = [arc for i in range(n) for arc in ((i, i + 1), (i + 1, i))]
    domain = FlowPolytope(pairs, 0, n, 1.0, 2.0)
    x = np.tile([2.0, 1.0], n)
    assert domain.contains(x)
    ((path, weight),) = domain.decompose(x)
    assert weight == pytest.approx(1.0)
    assert path == tuple(range(0, 2 * n, 2))


BAD = [
    (lambda: FlowPolytope([], 0, 1), "arcs"),
    (lambda: FlowPolytope([(0, 1)], 0, 0), "sink"),
    (lambda: FlowPolytope([(0, 1)], 0, 5), "sink"),
    (lambda: FlowPolytope([(0, 1), (2, 3)], 0, 3), "demand"),
    (lambda: FlowPolytope([(0, 1)], 0, 1, 2.0), "demand"),
    (lambda: FlowPolytope([(0, 1)], 0, 1, 1.0, -1.0), "capacity"),
    (lambda: FlowPolytope([(0, 1)], 0, 1, 1.0, [1, 1]), "capacity"),
    (lambda: FlowPolytope([(0, 1)], 0, 1, np.nan), "demand"),
    (
        lambda: Polytope([[1, 0], [-1, 0]], [-1, -1], lower=[-5, -5], upper=[5, 5]),
        "A_ub, b_ub, A_eq, b_eq, lower, upper",
    ),
    (lambda: Polytope([[1, 0]], [1]), "A_ub, A_eq, lower, upper"),
    (lambda: Polytope(lower=[1, 1], upper=[0, 2]), "lower, upper"),
    (lambda: Polytope([[np.nan, 1]], [1]), "A_ub"),
    (lambda: Polytope([[1, 1]], [1, 2]), "b_ub"),
    (lambda: Polytope([[0, 0]], [-1], lower=[0, 0], upper=1), "b_ub"),
    (lambda: Polytope(), "A_ub"),
    (lambda: domains.Product(), "domains"),
    (lambda: domains.Intersection(domains.Ball(2), domains.Ball(3)), "domains"),
    (lambda: domains.Intersection(domains.Box(1, 0, 1), domains.Box(1, 2, 3)), "domains"),
    (lambda: domains.Custom(3, 1, 1), "project"),
]


@pytest.mark.parametrize(("call", "name"), BAD)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}:"):
        call()


def test_a_projection_that_fails_leaves_the_learner_as_it_was():
    def broken(y):
        if np.abs(y).max() > 1:
            raise domains.ProjectionFailed("by design")
        return y

    learner = AnytimeCOCO(domains.Custom(broken, 4.0, 2))
    before = learner.state_dict()
    with pytest.raises(domains.ProjectionFailed):
        learner.update([1, 1])
    after = learner.state_dict()
    assert before["scalars"] == after["scalars"]
    np.testing.assert_array_equal(before["x"], after["x"])


def test_the_maximum_flow_of_a_cut_graph_is_plain_zero():
    with pytest.raises(InvalidInput, match=r"the maximum flow is 0$"):
        FlowPolytope([(0, 1), (2, 3)], 0, 3)
