"""Graduated descent: the quadratic is made convex first and concave in the end. Ours, not the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared


def schedule(
    spectral: tuple[float, float], steps: int, options: Mapping[str, Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32], np.float32, np.float32]:
    """``mu`` and the level of the perturbation at each step, the step size and the momentum."""
    lmax, lmin = spectral
    t = np.linspace(0.0, 1.0, max(steps, 1), dtype=np.float32)
    mus = (0.5 * lmin * (float(options.get("a", 1.0)) * (1 - t) - float(options.get("b", 0.3)) * t)).astype(np.float32)
    noise = (float(options.get("sigma", 0.0)) * lmax * (1 - t)).astype(np.float32)
    return mus, noise, np.float32(float(options.get("step", 0.5)) / lmax), np.float32(options.get("momentum", 0.9))


def graduated(prep: Prepared, X0: NDArray[np.float32], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """Gradient steps on ``f + mu_t sum x (1 - x)``, ``mu_t`` rising from ``a lmin / 2`` to ``-b lmin / 2``.

    ``lmin < 0`` is the smallest eigenvalue of S, so with ``a = 1`` the first problem is convex, and the last is more
    concave than ``f``: lanes end binary without a threshold. Gauss-Seidel order, momentum zeroed where a coordinate is
    clipped.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of float32 of shape (B, n)
        Best within 0.5 +- 0.25.
    steps : int
    options : mapping
        ``a`` (1), ``b`` (0.3), ``momentum`` (0.9), ``step`` (0.5, in units of 1/|lambda|max), ``sigma`` (0): a linear
        perturbation of this share of |lambda|max a lane, fading out (`qubo_relax.minimize` also takes "auto");
        ``noise``: the perturbation itself, (n, B).
    stop : Stop

    Returns
    -------
    Lanes
    """
    from qubo_relax.solvers.kernels import graduated_sweeps

    mus, noise, step, momentum = schedule(prep.spectral, steps, options)
    X = np.ascontiguousarray(X0.T)
    V = np.zeros_like(X)
    P = options["noise"] if noise.any() else np.zeros((0, 0), dtype=np.float32)
    many = chunk(prep.indices.size, *X.shape)
    done, ended = 0, "done"
    try:
        while done < steps:
            ended = stop.reason(done)
            if ended != "done":
                break
            part = slice(done, min(done + many, steps))
            graduated_sweeps(
                prep.indptr, prep.indices, prep.data, prep.linear, X, V, P, mus[part], noise[part], step, momentum
            )
            stop.count((part.stop - done) * X.shape[1])
            done = part.stop
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)
