"""One-layer models under outliers: gates, the compiled engine, theory, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_theory import (
    TEST_MIX,
    GatedLinearICL,
    LinearAttentionICL,
    MambaICL,
    PatternBank,
    PromptSpec,
    gate_weights,
    probe_gates,
    sample_prompts,
    selective_scan,
    tasks_all,
    theory,
    train,
)
from icl_theory.pattern_engine import PatternEngine, Weights
from icl_theory.prompts import dense, draw_coefficients
from icl_theory.training import weights_of
from lemmata_core import InvalidInput

BANK = PatternBank()
TASKS = tasks_all(6)
SPEC = PromptSpec()


def test_gate_weights_by_hand():
    G = gate_weights(torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(
        G, torch.tensor([0.0500594, 0.0320586, 0.88079708], dtype=torch.float64), atol=1e-7, rtol=0
    )
    assert float(G.sum()) == pytest.approx(0.96291508, abs=1e-8)
    torch.testing.assert_close(gate_weights(torch.zeros(3)), torch.tensor([0.125, 0.25, 0.5]))


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=40))
def test_gates_sum_to_one_less_what_nobody_keeps(a):
    a = torch.tensor(a, dtype=torch.float64)
    rest = float(torch.prod(torch.sigmoid(-a)))
    assert float(gate_weights(a).sum()) == pytest.approx(1 - rest, abs=1e-12)


def test_gates_of_long_float32_prompts_stay_finite():
    a = torch.full((5000,), 3.0)
    a[0] = 100.0
    G = gate_weights(a)
    assert torch.isfinite(G).all()
    assert float(G.sum()) == pytest.approx(1, abs=1e-5)


def two_dimensional(gate):
    model = GatedLinearICL(2, gate=gate).double()
    with torch.no_grad():
        for p in (model.W_B, model.W_C):
            p.copy_(torch.diag(torch.tensor([0.5, 0.5, 0.0])))
        if model.w is not None:
            model.w.zero_()
    tokens = torch.tensor([[[1, 0, 1], [0, 1, -1], [1, 0, 0]]], dtype=torch.float64)
    return model, tokens


def test_a_prompt_of_two_examples_by_hand():
    # Gates 1/8, 1/4; scores 1/4, 0.
    model, tokens = two_dimensional("mamba")
    assert model(tokens).item() == pytest.approx(0.03125, rel=1e-14)
    parts = model.parts(tokens)
    torch.testing.assert_close(parts.gates, torch.tensor([[0.125, 0.25, 0.5]], dtype=torch.float64))
    assert parts.scores.tolist() == [[0.25, 0.0, 0.25]]
    assert two_dimensional("none")[0](tokens).item() == 0.25


def test_the_formula_is_the_recurrence_with_zero_order_hold():
    torch.manual_seed(0)
    model = GatedLinearICL(4).double()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()
    tokens = torch.randn(3, 7, 5, dtype=torch.float64)
    step = torch.nn.functional.softplus(tokens @ model.w)[..., None]
    y = selective_scan(
        tokens[..., -1:], step, -torch.ones(1, 5, dtype=torch.float64), tokens @ model.W_B.T, tokens @ model.W_C.T,
        discretization="zoh",
    )  # fmt: skip
    torch.testing.assert_close(y[:, -1, 0], model(tokens), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gate", ["mamba", "none", "mamba2", "retnet", "gated_retention", "gla"])
def test_every_gate_is_its_recurrence(gate):
    model = GatedLinearICL(3, gate=gate, rng=1).double()
    torch.manual_seed(1)
    with torch.no_grad():
        model.W_B.normal_()
        model.W_C.normal_()
    tokens = torch.randn(2, 6, 4, dtype=torch.float64)
    state = torch.zeros(2, 4, dtype=torch.float64)
    for t in range(6):
        p = tokens[:, t]
        a = (
            p @ (model.w.T if gate == "gla" else model.w)
            if model.w is not None
            else torch.zeros(2, dtype=torch.float64)
        )
        soft = torch.nn.functional.softplus(a)
        keep, gain = {
            "mamba": (torch.sigmoid(-a), torch.sigmoid(a)),
            "none": (1 + 0 * a, 1 + 0 * a),
            "mamba2": (torch.exp(-soft), soft),
            "retnet": (0.9 + 0 * a, 1 + 0 * a),
            "gated_retention": (torch.sigmoid(a), 1 + 0 * a),
            "gla": (torch.sigmoid(a), 1 + 0 * a),
        }[gate]
        keep, gain = (k if k.ndim == 2 else k[:, None] for k in (keep, gain))
        state = keep * state + gain * p[:, -1:] * (p @ model.W_B.T)
    F = (state * (tokens[:, -1] @ model.W_C.T)).sum(-1)
    torch.testing.assert_close(model(tokens), F, rtol=1e-11, atol=1e-11)


def test_order_matters_to_mamba_and_not_to_linear_attention():
    batch = sample_prompts(BANK, TASKS, PromptSpec(length=6), 5, 0)
    turned = batch.tokens[:, [5, 3, 1, 0, 2, 4, 6]]
    linear, mamba = LinearAttentionICL(30), MambaICL(30)
    torch.testing.assert_close(linear(batch.tokens), linear(turned), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(mamba(batch.tokens), mamba(turned), rtol=1e-2)


@pytest.mark.parametrize("gate", ["mamba", "none"])
@pytest.mark.parametrize("mix", [None, TEST_MIX])
def test_the_compiled_engine_has_torch_values_and_gradients(gate, mix):
    spec = PromptSpec(length=9, outlier_mix=mix)
    model = GatedLinearICL(30, gate=gate, rng=2).double()
    torch.manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    found = draw_coefficients(BANK, TASKS, spec, 64, np.random.default_rng(0))
    F, loss, gradient = PatternEngine(BANK, spec).run(weights_of(model), found, True)
    out = model(torch.from_numpy(dense(BANK, spec, found)))
    right = torch.clamp(1 - torch.from_numpy(found.labels) * out, min=0).mean()
    right.backward()
    np.testing.assert_allclose(F, out.detach().numpy(), rtol=1e-10, atol=1e-12)
    assert loss == pytest.approx(right.item(), rel=1e-12)
    for name in ("W_B", "W_C", "w"):
        if getattr(model, name) is not None:
            np.testing.assert_allclose(
                getattr(gradient, name), getattr(model, name).grad.numpy(), rtol=1e-9, atol=1e-12
            )


def test_the_compiled_gradient_by_finite_differences():
    spec = PromptSpec(length=5)
    bank = PatternBank(d=8, n_relevant=2, n_irrelevant=2, n_outlier=1)
    found = draw_coefficients(bank, tasks_all(2), spec, 20, np.random.default_rng(0))
    engine, rng = PatternEngine(bank, spec), np.random.default_rng(1)
    weights = Weights(*(0.02 * rng.normal(size=(9, 9)) for _ in range(2)), 0.3 * rng.normal(size=9))
    _, _, gradient = engine.run(weights, found, True)
    for name in ("W_B", "W_C", "w"):
        array = getattr(weights, name)
        for index in list(np.ndindex(array.shape))[::7]:
            values = []
            for shift in (1e-5, -1e-5):
                array[index] += shift
                values.append(engine.run(weights, found, False)[1])
                array[index] -= shift
            assert getattr(gradient, name)[index] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-9)


def test_values_of_the_vote_and_the_floors():
    right = {0.4: 0.1861, 0.45: 0.3290, 0.5: 0.5, 0.6: 0.8139, 0.7: 0.9674, 0.8: 0.9984}
    for alpha, value in right.items():
        assert theory.vote_error(alpha, 20, "flip") == pytest.approx(value, abs=5e-5)
    assert (
        theory.vote_error(0.8, 20, "random") == theory.vote_error(0.4, 20, "flip") == pytest.approx(0.18610, abs=1e-5)
    )
    # One example, or three, by hand.
    assert theory.vote_error(0.3, 1) == pytest.approx(0.3)
    assert theory.vote_error(0.3, 3) == pytest.approx(3 * 0.09 * 0.7 + 0.027)
    assert theory.vote_error(0.3, 2) == pytest.approx(0.09 + 0.42 / 2)
    assert theory.bayes_floor(0.8, 20) == pytest.approx(0.0057646, abs=1e-7)
    assert theory.bayes_floor(0.9, 20) == pytest.approx(0.0608, abs=1e-4)
    assert theory.same_pattern_floor(0.8, 20) == pytest.approx(0.0608, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1e-320, 2.2250738585072014e-308, 1e-9, 1 - 1e-12])
def test_the_vote_at_the_edges_of_its_range(alpha):
    for length in (1, 2, 5, 20, 1001):
        value = theory.vote_error(alpha, length)
        assert value == pytest.approx(1.0 if alpha > 0.5 else 0.0, abs=2e-9 if length == 1 else 1e-9)
    assert theory.vote_error(0.5, 40_000) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: PatternBank(d=10), "d"),
        (lambda: PatternBank(beta=0.5), "beta"),
        (lambda: PromptSpec(outlier_fraction=1.0), "outlier_fraction"),
        (lambda: PromptSpec(outlier_fraction=-0.1), "outlier_fraction"),
        (lambda: PromptSpec(length=0), "length"),
        (lambda: PromptSpec(length=1), "length"),
        (lambda: PromptSpec(length=20, outlier_fraction=0.99, count="exact"), "outlier_fraction, length"),
        (lambda: PromptSpec(labels="flop"), "labels"),
        (lambda: PromptSpec(outlier_mix=[[0.5, -0.5, 0.0]]), "outlier_mix"),
        (lambda: sample_prompts(BANK, TASKS, PromptSpec(outlier_mix=[[1.0]]), 1), "outlier_mix"),
        (lambda: sample_prompts(BANK, [[1, 1]], PromptSpec(), 1), "tasks"),
        (lambda: sample_prompts(BANK, [[0, 6]], PromptSpec(), 1), "tasks"),
        (lambda: GatedLinearICL(3, delta=0), "delta"),
        (lambda: GatedLinearICL(3, gate="mambo"), "gate"),
        (lambda: GatedLinearICL(3, d_state=2), "d_state"),
        (lambda: MambaICL(3)(torch.zeros(2, 3, 3)), "tokens"),
        (lambda: theory.vote_error(1.0, 20), "alpha"),
        (lambda: theory.bayes_floor(0.5, 0), "length"),
        (lambda: theory.conditions(BANK, PromptSpec(outlier_fraction=0.0)), "spec"),
        (lambda: train(GatedLinearICL(30, gate="gla"), BANK, TASKS, PromptSpec(), engine="pattern"), "engine"),
        (lambda: probe_gates(LinearAttentionICL(30), BANK, TASKS, PromptSpec()), "model"),
    ],
)
def test_bad_input_is_named(make, named):
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        make()


def test_a_large_start_is_warned_of():
    with pytest.warns(UserWarning, match="delta: the theorems want"):
        GatedLinearICL(3, delta=0.5)


@settings(max_examples=20, deadline=None)
@given(alpha=st.floats(0, 0.98), length=st.integers(1, 60))
def test_a_random_label_is_half_a_flip(alpha, length):
    assert theory.vote_error(alpha, length, "random") == pytest.approx(theory.vote_error(alpha / 2, length, "flip"))


def test_conditions_name_what_they_are():
    rows = theory.conditions(
        BANK, PromptSpec(), PromptSpec(outlier_fraction=0.8, outlier_mix=TEST_MIX, kappa_outlier=20 / 3)
    )
    assert {row.theorem for row in rows} == {"T1", "T2", "T3", "T4"}
    assert all(row.kind == "sufficient" for row in rows)
    assert all((row.satisfied is None) == (not row.constants_known) for row in rows)
    [share] = [row for row in rows if row.theorem == "T2" and row.quantity.startswith("outlier_fraction")]
    assert (share.term, share.satisfied) == (0.6, False)


def test_no_file_hides_a_public_function_of_its_name():
    import pkgutil

    import icl_theory

    files = {module.name for module in pkgutil.iter_modules(icl_theory.__path__)}
    hidden = [n for n in icl_theory.__all__ if n in files and not isinstance(getattr(icl_theory, n), type(pkgutil))]
    assert hidden == []
