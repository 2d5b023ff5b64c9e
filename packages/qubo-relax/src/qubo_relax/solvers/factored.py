"""PGD, Adam and graduated descent on a `qubo_relax.terms.FactoredQubo`: whole steps by matrix products, in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput

from qubo_relax.solvers.graduated import schedule
from qubo_relax.solvers.lanes import Lanes, Stop
from qubo_relax.solvers.pgd import KICK, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qubo_relax.terms import FactoredQubo

    Lane = NDArray[np.float32]

LOOK = 20
POWER_STEPS = 50


@dataclass(frozen=True, eq=False)
class FactoredPrepared:
    """The scales of a factored quadratic and its descent; what `Prepared` is to a stored one."""

    qubo: FactoredQubo

    @cached_property
    def spectral(self) -> tuple[float, float]:
        """Largest absolute eigenvalue of S and its smallest, by power steps (rounded outwards by 2 %)."""

        def power(shift: float) -> float:
            v = np.random.default_rng(0).standard_normal((self.qubo.n, 1))
            size = 1.0
            for _ in range(POWER_STEPS):
                v = v / (np.linalg.norm(v) or 1.0)
                v = shift * v - self.qubo.products(v)
                size = float(np.linalg.norm(v))
            return size

        top = power(0.0)
        if top == 0:
            top = float(np.max(np.abs(self.qubo.linear), initial=0.0)) or 1.0
            return top, -top
        return 1.02 * top, min(1.02 * (top - power(top)), -1e-6 * top)

    def settle(self, X: NDArray[Any]) -> NDArray[np.int8]:
        """T4 on each row of `X` (B, n): round the fractional coordinates in turn, then flip while a flip gains."""
        q = self.qubo
        tol = 0.5 * q.concavity
        P = np.array(X, dtype=np.float64)
        fields = q.field(P) if len(P) else P
        for x, g in zip(P, fields):
            for i in np.flatnonzero((x > 0) & (x < 1)):
                new = 1.0 if g[i] < 0 else 0.0
                g += (new - x[i]) * q.column(int(i))
                x[i] = new
            while x.size:
                gains = (1 - 2 * x) * g
                k = int(np.argmin(gains))
                if gains[k] >= -tol:
                    break
                g += (1 - 2 * x[k]) * q.column(k)
                x[k] = 1 - x[k]
        return P.astype(np.int8)


def run(
    name: str, prep: FactoredPrepared, X0: NDArray[Any], steps: int, options: Mapping[str, Any], stop: Stop
) -> Lanes:
    """One method on all lanes at once.

    Parameters
    ----------
    name : {"pgd", "adam", "graduated", "flip"}
    prep : FactoredPrepared
    X0 : ndarray of shape (B, n)
    steps : int
    options : mapping
        As for the stored form.
    stop : Stop

    Returns
    -------
    Lanes

    Raises
    ------
    InvalidInput
        For a method that flips single variables, which needs the pairs.
    """
    if name == "flip":
        return Lanes(X0, 0, "done")
    steppers = {"pgd": _pgd, "adam": _adam, "graduated": _graduated}
    if name not in steppers:
        raise InvalidInput.argument("method", expected="pgd, adam or graduated on a factored form", got=name)
    q = prep.qubo
    X = np.ascontiguousarray(X0.T, dtype=np.float32)
    linear, eps = q.linear.astype(np.float32)[:, None], np.float32(q.concavity)
    step = steppers[name](prep, X, steps, options)

    g = np.empty_like(X)
    done, ended = 0, "done"
    try:
        while done < steps:
            q.products(X, g)
            g += linear
            if done % LOOK == 0:
                stop.count(min(LOOK, steps - done) * X.shape[1])
                ended = stop.reason(done)
                if ended != "done" or (name != "graduated" and settled(X, g + eps * (1 - 2 * X)).all()):
                    break
            X = step(X, g, done)
            done += 1
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)


def _pgd(prep: FactoredPrepared, X: Lane, steps: int, options: Mapping[str, Any]) -> Callable[[Lane, Lane, int], Lane]:
    del steps
    size = np.float32(float(options.get("step", 1.0)) / prep.spectral[0])
    eps = np.float32(prep.qubo.concavity)
    kick = np.random.default_rng(0).uniform(-1, 1, (len(X), 1)) * float(options.get("kick", KICK))
    shift = kick.astype(np.float32)

    def step(Y: Lane, g: Lane, t: int) -> Lane:
        G = g + eps * (1 - 2 * Y)
        Z = np.clip(Y - size * G, 0, 1)
        if t % LOOK == LOOK - 1:
            stuck = (Z == Y).all(axis=0) & ~settled(Y, G)
            Z[:, stuck] = np.clip(Z[:, stuck] + shift, 0, 1)
        return np.asarray(Z, dtype=np.float32)

    return step


def _adam(prep: FactoredPrepared, X: Lane, steps: int, options: Mapping[str, Any]) -> Callable[[Lane, Lane, int], Lane]:
    del steps
    lr, (b1, b2) = float(options.get("lr", 0.05)), options.get("betas", (0.9, 0.999))
    eps, tiny = np.float32(prep.qubo.concavity), np.float32(1e-8 * prep.spectral[0])
    m, v = np.zeros_like(X), np.zeros_like(X)

    def step(Y: Lane, g: Lane, t: int) -> Lane:
        G = g + eps * (1 - 2 * Y)
        m[:] = np.float32(b1) * m + np.float32(1 - b1) * G
        v[:] = np.float32(b2) * v + np.float32(1 - b2) * G * G
        size = np.sqrt(v * np.float32(1 / (1 - b2 ** (t + 1)))) + tiny
        Z = Y - np.float32(lr / (1 - b1 ** (t + 1))) * m / size
        if options.get("reset", False):
            outside = (Z <= 0) | (Z >= 1)
            m[outside] = 0
            v[outside] = 0
        return np.asarray(np.clip(Z, 0, 1), dtype=np.float32)

    return step


def _graduated(
    prep: FactoredPrepared, X: Lane, steps: int, options: Mapping[str, Any]
) -> Callable[[Lane, Lane, int], Lane]:
    mus, noise, size, momentum = schedule(prep.spectral, steps, options)
    P = options["noise"] if noise.any() else None
    V, W = np.zeros_like(X), np.empty_like(X)
    inside, below = np.empty(X.shape, dtype=bool), np.empty(X.shape, dtype=bool)

    def step(Y: Lane, g: Lane, t: int) -> Lane:
        # In place throughout: the products leave little else to pay for than memory.
        np.multiply(Y, np.float32(-2) * mus[t], out=W)
        np.add(W, mus[t], out=W)
        np.add(W, g, out=W)
        if P is not None:
            np.add(W, noise[t] * P, out=W)
        np.multiply(W, size, out=W)
        np.multiply(V, momentum, out=V)
        np.subtract(V, W, out=V)
        np.add(Y, V, out=Y)
        np.greater(Y, 0, out=inside)
        np.less(Y, 1, out=below)
        np.logical_and(inside, below, out=inside)
        np.multiply(V, inside, out=V)
        return np.asarray(np.clip(Y, 0, 1, out=Y))

    return step
