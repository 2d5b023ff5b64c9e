"""The compiled selective scan: forward and backward over (batch, time), with the state held in cache.

    h_t = exp(delta_t A) h_(t-1) + phi_t B_t x_t,    y_t = sum over states of C_t h_t

"euler": phi = 1 and x = delta u.  "zoh": phi = (exp(delta A) - 1) / A and x = u.

The state is stored (states, channels), so that the inner loops run over channels and vectorise. The forward pass keeps
the state every `BLOCK` steps; the backward pass recomputes inside a block, so nothing of size
(batch, length, channels, states) exists. One source serves float32, float64 and complex128.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from icl_theory.compiling import kernel

BLOCK = 16

_LOG2E32, _HALF32 = np.float32(math.log2(math.e)), np.float32(0.5)
# ln 2 in two parts: k * _HI is exact for the |k| that occur, so the reduced argument keeps its last bits.
_HI32, _LO32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_TAYLOR32 = tuple(np.float32(1 / math.factorial(k)) for k in range(7, 1, -1))
_LOG2E64 = math.log2(math.e)
_HI64, _LO64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_T64 = tuple(1 / math.factorial(k) for k in range(13, 1, -1))


@intrinsic
def _float_of_bits(typingctx, bits):  # noqa: ARG001 - numba's own form
    single = bits == types.int32

    def codegen(context, builder, signature, args):  # noqa: ARG001
        return builder.bitcast(args[0], ir.FloatType() if single else ir.DoubleType())

    return (types.float32 if single else types.float64)(bits), codegen


def exp_parts(x: complex) -> tuple[complex, complex]:
    """Return exp(x) and exp(x) - 1, both to rounding. Plain form; kernels use the vectorising forms below."""
    return np.exp(x), np.expm1(x)


def _exp_parts32(x):
    # Comparisons are written so that NaN stays NaN. Below -104 the result is zero, above 89 infinity.
    x = max(x, np.float32(-104.0))
    x = min(x, np.float32(90.0))
    t = x * _LOG2E32
    k = np.int32(t + (_HALF32 if t > 0 else -_HALF32))
    f = np.float32(k)
    r = (x - f * _HI32) - f * _LO32
    p = _TAYLOR32[0]
    p = p * r + _TAYLOR32[1]
    p = p * r + _TAYLOR32[2]
    p = p * r + _TAYLOR32[3]
    p = p * r + _TAYLOR32[4]
    p = p * r + _TAYLOR32[5]
    p = p * r * r + r
    # 2^k as a product of two powers, so that overflow and gradual underflow come out as they should.
    low = k >> np.int32(1)
    one = _float_of_bits(np.int32((low + np.int32(127)) << np.int32(23)))
    two = _float_of_bits(np.int32((k - low + np.int32(127)) << np.int32(23)))
    scale = one * two
    return (one * p + one) * two, scale * p + (scale - np.float32(1.0))


def _exp_parts64(x):
    x = max(x, -746.0)
    x = min(x, 711.0)
    t = x * _LOG2E64
    k = np.int64(t + (0.5 if t > 0 else -0.5))
    f = np.float64(k)
    r = (x - f * _HI64) - f * _LO64
    p = _T64[0]
    p = p * r + _T64[1]
    p = p * r + _T64[2]
    p = p * r + _T64[3]
    p = p * r + _T64[4]
    p = p * r + _T64[5]
    p = p * r + _T64[6]
    p = p * r + _T64[7]
    p = p * r + _T64[8]
    p = p * r + _T64[9]
    p = p * r + _T64[10]
    p = p * r + _T64[11]
    p = p * r * r + r
    low = k >> np.int64(1)
    one = _float_of_bits(np.int64((low + np.int64(1023)) << np.int64(52)))
    two = _float_of_bits(np.int64((k - low + np.int64(1023)) << np.int64(52)))
    scale = one * two
    return (one * p + one) * two, scale * p + (scale - 1.0)


def _exp_parts_complex(x):
    size, c, s = math.exp(x.real), math.cos(x.imag), math.sin(x.imag)
    half = math.sin(0.5 * x.imag)
    return complex(size * c, size * s), complex(math.expm1(x.real) * c - 2.0 * half * half, size * s)


@overload(exp_parts, inline="never")
def _exp_parts(x):
    if isinstance(x, types.Complex):
        return _exp_parts_complex
    return _exp_parts32 if x == types.float32 else _exp_parts64


def conj(x: complex) -> complex:
    """Return the conjugate; of a real number, the number."""
    return np.conj(x)


@overload(conj)
def _conj(x):
    if isinstance(x, types.Complex):
        return lambda x: complex(x.real, -x.imag)
    return lambda x: x


@kernel
def scan_forward(first, last, zoh, delta, u, A, A_inverse, B, C, h, y, kept, x):
    """Scan the batch rows `first` to `last`.

    delta, u, y: (batch, length, channels); A, A_inverse: (states, channels); B, C: (batch, length, states).
    x (channels,): scratch. h: (batch, states, channels), the initial state on entry and the last on return. kept:
    (batch, blocks, states, channels) or empty along the second axis where no gradient is wanted.
    """
    length, channels = u.shape[1], u.shape[2]
    states = A.shape[0]
    for b in range(first, last):
        for t in range(length):
            for d in range(channels):
                x[d] = u[b, t, d] if zoh else delta[b, t, d] * u[b, t, d]
            if t % BLOCK == 0 and kept.shape[1]:
                for n in range(states):
                    for d in range(channels):
                        kept[b, t // BLOCK, n, d] = h[b, n, d]
            for n in range(states):
                Bn, Cn = B[b, t, n], C[b, t, n]
                if zoh:
                    for d in range(channels):
                        a, e = exp_parts(delta[b, t, d] * A[n, d])
                        new = a * h[b, n, d] + e * A_inverse[n, d] * Bn * x[d]
                        h[b, n, d] = new
                        y[b, t, d] += Cn * new
                else:
                    for d in range(channels):
                        a, e = exp_parts(delta[b, t, d] * A[n, d])
                        new = a * h[b, n, d] + Bn * x[d]
                        h[b, n, d] = new
                        y[b, t, d] += Cn * new


@kernel
def _replay(b, block, zoh, delta, u, A, A_inverse, B, kept, x, hs, decay, rise):
    """Compute the states of a block anew from the one kept before it, with what its steps multiply and add."""
    states, channels = A.shape
    start = block * BLOCK
    for n in range(states):
        for d in range(channels):
            hs[0, n, d] = kept[b, block, n, d]
    for i in range(min(BLOCK, u.shape[1] - start)):
        t = start + i
        for d in range(channels):
            x[d] = u[b, t, d] if zoh else delta[b, t, d] * u[b, t, d]
        for n in range(states):
            Bn = B[b, t, n]
            if zoh:
                for d in range(channels):
                    a, e = exp_parts(delta[b, t, d] * A[n, d])
                    decay[i, n, d] = a
                    rise[i, n, d] = e * A_inverse[n, d]
                    hs[i + 1, n, d] = a * hs[i, n, d] + e * A_inverse[n, d] * Bn * x[d]
            else:
                for d in range(channels):
                    a, e = exp_parts(delta[b, t, d] * A[n, d])
                    decay[i, n, d] = a
                    hs[i + 1, n, d] = a * hs[i, n, d] + Bn * x[d]


@kernel
def _back_euler(b, t, i, zero, delta, A, B, C, gy, gh, gdelta, gA, gB, gC, x, gx, hs, decay):
    """One step backward through the states of step `t`, the i-th of its block."""
    states, channels = A.shape
    for n in range(states):
        Bn, Cn = conj(B[b, t, n]), conj(C[b, t, n])
        sum_B, sum_C = zero, zero
        for d in range(channels):
            a = conj(decay[i, n, d])
            g = gh[b, n, d] + gy[b, t, d] * Cn
            ga = g * conj(hs[i, n, d]) * a
            sum_C += gy[b, t, d] * conj(hs[i + 1, n, d])
            sum_B += g * x[d]
            gx[d] += g * Bn
            gdelta[b, t, d] += ga * conj(A[n, d])
            gA[b, n, d] += ga * conj(delta[b, t, d])
            gh[b, n, d] = g * a
        gB[b, t, n] = sum_B
        gC[b, t, n] = sum_C


@kernel
def _back_zoh(
    b, t, i, zero, small, s, delta, A, A_inverse, B, C, gy, gh, gdelta, gA, gB, gC, x, gx, hs, decay, rise
):  # fmt: skip
    """The same for "zoh", whose input term depends on the step size and on A too."""
    states, channels = A.shape
    for n in range(states):
        Bn, Cn = conj(B[b, t, n]), conj(C[b, t, n])
        sum_B, sum_C = zero, zero
        for d in range(channels):
            a = conj(decay[i, n, d])
            phi = conj(rise[i, n, d])
            g = gh[b, n, d] + gy[b, t, d] * Cn
            ga = g * conj(hs[i, n, d]) * a
            gphi = g * Bn * x[d]
            sum_C += gy[b, t, d] * conj(hs[i + 1, n, d])
            sum_B += g * phi * x[d]
            gx[d] += g * phi * Bn
            gdelta[b, t, d] += ga * conj(A[n, d]) + gphi * a
            step = conj(delta[b, t, d])
            v = step * conj(A[n, d])
            near = s[5] + v * s[6]
            near = s[3] + v * (s[4] + v * near)
            near = step * step * (s[0] + v * (s[1] + v * (s[2] + v * near)))
            far = (step * a - phi) * conj(A_inverse[n, d])
            gA[b, n, d] += ga * step + gphi * (near if abs(v) < small else far)
            gh[b, n, d] = g * a
        gB[b, t, n] = sum_B
        gC[b, t, n] = sum_C


@kernel
def scan_backward(
    first, last, zoh, zero, small, s, delta, u, A, A_inverse, B, C, kept, gy, gh, gdelta, gu, gA, gB, gC,
    x, gx, hs, decay, rise,
):  # fmt: skip
    """Gradients of the rows `first` to `last`, by torch's convention: conj(derivative) times the incoming gradient.

    gh: (batch, states, channels), gradient of the last state on entry, of the initial state on return. gA: (batch,
    states, channels), one a row, so that the sum over rows does not depend on threads. `s` holds the series of
    d phi / dA in delta A, used below `small`, where the closed form cancels. The last five are scratch: x and gx
    (channels,), hs (BLOCK + 1, states, channels), decay (BLOCK, ...), and rise (BLOCK, ...; "zoh" only).
    """
    length, channels = u.shape[1], u.shape[2]
    for b in range(first, last):
        for block in range((length + BLOCK - 1) // BLOCK - 1, -1, -1):
            _replay(b, block, zoh, delta, u, A, A_inverse, B, kept, x, hs, decay, rise)
            start = block * BLOCK
            for i in range(min(BLOCK, length - start) - 1, -1, -1):
                t = start + i
                for d in range(channels):
                    x[d] = conj(u[b, t, d]) if zoh else conj(delta[b, t, d] * u[b, t, d])
                    gx[d] = zero
                if zoh:
                    _back_zoh(
                        b, t, i, zero, small, s, delta, A, A_inverse, B, C, gy, gh, gdelta, gA, gB, gC,
                        x, gx, hs, decay, rise,
                    )  # fmt: skip
                    for d in range(channels):
                        gu[b, t, d] = gx[d]
                else:
                    _back_euler(b, t, i, zero, delta, A, B, C, gy, gh, gdelta, gA, gB, gC, x, gx, hs, decay)
                    for d in range(channels):
                        gu[b, t, d] = gx[d] * conj(delta[b, t, d])
                        gdelta[b, t, d] += gx[d] * conj(u[b, t, d])
