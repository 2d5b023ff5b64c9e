"""Adam with clipping to the box, the other of the paper's two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk
from qubo_relax.solvers.pgd import LOOK, Leaps, settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared


def adam(prep: Prepared, X0: NDArray[np.float32], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """Kingma and Ba's step, then a clip to ``[0, 1]``; same leaps and stops as `qubo_relax.solvers.pgd.pgd`.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of float32 of shape (B, n)
    steps : int
    options : mapping
        ``lr`` (0.05), ``betas`` ((0.9, 0.999)), ``reset`` (False): whether the moments of a clipped coordinate go to 0;
        ``leaps`` (True): False for the bare iteration.
    stop : Stop

    Returns
    -------
    Lanes
    """
    X = np.ascontiguousarray(X0.T)
    G, m, v = np.empty_like(X), np.zeros_like(X), np.zeros_like(X)
    work = np.empty_like(X)
    gradient = prep.gradient
    leap = Leaps(X, gradient, bool(options.get("leaps", True)))
    lr = float(options.get("lr", 0.05))
    b1, b2 = (float(b) for b in options.get("betas", (0.9, 0.999)))
    reset = bool(options.get("reset", False))
    # Adam is blind to the scale of f but for its own 1e-8, which is meant for gradients of size one.
    tiny = np.float32(1e-8 * prep.spectral[0])
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
                leap(X, G, ~good)
                # What is settled stays, whatever the others still need: without momentum its slopes hold it.
                m[:, good] = 0
            done += 1
            m *= np.float32(b1)
            np.multiply(G, np.float32(1 - b1), out=work)
            m += work
            v *= np.float32(b2)
            np.multiply(G, G, out=G)
            G *= np.float32(1 - b2)
            v += G
            np.multiply(v, np.float32(1 / (1 - b2**done)), out=G)
            np.sqrt(G, out=G)
            G += tiny
            np.divide(m, G, out=G)
            G *= np.float32(lr / (1 - b1**done))
            X -= G
            if reset:
                out = (X <= 0) | (X >= 1)
                m[out] = 0
                v[out] = 0
            np.clip(X, 0, 1, out=X)
    except KeyboardInterrupt:
        ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T), done, ended)
