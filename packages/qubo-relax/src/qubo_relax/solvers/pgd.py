"""Projected gradient descent, one of the paper's two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

LOOK = 20
"""Steps between two leaps; fixed, so that a lane does not depend on how many there are."""

KICK = 1e-3
NUDGE = 0.1
SLOW = 1e-2
STILL = 1e-5


class Leaps:
    """Extrapolation along what the last steps moved: what keeps a lane from creeping along a ridge.

    On a ridge the slopes are of the order of the concavity, so a step of 1/L moves next to nothing, but in a steady
    direction. Every look each lane tries ``clip(x + t (x - x at the last look))`` and takes it where it is lower;
    ``t`` grows fourfold with each success and falls as fast. On a quadratic ``f(y) - f(x) = (grad f(x) + grad f(y)) .
    (y - x) / 2`` exactly, so one more gradient a look decides, without cancellation.

    Parameters
    ----------
    X : ndarray of shape (n, B)
        The starts.
    gradient : callable
        ``gradient(X, out)`` writes the gradient at X.
    on : bool
        False only tells how far the lanes came.
    """

    def __init__(self, X: NDArray[np.float32], gradient: Callable[[Any, Any], object], on: bool = True) -> None:
        self._gradient, self._on, self._first = gradient, on, True
        self._old = X.copy()
        self._other = np.empty_like(X)
        self._reach = np.full(X.shape[1], 8.0, dtype=np.float32)

    def __call__(self, X: NDArray[np.float32], G: NDArray[np.float32], live: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Move the lanes `live` of `X` and their gradients `G` in place; how far each lane had come since, (B,)."""
        Y = X - self._old
        moved = np.abs(Y).max(axis=0, initial=0.0)
        if self._first or not self._on:
            self._first = False
            self._old[:] = X
            return np.asarray(moved)
        Y *= self._reach
        Y += X
        np.clip(Y, 0, 1, out=Y)
        self._gradient(Y, self._other)
        lower = live & (((Y - X) * (G + self._other)).sum(axis=0) < 0)
        X[:, lower] = Y[:, lower]
        G[:, lower] = self._other[:, lower]
        self._reach *= np.where(lower, np.float32(4), np.float32(0.25))
        np.clip(self._reach, 1, 1e6, out=self._reach)
        self._old[:] = X
        return np.asarray(moved)


def nudged(
    X: NDArray[np.float32], moved: NDArray[np.float32], live: NDArray[np.bool_], u: NDArray[np.float32], kick: float
) -> NDArray[np.bool_]:
    """Perturb slow lanes of `X` in place, so that coordinates that move in lockstep part; which lanes were touched.

    A slow lane's fractional coordinates move by up to `NUDGE` ``x (1 - x)``, so that those near a bound stay near it;
    a lane that stands still, which may be clipped on a saddle, by up to `kick` everywhere. The same amounts `u`,
    uniform in (-1, 1) and of shape (n, 1), serve every lane, so a lane does not depend on their number.
    """
    slow = live & (moved < SLOW)
    X[:, slow] += (np.float32(NUDGE) * u * X * (1 - X))[:, slow]
    still = live & (moved < STILL)
    X[:, still] = np.clip(X[:, still] + np.float32(kick) * u, 0, 1)
    return np.asarray(slow)


def pgd(prep: Prepared, X0: NDArray[np.float32], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """``x <- clip(x - grad f(x) / L)`` with ``L`` the largest absolute eigenvalue of S, and leaps along ridges.

    Ends early when every lane is a vertex with positive inward slopes: local minimizers are vertices with strict
    slopes, so they are reached in finitely many steps. Every 20 steps a lane tries to leap (`Leaps`), and a slow one is
    perturbed (`nudged`): two coordinates clipped together and released together would stay equal for ever, on a saddle.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of float32 of shape (B, n)
    steps : int
    options : mapping
        ``step``: factor of 1/L, 1 when left out; ``leaps`` (True) and ``kick`` (1e-3): with False and 0
        the bare iteration.
    stop : Stop

    Returns
    -------
    Lanes
    """
    X = np.ascontiguousarray(X0.T)
    G = np.empty_like(X)
    gradient = prep.gradient
    step = np.float32(float(options.get("step", 1.0)) / prep.spectral[0])
    leap = Leaps(X, gradient, bool(options.get("leaps", True)))
    kick = float(options.get("kick", KICK))
    noise = np.random.default_rng(0)
    look = min(LOOK, chunk(prep.indices.size, *X.shape))
    done, ended = 0, "done"
    try:
        while done < steps:
            gradient(X, G)
            if done % look == 0:
                stop.count(min(look, steps - done) * X.shape[1])
                ended = stop.reason(done)
                if ended != "done":
                    break
            if done % LOOK == 0:
                good = settled(X, G)
                if good.all():
                    break
                moved = leap(X, G, ~good)
                if kick and done:
                    u = noise.uniform(-1, 1, (X.shape[0], 1)).astype(np.float32)
                    if nudged(X, moved, ~good, u, kick).any():
                        gradient(X, G)
            G *= step
            np.subtract(X, G, out=G)
            np.clip(G, 0, 1, out=G)
            X, G = G, X
            done += 1
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)


def settled(X: NDArray[np.float32], G: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which lanes have every coordinate at a bound with a positive inward slope, shape (B,)."""
    return np.asarray((((X == 0) & (G > 0)) | ((X == 1) & (G < 0))).all(axis=0))
