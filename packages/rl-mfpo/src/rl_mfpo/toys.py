"""Problems whose right answer is known: flows in closed form, and one-step environments with several good actions."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from lemmata_core.check import one_of
from numpy.typing import NDArray
from torch import Tensor

MODES = ((0.6, 0.0), (-0.6, 0.0), (0.0, 0.6), (0.0, -0.6))
BANDIT_STD, BANDIT_ALPHA = 0.12, 0.2
LAYOUTS = {"wide": (0.7, 0.3), "narrow": (0.6, 0.15)}  # distance of the goals from the origin, width of the reward
GOAL_RADIUS = 0.3


class GaussianFlow:
    """The flow from N(0, 1) to N(mean, std^2), in every dimension alike, in closed form.

    Parameters
    ----------
    mean, std : float
        Of the data.
    """

    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def _g(self, t: Tensor) -> Tensor:
        return torch.sqrt((1 - t) ** 2 * self.std**2 + t**2)

    def velocity(self, x: Tensor, t: Tensor) -> Tensor:
        """The instantaneous velocity at (x, t)."""
        return -self.mean + self.divergence(t) * (x - (1 - t) * self.mean)

    def divergence(self, t: Tensor) -> Tensor:
        """The divergence of the velocity, a dimension."""
        return (t - (1 - t) * self.std**2) / self._g(t) ** 2

    def average_velocity(self, x: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """The average velocity from t down to r < t."""
        at_r = (1 - r) * self.mean + self._g(r) / self._g(t) * (x - (1 - t) * self.mean)
        return (x - at_r) / (t - r)

    def average_divergence(self, r: Tensor, t: Tensor) -> Tensor:
        """The average divergence from t down to r < t, a dimension."""
        return torch.log(self._g(t) / self._g(r)) / (t - r)


class GaussianMixture:
    """A mixture of Gaussians with one standard deviation, its density and the velocity of its flow.

    Parameters
    ----------
    means : sequence of points, (M, A)
    std : float
    weights : sequence of float, optional
        Equal unless given.
    """

    def __init__(
        self, means: Any = MODES, std: float = BANDIT_STD, weights: Any = None, dtype: torch.dtype = torch.float32
    ) -> None:
        self.means = torch.as_tensor(means, dtype=dtype)
        self.std = std
        w = torch.ones(len(self.means), dtype=dtype) if weights is None else torch.as_tensor(weights, dtype=dtype)
        self.log_weights = torch.log(w / w.sum())

    def log_density(self, action: Tensor) -> Tensor:
        """Log-density on the plane: (..., A) -> (...)."""
        squares = (action.unsqueeze(-2) - self.means).square().sum(-1)
        dim = self.means.shape[1]
        norm = 0.5 * dim * math.log(2 * math.pi * self.std**2)
        return torch.logsumexp(self.log_weights - squares / (2 * self.std**2), -1) - norm

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n actions, (n, A)."""
        which = torch.multinomial(self.log_weights.exp(), n, replacement=True, generator=generator)
        noise = torch.randn(n, self.means.shape[1], generator=generator, dtype=self.means.dtype)
        return self.means[which] + self.std * noise

    def velocity(self, x: Tensor, t: Tensor) -> Tensor:
        """The instantaneous velocity of the flow from noise to the mixture: x (B, A), t (B, 1) -> (B, A)."""
        t_, x_ = t.unsqueeze(-1), x.unsqueeze(-2)
        variance = (1 - t_) ** 2 * self.std**2 + t_**2
        gap = x_ - (1 - t_) * self.means
        share = torch.softmax(self.log_weights - gap.square().sum(-1) / (2 * variance[..., 0]), -1).unsqueeze(-1)
        mean_action = (share * (self.means + (1 - t_) * self.std**2 / variance * gap)).sum(-2)
        return (x - mean_action) / t


def bandit_q(action: Tensor) -> Tensor:
    """Value of the four-mode bandit: 0.2 times the mixture's log-density, so that alpha = 0.2 gives the mixture."""
    return BANDIT_ALPHA * GaussianMixture(dtype=action.dtype).log_density(action)


def total_variation(samples: Tensor, mixture: GaussianMixture, cells: int = 20) -> float:
    """Total variation between samples (n, 2) and a mixture, both on a grid of the box [-1, 1]^2.

    The mixture's mass of a cell is the density at its centre and eight neighbours, normalised over the box.
    """
    fine = 3 * cells
    centres = (torch.arange(fine, dtype=torch.float64) + 0.5) * (2 / fine) - 1
    grid = torch.stack(torch.meshgrid(centres, centres, indexing="ij"), -1)
    exact = GaussianMixture(mixture.means, mixture.std, mixture.log_weights.exp(), dtype=torch.float64)
    mass = exact.log_density(grid).exp().reshape(cells, 3, cells, 3).sum((1, 3))
    mass = mass / mass.sum()
    index = ((samples.double().clamp(-1, 1) + 1) * (cells / 2)).long().clamp_(0, cells - 1)
    counts = torch.bincount(index[:, 0] * cells + index[:, 1], minlength=cells * cells).double()
    return 0.5 * float((counts / counts.sum() - mass.flatten()).abs().sum())


def goals(layout: str = "wide") -> NDArray[np.float32]:
    """The four goals of a layout, (4, 2)."""
    distance, _ = LAYOUTS[one_of(layout, "layout", tuple(LAYOUTS))]
    return (np.asarray(MODES) / 0.6 * distance).astype(np.float32)


def goal_reward(action: NDArray[np.floating[Any]], layout: str = "wide") -> NDArray[np.float64]:
    """Reward of actions (..., 2): exp(-d^2 / (2 w^2)), d the distance to the nearest goal."""
    _, width = LAYOUTS[one_of(layout, "layout", tuple(LAYOUTS))]
    squares = np.square(np.asarray(action, dtype=np.float64)[..., None, :] - goals(layout)).sum(-1).min(-1)
    result: NDArray[np.float64] = np.exp(-squares / (2 * width**2))
    return result


def goal_shares(action: NDArray[np.floating[Any]], layout: str = "wide") -> NDArray[np.float64]:
    """Share of the actions (n, 2) that lie within 0.3 of each goal, (4,)."""
    distance = np.linalg.norm(np.asarray(action)[:, None, :] - goals(layout), axis=-1)
    result: NDArray[np.float64] = (distance < GOAL_RADIUS).mean(0)
    return result


class _OneStep(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One step an episode, one observation, actions in the square [-1, 1]^2."""

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium's protocol

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def _value(self, action: NDArray[np.float32]) -> float:
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode: the observation is 0."""
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take the reward of the action; the episode ends."""
        return np.zeros(1, np.float32), self._value(np.clip(action, -1.0, 1.0)), True, False, {}


class MultiGoalEnv(_OneStep):
    """Four goals on the axes, one as good as the other (``rl_mfpo/MultiGoal-v0``).

    Parameters
    ----------
    layout : {"wide", "narrow"}
        Goals at 0.7 with a reward of width 0.3, or at 0.6 with width 0.15.
    """

    def __init__(self, layout: str = "wide") -> None:
        super().__init__()
        self.layout = one_of(layout, "layout", tuple(LAYOUTS))

    def _value(self, action: NDArray[np.float32]) -> float:
        return float(goal_reward(action, self.layout))


class BanditEnv(_OneStep):
    """The four-mode bandit: the reward is 0.2 times the log-density of a mixture (``rl_mfpo/Bandit-v0``)."""

    def _value(self, action: NDArray[np.float32]) -> float:
        return float(bandit_q(torch.as_tensor(action, dtype=torch.float64)))
