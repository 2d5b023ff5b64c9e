"""Vectors of lanes inside numba kernels: a register type with load, store, fused multiply-add.

numba vectorises loops only when it can prove that arrays do not overlap, which kernels on scratch memory defeat. A
value of `Lanes` is one LLVM vector, so accumulators stay in registers whatever the arrays do. Arithmetic is that of the
element type; multiply-adds may be contracted.
"""
# ruff: noqa: ARG001 - numba hands an intrinsic its arguments by position; not all are needed for its type

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

LANES = 16


class Lanes(types.Type):
    """A vector of `LANES` numbers of type `dtype`."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _vector(fe_type.dtype))


def _element(dtype):
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def _vector(dtype):
    return ir.VectorType(_element(dtype), LANES)


def _address(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    pointer = builder.gep(data, [index])
    return builder.bitcast(pointer, _vector(array_type.dtype).as_pointer())


@intrinsic
def load(typingctx, array, index):
    """The lanes at ``array[index : index + LANES]`` of a contiguous array of one dimension."""

    def codegen(context, builder, signature, args):
        value = builder.load(_address(context, builder, signature.args[0], *args))
        value.align = array.dtype.bitwidth // 8
        return value

    return Lanes(array.dtype)(array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, lanes):
    """Write lanes to ``array[index : index + LANES]``."""

    def codegen(context, builder, signature, args):
        instruction = builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]))
        instruction.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.none(array, types.intp, lanes), codegen


@intrinsic
def peek(typingctx, array, index):
    """``array[index]`` of a contiguous array of one dimension, without numba's test for a negative index."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), codegen


@intrinsic
def poke(typingctx, array, index, value):
    """``array[index] = value``, likewise."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.none(array, types.intp, array.dtype), codegen


def _splat(builder, scalar, vector):
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)


def _fma_of(builder, dtype):
    vector = _vector(dtype)
    kind = ir.FunctionType(vector, [vector] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f{dtype.bitwidth}")


@intrinsic
def zeros(typingctx, array):
    """All lanes zero, of the element type of `array`."""

    def codegen(context, builder, signature, args):
        return ir.Constant(_vector(array.dtype), [0.0] * LANES)

    return Lanes(array.dtype)(array), codegen


@intrinsic
def fma(typingctx, scalar, lanes, total):
    """``scalar * lanes + total``."""

    def codegen(context, builder, signature, args):
        vector = _vector(lanes.dtype)
        return builder.call(_fma_of(builder, lanes.dtype), [_splat(builder, args[0], vector), args[1], args[2]])

    return lanes(lanes.dtype, lanes, lanes), codegen


@intrinsic
def fma2(typingctx, a, b, total):
    """``a * b + total``, all of them lanes."""

    def codegen(context, builder, signature, args):
        return builder.call(_fma_of(builder, a.dtype), list(args))

    return a(a, a, a), codegen


@intrinsic
def neg(typingctx, a):
    """``-a``."""

    def codegen(context, builder, signature, args):
        return builder.fneg(args[0])

    return a(a), codegen


@intrinsic
def total(typingctx, a):
    """Sum of the lanes, in a fixed order."""

    def codegen(context, builder, signature, args):
        value, width = args[0], LANES
        while width > 1:
            width //= 2
            mask = [ir.Constant(ir.IntType(32), k) for k in range(width)]
            upper = [ir.Constant(ir.IntType(32), k + width) for k in range(width)]
            kind = ir.VectorType(ir.IntType(32), width)
            low = builder.shuffle_vector(value, value, ir.Constant(kind, mask))
            value = builder.fadd(low, builder.shuffle_vector(value, value, ir.Constant(kind, upper)))
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return a.dtype(a), codegen
