"""The policy for deployment: plain tensor operations that exporters accept."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from rl_mfpo.networks.meanflow import MeanFlowNet


class DeployedPolicy(nn.Module):
    """The sampler as plain tensor operations, with scaling and clip inside: see `MeanFlowPolicy.deployable`."""

    times: Tensor
    x_weight: Tensor
    obs_weight: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, net: MeanFlowNet, steps: int, low: Tensor, high: Tensor, *, instantaneous: bool) -> None:
        super().__init__()
        constants = net.constants(steps, instantaneous=instantaneous)
        self.steps = steps
        for name in ("times", "x_weight", "obs_weight"):
            self.register_buffer(name, getattr(constants, name).detach().clone())
        self.tail_weights = nn.ModuleList([_copy(layer) for layer in [*net.mlp.hidden[1:], net.mlp.out]])
        self.norms = nn.ModuleList([_copy(norm) for norm in net.mlp.norms])
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Environment actions (B, A) of observations (B, O) and noise (B, A)."""
        state = observation @ self.obs_weight
        x = noise
        for step in range(self.steps):
            h = x @ self.x_weight + state + self.times[step]
            for norm, layer in zip(self.norms, self.tail_weights):
                h = layer(nn.functional.gelu(norm(h), approximate="tanh"))
            x = x - h / self.steps
        action = x.clamp(-1.0, 1.0)
        scaled = self.low + (action + 1.0) * 0.5 * (self.high - self.low)
        # Rounding may carry the scaled action past a bound.
        return torch.minimum(torch.maximum(scaled, self.low), self.high)


def _copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).requires_grad_(requires_grad=False)
