"""The AdamW groups: torch's own functional AdamW on the local shards. No second implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim.adamw import adamw

from optim_bas.groups import has_fused_adamw
from optim_bas.sharding import local, local_gradient

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from torch import Tensor


def step_adamw_group(group: MutableMapping[str, Any], state: MutableMapping[Tensor, Any]) -> None:
    """One AdamW step on the parameters of `group` that have a gradient, in place.

    Parameters
    ----------
    group : mutable mapping
        With `betas`, `eps`, `lr`, `weight_decay`, `maximize` and `fused` (None: where the device has it).
    state : mutable mapping
        The optimizer's; `step`, `exp_avg` and `exp_avg_sq` as `torch.optim.AdamW` names them.
    """
    for fused in (True, False):
        params = [p for p in group["params"] if p.grad is not None and _runs_fused(p, group) is fused]
        if params:
            _step(params, group, state, fused)


def _runs_fused(param: Tensor, group: MutableMapping[str, Any]) -> bool:
    return group["fused"] is not False and has_fused_adamw(param)


def _step(
    params: list[Tensor], group: MutableMapping[str, Any], state: MutableMapping[Tensor, Any], fused: bool
) -> None:
    columns: tuple[list[Tensor], ...] = ([], [], [], [], [])
    for param in params:
        own = adamw_state(param, group, state)
        weight = local(param)
        if weight.numel() == 0:  # an empty shard counts its steps too: any rank's count may be the one saved
            own["step"] += 1
            continue
        row = (weight, local_gradient(param, param.grad), local(own["exp_avg"]), local(own["exp_avg_sq"]), own["step"])  # type: ignore[arg-type]
        for column, tensor in zip(columns, row):
            column.append(tensor)
    if not columns[0]:
        return
    weights, grads, exp_avgs, exp_avg_sqs, steps = columns
    beta1, beta2 = group["betas"]
    adamw(
        weights,
        grads,
        exp_avgs,
        exp_avg_sqs,
        [],
        steps,
        foreach=False,
        fused=fused,
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
    )


def adamw_state(param: Tensor, group: MutableMapping[str, Any], state: MutableMapping[Tensor, Any]) -> dict[str, Any]:
    """The state of a parameter, made where there is none; the step count lies where the group's step wants it.

    Parameters
    ----------
    param : torch.Tensor
    group, state : mutable mapping
        As for `step_adamw_group`.

    Returns
    -------
    dict
    """
    own: dict[str, Any] = state[param]
    device = param.device if _runs_fused(param, group) else torch.device("cpu")
    if not own:
        own["step"] = torch.zeros((), dtype=torch.float32, device=device)
        own["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        own["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
    elif own["step"].device != device:
        own["step"] = own["step"].to(device)
    return own
