"""The step in one pass over memory, for float32 on a CPU: five streams where AdamW has seven.

Importing this module loads numba; the optimizer does so when it first needs it. The arithmetic is that of `step.py`
term by term (`torch.lerp` included), so that the two agree to the order of summation in a row's norm.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from optim_rmnp.step import Rule

# Reordered sums and fused multiply-adds let a row's sum vectorise. NaN and infinities keep their meaning.
_MATH = {"reassoc", "contract", "nsz"}
# Entries below which handing a piece to another thread costs more than it saves.
_PIECE = 1 << 18
# Columns a tile of a weight stored transposed. Wide ones are read in long runs; 64 columns take 1.7 times as long.
_TILE = 1024
_LINE = 16  # float32 entries of a cache line: threads do not share one


@numba.njit(inline="always", fastmath=_MATH)
def _lerp(start, end, weight):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    if weight < np.float32(0.5):
        return start + weight * (end - start)
    return end - (end - start) * (np.float32(1.0) - weight)


@numba.njit(fastmath={"nsz"})
def _move(weight, shrink, factor, u):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    # Without fused multiply-add, as torch rounds it: else weights drift apart by half an ulp a step. The flags are
    # named since a callee that names none inherits its caller's.
    return weight * shrink - factor * u


@numba.njit(nogil=True, cache=True, fastmath=_MATH)
def _rows(w, g, m, first, last, decay, rate, new, mu, nesterov, eps, sign, hold):  # type: ignore[no-untyped-def] # pragma: no cover
    """Rows `first` to `last` of contiguous (m, n) arrays."""
    n = w.shape[1]
    for i in range(first, last):
        if hold:
            j = 0
            while j < n and g[i, j] == 0:
                j += 1
            if j == n:
                continue
        total = np.float32(0.0)
        if nesterov:
            for j in range(n):
                x = sign * g[i, j]
                avg = _lerp(m[i, j], x, new)
                m[i, j] = avg
                u = _lerp(x, avg, mu)
                total += u * u
        else:
            for j in range(n):
                avg = _lerp(m[i, j], sign * g[i, j], new)
                m[i, j] = avg
                total += avg * avg
        norm = np.float32(math.sqrt(total))
        if not math.isfinite(norm):
            norm = np.float32(np.nan)
        elif norm < eps:
            norm = eps
        f = rate / norm
        if nesterov:
            for j in range(n):
                w[i, j] = _move(w[i, j], decay, f, _lerp(sign * g[i, j], m[i, j], mu))
        else:
            for j in range(n):
                w[i, j] = _move(w[i, j], decay, f, m[i, j])


@numba.njit(nogil=True, cache=True, fastmath=_MATH)
def _columns(w, g, m, first, last, decay, rate, new, mu, nesterov, eps, sign, hold):  # type: ignore[no-untyped-def] # pragma: no cover
    """Columns `first` to `last` of contiguous (n, m) arrays: weights stored transposed, tile by tile."""
    n = w.shape[0]
    total = np.empty(_TILE, np.float32)
    factor = np.empty(_TILE, np.float32)
    shrink = np.empty(_TILE, np.float32)
    moving = np.empty(_TILE, np.bool_)
    for c in range(first, last, _TILE):
        width = min(_TILE, last - c)
        total[:] = 0
        moving[:] = not hold
        if hold:
            for i in range(n):
                gi = g[i, c : c + width]
                for j in range(width):
                    moving[j] |= gi[j] != 0
        for i in range(n):
            gi = g[i, c : c + width]
            mi = m[i, c : c + width]
            if hold:
                for j in range(width):
                    avg = _lerp(mi[j], sign * gi[j], new)
                    mi[j] = avg if moving[j] else mi[j]
            else:
                for j in range(width):
                    mi[j] = _lerp(mi[j], sign * gi[j], new)
            if nesterov:
                for j in range(width):
                    u = _lerp(sign * gi[j], mi[j], mu)
                    total[j] += u * u
            else:
                for j in range(width):
                    total[j] += mi[j] * mi[j]
        for j in range(width):
            norm = np.float32(math.sqrt(total[j]))
            if not math.isfinite(norm):
                norm = np.float32(np.nan)
            elif norm < eps:
                norm = eps
            factor[j] = rate / norm if moving[j] else np.float32(0.0)
            shrink[j] = decay if moving[j] else np.float32(1.0)
        for i in range(n):
            gi = g[i, c : c + width]
            mi = m[i, c : c + width]
            wi = w[i, c : c + width]
            if nesterov:
                for j in range(width):
                    wi[j] = _move(wi[j], shrink[j], factor[j], _lerp(sign * gi[j], mi[j], mu))
            else:
                for j in range(width):
                    wi[j] = _move(wi[j], shrink[j], factor[j], mi[j])


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix to be stepped: float32 on a CPU, contiguous, shape (m, n), or (n, m) if `transposed`."""

    param: Tensor
    grad: Tensor
    momentum_buffer: Tensor
    rule: Rule
    transposed: bool = False


def step_matrices(matrices: Sequence[Matrix]) -> None:
    """One step on every matrix, in place, on `torch.get_num_threads` threads.

    Parameters
    ----------
    matrices : sequence of Matrix

    Notes
    -----
    A row is computed by one thread whatever their number, so the bits do not depend on it.
    """
    threads = torch.get_num_threads()
    pieces = [piece for matrix in matrices for piece in _pieces(matrix, threads)]
    if threads == 1 or len(pieces) == 1:
        for piece in pieces:
            _run(piece)
        return
    for _ in _pool(threads).map(_run, pieces):
        pass


_Piece = tuple[Matrix, int, int]


def _pieces(matrix: Matrix, threads: int) -> list[_Piece]:
    rows = matrix.param.shape[1 if matrix.transposed else 0]
    count = 1 if threads == 1 else max(1, min(threads, matrix.param.numel() // _PIECE))
    height = max(1, -(-rows // count))
    if matrix.transposed:
        height = -(-height // _LINE) * _LINE
    return [(matrix, start, min(start + height, rows)) for start in range(0, rows, height)]


def _run(piece: _Piece) -> None:
    matrix, first, last = piece
    rule = matrix.rule
    kernel = _columns if matrix.transposed else _rows
    kernel(
        # Detached, since gradient mode belongs to a thread: in a pool's it is on.
        matrix.param.detach().numpy(),
        matrix.grad.detach().numpy(),
        matrix.momentum_buffer.detach().numpy(),
        first,
        last,
        np.float32(1 - float(rule.lr) * rule.weight_decay),
        np.float32(float(rule.lr) * rule.scale),
        np.float32(1 - rule.momentum),
        np.float32(rule.momentum),
        rule.nesterov,
        np.float32(rule.eps),
        np.float32(-1 if rule.maximize else 1),
        rule.hold,
    )


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="optim-rmnp")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    # A forked child has none of the threads, only the queue they would have read.
    os.register_at_fork(after_in_child=_pools.clear)
