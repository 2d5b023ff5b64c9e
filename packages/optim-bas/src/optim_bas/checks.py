"""What every door of the package refuses: tensors that are none, numbers out of range."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

SCALES = ("rms", "mean")
# Eight-bit floats are floating point to torch, but have no arithmetic.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INFINITY = float("inf")


def check_tensor(name: str, value: object) -> None:
    """Refuse what is not a dense tensor of 16 to 64 bits floating point.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.dtype not in FLOATS:
        got = f"{value.dtype} in {value.layout}" if isinstance(value, Tensor) else type(value).__name__
        raise InvalidInput.argument(name, expected="a dense floating-point tensor (16 bits or more)", got=got)


def check_number(
    name: str, value: Any, low: float = 0.0, high: float = _INFINITY, expected: str = "a finite number >= 0"
) -> None:
    """Refuse what is not a number, or a tensor of one, in [low, high).

    Raises
    ------
    InvalidInput
    """
    try:
        number = float("nan") if isinstance(value, (str, bytes)) else float(value)
    except (OverflowError, TypeError, ValueError, RuntimeError):
        number = float("nan")
    if not low <= number < high:
        raise InvalidInput.argument(name, expected=expected, got=value)


def check_betas(betas: object) -> None:
    """Refuse what is not two numbers in [0, 1).

    Raises
    ------
    InvalidInput
    """
    expected = "two numbers in [0, 1)"
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise InvalidInput.argument("betas", expected=expected, got=betas)
    for beta in betas:
        check_number("betas", beta, high=1.0, expected=expected)


def check_step(step: Any) -> None:
    """Refuse what is not a count from 1 (True is none).

    Raises
    ------
    InvalidInput
    """
    if isinstance(step, bool) or not isinstance(step, Integral) or int(step) < 1:
        raise InvalidInput.argument("step", expected="an int >= 1", got=step)


def check_flag(name: str, value: object) -> None:
    """Refuse what is not True or False.

    Raises
    ------
    InvalidInput
    """
    if value is not True and value is not False:
        raise InvalidInput.argument(name, expected="True or False", got=value)


def check_scale(scale: object) -> None:
    """Refuse what is not a scale.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(scale, str) or scale not in SCALES:
        raise InvalidInput.argument("scale", expected='"rms" or "mean"', got=scale)
