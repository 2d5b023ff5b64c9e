"""Many problems at once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

from lap_warmstart.problem import gate_of
from lap_warmstart.result import AssignmentResult
from lap_warmstart.solve import SMALL, _kernel, _options, solve


def solve_batch(
    costs: Any,
    *,
    workers: int = 1,
    maximize: bool = False,
    unmatched_cost: float | None = None,
    on_infeasible: str = "raise",
    warm_start: object = None,
    method: str = "auto",
    fallback: str = "bound",
) -> list[AssignmentResult]:
    """Solve a batch of problems, of one shape (a 3-D array) or of many (a sequence).

    Parameters
    ----------
    costs : array-like (B, n, m) or sequence of B matrices
        Anything that `solve` takes.
    workers : int
        Threads; the kernels release the GIL.
    maximize, unmatched_cost, on_infeasible, warm_start, method, fallback
        As for `solve`, the same for all.

    Returns
    -------
    list of AssignmentResult

    Raises
    ------
    InvalidInput
        Of the first problem that is wrong, in the order of the batch.
    """
    positive_int(workers, "workers")
    _options(method, fallback, on_infeasible, maximize)
    gate_of(unmatched_cost, maximize=bool(maximize))
    if not isinstance(costs, Iterable) or getattr(costs, "ndim", 1) == 0:
        raise InvalidInput.argument("costs", expected="a 3-D array or a sequence of matrices", got=type(costs).__name__)
    options: dict[str, Any] = {
        "maximize": maximize, "unmatched_cost": unmatched_cost, "on_infeasible": on_infeasible,
        "warm_start": warm_start, "method": method, "fallback": fallback,
    }  # fmt: skip
    plain = not maximize and unmatched_cost is None and warm_start is None and method == "auto"
    if plain and isinstance(costs, np.ndarray) and costs.ndim == 3:
        stack = _stack(costs)
        if stack is not None and workers == 1:
            return _small_batch(stack, options)
    problems: Sequence[Any] = list(costs)
    if workers == 1 or len(problems) < 2:
        return [solve(c, **options) for c in problems]
    _kernel()
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda c: solve(c, **options), problems))


def _stack(costs: Any) -> Any:
    """Return the batch as a C-ordered float64 array if the small kernel can take it in one call."""
    batch, n, m = costs.shape
    if costs.dtype != np.float64 or not batch or not 0 < n <= m or n >= SMALL:
        return None
    return np.ascontiguousarray(costs) if costs.flags.writeable else np.array(costs, order="C")


def _small_batch(stack: Any, options: dict[str, Any]) -> list[AssignmentResult]:
    from lap_warmstart.small import assign_batch

    begin = time.perf_counter()
    batch, n, m = stack.shape
    x, out = np.empty((batch, n), dtype=np.int64), np.empty((batch, n + m))
    counts = np.empty((batch, 4), dtype=np.int64)
    _kernel()
    # Slices keep an interruption quick.
    step = max(1, 50_000_000 // (n * m * n))
    for start in range(0, batch, step):
        stop = min(batch, start + step)
        assign_batch(stack, math.inf, x, out, counts, start, stop)
    share = (time.perf_counter() - begin) / batch
    results = []
    shape = (n, m)
    for k, (status, scans, left, searched) in enumerate(counts.tolist()):
        if status != 0:
            results.append(solve(stack[k], **options))
            continue
        stats = (scans, left, searched)
        results.append(AssignmentResult(x[k], out[k, :n], out[k, n:], shape, "dense", share, stats=stats))
    return results
