"""One update of mean flow policy optimisation, and everything that it needs to go on bit by bit.

Longer than the other files on purpose: the update is read from top to bottom, in the order of the paper's algorithm,
and its steps share the networks, the generator and the metrics, which files of their own would have to hand about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import torch_generator
from torch import Tensor, nn

from rl_mfpo.adam import Adam
from rl_mfpo.config import MFPOConfig
from rl_mfpo.errors import TrainingDiverged
from rl_mfpo.functional.categorical import project_categorical
from rl_mfpo.functional.flow import interpolate
from rl_mfpo.functional.times import draw_time_pairs
from rl_mfpo.functional.velocity import combine, propose
from rl_mfpo.health import Health
from rl_mfpo.networks.critic import TwinCritic
from rl_mfpo.networks.meanflow import MeanFlowNet
from rl_mfpo.networks.mlp import keep_freed_memory
from rl_mfpo.policy import MeanFlowPolicy
from rl_mfpo.temperature import Temperature

STATE_VERSION = 1
CHECK_EVERY = 100  # updates between two looks at the change of variables and at the critics' support
CHECK_ROWS = 128
MAX_DETERMINANT_DIM = 8
SUPPORT_AFTER, ENTROPY_AFTER = 1000, 500  # updates before the critics' support, and the entropy, are judged


class Batch(NamedTuple):
    """Transitions, float32 tensors on the learner's device, in no particular order.

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
    """Networks, optimisers and one update of the method.

    Parameters
    ----------
    obs_dim, act_dim : int
    config : MFPOConfig, optional
    device : torch.device or str
    generator : torch.Generator, optional
        On `device`; the learner draws from it alone. Made from `seed` unless given.
    seed : int, optional
        Of the weights, the noise bank and the generator. Unless given, one draw of `generator`, or fresh entropy.

    Attributes
    ----------
    policy : MeanFlowPolicy
        With the target critics.
    critic : TwinCritic
        The online critics.
    temperature : Temperature
    n_updates : int
    reduce_gradients : callable, optional
        Called with the parameters of one optimiser after each backward pass, before the step: averages their
        gradients over ranks.
    reduce_scalar : callable, optional
        From a tensor without axes to its average over ranks; the temperature's entropy goes through it.

    Raises
    ------
    InvalidInput

    Notes
    -----
    arXiv 2604.14698, the algorithm: critic step, target step, then every `actor_delay` updates policy step, average
    divergence step and temperature step.
    """

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
        self.obs_dim, self.act_dim = positive_int(obs_dim, "obs_dim"), positive_int(act_dim, "act_dim")
        self.config = config = MFPOConfig() if config is None else config
        if config.entropy_estimator == "change_of_variables" and act_dim > MAX_DETERMINANT_DIM:
            expected = f'"adn" with more than {MAX_DETERMINANT_DIM} action dimensions'
            raise InvalidInput.argument("entropy_estimator", expected=expected, got="change_of_variables")
        self.device = torch.device(device)
        keep_freed_memory()
        root = np.random.default_rng(None if seed is None else positive_int(seed, "seed", minimum=0))
        if generator is not None and seed is None:
            drawn = torch.randint(2**62, (), generator=generator, device=generator.device)
            root = np.random.default_rng(int(drawn))
        self.generator = torch_generator(root, self.device) if generator is None else generator
        first = torch_generator(root)
        self.policy = MeanFlowPolicy(obs_dim, act_dim, config, generator=first).to(self.device)
        target = self.policy.target_critic
        self.critic = TwinCritic(
            obs_dim, act_dim, config.hidden_sizes, n_atoms=target.n_atoms, v_min=config.v_min, v_max=config.v_max,
            generator=first,
        ).to(self.device)  # fmt: skip
        target.load_state_dict(self.critic.state_dict())
        self.v_min, self.v_max = config.v_min, config.v_max
        self._optimisers = {n: Adam(module.parameters(), config.rate(n)) for n, module in self._trained().items()}
        self.temperature = Temperature(config, act_dim)
        self.n_updates = 0
        self.reduce_gradients: Callable[[list[nn.Parameter]], None] | None = None
        self.reduce_scalar: Callable[[Tensor], Tensor] | None = None
        self._health = Health()
        self._metrics: dict[str, float] = {}
        if config.compile:
            self.critic.compile_values()
        self._values = self.critic.values

    def _trained(self) -> dict[str, nn.Module]:
        policy = self.policy
        return {"critic": self.critic, "actor": policy.velocity_net, "divergence": policy.divergence_net}

    @property
    def alpha(self) -> float:
        """The temperature, in the units of Q."""
        return self.temperature.alpha

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one update.

        Parameters
        ----------
        batch : Batch

        Returns
        -------
        dict of str to float
            Losses and health by name: critic_loss, q_mean, end_atom_mass, actor_loss, divergence_loss,
            divergence_rms, entropy, entropy_target, alpha, alpha_rel (alpha over the spread of Q among the
            proposals), ess_policy, ess_gaussian, outside_box; entropy_cov and negative_share of the last look at the
            change of variables; tempered_share with `min_ess`. An update without an actor step repeats the actor's.

        Raises
        ------
        InvalidInput
            If the batch has another shape.
        TrainingDiverged
            If a loss is not finite; before the step that would have spoilt the networks.
        """
        self._check(batch)
        metrics = dict(self._metrics)
        self.n_updates += 1
        self._critic_step(batch, metrics)
        with torch.no_grad():
            target: list[Tensor] = list(self.policy.target_critic.parameters())
            online: list[Tensor] = list(self.critic.parameters())
            torch._foreach_lerp_(target, online, self.config.tau)
        if self.n_updates % self.config.actor_delay == 0:
            size = self.config.actor_batch_size
            self._actor_update(batch.obs if size is None else batch.obs[:size], metrics)
        self._metrics = metrics
        return dict(metrics)

    def _check(self, batch: Batch) -> None:
        first: Any = batch.obs
        n = len(first) if isinstance(first, Tensor) and first.ndim else 0
        shapes = [(n, self.obs_dim), (n, self.act_dim), (n,), (n, self.obs_dim), (n,)]
        for name, tensor, shape in zip(Batch._fields, batch, shapes):
            given: Any = tensor
            dense = isinstance(given, Tensor) and given.layout is torch.strided
            if not dense or tuple(tensor.shape) != shape or tensor.dtype != torch.float32 or n == 0:
                got = f"{tensor.dtype} of shape {tuple(tensor.shape)}" if dense else type(given).__name__
                raise InvalidInput.argument(f"batch.{name}", expected=f"torch.float32 of shape {shape}", got=got)

    def _step(self, name: str, loss: Tensor, metrics: dict[str, float]) -> None:
        value = float(loss.detach())
        metrics[f"{name}_loss"] = value
        if not math.isfinite(value):
            raise TrainingDiverged(f"the {name} loss is {value} at update {self.n_updates}", metrics)
        optimiser = self._optimisers[name]
        optimiser.zero_grad()
        loss.backward()
        if self.reduce_gradients is not None:
            self.reduce_gradients(optimiser.parameters)
        optimiser.step()

    # Soft policy evaluation

    def _critic_step(self, batch: Batch, metrics: dict[str, float]) -> None:
        first, second = self.critic(batch.obs, batch.action)
        if self.config.critic == "categorical":
            target = self._categorical_target(batch)
            loss = F.cross_entropy(first, target) + F.cross_entropy(second, target)
            metrics["q_mean"] = float((target @ self.critic.support).mean())
            metrics["end_atom_mass"] = float(target[:, 0].sum() + target[:, -1].sum()) / len(target)
            if self.n_updates % CHECK_EVERY == 0 and self.n_updates >= SUPPORT_AFTER:
                self._health.judge_support(target, self.critic.support, metrics["end_atom_mass"])
        else:
            value = self._scalar_target(batch)
            loss = F.mse_loss(first[:, 0], value) + F.mse_loss(second[:, 0], value)
            metrics["q_mean"] = float(value.mean())
        self._step("critic", loss, metrics)

    @torch.no_grad()
    def _next(self, batch: Batch) -> tuple[Tensor, Tensor | float]:
        """An action at the next state, and what the entropy adds to its value."""
        noise = torch.randn(len(batch.obs), 1, self.act_dim, generator=self.generator, device=self.device)
        backup = self.config.backup_entropy
        drawn = self.policy.flow(batch.next_obs, noise, self.config.n_sample_steps, log_prob=backup)
        bonus = 0.0 if drawn.log_prob is None else -self.alpha * drawn.log_prob
        return drawn.unclipped[:, 0].clamp_(-1, 1), bonus

    @torch.no_grad()
    def _categorical_target(self, batch: Batch) -> Tensor:
        action, bonus = self._next(batch)
        target = self.policy.target_critic
        logits = target(batch.next_obs, action)
        discount = self.config.gamma * (1 - batch.terminated).unsqueeze(1)
        atoms = batch.reward.unsqueeze(1) + discount * (target.support + bonus)
        first, second = (torch.softmax(part, -1) for part in logits)
        if self.config.clipped_double_q:
            # The projection keeps the mean of the clamped atoms: the lower one is known before it.
            clamped = atoms.clamp(self.v_min, self.v_max)
            lower = ((first - second) * clamped).sum(-1, keepdim=True) <= 0
            probs = torch.where(lower, first, second)
        else:
            probs = torch.lerp(first, second, 0.5)
        return project_categorical(probs, atoms, self.v_min, self.v_max)

    @torch.no_grad()
    def _scalar_target(self, batch: Batch) -> Tensor:
        action, bonus = self._next(batch)
        first, second = (part[:, 0] for part in self.policy.target_critic(batch.next_obs, action))
        value = torch.minimum(first, second) if self.config.clipped_double_q else torch.lerp(first, second, 0.5)
        extra = bonus[:, 0] if isinstance(bonus, Tensor) else bonus
        return batch.reward + self.config.gamma * (1 - batch.terminated) * (value + extra)

    # Soft policy improvement

    def _actor_update(self, obs: Tensor, metrics: dict[str, float]) -> None:
        config, generator = self.config, self.generator
        n = len(obs)
        noise = torch.randn(n, config.k_policy, self.act_dim, generator=generator, device=self.device)
        drawn = self.policy.flow(obs, noise, config.n_sample_steps, log_prob=True)
        assert drawn.log_prob is not None  # noqa: S101 - asked for
        actions = drawn.unclipped.clamp(-1, 1)
        metrics["outside_box"] = float((drawn.unclipped.abs().amax(-1) > 1).float().mean())
        entropy = -drawn.log_prob.mean()

        t, r = self._times(n)
        x = interpolate(actions[:, 0], self._normal(n), t)
        velocity, tempered = self._velocity(obs, x, t, actions, drawn.log_prob, metrics)
        self._policy_step(obs, x, t, r, velocity, metrics)
        for _ in range(config.divergence_steps):
            self._divergence_step(obs, actions[:, 0], metrics)
        if self.n_updates % CHECK_EVERY == 0 or config.entropy_estimator == "change_of_variables":
            self._look_at_determinants(obs, noise, float(entropy), metrics)
        self._temperature_step(entropy, tempered, metrics)
        self._health.judge_ess(metrics, config.actor_delay)

    def _times(self, n: int) -> tuple[Tensor, Tensor]:
        return draw_time_pairs(n, self.config.time_dist, self.config.data_proportion, self.generator, self.device)

    def _normal(self, n: int) -> Tensor:
        return torch.randn(n, self.act_dim, generator=self.generator, device=self.device)

    @torch.no_grad()
    def _velocity(
        self, obs: Tensor, x: Tensor, t: Tensor, actions: Tensor, log_prob: Tensor, metrics: dict[str, float]
    ) -> tuple[Tensor, float]:
        config, alpha = self.config, self.alpha
        proposals = propose(
            x, t, policy_actions=actions, policy_log_prob=log_prob, k_gaussian=config.k_gaussian,
            mode=config.velocity, generator=self.generator,
        )  # fmt: skip
        q = self._values(obs, proposals.actions, clipped=config.clipped_double_q)
        estimate, beta = combine(proposals, q / alpha, x, t, config.min_ess)
        metrics["ess_policy"] = float(estimate.ess_policy.mean())
        metrics["ess_gaussian"] = float(estimate.ess_gaussian.mean())
        spread = float(q.std(-1).mean()) if q.shape[1] > 1 else math.nan
        metrics["alpha_rel"] = alpha / max(spread, 1e-30)
        tempered = 0.0 if beta is None else float((beta < 1).float().mean())
        if beta is not None:
            metrics["tempered_share"] = tempered
        return estimate.velocity, tempered

    def _policy_step(self, obs: Tensor, x: Tensor, t: Tensor, r: Tensor, v: Tensor, metrics: dict[str, float]) -> None:
        target = self._self_consistent(self.policy.velocity_net, obs, x, t, r, v, v)
        self._step("actor", F.mse_loss(self.policy.velocity_net(x, obs, t, t - r), target), metrics)

    @torch.no_grad()
    def _self_consistent(
        self, net: MeanFlowNet, obs: Tensor, x: Tensor, t: Tensor, r: Tensor, direction: Tensor, value: Tensor
    ) -> Tensor:
        """The target value - (t - r) d net/dt along the direction; only the rows with r < t need the derivative."""
        moving = slice(int(self.config.data_proportion * len(x)), None)
        x, obs, t, h = x[moving], obs[moving], t[moving], (t - r)[moving]
        if len(x) == 0:
            return value
        _, derivative = net.dual(x, obs, t, h, direction[moving], torch.ones_like(t))
        target = value.clone()
        target[moving] -= h.clamp(0, 1) * derivative
        return target

    # Average divergence and temperature

    def _divergence_step(self, obs: Tensor, action: Tensor, metrics: dict[str, float]) -> None:
        n = len(obs)
        t, r = self._times(n)
        x = interpolate(action, self._normal(n), t)
        velocity, divergence = self._divergence(obs, x, t)
        metrics["divergence_rms"] = float(divergence.square().mean().sqrt())
        net = self.policy.divergence_net
        target = self._self_consistent(net, obs, x, t, r, velocity, divergence)
        self._step("divergence", F.mse_loss(net(x, obs, t, t - r), target), metrics)

    @torch.no_grad()
    def _divergence(self, obs: Tensor, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's own velocity, and its divergence (B, 1): estimated, or exact where that costs no more."""
        n, dim, probes = len(x), self.act_dim, self.config.n_div_probes
        exact = dim <= probes
        if exact:
            z = torch.eye(dim, device=self.device).unsqueeze(1).expand(dim, n, dim)
        elif self.config.div_probe == "gaussian":
            z = torch.randn(probes, n, dim, generator=self.generator, device=self.device)
        else:
            z = torch.randint(2, (probes, n, dim), generator=self.generator, device=self.device).mul_(2).sub_(1).float()
        velocity, tangents = self.policy.velocity_net.dual(x, obs, t, torch.zeros_like(t), z)
        traces = (z * tangents).sum((0, 2)).unsqueeze(1)
        return velocity, traces if exact else traces / probes

    def _look_at_determinants(self, obs: Tensor, noise: Tensor, entropy: float, metrics: dict[str, float]) -> None:
        if self.act_dim > MAX_DETERMINANT_DIM:
            return
        rows = obs[:CHECK_ROWS]
        each = min(noise.shape[1], -(-CHECK_ROWS // len(rows)))
        _, log_prob, negative = self.policy.change_of_variables(
            rows.repeat_interleave(each, 0), noise[: len(rows), :each].flatten(0, 1), self.config.n_sample_steps
        )
        metrics["entropy_cov"] = -float(log_prob.mean())
        metrics["negative_share"] = float(negative.float().mean())
        judged = self.n_updates % CHECK_EVERY == 0 and self.n_updates >= ENTROPY_AFTER
        gauge = self.temperature.adapts and self.config.entropy_estimator == "adn" and not self.config.min_temperature
        if judged and gauge:
            self._health.judge_entropies(entropy, metrics["entropy_cov"])

    def _temperature_step(self, entropy: Tensor, tempered: float, metrics: dict[str, float]) -> None:
        config = self.config
        if self.reduce_scalar is not None:
            entropy = self.reduce_scalar(entropy)
        metrics["entropy"] = float(entropy)
        heard = float(entropy)
        if config.entropy_estimator == "change_of_variables":
            heard = metrics["entropy_cov"]
            if self.reduce_scalar is not None:
                heard = float(self.reduce_scalar(torch.tensor(heard, device=self.device)))
        metrics["entropy_target"] = self.temperature.target
        self.temperature.hear(heard, tempered=tempered)
        metrics["alpha"] = self.alpha

    # State

    def set_value_range(self, v_min: float, v_max: float) -> None:
        """Move the ends of the critics' support, before the first update.

        Raises
        ------
        InvalidInput
            If ``v_min >= v_max``, or an update was made.
        """
        low, high = in_range(v_min, "v_min"), in_range(v_max, "v_max")
        if not low < high:
            raise InvalidInput.argument("v_min, v_max", expected="v_min < v_max", got=f"{low}, {high}")
        if self.n_updates:
            raise InvalidInput.argument("v_min, v_max", expected="no update before", got=f"{self.n_updates} updates")
        self._set_support(low, high)

    def _set_support(self, v_min: float, v_max: float) -> None:
        self.v_min, self.v_max = v_min, v_max
        if self.critic.n_atoms > 1:
            for critic in (self.critic, self.policy.target_critic):
                critic.set_support(v_min, v_max)

    def parameters(self) -> list[nn.Parameter]:
        """The weights of every network, online and target: what ranks must agree on at the start."""
        return [*self.policy.parameters(), *self.critic.parameters()]

    def state_dict(self) -> dict[str, Any]:
        """Everything for a continuation bit by bit: tensors (copies), numbers, strings, lists and dicts."""
        return {
            "version": STATE_VERSION,
            "policy": {k: v.clone() for k, v in self.policy.state_dict().items()},
            "critic": {k: v.clone() for k, v in self.critic.state_dict().items()},
            "optimisers": {name: optimiser.state() for name, optimiser in self._optimisers.items()},
            "temperature": self.temperature.state(),
            "generator": self.generator.get_state(),
            "support": [self.v_min, self.v_max],
            "n_updates": self.n_updates,
            "health": self._health.state(),
            "metrics": dict(self._metrics),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; its tensors are copied.

        Raises
        ------
        InvalidInput
            If the state is of another version, or its networks have other shapes.
        """
        if state.get("version") != STATE_VERSION:
            expected = f"a learner's state of version {STATE_VERSION}"
            raise InvalidInput.argument("state", expected=expected, got=f"version {state.get('version')}")
        try:
            self.policy.load_state_dict(state["policy"])
            self.critic.load_state_dict(state["critic"])
        except RuntimeError as err:
            raise InvalidInput.argument("state", expected="networks of this learner's shapes", got=str(err)) from err
        for name, optimiser in self._optimisers.items():
            optimiser.load(state["optimisers"][name])
        self.temperature.load(state["temperature"])
        # A generator of another kind of device has a state of another size: then this learner's own stream goes on.
        generator = state["generator"].cpu()
        if generator.numel() == self.generator.get_state().numel():
            self.generator.set_state(generator)
        self._set_support(*state["support"])
        self.n_updates = int(state["n_updates"])
        self._health.load(state["health"])
        self._metrics = dict(state["metrics"])
