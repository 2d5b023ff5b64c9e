"""The mean flow policy: sampling, log-likelihood of its samples, choice among candidates, deployment."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rl_mfpo.config import MFPOConfig


class SampleLogProb(NamedTuple):
    """Samples with their log-likelihood.

    Attributes
    ----------
    action : Tensor, shape (..., n, A)
        In [-1, 1].
    log_prob : Tensor, shape (..., n)
        In nats, for actions in [-1, 1].
    negative_share : float
        Share of samples at which the T-step map has a negative determinant (0.0 where `exact` is False).
    """

    action: Tensor
    log_prob: Tensor
    negative_share: float


class MeanFlowPolicy(nn.Module):
    """Skeleton: signatures are final."""

    noise_bank: Tensor  # (n_candidates, A), fixed noise of deterministic actions

    def __init__(
        self, obs_dim: int, act_dim: int, config: MFPOConfig, *, generator: torch.Generator | None = None
    ) -> None:
        del obs_dim, act_dim, config, generator
        super().__init__()
        raise NotImplementedError

    def sample(
        self,
        obs: Tensor,
        n: int | None = None,
        *,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Actions in [-1, 1]: obs (B, O) -> (B, A) or (B, n, A); obs (O,) -> (A,) or (n, A)."""
        raise NotImplementedError

    def log_prob_of_samples(
        self,
        obs: Tensor,
        n: int = 1,
        *,
        exact: bool = False,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> SampleLogProb:
        """Samples and their log-likelihood."""
        raise NotImplementedError

    def act(
        self,
        obs: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
        steps: int | None = None,
        n_candidates: int | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Best of candidates, in [-1, 1]: obs (B, O) -> (B, A). deterministic: with the noise bank."""
        raise NotImplementedError

    def deployable(self, steps: int | None = None, low: Tensor | None = None, high: Tensor | None = None) -> nn.Module:
        """A module (observation (B, O), noise (B, A)) -> environment action (B, A), scaled and clipped."""
        raise NotImplementedError
