"""Sharded parameters (DTensor: FSDP2, tensor parallelism): what is local, and what little must be summed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

    from optim_bas.blocks import Layout


def is_dtensor(tensor: Tensor) -> bool:
    """Whether `tensor` is a DTensor, without loading `torch.distributed.tensor` where nobody else has."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of `tensor` that this process holds, sharing its storage."""
    return tensor.to_local() if is_dtensor(tensor) else tensor  # type: ignore[attr-defined]


def local_gradient(param: Tensor, grad: Tensor) -> Tensor:
    """The part of `grad` that this process holds, laid out as `param` is."""
    if is_dtensor(param) and is_dtensor(grad) and tuple(grad.placements) != tuple(param.placements):  # type: ignore[attr-defined]
        grad = grad.redistribute(param.device_mesh, param.placements)  # type: ignore[attr-defined]
    return local(grad)


def check_gradient(param: Tensor, grad: Tensor, name: str) -> None:
    """Refuse gradients whose step would be wrong.

    Raises
    ------
    InvalidInput
        For a `Partial` gradient (not summed yet), or a DTensor against a plain tensor.
    """
    if is_dtensor(param) != is_dtensor(grad):
        expected = "parameter and gradient both DTensor or both plain tensors"
        raise InvalidInput.argument(f"gradient of {name}", expected=expected, got=type(grad).__name__)
    if is_dtensor(grad) and any(placement.is_partial() for placement in grad.placements):  # type: ignore[attr-defined]
        expected = "a gradient that is summed over the mesh (redistribute it)"
        raise InvalidInput.argument(f"gradient of {name}", expected=expected, got=f"placements {grad.placements}")  # type: ignore[attr-defined]


def block_zeros(param: Tensor, layout: Layout) -> Tensor:
    """Zeros, float32, one a block."""
    return torch.zeros(layout.state_shape, dtype=torch.float32, device=param.device)
