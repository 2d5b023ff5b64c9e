"""Simulated annealing by single flips. Ours, not the paper's: its claims are never measured on it."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop, chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

HOT, COLD = 3.0, 40.0
WARM = 6.0


@cache
def _table() -> NDArray[np.float32]:
    from qubo_relax.solvers.kernels import exponential_table

    return exponential_table()


def _in_time(plan: NDArray[np.float32], at: int, begun: float, deadline: float) -> NDArray[np.float32]:
    """The rest of the schedule with no more sweeps than the time left has room for, down to the same temperature."""
    now = time.monotonic()
    if not np.isfinite(deadline):
        return plan
    room = max(1, int(0.95 * (deadline - now) * at / max(now - begun, 1e-9)))
    if room >= plan.size - at:
        return plan
    return np.concatenate([plan[:at], np.linspace(plan[at], plan[-1], room, dtype=np.float32)])


def anneal(prep: Prepared, X0: NDArray[Any], steps: int, options: Mapping[str, Any], stop: Stop) -> Lanes:
    """Metropolis flips in index order, ``beta`` linear in the sweep from ``hot / s`` to ``cold / s``.

    ``s`` is the median row norm of S. The field ``g`` is kept and updated by the neighbours of a flip alone;
    ``-log(u)`` comes from a table, in runs of 64 that begin at a random place.

    Parameters
    ----------
    prep : Prepared
    X0 : ndarray of shape (B, n)
        Binary starts.
    steps : int
        Sweeps.
    options : mapping
        ``hot`` (3), ``cold`` (40), ``states``: one 64-bit seed a lane.
    stop : Stop

    Returns
    -------
    Lanes
        Lanes that were not begun when the time ended are left out; the first is always begun, and cools faster where
        the deadline would otherwise meet it hot.
    """
    from qubo_relax.solvers.kernels import anneal_sweeps

    S = prep.qubo.quadratic
    linear = prep.qubo.linear if prep.qubo.diagonal is None else prep.qubo.linear + prep.qubo.diagonal
    hot, cold = float(options.get("hot", HOT)), float(options.get("cold", COLD))
    betas = (np.linspace(hot, cold, max(steps, 1)) / prep.row_scale).astype(np.float32)
    states = options["states"]
    indptr, indices = prep.indptr.view(np.uint64), prep.indices.view(np.uint32)
    many = chunk(prep.indices.size, prep.qubo.n, 1)
    out = np.empty(X0.shape, dtype=np.int8)
    done, ended, total = 0, "done", 0
    for lane in range(len(X0)):
        if lane and ended != "done":
            break
        x = X0[lane] > 0.5
        h = (linear + S @ x.astype(np.float64)).astype(np.float32)
        s = np.where(x, np.float32(-1), np.float32(1)).astype(np.float32)
        state = np.array([states[lane]], dtype=np.uint64)
        plan, at, begun = betas, 0, time.monotonic()
        try:
            while at < plan.size:
                ended = stop.reason(total)
                if ended != "done":
                    break
                if not lane and at:
                    plan = _in_time(plan, at, begun, stop.deadline)
                part = plan[at : at + many]
                anneal_sweeps(indptr, indices, prep.data, h, s, state, _table(), part)
                at += part.size
                stop.count(part.size)
                total += part.size
            if plan.size < steps and ended == "done":
                ended = "time_limit"
        except KeyboardInterrupt:
            ended = "interrupted"
        np.less(s, 0, out=out[lane].view(bool))
        done = lane + 1
        if stop.callback is not None:
            stop.note(float(prep.qubo.energy(out[lane])))
    return Lanes(out[:done], total, ended)
