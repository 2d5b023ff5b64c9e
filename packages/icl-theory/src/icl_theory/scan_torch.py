"""The selective scan in plain torch, for any device and for second derivatives."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def two_level(
    delta: Tensor, x: Tensor, A: Tensor, B: Tensor, C: Tensor, h0: Tensor, *, zoh: bool
) -> tuple[Tensor, Tensor]:
    """The scan in plain torch: steps inside all blocks at once, then a carry from block to block. No division."""
    batch, length, channels = x.shape
    if length == 0:
        return x, h0
    exponent = delta.unsqueeze(-1) * A
    decay = torch.exp(exponent)
    drive = x.unsqueeze(-1) * B.unsqueeze(2)
    if zoh:
        drive = drive * _hold(delta.unsqueeze(-1), exponent)
    block = max(1, math.isqrt(length))
    blocks = -(-length // block)
    padding = blocks * block - length
    if padding:
        decay = torch.cat([decay, decay.new_ones((batch, padding, *decay.shape[2:]))], 1)
        drive = torch.cat([drive, drive.new_zeros((batch, padding, *drive.shape[2:]))], 1)
    shape = (batch, blocks, block, channels, A.shape[1])
    inside, product = [], []
    h = p = None
    for a, v in zip(decay.view(shape).unbind(2), drive.view(shape).unbind(2)):
        h = v if h is None else a * h + v
        p = a if p is None else a * p
        inside.append(h)
        product.append(p)
    local, gain = torch.stack(inside, 2), torch.stack(product, 2)
    carry, starts = h0, []
    for end, through in zip(local[:, :, -1].unbind(1), gain[:, :, -1].unbind(1)):
        starts.append(carry)
        carry = through * carry + end
    states = (local + gain * torch.stack(starts, 1).unsqueeze(2)).flatten(1, 2)[:, :length]
    # Padding decays by 1 and adds 0, so the last carry is the state after the last true step.
    return (states * C.unsqueeze(2)).sum(-1), carry


def _hold(delta: Tensor, exponent: Tensor) -> Tensor:
    """(exp(delta A) - 1) / A with its limit delta at A = 0, value and gradient."""
    near = exponent.abs() < 1e-3
    v = torch.where(near, exponent, torch.zeros_like(exponent))
    series = delta * (1 + v / 2 * (1 + v / 3 * (1 + v / 4 * (1 + v / 5))))
    safe = torch.where(near, torch.ones_like(exponent), exponent)
    return torch.where(near, series, delta * torch.expm1(safe) / safe)
