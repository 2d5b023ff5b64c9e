"""The multi-goal experiment: learned critics on one-step goals, the learner beside a Gaussian policy."""

from __future__ import annotations

import json
import math
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lemmata_core.files import atomic_write
from numpy.typing import NDArray
from torch import Tensor

from rl_mfpo.config import MFPOConfig
from rl_mfpo.errors import HealthWarning
from rl_mfpo.learner import Batch, MFPOLearner
from rl_mfpo.toys import goal_reward, goal_shares

RANDOM_ACTIONS = 500
SAMPLES = 3000
# Rewards lie in [0, 1]; the support is not much wider.
GOAL_CONFIG: dict[str, Any] = {"v_min": -2.0, "v_max": 2.0, "learning_starts": RANDOM_ACTIONS}
# Ways to drive the temperature that the study compares.
RULES: dict[str, dict[str, Any]] = {
    "no floor": {},
    "floor 0.1": {"min_temperature": 0.1},
    "change of variables": {"entropy_estimator": "change_of_variables"},
    "min_ess 3": {"min_ess": 3.0},
    "two ADN steps, rate x 2": {"divergence_steps": 2, "divergence_lr": 2e-3},
}


def nearest_neighbour_entropy(samples: Tensor, k: int = 4) -> float:
    """Kozachenko and Leonenko's estimate of the entropy of points (n, d), in nats."""
    n, d = samples.shape
    x = samples.double()
    distance = torch.cdist(x, x).kthvalue(k + 1, dim=1).values.clamp_min(1e-12)
    ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    digamma = torch.special.digamma(torch.tensor([float(n), float(k)], dtype=torch.float64))
    return float(digamma[0] - digamma[1]) + ball + d * float(distance.log().mean())


class GoalRun:
    """Training on the goals, one action and one update a step, in memory.

    Parameters
    ----------
    seed : int
    layout : {"wide", "narrow"}
    steps : int
        Updates that will be made at most.
    **overrides
        Fields of `MFPOConfig` on top of preset "small" and a support of +-2.
    """

    def __init__(self, seed: int, layout: str, steps: int, **overrides: Any) -> None:
        self.layout = layout
        self.learner = MFPOLearner(1, 2, MFPOConfig.preset("small", **{**GOAL_CONFIG, **overrides}), seed=seed)
        self.rng = np.random.default_rng(seed)
        self.actions = torch.empty(RANDOM_ACTIONS + steps, 2)
        self.rewards = torch.empty(RANDOM_ACTIONS + steps)
        self.size = RANDOM_ACTIONS
        first = self.rng.uniform(-1, 1, (RANDOM_ACTIONS, 2)).astype(np.float32)
        self.actions[: self.size] = torch.from_numpy(first)
        self.rewards[: self.size] = torch.from_numpy(goal_reward(first, layout))

    def save(self, path: Path, looks: list[dict[str, Any]]) -> None:
        """Write all that a continuation needs, and what was seen so far."""
        rng = self.rng.bit_generator.state
        state = {"learner": self.learner.state_dict(), "actions": self.actions, "rewards": self.rewards}
        # The generator's integers have 128 bits, more than torch stores.
        with atomic_write(path, "wb") as file:
            torch.save({**state, "size": self.size, "rng": json.dumps(rng), "looks": json.dumps(looks)}, file)

    def load(self, path: Path) -> list[dict[str, Any]]:
        """Continue from what `save` wrote; return what was seen so far."""
        state = torch.load(path, weights_only=True)
        self.learner.load_state_dict(state["learner"])
        self.actions, self.rewards, self.size = state["actions"], state["rewards"], state["size"]
        self.rng.bit_generator.state = json.loads(state["rng"])
        looks: list[dict[str, Any]] = json.loads(state["looks"])
        return looks

    def train(self, updates: int) -> dict[str, float]:
        """Make updates, each after one more action of the policy; return the last metrics."""
        obs = torch.zeros(1, 1)
        rows = torch.zeros(self.learner.config.batch_size, 1)
        ended = torch.ones(len(rows))
        metrics: dict[str, float] = {}
        with warnings.catch_warnings():
            # What the warnings speak of is what the experiment measures.
            warnings.simplefilter("ignore", HealthWarning)
            for _ in range(updates):
                action = self.learner.policy.sample(obs, generator=self.learner.generator)[0]
                self.actions[self.size] = action
                self.rewards[self.size] = float(goal_reward(action.numpy(), self.layout))
                self.size += 1
                index = torch.from_numpy(self.rng.integers(0, self.size, len(rows)))
                batch = Batch(rows, self.actions[index], self.rewards[index], rows, ended)
                metrics = self.learner.update(batch)
        return metrics

    def look(self, metrics: dict[str, float]) -> dict[str, Any]:
        """Goals reached, rewards by the number of sampling steps, and the entropy by three estimates."""
        policy = self.learner.policy
        obs, noise = torch.zeros(SAMPLES, 1), torch.randn(SAMPLES, 2, generator=torch.Generator().manual_seed(1))
        drawn = policy.flow(obs, noise.unsqueeze(1), 2, log_prob=True)
        end, log_prob, negative = policy.change_of_variables(obs, noise, 2)
        reward = {
            steps: float(goal_reward(policy.sample(obs, steps=steps, noise=noise).numpy(), self.layout).mean())
            for steps in (2, 4, 20)
        }
        shares = goal_shares(end.clamp(-1, 1).numpy(), self.layout)
        assert drawn.log_prob is not None  # noqa: S101 - asked for
        return {
            "updates": self.learner.n_updates,
            "shares": [round(float(s), 4) for s in shares],
            "min_share": float(shares.min()),
            "reward": reward[2],
            "reward_4": reward[4],
            "reward_20": reward[20],
            "alpha": self.learner.alpha,
            "entropy_adn": -float(drawn.log_prob.mean()),
            "entropy_cov": -float(log_prob.mean()),
            "entropy_nn": nearest_neighbour_entropy(end),
            "negative_share": float(negative.float().mean()),
            "ess_policy": metrics.get("ess_policy", math.nan),
            "ess_gaussian": metrics.get("ess_gaussian", math.nan),
        }


