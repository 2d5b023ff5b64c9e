"""The velocity of the Boltzmann policy exp(Q / alpha) by two self-normalised importance samplers.

At a point x of the path at time t, the wanted velocity is the posterior mean of (x - a) / t under weights proportional
to exp(Q(a) / alpha) N(x; (1 - t) a, t^2 I), a in the box [-1, 1]^A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int
from torch import Tensor

from rl_mfpo.functional.checks import floats, like, temperature
from rl_mfpo.functional.truncnorm import truncated_normal

TIME_CLAMP = 1e-4  # both proposals divide by t or by 1 - t
BISECTIONS = 12


class VelocityEstimate(NamedTuple):
    """What `estimate_velocity` found.

    Attributes
    ----------
    velocity : Tensor, shape (B, A)
    ess_policy, ess_gaussian : Tensor, shape (B,)
        Effective sample sizes, from 1 to the number of samples; 0 where the mode does not use the sampler.
    """

    velocity: Tensor
    ess_policy: Tensor
    ess_gaussian: Tensor


class Proposals(NamedTuple):
    """Actions of both samplers side by side, and the part of their log-weights that is not Q / alpha."""

    actions: Tensor  # (B, K1 + K2, A)
    log_weight: Tensor  # (B, K1 + K2)
    k_policy: int


def gaussian_proposal(x: Tensor, t: Tensor, k: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw k actions a = (x - t z) / (1 - t), z a standard normal truncated so that a lies in the box.

    Parameters
    ----------
    x : Tensor, shape (B, A)
    t : Tensor, shape (B, 1)
        Strictly between 0 and 1.
    k : int

    Returns
    -------
    Tensor, shape (B, k, A)
        In [-1, 1]; under the weights N(x; (1 - t) a, t^2 I) on the box they are exact draws.
    """
    x64, t64 = x.double().unsqueeze(1), t.double().unsqueeze(1)
    low, high = (x64 - (1 - t64)) / t64, (x64 + (1 - t64)) / t64
    z = truncated_normal(low.expand(-1, k, -1), high.expand(-1, k, -1), generator=generator)
    return ((x64 - t64 * z) / (1 - t64)).clamp_(-1, 1).to(x.dtype)


def propose(
    x: Tensor,
    t: Tensor,
    *,
    policy_actions: Tensor | None,
    policy_log_prob: Tensor | None,
    k_gaussian: int,
    mode: str,
    generator: torch.Generator | None,
) -> Proposals:
    """Collect the actions of the samplers that `mode` uses."""
    actions, weights, k_policy = [], [], 0
    if mode != "gaussian":
        assert policy_actions is not None  # noqa: S101 - `_check_policy` has seen to both
        assert policy_log_prob is not None  # noqa: S101
        k_policy = policy_actions.shape[1]
        gap = (x.unsqueeze(1) - (1 - t).unsqueeze(1) * policy_actions) / t.unsqueeze(1)
        actions.append(policy_actions)
        weights.append(gap.square().sum(-1).mul_(-0.5).sub_(policy_log_prob))
    if mode != "policy":
        actions.append(gaussian_proposal(x, t, k_gaussian, generator=generator))
        weights.append(x.new_zeros(x.shape[0], k_gaussian))
    if len(actions) == 1:
        return Proposals(actions[0], weights[0], k_policy)
    return Proposals(torch.cat(actions, 1), torch.cat(weights, 1), k_policy)


