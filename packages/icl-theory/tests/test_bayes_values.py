"""Right values worked out by hand or in rationals, and brute-force enumeration."""

import math
from fractions import Fraction

import numpy as np
import pytest
from icl_theory import (
    FiniteTasks,
    LinearGaussian,
    LogisticGaussian,
    MarkovDirichlet,
    Mixture,
    PatternBank,
    PatternOutliers,
    PromptSpec,
    SparseLinear,
    tasks_all,
)
from lemmata_core import InvalidInput
from scipy import integrate, stats


def sequence(x, y, query=None):
    """One prompt; the query's y is a placeholder."""
    x = [*x, query] if query is not None else x
    xs = np.array(x, float).reshape(1, len(x), -1)
    return xs, np.array([[*y, 0.0] if query is not None else y], float)


def test_one_weight_by_hand():
    # Precision 1 + 4 k: means 0, 4/5, 4/9 (y = 1, 0), variances 1, 1/5, 1/9.
    p = LinearGaussian(1, noise=0.5).predict(*sequence([1, 1, 1], [1, 0, 0]))
    np.testing.assert_allclose(p.mean[0], [0, 0.8, 4 / 9], rtol=1e-14)
    np.testing.assert_allclose(p.var[0], [1, 0.2, 1 / 9], rtol=1e-14)
    assert p.log_predictive[0, 0] == pytest.approx(-1.4305103, abs=1e-7)
    assert p.exact


def test_a_mixture_of_two_singular_priors():
    mix = Mixture([LinearGaussian(2, 0.5, prior_cov=np.diag(c), allow_singular=True) for c in ([1, 0], [0, 1])])
    p = mix.predict(*sequence([(1, 0), (1, 1)], [1, 0.5], (1, 2)))
    np.testing.assert_allclose(p.weights[0, 2], [0.78686093, 0.21313907], atol=1e-8)
    assert p.mean[0, 2] == pytest.approx(0.69508521, abs=1e-8)
    assert p.var[0, 2] == pytest.approx(0.26092177, abs=1e-8)
    assert p.log_predictive[0, :2].sum() == pytest.approx(-2.50363842, abs=1e-8)


def test_sparse_supports_are_weighed():
    p = SparseLinear(3, 1, noise=0.5).predict(*sequence([(1, 2, -1), (0.5, -1, 1)], [2, -1], (1, 1, 1)))
    np.testing.assert_allclose(p.weights[0, 2], [0.00205643, 0.74874727, 0.24919629], atol=1e-8)
    assert p.mean[0, 2] == pytest.approx(0.38288735, abs=1e-8)
    assert p.var[0, 2] == pytest.approx(1.04129104, abs=1e-8)


def test_finite_logistic_tasks():
    p = FiniteTasks([[-1], [0], [2]], likelihood="bernoulli").predict(
        np.array([[[1.0], [-1.0], [0.5]]]), np.array([[1.0, 1.0, 1.0]])
    )
    np.testing.assert_allclose(p.weights[0, 2], [0.35643576, 0.45322244, 0.1903418], atol=1e-8)
    assert p.mean[0, 2] == pytest.approx(0.50033122, abs=1e-8)


def test_logistic_regression_by_quadrature():
    p = LogisticGaussian(1).predict(np.ones((1, 2, 1)), np.ones((1, 2)))
    # E s^2 / E s with s = sigmoid(N(0, 1)), by adaptive quadrature.
    top = integrate.quad(lambda w: stats.norm.pdf(w) / (1 + math.exp(-w)) ** 2, -12, 12, epsabs=1e-13)[0]
    assert p.mean[0, 1] == pytest.approx(top / 0.5, abs=1e-10)
    assert p.mean[0, 1] == pytest.approx(0.58675807, abs=1e-8)
    assert not p.exact
    assert p.error[0, 1] < 1e-8


