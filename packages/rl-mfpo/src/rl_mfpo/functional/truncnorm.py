"""The truncated standard normal by its inverse distribution function, safe in the far tails."""

from __future__ import annotations

import math

import torch
from lemmata_core import InvalidInput
from torch import Tensor

TAIL = 5.0  # sigmas: with the nearer bound beyond, the distribution function is handled by its logarithm
NEWTON_STEPS = 5


def truncated_normal(low: Tensor, high: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw from N(0, 1) restricted to [low, high], entry by entry.

    Parameters
    ----------
    low, high : Tensor
        Bounds, low <= high, broadcast together; infinite ones are allowed. The result has the dtype of `low`.
    generator : torch.Generator, optional
        On the bounds' device.

    Returns
    -------
    Tensor
        On the bounds' device; never NaN, never outside the bounds. The computation is in float64.

    Raises
    ------
    InvalidInput
        If a bound is NaN, or low > high.
    """
    low, high = torch.as_tensor(low), torch.as_tensor(high)
    if not low.is_floating_point():
        low = low.float()
    high = high.to(low)
    if not bool((low <= high).all()):
        raise InvalidInput.argument("low, high", expected="low <= high everywhere", got="bounds that cross, or NaN")
    # Not torch.broadcast_shapes, which imports sympy: seconds.
    uniform = torch.rand((low + high).shape, generator=generator, dtype=torch.float64, device=low.device)
    drawn = invert(uniform, low.double(), high.double()).to(low.dtype)
    return torch.minimum(torch.maximum(drawn, low), high)


def invert(uniform: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Quantiles of the truncated normal: float64 in, float64 out; `uniform` in [0, 1)."""
    # Mirrored to the lower tail, where the distribution function keeps its relative precision.
    flip = low + high > 0
    a, b = torch.where(flip, -high, low), torch.where(flip, -low, high)
    below, above = torch.special.ndtr(a), torch.special.ndtr(b)
    z = torch.special.ndtri(torch.addcmul(below, uniform, above - below).clamp_(1e-300, 1 - 2**-53))
    far = b < -TAIL
    if bool(far.any()):
        z = torch.where(far, _invert_tail(uniform, a, b), z)
    z = torch.minimum(torch.maximum(z, a), b)
    return torch.where(flip, -z, z)


def _invert_tail(uniform: Tensor, a: Tensor, b: Tensor) -> Tensor:
    # Entries outside the tail are computed too, at a harmless place, and not used.
    near = b.clamp(max=-TAIL)
    mass = torch.exp(torch.special.log_ndtr(torch.minimum(a, near)) - torch.special.log_ndtr(near))
    # log of the share of the tail below `near` that lies below the quantile; in (-745, 0].
    share = torch.log((uniform + (1 - uniform) * mass).clamp_min(1e-320))
    target = torch.special.log_ndtr(near) + share
    z = -torch.sqrt(near.square() - 2 * share)
    for _ in range(NEWTON_STEPS):
        # d/dz log ndtr(z) = phi(z) / Phi(z), without cancellation by the scaled complementary error function.
        slope = math.sqrt(2 / math.pi) / torch.special.erfcx(-z / math.sqrt(2))
        z = torch.minimum(z - (torch.special.log_ndtr(z) - target) / slope, near)
    return z
