# ruff: noqa: ARG001 - numba dictates the signatures of intrinsics
"""Vector primitives of the kernels: what numba does not vectorise by itself.

Plain numba leaves floating-point minima scalar, because the order of the operands matters for NaN and signed zeros.
The intrinsics below emit the compare and the select with the flags that say it does not, so LLVM vectorises the loops
around them. The mask intrinsics compare 16 entries at once and return the result as bits.

No kernel may see a NaN: the door (`problem`) refuses them.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

FLAGS = ("nnan", "nsz")
LANES = 16


def _compiler(**options: Any) -> Any:
    """Return a decorator that compiles at the first call: cached, without the GIL.

    Kernels also do without Python's checks for division by zero and without wrappers that nobody calls, since each
    costs compile time in a fresh environment. Where there is no folder for the cache, one warning says so.
    """
    options = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True} | options

    def decorate(function: Any) -> Any:
        try:
            return njit(**options)(function)
        except RuntimeError as err:
            if "cannot cache function" not in str(err):
                raise
        _warn_of_no_cache()
        return njit(**(options | {"cache": False}))(function)

    return decorate


@functools.cache
def _warn_of_no_cache() -> None:
    warnings.warn(
        "numba finds no writable folder for compiled code, so kernels are compiled anew in each process; "
        "set NUMBA_CACHE_DIR to a writable one",
        UserWarning,
        stacklevel=2,
    )


kernel = _compiler()
inner = _compiler(no_cpython_wrapper=True)
# Sums in any order, so that they vectorise.
summing = _compiler(fastmath={"reassoc"})


@intrinsic
def fmin(typingctx, a, b):
    """Return the smaller of two float64, free of NaN rules so that reductions vectorise."""

    def codegen(context, builder, signature, args):
        x, y = args
        return builder.select(builder.fcmp_ordered("<", x, y, flags=FLAGS), x, y, flags=FLAGS)

    if a == types.float64 and b == types.float64:
        return types.float64(a, b), codegen
    return None


@intrinsic
def pick(typingctx, condition, a, b):
    """Return `a` where the condition is true, else `b`, without a branch."""

    def codegen(context, builder, signature, args):
        return builder.select(args[0], args[1], args[2])

    if condition == types.boolean and a == b:
        return a(condition, a, b), codegen
    return None


@intrinsic
def trailing_zeros(typingctx, bits):
    """Return the index of the lowest set bit of a nonzero int64."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    if bits == types.int64:
        return types.int64(bits), codegen
    return None


def _lies(a):
    """Whether the entries of an array follow one another in memory, as `_load` takes for granted."""
    return isinstance(a, types.Array) and a.ndim == 1 and a.layout == "C"


def _load(context, builder, array_type, array, index):
    """Emit the load of `LANES` consecutive entries as a vector of doubles."""
    struct = context.make_array(array_type)(context, builder, array)
    pointer = builder.gep(struct.data, [index])
    element = context.get_value_type(array_type.dtype)
    vector = ir.VectorType(element, LANES)
    load = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array_type.dtype.bitwidth // 8)
    if array_type.dtype == types.float64:
        return load
    return builder.fpext(load, ir.VectorType(ir.DoubleType(), LANES))


def _splat(builder, value):
    zero = ir.IntType(32)(0)
    vector = ir.VectorType(value.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, zero)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def _bits(builder, comparison):
    word = builder.bitcast(comparison, ir.IntType(LANES))
    return builder.zext(word, ir.IntType(64))


@intrinsic
def mask_le(typingctx, a, j, bound):
    """Return the bits of ``a[j : j + 16] <= bound``."""

    def codegen(context, builder, signature, args):
        load = _load(context, builder, signature.args[0], args[0], args[1])
        return _bits(builder, builder.fcmp_ordered("<=", load, _splat(builder, args[2])))

    if _lies(a) and bound == types.float64:
        return types.int64(a, types.int64, bound), codegen
    return None


@intrinsic
def mask_not_above(typingctx, c, j, bound):
    """Return the bits of ``not c[j : j + 16] > bound``, which NaN sets too."""

    def codegen(context, builder, signature, args):
        load = _load(context, builder, signature.args[0], args[0], args[1])
        return _bits(builder, builder.fcmp_unordered("<=", load, _splat(builder, args[2])))

    if _lies(c) and bound == types.float64:
        return types.int64(c, types.int64, bound), codegen
    return None


@intrinsic
def mask_diff_le(typingctx, c, j, v, bound):
    """Return the bits of ``c[j : j + 16] - v[j : j + 16] <= bound``."""

    def codegen(context, builder, signature, args):
        left = _load(context, builder, signature.args[0], args[0], args[1])
        right = _load(context, builder, signature.args[2], args[2], args[1])
        difference = builder.fsub(left, right)
        return _bits(builder, builder.fcmp_ordered("<=", difference, _splat(builder, args[3])))

    if _lies(c) and _lies(v) and bound == types.float64:
        return types.int64(c, types.int64, v, bound), codegen
    return None


@intrinsic
def mask_less_le(typingctx, c, j, x, top):
    """Return the bits of ``c[j : j + 16] - x <= top[j : j + 16]``."""

    def codegen(context, builder, signature, args):
        left = _load(context, builder, signature.args[0], args[0], args[1])
        bound = _load(context, builder, signature.args[3], args[3], args[1])
        difference = builder.fsub(left, _splat(builder, args[2]))
        return _bits(builder, builder.fcmp_ordered("<=", difference, bound))

    if _lies(c) and x == types.float64 and _lies(top):
        return types.int64(c, types.int64, x, top), codegen
    return None


@inner
def row_min(c, v):
    """Return ``min_j c[j] - v[j]``."""
    best = np.inf
    for j in range(c.size):
        best = fmin(np.float64(c[j]) - v[j], best)
    return best


@inner
def relax(c, vw, shift, d, pred, i):
    """Lower the distances through row `i` and return their new minimum.

    ``d[j] = min(d[j], c[j] - vw[j] + shift)``; a column that is done carries ``vw = -inf`` and ``d = inf``, so it
    needs no branch.
    """
    best = np.inf
    for j in range(c.size):
        t = (np.float64(c[j]) - vw[j]) + shift
        less = t < d[j]
        t = fmin(t, d[j])
        d[j] = t
        pred[j] = pick(less, np.int32(i), pred[j])
        best = fmin(t, best)
    return best
