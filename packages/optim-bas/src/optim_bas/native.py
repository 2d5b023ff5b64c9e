"""The step in one pass over memory, for float32 weights and float8_e4m3fn momenta on a CPU.

14 bytes an entry are moved where AdamW moves 28. Importing this module loads numba; the optimizer does so when it first
needs it. The arithmetic is that of `step.py` term by term: the codes are the same bit for bit, and the weights up to
the order of summation in a block.

The two loops over a row are vector instructions written out in `vectors.py`. Nothing in them produces or needs a
float32 below the normal range, so that the step is as fast on sparse gradients and as right under
``torch.set_flush_denormal``.
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

from optim_bas.vectors import LANES, average_and_sum, move_and_encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from optim_bas.step import Rule
    from optim_bas.tiles import Place

# Entries of a block worked on at once: 128 kB of scratch, inside the second-level cache.
CHUNK = 16_384
# Entries whose squares are added up in float32, sixteen sums side by side; further ones in float64.
_PART = 1024
# Entries below which handing a piece to another thread costs more than it saves.
_PIECE = 1 << 18
_SMALLEST_SCALE = 2.0**-126
_F = np.float32


@numba.njit(nogil=True, cache=True)
def _first_loop(code, g, m, x, small, scale, old, new, nesterov, rms):  # type: ignore[no-untyped-def]
    """New momentum and direction of a chunk, and their sums: see `vectors.average_and_sum`."""
    n = m.size
    squares, sizes, top = 0.0, 0.0, np.int32(0)
    whole = n - n % LANES
    for s in range(0, whole, _PART):
        count = min(_PART, whole - s) // LANES
        more, extent, largest = average_and_sum(
            code[s:].ctypes.data, g[s:].ctypes.data, m[s:].ctypes.data, x[s:].ctypes.data,
            count, scale, old, new, nesterov, rms,
        )  # fmt: skip
        squares += more
        sizes += extent
        top = max(top, largest)
    if whole < n:
        # What does not fill a vector is worked on in one of its own, filled up with zeros.
        rest = n - whole
        codes, floats = small
        floats[:, :] = 0
        codes[:] = 0
        codes[:rest] = code[whole:]
        floats[0, :rest] = g[whole:]
        more, extent, largest = average_and_sum(
            codes.ctypes.data, floats[0].ctypes.data, floats[1].ctypes.data, floats[2].ctypes.data,
            1, scale, old, new, nesterov, rms,
        )  # fmt: skip
        m[whole:] = floats[1, :rest]
        x[whole:] = floats[2, :rest]
        squares += more
        sizes += extent
        top = max(top, largest)
    return squares, sizes, top


@numba.njit(nogil=True, cache=True)
def _second_loop(w, code, m, x, small, rate, decay, divisor, random, index, key):  # type: ignore[no-untyped-def]
    """Move the weights and encode the momentum of a chunk: see `vectors.move_and_encode`."""
    n = m.size
    count = n // LANES
    whole = count * LANES
    first = np.uint32(index)
    move_and_encode(
        w.ctypes.data, x.ctypes.data, m.ctypes.data, code.ctypes.data, count, rate, decay, divisor, random, first, key
    )
    if whole < n:
        rest = n - whole
        codes, floats = small
        floats[:, :] = 0
        floats[0, :rest] = w[whole:]
        floats[1, :rest] = m[whole:]
        floats[2, :rest] = x[whole:]
        move_and_encode(
            floats[0].ctypes.data, floats[2].ctypes.data, floats[1].ctypes.data, codes.ctypes.data,
            1, rate, decay, divisor, random, np.uint32(index + whole), key,
        )  # fmt: skip
        w[whole:] = floats[0, :rest]
        code[whole:] = codes[:rest]


@numba.njit(nogil=True, cache=True)
def _blocks(w, g, code, scales, v, shape, origin, real, nesterov, rms, random, key):  # type: ignore[no-untyped-def]
    """Blocks `first` to `last` of one tensor, all arrays flat. Long, since every value is used throughout."""
    cols, size, per_row, first, last = shape
    start_index, row_stride = origin
    old, new, beta2, new2, correction1, correction2, eps, lr, decay = real
    m = np.empty(min(size, CHUNK), np.float32)
    # Without a look-ahead the direction is the momentum: a second row would push the first out of the nearest cache.
    x = np.empty_like(m) if nesterov else m
    small = (np.zeros(LANES, np.uint8), np.zeros((3, LANES), np.float32))
    one = np.empty(1, np.int32)
    for b in range(first, last):
        row, q = b // per_row, b % per_row
        start = row * cols + q * size
        stop = min(start + size, (row + 1) * cols)
        squares, sizes, top = 0.0, 0.0, np.int32(0)
        for s in range(start, stop, CHUNK):
            e = min(s + CHUNK, stop)
            found = _first_loop(code[s:e], g[s:e], m[: e - s], x[: e - s], small, scales[b], old, new, nesterov, rms)
            squares += found[0]
            sizes += found[1]
            top = max(top, found[2])
        v[b] = beta2 * v[b] + new2 * _F(squares / (stop - start))
        extent = _F(sizes / (stop - start))
        if rms:
            extent = np.sqrt(extent)
        a = _F(0.0)
        if extent != 0:
            root = np.sqrt(v[b] / correction2) + eps
            # Without a second moment (its squares were below float32, or eps is 0) a block stays where it is.
            if root != 0:
                a = (extent / correction1) / root
        rate = a * lr
        one[0] = top
        amax = one.view(np.float32)[0]
        scale = amax / _F(448.0)
        if not math.isfinite(amax):
            scale = _F(np.nan)
        elif scale < _F(_SMALLEST_SCALE):
            scale = _F(0.0)
        divisor = scale if scale != 0 else _F(np.inf)
        for s in range(start, stop, CHUNK):
            e = min(s + CHUNK, stop)
            if stop - start > CHUNK:
                _first_loop(code[s:e], g[s:e], m[: e - s], x[: e - s], small, scales[b], old, new, nesterov, rms)
            index = start_index + row * row_stride + (s - row * cols)
            _second_loop(w[s:e], code[s:e], m[: e - s], x[: e - s], small, rate, decay, divisor, random, index, key)
        if not math.isfinite(rate):
            w[start:stop] = np.nan
        if not math.isfinite(scale):
            code[start:stop] = 0x7F
        scales[b] = scale


@dataclass(frozen=True, slots=True)
class Job:
    """One tensor to be stepped: contiguous, on a CPU, weight and gradient float32.

    Attributes
    ----------
    param, grad, code, scale, v : torch.Tensor
    cols, size, per_row : int
        Entries a row and a block, blocks a row.
    rule : Rule
    place : Place
    key : int or None
        Of the random stream; None: round to nearest.
    """

    param: Tensor
    grad: Tensor
    code: Tensor
    scale: Tensor
    v: Tensor
    cols: int
    size: int
    per_row: int
    rule: Rule
    place: Place
    key: int | None


def step_jobs(jobs: Sequence[Job]) -> None:
    """One step on every tensor, in place, on `torch.get_num_threads` threads.

    Parameters
    ----------
    jobs : sequence of Job

    Notes
    -----
    A block is computed by one thread whatever their number, so the bits do not depend on it.
    """
    threads = torch.get_num_threads()
    pieces = [piece for job in jobs for piece in _pieces(job, threads)]
    if threads == 1 or len(pieces) == 1:
        for piece in pieces:
            _run(piece)
        return
    for _ in _pool(threads).map(_run, pieces):
        pass


_Piece = tuple[Job, int, int]


def _pieces(job: Job, threads: int) -> list[_Piece]:
    blocks = job.v.numel()
    count = 1 if threads == 1 else max(1, min(threads, job.param.numel() // _PIECE))
    height = max(1, -(-blocks // count))
    return [(job, start, min(start + height, blocks)) for start in range(0, blocks, height)]


def _run(piece: _Piece) -> None:
    job, first, last = piece
    rule = job.rule
    sign = -1.0 if rule.maximize else 1.0
    lr = float(rule.lr)
    real = (
        rule.beta1,
        sign * (1 - rule.beta1),
        rule.beta2,
        1 - rule.beta2,
        rule.correction1,
        rule.correction2,
        rule.eps,
        lr,
        1 - lr * rule.weight_decay,
    )
    arrays = [tensor.detach().view(-1).numpy() for tensor in (job.param, job.grad, job.code, job.scale, job.v)]
    w, g, code, scale, v = arrays
    _blocks(
        w,
        g,
        code,
        scale,
        v,
        (job.cols, job.size, job.per_row, first, last),
        (job.place.start, job.place.row_stride),
        tuple(np.float32(x) for x in real),
        rule.nesterov,
        rule.scale == "rms",
        job.key is not None,
        np.uint32(job.key or 0),
    )


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="optim-bas")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    # A forked child has none of the threads, only the queue they would have read.
    os.register_at_fork(after_in_child=_pools.clear)
