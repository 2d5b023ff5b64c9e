"""The mean flow policy: sampling, log-likelihood of its samples, choice among candidates, deployment.

One class and long by its docstrings: what could stand alone (jumps, networks, deployment) already does, and its public
methods share the checks at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int
from torch import Tensor, nn

from rl_mfpo.config import MFPOConfig
from rl_mfpo.deployed import DeployedPolicy
from rl_mfpo.functional.flow import gaussian_log_density
from rl_mfpo.jumps import by_determinants, carry
from rl_mfpo.networks.critic import TwinCritic
from rl_mfpo.networks.meanflow import MeanFlowNet
from rl_mfpo.networks.mlp import CHUNK, run_blocks


class SampleLogProb(NamedTuple):
    """Samples with their log-likelihood.

    Attributes
    ----------
    action : Tensor, shape (..., n, A)
        In [-1, 1].
    log_prob : Tensor, shape (..., n)
        In nats, for actions in [-1, 1], not corrected for the last clip.
    negative_share : float
        Share of the samples at which the T-step map has a negative determinant, where the "exact" value is no density;
        0.0 for the average divergence network's.
    """

    action: Tensor
    log_prob: Tensor
    negative_share: float


class FlowSamples(NamedTuple):
    """What `MeanFlowPolicy.flow` found: the end of the flow before the clip, and the log-likelihood, or None."""

    unclipped: Tensor
    log_prob: Tensor | None


class MeanFlowPolicy(nn.Module):
    """A policy that carries Gaussian noise to an action in a few jumps of an average velocity.

    There is no log-likelihood of an arbitrary action: the average divergence is integrated along the trajectory that
    led to a sample, and a mean flow has no inverse.

    Parameters
    ----------
    obs_dim, act_dim : int
    config : MFPOConfig
    generator : torch.Generator, optional
        For the weights and the noise bank; on the CPU.

    Attributes
    ----------
    velocity_net, divergence_net : MeanFlowNet
        u and delta.
    target_critic : TwinCritic
        Chooses among the candidates at evaluation.
    noise_bank : Tensor, shape (n_candidates, A)
        The fixed noise of deterministic actions.
    instantaneous : bool
        Sample by Euler steps of the velocity u(s, x, t, t): plain flow matching, for comparisons.
    """

    noise_bank: Tensor

    def __init__(
        self, obs_dim: int, act_dim: int, config: MFPOConfig, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        obs_dim, act_dim = positive_int(obs_dim, "obs_dim"), positive_int(act_dim, "act_dim")
        self.obs_dim, self.act_dim, self.config = obs_dim, act_dim, config
        self.instantaneous = False
        hidden = config.hidden_sizes
        self.velocity_net = MeanFlowNet(obs_dim, act_dim, act_dim, hidden, generator=generator)
        self.divergence_net = MeanFlowNet(obs_dim, act_dim, 1, hidden, generator=generator)
        self.target_critic = TwinCritic(
            obs_dim,
            act_dim,
            hidden,
            n_atoms=config.n_atoms if config.critic == "categorical" else 1,
            v_min=config.v_min,
            v_max=config.v_max,
            generator=generator,
        )
        for parameter in self.target_critic.parameters():
            parameter.requires_grad_(False)
        self.register_buffer("noise_bank", torch.randn(config.n_candidates, act_dim, generator=generator))

    @torch.no_grad()
    def flow(self, obs: Tensor, noise: Tensor, steps: int, *, log_prob: bool) -> FlowSamples:
        """Carry noise (B, K, A) to actions at states (B, O), without clip and without gradient.

        Rows go through all steps in chunks that stay in the cache; the state's and the times' parts of the first layer
        are computed once a state and once a step.
        """
        n, k, _ = noise.shape
        if n == 1 and not log_prob:
            return FlowSamples(self.flow_one(obs, noise[0], steps).view(noise.shape), None)
        nets = [self.velocity_net, self.divergence_net] if log_prob else [self.velocity_net]
        parts = [net.constants(steps, instantaneous=self.instantaneous) for net in nets]
        if n == 1:
            # One state: its part of the first layer is a bias, as the time's is.
            biases = [torch.addmm(c.times, obs.expand(steps, -1), c.obs_weight).unbind() for c in parts]
            x, total = carry(noise[0], parts, biases, [None] * len(parts), k)
            return self._finish(x.view(noise.shape), total, noise, steps)
        biases, states = [c.times.unbind() for c in parts], [obs @ c.obs_weight for c in parts]
        size = max(1, CHUNK // k)
        if n <= size:
            x, total = carry(noise.flatten(0, 1), parts, biases, states, k)
            return self._finish(x.view(noise.shape), total, noise, steps)
        pieces = [
            carry(noise[i : i + size].flatten(0, 1), parts, biases, [s[i : i + size] for s in states], k)
            for i in range(0, n, size)
        ]
        end = torch.cat([x for x, _ in pieces]).view(noise.shape)
        return self._finish(end, torch.cat([t for _, t in pieces if t is not None]) if log_prob else None, noise, steps)

    def flow_one(self, obs: Tensor, noise: Tensor, steps: int) -> Tensor:
        """`flow` of noise (K, A) at one state (1, O), without likelihood: (K, A). Gradients are the caller's to forbid.

        The way of a single action, where every call beside the network's own is felt.
        """
        net = cast("MeanFlowNet", self._modules["velocity_net"])  # quicker than the attribute
        constants = net.constants(steps, instantaneous=self.instantaneous)
        x, weight, blocks, share = noise, constants.x_weight, constants.blocks, 1 / steps
        # The state's part of the first layer is a bias, as the time's is.
        for bias in torch.addmm(constants.times, obs.expand(steps, -1), constants.obs_weight).unbind():
            x = torch.sub(x, run_blocks(torch.addmm(bias, x, weight), blocks), alpha=share)
        return x

    def _finish(self, end: Tensor, total: Tensor | None, noise: Tensor, steps: int) -> FlowSamples:
        if total is None:
            return FlowSamples(end, None)
        return FlowSamples(end, total.view(noise.shape[:-1]).div_(steps).add_(gaussian_log_density(noise)))

    @torch.no_grad()
    def change_of_variables(self, obs: Tensor, noise: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """The T-step map's own log-likelihood, by the determinants of its Jacobians.

        Parameters
        ----------
        obs : Tensor, shape (N, O)
        noise : Tensor, shape (N, A)
        steps : int

        Returns
        -------
        end : Tensor, shape (N, A)
            Not clipped.
        log_prob : Tensor, shape (N,)
            log N(noise) - sum_i log |det(I - J_i / T)|: the density where the map is one-to-one. A determinant of zero
            counts as the smallest positive number.
        negative : Tensor of bool, shape (N,)
            Where the product of the determinants is negative: the map folds.
        """
        return by_determinants(self.velocity_net, obs, noise, steps, instantaneous=self.instantaneous)

    def sample(
        self,
        obs: Any,
        n: int | None = None,
        *,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Draw actions.

        Parameters
        ----------
        obs : array_like or Tensor, shape (B, O) or (O,)
        n : int, optional
            Actions a state; None: one, without an axis for it.
        steps : int, optional
            Network evaluations an action; `config.n_sample_steps` unless given. Any number works on one trained policy.
        generator : torch.Generator, optional
            torch's global one unless given.
        noise : Tensor, optional
            Draws of N(0, I) of the result's shape, instead of a generator: common random numbers.

        Returns
        -------
        Tensor, shape (B, A) or (B, n, A), or without B
            In [-1, 1], float32, without gradient.

        Raises
        ------
        InvalidInput
        """
        obs, single = self._observations(obs)
        noise = self._noise(obs, n, noise, generator, single=single)
        if n is None and len(obs) == 1:
            with torch.no_grad():
                action = self.flow_one(obs, noise, self._steps(steps)).clamp_(-1, 1)
            return action.squeeze(0) if single else action
        if n is None:
            noise = noise.unsqueeze(1)
        action = self.flow(obs, noise, self._steps(steps), log_prob=False).unclipped.clamp_(-1, 1)
        if n is None:
            action = action.squeeze(1)
        return action.squeeze(0) if single else action

    def log_prob_of_samples(
        self,
        obs: Any,
        n: int = 1,
        *,
        exact: bool = False,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> SampleLogProb:
        """Draw actions together with their log-likelihood.

        Parameters
        ----------
        obs : array_like or Tensor, shape (B, O) or (O,)
        n : int
            Actions a state.
        exact : bool
            False: by the average divergence network, the likelihood that training uses. True: by the determinants of
            the T-step map, at the cost of one tangent an action dimension.
        steps, generator, noise
            As for `sample`.

        Returns
        -------
        SampleLogProb
            Actions (B, n, A) and log-likelihoods (B, n), or without B.

        Raises
        ------
        InvalidInput
        """
        obs, single = self._observations(obs)
        noise = self._noise(obs, positive_int(n, "n"), noise, generator, single=single)
        steps = self._steps(steps)
        share = 0.0
        if exact:
            rows = obs.unsqueeze(1).expand(-1, n, -1).flatten(0, 1)
            end, log_prob, negative = self.change_of_variables(rows, noise.flatten(0, 1), steps)
            action, log_prob = end.view(noise.shape), log_prob.view(noise.shape[:-1])
            share = float(negative.float().mean())
        else:
            action, found = self.flow(obs, noise, steps, log_prob=True)
            assert found is not None  # noqa: S101 - asked for
            log_prob = found
        action = action.clamp(-1, 1)
        return SampleLogProb(action[0], log_prob[0], share) if single else SampleLogProb(action, log_prob, share)

    def act(
        self,
        obs: Any,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
        steps: int | None = None,
        n_candidates: int | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """The candidate that the target critics value most.

        Parameters
        ----------
        obs : array_like or Tensor, shape (B, O) or (O,)
        deterministic : bool
            Take the candidates' noise from the bank: the same observation gives the same action.
        generator : torch.Generator, optional
        steps : int, optional
            As for `sample`.
        n_candidates : int, optional
            `config.n_candidates` unless given; 1 asks no critic. With `deterministic` at most the bank's size.
        noise : Tensor, shape (n_candidates, A), optional
            Common to all observations, instead of the bank or a generator.

        Returns
        -------
        Tensor, shape (B, A) or (A,)
            In [-1, 1].

        Raises
        ------
        InvalidInput
        """
        obs, single = self._observations(obs)
        count = self.config.n_candidates if n_candidates is None else positive_int(n_candidates, "n_candidates")
        if noise is None and deterministic:
            bank = len(self.noise_bank)
            if count > bank:
                expected = f"at most {bank}, the size of the noise bank, with deterministic actions"
                raise InvalidInput.argument("n_candidates", expected=expected, got=count)
            noise = self.noise_bank[:count]
        elif noise is not None:
            noise = self._tensor(noise, "noise")
            count = len(noise) if n_candidates is None and noise.ndim else count
            if count == 0 or noise.shape != (count, self.act_dim):
                expected = f"shape ({count or 'n_candidates'}, {self.act_dim})"
                raise InvalidInput.argument("noise", expected=expected, got=f"shape {tuple(noise.shape)}")
        if noise is not None:
            drawn = noise.expand(len(obs), -1, -1)
        else:
            drawn = torch.randn((len(obs), count, self.act_dim), generator=generator, device=obs.device)
        action = self.flow(obs, drawn, self._steps(steps), log_prob=False).unclipped.clamp_(-1, 1)
        if count == 1:
            best = action[:, 0]
        else:
            value = self.target_critic.values(obs, action, clipped=self.config.clipped_double_q)
            best = action.gather(1, value.argmax(1).view(-1, 1, 1).expand(-1, 1, self.act_dim)).squeeze(1)
        return best[0] if single else best

    def deployable(self, steps: int | None = None, low: Any = None, high: Any = None) -> nn.Module:
        """A module of its own for deployment: observation (B, O) and noise (B, A) -> environment action (B, A).

        Parameters
        ----------
        steps : int, optional
            As for `sample`.
        low, high : array_like, shape (A,), optional
            Bounds of the environment's actions, finite; [-1, 1] unless given.

        Returns
        -------
        torch.nn.Module
            With weights copied, times folded into constants, and the scaling and the clip to the bounds inside; no
            random operation. `torch.export` and the ONNX exporter accept it.

        Raises
        ------
        InvalidInput
        """
        device = self.noise_bank.device
        ends = [
            torch.full((self.act_dim,), default, device=device)
            if given is None
            else torch.as_tensor(given, dtype=torch.float32, device=device).clone()
            for given, default in ((low, -1.0), (high, 1.0))
        ]
        if not all(e.shape == (self.act_dim,) and bool(e.isfinite().all()) for e in ends):
            expected = f"finite bounds of shape ({self.act_dim},)"
            raise InvalidInput.argument("low, high", expected=expected, got=f"{low}, {high}")
        return DeployedPolicy(self.velocity_net, self._steps(steps), *ends, instantaneous=self.instantaneous)

    def reference_noise(self, n: int, seed: int = 0) -> Tensor:
        """Noise (n, A) that depends on the seed alone, on this policy's device.

        Handed to `sample`, `act` or an exported policy it makes them comparable sample by sample: two policies, or 1, 2
        and 4 steps of one.
        """
        drawn = torch.randn(positive_int(n, "n"), self.act_dim, generator=torch.Generator().manual_seed(seed))
        return drawn.to(self.noise_bank.device)

    def _steps(self, steps: int | None) -> int:
        return self.config.n_sample_steps if steps is None else positive_int(steps, "steps")

    def _observations(self, obs: Any) -> tuple[Tensor, bool]:
        obs = self._tensor(obs, "obs")
        shape = obs.shape
        if len(shape) not in (1, 2) or shape[-1] != self.obs_dim or shape[0] == 0:
            expected = f"shape (B, {self.obs_dim}) or ({self.obs_dim},)"
            raise InvalidInput.argument("obs", expected=expected, got=f"shape {tuple(shape)}")
        return (obs.unsqueeze(0), True) if len(shape) == 1 else (obs, False)

    def _noise(
        self, obs: Tensor, n: int | None, noise: Tensor | None, generator: torch.Generator | None, *, single: bool
    ) -> Tensor:
        """What is given, or drawn: (B, n, A), or (B, A) where n is None."""
        rows, dim = obs.shape[0], self.act_dim
        shape = (rows, dim) if n is None else (rows, positive_int(n, "n"), dim)
        if noise is None:
            return torch.randn(shape, generator=generator, device=obs.device)
        noise = self._tensor(noise, "noise")
        wanted = shape[1:] if single else shape
        if noise.shape != wanted:
            raise InvalidInput.argument("noise", expected=f"shape {wanted}", got=f"shape {tuple(noise.shape)}")
        return noise.unsqueeze(0) if single else noise

    def _tensor(self, given: Any, name: str) -> Tensor:
        """A float32 tensor on the policy's device; what is one already comes back as it is."""
        device = cast("Tensor", self._buffers["noise_bank"]).device  # quicker than the attribute
        if not isinstance(given, Tensor):
            try:
                values = np.asarray(given)
            except (TypeError, ValueError) as err:
                raise InvalidInput.argument(name, expected="an array of real numbers", got=str(err)) from err
            if values.dtype.kind not in "biuf":
                raise InvalidInput.argument(name, expected="an array of real numbers", got=f"dtype {values.dtype}")
            # A copy: torch warns of arrays that cannot be written to.
            return torch.from_numpy(values.astype(np.float32)).to(device)
        if given.layout is not torch.strided or given.is_complex():
            got = f"{given.dtype}, {given.layout}"
            raise InvalidInput.argument(name, expected="a dense tensor of real numbers", got=got)
        return given if given.dtype is torch.float32 and given.device == device else given.to(device, torch.float32)
