"""What is kept of a parameter: bytes of momentum, and two numbers a block. Made, and put back from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from lemmata_core import InvalidInput

from optim_bas.blocks import as_matrix, block_runs, read_layout, runs, write_back
from optim_bas.fp8 import FORMATS, decode
from optim_bas.sharding import block_zeros

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def check_loaded(state_dict: Mapping[str, Any], workers: int) -> None:
    """Refuse a checkpoint that is AdamW's, or holds one of several workers' own momenta where their number differs.

    Raises
    ------
    InvalidInput
    """
    for group in state_dict["param_groups"]:
        if group.get("workers", 1) not in (1, workers):
            expected = f"the momenta of {workers} workers (call average_momentum() on all of them before saving)"
            raise InvalidInput.argument("state_dict", expected=expected, got=f"one of {group['workers']} workers' own")
        coded = group["algorithm"] == "bas" and group["momentum_dtype"] in FORMATS
        for key in group["params"]:
            stored = state_dict["state"].get(key)
            if stored and coded and "exp_avg_scale" not in stored:
                expected = "a checkpoint of BAS (one of AdamW is turned into it by BAS.from_adamw or optim-bas convert)"
                got = f"parameter {key} with {sorted(stored)}"
                raise InvalidInput.argument("state_dict", expected=expected, got=got)
