"""A short tabu search by single flips, as a finisher on the best lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared


def tabu(prep: Prepared, X0: NDArray[Any], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """The best flip that is not tabu, `steps` times n flips a lane; keeps the best point met.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of shape (B, n)
    steps : int
        In units of n flips.
    options : mapping
        ``tenure`` (min(20, n / 4)), ``states``: one seed a lane.
    stop : Stop

    Returns
    -------
    Lanes
    """
    from qubo_relax.solvers.tabu_kernel import tabu_flips

    S, n = prep.qubo.quadratic, prep.qubo.n
    linear = prep.qubo.linear if prep.qubo.diagonal is None else prep.qubo.linear + prep.qubo.diagonal
    tenure = int(options.get("tenure", min(20, max(1, n // 4))))
    out = np.empty(X0.shape, dtype=np.int8)
    ended, total = "done", 0
    for lane in range(len(X0)):
        x = (X0[lane] > 0.5).astype(np.int8)
        best = x.copy()
        gains = (1.0 - 2.0 * x) * (linear + S @ x.astype(np.float64))
        until = np.zeros(n, dtype=np.int64)
        state = np.array([options["states"][lane]], dtype=np.uint64)
        level = np.zeros(2)
        many = max(1, chunk(n * n, n, 1) * n)
        at = 0
        try:
            while at < steps * n and n:
                ended = stop.reason(total) if ended == "done" else ended
                if ended != "done":
                    break
                part = min(many, steps * n - at)
                tabu_flips(prep.indptr, prep.indices, S.data, gains, x, best, level, until, state, tenure, at, part)
                at += part
        except KeyboardInterrupt:
            ended = "interrupted"
        out[lane] = best
        total += at
    return Lanes(out, total, ended)
