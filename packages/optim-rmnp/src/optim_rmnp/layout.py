"""Which way round a tensor is a matrix: its rows (output neurons), their fan-in, and 2-D views of its storage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

KINDS = ("conv", "stack")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor of two or more dimensions is read as matrices.

    Attributes
    ----------
    rows : int
        Output neurons of ONE matrix: a k-fold stacked weight has k matrices, an expert stack one an expert.
    fan_in : int
        Entries a row.
    input_dims : tuple of int
        The dimensions that a row's norm runs over.
    transposed : bool
        Stored with the input dimension before the output dimension.
    """

    rows: int
    fan_in: int
    input_dims: tuple[int, ...]
    transposed: bool


def read_layout(shape: Sequence[int], group: Mapping[str, Any], name: str) -> Layout:
    """The layout of a tensor of this (global) shape under the group's keys `input_dim`, `stacked` and `kind`.

    Parameters
    ----------
    shape : sequence of int
        Two or more dimensions.
    group : mapping
        A parameter group.
    name : str
        For the error message.

    Returns
    -------
    Layout

    Raises
    ------
    InvalidInput
        If the keys do not fit the shape.
    """
    keys = group.get("input_dim", -1), group.get("stacked", 1), group.get("kind")
    try:
        return _read(tuple(shape), *keys, name)
    except TypeError:  # a key that cannot be hashed, and so is none of ours
        return _read.__wrapped__(tuple(shape), *keys, name)


@lru_cache(maxsize=4096, typed=True)  # else True and 1.0 would be found as the 1 that was there before
def _read(shape: tuple[int, ...], input_dim: Any, stacked: Any, kind: Any, name: str) -> Layout:
    # Kept, since a step asks again for every tensor.
    ndim = len(shape)
    if ndim < 2:
        raise InvalidInput.argument(
            "params", expected="two or more dimensions under 'rmnp'", got=f"{name} of shape {shape}"
        )
    if not isinstance(input_dim, int) or not -ndim <= input_dim < ndim:
        raise InvalidInput.argument(
            "input_dim", expected=f"an int from {-ndim} to {ndim - 1} for {name}", got=input_dim
        )
    if kind not in (None, *KINDS):
        raise InvalidInput.argument("kind", expected='None, "conv" or "stack"', got=kind)
    axis = input_dim % ndim
    conv = ndim > 2 and (kind == "conv" or (kind is None and ndim > 3))
    if axis == ndim - 1:
        input_dims = tuple(range(1, ndim)) if conv else (axis,)
        outputs = shape[0] if conv else shape[-2]
    elif axis == 0:
        input_dims, outputs = (0,), math.prod(shape[1:])
    elif axis == ndim - 2 and not conv:
        input_dims, outputs = (axis,), shape[-1]
    else:
        accepted = "-1 or 0" if conv else "-1, -2 or 0"
        raise InvalidInput.argument(
            "input_dim", expected=f"{accepted} for {name} of shape {tuple(shape)}", got=input_dim
        )
    if not isinstance(stacked, int) or isinstance(stacked, bool) or stacked < 1 or outputs % stacked:
        expected = f"a positive int that divides the {outputs} rows of {name}"
        raise InvalidInput.argument("stacked", expected=expected, got=stacked)
    return Layout(outputs // stacked, math.prod(shape[d] for d in input_dims), input_dims, axis != ndim - 1)


def matrix_views(tensor: Tensor, layout: Layout) -> list[Tensor]:
    """2-D views (rows, fan-in) that cover a contiguous tensor, or a 2-D one of any strides.

    Parameters
    ----------
    tensor : torch.Tensor
        The whole parameter or the local shard of it.
    layout : Layout

    Returns
    -------
    list of torch.Tensor
        One matrix, except for expert stacks stored transposed, which give one an expert.
    """
    if tensor.ndim == 2:
        return [tensor.t() if layout.transposed else tensor]
    first = layout.input_dims[0]
    if not layout.transposed:
        return [tensor.reshape(math.prod(tensor.shape[:first]), math.prod(tensor.shape[first:]))]
    if first == 0:
        return [tensor.reshape(tensor.shape[0], math.prod(tensor.shape[1:])).t()]
    stack = tensor.reshape(math.prod(tensor.shape[:first]), *tensor.shape[first:])
    return [matrix.t() for matrix in stack.unbind(0)]
