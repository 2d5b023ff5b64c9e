"""Checks of the tensors handed to a module, made before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from lemmata_core import InvalidInput

T = TypeVar("T")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_HALF = (torch.float16, torch.bfloat16)


def check_options(dtype: object, device: object) -> tuple[torch.dtype | None, torch.device | None]:
    """The options `dtype` and `device` of a constructor, or `InvalidInput` if they are none."""
    if dtype is not None and dtype not in FLOATS:
        raise InvalidInput.argument("dtype", expected="a floating torch.dtype", got=repr(dtype))
    try:
        return dtype, None if device is None else torch.device(device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        raise InvalidInput.argument("device", expected="a device such as 'cpu' or 'cuda:0'", got=repr(device)) from None


def check_tensor(name: str, x: object) -> None:
    """Raise unless `x` is a dense floating tensor."""
    if not isinstance(x, torch.Tensor):
        raise InvalidInput.argument(name, expected="a torch.Tensor", got=type(x).__name__)
    if x.dtype not in FLOATS:
        raise InvalidInput.argument(name, expected="a floating dtype", got=str(x.dtype))
    if x.layout != torch.strided:
        raise InvalidInput.argument(name, expected="a dense tensor", got=str(x.layout))


def autocast_enabled(x: torch.Tensor) -> bool:
    """Whether autocast is on where `x` lives (torch raises for the meta device)."""
    kind = x.device.type
    return kind != "meta" and torch.is_autocast_enabled(kind)


def in_full_precision(x: torch.Tensor, call: Callable[[], T]) -> T:
    """``call()`` with autocast switched off where `x` lives: it would take matrix products to half precision."""
    if not autocast_enabled(x):
        return call()
    with torch.autocast(x.device.type, enabled=False):
        return call()


def check_last_axis(name: str, x: torch.Tensor, of: str, what: object, dim: int) -> None:
    """Raise unless `x` is a floating tensor whose last axis has `dim` columns."""
    check_tensor(name, x)
    if x.dim() == 0 or x.shape[-1] != dim:
        columns = f"{x.shape[-1]} columns" if x.dim() else "no columns"
        raise InvalidInput(f"{name} has {columns}, {of} '{what}' needs {dim}")


def check_same(name1: str, x1: torch.Tensor, name2: str, x2: torch.Tensor) -> None:
    """Raise unless two tensors agree in device and (outside autocast) in dtype."""
    if x1.device != x2.device:
        raise InvalidInput.argument(name2, expected=f"a tensor on {x1.device}, where {name1} is", got=str(x2.device))
    if x1.dtype != x2.dtype and not autocast_enabled(x1):
        raise InvalidInput.argument(name2, expected=f"{x1.dtype}, the dtype of {name1}", got=str(x2.dtype))


def broadcast(name1: str, x1: torch.Tensor, name2: str, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Expand the batch axes (all but the last) of two tensors to a common shape."""
    if x1.shape[:-1] == x2.shape[:-1]:
        return x1, x2
    try:
        batch = torch.broadcast_shapes(x1.shape[:-1], x2.shape[:-1])
    except RuntimeError:
        got = f"{tuple(x1.shape[:-1])} and {tuple(x2.shape[:-1])}"
        raise InvalidInput.argument(f"{name1}, {name2}", expected="batch shapes that broadcast", got=got) from None
    return x1.expand(*batch, x1.shape[-1]), x2.expand(*batch, x2.shape[-1])


def working_dtype(x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
    """The dtype to compute in (half precision accumulates in float32) and the one to return."""
    out = x1.dtype if x1.dtype == x2.dtype else torch.promote_types(x1.dtype, x2.dtype)
    return (torch.float32 if out in _HALF else out), out


def check_finite(name: str, x: torch.Tensor, largest: float | None = None) -> None:
    """Raise if a value is NaN, infinite or beyond `largest`. Synchronises the device: it runs only where asked for."""
    if not bool(torch.isfinite(x).all()):
        raise InvalidInput.argument(name, expected="finite values", got="NaN or infinity")
    if largest is not None and x.numel() and float(x.abs().max()) > largest:
        raise InvalidInput.argument(name, expected=f"values up to {largest:g}", got=f"{float(x.abs().max()):g}")
