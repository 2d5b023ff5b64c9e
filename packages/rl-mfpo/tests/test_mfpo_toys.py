"""Toys, baselines and the pieces of the studies."""

import math

import gymnasium
import numpy as np
import pytest
import rl_mfpo  # noqa: F401 - registers the environments
import torch
from gymnasium.utils.env_checker import check_env
from lemmata_core import InvalidInput
from rl_mfpo import MFPOConfig
from rl_mfpo.baselines import KnownValueLearner, flow_matching_learner
from rl_mfpo.goals import GoalRun, nearest_neighbour_entropy, run_goals
from rl_mfpo.returns import interquartile_mean, mfpo_curve
from rl_mfpo.toys import GaussianMixture, bandit_q, goal_reward, goal_shares, goals, total_variation

SMALL = {"hidden_sizes": (32, 32), "batch_size": 64, "actor_batch_size": 64}


@pytest.mark.parametrize("env_id", ["rl_mfpo/MultiGoal-v0", "rl_mfpo/Bandit-v0"])
def test_the_registered_environments_are_sound(env_id):
    env = gymnasium.make(env_id)
    check_env(env.unwrapped, skip_render_check=True)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (1,)
    _, reward, terminated, truncated, _ = env.step(np.array([0.3, -0.2], np.float32))
    assert terminated
    assert not truncated
    assert math.isfinite(reward)


def test_goals_and_rewards_by_hand():
    assert goals("wide").tolist() == pytest.approx(np.array([[0.7, 0], [-0.7, 0], [0, 0.7], [0, -0.7]]))
    assert goal_reward(np.array([0.7, 0.0])) == pytest.approx(1.0)
    assert goal_reward(np.array([0.6, 0.15]), "narrow") == pytest.approx(math.exp(-0.5))
    with pytest.raises(InvalidInput, match="layout"):
        goals("wid")
    shares = goal_shares(np.array([[0.7, 0.0], [0.7, 0.1], [0.0, 0.0], [0.0, -0.7]]))
    assert shares.tolist() == [0.5, 0.0, 0.0, 0.25]


@pytest.mark.parametrize(
    ("layout", "alpha", "entropy", "reward"),
    [
        ("wide", 0.2, 0.61, 0.765),
        ("wide", 0.1, -0.24, 0.887),
        ("narrow", 0.25, 0.47, 0.542),
        ("narrow", 0.15, -0.77, 0.782),
    ],
)
def test_the_exact_policies_on_the_goals_by_quadrature(layout, alpha, entropy, reward):
    n = 400
    x = (np.arange(n) + 0.5) * 2 / n - 1
    r = goal_reward(np.stack(np.meshgrid(x, x, indexing="ij"), -1), layout)
    density = np.exp(r / alpha)
    density /= density.sum() * (2 / n) ** 2
    assert -(density * np.log(density)).sum() * (2 / n) ** 2 == pytest.approx(entropy, abs=0.01)
    assert (density * r).sum() * (2 / n) ** 2 == pytest.approx(reward, abs=0.005)


def test_exact_samples_have_the_floor_of_the_total_variation():
    mixture = GaussianMixture()
    samples = mixture.sample(8000, torch.Generator().manual_seed(0))
    assert total_variation(samples, mixture) == pytest.approx(0.05, abs=0.01)
    assert total_variation(torch.full((100, 2), 0.9), mixture) > 0.95


def test_the_bandits_value_is_the_mixtures_log_density_times_alpha():
    at_mode = bandit_q(torch.tensor([0.6, 0.0], dtype=torch.float64)).item()
    assert at_mode == pytest.approx(0.2 * (math.log(0.25) - math.log(2 * math.pi * 0.12**2)), abs=1e-6)


def test_nearest_neighbour_entropy_of_a_gaussian():
    samples = 0.3 * torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
    assert nearest_neighbour_entropy(samples) == pytest.approx(math.log(2 * math.pi * math.e * 0.09), abs=0.06)


