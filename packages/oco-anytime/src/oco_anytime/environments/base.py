"""What an environment is: it sees the decision and answers with a cost and constraints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, positive_int

if TYPE_CHECKING:
    from oco_anytime.domains.base import Domain, Vector
    from oco_anytime.interface import Learner


@dataclass(frozen=True)
class Outcome:
    """What a round reveals at the decision x.

    Attributes
    ----------
    cost : float
        f_t(x).
    cost_grad : numpy.ndarray, shape (d,)
    violation : float or numpy.ndarray, shape (m,)
        g_t(x), signed.
    violation_grad : numpy.ndarray, shape (d,) or (m, d), or None
    """

    cost: float
    cost_grad: Vector
    violation: Any = 0.0
    violation_grad: Vector | None = None

    def feedback(self, learner: Learner) -> tuple[Any, ...]:  # noqa: ARG002 - part of the interface
        """The arguments of `Learner.update`."""
        return self.cost_grad, self.violation, self.violation_grad


def in_stream(t: int, rounds: int) -> int:
    """The round t, if the stream has it."""
    if not 0 <= t < rounds:
        raise InvalidInput.argument("t", expected=f"a round from 0 to {rounds - 1}, the stream's length", got=t)
    return t


class Environment(ABC):
    """A stream of rounds. The same seed gives the same stream, and a round depends on (t, x) only.

    Attributes
    ----------
    domain : Domain
    """

    domain: Domain

    def predict(self, learner: Learner, t: int) -> Vector:  # noqa: ARG002 - environments with hints use t
        """Ask the learner for its decision; environments that give hints pass them here."""
        return learner.predict()

    @abstractmethod
    def round(self, t: int, x: Vector) -> Outcome:
        """Round t (from 0) at the decision x."""

    def linear(self, rounds: int) -> tuple[Vector, Vector | None, Vector | None] | None:  # noqa: ARG002
        """Costs (T, d), rows (T, d) or (T, m, d), right-hand sides, if the whole stream is linear; else None."""
        return None


class LinearEnvironment(Environment):
    """Linear costs and constraints given as arrays.

    Parameters
    ----------
    domain : Domain
    costs : numpy.ndarray, shape (T, d)
    A : numpy.ndarray, shape (T, d) or (T, m, d), optional
    b : numpy.ndarray, shape (T,) or (T, m), optional

    Attributes
    ----------
    comparator : numpy.ndarray, shape (d,), or None
        A point that satisfies every constraint, where the environment knows one.
    """

    comparator: Vector | None = None

    def __init__(self, domain: Domain, costs: Vector, A: Vector | None = None, b: Vector | None = None) -> None:
        self.domain, self.costs, self.A, self.b = domain, array(costs, "costs", ndim=2, shape=(None, domain.dim)), A, b
        if A is None and b is not None:
            raise InvalidInput.argument("A", expected="rows for b", got="None")
        if A is not None:
            self.A = rows = array(A, "A", ndim=(2, 3))
            if len(rows) != len(self.costs) or rows.shape[-1] != domain.dim:
                expected = f"shape ({len(self.costs)}, {domain.dim}) or ({len(self.costs)}, m, {domain.dim})"
                raise InvalidInput.argument("A", expected=expected, got=f"shape {rows.shape}")
            given = array(0.0 if b is None else b, "b")
            if given.shape not in ((), rows.shape[:-1]):
                expected = f"a number or shape {rows.shape[:-1]}"
                raise InvalidInput.argument("b", expected=expected, got=f"shape {given.shape}")
            self.b = np.broadcast_to(given, rows.shape[:-1])

    def round(self, t: int, x: Vector) -> Outcome:
        """Round t (from 0) at the decision x."""
        c = self.costs[in_stream(t, self.costs.shape[0])]
        if self.A is None or self.b is None:
            return Outcome(float(c @ x), c)
        a = self.A[t]
        v = a @ x - self.b[t]
        return Outcome(float(c @ x), c, float(v) if v.ndim == 0 else v, a)

    def linear(self, rounds: int) -> tuple[Vector, Vector | None, Vector | None]:
        """The first `rounds` rounds as arrays."""
        if positive_int(rounds, "rounds", minimum=0) > self.costs.shape[0]:
            raise InvalidInput.argument(
                "rounds", expected=f"at most {self.costs.shape[0]}, the stream's length", got=rounds
            )
        rows = None if self.A is None else self.A[:rounds]
        return self.costs[:rounds], rows, None if self.b is None else self.b[:rounds]
