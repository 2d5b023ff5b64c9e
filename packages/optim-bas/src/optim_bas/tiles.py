"""One step on a stored momentum, tile by tile: the mathematics of `step.py` in bounded memory.

A tile is a view (rows, blocks, entries) of a tensor, so that every sum over a block is a sum over its last dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optim_bas.fp8 import FORMATS, decode_with, encode_with, noise_bits, round_at_random, scale_of, stream_key
from optim_bas.step import Rule, average, direction, move, size_of, step_size

if TYPE_CHECKING:
    from collections.abc import Iterator

# Entries worked on at once: what is decoded of a momentum at any time.
TILE_ENTRIES = 262_144
# Keeps the streams that round weights apart from those that round momenta.
_WEIGHT_STREAM = 0x57454947


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run of a tensor lies in the whole (global) matrix, for the random streams.

    Attributes
    ----------
    start : int
        Index of its first entry.
    row_stride, block_stride : int
        Entries from one row, one block, to the next.
    """

    start: int
    row_stride: int
    block_stride: int

    def index(self, at: tuple[slice, slice, slice], device: torch.device) -> Tensor:
        """Indices of the entries of a tile."""
        r, q, s = (torch.arange(part.start, part.stop, device=device) for part in at)
        return self.start + r.view(-1, 1, 1) * self.row_stride + q.view(1, -1, 1) * self.block_stride + s.view(1, 1, -1)


@dataclass(frozen=True, slots=True)
class Work:
    """One run of one tensor, to be stepped.

    Attributes
    ----------
    param, grad, code : torch.Tensor
        Views (rows, blocks, entries); `code` is the stored momentum.
    scale : torch.Tensor or None
        Of the stored momentum, (rows, blocks, 1); None where it is a plain float.
    v : torch.Tensor
        float32, (rows, blocks, 1).
    dtype : torch.dtype
        Of the momentum.
    rule : Rule
    place : Place
    key, weight_key : int or None
        Of the random streams that round the momentum and the weight; None: to nearest.
    """

    param: Tensor
    grad: Tensor
    code: Tensor
    scale: Tensor | None
    v: Tensor
    dtype: torch.dtype
    rule: Rule
    place: Place
    key: int | None = None
    weight_key: int | None = None


def keys(seed: int, step: int, tensor: int) -> tuple[int, int]:
    """The keys of one tensor's two random streams in one step: of its momentum, of its weight."""
    return stream_key(seed, step, tensor), stream_key(seed ^ _WEIGHT_STREAM, step, tensor)


@dataclass(slots=True)
class Sums:
    """What a block's step needs to know of all its entries; each shape (rows, blocks, 1)."""

    squares: Tensor
    sizes: Tensor
    amax: Tensor

    def add(self, other: Sums) -> None:
        """Take in the sums of another piece of the same blocks."""
        self.squares += other.squares
        self.sizes += other.sizes
        torch.maximum(self.amax, other.amax, out=self.amax)


_At = tuple[slice, slice, slice]


def step_work(work: Work, signs: Tensor | None = None) -> Tensor | None:
    """One step, in place; no more than `TILE_ENTRIES` of the momentum exist as float32 at a time.

    Parameters
    ----------
    work : Work
    signs : torch.Tensor, optional
        int8, shape of the parameter's view. Where given, the weights stay and the signs of the direction are put here.

    Returns
    -------
    torch.Tensor or None
        With `signs` the step sizes, (rows, blocks, 1).
    """
    sizes = None if signs is None else torch.zeros_like(work.v)
    for rows, blocks, pieces in tiles(work.param, _tile_entries(work)):
        at = (rows, blocks)
        kept = new_momentum(work, (*at, pieces[0]))
        sums = sums_of(kept, work.rule)
        for piece in pieces[1:]:
            sums.add(sums_of(new_momentum(work, (*at, piece)), work.rule))
        a = finish_sums(work, at, sums, work.param.shape[-1])
        new_scale = scale_of(sums.amax, work.dtype) if work.scale is not None else None
        for piece in pieces:
            g, m = kept if len(pieces) == 1 else new_momentum(work, (*at, piece))
            x = direction(m, g, work.rule)
            if signs is None:
                move_tile(work, (*at, piece), x, a)
            else:
                signs[(*at, piece)].copy_(x.sign())
            save_momentum(work, (*at, piece), m, new_scale)
        if work.scale is not None and new_scale is not None:
            work.scale[at].copy_(new_scale)
        if sizes is not None:
            sizes[at].copy_(a)
    return sizes


