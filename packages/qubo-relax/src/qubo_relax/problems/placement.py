"""The variables of "placement" formulations with several bins (B6, B11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qubo_relax.problems.knapsack import interval_placements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """The variables of a placement formulation: item, bin, first unit, end; items, then bins, then positions."""

    item: Ints
    bin: Ints
    start: Ints
    stop: Ints

    @classmethod
    def of(cls, weights: Floats, capacities: Floats) -> Places:
        """All ways to lay items (n, m) into bins (m,)."""
        m = weights.shape[1]
        parts = []
        for b in range(m):
            item, start, stop = interval_placements(weights[:, b].astype(np.int64), int(capacities[b]))
            parts.append((item, np.full(item.size, b), start, stop))
        item, box, start, stop = (np.concatenate(c) for c in zip(*parts)) if parts else (np.zeros(0, np.int64),) * 4
        order = np.lexsort((start, box, item))
        return cls(item[order], box[order], start[order], stop[order])

    def conflicts(self) -> tuple[Ints, Ints]:
        """Pairs of one item, and pairs that overlap in one bin."""
        solid = self.stop > self.start
        overlap = (self.start[:, None] < self.stop) & (self.start < self.stop[:, None]) & solid & solid[:, None]
        same = self.item[:, None] == self.item
        i, j = np.nonzero(np.triu(same | (overlap & (self.bin[:, None] == self.bin)), 1))
        return i.astype(np.int64), j.astype(np.int64)

    def lay(self, where: Ints, weights: Floats) -> NDArray[np.int8]:
        """The point of an assignment of bins (-1: out), items side by side."""
        x = np.zeros(self.item.size, dtype=np.int8)
        used = np.zeros(int(where.max(initial=-1)) + 1, dtype=np.int64)
        for i in np.flatnonzero(where >= 0):
            b, width = int(where[i]), int(weights[i, where[i]])
            at = used[b] if width else 0
            x[(self.item == i) & (self.bin == b) & (self.start == at)] = 1
            used[b] += width
        return x