def test_add_one_rule_on_a_chain():
    p = MarkovDirichlet(2).predict([[0, 0, 1, 0, 0]])
    probs, log_predictive = p
    assert probs is p.probs
    assert log_predictive is p.log_predictive
    following = MarkovDirichlet(2).predict([[0, 0, 1, 0, 0, 0]])
    # Context 0 saw 0, 1, 0: counts 1 + 2 against 1 + 1.
    assert following.probs[0, 5, 0] == pytest.approx(0.6, rel=1e-14)
    assert p.log_predictive[0, 1:].sum() == pytest.approx(-math.log(24), rel=1e-12)


@pytest.mark.parametrize("noise", [0.5, 0.02])
def test_linear_regression_equals_the_normal_equations(noise):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    cov, mean = root @ root.T, rng.normal(size=4)
    family = LinearGaussian(4, noise, prior_mean=mean, prior_cov=cov)
    prompts = family.sample(5, 9, rng)
    p = family.predict(prompts.x, prompts.y)
    for n, k in np.ndindex(5, 9):
        X, y, q = prompts.x[n, :k], prompts.y[n, :k], prompts.x[n, k]
        gain = cov @ X.T @ np.linalg.inv(X @ cov @ X.T + noise**2 * np.eye(k))
        m = q @ (mean + gain @ (y - X @ mean))
        v = q @ (cov - gain @ X @ cov) @ q
        assert p.mean[n, k] == pytest.approx(m, rel=1e-6, abs=1e-6)
        assert p.var[n, k] == pytest.approx(v, rel=1e-5, abs=1e-9)
        log = stats.norm.logpdf(prompts.y[n, k], m, math.sqrt(v + noise**2))
        assert p.log_predictive[n, k] == pytest.approx(log, rel=1e-4, abs=1e-4)


def test_hardly_any_noise_and_the_same_input_again():
    # In 50 digits: after one look at w with noise 1e-8 the variance is 1 - 1 / (1 + 1e-16).
    import mpmath

    p = LinearGaussian(1, noise=1e-8).predict(np.ones((1, 4, 1)), np.ones((1, 4)))
    with mpmath.workdps(50):
        for k in range(4):
            right = mpmath.mpf(1) / (1 + k * mpmath.mpf(10) ** 16)
            assert abs(p.var[0, k] - float(right)) < 1e-15
    assert (p.var >= 0).all()
    assert np.isfinite(p.log_predictive).all()


def test_polynomial_features_by_numerical_integration():
    family = LinearGaussian(1, noise=0.7, features=("polynomial", 1))
    x, y, q = np.array([0.5, -1.0]), np.array([1.0, 0.2]), 2.0

    # The integrand is smooth and dies out at 8: the trapezoid rule is exact to rounding.
    grid = np.linspace(-8, 8, 1601)
    a, b = np.meshgrid(grid, grid)
    like = np.exp(-0.5 * sum(np.square((yi - a - b * xi) / 0.7) for xi, yi in zip(x, y)))
    weight = like * np.exp(-0.5 * (a**2 + b**2))
    total, first, second = ((weight * (a + b * q) ** j).sum() for j in range(3))
    p = family.predict(*sequence([0.5, -1.0], [1.0, 0.2], q))
    assert p.mean[0, 2] == pytest.approx(first / total, abs=1e-7)
    assert p.var[0, 2] == pytest.approx(second / total - (first / total) ** 2, abs=1e-7)


