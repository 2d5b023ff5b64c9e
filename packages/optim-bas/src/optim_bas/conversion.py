"""From AdamW to BAS in the middle of a run: a running optimizer, or a checkpoint of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from optim_bas.blocks import as_matrix, block_amax, block_mean, read_layout
from optim_bas.fp8 import FORMATS, scale_of
from optim_bas.groups import GROUP_KEYS, check_overrides, parameter_name
from optim_bas.sharding import is_dtensor, local, local_gradient, read_part
from optim_bas.state import codes_of, encoded_state, new_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from optim_bas.blocks import Layout
    from optim_bas.optimizer import BAS

# What a group of AdamW says that BAS understands in the same sense.
_ADAMW_STATE = {"step", "exp_avg", "exp_avg_sq"}
_SHARED = ("lr", "betas", "eps", "weight_decay", "maximize", "initial_lr")


def convert(cls: type[BAS], optimizer: torch.optim.Optimizer, overrides: dict[str, Any]) -> Any:
    """The work of `BAS.from_adamw`."""
    if not isinstance(optimizer, torch.optim.AdamW):
        raise InvalidInput.argument("optimizer", expected="a torch.optim.AdamW", got=type(optimizer).__name__)
    check_overrides(overrides)
    groups = []
    for group in optimizer.param_groups:
        _refuse_amsgrad(group)
        new = _shared(group)
        new.update({key: value for key, value in overrides.items() if key != "exchange"})
        names = group.get("param_names")
        new["params"] = list(zip(names, group["params"])) if names else list(group["params"])
        groups.append(new)
    new_optimizer = cls(groups, exchange=overrides.get("exchange"))
    for group in new_optimizer.param_groups:
        for position, param in enumerate(group["params"]):
            state = optimizer.state.get(param)
            if state:
                _check_adamw_state(state, parameter_name(group, position), "optimizer", param.shape)
                sharded = is_dtensor(param) and group["algorithm"] == "bas"
                new_optimizer.state[param] = (
                    _converted_shard(state, param, group) if sharded else converted_state(state, param.shape, group)
                )
    return new_optimizer


def _shared(group: Mapping[str, Any]) -> dict[str, Any]:
    """What BAS takes over of a group of AdamW; tensors as copies, since schedulers change them in place."""
    kept = {key: group[key] for key in _SHARED if key in group}
    return {key: value.detach().clone() if isinstance(value, torch.Tensor) else value for key, value in kept.items()}


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


def _converted_shard(state: Mapping[str, Any], param: Tensor, group: Mapping[str, Any]) -> dict[str, Any]:
    """`converted_state` of a sharded parameter: blocks that the sharding cuts are summed over their processes."""
    own = new_state(param, group)
    own["step"].fill_(float(state["step"]))
    part = read_part(param, group["block"], group["block_dim"])
    m, second = (local_gradient(param, state[key]).float() for key in ("exp_avg", "exp_avg_sq"))
    kept = local(own["exp_avg_sq"])
    if part.owner is None:
        mean, amax = block_mean(second, part.layout), block_amax(m, part.layout)
    else:
        assert part.entries is not None  # noqa: S101 - known wherever blocks are cut
        mean, amax = torch.zeros(2, kept.numel(), device=m.device)
        mean.index_add_(0, part.owner, _reduced(second, part.layout, "sum"))
        amax.scatter_reduce_(0, part.owner, _reduced(m.abs(), part.layout, "amax"), "amax")
        for processes in part.groups:
            torch.distributed.all_reduce(mean, group=processes)
            torch.distributed.all_reduce(amax, op=torch.distributed.ReduceOp.MAX, group=processes)
        mean /= part.entries
    kept.copy_(mean.view(kept.shape))
    dtype = group["momentum_dtype"]
    if dtype not in FORMATS:
        local(own["exp_avg"]).copy_(m)
        return own
    scale = scale_of(amax, dtype)
    local(own["exp_avg_scale"]).copy_(scale.view(kept.shape))
    rows = scale if part.owner is None else scale[part.owner]
    local(own["exp_avg"]).copy_(codes_of(m, part.layout, rows, dtype))
    return own


def _reduced(tensor: Tensor, layout: Layout, how: str) -> Tensor:
    """The sums, or the largest entries, of the rows here; 0 for rows of no entries."""
    matrix, _ = as_matrix(tensor, layout)
    if layout.cols == 0:
        return tensor.new_zeros(layout.rows)
    return matrix.sum(dim=1) if how == "sum" else matrix.amax(dim=1)


def convert_checkpoint(checkpoint: Any, **overrides: Any) -> Any:
    """A checkpoint with AdamW's state as one with BAS's.

    Parameters
    ----------
    checkpoint : dict
        AdamW's ``state_dict()``, or a dict that holds one or more of them, in dicts, lists and tuples of any depth (a
        training loop's ``{"model": ..., "optimizer": ...}``, Lightning's ``optimizer_states``). Not changed.
    **overrides
        Arguments of `BAS`, for all groups.

    Returns
    -------
    dict
        The same with every such state dict converted.

    Raises
    ------
    InvalidInput
        If there is none, one is another optimizer's (BAS's own too) or incomplete, or it uses amsgrad.
    """
    check_overrides(overrides)
    found: list[str] = []
    converted = _converted(checkpoint, overrides, found)
    if not found:
        expected = "AdamW's state_dict(), or a dict that holds one"
        got = f"keys {sorted(map(str, checkpoint))[:8]}" if isinstance(checkpoint, dict) else type(checkpoint).__name__
        raise InvalidInput.argument("checkpoint", expected=expected, got=got)
    return converted


def _converted(value: Any, overrides: dict[str, Any], found: list[str]) -> Any:
    if _is_state_dict(value):
        found.append("state_dict")
        return _converted_state_dict(value, overrides)
    if isinstance(value, dict):
        new = {key: _converted(item, overrides, found) for key, item in value.items()}
    elif type(value) in (list, tuple):
        new = type(value)(_converted(item, overrides, found) for item in value)
    else:
        return value
    # What holds no state of an optimizer is handed on as it is, of whatever subclass.
    return new if found else value


def _is_state_dict(value: object) -> bool:
    return isinstance(value, dict) and {"state", "param_groups"} <= set(value)


def _converted_state_dict(state_dict: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    from optim_bas.optimizer import BAS

    _check_adamw_state_dict(state_dict)
    constructor = {key: value for key, value in overrides.items() if key not in GROUP_KEYS}
    defaults = BAS([torch.nn.Parameter(torch.zeros(1))], **constructor).defaults
    kept = {key: value for key, value in overrides.items() if key in defaults}
    groups, state = [], {}
    for group in state_dict["param_groups"]:
        _refuse_amsgrad(group)
        new = {**defaults, **_shared(group), **kept}
        new.update({key: group[key] for key in ("params", "param_names") if key in group})
        groups.append(new)
        for key in group["params"]:
            old = state_dict["state"].get(key)
            if not old:
                continue
            _check_adamw_state(old, f"parameter {key}", "checkpoint")
            _check_adamw_alone(old, group, f"parameter {key}")
            state[key] = converted_state(old, old["exp_avg"].shape, new)
    return {"state": state, "param_groups": groups}


def _check_adamw_state_dict(state_dict: Mapping[str, Any]) -> None:
    """Refuse groups that are not AdamW's, and what has the keys of a state dict only."""
    groups = state_dict["param_groups"]
    if not isinstance(state_dict["state"], dict) or not isinstance(groups, list):
        got = f"a {type(state_dict['state']).__name__} and a {type(groups).__name__}"
        raise InvalidInput.argument("checkpoint", expected="a state in a dict and param_groups in a list", got=got)
    for group in groups:
        wanted = {"params", "lr", "betas", "eps", "weight_decay"}
        keys = set(group) if isinstance(group, dict) else set()
        if not wanted <= keys or keys & {"momentum_decay", "algorithm"}:
            got = f"a group with {sorted(map(str, keys - {'param_names'}))}"
            raise InvalidInput.argument("checkpoint", expected="AdamW's groups", got=got)


