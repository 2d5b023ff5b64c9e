"""What a checkpoint needs, RMNP's own or one of torch's Muon or AdamW, before and after torch has loaded it."""

from __future__ import annotations

from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_rmnp.layout import read_layout


def completed(saved: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A saved group with the keys that it lacks, taken from the optimizer's own."""
    missing = {key: value for key, value in own.items() if key not in saved and key not in ("params", "param_names")}
    if "algorithm" not in saved and "ns_steps" in saved:
        # Muon's eps guards its Newton-Schulz iteration, whose scale is another.
        missing["eps"] = own["eps"]
        saved = {key: value for key, value in saved.items() if key != "eps"}
    return {**missing, **saved}


def check_loaded(group: dict[str, Any], params: list[Tensor], state: dict[Any, Any]) -> None:
    """Refuse a checkpoint of other tensors: torch checks their number only, and the kernels trust the shapes."""
    key = "momentum_buffer" if group["algorithm"] == "rmnp" else "exp_avg"
    for param, number in zip(params, group["params"]):
        entries = state.get(number) or {}
        if group["algorithm"] == "rmnp":
            read_layout(param.shape, group, f"parameter {number}")
        if not entries:
            continue
        shape = tuple(entries[key].shape) if key in entries else None
        if shape != tuple(param.shape):
            got = f"shape {shape}" if shape else ", ".join(map(str, entries))
            expected = f"{key} of shape {tuple(param.shape)} for parameter {number} in an {group['algorithm']!r} group"
            raise InvalidInput.argument("state_dict", expected=expected, got=got)


def restore_momentum(optimizer: torch.optim.Optimizer, loaded: dict[str, Any]) -> None:
    """Put back what torch's loading has rounded to the parameter's dtype."""
    for group, saved in zip(optimizer.param_groups, loaded["param_groups"]):
        dtype = group.get("momentum_dtype")
        for param, key in zip(group["params"], saved["params"]):
            entries = loaded["state"].get(key, {})
            for name, value in optimizer.state.get(param, {}).items():
                if isinstance(value, Tensor) and value is entries.get(name):  # torch shares it with the caller
                    optimizer.state[param][name] = value.clone()
            stored = entries.get("momentum_buffer")
            if dtype is not None and stored is not None:
                optimizer.state[param]["momentum_buffer"] = stored.to(dtype=dtype, device=param.device, copy=True)