def self_normalised(log_weight: Tensor, actions: Tensor, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Velocity and effective sample size of one sampler.

    Parameters
    ----------
    log_weight : Tensor, shape (B, K)
    actions : Tensor, shape (B, K, A)
    x : Tensor, shape (B, A)
    t : Tensor, shape (B, 1)

    Returns
    -------
    velocity : Tensor, shape (B, A)
    ess : Tensor, shape (B,)
    """
    weight = torch.softmax(log_weight, -1)
    mean = (weight.unsqueeze(1) @ actions).squeeze(1)
    return (x - mean) / t, weight.square().sum(-1).reciprocal()


def combine(
    proposals: Proposals, scaled_q: Tensor, x: Tensor, t: Tensor, min_ess: float | None = None
) -> tuple[VelocityEstimate, Tensor | None]:
    """Weigh the proposals by `scaled_q` = Q / alpha, (B, K1 + K2); return the rows' temper factors too, or None."""
    beta = None if min_ess is None else _temper(proposals, scaled_q, min_ess)
    log_weight = proposals.log_weight + (scaled_q if beta is None else beta.unsqueeze(1) * scaled_q)
    k, total = proposals.k_policy, log_weight.shape[1]
    nothing = x.new_zeros(x.shape[0])
    if k in (0, total):
        velocity, ess = self_normalised(log_weight, proposals.actions, x, t)
        return VelocityEstimate(velocity, ess if k else nothing, nothing if k else ess), beta
    v1, ess1 = self_normalised(log_weight[:, :k], proposals.actions[:, :k], x, t)
    v2, ess2 = self_normalised(log_weight[:, k:], proposals.actions[:, k:], x, t)
    share = (ess1 / (ess1 + ess2 + 1e-10)).unsqueeze(1)
    # The paper divides ess1 v1 + ess2 v2 by ess1 + ess2 + 1e-10; written so, equal up to that 1e-10.
    return VelocityEstimate(torch.lerp(v2, v1, share), ess1, ess2), beta


def _ess(log_weight: Tensor) -> Tensor:
    return torch.softmax(log_weight, -1).square().sum(-1).reciprocal()


def _temper(proposals: Proposals, scaled_q: Tensor, min_ess: float) -> Tensor:
    """A factor in (0, 1] of each row: the least of those with which each sampler reaches `min_ess`, by bisection.

    The Gaussian's size falls as the factor grows, so its own is the largest. The policy's weights hold more than Q: its
    size need not fall, so that its own is one crossing, and it may have less under the Gaussian's. Where it misses
    `min_ess` even with Q left out it has no say.
    """
    k, total = proposals.k_policy, scaled_q.shape[1]
    beta = scaled_q.new_ones(scaled_q.shape[0])
    for part in (slice(0, k), slice(k, total)):
        base, q = proposals.log_weight[:, part], scaled_q[:, part]
        if q.shape[1] == 0:
            continue
        low, high = torch.zeros_like(beta), torch.ones_like(beta)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            enough = _ess(base + middle.unsqueeze(1) * q) >= min_ess
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        fits = (_ess(base + q) >= min_ess) | (_ess(base) < min_ess)
        beta = torch.minimum(beta, torch.where(fits, torch.ones_like(low), low))
    return beta


@torch.no_grad()
def estimate_velocity(
    q: Callable[[Tensor], Tensor],
    x: Tensor,
    t: Tensor,
    alpha: float | Tensor,
    *,
    policy_actions: Tensor | None = None,
    policy_log_prob: Tensor | None = None,
    k_gaussian: int = 32,
    mode: str = "adaptive",
    min_ess: float | None = None,
    generator: torch.Generator | None = None,
) -> VelocityEstimate:
    """Estimate the velocity at (x, t) of the flow whose end is the policy proportional to exp(Q / alpha).

    Parameters
    ----------
    q : callable
        Actions (B, K, A) -> values (B, K); called once, with the actions of both samplers.
    x : Tensor, shape (B, A)
    t : Tensor, shape (B, 1)
        Clamped to [1e-4, 1 - 1e-4].
    alpha : float or Tensor
        Temperature > 0, in the units of Q.
    policy_actions : Tensor, shape (B, K1, A)
        Draws of the current policy, in [-1, 1]. Not needed in mode "gaussian".
    policy_log_prob : Tensor, shape (B, K1)
        Their log-likelihood.
    k_gaussian : int
        K2.
    mode : {"adaptive", "gaussian", "policy"}
        "adaptive": both, each weighted by its effective sample size.
    min_ess : float, optional
        Multiply Q / alpha in each row by the largest factor in (0, 1] with which the Gaussian sampler reaches this
        size, or by less if the policy's asks for it (found by bisection, though its size need not be monotone); from 1
        to the smaller number of samples.
    generator : torch.Generator, optional

    Returns
    -------
    VelocityEstimate
        Without gradient.

    Raises
    ------
    InvalidInput

    Notes
    -----
    arXiv 2604.14698, the adaptive velocity estimate; `min_ess` is an addition.
    """
    one_of(mode, "mode", ("adaptive", "gaussian", "policy"))
    positive_int(k_gaussian, "k_gaussian")
    alpha = temperature(alpha)
    if floats(x, "x", "(B, A)").dim() != 2:
        raise InvalidInput.argument("x", expected="shape (B, A)", got=f"shape {tuple(x.shape)}")
    like(t, "t", x, (len(x), 1))
    if mode != "gaussian":
        _check_policy(x, policy_actions, policy_log_prob, mode)
    t = t.clamp(TIME_CLAMP, 1 - TIME_CLAMP)
    proposals = propose(
        x,
        t,
        policy_actions=policy_actions,
        policy_log_prob=policy_log_prob,
        k_gaussian=k_gaussian,
        mode=mode,
        generator=generator,
    )
    if min_ess is not None:
        sizes = (proposals.k_policy, proposals.actions.shape[1] - proposals.k_policy)
        in_range(min_ess, "min_ess", 1.0, float(min(size for size in sizes if size)))
    values = like(q(proposals.actions), "what q returns", x, proposals.log_weight.shape)
    estimate, _ = combine(proposals, values / alpha, x, t, min_ess)
    return estimate


def _check_policy(x: Tensor, actions: Tensor | None, log_prob: Tensor | None, mode: str) -> None:
    if actions is None or log_prob is None:
        expected = f"actions of the policy and their log-likelihood for mode {mode!r}"
        raise InvalidInput.argument("policy_actions, policy_log_prob", expected=expected, got="None")
    drawn = floats(actions, "policy_actions", "(B, K1, A)", min_ndim=3).shape[1]
    if drawn < 1:
        raise InvalidInput.argument("policy_actions", expected="at least one action a row", got=tuple(actions.shape))
    like(actions, "policy_actions", x, (len(x), drawn, x.shape[1]))
    like(log_prob, "policy_log_prob", x, (len(x), drawn))
