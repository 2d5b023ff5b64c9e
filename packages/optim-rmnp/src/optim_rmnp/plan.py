"""What the native step of a group keeps from one step to the next: addresses and pieces, while nothing has moved.

Handing sixteen matrices of 0.8 million entries to the kernel anew costs a fifteenth of the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from optim_rmnp.layout import Layout
    from optim_rmnp.step import Rule

# The keys of a group that decide which way round its matrices are and which path they take.
_KEYS = ("algorithm", "input_dim", "stacked", "kind", "momentum_dtype", "fused", "adjust_lr_fn")


class NativePlan:
    """A group of plain float32 matrices on a CPU, all of which the kernel takes as they lie.

    Parameters
    ----------
    group : dict
        Of algorithm "rmnp"; `fits` has said yes.
    state : mapping
        The optimizer's, with a momentum buffer for every parameter.
    layouts : list of Layout
        One a parameter.
    rule : callable
        The numbers of a step for a layout.
    """

    def __init__(
        self,
        group: dict[str, Any],
        state: Mapping[Tensor, dict[str, Any]],
        layouts: list[Layout],
        rule: Callable[[Layout], Rule],
    ) -> None:
        from optim_rmnp.native import Tables  # numba is heavy: only now

        self._group, self._keys, self._layouts = group, _keys(group), layouts
        params = group["params"]
        momenta = [state[p]["momentum_buffer"] for p in params]
        self._entries = [(p, m, p.data_ptr(), m.data_ptr(), p.shape) for p, m in zip(params, momenta)]
        rules = self._rules(rule)
        matrices = [(p, p.grad, m, r, x.transposed) for p, m, r, x in zip(params, momenta, rules, layouts)]
        self._tables = Tables(matrices)

    def _rules(self, rule: Callable[[Layout], Rule]) -> list[Rule]:
        made = {layout: rule(layout) for layout in set(self._layouts)}
        return [made[layout] for layout in self._layouts]

    def gradients(self, group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]]) -> list[int] | None:
        """The gradients' addresses; None if anything has changed since the plan was made."""
        if group is not self._group or _keys(group) != self._keys:
            return None
        found: list[int] = []
        parameters: list[Any] = group["params"]
        for p, (own, momentum, address, momentum_address, shape) in zip(parameters, self._entries):
            grad = p.grad
            if (
                p is not own
                or type(grad) is not torch.Tensor
                or grad.dtype is not torch.float32
                or not grad.is_cpu
                or not grad.is_contiguous()
                or grad.shape != shape
                or p.shape != shape
                or p.data_ptr() != address
                or not p.is_contiguous()
                or momentum.data_ptr() != momentum_address
                or state[p].get("momentum_buffer") is not momentum
            ):
                return None
            found.append(grad.data_ptr())
        return found

    def step(self, gradients: list[int], rule: Callable[[Layout], Rule]) -> None:
        """One step on all of them, with what `rule` says now."""
        self._tables.change(gradients, self._rules(rule))
        self._tables.run()


def fits(params: list[Tensor], state: Mapping[Tensor, dict[str, Any]]) -> bool:
    """Whether every parameter, gradient and momentum is what a plan can hold."""
    for p in params:
        momentum = state[p].get("momentum_buffer") if p in state else None
        if momentum is None or p.grad is None or p.ndim != 2 or not p.numel():
            return False
        for t in (p, p.grad, momentum):
            plain = type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout is torch.strided
            if not plain or t.dtype is not torch.float32 or not t.is_cpu or not t.is_contiguous() or t.shape != p.shape:
                return False
    return bool(params)


def _keys(group: dict[str, Any]) -> tuple[Any, ...]:
    return (*map(group.get, _KEYS), len(group["params"]), torch.get_num_threads())
