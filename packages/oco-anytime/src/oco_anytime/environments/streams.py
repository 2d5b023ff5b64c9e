"""Synthetic hostile streams on the unit ball, as used by the claims. All are linear and seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core.check import one_of, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import Ball
from oco_anytime.environments.base import LinearEnvironment

if TYPE_CHECKING:
    from oco_anytime.domains.base import Vector

STREAMS = ("opposed", "flip", "random", "switch", "rademacher")


class Stream(LinearEnvironment):
    """A synthetic stream on the unit ball (D = 2).

    Parameters
    ----------
    name : {"opposed", "flip", "random", "switch", "rademacher"}
        ``opposed``: cost -n, constraint n.x <= n.u with u = n/2: cost and constraint pull against each other all the
        time. ``flip``: the cost's sign changes on octaves of t. ``random``: random half-spaces, tight at u in about
        two thirds of the rounds, and random costs that on average reward leaving them. ``switch``: as opposed, but
        the constraint appears after a tenth of the rounds. ``rademacher``: costs +-e_1, and a constraint that is
        never broken.
    rounds : int
        T, the length of the stream.
    d : int
        Dimension.
    rng : int, SeedSequence or Generator

    Attributes
    ----------
    comparator : numpy.ndarray, shape (d,)
        u, feasible in every round.
    lipschitz : float
        G: a bound of all gradients.
    """

    def __init__(self, name: str, rounds: int, d: int = 2, rng: Any = 0) -> None:
        one_of(name, "name", STREAMS)
        rounds, d = positive_int(rounds, "rounds", minimum=0), positive_int(d, "d")
        rng = generator(rng)
        n = rng.standard_normal(d)
        n /= np.linalg.norm(n)
        u = 0.5 * n
        costs, A, b = _MAKERS[name](rounds, n, u, rng)
        super().__init__(Ball(d), costs, A, b)
        self.name, self.comparator = name, u
        self.lipschitz = float(np.sqrt(2.0)) if name == "random" else 1.0


def _opposed(rounds: int, n: Vector, u: Vector, _: Any) -> tuple[Vector, Vector, Vector]:
    return np.tile(-n, (rounds, 1)), np.tile(n, (rounds, 1)), np.full(rounds, float(n @ u))


def _flip(rounds: int, n: Vector, u: Vector, rng: Any) -> tuple[Vector, Vector, Vector]:
    costs, A, b = _opposed(rounds, n, u, rng)
    octave = np.floor(np.log2(np.arange(1, rounds + 1)))
    return costs * np.where(octave % 2 == 0, 1.0, -1.0)[:, None], A, b


def _random(rounds: int, n: Vector, u: Vector, rng: Any) -> tuple[Vector, Vector, Vector]:
    rows, target = (np.broadcast_to(x, (rounds, n.size)) for x in (n, u))
    costs, A, b = moving_half_spaces(rows, target, rng)
    return costs * np.sqrt(2.0), A, b


def moving_half_spaces(n: Vector, u: Vector, rng: Any) -> tuple[Vector, Vector, Vector]:
    """Half-spaces that hold u_t, tight in two thirds of the rounds, and costs of norm at most 1 that reward leaving.

    Parameters
    ----------
    n, u : numpy.ndarray, shape (T, d)
        The way out (of norm 1) and the target of each round.
    rng : numpy.random.Generator

    Returns
    -------
    costs, A : numpy.ndarray, shape (T, d)
    b : numpy.ndarray, shape (T,)
    """
    rounds = n.shape[0]
    A = rng.standard_normal(n.shape)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    # normals that point the way of n oftener: leaving along n is what the constraints forbid
    against = np.einsum("td,td->t", A, n) < 0
    A *= np.where(against, np.where(rng.random(rounds) < 0.7, -1.0, 1.0), 1.0)[:, None]
    slack = np.where(rng.random(rounds) < 2.0 / 3.0, 0.0, rng.random(rounds))
    noise = rng.standard_normal(n.shape)
    noise *= (rng.random(rounds) / np.maximum(np.linalg.norm(noise, axis=1), 1e-300))[:, None]
    return (noise - n) / 2.0, A, np.einsum("td,td->t", A, u) + slack


def _switch(rounds: int, n: Vector, u: Vector, rng: Any) -> tuple[Vector, Vector, Vector]:
    costs, A, b = _opposed(rounds, n, u, rng)
    b[: rounds // 10] = 1.0
    return costs, A, b


def _rademacher(rounds: int, n: Vector, _: Vector, rng: Any) -> tuple[Vector, Vector, Vector]:
    costs = np.zeros((rounds, n.size))
    costs[:, 0] = rng.choice([-1.0, 1.0], rounds)
    return costs, np.tile(n, (rounds, 1)), np.full(rounds, 2.0)


_MAKERS = {"opposed": _opposed, "flip": _flip, "random": _random, "switch": _switch, "rademacher": _rademacher}
