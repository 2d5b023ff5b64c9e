"""Sharded parameters (DTensor: FSDP2, tensor parallelism): what is local, and what little must be summed.

Blocks that lie on one process need nothing. Where the sharding cuts blocks (a vector, a whole tensor, rows under
column-wise tensor parallelism), every process adds up its rows' parts, and the sums of all such tensors go in one flat
all-reduce. Blocks that are cut are seen here as several rows that have one owner among the state's entries.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from optim_bas.blocks import Block, Layout, read_layout
from optim_bas.fp8 import scale_of
from optim_bas.step import step_size
from optim_bas.tiles import Place, block_sums, finish_work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from optim_bas.step import Rule
    from optim_bas.tiles import Work


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


@dataclass(frozen=True, slots=True)
class Part:
    """What this process holds of a tensor's blocks.

    Attributes
    ----------
    layout : Layout
        Of the local tensor. Where blocks are cut its blocks are the local rows.
    place : Place
        Where it lies in the whole.
    owner : torch.Tensor or None
        For every local row the local state entry of its block; None: blocks are whole here.
    entries : torch.Tensor or None
        Entries of every local state entry's block, over all processes.
    groups : tuple of process groups
        To sum over, one after the other.
    """

    layout: Layout
    place: Place
    owner: Tensor | None = None
    entries: Tensor | None = None
    groups: tuple[Any, ...] = ()


def read_part(param: Tensor, block: Block, block_dim: int, name: str = "a parameter") -> Part:
    """What this process holds of a parameter's blocks.

    Parameters
    ----------
    param : torch.Tensor
        Plain or DTensor.
    block, block_dim
        As `optim_bas.blocks.read_layout` takes them.
    name : str

    Returns
    -------
    Part

    Raises
    ------
    InvalidInput
        For runs of entries (`block` an int) that the sharding would cut, naming the nearest length that it does not.
    """
    whole = read_layout(param.shape, block, block_dim, name)
    if not is_dtensor(param):
        return Part(whole, Place(0, whole.cols, whole.size))
    cuts = _cuts(param, whole)
    shape, offset = _local_box(param)
    rows_dim = whole.block_dim
    matrix = len(param.shape) >= 2
    first_row = offset[rows_dim] if matrix else 0
    cols = math.prod(param.shape) // max(1, param.shape[rows_dim]) if matrix else math.prod(param.shape)
    first_col = _first_column(param.shape, offset, rows_dim)
    if isinstance(block, int):
        here = read_layout(shape, block, block_dim, name)
        _check_runs(param, here, cuts, block, name)
        return Part(here, Place(first_row * cols + first_col, cols, here.size))
    here = read_layout(shape, "row", block_dim, name)
    place = Place(first_row * cols + first_col, cols, here.size)
    if block == "row" and matrix and not cuts.columns:
        return Part(here, place)
    if not cuts.rows and not cuts.columns:
        return Part(whole, Place(0, whole.cols, whole.size))
    rows = torch.arange(here.rows, device=local(param).device)
    if block == "row" and matrix:
        owner, entries, groups = rows, torch.full_like(rows, cols), cuts.columns
    elif isinstance(block, tuple):
        owner = (rows + first_row) // block[1]
        size = block[1] * cols
        entries = torch.full((whole.count,), size, device=rows.device)
        entries[-1:] -= whole.count * size - math.prod(param.shape)
        groups = cuts.rows + cuts.columns
    else:
        owner, entries = torch.zeros_like(rows), torch.full((1,), math.prod(param.shape), device=rows.device)
        groups = cuts.rows + cuts.columns
    return Part(here, place, owner, entries, groups)


@dataclass(frozen=True, slots=True)
class _Cuts:
    """The process groups over which a matrix's rows are dealt out, and those over which its columns are."""

    rows: tuple[Any, ...]
    columns: tuple[Any, ...]


def _cuts(param: Tensor, whole: Layout) -> _Cuts:
    mesh = param.device_mesh  # type: ignore[attr-defined]
    dims = [getattr(placement, "dim", None) for placement in param.placements]  # type: ignore[attr-defined]
    groups = {i: mesh.get_group(i) for i, dim in enumerate(dims) if dim is not None and mesh.size(i) > 1}
    rows_dim = whole.block_dim if len(param.shape) >= 2 else -1
    return _Cuts(
        tuple(group for i, group in groups.items() if dims[i] == rows_dim),
        tuple(group for i, group in groups.items() if dims[i] != rows_dim),
    )


