"""Control by feedback of past disturbances, within a bound on the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import Ball
from oco_anytime.environments.base import Environment, Outcome, in_stream

if TYPE_CHECKING:
    from oco_anytime.domains.base import Vector


class SafeControl(Environment):
    """A scalar system s' = rho s + u + w, |s| <= bound wanted, with u_t = sum_i x_i w_{t-i}.

    Decision: the `memory` gains x. With the gains held over the last 2 `memory` steps, state and input are linear in x
    (Agarwal, Bullins, Hazan, Kakade, Singh 2019), so cost s^2 + r u^2 and constraint |s| - bound are convex.
    Disturbances: a slow wave, AR(1) noise and gusts. Synthetic.

    Parameters
    ----------
    rounds : int
    memory : int
    rho : float
        In (0, 1).
    bound : float
    effort : float
        r.
    rng : int, SeedSequence or Generator
    """

    def __init__(
        self,
        rounds: int = 5000,
        memory: int = 5,
        rho: float = 0.8,
        bound: float = 1.2,
        effort: float = 0.5,
        rng: Any = 0,
    ) -> None:
        rounds, self.memory = positive_int(rounds, "rounds", minimum=0), positive_int(memory, "memory")
        self.rho = in_range(rho, "rho", 0.0, 1.0, low_open=True, high_open=True)
        self.bound = in_range(bound, "bound", 0.0, low_open=True)
        self.effort = in_range(effort, "effort", 0.0)
        rng = generator(rng)
        n = rounds + 3 * self.memory + 1
        noise = np.zeros(n)
        for t in range(1, n):
            noise[t] = 0.7 * noise[t - 1] + 0.07 * rng.standard_normal()
        gust = np.where(rng.random(n) < 0.01, rng.choice([-0.5, 0.5], n), 0.0)
        self._w = 0.2 * np.sin(2 * np.pi * np.arange(n) / 50) + noise + gust
        self.rounds, self.domain = rounds, Ball(self.memory, 2.0)
        # dead-beat: undoes the last disturbance's echo
        self.comparator = np.zeros(self.memory)
        self.comparator[0] = -self.rho

    def round(self, t: int, x: Vector) -> Outcome:
        """Step t (from 0) with the gains x."""
        now, depth = in_stream(t, self.rounds) + 3 * self.memory, 2 * self.memory
        free, gain = 0.0, np.zeros(self.memory)
        for k in range(depth):
            f = self.rho**k
            free += f * self._w[now - 1 - k]
            gain += f * self._past(now - 1 - k)
        state, past = free + float(gain @ x), self._past(now)
        push = float(past @ x)
        cost = state**2 + self.effort * push**2
        grad = 2.0 * state * gain + 2.0 * self.effort * push * past
        return Outcome(cost, grad, abs(state) - self.bound, (1.0 if state >= 0 else -1.0) * gain)

    def _past(self, t: int) -> Vector:
        """The disturbances w_{t-1}, .., w_{t-memory}."""
        return np.array([self._w[t - 1 - i] if t - 1 - i >= 0 else 0.0 for i in range(self.memory)])
