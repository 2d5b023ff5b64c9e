"""The temperature alpha: fixed, or adapted until the policy's entropy is at its target."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rl_mfpo.adam import BETAS, EPS
from rl_mfpo.config import MFPOConfig


class Temperature:
    """Alpha = exp(log_alpha), with Adam on log_alpha for the loss alpha (H - target).

    Plain numbers: the entropy is read on the host in any case.

    Parameters
    ----------
    config : MFPOConfig
    act_dim : int

    Attributes
    ----------
    log_alpha : float
    target : float
        In nats, for actions in [-1, 1].
    adapts : bool
    """

    def __init__(self, config: MFPOConfig, act_dim: int) -> None:
        given, wanted = config.temperature, config.target_entropy
        self.adapts = isinstance(given, str)
        first = max(config.init_temperature, config.min_temperature) if isinstance(given, str) else given
        self.log_alpha = math.log(first)
        self.target = -0.5 * act_dim if isinstance(wanted, str) else wanted
        self._rate, self._floor = config.rate("temperature"), config.min_temperature
        self._mean = self._square = 0.0
        self._steps = 0

    @property
    def alpha(self) -> float:
        """The temperature, in the units of Q."""
        return math.exp(self.log_alpha)

    def hear(self, entropy: float, *, tempered: float = 0.0) -> None:
        """Take one step towards the target, if alpha adapts.

        Parameters
        ----------
        entropy : float
        tempered : float
            Share of the rows whose weights were tempered. They act at a higher temperature than alpha: where they are
            most, lowering alpha further would change nothing.
        """
        gap = entropy - self.target
        if self.adapts and not (tempered > 0.5 and gap > 0):
            self.descend(self.alpha * gap)

    def descend(self, gradient: float) -> None:
        """One Adam step of log alpha, not below the floor."""
        b1, b2 = BETAS
        self._steps += 1
        self._mean = b1 * self._mean + (1 - b1) * gradient
        self._square = b2 * self._square + (1 - b2) * gradient * gradient
        mean, square = self._mean / (1 - b1**self._steps), self._square / (1 - b2**self._steps)
        self.log_alpha -= self._rate * mean / (math.sqrt(square) + EPS)
        if self._floor:
            self.log_alpha = max(self.log_alpha, math.log(self._floor))

    def state(self) -> dict[str, float]:
        """What a continuation needs."""
        return {"log_alpha": self.log_alpha, "mean": self._mean, "square": self._square, "steps": self._steps}

    def load(self, state: Mapping[str, float]) -> None:
        """Continue from a `state`."""
        self.log_alpha, self._mean, self._square = state["log_alpha"], state["mean"], state["square"]
        self._steps = int(state["steps"])