def run_goals(
    seed: int, layout: str, updates: int, every: int, store: Path | None = None, **overrides: Any
) -> list[dict[str, Any]]:
    """Train on the goals and look every `every` updates; with `store`, a file, go on from the last look."""
    run = GoalRun(seed, layout, updates, **overrides)
    looks = run.load(store) if store is not None and store.exists() else []
    while len(looks) < updates // every:
        looks.append(run.look(run.train(every)))
        if store is not None:
            run.save(store, looks)
    return looks


def run_goals_sac(seed: int, layout: str, updates: int) -> dict[str, Any]:
    """Stable-baselines3's SAC on the goals: equal widths, batch, rate and random actions; temperature from 0.2."""
    import gymnasium

    SAC = import_module("stable_baselines3").SAC  # a peer: here for the comparison alone

    env = gymnasium.make("rl_mfpo/MultiGoal-v0", layout=layout)
    model = SAC(
        "MlpPolicy", env, learning_rate=1e-3, batch_size=128, learning_starts=RANDOM_ACTIONS, ent_coef="auto_0.2",
        target_entropy=-1.0, policy_kwargs={"net_arch": [64, 64]}, seed=seed, device="cpu",
    )  # fmt: skip
    model.learn(RANDOM_ACTIONS + updates)
    assert model.log_ent_coef is not None  # noqa: S101 - adapted
    obs = np.zeros((SAMPLES, 1), np.float32)
    action: NDArray[np.float32] = model.predict(obs, deterministic=False)[0]
    shares = goal_shares(action, layout)
    return {
        "updates": updates,
        "shares": [round(float(s), 4) for s in shares],
        "min_share": float(shares.min()),
        "reward": float(goal_reward(action, layout).mean()),
        "alpha": float(torch.exp(model.log_ent_coef.detach())),
    }
