"""Projected gradient descent, one of the paper's two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

TOLERANCE = 1e-7


def pgd(prep: Prepared, X0: NDArray[np.float32], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """``x <- clip(x - grad f(x) / L)`` with ``L`` the largest absolute eigenvalue of S.

    Ends early when no coordinate moves by more than 1e-7, or every lane is a vertex with positive inward slopes: local
    minimizers are vertices with strict slopes, so they are reached in finitely many steps.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of float32 of shape (B, n)
    steps : int
    options : mapping
        ``step``: factor of 1/L, 1 when left out.
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
    look = max(1, min(20, chunk(prep.indices.size, *X.shape)))
    done, ended = 0, "done"
    try:
        while done < steps:
            gradient(prep.indptr, prep.indices, prep.data, prep.linear, eps, X, G)
            if done % look == 0:
                if stop.now():
                    ended = "time_limit"
                    break
                if settled(X, G):
                    break
                if stop.callback is not None and stop.callback(done, np.nan):
                    ended = "callback"
                    break
            G *= step
            np.subtract(X, G, out=G)
            np.clip(G, 0, 1, out=G)
            moved = done % look == look - 1 and float(np.max(np.abs(G - X), initial=0.0)) < TOLERANCE
            X, G = G, X
            done += 1
            if moved:
                break
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)


def settled(X: NDArray[np.float32], G: NDArray[np.float32]) -> bool:
    """Whether every coordinate is at a bound with a positive inward slope."""
    return bool((((X == 0) & (G > 0)) | ((X == 1) & (G < 0))).all())
