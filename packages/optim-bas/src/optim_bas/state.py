"""What is kept of a parameter: bytes of momentum, and two numbers a block. Made, and put back from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from lemmata_core import InvalidInput

from optim_bas.blocks import Layout, as_matrix, block_amax, block_runs, read_layout, runs, write_back
from optim_bas.fp8 import FORMATS, decode, encode_with, scale_of
from optim_bas.groups import check_group, parameter_name
from optim_bas.sharding import block_zeros, is_dtensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

STATE_KEYS = ("step", "exp_avg", "exp_avg_scale", "exp_avg_sq")


def new_state(param: Tensor, group: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a parameter that has not been stepped.

    Parameters
    ----------
    param : torch.Tensor
    group : mapping
        With `block`, `block_dim` and `momentum_dtype`.

    Returns
    -------
    dict
        ``step`` (float32 scalar on the CPU), ``exp_avg`` (uint8 codes, or the momentum itself, shape of the
        parameter), ``exp_avg_scale`` (float32, one a block; only beside codes) and ``exp_avg_sq`` (the same).
    """
    dtype = group["momentum_dtype"]
    coded = dtype in FORMATS
    stored = torch.uint8 if coded else dtype
    state: dict[str, Any] = {
        "step": torch.zeros((), dtype=torch.float32),
        "exp_avg": torch.zeros_like(param, dtype=stored, memory_format=torch.contiguous_format),
    }
    if coded:
        state["exp_avg_scale"] = block_zeros(param, group)
    state["exp_avg_sq"] = block_zeros(param, group)
    return state


def restored(stored: Mapping[str, Any], param: Tensor) -> dict[str, Any]:
    """The stored state with the dtypes that it has, on the parameter's device (`step` on the CPU), as copies."""
    return {
        key: (
            value.to(device="cpu" if key == "step" else param.device, copy=True)
            if isinstance(value, torch.Tensor)
            else value
        )
        for key, value in stored.items()
    }


def decoded_momentum(param: Tensor, state: Mapping[str, Any], group: Mapping[str, Any]) -> Tensor:
    """The momentum of a tensor as float32, shape of the parameter."""
    stored = state["exp_avg"]
    if group["momentum_dtype"] not in FORMATS:
        return cast("Tensor", stored.to(torch.float32, copy=True))
    layout = read_layout(param.shape, group["block"], group["block_dim"])
    matrix, _ = as_matrix(stored, layout)
    m = torch.zeros(layout.rows, layout.cols, device=stored.device)
    if stored.numel():
        scales = block_runs(state["exp_avg_scale"], layout)
        for to, code, scale in zip(runs(m, layout), runs(matrix, layout), scales):
            to.copy_(decode(code, scale, dtype=group["momentum_dtype"]))
    whole = torch.zeros(param.shape, device=stored.device)
    write_back(whole, m, layout)
    return whole


def encoded_state(m: Tensor, group: Mapping[str, Any]) -> dict[str, Tensor]:
    """A momentum as a group keeps it: ``exp_avg``, and ``exp_avg_scale`` beside codes."""
    dtype = group["momentum_dtype"]
    if dtype not in FORMATS:
        return {"exp_avg": m.to(dtype, copy=True).contiguous()}
    layout = read_layout(m.shape, group["block"], group["block_dim"])
    scale = scale_of(block_amax(m.float(), layout), dtype)
    return {"exp_avg": codes_of(m, layout, scale, dtype), "exp_avg_scale": scale}


