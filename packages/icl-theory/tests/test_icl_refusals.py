"""What does not fit is refused before any work, by name; what nearly fits is not taken for something else."""

import math

import numpy as np
import pytest
import torch
from icl_theory import (
    TEST_MIX,
    AttentionICL,
    DeepICL,
    FiniteTasks,
    GatedLinearICL,
    LinearGaussian,
    LogisticGaussian,
    MambaBlock,
    MambaICL,
    MambaLayer,
    Mixture,
    PatternBank,
    PatternOutliers,
    PhaseDiagram,
    PromptSpec,
    SoftHistogram,
    SparseLinear,
    UniformAttention,
    bounds,
    decompose,
    evaluate,
    fit_least_squares,
    gate_weights,
    mixture_study,
    phase_diagram,
    probe_attention,
    probe_gates,
    sample_prompts,
    steps_to_loss,
    stress,
    tasks_all,
    theory,
    train,
)
from lemmata_core import InvalidInput
from scipy import integrate, stats

BANK, TASKS, SPEC = PatternBank(), tasks_all(6), PromptSpec()
SMALL = PatternBank(d=8, n_relevant=3, n_irrelevant=2, n_outlier=2)
LINE = LinearGaussian(2)


class Column(torch.nn.Module):
    """Gives (n, 1), which would broadcast against labels of shape (n,)."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, y=None):
        return self.weight * (x[:, :1, 0] if y is None else y[:, 1:, None])


REFUSED = {
    "a bank": (lambda: sample_prompts("bank", TASKS, SPEC, 2, 0), "bank"),
    "a specification": (lambda: sample_prompts(BANK, TASKS, None, 2, 0), "spec"),
    "mixes that do not fit": (lambda: train(MambaICL(8), SMALL, [(0, 1)], PromptSpec(outlier_mix=TEST_MIX)), "outlier"),
    "tokens of another dtype": (lambda: MambaICL(30)(torch.zeros(2, 3, 31, dtype=torch.float64)), "tokens"),
    "tokens of integers": (lambda: DeepICL(30)(torch.zeros(2, 3, 31, dtype=torch.int64)), "tokens"),
    "tokens for attention": (lambda: AttentionICL(30)(torch.zeros(2, 3, 31).double()), "tokens"),
    "a model of another width": (lambda: evaluate(MambaICL(20), BANK, TASKS, SPEC), "model"),
    "training another width": (lambda: train(MambaICL(20), BANK, TASKS, SPEC), "model"),
    "a model with columns": (lambda: evaluate(Column(), BANK, TASKS, SPEC, n=9), r"model\(tokens\)"),
    "training on columns": (lambda: train(Column(), BANK, TASKS, SPEC, steps=1), r"model\(tokens\)"),
    "fitting columns": (lambda: fit_least_squares(Column(), LINE, steps=1, batch=16), r"model\(x, y\)"),
    "no callable": (lambda: evaluate(3, BANK, TASKS, SPEC), "model"),
    "no module": (lambda: train(lambda t: t[:, 0, 0], BANK, TASKS, SPEC), "model"),
    "no optimizer": (lambda: train(MambaICL(30), BANK, TASKS, SPEC, optimizer=3), "optimizer"),
    "no number to stop at": (lambda: train(MambaICL(30), BANK, TASKS, SPEC, stop_loss=math.nan), "stop_loss"),
    "nothing to fit": (lambda: fit_least_squares(UniformAttention(2, 4), LINE.sample(0, 5, 0)), "prompts"),
    "nothing that fits": (lambda: fit_least_squares(3, LINE), "model"),
    "one pair": (lambda: fit_least_squares(UniformAttention(2, 4), LINE, length=1), "length"),
    "arrays for tensors": (lambda: UniformAttention(2, 4)(np.zeros((1, 3, 2)), np.zeros((1, 3))), "x, y"),
    "attention of a deep model": (lambda: probe_attention(DeepICL(30), BANK, TASKS, SPEC), "model"),
    "gates of another width": (lambda: probe_gates(MambaICL(20), BANK, TASKS, SPEC), "tokens"),
    "empty batches": (lambda: steps_to_loss(MambaICL(30), BANK, TASKS, SPEC, batch=0), "batch"),
    "one share as a number": (lambda: stress(lambda t: t[:, 0, 0], BANK, TASKS, alphas=0.5), "alphas"),
    "a rule as a word": (lambda: stress(lambda t: t[:, 0, 0], BANK, TASKS, labels="flip"), "labels"),
    "stress by columns": (lambda: stress(lambda t: t[:, :, 0], BANK, TASKS, n=9), r"model\(tokens\)"),
    "no models": (lambda: phase_diagram([0.5], [0.5], models=()), "models"),
    "a model as a word": (lambda: phase_diagram([0.5], [0.5], models="mamba"), "models"),
    "no magnitudes": (lambda: phase_diagram([0.5], [0.5], kappas=[]), "kappas"),
    "a singular prior": (lambda: LinearGaussian(2, prior_cov=np.diag([1, 0])), "prior_cov"),
    "a prior of rank one": (lambda: LinearGaussian(3, prior_cov=np.ones((3, 3))), "prior_cov"),
    "no prior at all": (lambda: LinearGaussian(1, prior_cov=[[0.0]]), "prior_cov"),
    "a singular logistic prior": (lambda: LogisticGaussian(2, np.diag([1, 0])), "prior_cov"),
    "no features": (lambda: LinearGaussian(2, prior_cov=np.eye(0), features=lambda x: x[..., :0]), "features"),
    "noise of square zero": (lambda: LinearGaussian(1, noise=1e-170), "noise"),
    "sparse noise of square zero": (lambda: SparseLinear(2, 1, noise=1e-170), "noise"),
    "a slab of square infinity": (lambda: SparseLinear(2, 1, slab=1e160), "slab"),
    "finite noise of square zero": (lambda: FiniteTasks([[1.0]], noise=1e-170), "noise"),
    "forgetting of one type": (lambda: mixture_study(Mixture([LINE]), 9, 5), "mixture"),
    "an impossible type": (lambda: mixture_study(Mixture([LINE, LINE], [1, 0]), 9, 5), "mixture"),
    "drift from an impossible type": (lambda: bounds.estimate_drift(Mixture([LINE, LINE], [0, 1])), "mixture"),
    "a prompt of outliers": (lambda: PromptSpec(outlier_fraction=1.0), "outlier_fraction"),
    "more than all outliers": (lambda: PromptSpec(outlier_fraction=1.5), "outlier_fraction"),
    "exact counts without a clean example": (
        lambda: PromptSpec(length=4, outlier_fraction=0.9, count="exact"),
        "outlier_fraction, length",
    ),
    "room for one label": (lambda: PromptSpec(length=1), "length"),
    "a share of one in a closed form": (lambda: theory.vote_error(1.0, 20), "alpha"),
    "a share of one in a sweep": (lambda: phase_diagram([1.0], [0.5]), "alphas"),
    "a share of one under stress": (
        lambda: stress(lambda t: t[:, 0, 0], BANK, TASKS, alphas=[1.0]),
        "outlier_fraction",
    ),
    "families as a number": (lambda: Mixture(3), "families"),
    "fewer types than drifts": (lambda: bounds.posterior_variance_bound(1, 1, 0.5, [0.1, 0.2], 1, 0, 0, 2), "n_types"),
    "a negative number": (lambda: PatternOutliers(SMALL, tasks_all(3), SPEC).sample(-1, 5, 0), "n"),
    "a length as a word": (lambda: PatternOutliers(SMALL, tasks_all(3), SPEC).sample(2, "a", 0), "length"),
    "foreign inputs": (
        lambda: PatternOutliers(SMALL, tasks_all(3), SPEC).predict(np.ones((1, 3, 8)), np.ones((1, 3))),
        "x",
    ),
}


@pytest.mark.parametrize(("call", "named"), REFUSED.values(), ids=REFUSED)
def test_refused(call, named):
    with pytest.raises(InvalidInput, match=rf"^{named}[^:]*: expected"):
        call()


def test_singular_priors_are_taken_where_they_are_asked_for():
    line, plane = LinearGaussian(1), LinearGaussian(2, prior_cov=np.diag([1, 0]), allow_singular=True)
    prompts = plane.sample(20, 6, 0)
    got, wanted = plane.predict(prompts.x, prompts.y), line.predict(prompts.x[..., :1], prompts.y)
    for name in ("mean", "var", "log_predictive"):
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-12, atol=1e-12)


def test_priors_are_not_singular_for_their_units():
    units = np.array([1e9, 1e-9])
    prior = np.array([[1, 0.5], [0.5, 1]]) * np.outer(units, units)
    small = LinearGaussian(2, prior_cov=prior).predict(np.ones((1, 3, 2)) / units, np.ones((1, 3)))
    plain = LinearGaussian(2, prior_cov=[[1, 0.5], [0.5, 1]]).predict(np.ones((1, 3, 2)), np.ones((1, 3)))
    np.testing.assert_allclose(small.mean, plain.mean, rtol=1e-9)
    LogisticGaussian(2, np.diag([1e9, 1e-9]))


def test_files_that_are_no_diagram_are_refused(tmp_path):
    diagram = phase_diagram([0.3], [0.2], models=("mamba",), seeds=1, steps=2, n=10)
    for name in ("a.csv", "a.parquet"):
        diagram.save(tmp_path / name)
        assert PhaseDiagram.load(tmp_path / name) == diagram
    header = (tmp_path / "a.csv").read_text().splitlines()[0]
    for text in ("", "a,b\n1,2\n", f"{header}\nmamba,flip,x\n", f"{header}\nmamba,flip\n"):
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(InvalidInput, match=r"^path: expected"):
            PhaseDiagram.load(tmp_path / "b.csv")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match=r"^path: expected"):
        PhaseDiagram.load(tmp_path / "b.parquet")
    for name in ("a.xlsx", "missing/a.csv"):
        with pytest.raises(InvalidInput, match=r"^path: expected"):
            diagram.save(tmp_path / name)
    assert not list(tmp_path.glob("*.tmp"))


def test_banks_are_equal_when_their_patterns_are():
    assert PatternBank(rng=3) == PatternBank(rng=3) != PatternBank(rng=4)
    assert hash(PatternBank(rng=3)) == hash(PatternBank(rng=3))
    assert PatternBank() != "bank"


def test_weights_held_fixed_stay_fixed():
    model = MambaICL(30)
    model.w.requires_grad_(False)
    before = model.w.clone()
    start = model.W_B.detach().clone()
    train(model, BANK, TASKS, SPEC, steps=3, batch=16)
    assert torch.equal(model.w, before)
    assert not torch.equal(model.W_B, start)


@pytest.mark.parametrize("share", [0.05, 0.125, 0.35, 0.375, 0.8])
def test_exact_counts_are_rounded_as_python_rounds(share):
    spec = PromptSpec(length=20, outlier_fraction=share, count="exact")
    batch = sample_prompts(BANK, TASKS, spec, 50, 0)
    assert set(batch.is_outlier.sum(1).tolist()) == {round(share * 20)}


def test_any_callable_is_evaluated():
    exact = GatedLinearICL(30)
    assert evaluate(lambda tokens: exact(tokens), BANK, TASKS, SPEC, n=500) == evaluate(exact, BANK, TASKS, SPEC, n=500)
    assert evaluate(lambda tokens: [math.nan] * len(tokens), BANK, TASKS, SPEC, n=9).value == 1.0


def test_modules_are_measured_in_evaluation_mode_and_left_as_they_were():
    model = UniformAttention(2, 4, spectral_norm=True)
    model.rho.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, second = (decompose(model, LINE, 2000, 5, 0) for _ in range(2))
    assert first.risk == second.risk
    assert model.training
    assert model.phi.training
    assert not model.rho.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    class Dropping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.inner = torch.nn.Dropout(0.9), GatedLinearICL(30)

        def forward(self, tokens):
            return self.inner(self.drop(tokens))

    dropping = Dropping()
    error = evaluate(dropping, BANK, TASKS, SPEC, n=500)
    assert error == evaluate(dropping.inner, BANK, TASKS, SPEC, n=500)
    assert dropping.drop.training


def test_likelihoods_of_extreme_logits_do_not_round_to_zero():
    family = FiniteTasks([[800.0], [-799.0]], likelihood="bernoulli")
    got = family.predict(np.ones((1, 3, 1)), [[1.0, -1.0, 1.0]])
    # One label of either sign: log odds 799 - 800 + ... = 0 - 800 against -799 - 0.
    odds = math.exp(-800 + 799)
    np.testing.assert_allclose(got.weights[0, 2], [odds / (1 + odds), 1 / (1 + odds)], rtol=1e-12)
    assert got.log_predictive[0, 1] == pytest.approx(-800, rel=1e-12)


def test_quadrature_of_one_steep_logistic_weight():
    rng = np.random.default_rng(0)
    family = LogisticGaussian(1, [[2.0]])
    x, y = 2 * rng.normal(size=(1, 8, 1)), rng.choice([-1.0, 1.0], (1, 8))
    got = family.predict(x, y)
    for k in range(8):

        def post(w, power, k=k):
            likelihood = np.prod(1 / (1 + np.exp(-y[0, :k] * x[0, :k, 0] * w)))
            return stats.norm.pdf(w, 0, math.sqrt(2)) * likelihood / (1 + math.exp(-x[0, k, 0] * w)) ** power

        total, one, two = (integrate.quad(post, -14, 14, args=(p,), epsabs=1e-13, limit=200)[0] for p in (0, 1, 2))
        assert got.mean[0, k] == pytest.approx(one / total, abs=1e-9)
        assert got.var[0, k] == pytest.approx(two / total - (one / total) ** 2, abs=1e-9)
        assert got.error[0, k] < 1e-4


def test_an_unknown_rule_is_found_out_from_the_prompt():
    tasks, spec = tasks_all(3), PromptSpec(length=9, outlier_fraction=0.5, labels="flip")
    prompts = PatternOutliers(SMALL, tasks, spec).sample(400, rng=0)
    errors = {}
    for rule in ("known", "unknown", "ignored"):
        got = PatternOutliers(SMALL, tasks, spec, rule=rule).predict(prompts.x, prompts.y)
        assert got.weights.shape == (400, 10, 6)
        np.testing.assert_allclose(got.weights.sum(-1), 1, atol=1e-12)
        errors[rule] = np.square(got.mean - prompts.f).mean()
    assert errors["known"] <= errors["unknown"] <= errors["ignored"]
    assert errors["unknown"] < errors["ignored"]


def test_an_unknown_rule_by_enumeration():
    """Two tasks, one clean example and one outlier, by hand in the four rules."""
    tasks, spec = [(0, 1), (1, 0)], PromptSpec(length=2, outlier_fraction=0.5)
    mu, nu, v = SMALL.relevant, SMALL.irrelevant[0], SMALL.outlier[0]
    x = np.array([[mu[0] + 0.1 * nu + 2 * v, mu[0] + 2 * v, mu[0]]])
    y = np.array([[1.0, 1.0, 1.0]])
    got = PatternOutliers(SMALL, tasks, spec, rule="unknown").predict(x, y)
    # P(two outliers show +1 | task +1, task -1): flip (0, 1), random (1/4, 1/4), target +1 (1, 1), target -1 (0, 0).
    plus, minus = (0 + 1 / 4 + 1 + 0) / 4, (1 + 1 / 4 + 1 + 0) / 4
    assert got.mean[0, 2] == pytest.approx((plus - minus) / (plus + minus), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gate_weights(np.ones(3)), "a"),
        (lambda: gate_weights(torch.ones(3).long()), "a"),
        (lambda: SoftHistogram(3)([0.5]), "values"),
        (lambda: MambaBlock(4)(torch.ones(2, 5, 4, dtype=torch.float64)), "input"),
        (lambda: MambaLayer(4)(torch.ones(2, 5, 4).to_sparse()), "input"),
        (lambda: UniformAttention(2, 3)(torch.ones(2, 5, 2), torch.ones(2, 5, dtype=torch.float64)), "x, y"),
        (lambda: GatedLinearICL(8)(torch.ones(2, 5, 9).to_sparse()), "tokens"),
        (lambda: stress(MambaICL(8), SMALL, [(0, 1)], kappas=[[1.0], [1.0, 2.0]]), "kappas|kappa"),
        (lambda: theory.conditions(BANK, SPEC, eps=5e-324), "eps"),
        (lambda: theory.conditions(BANK, SPEC, lr=5e-324), "lr"),
    ],
)
def test_layers_and_conditions_name_what_does_not_fit(call, name):
    with pytest.raises(InvalidInput, match=f"^({name})"):
        call()


def test_bounds_of_extreme_sizes_are_infinite_not_errors():
    assert bounds.bayes_gap_rate(0.5, 1.0, 1.0, 1e300, 1.0) == math.inf
    assert bounds.posterior_variance_bound(10**400, 1.0, 0.5, [1.0], [1.0], [1.0]) == 0.0
    assert SoftHistogram(3, low=-1e300)(torch.ones(2).half()).shape == (2, 3)
