"""The T jumps from noise to an action: with the divergences summed on the way, or with the jumps' determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rl_mfpo.functional.flow import gaussian_log_density
from rl_mfpo.networks.meanflow import MeanFlowNet, StepConstants
from rl_mfpo.networks.mlp import run_blocks


def carry(
    x: Tensor,
    parts: list[StepConstants],
    biases: list[tuple[Tensor, ...]],
    states: Sequence[Tensor | None],
    k: int,
) -> tuple[Tensor, Tensor | None]:
    """Take all steps with rows x, k a state; also sum the divergences where their network is the second part."""
    total = None
    steps = len(biases[0])
    for step in range(steps):
        if len(parts) == 2:
            value = _evaluate(parts[1], biases[1][step], states[1], x, k)
            total = value if total is None else total.add_(value)
        x = torch.sub(x, _evaluate(parts[0], biases[0][step], states[0], x, k), alpha=1 / steps)
    return x, total


def _evaluate(constants: StepConstants, bias: Tensor, state: Tensor | None, x: Tensor, k: int) -> Tensor:
    """The network at the rows x, k a state, with the first layer put together from its parts."""
    h = torch.addmm(bias, x, constants.x_weight)
    if state is not None:
        if k == 1:
            h.add_(state)
        else:
            h.view(len(state), k, -1).add_(state.unsqueeze(1))
    return run_blocks(h, constants.blocks)


def by_determinants(
    net: MeanFlowNet, obs: Tensor, noise: Tensor, steps: int, *, instantaneous: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The T-step map, its log-likelihood and where it folds: see `MeanFlowPolicy.change_of_variables`."""
    n, dim = noise.shape
    constants = net.constants(steps, instantaneous=instantaneous)
    state = obs @ constants.obs_weight
    # The first layer's tangent of the unit vector e_a is column a of its weight, whatever the row.
    unit = constants.x_weight.unsqueeze(1).expand(dim, n, -1)
    eye = torch.eye(dim, device=noise.device, dtype=noise.dtype)
    x, log_prob, sign = noise, gaussian_log_density(noise), torch.ones_like(noise[:, 0])
    for step in range(steps):
        first = (x @ constants.x_weight).add_(state).add_(constants.times[step])
        y, dy = net.mlp.dual_tail(first, unit)
        sign_i, log_det = torch.linalg.slogdet(eye - dy.permute(1, 2, 0) / steps)
        log_prob, sign = log_prob - log_det.clamp_min(math.log(1e-37)), sign * sign_i
        x = x - y / steps
    return x, log_prob, sign < 0
