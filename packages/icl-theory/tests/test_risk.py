import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
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
    UniformAttention,
    bounds,
    collision_example,
    decompose,
    mixture_study,
    tasks_all,
)
from icl_theory.estimates import Estimate, Moments
from lemmata_core import InvalidInput

BANK = PatternBank(d=12, n_relevant=3, n_irrelevant=2, n_outlier=2)
FAMILIES = {
    "linear": LinearGaussian(2),
    "fourier": LinearGaussian(1, features=("fourier", 2)),
    "sparse": SparseLinear(3, 1),
    "finite": FiniteTasks([[-1.0], [0.0], [2.0]], prior=[0.2, 0.3, 0.5]),
    "finite labels": FiniteTasks([[-1.0], [0.0], [2.0]], likelihood="bernoulli"),
    "logistic": LogisticGaussian(1),
    "mixture": Mixture([LinearGaussian(2), SparseLinear(2, 1)], [0.3, 0.7]),
    "markov": MarkovDirichlet(3, 1, 0.7),
    "markov orders": Mixture([MarkovDirichlet(2, 1), MarkovDirichlet(2, 2)]),
    "patterns": PatternOutliers(BANK, tasks_all(3), PromptSpec(length=5, labels="flip")),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_risk_is_gap_plus_posterior_variance_for_any_predictor(name):
    family, length = FAMILIES[name], 6
    shape = family.sample(1, length, 0).f.shape[2:]

    def mean_so_far(x, y):
        del x
        out = np.cumsum(y, 1)[:, :-1] / np.arange(1, length)
        return np.broadcast_to(out[..., None] if shape else out, (*out.shape, *shape)) * 0.3

    for model in (mean_so_far, lambda x, y: np.zeros((len(y), length - 1, *shape))):
        report = decompose(model, family, 3000, length, rng=1)
        assert abs(report.identity_gap.z) < 4
        if name != "patterns":  # there |f| = 1, and the constant 0 meets the identity prompt by prompt
            assert report.identity_gap.stderr > 0
        assert report.risk.value == pytest.approx(report.bayes_gap.value + report.posterior_variance.value)
        z = np.array([row[-1] for row in report.per_k.rows])
        assert (z**2).sum() < 25.7  # the .9999 quantile of chi-square with 5 degrees of freedom; the k are dependent


def test_the_exact_predictor_has_no_gap():
    family = LinearGaussian(2)
    report = decompose(lambda x, y: family.predict(x, y).mean[:, 1:], family, 500, 5, rng=0)
    assert report.bayes_gap.value == 0
    assert report.risk.value == report.posterior_variance.value
    # With a draw for E f instead of the exact variance the standard error would be larger.
    assert report.risk.stderr < report.risk_naive.stderr


def test_the_identity_exactly_in_rationals():
    # f in {0, 1, 3} with odds 1/2, 1/3, 1/6; y = f or f + 1 with odds 2/3, 1/3; any M of the first label.
    prior = {0: Fraction(1, 2), 1: Fraction(1, 3), 3: Fraction(1, 6)}
    noise = {0: Fraction(2, 3), 1: Fraction(1, 3)}
    model = {y: Fraction(y * y - 1, 7) for y in range(5)}
    joint = {(f, f + e): prior[f] * noise[e] for f in prior for e in noise}
    risk = gap = variance = Fraction(0)
    for y in range(5):
        total = sum(w for (_, label), w in joint.items() if label == y)
        if not total:
            continue
        mean = sum(f * w for (f, label), w in joint.items() if label == y) / total
        variance += sum((f - mean) ** 2 * w for (f, label), w in joint.items() if label == y)
        risk += sum((model[y] - f) ** 2 * w for (f, label), w in joint.items() if label == y)
        gap += total * (model[y] - mean) ** 2
    assert risk == gap + variance


def test_parts_merge_to_the_same_figures_on_any_executor():
    family, model = LinearGaussian(1), UniformAttention(1, 4)
    serial = decompose(model, family, 2500, 4, rng=5)
    with ThreadPoolExecutor(3) as pool:
        spread = decompose(model, family, 2500, 4, rng=5, executor=pool)
    assert serial == spread


def test_chan_merges_like_one_pass():
    x = np.random.default_rng(0).normal(3, 2, (1000, 2))
    parts = Moments()
    for piece in np.array_split(x, [1, 400, 401]):
        one = Moments()
        one.add(piece)
        parts.merge(one)
    np.testing.assert_allclose(parts.mean, x.mean(0), rtol=1e-13)
    np.testing.assert_allclose(parts.stderr, x.std(0, ddof=1) / math.sqrt(1000), rtol=1e-12)


def test_wilson_interval_at_zero():
    e = Estimate.share(0, 100)
    assert e.value == 0
    assert e.low == pytest.approx(0, abs=1e-15)
    assert e.high == pytest.approx(1.959964**2 / (100 + 1.959964**2), rel=1e-6)


def test_a_predictor_that_returns_nan_is_counted():
    report = decompose(lambda x, y: np.full((len(y), 2), np.nan), LinearGaussian(1), 10, 3, rng=0)
    assert report.risk.n_nonfinite == 10
    assert math.isnan(report.risk.value)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda f: decompose(lambda x, y: y, f, 10, 3), r"model\(x, y\)"),
        (lambda f: decompose(3, f, 10, 3), "model"),
        (lambda f: decompose(lambda x, y: y, 3, 10, 3), "family"),
        (lambda f: decompose(lambda x, y: y, f, 1, 3), "n"),
        (lambda f: mixture_study(f, 10, 3), "mixture"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        call(LinearGaussian(1))


def two_constants():
    return FiniteTasks([lambda x: 0.5 + 0 * x[..., 0], lambda x: -0.5 + 0 * x[..., 0]], noise=1.0, dim=1)


def test_forgetting_of_two_constants_against_numerical_integration():
    # By integration of 1 - tanh^2 over the log-odds, N(k/2, k) for c = 1/2, s = 1.
    right = {1: 0.19898643, 2: 0.16247165, 4: 0.11239988, 8: 0.05775456, 16: 0.01714935}
    report = decompose(lambda x, y: np.zeros((len(y), 16)), two_constants(), 20_000, 17, rng=0)
    at = {row[0]: row for row in report.per_k.rows}
    column = report.per_k.columns.index("posterior_variance")
    for k, value in right.items():
        assert abs(at[k][column] - value) < 4 * at[k][column + 1]


def test_the_bound_of_theorem_3():
    # c = 1/2, s = 1: D = 1/2, nu^2 = 1, b -> 0.
    assert bounds.posterior_variance_bound(1, 0.5, 0.5, 0.5, 1.0, 0.0) == pytest.approx(2.18504252, abs=1e-8)
    assert bounds.posterior_variance_bound(128, 0.5, 0.5, [0.5], [1.0], [0.0]) == pytest.approx(0.02289455, abs=1e-8)
    with pytest.raises(InvalidInput, match=r"^D: expected drifts D_j > 0"):
        bounds.posterior_variance_bound(1, 0.5, 0.5, 0.0, 1.0, 0.0)


def test_the_collision_in_fractions():
    assert collision_example() == (
        Fraction(3, 8), Fraction(5, 32), Fraction(1, 3), Fraction(3, 5), Fraction(7, 17), Fraction(1, 255),
    )  # fmt: skip


def test_estimated_drift_of_two_constants():
    mix = Mixture([FiniteTasks([lambda x, c=c: c + 0 * x[..., 0]], noise=1.0, dim=1) for c in (0.5, -0.5)])
    drift = bounds.estimate_drift(mix, 20_000, rng=0)
    assert drift.D[0] == pytest.approx(0.5, abs=0.03)
    assert drift.nu2[0] == pytest.approx(1.0, abs=0.05)
    assert drift.b[0] == 0


def test_mixture_study_separates_and_fits():
    parts = [
        LinearGaussian(1, 0.5, [o, 0.0], np.diag([0, 0.09]), features=("polynomial", 1), allow_singular=True)
        for o in (-0.6, 0.6)
    ]
    study = mixture_study(Mixture(parts), 2000, 12, rng=0)
    assert study.types[0].wrong[0] == pytest.approx(0.5)
    assert (np.diff(study.all.wrong[:8]) < 0).all()
    assert study.all.exponential.rate > 0.2


def test_uniform_attention_does_not_see_the_order_of_the_context():
    model = UniformAttention(2, 8, rng=1)
    x, y = torch.randn(3, 9, 2), torch.randn(3, 9)
    turn = torch.tensor([4, 2, 0, 7, 1, 3, 6, 5, 8])
    torch.testing.assert_close(model(x, y)[:, -1], model(x[:, turn], y[:, turn])[:, -1], atol=1e-6, rtol=1e-6)


def test_uniform_attention_is_softmax_attention_with_zero_queries_and_keys():
    model = UniformAttention(2, 8, rng=1)
    x, y = torch.randn(3, 6, 2), torch.randn(3, 6)
    values = model.phi(torch.cat([x, y[..., None]], -1))
    for k in range(1, 6):
        zero = torch.zeros(3, k, 4)
        pooled = torch.nn.functional.scaled_dot_product_attention(zero[:, :1], zero, values[:, :k])[:, 0]
        out = model.rho(torch.cat([pooled, x[:, k]], -1))[:, 0].clamp(-5, 5)
        torch.testing.assert_close(out, model(x, y)[:, k - 1], atol=1e-6, rtol=1e-6)


def test_only_with_cardinality_does_the_number_of_examples_matter():
    x, y = torch.zeros(1, 3, 1), torch.ones(1, 3)
    one, two = UniformAttention(1, 4)(x, y)[0]
    assert float((one - two).detach()) == pytest.approx(0, abs=1e-6)
    one, two = UniformAttention(1, 4, cardinality=True)(x, y)[0]
    assert abs(float((one - two).detach())) > 1e-4