def _check_adamw_state(state: object, name: str, argument: str, shape: torch.Size | None = None) -> None:
    """Refuse what lacks a part of AdamW's state; `shape` is the parameter's, where it is at hand."""
    kept = state if isinstance(state, dict) else {}
    moments = [kept.get(key) for key in ("exp_avg", "exp_avg_sq")]
    step = kept.get("step")
    counted = isinstance(step, (int, float)) or (isinstance(step, torch.Tensor) and step.numel() == 1)
    tensors = [m for m in moments if isinstance(m, torch.Tensor) and m.is_floating_point()]
    wanted = tensors[0].shape if tensors and shape is None else shape
    if not counted or len(tensors) < 2 or any(m.shape != wanted for m in tensors):
        parts = {key: tuple(value.shape) if isinstance(value, torch.Tensor) else value for key, value in kept.items()}
        expected = "AdamW's state (step, exp_avg, exp_avg_sq)" + ("" if shape is None else f" of shape {tuple(shape)}")
        raise InvalidInput.argument(argument, expected=expected, got=f"{name} with {parts}")


def _check_adamw_alone(state: Mapping[str, Any], group: Mapping[str, Any], name: str) -> None:
    """Refuse states of others, which keep tensors of the same names in another sense."""
    tensors = {key for key, value in state.items() if isinstance(value, torch.Tensor) or key == "step"}
    # Adam and RAdam decay the gradient unless this says otherwise; older checkpoints of AdamW lack it.
    coupled = group.get("decoupled_weight_decay") is False and group.get("weight_decay", 0) != 0
    if tensors != _ADAMW_STATE or coupled:
        got = f"{name} with {sorted(map(str, tensors))}" + (" and a decay of the gradient" if coupled else "")
        raise InvalidInput.argument("checkpoint", expected="AdamW's state (step, exp_avg, exp_avg_sq)", got=got)


def _refuse_amsgrad(group: Mapping[str, Any]) -> None:
    if group.get("amsgrad"):
        expected = "an AdamW without amsgrad, whose running maximum BAS has no place for"
        raise InvalidInput.argument("optimizer", expected=expected, got="amsgrad=True")
