"""The fast paths are the plain networks: derivatives by hand, split layers, chunks, kept constants."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from lemmata_core import InvalidInput
from rl_mfpo import MeanFlowPolicy, MFPOConfig
from rl_mfpo.functional import sample_flow
from rl_mfpo.networks import MLP, MeanFlowNet, TwinCritic
from rl_mfpo.networks.mlp import gelu_

OBS, A, B = 5, 3, 7


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def policy(**changes):
    return MeanFlowPolicy(OBS, A, MFPOConfig.preset("small", hidden_sizes=(32, 32), **changes), generator=gen())


def randn(*shape, seed=1, dtype=torch.float32):
    return torch.randn(*shape, generator=gen(seed), dtype=dtype)


def plain_flow(p, obs, noise, steps, **kwargs):
    """The T-step sampler as the paper writes it, on the plain forward passes."""
    k = noise.shape[1]
    rows = obs.repeat_interleave(k, 0)
    with torch.no_grad():
        action, log_prob = sample_flow(
            lambda x, r, t: p.velocity_net(x, rows, t, t - r),
            noise.flatten(0, 1),
            steps=steps,
            divergence=lambda x, r, t: p.divergence_net(x, rows, t, t - r),
            **kwargs,
        )
    return action.view(noise.shape), log_prob.view(noise.shape[:-1])


def test_gelu_in_place_is_the_tanh_form():
    x = torch.linspace(-8, 8, 1001, dtype=torch.float64)
    torch.testing.assert_close(gelu_(x.clone()), F.gelu(x, approximate="tanh"), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
def test_dual_of_the_mlp_is_torchs_jvp(dtype, tolerance):
    net = MLP(6, (16, 12, 16), 4, generator=gen()).to(dtype)
    x, dx = randn(B, 6, dtype=dtype), randn(3, B, 6, seed=2, dtype=dtype)
    y, dy = net.dual(x, dx)
    torch.testing.assert_close(y, net(x), rtol=0, atol=tolerance)
    for i in range(3):
        _, expected = torch.autograd.functional.jvp(net, x, dx[i])
        torch.testing.assert_close(dy[i], expected, rtol=0, atol=tolerance)


def test_dual_of_the_mean_flow_network_is_torchs_forward_mode():
    net = MeanFlowNet(OBS, A, A, (16, 16), generator=gen()).double()
    D = torch.float64
    x, obs, dx, t = (
        randn(B, A, dtype=D),
        randn(B, OBS, seed=2, dtype=D),
        randn(B, A, seed=3, dtype=D),
        torch.rand(B, 1, generator=gen(4), dtype=D),
    )
    r = t * torch.rand(B, 1, generator=gen(5), dtype=D)

    def at(x, t):
        return net(x, obs, t, t - r)

    import warnings

    with warnings.catch_warnings():
        # torch loads its forward-mode rules with its own deprecated torch.jit.script.
        warnings.simplefilter("ignore", FutureWarning)
        y, expected = torch.func.jvp(at, (x, t), (dx, torch.ones_like(t)))
        _, still = torch.func.jvp(at, (x, t), (dx, torch.zeros_like(t)))
    found, derivative = net.dual(x, obs, t, t - r, dx, torch.ones_like(t))
    torch.testing.assert_close(found, y, rtol=0, atol=1e-13)
    torch.testing.assert_close(derivative, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(net.dual(x, obs, t, t - r, dx)[1], still, rtol=0, atol=1e-13)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 5), (300, 8), (1100, 1)])
def test_the_fast_sampler_is_the_plain_one(steps, n, k):
    p, obs, noise = policy(), randn(n, OBS), randn(n, k, A, seed=2)
    found = p.flow(obs, noise, steps, log_prob=True)
    action, log_prob = plain_flow(p, obs, noise, steps, clip=False)
    torch.testing.assert_close(found.unclipped, action, rtol=0, atol=5e-6)
    torch.testing.assert_close(found.log_prob, log_prob, rtol=0, atol=2e-5)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("k", [1, 6])
def test_one_state_goes_the_way_of_many(steps, k):
    p, obs, noise = policy(), randn(3, OBS), randn(3, k, A, seed=2)
    expected = plain_flow(p, obs, noise, steps)[0]
    for row, draws, wanted in zip(obs, noise, expected):
        torch.testing.assert_close(p.sample(row, k, steps=steps, noise=draws), wanted, rtol=0, atol=5e-6)
        found = p.flow(row[None], draws[None], steps, log_prob=False).unclipped[0].clamp(-1, 1)
        torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
        if k == 1:
            torch.testing.assert_close(p.sample(row, steps=steps, noise=draws[0]), wanted[0], rtol=0, atol=5e-6)
            torch.testing.assert_close(p.sample(row[None], steps=steps, noise=draws), wanted, rtol=0, atol=5e-6)


def test_what_is_sampled_and_kept_can_enter_a_gradient_after_inference_mode():
    p, obs = policy(), randn(1, OBS)
    with torch.inference_mode():
        p.sample(obs, generator=gen())
        p.act(obs, deterministic=True)
    action = p.sample(obs, generator=gen())
    kept = p.velocity_net.constants(2)
    weight = torch.ones(A, requires_grad=True)
    (weight * action + (action @ kept.x_weight).sum() + kept.times.sum()).sum().backward()
    torch.testing.assert_close(weight.grad, action[0])


def test_arrays_of_any_kind_are_observations_and_noise():
    p = policy()
    obs, noise = np.arange(10).reshape(2, OBS), np.random.default_rng(0).normal(size=(2, A))
    expected = p.sample(torch.tensor(obs, dtype=torch.float32), noise=torch.tensor(noise, dtype=torch.float32))
    frozen = obs.astype(np.float32)
    frozen.flags.writeable = False
    for given in (obs, obs.tolist(), frozen, np.asfortranarray(obs), obs.astype(np.float64)):
        assert torch.equal(p.sample(given, noise=noise), expected)
    with pytest.raises(InvalidInput, match="obs: expected an array of real numbers"):
        p.sample(["a"] * OBS)


@pytest.mark.parametrize("shape", [(A,), (0, A), (4, A + 1), (2, 4, A), ()])
def test_candidates_noise_of_a_wrong_shape_is_named(shape):
    with pytest.raises(InvalidInput, match="noise"):
        policy().act(randn(2, OBS), noise=torch.zeros(shape))
    with pytest.raises(InvalidInput, match=r"noise: expected shape \(3, 3\)"):
        policy().act(randn(2, OBS), noise=torch.zeros(4, A), n_candidates=3)


def test_kept_constants_follow_every_change_of_the_weights():
    p, obs, noise = policy(), randn(4, OBS), randn(4, 2, A, seed=2)
    before = p.sample(obs, 2, noise=noise)
    other = MeanFlowPolicy(OBS, A, p.config, generator=gen(9))
    optimiser = torch.optim.Adam(p.velocity_net.parameters(), lr=0.1, fused=True)
    p.velocity_net(noise[:, 0], obs, torch.ones(4, 1), torch.ones(4, 1)).square().sum().backward()
    optimiser.step()
    after = p.sample(obs, 2, noise=noise)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, plain_flow(p, obs, noise, 2)[0], rtol=0, atol=5e-6)
    p.load_state_dict(other.state_dict())
    assert torch.equal(p.sample(obs, 2, noise=noise), other.sample(obs, 2, noise=noise))
    assert torch.equal(copy.deepcopy(p).sample(obs, 2, noise=noise), other.sample(obs, 2, noise=noise))


def test_change_of_variables_is_the_jacobian_of_the_sampler():
    p = MeanFlowPolicy(OBS, A, MFPOConfig.preset("small", hidden_sizes=(16,)), generator=gen()).double()
    obs, noise = randn(B, OBS, dtype=torch.float64), randn(B, A, seed=2, dtype=torch.float64)
    end, log_prob, negative = p.change_of_variables(obs, noise, 2)
    for i in range(B):
        jacobian = torch.autograd.functional.jacobian(
            lambda e, i=i: sample_flow(
                lambda x, r, t: p.velocity_net(x, obs[i : i + 1], t, t - r), e.unsqueeze(0), clip=False
            )[0][0],
            noise[i],
        )
        base = -0.5 * noise[i].square().sum() - 0.5 * A * math.log(2 * math.pi)
        assert log_prob[i].item() == pytest.approx((base - jacobian.det().abs().log()).item(), abs=1e-10)
        assert bool(negative[i]) == (jacobian.det().item() < 0)
    torch.testing.assert_close(end, p.flow(obs, noise.unsqueeze(1), 2, log_prob=False).unclipped[:, 0])


@pytest.mark.parametrize("n_atoms", [1, 11])
@pytest.mark.parametrize("clipped", [True, False])
def test_critic_values_are_those_of_the_plain_networks(n_atoms, clipped):
    critic = TwinCritic(OBS, A, (32, 32), n_atoms=n_atoms, v_min=-2, v_max=3, generator=gen())
    obs, actions = randn(300, OBS), randn(300, 9, A, seed=2)
    with torch.no_grad():
        parts = critic(obs.repeat_interleave(9, 0), actions.flatten(0, 1))
        values = [p[:, 0] if n_atoms == 1 else torch.softmax(p, -1) @ torch.linspace(-2, 3, 11) for p in parts]
    expected = torch.minimum(*values) if clipped else sum(values) / 2
    torch.testing.assert_close(critic.values(obs, actions, clipped=clipped).flatten(), expected, rtol=0, atol=1e-5)


def test_sample_shapes_and_bounds():
    p = policy()
    assert p.sample(randn(4, OBS)).shape == (4, A)
    assert p.sample(randn(4, OBS), 6, steps=4).shape == (4, 6, A)
    assert p.sample(np.zeros(OBS)).shape == (A,)
    assert p.sample(np.zeros(OBS), n=6).shape == (6, A)
    assert float(p.sample(10 * randn(50, OBS), 50).abs().max()) <= 1
    drawn = p.log_prob_of_samples(randn(4, OBS), 6, generator=gen())
    assert drawn.action.shape == (4, 6, A)
    assert drawn.log_prob.shape == (4, 6)
    exact = p.log_prob_of_samples(randn(4, OBS), 6, exact=True, generator=gen())
    assert torch.isfinite(exact.log_prob).all()
    assert 0 <= exact.negative_share <= 1
    torch.testing.assert_close(exact.action, drawn.action, rtol=0, atol=1e-5)
    assert p.log_prob_of_samples(np.zeros(OBS), 2).log_prob.shape == (2,)


def test_act_takes_the_candidate_that_the_target_critics_value_most():
    p = policy()
    obs, noise = randn(20, OBS), randn(10, A, seed=3)
    action = p.act(obs, noise=noise)
    candidates = p.sample(obs, 10, noise=noise.expand(20, 10, A).contiguous())
    best = p.target_critic.values(obs, candidates, clipped=True).argmax(1)
    assert torch.equal(action, candidates[torch.arange(20), best])
    assert torch.equal(p.act(obs, deterministic=True), p.act(obs, noise=p.noise_bank))
    assert torch.equal(p.act(obs[0], deterministic=True), p.act(obs[0], deterministic=True))
    torch.testing.assert_close(p.act(obs[0], deterministic=True), p.act(obs, deterministic=True)[0], rtol=0, atol=1e-5)
    single = p.act(obs, n_candidates=1, generator=gen())
    torch.testing.assert_close(single, p.sample(obs, generator=gen()))


def test_reference_noise_makes_samples_comparable():
    p = policy()
    noise = p.reference_noise(40, seed=7)
    assert torch.equal(noise, policy().reference_noise(40, seed=7))
    assert not torch.equal(noise, p.reference_noise(40, seed=8))
    obs = randn(1, OBS).expand(40, OBS).contiguous()
    assert torch.equal(p.sample(obs, noise=noise), p.sample(obs, noise=noise))


def test_deployable_scales_and_clips_inside():
    p = policy()
    low, high = np.array([-2.0, 0.0, 5.0]), np.array([2.0, 1.0, 7.0])
    module = p.deployable(4, low, high)
    obs, noise = randn(30, OBS), randn(30, A, seed=2)
    action = module(obs, noise)
    inner = p.sample(obs, steps=4, noise=noise)
    expected = torch.tensor(low) + (inner.double() + 1) / 2 * torch.tensor(high - low)
    torch.testing.assert_close(action.double(), expected, rtol=0, atol=1e-5)
    assert bool(((action >= torch.tensor(low).float()) & (action <= torch.tensor(high).float())).all())
    assert not any(q.requires_grad for q in module.parameters())
    with pytest.raises(InvalidInput, match="low, high"):
        p.deployable(2, [-np.inf] * 3, [1.0] * 3)


def test_wrong_shapes_are_named():
    p = policy()
    with pytest.raises(InvalidInput, match=r"obs: expected shape \(B, 5\)"):
        p.sample(randn(4, OBS + 1))
    with pytest.raises(InvalidInput, match="noise"):
        p.sample(randn(4, OBS), noise=randn(4, A + 1))
    with pytest.raises(InvalidInput, match="noise bank"):
        p.act(randn(4, OBS), deterministic=True, n_candidates=99)
    with pytest.raises(InvalidInput, match="steps"):
        p.sample(randn(4, OBS), steps=0)


def test_weights_stay_float32_and_do_not_touch_the_global_generator():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    p = policy()
    assert torch.equal(state, torch.get_rng_state())
    assert {q.dtype for q in p.parameters()} == {torch.float32}
    assert p.sample(randn(4, OBS)).dtype == torch.float32
    again = policy()
    assert all(torch.equal(a, b) for a, b in zip(p.state_dict().values(), again.state_dict().values()))
