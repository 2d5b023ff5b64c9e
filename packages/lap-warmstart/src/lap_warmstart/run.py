"""The methods as visible loops over the kernels. Each leaves a matching and column duals in a `Run`.

Kernels are called in slices, so that an interruption is honoured between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lap_warmstart import core, dense, heap
from lap_warmstart.problem import Problem

ENTRIES_A_SLICE = 60_000_000
# Entries of rows that lie across the memory are read one cache line each.
ACROSS_A_SLICE = 4_000_000
EDGES_A_SLICE = 8_000_000


class NoPath(Exception):  # noqa: N818 - control flow between the methods, not an error of the caller
    """A row has no augmenting path: on a dense or complete sparse problem no complete matching exists."""


@dataclass
class Run:
    """The state of one solve.

    Attributes
    ----------
    p : Problem
    v : ndarray (m,)
        Column duals.
    x, y : ndarray of int64
        Partner of each row and column, -1 for free.
    stats : dict
        Fields of `SolveStats`.
    network : RowDualNet, optional
        To be asked for a seed where the cold problem turns out hard.
    """

    p: Problem
    v: NDArray[np.float64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    stats: dict[str, Any] = field(default_factory=lambda: {"row_scans": 0})
    network: Any = None

    @classmethod
    def start(cls, p: Problem, v: NDArray[np.float64]) -> Run:
        """Begin with the column duals `v` (copied) and nothing matched."""
        n, m = p.c.shape
        return cls(p, v.copy(), np.full(n, -1, dtype=np.int64), np.full(m, -1, dtype=np.int64))

    def clear(self, v: NDArray[np.float64]) -> None:
        """Forget the matching and go on from the column duals `v` (copied)."""
        self.x[:] = -1
        self.y[:] = -1
        self.v[:] = v


def slices(c: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Split the rows so that one pass over a slice takes some tens of milliseconds, and an interruption is honoured."""
    n, m = c.shape
    step = max(1, ENTRIES_A_SLICE // max(m, 1))
    for start in range(0, n, step):
        yield start, min(n, start + step)


def search_dense(run: Run) -> None:
    """Match every free row by dense shortest augmenting paths (or leave it at the gate)."""
    c = run.p.c
    rows = np.empty(c.shape[0], dtype=np.int64)
    total = dense.free_rows(run.x, rows)
    quota = max(8, (ACROSS_A_SLICE if run.p.across else ENTRIES_A_SLICE) // max(c.shape[1], 1))
    at = 0
    while at < total:
        at, scans, fault = dense.search(c, run.v, run.x, run.y, rows, at, total, run.p.gate, quota)
        run.stats["row_scans"] += scans
        if fault >= 0:
            raise NoPath


def greedy_dense(run: Run) -> float:
    """Match rows on tight edges; return the sum of the row minima."""
    total = 0.0
    for start, stop in slices(run.p.c):
        total += dense.greedy(run.p.c, run.v, run.x, run.y, start, stop)
    if not math.isinf(run.p.gate):
        drop_gated(run)
    run.stats["greedy_fraction"] = float(np.count_nonzero(run.x >= 0)) / max(run.x.size, 1)
    return total


def drop_gated(run: Run) -> None:
    """Unmatch rows whose matched reduced cost reaches the gate."""
    matched = np.flatnonzero(run.x >= 0)
    columns = run.x[matched]
    over = run.p.c[matched, columns] - run.v[columns] >= run.p.gate
    run.y[columns[over]] = -1
    run.x[matched[over]] = -1


def reduce_rows(run: Run, budget: int, *, classical: bool = False) -> None:
    """Augmenting row reduction of the free rows."""
    c = run.p.c
    rows = np.empty(c.shape[0], dtype=np.int64)
    state = np.zeros(5, dtype=np.int64)
    state[3] = dense.free_rows(run.x, rows)
    buffer = np.empty(c.shape[1])
    quota = max(8, ENTRIES_A_SLICE // max(c.shape[1], 1))
    while not dense.row_reduction(c, run.v, run.x, run.y, rows, state, budget, run.p.gate, classical, buffer, quota):
        pass
    run.stats["row_scans"] += int(state[4])


def cold_dense(run: Run, minima: NDArray[np.float64], *, classical: bool = False) -> None:
    """Solve from cold: LAPJV with a budget on the row reduction (`classical`: without, as published)."""
    n = run.p.c.shape[0]
    if run.p.square:
        run.clear(minima)
        dense.column_reduction(run.p.c, run.v, run.x, run.y)
        run.stats["greedy_fraction"] = float(np.count_nonzero(run.x >= 0)) / n
    else:
        run.clear(np.zeros_like(minima))
        greedy_dense(run)
    reduce_rows(run, 2**62 if classical else 4 * n, classical=classical)
    run.stats["augmentations"] = int(np.count_nonzero(run.x < 0))
    search_dense(run)


def warm_dense(run: Run, v: NDArray[np.float64]) -> None:
    """Solve from the column duals `v`: greedy, search, and in rectangular or gated problems repair and search."""
    run.clear(v)
    greedy_dense(run)
    run.stats["augmentations"] = int(np.count_nonzero(run.x < 0))
    search_dense(run)
    if not run.p.square and dense.repair(run.p.c, run.v, run.x, run.y) >= 0:
        search_dense(run)


@dataclass
class Core:
    """The core graph of a run (CSR) and the cost of each row's matched edge."""

    ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    val: NDArray[np.float64]
    cx: NDArray[np.float64]

    def search(self, run: Run) -> None:
        """Match every free row by shortest augmenting paths of the core."""
        rows = np.empty(run.x.size, dtype=np.int64)
        total = dense.free_rows(run.x, rows)
        quota = max(64, EDGES_A_SLICE * run.x.size // max(int(self.ptr[-1]), 1))
        at = 0
        while at < total:
            at, scans, fault = heap.search_core(
                self.ptr, self.col, self.val, run.v, run.x, run.y, self.cx, rows, at, total, run.p.gate, quota
            )
            run.stats["row_scans"] += scans
            if fault >= 0:
                raise NoPath

    def add(self, rows: NDArray[np.int64], cols: NDArray[np.int32], vals: NDArray[np.float64], counts: Any) -> None:
        """Add up to ``cols.shape[1]`` edges to each of the ascending `rows`."""
        size = int(self.ptr[-1]) + int(counts.sum())
        ptr, col, val = np.empty_like(self.ptr), np.empty(size, dtype=np.int32), np.empty(size)
        core.add_edges(self.ptr, self.col, self.val, rows, cols, vals, counts, rows.size, ptr, col, val)
        self.ptr, self.col, self.val = ptr, col, val
