"""What the claims compare with: plain flow matching, one proposal alone, and the actor's part with a known value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rl_mfpo.config import MFPOConfig
from rl_mfpo.learner import MFPOLearner
from rl_mfpo.policy import FlowSamples


def flow_matching_learner(
    obs_dim: int, act_dim: int, config: MFPOConfig, *, steps: int = 20, seed: int | None = None, **options: Any
) -> MFPOLearner:
    """The same learner with plain flow matching: every row has r = t, and sampling takes Euler steps of the velocity.

    Parameters
    ----------
    obs_dim, act_dim : int
    config : MFPOConfig
        Its `data_proportion` and `n_sample_steps` are replaced.
    steps : int
        Euler steps an action.
    seed : int, optional
    **options
        Of `MFPOLearner`.
    """
    changed = config.override(data_proportion=1.0, n_sample_steps=steps)
    learner = MFPOLearner(obs_dim, act_dim, changed, seed=seed, **options)
    learner.policy.instantaneous = True
    return learner


class KnownValueLearner(MFPOLearner):
    """The actor's part of the learner on a bandit (one state) whose value is known: no critic is trained.

    Parameters
    ----------
    act_dim : int
    config : MFPOConfig
    q : callable, optional
        Actions (B, K, A) -> values (B, K).
    velocity : callable, optional
        (x, t) -> the exact velocity of the target policy's flow, instead of its estimate from `q`.
    divergence : bool
        Whether there is an average divergence network; without one every log-likelihood is 0.
    seed : int, optional
    """

    def __init__(
        self,
        act_dim: int,
        config: MFPOConfig,
        *,
        q: Callable[[Tensor], Tensor] | None = None,
        velocity: Callable[[Tensor, Tensor], Tensor] | None = None,
        divergence: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(1, act_dim, config, seed=seed)
        self._exact = velocity
        if not divergence:
            without_divergence(self)
        if q is not None:
            self._values = lambda obs, actions, *, clipped: q(actions)  # noqa: ARG005 - the critic's signature
        self._obs = torch.zeros(config.actor_batch_size or config.batch_size, 1)

    def improve(self, updates: int) -> dict[str, float]:
        """Make updates of the actor, and return the last metrics."""
        metrics: dict[str, float] = {}
        for _ in range(updates):
            self.n_updates += 1
            self._actor_update(self._obs, metrics)
        return metrics

    def _velocity(
        self, obs: Tensor, x: Tensor, t: Tensor, actions: Tensor, log_prob: Tensor, metrics: dict[str, float]
    ) -> tuple[Tensor, float]:
        if self._exact is None:
            return super()._velocity(obs, x, t, actions, log_prob, metrics)
        metrics["ess_policy"] = metrics["ess_gaussian"] = float("inf")
        return self._exact(x, t), 0.0

    def entropies(self, n: int = 2000) -> tuple[float, float, float]:
        """Entropy of n samples by the network and by the change of variables, and the RMSE of the log-likelihoods."""
        obs, noise = torch.zeros(n, 1), torch.randn(n, self.act_dim, generator=torch.Generator().manual_seed(1))
        log_prob = self.policy.flow(obs, noise.unsqueeze(1), 2, log_prob=True).log_prob
        assert log_prob is not None  # noqa: S101 - asked for
        _, exact, _ = self.policy.change_of_variables(obs, noise, 2)
        rmse = float((log_prob[:, 0] - exact).square().mean().sqrt())
        return -float(log_prob.mean()), -float(exact.mean()), rmse

    def draw(self, n: int, *, steps: int = 2, euler: bool = False, seed: int = 1) -> Tensor:
        """Draw n actions with common random numbers; `euler`: steps of the velocity instead of the average velocity."""
        noise = torch.randn(n, self.act_dim, generator=torch.Generator().manual_seed(seed))
        self.policy.instantaneous = euler
        try:
            return self.policy.sample(torch.zeros(n, 1), steps=steps, noise=noise)
        finally:
            self.policy.instantaneous = False


def without_divergence(learner: MFPOLearner) -> MFPOLearner:
    """Take the average divergence network out of a learner (the paper's ablation: every log-likelihood is 0)."""
    flow = learner.policy.flow

    def silent(obs: Tensor, noise: Tensor, steps: int, *, log_prob: bool) -> FlowSamples:
        end = flow(obs, noise, steps, log_prob=False).unclipped
        return FlowSamples(end, torch.zeros(noise.shape[:-1]) if log_prob else None)

    learner.policy.flow = silent  # type: ignore[method-assign]
    learner._divergence_step = lambda *_: None  # type: ignore[method-assign]
    learner._look_at_determinants = lambda *_: None  # type: ignore[method-assign]
    return learner