def codes_of(m: Tensor, layout: Layout, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """The codes of a momentum, shape of it, for one scale a block."""
    encoded = torch.zeros(layout.rows, layout.cols, dtype=torch.uint8, device=m.device)
    if m.numel():
        matrix, _ = as_matrix(m, layout)
        for to, values, own in zip(runs(encoded, layout), runs(matrix, layout), block_runs(scale, layout)):
            to.copy_(encode_with(values.float(), own, dtype, None))
    code = torch.zeros(m.shape, dtype=torch.uint8, device=m.device)
    write_back(code, encoded, layout)
    return code


def check_state(param: Tensor, state: Mapping[str, Any], group: Mapping[str, Any], name: str) -> None:
    """Refuse a state that is not one of this parameter under this group's options.

    Parameters
    ----------
    param : torch.Tensor
    state : mapping
    group : mapping
        With `algorithm`, `block`, `block_dim` and `momentum_dtype`.
    name : str
        Of the parameter, for the error message.

    Raises
    ------
    InvalidInput
        For what AdamW keeps, for other shapes, blocks or dtypes, and for a whole state of a sharded parameter.
    """
    if not isinstance(state, dict):
        raise InvalidInput.argument("state", expected=f"a dict for {name}", got=type(state).__name__)
    if group["algorithm"] == "adamw":
        wanted: dict[str, Any] = {"exp_avg": (None, param.shape), "exp_avg_sq": (None, param.shape)}
    else:
        dtype = group["momentum_dtype"]
        blocks = read_layout(param.shape, group["block"], group["block_dim"], name).state_shape
        wanted = {"exp_avg": (torch.uint8 if dtype in FORMATS else dtype, param.shape)}
        wanted["exp_avg_sq"] = (None, blocks)
        if dtype in FORMATS:
            wanted["exp_avg_scale"] = (torch.float32, blocks)
    for key, (dtype, shape) in wanted.items():
        kept = state.get(key)
        ok = isinstance(kept, torch.Tensor) and tuple(kept.shape) == tuple(shape) and dtype in (None, kept.dtype)
        if ok and key == "exp_avg" and is_dtensor(param) != is_dtensor(kept):  # type: ignore[arg-type]
            expected = "a sharded state for a sharded parameter (torch.distributed.checkpoint.state_dict deals it out)"
            raise InvalidInput.argument("state", expected=expected, got=f"{type(kept).__name__} for {name}")
        if not ok:
            got = f"{kept.dtype} of shape {tuple(kept.shape)}" if isinstance(kept, torch.Tensor) else "none"
            expected = (
                f"{name}'s {key} of shape {tuple(shape)}, as its block, block_dim and momentum_dtype say "
                "(AdamW's state is turned into it by BAS.from_adamw or optim-bas convert)"
            )
            raise InvalidInput.argument("state", expected=expected, got=got)


def check_state_dict(value: object) -> None:
    """Refuse what is no optimizer's state dict.

    Raises
    ------
    InvalidInput
    """
    parts = value if isinstance(value, dict) else {}
    state, groups = parts.get("state"), parts.get("param_groups")
    named = isinstance(groups, list) and all(isinstance(group, dict) and "params" in group for group in groups)
    if not isinstance(state, dict) or not named:
        expected = "a dict with state (a dict) and param_groups (a list of dicts with params)"
        got = f"a dict with {sorted(map(str, value))}" if isinstance(value, dict) else type(value).__name__
        raise InvalidInput.argument("state_dict", expected=expected, got=got)


def check_loaded(state_dict: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], workers: int) -> None:
    """Refuse a checkpoint whose states are not those of these groups' parameters.

    Parameters
    ----------
    state_dict : mapping
        Complete: its groups have every key.
    groups : sequence of mapping
        The optimizer's own.
    workers : int
        How many have an own momentum here.

    Raises
    ------
    InvalidInput
        Also if it holds one of several workers' own momenta, and their number differs, or options out of range.
    """
    for saved, group in zip(state_dict["param_groups"], groups):
        if saved.get("workers", 1) not in (1, workers):
            expected = f"the momenta of {workers} workers (call average_momentum() on all of them before saving)"
            raise InvalidInput.argument("state_dict", expected=expected, got=f"one of {saved['workers']} workers' own")
        for position, (key, param) in enumerate(zip(saved["params"], group["params"])):
            stored = state_dict["state"].get(key)
            if stored:
                check_state(param, stored, saved, parameter_name(group, position))
        # Not `lr`, which a schedule may have taken to where none begins; nor `fused`: the device may be another.
        check_group({**saved, "params": group["params"], "lr": 0.0, "fused": None})
