"""What a block is: the runs of a tensor's entries that share one second moment, and views of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

Block = str | int | tuple[str, int]
ACCEPTED = '"row", "tensor", an int >= 1, or ("rows", int >= 1)'


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor read as a matrix whose rows are cut into blocks.

    Attributes
    ----------
    rows, cols : int
        Of the matrix. ``rows * cols`` is the number of the tensor's entries.
    size : int
        Entries a block; the last block of a row may be shorter. No block crosses rows.
    block_dim : int
        The tensor's dimension that is moved to the front before it is read as a matrix.
    state_shape : tuple of int
        Of what is kept once a block.
    """

    rows: int
    cols: int
    size: int
    block_dim: int
    state_shape: tuple[int, ...]

    @property
    def per_row(self) -> int:
        """Blocks a row."""
        return -(-self.cols // self.size)

    @property
    def count(self) -> int:
        """Blocks of the tensor."""
        return self.rows * self.per_row


def check_block(block: object) -> None:
    """Refuse what is not a description of blocks.

    Raises
    ------
    InvalidInput
    """
    if isinstance(block, str):
        good = block in ("row", "tensor")
    elif isinstance(block, (tuple, list)):
        good = len(block) == 2 and block[0] == "rows" and _is_count(block[1])
    else:
        good = _is_count(block)
    if not good:
        raise InvalidInput.argument("block", expected=ACCEPTED, got=block)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def read_layout(shape: Sequence[int], block: Block, block_dim: int = 0, name: str = "the tensor") -> Layout:
    """The blocks of a tensor of this shape.

    Parameters
    ----------
    shape : sequence of int
    block : {"row", "tensor"}, int, or ("rows", int)
        "row": every index of `block_dim`, or the whole of a tensor of fewer than two dimensions. An int: runs of so
        many entries along the flattened row. ("rows", k): k rows that follow each other, a head of attention.
    block_dim : int
        The dimension of output neurons: 1 for weights stored (in, out).
    name : str
        For the error message.

    Returns
    -------
    Layout

    Raises
    ------
    InvalidInput
        For blocks that are none, and a `block_dim` that the tensor does not have.
    """
    check_block(block)
    good: object = block_dim
    if not isinstance(good, int) or (len(shape) >= 2 and not -len(shape) <= good < len(shape)):
        expected = f"an int from {-len(shape)} to {len(shape) - 1} for {name}"
        raise InvalidInput.argument("block_dim", expected=expected, got=block_dim)
    if len(shape) < 2:
        rows, cols, dim = 1, math.prod(shape), 0
    else:
        dim = block_dim % len(shape)
        rows = shape[dim]
        cols = math.prod(n for d, n in enumerate(shape) if d != dim)
    if isinstance(block, int):
        size = max(1, min(block, cols))
        return Layout(rows, cols, size, dim, (rows, -(-cols // size)))
    if block == "row":
        return Layout(rows, cols, max(1, cols), dim, (rows,))
    # Rows lie behind each other, so that blocks of several rows are runs of the flattened matrix.
    size = rows * cols if block == "tensor" else int(block[1]) * cols
    flat = Layout(1, rows * cols, max(1, min(size, rows * cols)), dim, ())
    return Layout(1, flat.cols, flat.size, dim, (max(1, flat.per_row) if block == "tensor" else flat.per_row,))


def as_matrix(tensor: Tensor, layout: Layout) -> tuple[Tensor, bool]:
    """The tensor as the layout's matrix, and whether that had to be a copy (no view of its strides exists)."""
    moved = tensor.movedim(layout.block_dim, 0) if layout.block_dim else tensor
    try:
        return moved.view(layout.rows, layout.cols), False
    except RuntimeError:
        return moved.reshape(layout.rows, layout.cols), True


def write_back(tensor: Tensor, matrix: Tensor, layout: Layout) -> None:
    """Copy a matrix that `as_matrix` had to copy into its tensor."""
    moved = tensor.movedim(layout.block_dim, 0) if layout.block_dim else tensor
    moved.copy_(matrix.view(moved.shape))


def runs(matrix: Tensor, layout: Layout) -> list[Tensor]:
    """Views (rows, blocks a row, entries a block) that cover the matrix: full blocks, then the shorter last ones."""
    whole = layout.cols // layout.size
    cut = whole * layout.size
    views = [matrix[:, :cut].unflatten(1, (whole, layout.size))] if whole else []
    if cut < layout.cols:
        views.append(matrix[:, cut:].unsqueeze(1))
    return views


def block_runs(per_block: Tensor, layout: Layout) -> list[Tensor]:
    """The views (rows, blocks a row, 1) of something kept once a block, in the order of `runs`."""
    table = per_block.view(layout.rows, layout.per_row, 1)
    whole = layout.cols // layout.size
    return [part for part in (table[:, :whole], table[:, whole:]) if part.shape[1]]


def block_mean(tensor: Tensor, layout: Layout) -> Tensor:
    """The mean of every block, shape ``layout.state_shape``."""
    return _reduce(tensor, layout, lambda run: run.mean(dim=-1))


def block_amax(tensor: Tensor, layout: Layout) -> Tensor:
    """The largest magnitude of every block, shape ``layout.state_shape``."""
    return _reduce(tensor, layout, lambda run: run.abs().amax(dim=-1))


def _reduce(tensor: Tensor, layout: Layout, function: Callable[[Tensor], Tensor]) -> Tensor:
    matrix, _ = as_matrix(tensor, layout)
    if layout.rows * layout.cols == 0:
        return tensor.new_zeros(layout.state_shape)
    return torch.cat([function(run) for run in runs(matrix, layout)], dim=1).view(layout.state_shape)