def test_finite_tasks_by_enumeration_in_rationals():
    # Two constants, 0 and 1, and three labels of known odds: everything is a fraction.
    odds = {0: {0: Fraction(3, 4), 1: Fraction(1, 4)}, 1: {0: Fraction(1, 3), 1: Fraction(2, 3)}}
    table = np.array([[float(odds[f][y]) for y in (0, 1)] for f in (0, 1)])

    def likelihood(y, f):
        y, f = np.broadcast_arrays(y, f)
        return np.log(table[f.astype(int), y.astype(int)])

    family = FiniteTasks([np.zeros_like, np.ones_like], likelihood=likelihood, dim=1)
    family.functions = (lambda x: 0 * x[..., 0], lambda x: 1 + 0 * x[..., 0])
    p = family.predict(np.zeros((1, 3, 1)), np.array([[1.0, 0.0, 1.0]]))
    a, b = odds[0][1] * odds[0][0], odds[1][1] * odds[1][0]
    assert p.mean[0, 2] == pytest.approx(float(b / (a + b)), rel=1e-14)
    assert p.log_predictive[0, :2].sum() == pytest.approx(math.log(float((a + b) / 2)), rel=1e-13)


def test_markov_orders_are_weighed_by_enumeration():
    families = [MarkovDirichlet(3, order, 0.5) for order in (0, 1, 2)]
    mix = Mixture(families, [0.2, 0.5, 0.3])
    seq = np.random.default_rng(1).integers(0, 3, (2, 7))
    p = mix.predict(seq)
    # The evidence of a whole sequence: the chance of each next symbol, summed over all ways to go on, is 1.
    np.testing.assert_allclose(p.probs.sum(-1), 1, rtol=1e-12)
    for n in range(2):
        evidence = [w * math.exp(f.predict(seq[n : n + 1]).log_predictive.sum()) for w, f in zip(mix.weights, families)]
        assert p.log_predictive[n].sum() == pytest.approx(math.log(sum(evidence)), rel=1e-12)


def test_nested_mixtures_and_a_mixture_of_one_type():
    a, b, c = LinearGaussian(2), LinearGaussian(2, prior_cov=0.1 * np.eye(2)), SparseLinear(2, 1)
    prompts = a.sample(4, 6, 0)
    flat = Mixture([a, b, c], [0.5, 0.2, 0.3]).predict(prompts.x, prompts.y)
    nested = Mixture([a, Mixture([b, c], [0.4, 0.6])], [0.5, 0.5]).predict(prompts.x, prompts.y)
    same = Mixture([a, a]).predict(prompts.x, prompts.y)
    for name in ("mean", "var", "log_predictive"):
        np.testing.assert_allclose(getattr(nested, name), getattr(flat, name), rtol=1e-10)
        np.testing.assert_allclose(getattr(same, name), getattr(a.predict(prompts.x, prompts.y), name), rtol=1e-10)


def test_evidence_does_not_depend_on_the_order_of_pairs():
    rng = np.random.default_rng(3)
    for family in (LinearGaussian(3), SparseLinear(3, 2), FiniteTasks(rng.normal(size=(5, 3)))):
        prompts = family.sample(3, 8, rng)
        turn = rng.permutation(8)
        one = family.predict(prompts.x, prompts.y).log_predictive.sum(1)
        other = family.predict(prompts.x[:, turn], prompts.y[:, turn]).log_predictive.sum(1)
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_long_prompts_of_a_mixture_neither_overflow_nor_underflow():
    mix = Mixture([LinearGaussian(1, 0.01), LinearGaussian(1, 0.01, prior_mean=[3.0], prior_cov=[[1e-4]])])
    x = np.ones((1, 2000, 1))
    p = mix.predict(x, np.full((1, 2000), 50.0))
    assert np.isfinite(p.mean).all()
    assert np.isfinite(p.log_predictive).all()
    np.testing.assert_allclose(p.weights.sum(-1), 1)


def outlier_bayes_by_hand(batch_rules, tasks, pairs, query):
    """P(task) by enumeration; pairs are (pattern, outlier?, label)."""
    weights = []
    for a, b in tasks:
        w = 1.0
        for pattern, spoilt, label in pairs:
            if pattern not in (a, b):
                w = 0.0
                break
            truth = 1 if pattern == a else -1
            w *= 0.5 * (float(label == truth) if not spoilt else batch_rules(label, truth))
        w *= 0.5 * (query in (a, b))
        weights.append(w)
    weights = np.array(weights) / sum(weights)
    return sum(w * (1 if query == a else -1) for w, (a, b) in zip(weights, tasks))


