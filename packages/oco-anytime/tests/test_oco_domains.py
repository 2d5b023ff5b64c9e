"""Projections: hand-computed values, and the properties that make a point the projection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from oco_anytime import domains

HAND = [
    (domains.Simplex(4), [0.4, 0.3, -0.4, 0.5], [1 / 3, 7 / 30, 0, 13 / 30]),
    (domains.CappedSimplex(5, 2, 1), [0.9, 0.8, 0.1, -0.3, 0.6], [0.8, 0.7, 0, 0, 0.5]),
    (domains.CappedSimplex(5, 1, 0.3), [0.9, 0.8, 0.1, -0.3, 0.6], [0.3, 0.3, 0.1, 0, 0.3]),
    (domains.L1Ball(3), [2, -1, 0.5], [1, 0, 0]),
    (domains.BudgetSet([1, 2, 3], 1, 1), [1, 1, 1], [0.6, 0.2, 0]),
    (domains.BudgetSet([1, 2, 3], 1, 1), [0.1, 0.1, -1], [0.1, 0.1, 0]),
    (domains.Simplex(3), [1e12, 1e12 - 0.25, 3], [0.625, 0.375, 0]),
    (domains.Simplex(1), [-7], [1]),
    (domains.Simplex(3), [5, 5, 5], [1 / 3] * 3),
    (domains.CappedSimplex(3, 3, 1), [9, -4, 0.2], [1, 1, 1]),
    (domains.CappedSimplex(4, 1.5, 0.5), [1, 1, 1, 0], [0.5, 0.5, 0.5, 0]),
    (domains.Box(2, -1, [2, 3]), [-5, 7], [-1, 3]),
    (domains.Ball(2, 2, [1, 1]), [1, 5], [1, 3]),
]


@pytest.mark.parametrize(("domain", "y", "x"), HAND)
def test_projection_by_hand(domain, y, x):
    given_y = np.array(y, dtype=float)
    got = domain.project(given_y)
    np.testing.assert_allclose(got, x, atol=2e-15)
    np.testing.assert_array_equal(given_y, y)
    assert got.dtype == np.float64


def _make(kind, d, rng):
    return {
        "ball": lambda: domains.Ball(d, 0.1 + rng.random(), rng.standard_normal(d)),
        "box": lambda: domains.Box(d, -rng.random(d), rng.random(d)),
        "simplex": lambda: domains.Simplex(d, 0.1 + rng.random()),
        "capped": lambda: domains.CappedSimplex(d, 0.5, 0.5 / d + rng.random(d)),
        "l1": lambda: domains.L1Ball(d, 0.1 + rng.random()),
        "budget": lambda: domains.BudgetSet(0.1 + rng.random(d), 0.1 + rng.random(), 0.1 + rng.random(d)),
    }[kind]()


KINDS = ["ball", "box", "simplex", "capped", "l1", "budget"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 9), st.integers(0, 2**31), st.sampled_from([0.1, 1.0, 30.0, 1e6]))
def test_the_projection_is_feasible_idempotent_nearest_and_non_expansive(kind, d, seed, size):
    rng = np.random.default_rng(seed)
    domain = _make(kind, d, rng)
    y, z = size * rng.standard_normal((2, d))
    if seed % 3 == 0:
        y = np.round(y, 1)
    x = domain.project(y)
    assert domain.contains(x, 1e-9)
    scale = max(1.0, size)
    np.testing.assert_allclose(domain.project(x), x, atol=4e-15)
    # nearest: y - x lies in the normal cone, so its best vertex is x itself
    vertex = domain.support(-(y - x))
    assert (y - x) @ (vertex - x) <= 1e-12 * scale * max(1.0, domain.diameter)
    assert np.linalg.norm(x - domain.project(z)) <= np.linalg.norm(y - z) * (1 + 1e-12) + 1e-14 * scale
    assert domain.contains(domain.center(), 1e-9)
    assert domain.contains(vertex, 1e-9)
    assert np.linalg.norm(x - vertex) <= domain.diameter * (1 + 1e-12)
    batch = domain.project_batch([y, z])
    np.testing.assert_array_equal(batch[0], x)
    np.testing.assert_array_equal(domain.project(y), x)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS[2:]), st.integers(0, 2**31))
def test_tangent_keeps_inner_products_with_differences(kind, seed):
    rng = np.random.default_rng(seed)
    domain = _make(kind, 5, rng)
    g, y, z = rng.standard_normal((3, 5))
    move = domain.project(y) - domain.project(z)
    assert domain.tangent(g) @ move == pytest.approx(g @ move, abs=1e-13)
    assert np.linalg.norm(domain.tangent(g)) <= np.linalg.norm(g) * (1 + 1e-14)


def test_simplex_sums_to_one_in_high_dimension():
    y = np.random.default_rng(0).standard_normal(10_000)
    for scale in (1e-3, 1.0, 1e3):
        assert abs(domains.Simplex(10_000).project(scale * y).sum() - 1.0) <= 4e-16 * 10_000


def test_simplex_agrees_with_pyol():
    projections = pytest.importorskip("pyol.projections")
    for d in (1, 5, 50):
        y = np.random.default_rng(d).standard_normal(d)
        np.testing.assert_allclose(domains.Simplex(d).project(y), projections.ProjSimplex().proj(y), atol=1e-14)


def test_simplices_agree_with_simplexers():
    positive = pytest.importorskip("simplexers.positive").positive_simplexer
    capped = pytest.importorskip("simplexers.capped").capped_simplexer
    y = np.random.default_rng(3).standard_normal((4, 12))
    np.testing.assert_allclose(domains.Simplex(12).project_batch(y), positive(y, 1.0), atol=1e-12)
    np.testing.assert_allclose(domains.CappedSimplex(12, 3, 1).project_batch(y), capped(y, 3), atol=1e-8)


def test_simplex_agrees_with_sorting():
    rng = np.random.default_rng(2)
    for _ in range(50):
        y = rng.standard_normal(30) * rng.choice([0.1, 1, 100])
        s = np.sort(y)[::-1]
        k = np.arange(1, 31)
        rho = np.flatnonzero(s - (np.cumsum(s) - 1) / k > 0)[-1]
        tau = (np.cumsum(s)[rho] - 1) / (rho + 1)
        np.testing.assert_allclose(domains.Simplex(30).project(y), np.maximum(y - tau, 0), atol=1e-13)


BAD = [
    (lambda: domains.Ball(0), "d"),
    (lambda: domains.Ball(2, -1), "radius"),
    (lambda: domains.Ball(2, 1, [1, 2, 3]), "center"),
    (lambda: domains.Box(2, 1, 0), "upper"),
    (lambda: domains.Box(2, 0, np.inf), "upper"),
    (lambda: domains.Simplex(3, 0), "total"),
    (lambda: domains.CappedSimplex(3, 2, 0.5), "total"),
    (lambda: domains.CappedSimplex(3, 1, -1), "cap"),
    (lambda: domains.BudgetSet([1, -1], 1), "weights"),
    (lambda: domains.Polytope(np.eye(2), [[1.0], [1.0, 2.0]]), "b_ub"),
    (lambda: domains.Ball(2).project([np.nan, 0]), "y"),
    (lambda: domains.Ball(2).project([1, 2, 3]), "y"),
    (lambda: domains.Ball(2).project_batch([[1, 2, 3]]), "Y"),
    (lambda: domains.Ball(2).support("ab"), "c"),
]


@pytest.mark.parametrize(("call", "name"), BAD)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}:"):
        call()


def test_other_number_types_and_layouts_are_accepted():
    domain = domains.Simplex(3)
    expected = domain.project([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(domain.project(np.array([1, 2, 3])), expected)
    np.testing.assert_array_equal(domain.project(np.array([1, 2, 3], dtype=np.float32)), expected)
    np.testing.assert_array_equal(domain.project(np.array([1.0, 9, 2, 9, 3])[::2]), expected)
    frozen = np.array([1.0, 2, 3])
    frozen.flags.writeable = False
    np.testing.assert_array_equal(domain.project(frozen), expected)
