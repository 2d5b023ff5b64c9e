"""The MeanFlow identity, its counterpart for the divergence, and the T-step sampler.

Time runs from t = 1 (noise) to t = 0 (data) along x_t = (1 - t) a + t e. Networks are callables ``(x, r, t)`` with x of
shape (..., A) and times of shape (..., 1); nothing here knows of states, modules or optimisers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import torch
from lemmata_core.check import positive_int
from torch import Tensor
from torch.autograd import forward_ad

from rl_mfpo.functional.checks import floats, like
from rl_mfpo.functional.times import time_grid

Field = Callable[[Tensor, Tensor, Tensor], Tensor]

LOG_2PI = math.log(2 * math.pi)


def interpolate(action: Tensor, noise: Tensor, t: Tensor) -> Tensor:
    """The point (1 - t) a + t e of the path."""
    return (1 - t) * action + t * noise


@cache
def _prepare_forward_mode() -> None:
    """Let torch load its forward-mode rules, whose import warns of torch's own use of torch.jit.script."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with forward_ad.dual_level():
            forward_ad.make_dual(torch.zeros(1), torch.zeros(1))


def _along(f: Field, x: Tensor, r: Tensor, t: Tensor, velocity: Tensor) -> Tensor:
    """The total derivative of f in t along the flow, in forward mode: the tangent is (velocity, 0, 1)."""
    _prepare_forward_mode()
    with torch.no_grad(), forward_ad.dual_level():
        moving = (
            forward_ad.make_dual(x.detach(), velocity.detach()),
            forward_ad.make_dual(t.detach(), torch.ones_like(t)),
        )
        value, derivative = forward_ad.unpack_dual(f(moving[0], r.detach(), moving[1]))
        return torch.zeros_like(value) if derivative is None else derivative.clone()


def meanflow_target(u: Field, x: Tensor, r: Tensor, t: Tensor, v: Tensor) -> Tensor:
    """Regression target of the average velocity: v - (t - r) du/dt.

    Parameters
    ----------
    u : callable
        The network (x, r, t) -> (B, A) whose derivative du/dt along (v, 0, 1) is taken, in forward mode.
    x : Tensor, shape (B, A)
    r, t : Tensor, shape (B, 1)
        ``r <= t``; the factor t - r is clipped to [0, 1].
    v : Tensor, shape (B, A)
        The instantaneous velocity at (x, t), or an unbiased estimate.

    Returns
    -------
    Tensor, shape (B, A)
        Without gradient.

    Raises
    ------
    InvalidInput
        For what is no tensor of floating point, or one of another shape or dtype than `x` asks for.

    Notes
    -----
    The MeanFlow identity, arXiv 2604.14698; u(x, r, t) is (1 / (t - r)) times the integral of v from r to t.
    """
    _check_point(x, r, t, v)
    slope = like(_along(u, x, r, t, v), "what u returns", x, x.shape)
    return v.detach() - (t - r).clamp(0, 1) * slope


def divergence_target(delta: Field, x: Tensor, r: Tensor, t: Tensor, v: Tensor, div: Tensor) -> Tensor:
    """Regression target of the average divergence: div - (t - r) d delta/dt.

    Parameters
    ----------
    delta : callable
        The network (x, r, t) -> (B, 1).
    x : Tensor, shape (B, A)
    r, t : Tensor, shape (B, 1)
    v : Tensor, shape (B, A)
        The velocity of the flow whose likelihood is wanted: the model's own, u(x, t, t).
    div : Tensor, shape (B, 1) or (B,)
        The divergence of v at (x, t), or an unbiased estimate.

    Returns
    -------
    Tensor, shape (B, 1)
        Without gradient.

    Raises
    ------
    InvalidInput
        As `meanflow_target`.
    """
    _check_point(x, r, t, v)
    like(div, "div", x, t.shape[:-1] if getattr(div, "ndim", None) == t.ndim - 1 else t.shape)
    slope = like(_along(delta, x, r, t, v), "what delta returns", x, t.shape)
    return div.detach().reshape(t.shape) - (t - r).clamp(0, 1) * slope


def _check_point(x: Tensor, r: Tensor, t: Tensor, v: Tensor) -> None:
    times = (*floats(x, "x").shape[:-1], 1)
    like(r, "r", x, times)
    like(t, "t", x, times)
    like(v, "v", x, x.shape)


def gaussian_log_density(noise: Tensor) -> Tensor:
    """Log-density of N(0, I) over the last axis: (..., A) -> (...)."""
    return -0.5 * noise.square().sum(-1) - 0.5 * noise.shape[-1] * LOG_2PI


def sample_flow(
    u: Field, noise: Tensor, *, steps: int = 2, divergence: Field | None = None, clip: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Carry noise to data in `steps` jumps of the average velocity.

    Parameters
    ----------
    u : callable
        (x, r, t) -> average velocity from t down to r, shape (..., A).
    noise : Tensor, shape (..., A)
        Draws of N(0, I).
    steps : int
        T; the grid is i / T.
    divergence : callable, optional
        (x, r, t) -> average divergence, shape (..., 1); asked for at the sampler's own points.
    clip : bool
        Whether the last point is clipped to [-1, 1]. The log-likelihood is that before the clip.

    Returns
    -------
    action : Tensor, shape (..., A)
    log_prob : Tensor, shape (...), or None
        log N(noise) + the mean of the divergences; None without `divergence`.

    Raises
    ------
    InvalidInput
        If `noise` is no tensor of floating point, `steps` no integer >= 1, or a callable returns another shape.
    """
    grid = time_grid(positive_int(steps, "steps"))
    floats(noise, "noise")
    x, total = noise, None
    for i in range(steps, 0, -1):
        t, r = torch.full_like(noise[..., :1], grid[i]), torch.full_like(noise[..., :1], grid[i - 1])
        if divergence is not None:
            step = like(divergence(x, r, t), "what divergence returns", x, t.shape)[..., 0]
            total = step if total is None else total + step
        x = x - like(u(x, r, t), "what u returns", x, x.shape) / steps
    log_prob = None if total is None else gaussian_log_density(noise) + total / steps
    return (x.clamp(-1, 1) if clip else x), log_prob
