"""One update against a plain, slow reference that draws the same random numbers; state, temperature, failures."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from lemmata_core import InvalidInput
from rl_mfpo import (
    MFPO,
    Batch,
    HealthWarning,
    MeanFlowPolicy,
    MFPOConfig,
    MFPOLearner,
    ReplayBuffer,
    TrainingDiverged,
)
from rl_mfpo.functional import estimate_velocity, project_categorical, sample_flow
from rl_mfpo.functional.times import draw_time_pairs
from rl_mfpo.health import Health

OBS, A = 4, 3
SMALL = {"hidden_sizes": (32, 32), "batch_size": 32, "actor_batch_size": 16, "k_policy": 4, "k_gaussian": 6}


def make(act_dim=A, seed=0, **changes):
    return MFPOLearner(OBS, act_dim, MFPOConfig.preset("small", **{**SMALL, **changes}), seed=seed)


def batch(n=32, act_dim=A, seed=0):
    g = torch.Generator().manual_seed(seed)
    return Batch(
        torch.randn(n, OBS, generator=g),
        2 * torch.rand(n, act_dim, generator=g) - 1,
        torch.randn(n, generator=g),
        torch.randn(n, OBS, generator=g),
        (torch.rand(n, generator=g) < 0.3).float(),
    )


def jvp(f, point, tangent):
    """Forward mode by two reverse passes: slow, and independent of the derivative written by hand."""
    return torch.autograd.functional.jvp(f, point, tangent)[1]


class Reference:
    """The update as the paper writes it: no split layers, no chunks, no row left out, one optimiser a network.

    `update` is long on purpose: it is read beside the paper's algorithm, line by line.
    """

    def __init__(self, learner):
        c = learner.config
        self.c, self.alpha, self.target_entropy = c, learner.alpha, learner.temperature.target
        self.generator = torch.Generator()
        self.generator.set_state(learner.generator.get_state())
        self.u, self.d = copy.deepcopy(learner.policy.velocity_net), copy.deepcopy(learner.policy.divergence_net)
        self.critic, self.target = copy.deepcopy(learner.critic), copy.deepcopy(learner.policy.target_critic)
        self.optimisers = [
            torch.optim.Adam(m.parameters(), lr=c.rate(n), foreach=False)
            for m, n in ((self.u, "actor"), (self.d, "divergence"), (self.critic, "critic"))
        ]
        self.log_alpha = torch.nn.Parameter(torch.tensor(learner.temperature.log_alpha, dtype=torch.float64))
        self.temperature = torch.optim.Adam([self.log_alpha], lr=c.rate("temperature"))

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def sample(self, obs, noise):
        with torch.no_grad():
            return sample_flow(
                lambda x, r, t: self.u(x, obs, t, t - r), noise, steps=self.c.n_sample_steps,
                divergence=lambda x, r, t: self.d(x, obs, t, t - r),
            )  # fmt: skip

    def means(self, critic, obs, action):
        return [torch.softmax(logits, -1) @ critic.support for logits in critic(obs, action)]

    def update(self, b):
        # In one piece, so that it can be read beside the paper's algorithm.
        c, n = self.c, len(b.obs)
        # Critics
        action, log_prob = self.sample(b.next_obs, self.normal(n, 1, A)[:, 0])
        with torch.no_grad():
            logits = self.target(b.next_obs, action)
            z = b.reward[:, None] + c.gamma * (1 - b.terminated[:, None]) * (
                self.target.support - self.alpha * log_prob[:, None]
            )
            projected = [project_categorical(torch.softmax(q, -1), z, c.v_min, c.v_max) for q in logits]
            means = [p @ self.target.support for p in projected]
            if c.clipped_double_q:
                goal = torch.where((means[0] <= means[1])[:, None], *projected)
            else:
                goal = sum(projected) / 2
        loss = sum(-(goal * torch.log_softmax(q, -1)).sum(-1).mean() for q in self.critic(b.obs, b.action))
        self.step(2, loss)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.critic.parameters()):
                slow.mul_(1 - c.tau).add_(c.tau * fast)
        # Policy
        obs, m, k = b.obs[: c.actor_batch_size], c.actor_batch_size, c.k_policy
        noise = self.normal(m, k, A)
        actions, log_prob = self.sample(obs.repeat_interleave(k, 0), noise.flatten(0, 1))
        actions, log_prob = actions.view(m, k, A), log_prob.view(m, k)
        t, r = draw_time_pairs(m, c.time_dist, c.data_proportion, self.generator, "cpu")
        x = (1 - t) * actions[:, 0] + t * self.normal(m, A)

        def q(proposed):
            rows = obs.repeat_interleave(proposed.shape[1], 0)
            pair = self.means(self.critic, rows, proposed.flatten(0, 1))
            return (torch.minimum(*pair) if c.clipped_double_q else sum(pair) / 2).view(proposed.shape[:2])

        v = estimate_velocity(
            q, x, t, self.alpha, policy_actions=actions, policy_log_prob=log_prob, k_gaussian=c.k_gaussian,
            mode=c.velocity, min_ess=c.min_ess, generator=self.generator,
        ).velocity  # fmt: skip

        def along(net, direction):
            return jvp(lambda x, t: net(x, obs, t, t - r), (x, t), (direction, torch.ones_like(t))).detach()

        loss = (self.u(x, obs, t, t - r) - (v - (t - r).clamp(0, 1) * along(self.u, v))).square().mean()
        self.step(0, loss)
        # Average divergence
        t, r = draw_time_pairs(m, c.time_dist, c.data_proportion, self.generator, "cpu")
        x = (1 - t) * actions[:, 0] + t * self.normal(m, A)
        probes = torch.randn(c.n_div_probes, m, A, generator=self.generator) if c.n_div_probes < A else None
        div = torch.zeros(m, 1)
        for z in probes if probes is not None else torch.eye(A).unsqueeze(1).expand(A, m, A):
            div += (z * jvp(lambda x: self.u(x, obs, t, torch.zeros_like(t)), x, z)).sum(-1, keepdim=True).detach()
        div /= c.n_div_probes if probes is not None else 1
        with torch.no_grad():
            vel = self.u(x, obs, t, torch.zeros_like(t))
        goal = div - (t - r).clamp(0, 1) * along(self.d, vel)
        self.step(1, (self.d(x, obs, t, t - r) - goal).square().mean())
        # Temperature
        entropy = -log_prob.mean().double()
        self.temperature.zero_grad()
        (self.log_alpha.exp() * (entropy - self.target_entropy)).backward()
        self.temperature.step()
        self.alpha = math.exp(self.log_alpha.item())

    def step(self, i, loss):
        self.optimisers[i].zero_grad()
        loss.backward()
        self.optimisers[i].step()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clipped_double_q": False, "time_dist": "logit_normal", "data_proportion": 0.75},
        {"velocity": "gaussian", "n_sample_steps": 1, "data_proportion": 1.0},
        {"velocity": "policy", "data_proportion": 0.0, "time_dist": "uniform"},
        {"min_ess": 2.0, "n_div_probes": 3, "n_sample_steps": 4},
    ],
    ids=lambda c: "-".join(c) or "small",
)
def test_an_update_is_the_papers(changes):
    # A support and rates at which the critics move the policy.
    learner = make(v_min=-5.0, v_max=5.0, **changes)
    reference = Reference(learner)
    for i in range(3):
        metrics = learner.update(batch(seed=i))
        reference.update(batch(seed=i))
    policy = learner.policy
    pairs = (
        (policy.velocity_net, reference.u), (policy.divergence_net, reference.d), (learner.critic, reference.critic),
        (policy.target_critic, reference.target),
    )  # fmt: skip
    for ours, plain in pairs:
        for (name, a), b in zip(ours.named_parameters(), plain.parameters()):
            # Adam divides by the gradient's size: entries with a gradient near zero step by rounding alone.
            close = (a - b).abs() < 1e-5
            assert close.float().mean() > 0.99, name
            assert (a - b).abs().max() < 3e-3, name
    assert learner.alpha == pytest.approx(reference.alpha, rel=1e-7)
    assert torch.equal(learner.generator.get_state(), reference.generator.get_state())
    assert all(math.isfinite(v) for v in metrics.values())


def test_rows_at_equal_times_need_no_derivative_and_probes_are_independent_of_the_noise():
    # T8: e and the probes come from one generator, one after the other, never from one key.
    learner = make(data_proportion=1.0)
    learner.policy.divergence_net.dual = None  # a call would raise
    learner.update(batch())


def test_the_first_temperature_step_by_hand():
    learner = make(init_temperature=0.2)
    learner.temperature.descend(0.7)
    assert learner.alpha == pytest.approx(0.1999400090, abs=1e-10)


def test_temperature_options():
    fixed = make(temperature=0.07)
    assert fixed.update(batch())["alpha"] == pytest.approx(0.07)
    floored = make(min_temperature=0.2, init_temperature=0.2, temperature_lr=0.5)
    assert [floored.update(batch(seed=i))["alpha"] for i in range(3)] == pytest.approx([0.2] * 3)
    assert make(init_temperature=0.01, min_temperature=0.1).alpha == pytest.approx(0.1)
    exact = make(entropy_estimator="change_of_variables")
    metrics = exact.update(batch())
    assert math.isfinite(metrics["entropy_cov"])
    assert metrics["entropy_target"] == -1.5
    with pytest.raises(InvalidInput, match="entropy_estimator"):
        make(act_dim=9, entropy_estimator="change_of_variables")


def test_alpha_does_not_fall_where_most_rows_are_tempered():
    learner = make(min_ess=4.0, init_temperature=1e-4, v_min=-5.0, v_max=5.0)
    for i in range(20):
        metrics = learner.update(batch(seed=i))
        if metrics["tempered_share"] > 0.5 and metrics["entropy"] > metrics["entropy_target"]:
            continue
    assert metrics["tempered_share"] > 0.5
    assert learner.alpha == pytest.approx(1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"critic": "scalar"},
        {"actor_delay": 2},
        {"divergence_steps": 2},
        {"div_probe": "rademacher"},
        {"backup_entropy": False},
    ],
)
def test_a_restored_learner_goes_on_bit_by_bit(changes, tmp_path):
    straight, first = make(**changes), make(**changes)
    for i in range(3):
        straight.update(batch(seed=i))
        first.update(batch(seed=i))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = make(seed=99, **changes)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for i in range(3, 6):
        a, b = straight.update(batch(seed=i)), second.update(batch(seed=i))
        assert a == b
    left, right = straight.state_dict(), second.state_dict()
    torch.testing.assert_close(left, right, rtol=0, atol=0)


def test_a_state_is_a_copy_and_refuses_other_shapes():
    learner = make()
    learner.update(batch())
    state = learner.state_dict()
    before = state["policy"]["velocity_net.mlp.out.weight"].clone()
    learner.update(batch(seed=1))
    assert torch.equal(before, state["policy"]["velocity_net.mlp.out.weight"])
    with pytest.raises(InvalidInput, match="state"):
        make(hidden_sizes=(16,)).load_state_dict(state)
    with pytest.raises(InvalidInput, match="version"):
        learner.load_state_dict({"version": 99})


def test_the_seed_decides_everything_and_the_global_generator_nothing():
    runs = []
    for _ in range(2):
        torch.manual_seed(torch.seed() % 1000)
        learner = make(seed=5)
        runs.append([learner.update(batch(seed=i)) for i in range(2)])
    assert runs[0] == runs[1]
    assert make(seed=6).update(batch()) != runs[0][0]


def test_a_loss_that_is_not_finite_stops_before_the_step():
    learner = make()
    learner.update(batch())
    before = copy.deepcopy(learner.critic.state_dict())
    bad = batch()._replace(reward=torch.full((32,), math.nan))
    with pytest.raises(TrainingDiverged, match="critic loss is nan at update 2") as caught:
        learner.update(bad)
    assert math.isnan(caught.value.metrics["critic_loss"])
    torch.testing.assert_close(learner.critic.state_dict(), before, rtol=0, atol=0)


def test_a_wrong_batch_is_named():
    learner = make()
    with pytest.raises(InvalidInput, match=r"batch\.action"):
        learner.update(batch(act_dim=2))
    with pytest.raises(InvalidInput, match=r"batch\.obs.*float64"):
        learner.update(batch()._replace(obs=torch.zeros(32, OBS, dtype=torch.float64)))


def test_termination_cuts_the_bootstrap_and_truncation_does_not():
    learner = make(v_min=-10.0, v_max=10.0, n_atoms=201, gamma=0.5, backup_entropy=False)
    b = batch()
    ended = learner._categorical_target(b._replace(terminated=torch.ones(32))) @ learner.critic.support
    torch.testing.assert_close(ended, b.reward.clamp(-10, 10), rtol=0, atol=1e-4)
    learner.generator.manual_seed(0)
    going = learner._categorical_target(b._replace(terminated=torch.zeros(32))) @ learner.critic.support
    learner.generator.manual_seed(0)
    action, _ = learner._next(b)
    pair = [torch.softmax(q, -1) @ learner.critic.support for q in learner.policy.target_critic(b.next_obs, action)]
    torch.testing.assert_close(going, b.reward + 0.5 * torch.minimum(*pair), rtol=0, atol=1e-3)


def test_the_value_range_moves_before_the_first_update_only():
    learner = make()
    learner.set_value_range(-3.0, 7.0)
    assert learner.critic.support[[0, -1]].tolist() == [-3.0, 7.0]
    assert learner.policy.target_critic.support[-1].item() == 7.0
    with pytest.raises(InvalidInput, match="v_min"):
        learner.set_value_range(2.0, 1.0)
    learner.update(batch())
    with pytest.raises(InvalidInput, match="update"):
        learner.set_value_range(-1.0, 1.0)


def test_hooks_see_every_optimiser_and_the_entropy():
    learner, seen = make(), []
    learner.reduce_gradients = lambda parameters: seen.append(len(parameters))
    learner.reduce_scalar = lambda entropy: entropy * 0 + 3.5
    metrics = learner.update(batch())
    assert len(seen) == 3
    assert metrics["entropy"] == pytest.approx(3.5)


def test_low_effective_sample_sizes_are_warned_of():
    learner = make(temperature=1e-6, v_min=-5.0, v_max=5.0)
    learner._health.load({"low_ess": 498.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        metrics = learner.update(batch())
    assert max(metrics["ess_policy"], metrics["ess_gaussian"]) < 2
    with pytest.warns(HealthWarning, match="effective sample size is below 2"):
        learner.update(batch())
    learner.update(batch())  # once is enough


def test_a_support_that_values_leave_or_hardly_use_is_warned_of():
    learner = make(v_min=-0.05, v_max=0.05)
    learner.n_updates = 999
    with pytest.warns(HealthWarning, match="on the ends of their support"):
        learner.update(batch())
    learner = make(v_min=-1600.0, v_max=1600.0)
    learner.critic.load_state_dict({k: v * 0 if "out" in k else v for k, v in learner.critic.state_dict().items()})
    one_atom = torch.zeros(32, 101)
    one_atom[:, 50] = 1.0
    with pytest.warns(HealthWarning, match="from_rewards"):
        learner._health.judge_support(one_atom, learner.critic.support, 0.0)


@pytest.mark.slow
def test_compiled_values_are_the_plain_ones():
    plain, compiled = make(), make(compile=True)
    obs = torch.randn(16, OBS, generator=torch.Generator().manual_seed(1))
    actions = torch.rand(16, 10, A, generator=torch.Generator().manual_seed(2))
    with warnings.catch_warnings():
        # The compiler's own warnings.
        warnings.simplefilter("ignore")
        found = compiled.critic.values(obs, actions, clipped=True)
    torch.testing.assert_close(found, plain.critic.values(obs, actions, clipped=True), rtol=1e-4, atol=1e-3)


def test_a_given_generator_decides_everything():
    config = MFPOConfig.preset("small", **SMALL)
    first, second = (MFPOLearner(OBS, A, config, "cpu", torch.Generator().manual_seed(4)) for _ in range(2))
    assert first.update(batch()) == second.update(batch())


def test_a_wrong_reading_of_the_entropy_is_warned_of_after_three_looks():
    health = Health()
    for network, exact in ((0.5, -0.4), (0.5, 0.4), (0.5, -0.4), (0.6, -0.3)):
        health.judge_entropies(network, exact)
    with pytest.warns(HealthWarning, match="min_temperature or entropy_estimator"):
        health.judge_entropies(0.6, -0.3)
    health.judge_entropies(0.6, -0.3)  # once is enough


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: MFPOLearner(3, 2, MFPOConfig.preset("small"), seed=math.inf), "seed"),
        (lambda: MFPOLearner(3, 2, MFPOConfig.preset("small"), seed=-1), "seed"),
        (lambda: MeanFlowPolicy("3", 2, MFPOConfig.preset("small")), "obs_dim"),
        (lambda: MeanFlowPolicy(3, -1, MFPOConfig.preset("small")), "act_dim"),
        (lambda: MeanFlowPolicy(3, 2, MFPOConfig.preset("small")).act(torch.zeros(0, 3)), "obs"),
        (lambda: MeanFlowPolicy(3, 2, MFPOConfig.preset("small")).act([[1.0], [1.0, 2.0]]), "obs"),
        (lambda: MFPOLearner(3, 2, MFPOConfig.preset("small"), seed=0).update(Batch([], [], [], [], [])), "batch.obs"),
        (lambda: ReplayBuffer(4, 3, 2).sample(-3, np.random.default_rng(0)), "sample|batch_size"),
    ],
)
def test_sizes_and_batches_of_another_kind_are_named(call, name):
    with pytest.raises(InvalidInput, match=f"^({name})"):
        call()


def test_a_damaged_policy_file_is_named(tmp_path):
    MFPO("rl_mfpo/Bandit-v0", seed=0, config="small").save(tmp_path / "agent.pt")
    content = torch.load(tmp_path / "agent.pt", weights_only=True)
    for damage in ({"meta": "{"}, {"meta": "{}"}):
        torch.save({**content, **damage}, tmp_path / "agent.pt")
        with pytest.raises(InvalidInput, match=r"agent\.pt"):
            MFPO.load(tmp_path / "agent.pt")
