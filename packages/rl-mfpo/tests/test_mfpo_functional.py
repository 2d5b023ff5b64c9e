"""The exact values of the method: closed forms, sums by hand, quadrature."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from rl_mfpo.functional import (
    divergence_target,
    estimate_velocity,
    meanflow_target,
    project_categorical,
    sample_flow,
    sample_time_pairs,
    truncated_normal,
)
from rl_mfpo.functional.velocity import Proposals, combine, gaussian_proposal, propose, self_normalised
from rl_mfpo.toys import GaussianFlow, GaussianMixture, bandit_q

D = torch.float64


def column(*values):
    return torch.tensor(values, dtype=D).reshape(-1, 1)


def test_gaussian_flow_has_the_values_of_its_closed_form():
    flow = GaussianFlow(0.3, 0.2)
    x, r, t = column(0.5), column(0.3), column(0.8)
    assert flow.average_velocity(x, r, t).item() == pytest.approx(0.216289556401, abs=1e-12)
    assert flow.velocity(x, t).item() == pytest.approx(0.243142144638, abs=1e-12)
    assert flow.average_divergence(r, t).item() == pytest.approx(1.767127682038, abs=1e-12)
    assert flow.divergence(t).item() == pytest.approx(1.234413965087, abs=1e-12)
    other = GaussianFlow(0.1, 0.5)
    x = column(-1.3, -1.3)
    r, t = column(0.0, 0.5), column(1.0, 1.0)
    assert other.average_velocity(x, r, t).flatten().tolist() == pytest.approx([-0.75, -1.246555814625], abs=1e-12)
    assert other.average_divergence(r, t).flatten().tolist() == pytest.approx([math.log(2), 1.163150809806], abs=1e-12)
    assert other.velocity(x, t)[0].item() == pytest.approx(-1.4, abs=1e-12)


def test_meanflow_identity_holds_on_the_exact_average_velocity():
    flow = GaussianFlow(0.3, 0.2)
    x, r, t = column(0.5), column(0.3), column(0.8)
    v = flow.velocity(x, t)
    target = meanflow_target(flow.average_velocity, x, r, t, v)
    assert target.item() == pytest.approx(0.216289556401, abs=1e-12)
    du_dt = (v - target) / (t - r)
    assert du_dt.item() == pytest.approx(0.053705176475, abs=1e-12)
    assert not target.requires_grad


def test_divergence_identity_holds_on_the_exact_average_divergence():
    flow = GaussianFlow(0.3, 0.2)
    x, r, t = column(0.5, -0.7), column(0.3, 0.1), column(0.8, 0.4)
    target = divergence_target(
        lambda _x, r, t: flow.average_divergence(r, t), x, r, t, flow.velocity(x, t), flow.divergence(t)
    )
    torch.testing.assert_close(target, flow.average_divergence(r, t), rtol=0, atol=1e-12)
    assert target.shape == (2, 1)


def test_two_steps_of_the_exact_average_velocity_are_exact():
    flow = GaussianFlow(0.3, 0.2)
    noise = column(-1.2, 0.0, 0.7)
    action, log_prob = sample_flow(
        flow.average_velocity, noise, steps=2, divergence=lambda _x, r, t: flow.average_divergence(r, t)
    )
    assert action.flatten().tolist() == pytest.approx([0.06, 0.3, 0.44], abs=1e-12)
    assert log_prob.tolist() == pytest.approx([-0.029500620771, 0.690499379229, 0.445499379229], abs=1e-12)
    euler, nothing = sample_flow(lambda x, _r, t: flow.velocity(x, t), noise, steps=2)
    assert euler.flatten().tolist() == pytest.approx([0.2538, 0.3, 0.3269], abs=5e-5)
    assert nothing is None


def test_the_sampler_clips_only_the_last_point():
    far, _ = sample_flow(lambda x, _r, _t: torch.full_like(x, -5.0), torch.zeros(3, 2))
    assert far.tolist() == [[1.0, 1.0]] * 3
    free, _ = sample_flow(lambda x, _r, _t: torch.full_like(x, -5.0), torch.zeros(3, 2), clip=False)
    assert free.tolist() == [[5.0, 5.0]] * 3


def test_importance_estimates_by_hand():
    x, t = torch.tensor([[0.2]], dtype=D), torch.tensor([[0.5]], dtype=D)
    policy = torch.tensor([[[0.4], [-0.2]]], dtype=D)
    log_prob = torch.tensor([[0.1, -0.3]], dtype=D)
    drawn = propose(x, t, policy_actions=policy, policy_log_prob=log_prob, k_gaussian=1, mode="policy", generator=None)
    q = torch.tensor([[1.0, 0.5]], dtype=D) / 0.5
    weights = torch.softmax(drawn.log_weight + q, -1)
    assert weights.flatten().tolist() == pytest.approx([0.685680113938, 0.314319886062], abs=1e-12)
    v1, ess1 = self_normalised(drawn.log_weight + q, drawn.actions, x, t)
    assert (v1.item(), ess1.item()) == pytest.approx((-0.022816136726, 1.757610688937), abs=1e-12)
    gaussian = torch.tensor([[[0.5], [0.0]]], dtype=D)
    q2 = torch.tensor([[0.8, 0.2]], dtype=D) / 0.5
    v2, ess2 = self_normalised(q2, gaussian, x, t)
    assert (v2.item(), ess2.item()) == pytest.approx((-0.368524783499, 1.552286154278), abs=1e-12)
    both = Proposals(torch.cat([policy, gaussian], 1), torch.cat([drawn.log_weight, torch.zeros(1, 2, dtype=D)], 1), 2)
    estimate, beta = combine(both, torch.cat([q, q2], 1), x, t)
    assert estimate.velocity.item() == pytest.approx(-0.184947698892, abs=1e-10)
    assert beta is None


@pytest.mark.parametrize(
    ("t", "x", "exact"), [(0.3, 0.4, -0.361041815169), (0.7, -0.6, -1.554634536488), (0.9, 1.5, 1.106655851295)]
)
@pytest.mark.parametrize("mode", ["adaptive", "gaussian", "policy"])
def test_every_estimator_converges_to_the_boltzmann_velocity(t, x, exact, mode):
    rows, k = 12, 4096
    g = torch.Generator().manual_seed(0)
    policy = 2 * torch.rand(rows, k, 1, generator=g, dtype=D) - 1
    estimate = estimate_velocity(
        lambda a: -2 * (a[..., 0] - 0.5) ** 2,
        torch.full((rows, 1), x, dtype=D),
        torch.full((rows, 1), t, dtype=D),
        0.1,
        policy_actions=policy,
        policy_log_prob=torch.full((rows, k), -math.log(2), dtype=D),
        k_gaussian=k,
        mode=mode,
        generator=g,
    )
    assert estimate.velocity.mean().item() == pytest.approx(exact, abs=0.02)
    for ess, used in ((estimate.ess_policy, mode != "gaussian"), (estimate.ess_gaussian, mode != "policy")):
        assert bool(((ess >= 1 - 1e-9) & (ess <= k)).all()) == used


def test_box_boltzmann_entropy_by_quadrature():
    a = torch.linspace(-1, 1, 200_001, dtype=D)
    logits = -2 * (a - 0.5) ** 2 / 0.1
    log_z = torch.log(torch.trapezoid(torch.exp(logits), a))
    density = torch.exp(logits - log_z)
    assert -torch.trapezoid(density * (logits - log_z), a).item() == pytest.approx(-0.430537, abs=1e-6)


def test_the_mixtures_velocity_is_that_of_exact_draws():
    mixture = GaussianMixture(std=0.2, weights=(0.4, 0.3, 0.2, 0.1), dtype=D)
    g = torch.Generator().manual_seed(1)
    x, t = torch.tensor([[0.3, -0.1]], dtype=D), torch.tensor([[0.6]], dtype=D)
    a = mixture.sample(400_000, g)
    weight = torch.softmax(-(x - 0.4 * a).square().sum(-1) / (2 * 0.36), 0)
    assert mixture.velocity(x, t)[0].tolist() == pytest.approx(((x - weight @ a) / t)[0].tolist(), abs=0.01)


def ess_and_errors(t, *, rows=6000, k=(16, 32), seed=0):
    """Setting of the design's table: the policy is stale, the target is the bandit's mixture."""
    g = torch.Generator().manual_seed(seed)
    stale = GaussianMixture(std=0.2, weights=(0.4, 0.3, 0.2, 0.1))
    actions = stale.sample(rows * k[0], g).reshape(rows, k[0], 2)
    times = torch.full((rows, 1), t)
    x = (1 - t) * actions[:, 0] + t * torch.randn(rows, 2, generator=g)
    exact = GaussianMixture().velocity(x, times)
    found = {
        mode: estimate_velocity(
            bandit_q, x, times, 0.2, policy_actions=actions, policy_log_prob=stale.log_density(actions),
            k_gaussian=k[1], mode=mode, generator=g,
        )
        for mode in ("policy", "gaussian", "adaptive")
    }  # fmt: skip
    errors = {mode: (e.velocity - exact).square().sum(-1).mean().item() for mode, e in found.items()}
    return found["adaptive"].ess_policy.mean().item(), found["adaptive"].ess_gaussian.mean().item(), errors


@pytest.mark.parametrize(
    ("t", "ess_policy", "ess_gaussian", "policy", "gaussian", "adaptive"),
    [(0.1, 2.1, 12.9, 1.10, 0.243, 0.192), (0.5, 7.2, 6.3, 0.191, 0.218, 0.102), (0.9, 8.3, 6.3, 0.064, 0.084, 0.038)],
)
def test_effective_sample_sizes_and_errors_on_the_bandit(t, ess_policy, ess_gaussian, policy, gaussian, adaptive):
    e1, e2, errors = ess_and_errors(t)
    assert (e1, e2) == pytest.approx((ess_policy, ess_gaussian), rel=0.06)
    assert (errors["policy"], errors["gaussian"], errors["adaptive"]) == pytest.approx(
        (policy, gaussian, adaptive), rel=0.15
    )


def test_min_ess_tempers_each_row_just_enough():
    g = torch.Generator().manual_seed(0)
    x, t = 0.5 * torch.randn(200, 2, generator=g), torch.full((200, 1), 0.5)
    actions = 2 * torch.rand(200, 16, 2, generator=g) - 1
    log_prob = torch.full((200, 16), -2 * math.log(2))

    def estimate(min_ess, alpha=0.1):
        return estimate_velocity(
            lambda a: -a.square().sum(-1), x, t, alpha, policy_actions=actions, policy_log_prob=log_prob,
            k_gaussian=32, min_ess=min_ess, generator=torch.Generator().manual_seed(3),
        )  # fmt: skip

    free, held = estimate(None), estimate(4.0)
    assert free.ess_gaussian.min() < 4
    assert held.ess_gaussian.min() >= 4 - 1e-4
    # Rows that were above the bar in both samplers are as they were.
    fine = (free.ess_gaussian >= 4) & (free.ess_policy >= 4)
    assert bool(fine.any())
    torch.testing.assert_close(held.velocity[fine], free.velocity[fine])
    for unreachable in (0.5, 17.0, math.nan):
        with pytest.raises(InvalidInput, match="min_ess"):
            estimate(unreachable)


@pytest.mark.parametrize(
    ("moved", "expected", "mean"),
    [((-0.47, 0.03, 0.53), (0.094, 0.632, 0.274), 0.18), ((-0.22, 0.68, 1.0), (0.044, 0.252, 0.704), 0.66)],
)
def test_projection_by_hand(moved, expected, mean):
    probs = torch.tensor([0.2, 0.3, 0.5], dtype=D)
    out = project_categorical(probs, torch.tensor(moved, dtype=D), -1, 1)
    assert out.tolist() == pytest.approx(expected, abs=1e-12)
    assert (out @ torch.tensor([-1.0, 0, 1], dtype=D)).item() == pytest.approx(mean, abs=1e-12)


@given(st.integers(0, 2**31), st.integers(2, 40), st.floats(0.1, 3.0))
@settings(max_examples=60, deadline=None)
def test_projection_keeps_mass_and_mean(seed, n, spread):
    g = torch.Generator().manual_seed(seed)
    probs = torch.rand(5, n, generator=g, dtype=D)
    probs /= probs.sum(-1, keepdim=True)
    moved = spread * torch.randn(5, n, generator=g, dtype=D)
    out = project_categorical(probs, moved, -2.0, 2.0)
    support = torch.linspace(-2, 2, n, dtype=D)
    assert bool((out >= 0).all())
    torch.testing.assert_close(out.sum(-1), probs.sum(-1))
    torch.testing.assert_close(out @ support, (probs * moved.clamp(-2, 2)).sum(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "mean"),
    [(8, 9, 8.121189), (40, 41, 40.024969), (-60, -50, -50.019984), (201, 20199, 201.004975), (5, 1e4, 5.186504)],
)
def test_truncated_normal_means_in_the_tails(low, high, mean):
    n = 400_000
    g = torch.Generator().manual_seed(0)
    z = truncated_normal(torch.full((n,), low, dtype=D), torch.full((n,), high, dtype=D), generator=g)
    spread = z.std().item() / math.sqrt(n)
    assert z.mean().item() == pytest.approx(mean, abs=4 * spread + 1e-6)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.booleans(), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_truncated_normal_stays_inside_any_bounds(low, width, single, seed):
    a = torch.full((64,), low, dtype=torch.float32 if single else D)
    b = torch.maximum(a, (a + width))
    z = truncated_normal(a, b, generator=torch.Generator().manual_seed(seed))
    assert z.dtype == a.dtype
    assert bool(((z >= a) & (z <= b)).all())


def test_truncated_normal_in_the_middle_has_the_right_distribution():
    a, b = -0.5, 1.5
    g = torch.Generator().manual_seed(0)
    z = truncated_normal(torch.full((200_000,), a, dtype=D), torch.tensor(b, dtype=D), generator=g)
    cut = torch.special.ndtr(torch.tensor([a, 0.2, b], dtype=D))
    expected = ((cut[1] - cut[0]) / (cut[2] - cut[0])).item()
    assert (z < 0.2).double().mean().item() == pytest.approx(expected, abs=0.005)
    free = truncated_normal(torch.full((9,), -math.inf), torch.full((9,), math.inf))
    assert bool(torch.isfinite(free).all())
    with pytest.raises(InvalidInput, match="low, high"):
        truncated_normal(torch.ones(2), torch.zeros(2))


@pytest.mark.parametrize("dist", ["logit_normal", "uniform", "split"])
def test_time_pairs_are_ordered_and_the_first_rows_equal(dist):
    t, r = sample_time_pairs(1000, dist=dist, data_proportion=0.75, generator=torch.Generator().manual_seed(0))
    assert t.shape == r.shape == (1000, 1)
    assert bool((t[:750] == r[:750]).all())
    assert bool((r[750:] < t[750:]).all())
    assert float(t.min()) >= 1e-3 - 1e-7
    assert float(t.max()) <= 1 - 1e-3 + 1e-7


def test_time_pairs_have_their_laws():
    g = torch.Generator().manual_seed(0)
    t, _ = sample_time_pairs(200_000, generator=g)
    assert (t > 0.95).double().mean().item() == pytest.approx(8.2e-4, rel=0.25)
    t, r = sample_time_pairs(200_000, dist="split", data_proportion=0.5, generator=g)
    normal, pair = t[:100_000], t[100_000:]
    assert torch.special.logit(normal).mean().item() == pytest.approx(-0.4, abs=0.02)
    assert pair.mean().item() == pytest.approx(2 / 3, abs=0.01)
    assert r[100_000:].mean().item() == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("t", [1e-4, 1 - 1e-4])
def test_proposals_at_the_ends_of_time_are_finite_and_in_the_box(t):
    x = torch.tensor([[0.3], [-4.0], [2.5]])
    actions = gaussian_proposal(x, torch.full((3, 1), t), 16, generator=torch.Generator().manual_seed(0))
    assert actions.dtype == torch.float32
    assert bool((actions.abs() <= 1).all())


def test_a_policy_proposal_needs_its_likelihood():
    with pytest.raises(InvalidInput, match="policy_actions"):
        estimate_velocity(lambda a: a[..., 0], torch.zeros(2, 1), torch.full((2, 1), 0.5), 0.1)
    with pytest.raises(InvalidInput, match="alpha"):
        estimate_velocity(lambda a: a[..., 0], torch.zeros(2, 1), torch.full((2, 1), 0.5), 0.0, mode="gaussian")


X, ONE = torch.zeros(4, 2), torch.full((4, 1), 0.5)
FUNCTIONAL_MISTAKES = {
    "x: .*array|x: .*ndarray": lambda: meanflow_target(zero_field, X.numpy(), ONE, ONE, X),
    "x: .*int64": lambda: meanflow_target(zero_field, X.long(), ONE, ONE, X),
    r"t: .*\(4, 1\).*\(4,\)": lambda: meanflow_target(zero_field, X, ONE, ONE[:, 0], X),
    "r: .*float32.*float64": lambda: meanflow_target(zero_field, X, ONE.double(), ONE, X),
    r"v: .*\(4, 2\).*\(2,\)": lambda: meanflow_target(zero_field, X, ONE, ONE, X[0]),
    "what u returns: ": lambda: meanflow_target(lambda x, _r, _t: x[:, :1], X, ONE, ONE, X),
    "div: ": lambda: divergence_target(lambda _x, _r, t: t, X, ONE, ONE, X, X),
    "what delta returns: ": lambda: divergence_target(zero_field, X, ONE, ONE, X, ONE),
    "noise: .*float": lambda: sample_flow(zero_field, 1.0),
    r"noise: .*\(\)": lambda: sample_flow(zero_field, torch.tensor(1.0)),
    r"what u returns: .*\(4, 2\)": lambda: sample_flow(lambda x, _r, _t: x[:1], X),
    r"what divergence returns: .*\(4, 1\)": lambda: sample_flow(zero_field, X, divergence=zero_field),
    "probs: .*list": lambda: project_categorical([0.5, 0.5], X, -1, 1),
    r"probs: .*\(\)": lambda: project_categorical(torch.tensor(1.0), X, -1, 1),
    "atoms_shifted: .*float64": lambda: project_categorical(X, X.double(), -1, 1),
    "probs, atoms_shifted: .*broadcast": lambda: project_categorical(X, X[:3], -1, 1),
    "v_min: ": lambda: project_categorical(X, X, math.nan, 1),
    "low: ": lambda: truncated_normal("low", X),
    "high: .*complex": lambda: truncated_normal(X, torch.ones(2, dtype=torch.complex64)),
    "low, high: .*broadcast": lambda: truncated_normal(X, torch.ones(3)),
    "alpha: .*3": lambda: estimate_velocity(zero_q, X, ONE, torch.ones(3), mode="gaussian"),
    "alpha: .*inf": lambda: estimate_velocity(zero_q, X, ONE, math.inf, mode="gaussian"),
    r"x: shape|x: expected shape \(B, A\)": lambda: estimate_velocity(zero_q, X[None], ONE, 0.1, mode="gaussian"),
    r"t: .*\(4, 1\)": lambda: estimate_velocity(zero_q, X, 0.5, 0.1, mode="gaussian"),
    r"policy_log_prob: .*\(4, 3\)": lambda: estimate_velocity(
        zero_q, X, ONE, 0.1, policy_actions=torch.zeros(4, 3, 2), policy_log_prob=torch.zeros(4, 2)
    ),
    "what q returns: ": lambda: estimate_velocity(lambda a: a, X, ONE, 0.1, mode="gaussian"),
}


def zero_field(x, _r, _t):
    return torch.zeros_like(x)


def zero_q(actions):
    return actions[..., 0]


@pytest.mark.parametrize("match", FUNCTIONAL_MISTAKES)
def test_the_pure_functions_name_what_does_not_fit(match):
    with pytest.raises(InvalidInput, match=match):
        FUNCTIONAL_MISTAKES[match]()
