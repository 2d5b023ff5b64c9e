"""The keys of a parameter group: their defaults, and the checks at the door."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.blocks import read_layout
from optim_bas.checks import FLOATS, check_betas, check_flag, check_number, check_scale
from optim_bas.fp8 import MOMENTUM_DTYPES, ROUNDINGS
from optim_bas.sharding import is_dtensor

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHMS = ("bas", "adamw")
# Keys a group may carry beyond the constructor's arguments, and what they are without being named.
# `workers` says of how many workers' own momenta the state is one: 1 where all have the same.
GROUP_KEYS: dict[str, Any] = {"algorithm": "bas", "block_dim": 0, "stochastic_rounding": False, "workers": 1}
# The constructor's keywords that a group keeps.
KEYWORDS = (
    *("lr", "betas", "eps", "weight_decay", "block", "scale", "nesterov", "momentum_dtype", "rounding", "seed"),
    *("maximize", "fused"),
)
# Where torch has its one-kernel AdamW.
_FUSED_ADAMW = ("cpu", "cuda", "mps", "xpu")
_UNSUPPORTED = {
    "amsgrad": (False, "False: a running maximum would be a second state, and the bound on a_b makes it needless"),
    "capturable": (False, "False: the step number is a CPU scalar, which a CUDA graph would freeze"),
    "differentiable": (False, "False: the sign has no derivative to send back"),
    "foreach": (None, "None or False: lists of whole tensors would hold the decoded momenta of all of them at once"),
}


def check_unsupported(**given: object) -> None:
    """Refuse AdamW's options that BAS does not have, saying why; their defaults pass.

    Raises
    ------
    InvalidInput
    """
    for name, value in given.items():
        _, expected = _UNSUPPORTED[name]
        if value:
            raise InvalidInput.argument(name, expected=expected, got=value)


def check_iterable(params: Any) -> None:
    """Refuse what holds no parameters at all; what it holds is looked at elsewhere.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(params, Iterable):
        expected = "tensors, or dicts with params"
        raise InvalidInput.argument("params", expected=expected, got=type(params).__name__)


def check_overrides(keys: Iterable[str]) -> None:
    """Refuse what neither the constructor nor a group knows: a misspelt option would be kept and never read.

    Raises
    ------
    InvalidInput
    """
    known = {*KEYWORDS, *_UNSUPPORTED, *GROUP_KEYS, "exchange"} - {"workers"}
    for key in keys:
        if key not in known:
            raise InvalidInput.argument(key, expected=f"one of {', '.join(sorted(known))}", got="no option of BAS")


def check_whole(tensors: list[Tensor]) -> None:
    """Refuse sharded parameters beside an exchange: their gradients are summed already.

    Raises
    ------
    InvalidInput
    """
    if any(is_dtensor(tensor) for tensor in tensors):
        expected = (
            "no exchange for DTensor parameters: under FSDP2 gradients are reduced before the optimizer sees them"
        )
        raise InvalidInput.argument("exchange", expected=expected, got="a SignExchange")


def parameter_name(group: Mapping[str, Any], position: int) -> str:
    """What to call a parameter in messages: its own name where the group has one."""
    names = group.get("param_names")
    name = names[position] if names else f"parameter {position} of its group"
    return str(name).replace("_orig_mod.", "")


def check_group(group: Mapping[str, Any]) -> None:
    """Refuse a group whose numbers or tensors BAS cannot use.

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
    bas = group["algorithm"] == "bas"
    for position, param in enumerate(group["params"]):
        name = parameter_name(group, position)
        if param.is_complex():
            raise InvalidInput.argument("params", expected="real tensors", got=f"{name} of dtype {param.dtype}")
        if param.requires_grad and param.dtype not in FLOATS:
            expected = "floating-point tensors of 16 bits or more"
            raise InvalidInput.argument("params", expected=expected, got=f"{name} of {param.dtype}")
        if bas:
            read_layout(param.shape, group["block"], group["block_dim"], name)
        if group["fused"]:
            _check_fused(param, name, group)


def native_available() -> bool:
    """Whether the one-pass CPU kernel can be had: numba, the extra `cpu`."""
    return find_spec("numba") is not None


def has_fused_adamw(param: Tensor) -> bool:
    """Whether torch's one-kernel AdamW runs on the device of `param`."""
    return param.device.type in _FUSED_ADAMW and param.is_floating_point()


def _check_fused(param: Tensor, name: str, group: Mapping[str, Any]) -> None:
    if group["algorithm"] == "adamw":
        ok = has_fused_adamw(param)
        expected = f"tensors on one of {', '.join(_FUSED_ADAMW)} for fused=True"
    elif param.device.type == "cpu":
        fits = param.dtype == torch.float32 and group["momentum_dtype"] == torch.float8_e4m3fn
        in_rows = param.is_contiguous() and (param.ndim < 2 or group["block_dim"] % param.ndim == 0)
        ok = native_available() and fits and in_rows
        expected = (
            "contiguous float32 tensors with float8_e4m3fn momentum, block_dim 0 and the extra `cpu` (numba) for "
            "fused=True on the CPU"
        )
    else:
        ok = param.device.type == "cuda"
        expected = "tensors on the CPU or a CUDA device for fused=True"
    if not ok:
        got = f"{name} of {param.dtype} on {param.device}" + ("" if native_available() else ", numba not installed")
        raise InvalidInput.argument("fused", expected=expected, got=got)


def _check_numbers(group: Mapping[str, Any]) -> None:
    check_unsupported(**{name: group.get(name) for name in _UNSUPPORTED})
    if group.get("exchange") is not None:
        expected = "given to the optimizer, for all its groups"
        raise InvalidInput.argument("exchange", expected=expected, got="one of a group")
    lr = group["lr"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise InvalidInput.argument(
            "lr", expected="a number or a tensor of one element", got=f"shape {tuple(lr.shape)}"
        )
    for key in ("lr", "weight_decay", "eps"):
        check_number(key, group[key])
    check_betas(group["betas"])
    check_scale(group["scale"])
    _check_choice("algorithm", group["algorithm"], ALGORITHMS)
    _check_choice("rounding", group["rounding"], ROUNDINGS)
    for key in ("nesterov", "maximize", "stochastic_rounding"):
        check_flag(key, group[key])
    _check_choice("fused", group["fused"], (None, True, False))
    if group["momentum_dtype"] not in MOMENTUM_DTYPES:
        expected = f"one of {', '.join(map(str, MOMENTUM_DTYPES))}"
        raise InvalidInput.argument("momentum_dtype", expected=expected, got=group["momentum_dtype"])
    seed = group["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise InvalidInput.argument("seed", expected="an int in [0, 2^63)", got=seed)


def _check_choice(key: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in choices):
        raise InvalidInput.argument(key, expected=f"one of {', '.join(map(repr, choices))}", got=value)
