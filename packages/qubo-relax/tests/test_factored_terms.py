"""Factored forms: the same quadratic as the one with its pairs written down."""

import subprocess
import sys

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax import problems as P  # noqa: N812
from qubo_relax.terms import FactoredQubo, KroneckerTerm, LowRankTerm, PriceTerm

g = np.random.default_rng(7)


def no_diagonal(S):
    return S - np.diag(np.diag(S))


def terms():
    A, w = g.normal(size=(4, 12)), g.normal(size=4)
    yield LowRankTerm(A, w), no_diagonal(A.T @ np.diag(w) @ A)
    wheel = np.roll(np.eye(3), 1, axis=1)
    for F, D in (
        (g.normal(size=(3, 3)), g.normal(size=(4, 4))),
        (wheel, g.normal(size=(4, 4))),
        (wheel, np.ones((4, 4))),
        (0.5 * np.eye(3), g.normal(size=(4, 4))),
    ):
        yield KroneckerTerm(F, D), no_diagonal(np.kron(F, D) + np.kron(F, D).T)
    order, rate, weight = g.permutation(12), g.random(12), g.integers(0, 5, 12)
    S = np.zeros((12, 12))
    for k in range(12):
        for e in range(k):
            later, earlier = order[k], order[e]
            S[later, earlier] = S[earlier, later] = rate[later] * weight[earlier]
    yield PriceTerm(order, rate, weight), S


@pytest.mark.parametrize(("term", "S"), list(terms()))
def test_a_term_is_its_matrix(term, S):
    X = g.random((12, 5))
    np.testing.assert_allclose(term.field(X), S @ X, atol=1e-12)
    np.testing.assert_allclose(term.field(X.astype(np.float32)), S @ X, atol=1e-4)
    np.testing.assert_allclose(term.matrix().toarray(), S, atol=1e-12)
    np.testing.assert_allclose([term.column(i) for i in range(12)], S, atol=1e-12)


def random_problems():
    for n in range(6):
        D = g.random((n, n))
        for distances in (D, D + D.T):
            for fixed in (True, False):
                yield P.TSP(distances, fix_first=fixed)
        yield P.Knapsack(g.integers(-2, 9, n), g.integers(0, 6, n), 4)


@pytest.mark.parametrize("problem", list(random_problems()), ids=lambda p: f"{type(p).__name__} {p.n}")
def test_the_factored_form_is_the_stored_one(problem):
    f, q = problem.factored(), problem.qubo()
    m = f.materialise()
    np.testing.assert_allclose(m.quadratic.toarray(), q.quadratic.toarray(), atol=1e-12)
    np.testing.assert_allclose(m.linear, q.linear)
    assert f.offset == pytest.approx(q.offset)
    assert 0 < f.concavity <= q.concavity * (1 + 1e-9)
    X = g.random((3, f.n))
    np.testing.assert_allclose(f.energy(X), m.energy(X))
    np.testing.assert_allclose(f.gradient(X), m.gradient(X), atol=1e-12)
    np.testing.assert_allclose(f.flip_gains(X > 0.5), m.flip_gains(X > 0.5), atol=1e-12)


@pytest.mark.parametrize("n", range(5))
def test_a_factored_assignment_is_certified_and_exact(n):
    p = P.QAP(*(g.normal(size=(n, n)) for _ in range(3)))
    q = p.factored().materialise()
    assert qr.verify_conditions(q, p.constraints()).status == "certified"
    order = g.permutation(n)
    assert q.energy(p.encode(order)) == pytest.approx(p.objective(order))


@pytest.mark.parametrize("method", ["pgd", "adam", "graduated", "flip"])
@pytest.mark.parametrize(
    "problem",
    [
        P.TSP(g.random((7, 7))),
        P.QAP(g.random((4, 4)), g.random((4, 4))),
        P.Knapsack(g.integers(1, 50, 40), g.integers(0, 50, 40), 300),
    ],
    ids=lambda p: type(p).__name__,
)
def test_gradient_methods_end_valid(problem, method):
    options = {"factored": True, **({"sigma": 0.01} if method == "graduated" else {})}
    r = qr.minimize(problem, method, 6, 150, options=options, improve=False)
    assert r.feasible_fraction == 1.0
    assert r.certificate.status == "local_min"
    again = qr.minimize(problem, method, 2, 150, options=options, improve=False)
    np.testing.assert_array_equal(again.samples, r.samples[:2])


def test_a_form_of_the_user():
    f = FactoredQubo(-np.ones(6), [LowRankTerm(np.ones((1, 6)), [3.0])], 1.0, concavity=0.25)
    r = qr.minimize(f, constraints=[qr.LinearConstraint(np.ones(6), "<=", 1)], restarts=4)
    assert r.feasible
    assert r.energy == 0.0
    assert qr.certify_point(f, np.full(6, 0.5)).status == "not_local_min"


def test_large_tours_are_solved_in_the_factored_form_without_compiled_code():
    code = (
        "import sys, numpy as np, qubo_relax as qr; "
        "x = np.random.default_rng(0).random((60, 2)); "
        "p = qr.problems.TSP(np.linalg.norm(x[:, None] - x, axis=-1)); "
        "r = qr.minimize(p, restarts=2, steps=5, improve=False); "
        "print(r.feasible, 'numba' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LowRankTerm([[np.nan]], [1.0]), "A:"),
        (lambda: LowRankTerm([[1.0]], [1.0, 2.0]), "w:"),
        (lambda: KroneckerTerm([[1.0, 2.0]], [[1.0]]), "F:"),
        (lambda: KroneckerTerm([[1.0]], [[1.0, 2.0]]), "D:"),
        (lambda: PriceTerm([0, 0], [1.0, 1.0], [1.0, 1.0]), "order:"),
        (lambda: FactoredQubo([1.0], [LowRankTerm([[1.0, 2.0]], [1.0])]), "terms:"),
        (lambda: FactoredQubo([1.0], [], concavity=0.0), "concavity:"),
        (lambda: P.TSP(np.ones((3, 3))).factored(margin=0.0), "margin:"),
        (lambda: P.TSP(np.ones((3, 3))).factored(concavity=1.0), "concavity:"),
        (lambda: qr.minimize(P.TSP(np.ones((3, 3))), "anneal", options={"factored": True}), "method:"),
        (lambda: qr.minimize(P.MIS((2, [])), "pgd", options={"factored": True}), "factored"),
    ],
)
def test_bad_terms(make, match):
    with pytest.raises(InvalidInput, match=match):
        make()
