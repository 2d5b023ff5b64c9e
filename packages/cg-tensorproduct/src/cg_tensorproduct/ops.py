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
from collections.abc import Iterator
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
    dim_out: int

    def couple(self, x: Tensor, y: Tensor, /) -> Tensor:
        """[B, dim1], [B, dim2] -> [B, dim_out]."""

    def run_couple(self, *tensors: Tensor) -> Tensor:
        """`couple` without autograd, in bounded memory."""

    def run_back(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Gradients of ``(couple(x, y) * g).sum()`` from x, y and g, without autograd."""


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
        return _FuncCouple.apply(plan, x, y) if plan.native else plan.couple(x, y)
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        return _EagerCouple.apply(plan, x, y)
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


def weighted_product(plan: Any, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """The same for a native plan that is linear in weights too: rows x, y and weights w [1 or B, weights].

    Not for compiled regions.
    """
    if transforms_active():
        return _FuncCouple.apply(plan, x, y, w.expand(x.shape[0], w.shape[1]))
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad or w.requires_grad):
        return _EagerCouple.apply(plan, x, y, w)
    return plan.run_couple(x, y, w)


class _EagerCouple(Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.plan = plan
        return plan.run_couple(*tensors)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph: stay differentiable
            return (None, *_EagerBack.apply(ctx.plan, *ctx.saved_tensors, g))
        return (None, *ctx.plan.run_back(*ctx.saved_tensors, g))


class _EagerBack(Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tensors)
        ctx.plan = plan
        return plan.run_back(*tensors)

    @staticmethod
    def backward(ctx: Any, *h: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return (None, *_second(_EagerCouple.apply, _EagerBack.apply, ctx.plan, ctx.saved_tensors, h))

        def couple(plan: Plan, *tensors: Tensor) -> Tensor:
            return plan.run_couple(*tensors)

        def back(plan: Plan, *tensors: Tensor) -> tuple[Tensor, ...]:
            return plan.run_back(*tensors)

        return (None, *_second(couple, back, ctx.plan, ctx.saved_tensors, h))


def _second(couple: Any, back: Any, plan: Plan, saved: tuple[Tensor, ...], h: tuple[Tensor, ...]) -> list[Tensor]:
    """Gradients of ``<h, back(inputs, g)>`` for the inputs and for g."""
    *tensors, g = saved
    if len(tensors) == 2:
        gradients = list(back(plan, *h, g))
    else:
        gradients = [torch.zeros_like(tensor) for tensor in tensors]
        for place, replaced in _each(tensors, h):
            for other, part in enumerate(back(plan, *replaced, g)):
                if other != place:
                    gradients[other] = gradients[other] + part
    return [*gradients, sum(couple(plan, *replaced) for _, replaced in _each(tensors, h))]


def _each(tensors: Any, others: Any) -> Iterator[tuple[int, list[Tensor]]]:
    """The inputs with one of them replaced, for each that has a replacement (a missing tangent is zero)."""
    for place, other in enumerate(others):
        if other is not None:
            yield place, [*tensors[:place], other, *tensors[place + 1 :]]


def _folded(info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Bring the mapped axis of each tensor to the front and fold it into the batch."""
    out = []
    for tensor, dim in zip(tensors, in_dims[1:]):
        moved = tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        out.append(moved.flatten(0, -2))
    return out


class _FuncCouple(Function):
    @staticmethod
    def forward(plan: Plan, *tensors: Tensor) -> Tensor:
        return plan.run_couple(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.plan, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *_FuncBack.apply(ctx.plan, *ctx.saved_tensors, g))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Tensor:
        terms = [_FuncCouple.apply(ctx.plan, *replaced) for _, replaced in _each(ctx.saved_tensors, tangents)]
        return sum(terms[1:], terms[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], plan: Plan, *tensors: Tensor) -> tuple[Tensor, int]:
        out = _FuncCouple.apply(plan, *_folded(info, in_dims, tensors))
        return out.view(info.batch_size, len(out) // max(1, info.batch_size), plan.dim_out), 0


class _FuncBack(Function):
    @staticmethod
    def forward(plan: Plan, *tensors: Tensor) -> tuple[Tensor, ...]:
        return plan.run_back(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.plan, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *h: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *_second(_FuncCouple.apply, _FuncBack.apply, ctx.plan, ctx.saved_tensors, h))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        *tensors, g = ctx.saved_tensors
        total = [torch.zeros_like(tensor) for tensor in tensors]
        for place, replaced in _each(tensors, tangents[:-1]):
            for other, part in enumerate(_FuncBack.apply(ctx.plan, *replaced, g)):
                if other != place:  # the gradient for an input does not depend on that input
                    total[other] = total[other] + part
        if tangents[-1] is not None:
            total = [a + b for a, b in zip(total, _FuncBack.apply(ctx.plan, *tensors, tangents[-1]))]
        return tuple(total)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], plan: Plan, *tensors: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        found = _FuncBack.apply(plan, *_folded(info, in_dims, tensors))
        rows = len(found[0]) // max(1, info.batch_size)
        return tuple(part.view(info.batch_size, rows, part.shape[-1]) for part in found), (0,) * len(found)


@torch.library.custom_op("cg_tensorproduct::couple", mutates_args=())
def _couple_op(x: Tensor, y: Tensor, handle: int, dim_out: int) -> Tensor:
    return _PLANS[handle].run_couple(x, y)


@_couple_op.register_fake
def _(x: Tensor, y: Tensor, handle: int, dim_out: int) -> Tensor:
    return x.new_empty(x.shape[0], dim_out)


@torch.library.custom_op("cg_tensorproduct::back", mutates_args=())
def _back_op(x: Tensor, y: Tensor, g: Tensor, handle: int) -> tuple[Tensor, Tensor]:
    return _PLANS[handle].run_back(x, y, g)


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
