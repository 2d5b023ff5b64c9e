"""From AdamW to BAS in the middle of a run: a running optimizer, or a checkpoint of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from optim_bas.blocks import as_matrix, block_amax, block_mean, block_runs, read_layout, runs, write_back
from optim_bas.fp8 import FORMATS, encode_with, scale_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from optim_bas.optimizer import BAS

# What a group of AdamW says that BAS understands in the same sense.
_SHARED = ("lr", "betas", "eps", "weight_decay", "maximize", "initial_lr")


def convert(cls: type[BAS], optimizer: torch.optim.Optimizer, overrides: dict[str, Any]) -> Any:
    """The work of `BAS.from_adamw`."""
    if not isinstance(optimizer, torch.optim.AdamW):
        raise InvalidInput.argument("optimizer", expected="a torch.optim.AdamW", got=type(optimizer).__name__)
    groups = []
    for group in optimizer.param_groups:
        _refuse_amsgrad(group)
        new = {key: group[key] for key in _SHARED if key in group}
        new.update({key: value for key, value in overrides.items() if key != "exchange"})
        names = group.get("param_names")
        new["params"] = list(zip(names, group["params"])) if names else list(group["params"])
        groups.append(new)
    new_optimizer = cls(groups, exchange=overrides.get("exchange"))
    for group in new_optimizer.param_groups:
        for param in group["params"]:
            state = optimizer.state.get(param)
            if state:
                new_optimizer.state[param] = converted_state(state, param.shape, group)
    return new_optimizer


def converted_state(state: Mapping[str, Any], shape: torch.Size, group: Mapping[str, Any]) -> dict[str, Any]:
    """One tensor's state of AdamW as BAS keeps it.

    Parameters
    ----------
    state : mapping
        With `step`, `exp_avg` and `exp_avg_sq`; not changed.
    shape : torch.Size
        Of the parameter.
    group : mapping
        Of BAS.

    Returns
    -------
    dict
        m encoded to nearest, v as the mean over each block, the step number as it is.
    """
    step = torch.as_tensor(float(state["step"]), dtype=torch.float32)
    if group["algorithm"] == "adamw":
        return {"step": step, **{k: state[k].clone() for k in ("exp_avg", "exp_avg_sq")}}
    layout = read_layout(shape, group["block"], group["block_dim"])
    second = block_mean(state["exp_avg_sq"].float(), layout)
    return {"step": step, **encoded_state(state["exp_avg"], group), "exp_avg_sq": second}


def encoded_state(m: Tensor, group: Mapping[str, Any]) -> dict[str, Tensor]:
    """A momentum as a group keeps it: ``exp_avg``, and ``exp_avg_scale`` beside codes."""
    dtype = group["momentum_dtype"]
    if dtype not in FORMATS:
        return {"exp_avg": m.to(dtype, copy=True).contiguous()}
    layout = read_layout(m.shape, group["block"], group["block_dim"])
    scale = scale_of(block_amax(m.float(), layout), dtype)
    encoded = torch.zeros(layout.rows, layout.cols, dtype=torch.uint8, device=m.device)
    if m.numel():
        matrix, _ = as_matrix(m, layout)
        for to, values, own in zip(runs(encoded, layout), runs(matrix, layout), block_runs(scale, layout)):
            to.copy_(encode_with(values.float(), own, dtype, None))
    code = torch.zeros(m.shape, dtype=torch.uint8, device=m.device)
    write_back(code, encoded, layout)
    return {"exp_avg": code, "exp_avg_scale": scale}


def convert_checkpoint(checkpoint: dict[str, Any], **overrides: Any) -> dict[str, Any]:
    """A checkpoint with AdamW's state as one with BAS's.

    Parameters
    ----------
    checkpoint : dict
        AdamW's ``state_dict()``, or a dict that holds one or more of them as values. Not changed.
    **overrides
        Arguments of `BAS`, for all groups.

    Returns
    -------
    dict
        The same with every such state dict converted.

    Raises
    ------
    InvalidInput
        If there is none, or it uses amsgrad.
    """
    if _is_state_dict(checkpoint):
        return _converted_state_dict(checkpoint, overrides)
    found = {key: value for key, value in checkpoint.items() if _is_state_dict(value)}
    if not found:
        expected = "AdamW's state_dict(), or a dict that holds one"
        raise InvalidInput.argument("checkpoint", expected=expected, got=f"keys {sorted(map(str, checkpoint))[:8]}")
    return {**checkpoint, **{key: _converted_state_dict(value, overrides) for key, value in found.items()}}


def _is_state_dict(value: object) -> bool:
    return isinstance(value, dict) and {"state", "param_groups"} <= set(value)


def _converted_state_dict(state_dict: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    from optim_bas.optimizer import BAS

    groups, state = [], {}
    for group in state_dict["param_groups"]:
        _refuse_amsgrad(group)
        defaults = BAS([torch.nn.Parameter(torch.zeros(1))], **overrides).defaults
        new = {**defaults, **{key: group[key] for key in _SHARED if key in group}, **overrides}
        new.update({key: group[key] for key in ("params", "param_names") if key in group})
        groups.append(new)
        for key in group["params"]:
            old = state_dict["state"].get(key)
            if not old:
                continue
            if not {"step", "exp_avg", "exp_avg_sq"} <= set(old):
                expected = "AdamW's state (step, exp_avg, exp_avg_sq)"
                raise InvalidInput.argument("checkpoint", expected=expected, got=f"parameter {key} with {sorted(old)}")
            state[key] = converted_state(old, old["exp_avg"].shape, new)
    return {"state": state, "param_groups": groups}


def _refuse_amsgrad(group: Mapping[str, Any]) -> None:
    if group.get("amsgrad"):
        expected = "an AdamW without amsgrad, whose running maximum BAS has no place for"
        raise InvalidInput.argument("optimizer", expected=expected, got="amsgrad=True")
