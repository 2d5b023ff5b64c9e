"""The step as torch.compile fuses it for CUDA: two passes over a row that stays in cache.

Not for CPUs: inductor's outer-loop fusion there fails (``KeyError: buf...``, torch 2.15) on a function that reduces
over rows and writes its inputs, and copying the results of the functional form back costs four fused AdamW steps. On
CUDA the functional form below is compiled together with the copies into its inputs, which Triton does in place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from optim_rmnp.step import Rule


def functional_step(w: Tensor, g: Tensor, m: Tensor, lr: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """New weight and momentum of one matrix: no argument is written.

    Parameters
    ----------
    w, g, m : torch.Tensor
        Weight, gradient and momentum, shape (rows, fan-in); arithmetic is float32, float64 for a float64 weight.
    lr : torch.Tensor
        0-D, on the device of `w`; it stands in for ``rule.lr``, so that a schedule does not recompile.
    rule : Rule

    Returns
    -------
    tuple of torch.Tensor
        In the dtypes of `w` and `m`.
    """
    wide = torch.float64 if w.dtype == torch.float64 else torch.float32
    x = g.to(wide) * (-1 if rule.maximize else 1)
    new = m.to(wide).lerp(x, 1 - rule.momentum)
    moving = (x != 0).any(dim=1, keepdim=True)
    if rule.hold:
        new = torch.where(moving, new, m.to(wide))
    u = x.lerp(new, rule.momentum) if rule.nesterov else new
    norm = u.square().sum(dim=1, keepdim=True).sqrt()
    norm = (norm + (norm - norm)).clamp_min(rule.eps)
    moved = w.to(wide) * (1 - lr * rule.weight_decay) - (lr * rule.scale / norm) * u
    if rule.hold:
        moved = torch.where(moving, moved, w.to(wide))
    return moved.to(w.dtype), new.to(m.dtype)


def step_compiled(
    weights: Sequence[Tensor], grads: Sequence[Tensor], momenta: Sequence[Tensor], lr: Tensor, rules: Sequence[Rule]
) -> None:
    """One step on every matrix, in place, as one compiled graph.

    Parameters
    ----------
    weights, grads, momenta : sequence of torch.Tensor
        2-D views on one CUDA device.
    lr : torch.Tensor
        0-D, on that device.
    rules : sequence of Rule
        One a matrix; their own `lr` is not used.
    """
    _compiled()(list(weights), list(grads), list(momenta), lr, list(rules))


@cache
def _compiled() -> Callable[..., None]:
    return torch.compile(_step_all, dynamic=False, fullgraph=True)


def _step_all(ws: list[Tensor], gs: list[Tensor], ms: list[Tensor], lr: Tensor, rules: list[Rule]) -> None:
    for w, g, m, rule in zip(ws, gs, ms, rules):
        new_w, new_m = functional_step(w, g, m, lr, rule)
        w.copy_(new_w)
        m.copy_(new_m)