def test_plain_flow_matching_learns_the_velocity_and_samples_by_euler_steps():
    config = MFPOConfig.preset("small", **SMALL)
    learner = flow_matching_learner(3, 2, config, steps=5, seed=0)
    assert learner.config.data_proportion == 1.0
    obs, noise = torch.randn(4, 3), torch.randn(4, 2)
    x = noise
    with torch.no_grad():
        for i in range(5, 0, -1):
            t = torch.full((4, 1), i / 5)
            x = x - learner.policy.velocity_net(x, obs, t, torch.zeros_like(t)) / 5
    torch.testing.assert_close(learner.policy.sample(obs, noise=noise), x.clamp(-1, 1), rtol=0, atol=1e-5)


def test_an_actor_with_the_exact_velocity_comes_closer_to_the_target():
    mixture = GaussianMixture()
    config = MFPOConfig.preset("small", **{**SMALL, "k_policy": 1, "temperature": 0.2})
    learner = KnownValueLearner(2, config, velocity=mixture.velocity, divergence=False, seed=0)
    before = total_variation(learner.draw(4000, steps=20, euler=True), mixture)
    learner.improve(400)
    assert total_variation(learner.draw(4000, steps=20, euler=True), mixture) < 0.85 * before
    assert not learner.policy.instantaneous


def test_a_network_of_the_divergence_learns_the_likelihood_of_a_smooth_flow():
    # One wide mode: the flow stays smooth, and the T-step map is one-to-one.
    target = GaussianMixture(means=((0.2, -0.1),), std=0.3)
    config = MFPOConfig.preset("small", **{**SMALL, "k_policy": 1, "temperature": 0.2})
    learner = KnownValueLearner(2, config, velocity=target.velocity, seed=0)
    learner.improve(900)
    network, exact, rmse = learner.entropies()
    assert network == pytest.approx(exact, abs=0.15)
    assert exact == pytest.approx(math.log(2 * math.pi * math.e * 0.09), abs=0.35)
    assert rmse < 0.5


def test_a_goal_run_goes_on_where_it_stopped(tmp_path):
    options = {"hidden_sizes": (16,), "batch_size": 32, "actor_batch_size": 16}
    straight = run_goals(0, "wide", 12, 6, **options)
    assert [look["updates"] for look in straight] == [6, 12]
    assert len(straight[0]["shares"]) == 4
    first = GoalRun(0, "wide", 12, **options)
    first.save(tmp_path / "run.pt", [first.look(first.train(6))])
    assert run_goals(0, "wide", 12, 6, tmp_path / "run.pt", **options) == straight


def test_a_curve_goes_on_where_it_stopped(tmp_path):
    options = {"learning_starts": 40, "batch_size": 32, "actor_batch_size": 16, "hidden_sizes": (16,)}
    straight = mfpo_curve("Pendulum-v1", 0, 90, 45, 1, **options)
    mfpo_curve("Pendulum-v1", 0, 45, 45, 1, tmp_path / "run", **options)
    assert mfpo_curve("Pendulum-v1", 0, 90, 45, 1, tmp_path / "run", **options) == straight


def test_interquartile_mean_by_hand():
    assert interquartile_mean(np.array([4.0, 1.0, 2.0, 100.0]))[0] == pytest.approx(3.0)
    mean, low, high = interquartile_mean(np.array([1.0, 2.0, 6.0]))
    # Weights 1/12, 4/12, 1/12 between the quartiles.
    assert mean == pytest.approx((1 + 8 + 6) / 6)
    assert low <= mean <= high


@pytest.mark.slow
def test_the_wide_goals_stay_alive_at_a_fixed_temperature():
    # T2b of the design: fixed alpha 0.1; the exact policy has entropy -0.243.
    run = GoalRun(0, "wide", 4500, temperature=0.1)
    look = run.look(run.train(4500))
    assert look["entropy_nn"] == pytest.approx(-0.243, abs=0.3)
