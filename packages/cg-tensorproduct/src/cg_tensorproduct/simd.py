"""Vectors of lanes inside numba kernels: a register type with load, store, fused multiply-add.

numba vectorises loops only when it can prove that arrays do not overlap, which kernels on scratch memory defeat. A value of
`Lanes` is one LLVM vector, so accumulators stay in registers whatever the arrays do. Arithmetic is that of the element type;
multiply-adds may be contracted.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
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


def _splat(builder, scalar, vector):
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)


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
        function = builder.module.declare_intrinsic("llvm.fma", [vector])
        return builder.call(function, [_splat(builder, args[0], vector), args[1], args[2]])

    return lanes(lanes.dtype, lanes, lanes), codegen


@intrinsic
def fma2(typingctx, a, b, total):
    """``a * b + total``, all of them lanes."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.fma", [_vector(a.dtype)])
        return builder.call(function, list(args))

    return a(a, a, a), codegen


@intrinsic
def neg(typingctx, a):
    """``-a``."""

    def codegen(context, builder, signature, args):
        return builder.fneg(args[0])

    return a(a), codegen
