"""The step in one pass over memory, for float32 on a CPU: five streams where AdamW has seven.

Importing this module loads numba; the optimizer does so when it first needs it. The arithmetic is that of `step.py`
term by term (`torch.lerp` included), so that the two agree to the order of summation in a row's norm.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic

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
def _lerp(start, end, weight):  # type: ignore[no-untyped-def]
    if weight < np.float32(0.5):
        return start + weight * (end - start)
    return end - (end - start) * (np.float32(1.0) - weight)


@numba.njit(fastmath={"nsz"})
def _move(weight, shrink, factor, u):  # type: ignore[no-untyped-def]
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


def _pointer(_context, _address):  # type: ignore[no-untyped-def]
    """The address of float32 entries as a pointer."""
    pointer = types.CPointer(types.float32)

    def generate(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64), generate


_floats: Any = intrinsic(_pointer)
_carray: Any = numba.carray  # type: ignore[attr-defined]


@numba.njit(nogil=True, cache=True)
def _run(table, numbers, begin, end):  # type: ignore[no-untyped-def]
    """Pieces `begin` to `end` of the tables that `_tables` makes."""
    for k in range(begin, end):
        shape = (table[k, 3], table[k, 4])
        w = _carray(_floats(table[k, 0]), shape)
        g = _carray(_floats(table[k, 1]), shape)
        m = _carray(_floats(table[k, 2]), shape)
        first, last = table[k, 5], table[k, 6]
        transposed, nesterov, hold = table[k, 7] != 0, table[k, 8] != 0, table[k, 9] != 0
        decay, rate, new, mu, eps, sign = numbers[k]
        if transposed:
            _columns(w, g, m, first, last, decay, rate, new, mu, nesterov, eps, sign, hold)
        else:
            _rows(w, g, m, first, last, decay, rate, new, mu, nesterov, eps, sign, hold)


# param, grad, momentum buffer, rule, transposed: float32 on a CPU, contiguous, shape (m, n), or (n, m) if transposed.
Matrix = tuple["Tensor", "Tensor", "Tensor", "Rule", bool]


def step_matrices(matrices: Sequence[Matrix]) -> None:
    """One step on every matrix, in place, on `torch.get_num_threads` threads.

    Parameters
    ----------
    matrices : sequence of (param, grad, momentum_buffer, rule, transposed)
        Tensors in float32 on a CPU, contiguous, of shape (m, n), or (n, m) if `transposed`.

    Notes
    -----
    A row is computed by one thread whatever their number, so the bits do not depend on it.
    """
    if not matrices:
        return
    Tables(matrices).run()


class Tables:
    """What the kernel reads, a row a piece, and which runs of pieces are worth a thread's while.

    Addresses and numbers go in two tables: handing a kernel three arrays a matrix costs more than a small matrix does.

    Parameters
    ----------
    matrices : sequence of Matrix
    """

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self._threads = torch.get_num_threads()
        self._addresses, self._numbers, self._owners, self._runs = _tables(matrices, self._threads)

    def run(self) -> None:
        """One step."""
        table, numbers = self._addresses, self._numbers
        if len(self._runs) == 1:
            _run(table, numbers, 0, len(table))
            return
        for _ in _pool(self._threads).map(lambda run: _run(table, numbers, *run), self._runs):
            pass

    def change(self, gradients: list[int], rules: list[Rule]) -> None:
        """Put in the addresses of other gradients and the numbers of other rules, one of each a matrix."""
        owners = self._owners
        self._addresses[:, 1] = np.array(gradients, np.int64)[owners]
        self._addresses[:, 8:] = rules[0].nesterov, rules[0].hold
        constants = {id(rule): _constants(rule) for rule in rules}
        self._numbers[:] = np.array([constants[id(rule)] for rule in rules], np.float32)[owners]


_Table = tuple[
    "np.ndarray[Any, np.dtype[np.int64]]",
    "np.ndarray[Any, np.dtype[np.float32]]",
    "np.ndarray[Any, np.dtype[np.int64]]",
    "list[tuple[int, int]]",
]


def _tables(matrices: Sequence[Matrix], threads: int) -> _Table:
    table: list[tuple[int, ...]] = []
    numbers: list[tuple[float, ...]] = []
    owners: list[int] = []
    runs: list[tuple[int, int]] = []
    constants: dict[int, tuple[float, ...]] = {}
    begin = entries = 0
    for owner, (param, grad, momentum_buffer, rule, transposed) in enumerate(matrices):
        height, width = param.shape
        size = height * width
        rows = width if transposed else height
        shares = 1 if threads == 1 else max(1, min(threads, size // _PIECE))
        share = max(1, -(-rows // shares))
        if transposed:
            share = -(-share // _LINE) * _LINE
        values = constants.get(id(rule))
        if values is None:
            values = constants[id(rule)] = _constants(rule)
        head = (param.data_ptr(), grad.data_ptr(), momentum_buffer.data_ptr(), height, width)
        tail = (transposed, rule.nesterov, rule.hold)
        for first in range(0, rows, share):
            last = min(first + share, rows)
            table.append((*head, first, last, *tail))
            numbers.append(values)
            owners.append(owner)
            entries += (last - first) * (size // rows)
            if threads > 1 and entries >= _PIECE:
                runs.append((begin, len(table)))
                begin, entries = len(table), 0
    if begin < len(table):
        runs.append((begin, len(table)))
    return np.array(table, np.int64), np.array(numbers, np.float32), np.array(owners, np.int64), runs


def _constants(rule: Rule) -> tuple[float, ...]:
    lr = float(rule.lr)
    sign = -1 if rule.maximize else 1
    return 1 - lr * rule.weight_decay, lr * rule.scale, 1 - rule.momentum, rule.momentum, rule.eps, sign


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="optim-rmnp")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    # A forked child has none of the threads, only the queue they would have read.
    os.register_at_fork(after_in_child=_pools.clear)