@pytest.mark.parametrize(
    ("labels", "rule", "by_hand"),
    [
        ("random", "known", lambda y, t: 0.5),
        ("flip", "known", lambda y, t: float(y == -t)),
        ("flip", "ignored", lambda y, t: 0.5),
        ("target", "known", lambda y, t: float(y == 1)),
    ],
)
def test_the_classifier_of_patterns_with_outliers_by_enumeration(labels, rule, by_hand):
    bank = PatternBank(d=12, n_relevant=3, n_irrelevant=2, n_outlier=2)
    tasks = tasks_all(3)
    spec = PromptSpec(length=4, outlier_fraction=0.6, labels=labels)
    family = PatternOutliers(bank, tasks, spec, rule=rule)
    prompts = family.sample(40, rng=0)
    p = family.predict(prompts.x, prompts.y)
    which = (prompts.x @ bank.relevant.T).argmax(-1)
    spoilt = np.abs(prompts.x @ bank.outlier.T).max(-1) > 1e-6
    for n, k in np.ndindex(40, 5):
        pairs = [(which[n, i], spoilt[n, i], prompts.y[n, i]) for i in range(k)]
        assert p.mean[n, k] == pytest.approx(
            outlier_bayes_by_hand(by_hand, tasks.tolist(), pairs, which[n, k]), abs=1e-12
        )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: LinearGaussian(2, noise=0), "noise"),
        (lambda: LinearGaussian(2, noise=1e300), "noise"),
        (lambda: FiniteTasks([[1.0]], noise=5e-324), "noise"),
        (lambda: SparseLinear(2, 1, slab=1e200), "slab"),
        (lambda: FiniteTasks([[1e60]]), "weights"),
        (lambda: LinearGaussian(1, prior_mean=[1e60]), "prior_mean"),
        (lambda: LinearGaussian(1, prior_cov=[[1e60]]), "prior_cov"),
        (lambda: SparseLinear(1, 1).predict(np.full((1, 2, 1), 1e60), np.zeros((1, 2))), "x"),
        (lambda: LinearGaussian(1).predict(np.zeros((1, 2, 1)), np.full((1, 2), -1e60)), "y"),
        (lambda: LinearGaussian(2, prior_cov=[[1, 0], [0, -1]]), "prior_cov"),
        (lambda: LinearGaussian(2, prior_cov=[[1, 0.5], [0, 1]]), "prior_cov"),
        (lambda: LinearGaussian(2, prior_cov=[[1, 0], [0, -1]], allow_singular=True), "prior_cov"),
        (lambda: LogisticGaussian(2, prior_cov=[[1, 1], [1, 1]]), "prior_cov"),
        (lambda: LinearGaussian(1, features=("splines", 3)), "features"),
        (lambda: SparseLinear(40, 10), "dim, k"),
        (lambda: Mixture([LinearGaussian(1), LinearGaussian(2)]), "families"),
        (lambda: Mixture([LinearGaussian(1)], [0.5]), "weights"),
        (lambda: FiniteTasks([[1.0]], likelihood="poisson"), "likelihood"),
        (lambda: MarkovDirichlet(2, concentration=0), "concentration"),
        (lambda: MarkovDirichlet(2).predict([[0, 2]]), "seq"),
        (lambda: LinearGaussian(1).predict(np.full((1, 2, 1), np.nan), np.zeros((1, 2))), "x"),
        (lambda: LinearGaussian(1).predict(np.zeros((1, 2, 1)), np.zeros((1, 3))), "y"),
        (lambda: LogisticGaussian(1).predict(np.zeros((1, 2, 1)), np.zeros((1, 2))), "y"),
    ],
)
def test_bad_input_is_named(make, named):
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        make()
