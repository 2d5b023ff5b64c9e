"""Products and intersections of domains against cvxpy, to which they are described by their members' constraints."""

import cvxpy as cp
import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import domains

BALL = domains.Ball(3)
CORNER = domains.Polytope([[1, 1, 0]], [0.5], lower=-2, upper=2)
APART = domains.Ball(3, radius=0.9, center=[1.0, 0.2, -0.1])

COMBINED = {
    "ball and simplex": domains.Product(BALL, domains.Simplex(2)),
    "polyhedra side by side": domains.Product(domains.Box(2, -1, 2), domains.Simplex(3)),
    "polyhedra": domains.Intersection(CORNER, domains.Box(3, -0.7, 1)),
    "ball and polyhedra": domains.Intersection(BALL, CORNER, domains.Box(3, -0.7, 1)),
    "two balls": domains.Intersection(BALL, APART),
    "two balls and a polyhedron": domains.Intersection(BALL, APART, CORNER),
}


def least(domain, cost):
    x = cp.Variable(domain.dim)
    problem = cp.Problem(cp.Minimize(cost(x)), domain.cvxpy(x))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("domain", COMBINED.values(), ids=COMBINED)
@pytest.mark.parametrize("seed", range(3))
def test_projection_and_support_are_those_of_cvxpy(domain, seed):
    generator = np.random.default_rng(seed)
    y, c = 2.0 * generator.standard_normal(domain.dim), generator.standard_normal(domain.dim)
    x = domain.project(y)
    assert domain.contains(x)
    assert np.linalg.norm(x - y) == pytest.approx(least(domain, lambda z: cp.norm(z - y)), abs=1e-6)
    lowest = domain.support(c)
    assert domain.contains(lowest, tol=1e-6)
    assert c @ lowest == pytest.approx(least(domain, lambda z: c @ z), abs=1e-5)


def test_a_product_of_polyhedra_alone_is_a_polyhedron():
    A_ub, b_ub, A_eq, b_eq, lower, upper = COMBINED["polyhedra side by side"].polyhedron()
    assert A_ub.shape == (0, 5)
    assert b_ub.shape == (0,)
    np.testing.assert_array_equal(A_eq, [[0, 0, 1, 1, 1]])
    np.testing.assert_array_equal(b_eq, [1])
    np.testing.assert_array_equal(lower, [-1, -1, 0, 0, 0])
    np.testing.assert_array_equal(upper[:2], [2, 2])
    assert COMBINED["ball and simplex"].polyhedron() is None


def test_the_tangent_of_a_product_is_that_of_its_members():
    g = np.array([1.0, 2.0, 3.0, 5.0, 1.0])
    np.testing.assert_allclose(COMBINED["ball and simplex"].tangent(g), [1, 2, 3, 2, -2])


@pytest.mark.parametrize(
    "members",
    [
        (domains.Ball(2), domains.Polytope([[-1, 0]], [-1.5], lower=-2, upper=2)),
        (domains.Ball(2), domains.Ball(2, center=[3.0, 0.0])),
    ],
)
def test_members_without_a_common_point_are_refused(members):
    with pytest.raises(InvalidInput, match="common point"):
        domains.Intersection(*members)


def test_a_set_known_by_its_projection_has_a_support_but_no_constraints():
    square = domains.Custom(lambda y: np.clip(y, -1, 1), diameter=2 * np.sqrt(2), dim=2)
    np.testing.assert_allclose(square.support([2.0, -1.0]), [-1, 1])
    np.testing.assert_array_equal(square.support([0.0, 0.0]), [0, 0])
    with pytest.raises(InvalidInput, match="constraints"):
        square.cvxpy(cp.Variable(2))
