"""T1 to T4 against brute force and known points."""

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput


def descends(q, x, direction, steps=(1e-2, 1e-3, 1e-4)):
    """Whether some small step along the direction stays in the box and lowers f."""
    return any(
        ((y := x + t * direction) >= 0).all() and (y <= 1).all() and q.energy(y) < q.energy(x) - 1e-14 for t in steps
    )


def test_a_tie_hides_a_fractional_minimizer():
    # -x1 - x2 + x1 x2 is constant along (1, t).
    q = qr.Qubo([-1.0, -1.0], {(0, 1): 1.0})
    c = qr.certify_point(q, [1.0, 0.5])
    assert (c.status, c.binary) == ("local_min", False)
    assert qr.certify_point(q.with_concavity(0.1), [1.0, 0.5]).status == "not_local_min"


def test_the_exact_threshold_at_a_vertex():
    # At (0,) the flip gain is g = 0.5: a minimizer only while eps > -0.5; at (1,) the gain is -0.5 <= -eps.
    q = qr.Qubo([0.5], [[0.0]])
    assert qr.certify_point(q.with_concavity(0.25), [0.0]).status == "local_min"
    assert qr.certify_point(q.with_concavity(0.25), [1.0]).status == "not_local_min"
    assert qr.certify_point(q.with_concavity(0.5), [1.0]).status == "not_local_min"  # slope exactly 0 descends
    assert qr.certify_point(q.with_concavity(0.75), [1.0]).status == "local_min"


def test_a_kept_convex_diagonal_holds_a_fractional_minimizer():
    # -x + lam (2 x - 1)^2 has its minimum at 1/2 + 1/(8 lam).
    lam = 2.0
    q = qr.Qubo.from_matrix([[4 * lam]], [-1 - 4 * lam], lam, fold=False)
    assert qr.certify_point(q, [0.5 + 1 / (8 * lam)]).status == "local_min"
    assert qr.certify_point(q, [0.5]).status == "not_local_min"


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_verdicts_against_sampling(eps):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(400):
        n = int(rng.integers(1, 5))
        M = np.triu(rng.integers(-2, 3, (n, n)), 1)
        q = qr.Qubo(rng.integers(-2, 3, n), M + M.T, concavity=eps)
        x = rng.choice([0.0, 0.5, 1.0], n, p=[0.4, 0.2, 0.4])
        c = qr.certify_point(q, x)
        seen.add((c.status, c.binary))
        if c.status == "not_local_min":
            assert descends(q, x, c.direction)
        else:
            near = np.clip(x + 1e-3 * rng.normal(size=(2000, n)), 0, 1)
            assert q.energy(near).min() >= q.energy(x) - 1e-12
    assert ("local_min", True) in seen
    assert ("not_local_min", False) in seen


def test_rounding_never_raises_the_energy():
    rng = np.random.default_rng(2)
    for _ in range(100):
        n = int(rng.integers(1, 9))
        q = qr.Qubo.from_matrix(rng.normal(size=(n, n)), concavity=float(rng.choice([0.0, 0.4])))
        x = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), rng.random(n))
        v = qr.round_point(q, x)
        assert q.energy(v) <= q.energy(x) + 1e-12


def test_the_minima_of_an_odd_cycle():
    # Independent sets of C5 with penalty lam: below 1 only (1,1,..) patterns, at 1 ties, above 1 none infeasible.
    edges = [(i, (i + 1) % 5) for i in range(5)]
    counts = {}
    for lam in (0.9, 1.0, 1.1):
        m = qr.Qubo(-np.ones(5), dict.fromkeys(edges, lam)).local_minima()
        counts[lam] = len(m), int(sum(any(x[i] and x[j] for i, j in edges) for x in m))
    assert counts == {0.9: (5, 5), 1.0: (10, 5), 1.1: (5, 0)}


def test_points_outside_the_box_are_refused():
    q = qr.Qubo([1.0], [[0.0]])
    for x in ([2.0], [np.nan], [0.0, 1.0]):
        with pytest.raises(InvalidInput, match=r"^x:"):
            qr.certify_point(q, x)
