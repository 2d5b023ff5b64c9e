"""The two loops of the one-pass step as vector instructions, sixteen entries at a time.

numba's own loops are not enough here: the conversions between eight-bit codes and floats make LLVM give up on a fused
loop, and split into loops that it takes, the row goes through the first-level cache a dozen times. LLVM lowers vectors
of sixteen to whatever the processor has. Every rounding is that of `step.py`; only sums are taken in another order.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
_F, _I, _B = (ir.VectorType(t, LANES) for t in (ir.FloatType(), ir.IntType(32), ir.IntType(8)))
# Sums may be fused and multiplied at once; nothing else may.
_SUM = ("contract",)


def _same(kind: ir.VectorType, value: float) -> ir.Constant:
    """A vector of one constant; llvmlite wants floats for floats."""
    one = float(value) if kind is _F else int(value)
    return ir.Constant(kind, [one] * LANES)


def _spread(builder: ir.IRBuilder, scalar: Any, kind: ir.VectorType) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ir.Constant(_I, [0] * LANES))


def _at(builder: ir.IRBuilder, base: Any, index: Any, kind: ir.VectorType) -> Any:
    """A pointer to vector number `index` behind the address `base`."""
    width = LANES * (1 if kind is _B else 4)
    address = builder.add(base, builder.mul(index, ir.Constant(index.type, width)))
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder: ir.IRBuilder, base: Any, index: Any, kind: ir.VectorType) -> Any:
    return builder.load(_at(builder, base, index, kind), align=1 if kind is _B else 4)


def _store(builder: ir.IRBuilder, value: Any, base: Any, index: Any) -> None:
    builder.store(value, _at(builder, base, index, value.type), align=1 if value.type is _B else 4)


def _magnitude_bits(builder: ir.IRBuilder, x: Any) -> Any:
    return builder.and_(builder.bitcast(x, _I), _same(_I, 0x7FFFFFFF))


def _magnitude(builder: ir.IRBuilder, x: Any) -> Any:
    return builder.bitcast(_magnitude_bits(builder, x), _F)


def _larger(builder: ir.IRBuilder, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def _decoded(builder: ir.IRBuilder, code: Any) -> Any:
    """The values of float8_e4m3fn codes, without float32 below the normal range on the way."""
    wide = builder.zext(code, _I)
    magnitude = builder.and_(wide, _same(_I, 0x7F))
    # (1 + fraction) 2^(k+1): half of it, or for codes below the normal range the fraction alone.
    raw = builder.bitcast(builder.add(builder.shl(magnitude, _same(_I, 20)), _same(_I, 121 << 23)), _F)
    normal = builder.fmul(raw, _same(_F, 0.5))
    small = builder.fsub(raw, _same(_F, 2.0**-6))
    x = builder.select(builder.icmp_signed(">=", magnitude, _same(_I, 8)), normal, small)
    sign = builder.shl(builder.and_(wide, _same(_I, 0x80)), _same(_I, 24))
    return builder.bitcast(builder.or_(builder.bitcast(x, _I), sign), _F)


def _averaged(builder: ir.IRBuilder, m: Any, g: Any, old: Any, new: Any) -> Any:
    return builder.fadd(builder.fmul(m, old), builder.fmul(g, new))


def _coded(builder: ir.IRBuilder, y: Any, noise: Any) -> Any:
    """Codes of values already divided by the scale: to nearest, or with `noise` of 20 bits at random."""
    bits = builder.bitcast(y, _I)
    a = builder.and_(bits, _same(_I, 0x7FFFFFFF))
    if noise is None:
        # A number 2^20 times the value's power of two has a last place of an eighth of that power: adding it rounds.
        power = _larger(builder, builder.and_(a, _same(_I, 0x7F800000)), _same(_I, 0x3C800000))
        magic = builder.add(power, _same(_I, 20 << 23))
        rounded = builder.fadd(builder.bitcast(a, _F), builder.bitcast(magic, _F))
        eighths = builder.sub(builder.bitcast(rounded, _I), magic)
        code = builder.sub(builder.add(eighths, builder.lshr(power, _same(_I, 20))), _same(_I, 968))
    else:
        normal = builder.sub(builder.lshr(builder.add(a, noise), _same(_I, 20)), _same(_I, 960))
        part = builder.fmul(builder.sitofp(noise, _F), _same(_F, 2.0**-20))
        below = builder.fadd(builder.fmul(builder.bitcast(a, _F), _same(_F, 512.0)), part)
        below = builder.select(builder.fcmp_ordered("<", below, _same(_F, 16.0)), below, _same(_F, 0.0))
        small = builder.fptosi(below, _I)
        code = builder.select(builder.icmp_signed("<", a, _same(_I, 0x3C800000)), small, normal)
    sign = builder.and_(builder.lshr(bits, _same(_I, 24)), _same(_I, 0x80))
    return builder.trunc(builder.or_(code, sign), _B)


def _noise(builder: ir.IRBuilder, index: Any, key: Any) -> Any:
    """The upper 20 of the 32 bits of `fp8.noise_bits`."""
    x = index
    for word in (key, builder.xor(key, _same(_I, 0x9E3779B9 - (1 << 32)))):
        x = builder.xor(x, word)
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B - (1 << 32))):
            x = builder.mul(builder.xor(x, builder.lshr(x, _same(_I, shift))), _same(_I, factor))
        x = builder.xor(x, builder.lshr(x, _same(_I, 16)))
    return builder.lshr(x, _same(_I, 12))


def _average_and_sum_type(typingctx, code, g, m, x, count, scale, old, new, nesterov, rms):  # type: ignore[no-untyped-def]
    """Put the new momentum into `m` and the direction into `x` for `count` vectors; all four are addresses.

    Returns the sum of g^2, the sum of x^2 (or without `rms` of its magnitudes), and the largest magnitude of m as bits.
    """
    result = types.Tuple((types.float64, types.float64, types.int32))
    return result(code, g, m, x, count, scale, old, new, nesterov, rms), _average_and_sum


def _average_and_sum(context, builder, signature, args):  # type: ignore[no-untyped-def]
    code, g, m, x, count, *scalars, nesterov, rms = args
    scale, old, new = (_spread(builder, s, _F) for s in scalars)
    true = ir.IntType(1)
    flags = [builder.trunc(flag, true) if flag.type.width > 1 else flag for flag in (nesterov, rms)]
    squares, sizes = (cgutils.alloca_once_value(builder, _same(_F, 0.0)) for _ in range(2))
    top = cgutils.alloca_once_value(builder, _same(_I, 0))
    with cgutils.for_range(builder, count) as loop:
        i = loop.index
        grad = _load(builder, g, i, _F)
        value = _averaged(builder, builder.fmul(_decoded(builder, _load(builder, code, i, _B)), scale), grad, old, new)
        _store(builder, value, m, i)
        ahead = builder.select(flags[0], _averaged(builder, value, grad, old, new), value)
        _store(builder, ahead, x, i)
        size = builder.select(flags[1], builder.fmul(ahead, ahead, flags=_SUM), _magnitude(builder, ahead))
        for total, term in ((squares, builder.fmul(grad, grad, flags=_SUM)), (sizes, size)):
            builder.store(builder.fadd(builder.load(total), term, flags=_SUM), total)
        builder.store(_larger(builder, _magnitude_bits(builder, value), builder.load(top)), top)
    double = ir.DoubleType()
    sums = []
    for total in (squares, sizes):
        found = builder.load(total)
        parts = [builder.fpext(builder.extract_element(found, _lane(k)), double) for k in range(LANES)]
        sums.append(_pairwise(parts, builder.fadd))
    found = builder.load(top)
    largest = _pairwise(
        [builder.extract_element(found, _lane(k)) for k in range(LANES)], lambda a, b: _larger(builder, a, b)
    )
    return context.make_tuple(builder, signature.return_type, [*sums, largest])


def _lane(k: int) -> ir.Constant:
    return ir.Constant(ir.IntType(32), k)


def _pairwise(parts: list[Any], join: Any) -> Any:
    while len(parts) > 1:
        parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _move_and_encode_type(typingctx, w, x, m, code, count, rate, decay, divisor, random, index, key):  # type: ignore[no-untyped-def]
    """Move `w` against the signs of `x`, and put the codes of ``m / divisor`` into `code`; all four are addresses."""
    return types.void(w, x, m, code, count, rate, decay, divisor, random, index, key), _move_and_encode


def _move_and_encode(context, builder, signature, args):  # type: ignore[no-untyped-def]
    random = args[8]
    random = builder.trunc(random, ir.IntType(1)) if random.type.width > 1 else random
    with builder.if_else(random) as (then, otherwise):
        with then:
            _moving_loop(builder, args, at_random=True)
        with otherwise:
            _moving_loop(builder, args, at_random=False)
    return context.get_dummy_value()


def _moving_loop(builder: ir.IRBuilder, args: Any, *, at_random: bool) -> None:
    w, x, m, code, count, *scalars = args[:8]
    rate, decay, divisor = (_spread(builder, s, _F) for s in scalars)
    rate_bits = builder.bitcast(rate, _I)
    lanes = ir.Constant(_I, list(range(LANES)))
    key = _spread(builder, args[10], _I)
    with cgutils.for_range(builder, count) as loop:
        i = loop.index
        ahead = _load(builder, x, i, _F)
        sign = builder.and_(builder.bitcast(ahead, _I), _same(_I, -0x80000000))
        signed = builder.bitcast(builder.xor(rate_bits, sign), _F)
        moves = builder.fcmp_unordered("!=", ahead, _same(_F, 0.0))
        by = builder.select(moves, signed, _same(_F, 0.0))
        moved = builder.fsub(builder.fmul(_load(builder, w, i, _F), decay), by)
        _store(builder, moved, w, i)
        noise = None
        if at_random:
            first = builder.add(args[9], builder.trunc(builder.mul(i, ir.Constant(i.type, LANES)), ir.IntType(32)))
            noise = _noise(builder, builder.add(_spread(builder, first, _I), lanes), key)
        y = builder.fdiv(_load(builder, m, i, _F), divisor)
        _store(builder, _coded(builder, y, noise), code, i)


average_and_sum: Any = intrinsic(_average_and_sum_type)
move_and_encode: Any = intrinsic(_move_and_encode_type)
