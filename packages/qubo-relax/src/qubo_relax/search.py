"""Looking for an infeasible local minimizer by descending from many starts: it can refute, never certify."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

from qubo_relax.solvers.lanes import Stop
from qubo_relax.theory import is_vertex_minimum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qubo_relax.constraints import Rows
    from qubo_relax.qubo import Qubo

LANES = 32
ROUNDS = 8


def infeasible_minimum(
    qubo: Qubo, rows: Rows, time_limit: float, rng: Any = None
) -> tuple[NDArray[np.int8] | None, int]:
    """An infeasible vertex that no flip improves, or None; and how many descents were tried.

    Rounds of random vertices (greedy flips) alternate with projected gradient descent; then ties are walked: from each
    end, flips of zero gain are taken at random and their neighbours looked at.
    """
    from qubo_relax.solvers.pgd import pgd
    from qubo_relax.solvers.prepared import Prepared

    prep = Prepared.of(qubo)
    g = rngs.generator(rng)
    deadline = time.monotonic() + time_limit
    tried = 0
    for k in range(ROUNDS):
        if k and time.monotonic() > deadline:
            break
        X = g.random((LANES, qubo.n), dtype=np.float32)
        if k % 2:
            X = pgd(prep, X, 300, {}, Stop(deadline)).X.astype(np.float32)
        else:
            X = (g.random((LANES, qubo.n)) < g.random((LANES, 1))).astype(np.float32)
        ends = prep.settle(X)
        tried += len(ends)
        for Y in (ends, _tie_walk(qubo, ends, g)):
            bad = ~rows.feasible(Y) & is_vertex_minimum(qubo, Y)
            if bad.any():
                return Y[int(np.argmax(bad))], tried
    return None, tried


def _tie_walk(qubo: Qubo, X: NDArray[np.int8], g: np.random.Generator) -> NDArray[np.int8]:
    """One random flip of (nearly) zero gain in each row."""
    gains = qubo.flip_gains(X)
    scale = 1e-9 * max(1e-300, float(np.max(np.abs(gains), initial=0.0)))
    tied = np.abs(gains) <= scale
    pick = np.argmax(np.where(tied, g.random(gains.shape), -1.0), axis=1)
    Y = X.copy()
    rows = np.flatnonzero(tied.any(axis=1)) if qubo.n else np.zeros(0, dtype=np.int64)
    Y[rows, pick[rows]] ^= 1
    return Y
