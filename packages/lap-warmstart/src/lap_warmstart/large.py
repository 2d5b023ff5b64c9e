"""Problems beyond one small compiled call: the choice of the method, and its run."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lap_warmstart import dense, passes, pricing, seeds, warm
from lap_warmstart.problem import Problem, refuse
from lap_warmstart.result import AssignmentResult
from lap_warmstart.run import NoPath, Run, cold_dense, warm_dense

Vector = NDArray[np.float64]


def solve_large(p: Problem, method: str, warm_start: object, fallback: str, begin: float) -> AssignmentResult:
    """Solve a dense problem by phases; see `lap_warmstart.solve` for the arguments.

    Raises
    ------
    NoPath
        No complete matching exists.
    """
    warm.check(warm_start, p.shape)
    # Duals at hand go through the Min-Trick in the pass that checks the costs; a predictor waits for its verdict.
    known = warm.read(warm_start, p) if warm.is_duals(warm_start) else None
    status, minima, lowered = passes.survey(p, None if known is None else known.rows)
    if status == dense.INFEASIBLE:
        raise NoPath
    if status != dense.OK:
        raise refuse(p, status)
    run = Run.start(p, np.zeros(p.c.shape[1]))
    if known is not None and lowered is not None:
        known.columns = passes.finite(lowered)
    seed = seeds.choose(run, minima, warm_start, fallback, known)
    name = method_for(p, method)
    if name in ("dense", "lapjv") and seed is not None:
        # From a seed LAPJV skips its column and row reductions, as the paper has it.
        warm_dense(run, seed)
    elif name in ("dense", "lapjv"):
        cold_dense(run, minima, classical=name == "lapjv")
    elif name == "gated":
        from lap_warmstart.sparse import solve_gated

        solve_gated(run, seed)
    else:
        pricing.solve_core(run, minima, seed)
    n = p.c.shape[0]
    if seed is not None:
        run.stats["overran"] = run.stats["row_scans"] > 8.0 * n**1.5
    matched = np.flatnonzero(run.x >= 0)
    costs = np.zeros(n)
    costs[matched] = p.c[matched, run.x[matched]]
    return p.answer(run.x, costs, run.v, name, begin, run.stats)


def method_for(p: Problem, method: str) -> str:
    """Resolve "auto": dense for small and for long problems, the gated graph with a gate, else the core.

    Rows that lie across the memory are left to the core, whose passes go along it.
    """
    if method != "auto":
        return method
    n, m = p.c.shape
    if not math.isinf(p.gate):
        return "dense" if min(n, m) < 32 else "gated"
    return "dense" if (n < 256 or m >= 2 * n) and not p.across else "core"
