"""The step of matrices whose rows are here in full, each on the fastest path that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from optim_rmnp.groups import native_available
from optim_rmnp.row_norm import LEAST_EPS, update_scale
from optim_rmnp.step import Rule, step_blocked

if TYPE_CHECKING:
    from optim_rmnp.layout import Layout

# Weight, gradient, momentum, the numbers of the step, and the generator of a stochastic rounding.
Work = tuple[Tensor, Tensor, Tensor, Rule, "torch.Generator | None"]


def rule_of(group: dict[str, Any], layout: Layout) -> Rule:
    """The numbers of a group's next step on matrices of a layout."""
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = lr.reshape(()) if lr.device.type != "cpu" else float(lr)
    return Rule(
        lr=lr,
        weight_decay=group["weight_decay"],
        momentum=group["momentum"],
        nesterov=group["nesterov"],
        eps=max(group["eps"], LEAST_EPS),
        scale=update_scale(layout.rows, layout.fan_in, group["adjust_lr_fn"]),
        maximize=group["maximize"],
        hold=group["zero_rows"] == "hold",
    )


def make_viewable(tensors: list[Tensor], written_back: list[tuple[Tensor, Tensor]]) -> None:
    """Replace a weight or momentum that no matrix view covers (channels_last) by a copy to be written back."""
    for i in (0, 2):
        if not tensors[i].is_contiguous():
            copy = tensors[i].contiguous()
            written_back.append((tensors[i], copy))
            tensors[i] = copy


def step_whole(work: list[Work], fused: bool | None) -> None:
    """Step matrices whose rows are here in full, each on the fastest path that takes it."""
    native: list[Any] = []
    compiled, plain = [], []
    use_native = fused is not False and native_available()
    for item in work:
        w, g, m, rule, rounding = item
        if not w.numel():
            continue
        transposed = _native_order(w, m) if use_native else None
        if transposed is not None:
            if transposed:
                w, g, m = w.t(), g.t(), m.t()
            if g.dtype is not torch.float32 or not g.is_contiguous():
                g = g.to(torch.float32).contiguous()
            native.append((w, g, m, rule, transposed))
        elif fused is not False and w.device.type == "cuda" and rounding is None:
            compiled.append(item)
        else:
            plain.append(item)
    if native:
        from optim_rmnp.native import step_matrices  # numba is heavy: only now

        step_matrices(native)
    if compiled:
        _step_compiled(compiled)
    for w, g, m, rule, rounding in plain:
        step_blocked(w, g, m, rule, rounding=rounding)


def _native_order(w: Tensor, m: Tensor) -> bool | None:
    """Whether the kernel reads the matrix transposed; None if it does not take it."""
    if not (w.dtype is m.dtype is torch.float32 and w.is_cpu and m.is_cpu):
        return None
    if w.is_contiguous() and m.is_contiguous():
        return False
    return True if w.t().is_contiguous() and m.t().is_contiguous() else None


def _step_compiled(work: list[Work]) -> None:
    from optim_rmnp import compiled

    ws, gs, ms, rules, _ = zip(*work)
    for device in {w.device for w in ws}:
        here = [i for i, w in enumerate(ws) if w.device == device]
        pick = [[column[i] for i in here] for column in (ws, gs, ms, rules)]
        lr = torch.as_tensor(rules[here[0]].lr, dtype=torch.float32, device=device)
        compiled.step_compiled(pick[0], pick[1], pick[2], lr, pick[3])
