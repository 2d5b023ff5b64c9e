"""One update of mean flow policy optimisation, and everything that it needs to go on bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rl_mfpo.config import MFPOConfig
from rl_mfpo.policy import MeanFlowPolicy


class Batch(NamedTuple):
    """Transitions, float32 tensors on the learner's device.

    Attributes
    ----------
    obs : Tensor, shape (B, O)
    action : Tensor, shape (B, A)
        In [-1, 1].
    reward : Tensor, shape (B,)
    next_obs : Tensor, shape (B, O)
    terminated : Tensor, shape (B,)
        1 where the episode ended in a terminal state; 0 where it was cut off by a time limit.
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor


class MFPOLearner:
    """Skeleton: signatures are final."""

    policy: MeanFlowPolicy
    config: MFPOConfig
    device: torch.device
    generator: torch.Generator
    n_updates: int
    reduce_gradients: Callable[[list[nn.Parameter]], None] | None
    reduce_scalar: Callable[[Tensor], Tensor] | None

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        config: MFPOConfig | None = None,
        device: torch.device | str = "cpu",
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        raise NotImplementedError

    def update(self, batch: Batch) -> dict[str, float]:
        """One update of section 2.7; raises TrainingDiverged before a step that would spoil the networks."""
        raise NotImplementedError

    def set_value_range(self, v_min: float, v_max: float) -> None:
        """Move the ends of the critics' support (for v_range="from_rewards", before the first update)."""
        raise NotImplementedError

    def parameters(self) -> list[nn.Parameter]:
        """Every tensor that ranks must agree on at the start (online, target, log_alpha), for broadcasting."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything for a bit-exact continuation; tensors, ints, floats, strs, lists and dicts only."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; the tensors are copied."""
        raise NotImplementedError
