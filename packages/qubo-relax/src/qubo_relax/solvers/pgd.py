"""Projected gradient descent, one of the paper's two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

KICK = 1e-3


def pgd(prep: Prepared, X0: NDArray[np.float32], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """``x <- clip(x - grad f(x) / L)`` with ``L`` the largest absolute eigenvalue of S.

    Ends early when every lane is a vertex with positive inward slopes: local minimizers are vertices with strict
    slopes, so they are reached in finitely many steps. A lane that stands still elsewhere sits on a saddle (two
    coordinates clipped together and released together stay equal for ever) or moves less than single precision can
    show: each of its coordinates is then moved by at most 1e-3, by the same amounts in every lane.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of float32 of shape (B, n)
    steps : int
    options : mapping
        ``step``: factor of 1/L, 1 when left out; ``kick``: 1e-3, or 0 for the method without it.
    stop : Stop

    Returns
    -------
    Lanes
    """
    from qubo_relax.solvers.kernels import gradient

    X = np.ascontiguousarray(X0.T)
    G = np.empty_like(X)
    eps = np.float32(prep.qubo.concavity)
    step = np.float32(float(options.get("step", 1.0)) / prep.spectral[0])
    kick = np.random.default_rng(0).uniform(-1, 1, (X.shape[0], 1)).astype(np.float32) * np.float32(
        options.get("kick", KICK)
    )
    look = max(1, min(20, chunk(prep.indices.size, *X.shape)))
    still = np.zeros(X.shape[1], dtype=bool)
    done, ended = 0, "done"
    try:
        while done < steps:
            gradient(prep.indptr, prep.indices, prep.data, prep.linear, eps, X, G)
            if done % look == 0:
                stop.count(min(look, steps - done) * X.shape[1])
                ended = stop.reason(done)
                good = settled(X, G)
                if ended != "done" or good.all():
                    break
                stuck = still & ~good
                if stuck.any():
                    X[:, stuck] = np.clip(X[:, stuck] + kick, 0, 1)
                    gradient(prep.indptr, prep.indices, prep.data, prep.linear, eps, X, G)
            G *= step
            np.subtract(X, G, out=G)
            np.clip(G, 0, 1, out=G)
            if done % look == look - 1:
                still = (G == X).all(axis=0)
            X, G = G, X
            done += 1
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)


def settled(X: NDArray[np.float32], G: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which lanes have every coordinate at a bound with a positive inward slope, shape (B,)."""
    return np.asarray((((X == 0) & (G > 0)) | ((X == 1) & (G < 0))).all(axis=0))
