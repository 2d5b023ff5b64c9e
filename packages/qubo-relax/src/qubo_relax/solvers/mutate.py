"""Restarting the worst half of the lanes from the best ones. Ours, not the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.anneal import WARM, anneal
from qubo_relax.solvers.lanes import Lanes, Stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

ROUNDS = 4
SHARE = 0.2


def mutate(prep: Prepared, X0: NDArray[Any], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """Rounds in which the worst half of a block of lanes starts again near the best; no lane ends worse than it was.

    Every other lane of the worse half restarts from the best lane with a random share of its coordinates drawn anew,
    the others from a uniform crossover of two lanes of the better half; each is annealed from a warm temperature and
    takes its place if it is better. Lanes of one block of 32 depend on each other here.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of shape (B, n)
    steps : int
        Sweeps of a lane over all rounds.
    options : mapping
        ``rounds`` (4), ``share`` (0.2) of the coordinates; ``hot`` (6) and ``cold`` of the sweeps; ``states``.
    stop : Stop

    Returns
    -------
    Lanes
    """
    rounds, share = int(options.get("rounds", ROUNDS)), float(options.get("share", SHARE))
    X = prep.settle(X0)
    energies = prep.qubo.energy(X)
    B, n = X.shape
    half = max(1, B // 2)
    total, ended = 0, "done"
    for k in range(rounds if n else 0):
        g = np.random.default_rng([int(s) for s in options["states"]] + [k])
        order = np.argsort(energies, kind="stable")
        worst = order[-half:]
        starts = np.empty((worst.size, n), dtype=np.int8)
        for m in range(worst.size):
            if m % 2 == 0:
                anew = g.random(n) < share
                starts[m] = np.where(anew, g.random(n) < 0.5, X[order[0]])
            else:
                a, b = g.choice(order[: max(1, B - half)], 2)
                starts[m] = np.where(g.random(n) < 0.5, X[a], X[b])
        local = {"hot": WARM, **options, "states": g.integers(1, 2**63, worst.size, dtype=np.uint64)}
        found = anneal(prep, starts, max(1, steps // rounds), local, stop)
        ends = prep.settle(found.X)
        values = prep.qubo.energy(ends)
        for lane, y, e in zip(worst, ends, values):
            if e < energies[lane]:
                X[lane], energies[lane] = y, e
        total, ended = total + found.steps, found.ended
        if ended != "done":
            break
    return Lanes(X, total, ended)
