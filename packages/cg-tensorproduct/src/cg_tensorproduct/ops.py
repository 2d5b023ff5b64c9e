"""A full product as a torch operation: the right front door for eager mode, functorch and the compiler.

The form T(x, y, z) = <z, x (x) y> is trilinear, so two operations close under differentiation: ``couple(x, y) -> z``
and ``back(x, y, g) -> (gx, gy)``. d couple is back; d back with cotangents (hx, hy) is ``back(hx, hy, g)`` for (x, y)
and ``couple(hx, y) + couple(x, hy)`` for g. Derivatives of every order follow, and only x, y and g are ever kept.

Three doors, because no single mechanism of torch serves all of them: an old-style Function costs least in eager mode;
functorch needs a separate setup_context with vmap and jvp; Dynamo refuses a Function that defines jvp.
"""
# ruff: noqa: ARG001, ARG004 - torch fixes the signatures of setup_context and of fake implementations

from __future__ import annotations

import weakref
from itertools import count
from typing import Any, Protocol

import torch
from torch.autograd import Function

Tensor = torch.Tensor


class Plan(Protocol):
    """What an algorithm offers. `native` plans hide their arithmetic from torch; the others are differentiable
    torch.
    """

    name: str
    native: bool
    handle: int
    dim1: int
    dim2: int
    dim_out: int

    def couple(self, x: Tensor, y: Tensor) -> Tensor:
        """[B, dim1], [B, dim2] -> [B, dim_out]."""

    def run_couple(self, x: Tensor, y: Tensor) -> Tensor:
        """`couple` without autograd, in bounded memory."""

    def run_back(self, x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``, without autograd."""


_PLANS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_HANDLES = count()


def register(plan: Any) -> int:
    """Give `plan` the integer by which a compiled graph names it."""
    handle = next(_HANDLES)
    _PLANS[handle] = plan
    return handle


def product(plan: Plan, x: Tensor, y: Tensor) -> Tensor:
    """The full product of rows, differentiable to every order.

    Parameters
    ----------
    plan : Plan
    x, y : Tensor [B, dim1], [B, dim2]
        Of the plan's dtype, on its device.

    Returns
    -------
    Tensor [B, dim_out]
    """
    if torch.compiler.is_compiling():
        return _CompiledCouple.apply(x, y, plan.handle, plan.dim_out) if plan.native else plan.couple(x, y)
    if transforms_active():
        return _FuncCouple.apply(x, y, plan) if plan.native else plan.couple(x, y)
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        return _EagerCouple.apply(x, y, plan)
    return plan.run_couple(x, y)


def transforms_active() -> bool:
    """Whether functorch transforms, or dual numbers of forward mode, may be about."""
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def native_allowed(*tensors: Tensor, inference: bool) -> bool:
    """Whether a native plan gives right derivatives here.

    In a compiled region torch drops second derivatives of a Function around a native op without saying so (the weight
    gradient of force training comes out as half its value). Plain torch operations are right there, so a native op
    needs the promise `inference`, or inputs without grad.
    """
    if not torch.compiler.is_compiling():
        return True
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return (inference or not grad) and not torch._C._are_functorch_transforms_active()


class _EagerCouple(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, plan: Plan) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.plan = plan
        return plan.run_couple(x, y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: stay differentiable
            gx, gy = _EagerBack.apply(x, y, g, ctx.plan)
        else:
            gx, gy = ctx.plan.run_back(x, y, g)
        return gx, gy, None


class _EagerBack(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, g: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y, g)
        ctx.plan = plan
        return plan.run_back(x, y, g)

    @staticmethod
    def backward(ctx: Any, hx: Tensor, hy: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, y, g = ctx.saved_tensors
        plan = ctx.plan
        if torch.is_grad_enabled():
            gx, gy = _EagerBack.apply(hx, hy, g, plan)
            gg = _EagerCouple.apply(hx, y, plan) + _EagerCouple.apply(x, hy, plan)
        else:
            gx, gy = plan.run_back(hx, hy, g)
            gg = plan.run_couple(hx, y) + plan.run_couple(x, hy)
        return gx, gy, gg, None


def _folded(info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Bring the mapped axis of each tensor to the front and fold it into the batch."""
    out = []
    for tensor, dim in zip(tensors, in_dims):
        moved = tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        out.append(moved.reshape(-1, moved.shape[-1]))
    return out


class _FuncCouple(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, plan: Plan) -> Tensor:
        return plan.run_couple(x, y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, ctx.plan = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        return (*_FuncBack.apply(*ctx.saved_tensors, g, ctx.plan), None)

    @staticmethod
    def jvp(ctx: Any, tx: Tensor | None, ty: Tensor | None, _: None) -> Tensor:
        x, y = ctx.saved_tensors
        return _sum_of(_FuncCouple.apply, (tx, y), (x, ty), plan=ctx.plan)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor, plan: Plan) -> tuple[Tensor, int]:
        flat = _folded(info, in_dims, (x, y))
        return _FuncCouple.apply(*flat, plan).view(info.batch_size, -1, plan.dim_out), 0


def _sum_of(apply: Any, *terms: tuple[Tensor | None, ...], plan: Plan) -> Any:
    """Sum of a multilinear map over the terms in which no factor is missing (a missing tangent is zero)."""
    total: Any = None
    for term in terms:
        if any(factor is None for factor in term):
            continue
        value = apply(*term, plan)
        if total is None:
            total = value
        elif isinstance(value, tuple):
            total = tuple(a + b for a, b in zip(total, value))
        else:
            total = total + value
    return total


class _FuncBack(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, g: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        return plan.run_back(x, y, g)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, y, g, ctx.plan = inputs
        ctx.save_for_backward(x, y, g)
        ctx.save_for_forward(x, y, g)

    @staticmethod
    def backward(ctx: Any, hx: Tensor, hy: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, y, g = ctx.saved_tensors
        gx, gy = _FuncBack.apply(hx, hy, g, ctx.plan)
        return gx, gy, _FuncCouple.apply(hx, y, ctx.plan) + _FuncCouple.apply(x, hy, ctx.plan), None

    @staticmethod
    def jvp(ctx: Any, tx: Tensor | None, ty: Tensor | None, tg: Tensor | None, _: None) -> tuple[Tensor, Tensor]:
        x, y, g = ctx.saved_tensors
        # back is bilinear in (g, the other input): gx = back(., y, g)[0], gy = back(x, ., g)[1]
        tx = torch.zeros_like(x) if tx is None else tx
        ty = torch.zeros_like(y) if ty is None else ty
        return _sum_of(_FuncBack.apply, (tx, ty, g), (x, y, tg), plan=ctx.plan)  # type: ignore[no-any-return]

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor, g: Tensor, plan: Plan
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        gx, gy = _FuncBack.apply(*_folded(info, in_dims, (x, y, g)), plan)
        n = info.batch_size
        return (gx.view(n, -1, plan.dim1), gy.view(n, -1, plan.dim2)), (0, 0)


@torch.library.custom_op("cg_tensorproduct::couple", mutates_args=())
def _couple_op(x: Tensor, y: Tensor, handle: int, dim_out: int) -> Tensor:
    return _PLANS[handle].run_couple(x, y)  # type: ignore[no-any-return]


@_couple_op.register_fake
def _(x: Tensor, y: Tensor, handle: int, dim_out: int) -> Tensor:
    return x.new_empty(x.shape[0], dim_out)


@torch.library.custom_op("cg_tensorproduct::back", mutates_args=())
def _back_op(x: Tensor, y: Tensor, g: Tensor, handle: int) -> tuple[Tensor, Tensor]:
    return _PLANS[handle].run_back(x, y, g)  # type: ignore[no-any-return]


@_back_op.register_fake
def _(x: Tensor, y: Tensor, g: Tensor, handle: int) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), y.new_empty(y.shape)


class _CompiledCouple(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, handle: int, dim_out: int) -> Tensor:
        return _couple_op(x, y, handle, dim_out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, ctx.handle, ctx.dim_out = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, y = ctx.saved_tensors
        gx, gy = _CompiledBack.apply(x, y, g, ctx.handle, ctx.dim_out)
        return gx, gy, None, None


class _CompiledBack(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, g: Tensor, handle: int, dim_out: int) -> tuple[Tensor, Tensor]:
        return _back_op(x, y, g, handle)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, y, g, ctx.handle, ctx.dim_out = inputs
        ctx.save_for_backward(x, y, g)

    @staticmethod
    def backward(ctx: Any, hx: Tensor, hy: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, y, g = ctx.saved_tensors
        gx, gy = _CompiledBack.apply(hx, hy, g, ctx.handle, ctx.dim_out)
        gg = _CompiledCouple.apply(hx, y, ctx.handle, ctx.dim_out) + _CompiledCouple.apply(
            x, hy, ctx.handle, ctx.dim_out
        )
        return gx, gy, gg, None, None
