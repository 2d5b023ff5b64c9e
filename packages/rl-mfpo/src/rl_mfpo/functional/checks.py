"""The doors of the pure functions: kinds and shapes, which cost microseconds; no entry is read, which could wait."""

from __future__ import annotations

from typing import Any

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range
from torch import Tensor


def floats(x: Any, name: str, shape: str = "(..., A)", *, min_ndim: int = 1) -> Tensor:
    """Check for a tensor of floating point with at least `min_ndim` axes.

    Raises
    ------
    InvalidInput
    """
    expected = f"a floating-point tensor of shape {shape}"
    if not isinstance(x, Tensor):
        raise InvalidInput.argument(name, expected=expected, got=type(x).__name__)
    if not x.is_floating_point():
        raise InvalidInput.argument(name, expected=expected, got=f"dtype {x.dtype}")
    if x.dim() < min_ndim:
        raise InvalidInput.argument(name, expected=expected, got=f"shape {tuple(x.shape)}")
    return x


def like(x: Any, name: str, other: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Check for a tensor of this shape with the dtype and the device of another.

    Raises
    ------
    InvalidInput
    """
    wanted = f"a tensor of shape {tuple(shape)}, {other.dtype} on {other.device}"
    if not isinstance(x, Tensor):
        raise InvalidInput.argument(name, expected=wanted, got=type(x).__name__)
    if x.shape != shape or x.dtype != other.dtype or x.device != other.device:
        raise InvalidInput.argument(name, expected=wanted, got=f"shape {tuple(x.shape)}, {x.dtype} on {x.device}")
    return x


def together(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that these broadcast to.

    Raises
    ------
    InvalidInput
    """
    made: list[int] = []
    for shape in shapes.values():
        made = [1] * (len(shape) - len(made)) + made
        for axis, size in enumerate(shape, start=len(made) - len(shape)):
            if size != made[axis] and 1 not in (size, made[axis]):
                got = ", ".join(str(tuple(each)) for each in shapes.values())
                raise InvalidInput.argument(", ".join(shapes), expected="shapes that broadcast", got=got)
            made[axis] = size if made[axis] == 1 else made[axis]
    return tuple(made)


def temperature(alpha: Any) -> float | Tensor:
    """Check for one number > 0, a float or a tensor with one entry.

    Raises
    ------
    InvalidInput
    """
    expected = "a temperature > 0, as a number or a tensor of one"
    if isinstance(alpha, Tensor):
        if alpha.numel() != 1 or alpha.is_sparse or alpha.dtype == torch.bool or alpha.is_complex():
            raise InvalidInput.argument("alpha", expected=expected, got=f"shape {tuple(alpha.shape)}, {alpha.dtype}")
        value = float(alpha)
    else:
        value = in_range(alpha, "alpha")
    if not 0 < value < float("inf"):
        raise InvalidInput.argument("alpha", expected=expected, got=value)
    return alpha if isinstance(alpha, Tensor) else value