def block_sums(work: Work) -> Sums:
    """The sums of all blocks, each (rows, blocks, 1), changing nothing: what is added up over processes."""
    found = Sums(*(torch.zeros(*work.param.shape[:2], 1, device=work.param.device) for _ in range(3)))
    for rows, blocks, pieces in tiles(work.param, _tile_entries(work)):
        sums = sums_of(new_momentum(work, (rows, blocks, pieces[0])), work.rule)
        for piece in pieces[1:]:
            sums.add(sums_of(new_momentum(work, (rows, blocks, piece)), work.rule))
        for name in ("squares", "sizes", "amax"):
            getattr(found, name)[rows, blocks] = getattr(sums, name)
    return found


def finish_work(work: Work, a: Tensor, new_scale: Tensor | None) -> None:
    """Move weights and store momenta where the blocks' step sizes and scales are known: each (rows, blocks, 1)."""
    for rows, blocks, pieces in tiles(work.param, _tile_entries(work)):
        for piece in pieces:
            at = (rows, blocks, piece)
            g, m = new_momentum(work, at)
            move_tile(work, at, direction(m, g, work.rule), a[rows, blocks])
            save_momentum(work, at, m, None if new_scale is None else new_scale[rows, blocks])


def _tile_entries(work: Work) -> int:
    """Fewer where an entry needs more scratch, for its random bits or for the numbers of a block of few."""
    random = work.key is not None or work.weight_key is not None
    return TILE_ENTRIES // (2 if random else 1) // (2 if work.param.shape[-1] < 8 else 1)


def tiles(shape_of: Tensor, tile_entries: int) -> Iterator[tuple[slice, slice, list[slice]]]:
    """Slices of rows and blocks, and the pieces into which their blocks are cut where one alone is too long."""
    rows, blocks, size = shape_of.shape
    if rows * blocks * size == 0:
        return
    if shape_of.device.type != "cpu":
        # An accelerator wants few large kernels; the momentum of 16 million entries is 64 MB.
        tile_entries = max(tile_entries, 1 << 24)
    height = max(1, tile_entries // (blocks * size))
    width = blocks if height > 1 or blocks * size <= tile_entries else max(1, tile_entries // size)
    length = min(size, tile_entries)
    pieces = [slice(s, min(s + length, size)) for s in range(0, size, length)]
    for r in range(0, rows, height):
        for q in range(0, blocks, width):
            yield slice(r, min(r + height, rows)), slice(q, min(q + width, blocks)), pieces


def new_momentum(work: Work, at: _At) -> tuple[Tensor, Tensor]:
    """A tile's gradient (signed, float32 or float64) and momentum after it."""
    wide = torch.float64 if work.param.dtype == torch.float64 else torch.float32
    g = work.grad[at].to(wide)
    if work.rule.maximize:
        g = -g
    stored = work.code[at]
    m = stored if work.scale is None else decode_with(stored, work.scale[at[:2]], work.dtype)
    return g, average(m.to(wide), g, work.rule)


def sums_of(tile: tuple[Tensor, Tensor], rule: Rule) -> Sums:
    """The sums over the blocks of a tile, or over these pieces of them."""
    g, m = tile
    return Sums(
        (g * g).sum(dim=-1, keepdim=True),
        size_of(direction(m, g, rule), rule),
        m.abs().amax(dim=-1, keepdim=True).float(),
    )


def finish_sums(work: Work, at: tuple[slice, slice], sums: Sums, entries: int | Tensor) -> Tensor:
    """Update the blocks' second moments, and return their step sizes."""
    v, rule = work.v[at], work.rule
    new = rule.beta2 * v + (1 - rule.beta2) * (sums.squares / entries)
    v.copy_(new)
    return step_size(sums.sizes / entries, new, rule)


def move_tile(work: Work, at: _At, x: Tensor, a: Tensor) -> None:
    """Move a tile's weights, rounded once to their dtype."""
    target = work.param[at]
    write_weights(work, at, move(target.to(x.dtype), x, a, work.rule))


def write_weights(work: Work, at: _At, moved: Tensor) -> None:
    """Store moved weights, at random between their neighbours where a stream says so."""
    target = work.param[at]
    if work.weight_key is not None and target.dtype in (torch.bfloat16, torch.float16):
        noise = noise_bits(work.place.index(at, target.device), work.weight_key)
        moved = round_at_random(moved, target.dtype, noise)
    target.copy_(moved)


def save_momentum(work: Work, at: _At, m: Tensor, scale: Tensor | None) -> None:
    """Store a tile's momentum in its dtype."""
    target = work.code[at]
    noise = None if work.key is None else noise_bits(work.place.index(at, target.device), work.key)
    if scale is not None and work.dtype in FORMATS:
        target.copy_(encode_with(m.float(), scale, work.dtype, noise))
    elif noise is not None and target.dtype == torch.bfloat16:
        target.copy_(round_at_random(m.float(), target.dtype, noise))
    else:
        target.copy_(m)
