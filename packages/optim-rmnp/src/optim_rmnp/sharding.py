"""Sharded parameters (DTensor: FSDP2, tensor parallelism): what is local, and what little must be summed.

A row is all that the preconditioner needs. Where rows are whole (`Shard(0)`), nothing is sent; where they are cut,
one number a row is: the partial sums of squares of all matrices of a group go in one flat all-reduce.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from optim_rmnp.row_norm import compute_dtype
from optim_rmnp.step import BLOCK_ENTRIES, Rule, apply, average, look_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor


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


def gradient_fault(param: Tensor, grad: Tensor) -> tuple[str, str] | None:
    """What is expected and what came instead, for gradients whose step would be wrong; None where all is well.

    At fault are a `Partial` gradient (not summed yet), a DTensor against a plain tensor, and another shape.
    """
    sharded = is_dtensor(param)
    if sharded != is_dtensor(grad):
        return "parameter and gradient both DTensor or both plain tensors", type(grad).__name__
    if sharded and any(placement.is_partial() for placement in grad.placements):  # type: ignore[attr-defined]
        return "a gradient that is summed over the mesh (redistribute it)", f"placements {grad.placements}"  # type: ignore[attr-defined]
    if grad.shape != param.shape:  # a parameter whose data were replaced; the kernel trusts the shapes
        return f"shape {tuple(param.shape)}", f"shape {tuple(grad.shape)}"
    return None


def reduction_groups(param: Tensor, input_dims: Sequence[int]) -> tuple[Any, ...]:
    """The process groups over which rows are cut: one for every mesh dimension that shards an input dimension."""
    if not is_dtensor(param):
        return ()
    mesh, placements = param.device_mesh, param.placements  # type: ignore[attr-defined]
    # _StridedShard (FSDP2 on top of tensor parallelism) has a `dim` but is not always a Shard.
    cut = [i for i, placement in enumerate(placements) if getattr(placement, "dim", None) in input_dims]
    return tuple(mesh.get_group(i) for i in cut if mesh.size(i) > 1)


@dataclass(frozen=True, slots=True)
class CutMatrix:
    """A matrix of which this process holds some columns of every row.

    Attributes
    ----------
    param, grad, momentum_buffer : torch.Tensor
        Local, shape (m, local n); n may be 0.
    rule : Rule
    groups : tuple of process groups
        To sum over, one after the other.
    rounding : torch.Generator or None
    """

    param: Tensor
    grad: Tensor
    momentum_buffer: Tensor
    rule: Rule
    groups: tuple[Any, ...]
    rounding: torch.Generator | None = None


def step_cut_matrices(matrices: Sequence[CutMatrix]) -> None:
    """One step on matrices whose rows are cut, in place: one all-reduce of 4 bytes a row for all of them.

    Parameters
    ----------
    matrices : sequence of CutMatrix
        In the same order on every process. With `Rule.hold` 8 bytes a row are sent: whether a row has a gradient
        anywhere must be known too.
    """
    buckets: dict[tuple[Any, ...], list[CutMatrix]] = {}
    for matrix in matrices:
        buckets.setdefault((matrix.groups, compute_dtype(matrix.param.dtype), matrix.param.device), []).append(matrix)
    for (groups, _, _), bucket in buckets.items():
        partial = [part for matrix in bucket for part in _partial_sums(matrix)]
        flat = torch.cat(partial)
        for group in groups:
            torch.distributed.all_reduce(flat, group=group)
        sums = iter(flat.split([len(part) for part in partial]))
        for matrix in bucket:
            _finish(matrix, next(sums), next(sums) > 0 if matrix.rule.hold else None)


def _partial_sums(matrix: CutMatrix) -> list[Tensor]:
    """Sums of squares of the rows to be normalised, and with `hold` the number of their non-zero gradients."""
    wide, rule = compute_dtype(matrix.param.dtype), matrix.rule
    rows = matrix.param.shape[0]
    squares = torch.zeros(rows, dtype=wide, device=matrix.param.device)
    present = torch.zeros_like(squares)
    for block in _blocks(matrix):
        g = _signed(matrix.grad[block].to(wide), rule)
        # The average is taken again in `_finish`: with `hold` it is not known here which rows take it.
        m = torch.lerp(matrix.momentum_buffer[block].to(wide), g, 1 - rule.momentum)
        squares[block] = torch.linalg.vector_norm(look_ahead(m, g, rule), dim=1).square()
        if rule.hold:
            present[block] = (g != 0).sum(dim=1).to(wide)
    return [squares, present] if rule.hold else [squares]


def _finish(matrix: CutMatrix, squares: Tensor, present: Tensor | None) -> None:
    wide, rule = compute_dtype(matrix.param.dtype), matrix.rule
    norms = squares.sqrt()
    norms = (norms + (norms - norms)).clamp_min(rule.eps).unsqueeze(1)
    for block in _blocks(matrix):
        g = _signed(matrix.grad[block].to(wide), rule)
        stored = matrix.momentum_buffer[block]
        m = stored.to(wide)
        moving = None if present is None else present[block].unsqueeze(1)
        average(m, g, rule, moving)
        apply(matrix.param[block], look_ahead(m, g, rule), norms[block], rule, moving, matrix.rounding)
        if m is not stored:
            stored.copy_(m)


def _blocks(matrix: CutMatrix) -> Iterator[slice]:
    rows, columns = matrix.param.shape
    if columns == 0:
        return
    height = max(1, BLOCK_ENTRIES // columns) if matrix.param.device.type == "cpu" else max(1, rows)
    for start in range(0, rows, height):
        yield slice(start, start + height)


def _signed(g: Tensor, rule: Rule) -> Tensor:
    return -g if rule.maximize else g
