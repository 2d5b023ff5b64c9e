"""Argument checks that both doors of the selective scan share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lemmata_core import InvalidInput
from torch import Tensor


def check_tensors(given: Mapping[str, Any], optional: frozenset[str]) -> None:
    """Check that all are floating or complex tensors on the device of the first; those of `optional` may be None."""
    first = next(iter(given.values()))
    for name, tensor in given.items():
        if tensor is None and name in optional:
            continue
        if not isinstance(tensor, Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
            what = f"{tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise InvalidInput.argument(name, expected="a floating-point or complex torch tensor", got=what)
        if tensor.device != first.device:
            raise InvalidInput.argument(name, expected=f"a tensor on {first.device} as u", got=f"{tensor.device}")


def check_states(A: Tensor, channels: int) -> int:
    """Check A of shape (channels, states), and return the number of states."""
    if A.ndim != 2 or A.shape[0] != channels or A.shape[1] == 0:
        raise InvalidInput.argument("A", expected=f"shape ({channels}, states)", got=f"shape {tuple(A.shape)}")
    return A.shape[1]


def check_shapes(given: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Check shapes by name; what is None is left out."""
    for name, shape in wanted.items():
        tensor = given[name]
        if tensor is not None and tuple(tensor.shape) != shape:
            raise InvalidInput.argument(name, expected=f"shape {shape}", got=f"shape {tuple(tensor.shape)}")
