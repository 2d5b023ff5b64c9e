"""What the algorithms of a full product have to do, and how long that is expected to take."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cg_tensorproduct.paths import Problem
from cg_tensorproduct.plans import HAS_NUMBA

LARGEST_MATRIX = 1 << 22  # above this the dense algorithm's matrix leaves the cache and never wins


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
    couples : int
        Pairs of input copies.
    outer : int
        Numbers in the outer product.
    """

    dense: int
    blocked: int
    outputs: int
    launches: int
    couples: int
    outer: int

    @property
    def matrix(self) -> int:
        """Entries of the dense algorithm's matrix."""
        return self.dense

    @property
    def key(self) -> str:
        """Names the problem in the cache of measurements."""
        return f"{self.dense}-{self.blocked}-{self.outputs}-{self.launches}-{self.couples}"

    @classmethod
    def of(cls, problem: Problem) -> Costs:
        """Count for `problem`."""
        blocked, couples, shapes = 0, 0, set()
        for pair in problem.pairs:
            copies = len(pair.rows1) * len(pair.rows2)
            couples += copies
            for M in range(max(pair.l3) + 1):
                n = min(pair.l1, M + pair.l2) - max(-pair.l1, M - pair.l2) + 1
                rows = sum(l3 >= M for l3 in pair.l3)
                blocked += n * rows * copies * (2 if M else 1)  # complex, but for M = 0, where one part is enough
                shapes.add((n, rows, copies))
        outer = problem.dim1 * problem.dim2
        return cls(outer * problem.dim_out, blocked, problem.dim_out, len(shapes), couples, outer)


# What gradients to both inputs make of the time of a forward: a factor, and seconds on top. The fused backward of the
# kernel saves nothing and reads once; the blocked one gathers and scatters arrays that leave the cache.
BACKWARD = {"dense": (3.0, 5e-5), "blocked": (4.5, 0.0), "kernel": (2.5, 4e-5)}


def modelled(
    costs: Costs, batch: int, dtype: torch.dtype, device: torch.device, *, backward: bool = False
) -> dict[str, float]:
    """Seconds that each algorithm is expected to take on one core (or one GPU), from constants measured on an x86
    core.
    """
    seconds = _forward(costs, batch, dtype, device)
    if not backward:
        return seconds
    return {name: BACKWARD[name][0] * value + BACKWARD[name][1] for name, value in seconds.items()}


def _forward(costs: Costs, batch: int, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    if device.type != "cpu":
        # Launches decide on a GPU as long as the matrix is small; untested there, so the margins are wide.
        dense = 2e-5 + batch * costs.dense / 1e13 + costs.matrix / 1e11
        return {"dense": dense, "blocked": 1e-4 + costs.launches * 1e-5 + batch * costs.blocked / 1e11}
    width = 2.0 if dtype == torch.float64 else 1.0
    tiles = -(-batch // 16) * 16
    blocked = costs.blocked * 1.1e-10 + costs.outputs * 3e-9
    seconds = {
        "dense": 7e-6 + width * (batch * (costs.dense / 4.5e10 + costs.outer * 1e-9) + costs.matrix * 1e-10),
        "blocked": 5e-5 + costs.launches * 2e-6 + width * batch * blocked,
    }
    if HAS_NUMBA:
        kernel = costs.blocked * 5.5e-11 + costs.outputs * 8e-10 + costs.couples * 1.5e-8
        seconds["kernel"] = 7e-6 + width * tiles * kernel
    if costs.matrix > LARGEST_MATRIX:
        seconds.pop("dense")
    return seconds
