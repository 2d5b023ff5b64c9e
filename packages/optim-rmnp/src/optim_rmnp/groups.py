"""The keys of a parameter group: their defaults, and the checks at the door."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_rmnp.checks import check_number
from optim_rmnp.layout import read_layout
from optim_rmnp.row_norm import ADJUST_LR_FNS

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHMS = ("rmnp", "adamw")
# Keys a group may carry beyond the constructor's arguments, and what they are without being named.
GROUP_KEYS: dict[str, Any] = {
    "algorithm": "rmnp",
    "input_dim": -1,
    "stacked": 1,
    "kind": None,
    "stochastic_rounding": False,
}
ADAMW_DEFAULTS: dict[str, Any] = {"betas": (0.9, 0.95), "eps": 1e-8}
# What torch.optim.Muon's groups have beside ours.
MUON_KEYS: dict[str, Any] = {"ns_coefficients": (3.4445, -4.7750, 2.0315), "ns_steps": 5}
# Where torch has its one-kernel AdamW.
_FUSED_ADAMW = ("cpu", "cuda", "mps", "xpu")


def parameter_name(group: Mapping[str, Any], position: int) -> str:
    """What to call a parameter in messages: its own name where the group has one."""
    names = group.get("param_names")
    name = names[position] if names else f"parameter {position} of its group"
    return str(name).replace("_orig_mod.", "")


def check_group(group: Mapping[str, Any]) -> None:
    """Refuse a group whose numbers or tensors RMNP cannot use.

    Parameters
    ----------
    group : mapping
        Complete: every default is filled in.

    Raises
    ------
    InvalidInput
        Naming the key or the tensor.
    """
    _check_numbers(group)
    rmnp = group["algorithm"] == "rmnp"
    for position, param in enumerate(group["params"]):
        name = parameter_name(group, position)
        if param.is_complex():
            raise InvalidInput.argument("params", expected="real tensors", got=f"{name} of dtype {param.dtype}")
        if param.requires_grad and not param.is_floating_point():
            raise InvalidInput.argument("params", expected="floating-point tensors", got=f"{name} of {param.dtype}")
        if rmnp and param.ndim < 2:
            expected = "tensors of two or more dimensions in an 'rmnp' group; optim_rmnp.param_groups(model) puts"
            expected += " the others into an 'adamw' group"
            raise InvalidInput.argument("params", expected=expected, got=f"{name} of shape {tuple(param.shape)}")
        if rmnp:
            read_layout(param.shape, group, name)
        if group["fused"]:
            _check_fused(param, name, rmnp, group["momentum_dtype"])


def native_available() -> bool:
    """Whether the one-pass CPU kernel can be had: numba, the extra `cpu`."""
    return find_spec("numba") is not None


def has_fused_adamw(param: Tensor) -> bool:
    """Whether torch's one-kernel AdamW runs on the device of `param`."""
    return param.device.type in _FUSED_ADAMW and param.is_floating_point()


def _check_fused(param: Tensor, name: str, rmnp: bool, momentum_dtype: torch.dtype | None) -> None:
    if not rmnp:
        ok = has_fused_adamw(param)
        expected = f"tensors on one of {', '.join(_FUSED_ADAMW)} for fused=True"
    elif param.device.type == "cpu":
        ok = native_available() and param.dtype == torch.float32 and momentum_dtype in (None, torch.float32)
        ok = ok and (param.ndim > 2 or param.is_contiguous())
        expected = (
            "contiguous float32 tensors with momentum in float32 on the CPU and the extra `cpu` (numba) for fused=True"
        )
    else:
        ok = param.device.type == "cuda"
        expected = "tensors on the CPU or a CUDA device for fused=True"
    if not ok:
        got = f"{name} of {param.dtype} on {param.device}" + ("" if native_available() else ", numba not installed")
        raise InvalidInput.argument("fused", expected=expected, got=got)


def _check_numbers(group: Mapping[str, Any]) -> None:
    lr = group["lr"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise InvalidInput.argument(
            "lr", expected="a number or a tensor of one element", got=f"shape {tuple(lr.shape)}"
        )
    for key in ("lr", "weight_decay", "eps"):
        check_number(key, group[key])
    check_number("momentum", group["momentum"], 0.0, 1.0, "a number in [0, 1)")
    _check_choice("algorithm", group["algorithm"], ALGORITHMS)
    _check_choice("zero_rows", group["zero_rows"], ("step", "hold"))
    _check_choice("adjust_lr_fn", group["adjust_lr_fn"], (None, *ADJUST_LR_FNS))
    for key in ("nesterov", "maximize", "stochastic_rounding"):
        _check_choice(key, group[key], (True, False))
    _check_choice("fused", group["fused"], (None, True, False))
    dtype = group["momentum_dtype"]
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InvalidInput.argument("momentum_dtype", expected="None or a floating-point torch.dtype", got=dtype)
    if group["algorithm"] == "adamw":
        if group["stochastic_rounding"]:
            expected = "False in an 'adamw' group: torch's AdamW rounds to nearest"
            raise InvalidInput.argument("stochastic_rounding", expected=expected, got=True)
        betas = group["betas"]
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise InvalidInput.argument("betas", expected="two numbers in [0, 1)", got=betas)
        for beta in betas:
            check_number("betas", beta, 0.0, 1.0, "two numbers in [0, 1)")


def _check_choice(key: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
        raise InvalidInput.argument(key, expected=f"one of {', '.join(map(repr, choices))}", got=value)
