"""The step in one pass over memory, for float32 weights and float8_e4m3fn momenta on a CPU.

14 bytes an entry are moved where AdamW moves 28. Importing this module loads numba; the optimizer does so when it first
needs it. The arithmetic is that of `step.py` term by term: the codes are the same bit for bit, and the weights up to
the order of summation in a block.

The kernel is several short loops over one row that stays in cache: each of them vectorises, their union does not.
Nothing here produces or needs a float32 below the normal range, so that it is as fast on sparse gradients and as right
under ``torch.set_flush_denormal``.
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

    from optim_bas.step import Place, Rule

# Entries of a block worked on at once: with the look-ahead 128 kB of scratch, inside the second-level cache.
CHUNK = 16_384
# Entries below which handing a piece to another thread costs more than it saves.
_PIECE = 1 << 18
_SMALLEST_SCALE = 2.0**-126

# numba widens integers to 64 bits unless every operand says otherwise.
_I = np.int32
_F = np.float32


@numba.njit(nogil=True, cache=True)
def _average(m, bits, code, g, scale, old, new):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Decode, and average the gradient in: m = beta1 m + (1 - beta1) g. `bits` is m's own memory."""
    for j in range(m.size):
        c = _I(code[j])
        bits[j] = (((c & _I(0x7F)) << _I(20)) + _I(121 << 23)) | ((c & _I(0x80)) << _I(24))
    for j in range(m.size):
        # The bits read (1 + fraction) 2^k: halve them, or for the codes below the normal range take the 1 off.
        x = abs(m[j])
        x = x * _F(0.5) if x >= _F(2.0**-5) else x - _F(2.0**-6)
        m[j] = (math.copysign(x, m[j]) * scale) * old + g[j] * new


@numba.njit(nogil=True, cache=True)
def _look_ahead(x, m, g, old, new):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for j in range(m.size):
        x[j] = m[j] * old + g[j] * new


# Reordered sums vectorise. Only these functions may: elsewhere every rounding is that of `step.py`.
@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _squares(x):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    total = np.float64(0.0)
    for start in range(0, x.size, 512):
        part = _F(0.0)
        for j in range(start, min(start + 512, x.size)):
            part += x[j] * x[j]
        total += part
    return total


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _magnitudes(x):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    total = np.float64(0.0)
    for start in range(0, x.size, 512):
        part = _F(0.0)
        for j in range(start, min(start + 512, x.size)):
            part += abs(x[j])
        total += part
    return total


@numba.njit(nogil=True, cache=True)
def _largest(bits, found):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """The largest magnitude as bits, which order as the numbers do, with infinity and NaN on top."""
    for j in range(bits.size):
        found = max(found, bits[j] & _I(0x7FFFFFFF))
    return found


@numba.njit(nogil=True, cache=True)
def _move(w, x, rate, decay):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for j in range(w.size):
        s = rate if x[j] > 0 else (-rate if x[j] < 0 else _F(0.0))
        w[j] = w[j] * decay - s


@numba.njit(nogil=True, cache=True)
def _encode(code, m, bits, t, t_bits, scale):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Round m / scale to nearest; m is overwritten and t is scratch. `bits`, `t_bits` are their memory."""
    for j in range(m.size):
        y = m[j] / scale
        m[j] = y
        # Adding 2^14 leaves multiples of 2^-9, the spacing below the normal range.
        t[j] = abs(y) + _F(16384.0)
    for j in range(m.size):
        a = bits[j] & _I(0x7FFFFFFF)
        normal = ((a + _I(0x7FFFF) + ((a >> _I(20)) & _I(1))) >> _I(20)) - _I(960)
        small = t_bits[j] - _I(0x46800000)
        c = small if a < _I(0x3C800000) else normal
        code[j] = np.uint8(c | ((bits[j] >> _I(24)) & _I(0x80)))


@numba.njit(nogil=True, cache=True)
def _mix(x):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """One round of `fp8.noise_bits`."""
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@numba.njit(nogil=True, cache=True)
def _encode_at_random(code, m, bits, scale, index, key):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Round m / scale up or down at random; `index` is the first entry's, see `fp8.noise_bits`."""
    for j in range(m.size):
        m[j] = m[j] / scale
    for j in range(m.size):
        x = _mix(_mix(np.uint32(index + j) ^ key) ^ (key ^ np.uint32(0x9E3779B9)))
        low = _I(x >> np.uint32(12))
        a = bits[j] & _I(0x7FFFFFFF)
        normal = ((a + low) >> _I(20)) - _I(960)
        small = _I(math.floor(abs(m[j]) * _F(512.0) + _F(low) * _F(2.0**-20)))
        c = small if a < _I(0x3C800000) else normal
        code[j] = np.uint8(c | ((bits[j] >> _I(24)) & _I(0x80)))


@numba.njit(nogil=True, cache=True)
def _blocks(w, g, code, scales, v, shape, origin, real, nesterov, rms, random, key):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Blocks `first` to `last` of one tensor, all arrays flat. Long, since every value is used throughout."""
    cols, size, per_row, first, last = shape
    start_index, row_stride = origin
    old, new, beta2, new2, correction1, correction2, eps, lr, decay = real
    m = np.empty(min(size, CHUNK), np.float32)
    other = np.empty_like(m)
    bits, other_bits = m.view(np.int32), other.view(np.int32)
    for b in range(first, last):
        row, q = b // per_row, b % per_row
        start = row * cols + q * size
        stop = min(start + size, (row + 1) * cols)
        squares, sizes, top = 0.0, 0.0, _I(0)
        for s in range(start, stop, CHUNK):
            n = min(CHUNK, stop - s)
            _average(m[:n], bits[:n], code[s : s + n], g[s : s + n], scales[b], old, new)
            squares += _squares(g[s : s + n])
            x = m
            if nesterov:
                _look_ahead(other[:n], m[:n], g[s : s + n], old, new)
                x = other
            sizes += _squares(x[:n]) if rms else _magnitudes(x[:n])
            top = _I(_largest(bits[:n], top))
        v[b] = beta2 * v[b] + new2 * _F(squares / (stop - start))
        extent = _F(sizes / (stop - start))
        if rms:
            extent = np.sqrt(extent)
        a = _F(0.0)
        if extent != 0:
            a = (extent / correction1) / (np.sqrt(v[b] / correction2) + eps)
        rate = a * lr
        other[0:1].view(np.int32)[0] = top
        scale = other[0] / _F(448.0)
        if not math.isfinite(other[0]):
            scale = _F(np.nan)
        elif scale < _F(_SMALLEST_SCALE):
            scale = _F(0.0)
        divisor = scale if scale != 0 else _F(np.inf)
        for s in range(start, stop, CHUNK):
            n = min(CHUNK, stop - s)
            if stop - start > CHUNK:
                _average(m[:n], bits[:n], code[s : s + n], g[s : s + n], scales[b], old, new)
            x = m
            if nesterov:
                _look_ahead(other[:n], m[:n], g[s : s + n], old, new)
                x = other
            if math.isfinite(rate):
                _move(w[s : s + n], x[:n], rate, decay)
            else:
                w[s : s + n] = np.nan
            if random:
                index = start_index + row * row_stride + (s - row * cols)
                _encode_at_random(code[s : s + n], m[:n], bits[:n], divisor, index, key)
            else:
                _encode(code[s : s + n], m[:n], bits[:n], other[:n], other_bits[:n], divisor)
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