def _local_box(param: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(
        param.shape,
        param.device_mesh,  # type: ignore[attr-defined]
        param.placements,  # type: ignore[attr-defined]
    )
    return tuple(local(param).shape), tuple(offset)


def _first_column(shape: Sequence[int], offset: Sequence[int], rows_dim: int) -> int:
    """The first local entry's place in the flattened row, right where one dimension of it is cut."""
    index = 0
    for d, n in enumerate(shape):
        if d != rows_dim or len(shape) < 2:
            index = index * n + offset[d]
    return index


def _check_runs(param: Tensor, here: Layout, cuts: _Cuts, block: int, name: str) -> None:
    if not cuts.columns:
        return
    dims = [d for d in range(len(param.shape)) if d != here.block_dim or len(param.shape) < 2]
    cut = {d for d in dims if _ways(param, d) > 1}
    even = all(param.shape[d] % _ways(param, d) == 0 for d in cut)
    if cut == {dims[0]} and even and here.cols % block == 0:
        return
    nearest = max((k for k in range(1, here.cols + 1) if here.cols % k == 0 and k <= block), default=1)
    expected = f"runs that divide the {here.cols} local entries a row of {name} (nearest: {nearest}), cut along one"
    raise InvalidInput.argument("block", expected=expected + " leading dimension into equal parts", got=block)


def _ways(param: Tensor, dim: int) -> int:
    mesh = param.device_mesh  # type: ignore[attr-defined]
    return math.prod(mesh.size(i) for i, p in enumerate(param.placements) if getattr(p, "dim", None) == dim)  # type: ignore[attr-defined]


def block_zeros(param: Tensor, group: Mapping[str, Any]) -> Tensor:
    """Zeros, float32, one a block: sharded with the rows where the blocks are, else on every process."""
    block = group["block"]
    layout = read_layout(param.shape, block, group["block_dim"])
    if not is_dtensor(param):
        return torch.zeros(layout.state_shape, dtype=torch.float32, device=param.device)
    from torch.distributed.tensor import Replicate, Shard, zeros

    by_rows = block == "row" or isinstance(block, int)
    placements: list[Any] = []
    for placement in param.placements:  # type: ignore[attr-defined]
        dim = getattr(placement, "dim", None)
        if dim is None or not by_rows:
            placements.append(Replicate())
        elif dim == layout.block_dim and len(param.shape) >= 2:
            placements.append(placement if dim == 0 else Shard(0))
        else:
            placements.append(Shard(1) if isinstance(block, int) else Replicate())
    return zeros(
        layout.state_shape,
        dtype=torch.float32,
        device_mesh=param.device_mesh,  # type: ignore[attr-defined]
        placements=placements,
    )


@dataclass(frozen=True, slots=True)
class CutTensor:
    """A tensor whose blocks are cut, to be stepped.

    Attributes
    ----------
    works : list of Work
        Its runs of local rows, none if there are none; each with its rows' scales and no use of its `v`.
    scale, v : torch.Tensor
        The local state, to be overwritten; `scale` is None for a momentum in a plain float.
    part : Part
    rule : Rule
    dtype : torch.dtype
        Of the momentum.
    """

    works: list[Work]
    scale: Tensor | None
    v: Tensor
    part: Part
    rule: Rule
    dtype: torch.dtype


def step_cut_tensors(tensors: Sequence[CutTensor]) -> None:
    """One step on tensors whose blocks are cut, in place: two all-reduces, 12 bytes a block, for all of them.

    Parameters
    ----------
    tensors : sequence of CutTensor
        In the same order on every process.
    """
    buckets: dict[tuple[Any, ...], list[CutTensor]] = {}
    for tensor in tensors:
        buckets.setdefault((tensor.part.groups, tensor.v.device), []).append(tensor)
    for (groups, _), bucket in buckets.items():
        sums = [_partial(tensor) for tensor in bucket]
        added, largest = torch.cat([s[:2].flatten() for s in sums]), torch.cat([s[2] for s in sums])
        # A maximum of floats may drop a NaN on its way; as bits of non-negative numbers it is the largest.
        bits = largest.view(torch.int32)
        for group in groups:
            torch.distributed.all_reduce(added, group=group)
            torch.distributed.all_reduce(bits, op=torch.distributed.ReduceOp.MAX, group=group)
        counts = [tensor.v.numel() for tensor in bucket]
        for tensor, total, amax in zip(bucket, added.split([2 * n for n in counts]), largest.split(counts)):
            _finish(tensor, total[: len(amax)], total[len(amax) :], amax)


def _partial(tensor: CutTensor) -> Tensor:
    """The part of every block's sums that is found here, shape (3, blocks)."""
    found = torch.zeros(3, tensor.v.numel(), device=tensor.v.device)
    for work in tensor.works:
        sums = block_sums(work)
        owner = tensor.part.owner
        assert owner is not None  # noqa: S101 - blocks that are cut have owners
        found[0].index_add_(0, owner, sums.squares.flatten())
        found[1].index_add_(0, owner, sums.sizes.flatten())
        found[2].view(torch.int32).scatter_reduce_(0, owner, sums.amax.flatten().view(torch.int32), "amax")
    return found


def _finish(tensor: CutTensor, squares: Tensor, sizes: Tensor, amax: Tensor) -> None:
    rule, entries, owner = tensor.rule, tensor.part.entries, tensor.part.owner
    assert entries is not None  # noqa: S101 - as above
    assert owner is not None  # noqa: S101
    v = tensor.v.view(-1)
    v.copy_(rule.beta2 * v + (1 - rule.beta2) * (squares / entries))
    a = step_size(sizes / entries, v, rule)
    new_scale = None if tensor.scale is None else scale_of(amax, tensor.dtype)
    for work in tensor.works:
        finish_work(work, a[owner].view(-1, 1, 1), None if new_scale is None else new_scale[owner].view(-1, 1, 1))
    if tensor.scale is not None and new_scale is not None:
        tensor.scale.view(-1).copy_(new_scale)
