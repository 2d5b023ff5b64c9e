"""The truncated standard normal by its inverse distribution function, safe in the far tails."""

from __future__ import annotations

import math
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from rl_mfpo.functional.checks import together

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
        If a bound is NaN or no array of real numbers, low > high, or the shapes do not broadcast.
    """
    low, high = _bound(low, "low"), _bound(high, "high")
    if not low.is_floating_point():
        low = low.float()
    high = high.to(low)
    # Not torch.broadcast_shapes, which imports sympy: seconds.
    shape = together({"low": low.shape, "high": high.shape})
    if not bool((low <= high).all()):
        raise InvalidInput.argument("low, high", expected="low <= high everywhere", got="bounds that cross, or NaN")
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=low.device)
    drawn = invert(uniform, low.double(), high.double()).to(low.dtype)
    return torch.minimum(torch.maximum(drawn, low), high)


def _bound(x: Any, name: str) -> Tensor:
    try:
        made = torch.as_tensor(x)
    except (OverflowError, RuntimeError, TypeError, ValueError) as err:
        raise InvalidInput.argument(name, expected="a tensor of real numbers", got=type(x).__name__) from err
    if made.is_complex() or made.dtype == torch.bool or made.layout is not torch.strided:
        raise InvalidInput.argument(name, expected="a dense tensor of real numbers", got=f"{made.dtype}, {made.layout}")
    return made


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
