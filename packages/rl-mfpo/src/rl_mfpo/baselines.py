"""What the claims compare with: plain flow matching, one proposal alone, and the actor's part with a known value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rl_mfpo.config import MFPOConfig
from rl_mfpo.learner import MFPOLearner


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
        Whether the average divergence network is trained.
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
        self._exact, self._with_divergence = velocity, divergence
        if q is not None:
            self._values = lambda _obs, actions, *, clipped: q(actions)  # noqa: ARG005 - the critic's signature
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

    def _divergence_step(self, obs: Tensor, action: Tensor, metrics: dict[str, float]) -> None:
        if self._with_divergence:
            super()._divergence_step(obs, action, metrics)

    def draw(self, n: int, *, steps: int = 2, euler: bool = False, seed: int = 1) -> Tensor:
        """Draw n actions with common random numbers; `euler`: steps of the velocity instead of the average velocity."""
        noise = torch.randn(n, self.act_dim, generator=torch.Generator().manual_seed(seed))
        self.policy.instantaneous = euler
        try:
            return self.policy.sample(torch.zeros(n, 1), steps=steps, noise=noise)
        finally:
            self.policy.instantaneous = False
