"""One BAS step in plain torch: the readable reference, and the same mathematics tile by tile on a stored momentum.

A tile is a view (rows, blocks, entries) of a tensor, so that every sum over a block is a sum over its last dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.blocks import Block, as_matrix, block_runs, read_layout, runs, write_back
from optim_bas.fp8 import FORMATS, decode_with, encode_with, noise_bits, round_at_random, scale_of, stream_key

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALES = ("rms", "mean")
# Entries worked on at once: what is decoded of a momentum at any time.
TILE_ENTRIES = 262_144
# Keeps the streams that round weights apart from those that round momenta.
_WEIGHT_STREAM = 0x57454947


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of one step of one tensor.

    Attributes
    ----------
    step : int
        t, from 1.
    lr, beta1, beta2, eps, weight_decay : float
    scale : {"rms", "mean"}
    nesterov, maximize : bool
    """

    step: int
    lr: float | Tensor
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    scale: str = "rms"
    nesterov: bool = False
    maximize: bool = False

    @property
    def correction1(self) -> float:
        """The sum of the weights that the direction gives to the gradients so far."""
        return 1 - self.beta1 ** (self.step + self.nesterov)

    @property
    def correction2(self) -> float:
        """The same for the second moment."""
        return 1 - self.beta2**self.step


def bas_step(
    param: Tensor,
    grad: Tensor,
    momentum: Tensor,
    v: Tensor,
    step: int,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    block: Block = "row",
    scale: str = "rms",
    nesterov: bool = False,
) -> Tensor:
    """Apply one BAS update to one tensor, in place: the readable reference of the package, nothing in eight bits.

    Parameters
    ----------
    param, grad, momentum : torch.Tensor
        Of one shape. `param` and `momentum` are overwritten, `grad` is not. Arithmetic is float32 (float64 if `param`
        is).
    v : torch.Tensor
        Second moments, one a block, any shape with that many entries; overwritten.
    step : int
        t, the number of this step: 1 for the first.
    lr, eps, weight_decay : float
        As in `torch.optim.AdamW`.
    betas : tuple of float
        Both in [0, 1).
    block : {"row", "tensor"}, int, or ("rows", int)
        See `optim_bas.blocks.read_layout`.
    scale : {"rms", "mean"}
        What stands for the size of a block's direction.
    nesterov : bool
        Take sign and size of ``beta1 m + (1 - beta1) g`` instead of m.

    Returns
    -------
    torch.Tensor
        The step sizes a_b in units of `lr`, shape of `v`.

    Raises
    ------
    InvalidInput
        If shapes do not agree, or `block`, `scale` or `step` are none.

    Notes
    -----
    Our reconstruction of Block Adaptive Signum from its abstract::

        m <- beta1 m + (1 - beta1) g
        v_b <- beta2 v_b + (1 - beta2) mean_b(g^2)
        a_b = (rms_b(m) / (1 - beta1^t)) / (sqrt(v_b / (1 - beta2^t)) + eps)
        theta <- theta (1 - lr weight_decay) - lr a_b sign(m)
    """
    layout = read_layout(param.shape, block)
    if grad.shape != param.shape or momentum.shape != param.shape:
        got = f"{tuple(param.shape)}, {tuple(grad.shape)} and {tuple(momentum.shape)}"
        raise InvalidInput.argument("param, grad, momentum", expected="three tensors of one shape", got=got)
    if v.numel() != layout.count:
        raise InvalidInput.argument("v", expected=f"{layout.count} entries, one a block", got=f"shape {tuple(v.shape)}")
    check_scale(scale)
    number: object = step
    if not isinstance(number, int) or number < 1:
        raise InvalidInput.argument("step", expected="an int >= 1", got=step)
    rule = Rule(step, lr, *betas, eps, weight_decay, scale, nesterov)
    with torch.no_grad():
        if param.numel() == 0:
            return torch.zeros_like(v)
        (w, copied), (g, _), (m, m_copied) = (as_matrix(t, layout) for t in (param, grad, momentum))
        table = v.reshape(layout.rows, layout.per_row)
        sizes = []
        for w3, g3, m3, v3 in zip(runs(w, layout), runs(g, layout), runs(m, layout), block_runs(table, layout)):
            wide = w3.dtype if w3.dtype == torch.float64 else torch.float32
            signed = g3.to(wide)
            new = average(m3.to(wide), signed, rule)
            x = direction(new, signed, rule)
            v3.copy_(rule.beta2 * v3 + (1 - rule.beta2) * signed.square().mean(-1, keepdim=True))
            a = step_size(size_of(x, rule) / x.shape[-1], v3, rule)
            w3.copy_(move(w3.to(wide), x, a, rule))
            m3.copy_(new)
            sizes.append(a)
        if v.data_ptr() != table.data_ptr():
            v.copy_(table.view(v.shape))
        for tensor, matrix, was_copied in ((param, w, copied), (momentum, m, m_copied)):
            if was_copied:
                write_back(tensor, matrix, layout)
        return torch.cat(sizes, dim=1).reshape(v.shape)


def block_scale(
    direction: Tensor,
    v: Tensor,
    step: int,
    *,
    betas: tuple[float, float],
    eps: float,
    scale: str = "rms",
    nesterov: bool = False,
) -> Tensor:
    """The step sizes a_b in units of the learning rate.

    Parameters
    ----------
    direction : torch.Tensor
        The momentum m after this step's gradient, or with `nesterov` the look-ahead.
    v : torch.Tensor
        Second moments after this step's gradient: shape ``direction.shape[:k]`` for some k, blocks being the
        remaining dimensions, or the same with dimensions of length 1 in their place.
    step : int
        t, from 1.
    betas : tuple of float
    eps : float
    scale : {"rms", "mean"}
    nesterov : bool

    Returns
    -------
    torch.Tensor
        Shape of `v`. 0 where the direction is 0.

    Raises
    ------
    InvalidInput

    Notes
    -----
    By the Cauchy-Schwarz inequality a_b is at most sqrt(sum_k w1_k^2 / w2_k), where w1 and w2 are the weights that
    direction and second moment give to the gradient of step k: 1.165 in the long run for betas (0.9, 0.95).
    """
    check_scale(scale)
    lead = len(v.shape)
    while lead and v.shape[lead - 1] == 1 and not (lead <= direction.ndim and tuple(v.shape) == direction.shape[:lead]):
        lead -= 1
    if direction.shape[:lead] != v.shape[:lead] or any(n != 1 for n in v.shape[lead:]):
        expected = f"the shape {tuple(direction.shape)} of the direction without the dimensions of a block"
        raise InvalidInput.argument("v", expected=expected, got=f"shape {tuple(v.shape)}")
    rule = Rule(step, 1.0, *betas, eps, 0.0, scale, nesterov)
    x = direction.reshape(*direction.shape[:lead], -1)
    size = size_of(x, rule).squeeze(-1) / x.shape[-1]
    return step_size(size, v.reshape(size.shape), rule).reshape(v.shape)


def check_scale(scale: object) -> None:
    """Refuse what is not a scale.

    Raises
    ------
    InvalidInput
    """
    if scale not in SCALES:
        raise InvalidInput.argument("scale", expected='"rms" or "mean"', got=scale)


def average(m: Tensor, g: Tensor, rule: Rule) -> Tensor:
    """``beta1 m + (1 - beta1) g``: two products and a sum, each rounded, so that every path gives the same bits."""
    return m * rule.beta1 + g * (1 - rule.beta1)


def direction(m: Tensor, g: Tensor, rule: Rule) -> Tensor:
    """What sign and size are taken of: the momentum, or the look-ahead."""
    return average(m, g, rule) if rule.nesterov else m


def size_of(x: Tensor, rule: Rule) -> Tensor:
    """A block's sum of squares, or of magnitudes; `step_size` takes it divided by the block's entries."""
    # x * x, since square() is pow() to torch, ten times slower on a CPU.
    return (x * x if rule.scale == "rms" else x.abs()).sum(dim=-1, keepdim=True)


def step_size(
    mean: Tensor,
    v: Tensor,
    rule: Rule,
    correction1: float | Tensor | None = None,
    correction2: float | Tensor | None = None,
) -> Tensor:
    """a_b from a block's mean square (or mean magnitude) and second moment; the rule's own corrections unless given."""
    size = mean.sqrt() if rule.scale == "rms" else mean
    c1 = rule.correction1 if correction1 is None else correction1
    c2 = rule.correction2 if correction2 is None else correction2
    a = (size / c1) / ((v / c2).sqrt() + rule.eps)
    # 0/0 with eps = 0 is a block without history.
    return torch.where(size == 0, 0.0, a)


def move(w: Tensor, x: Tensor, a: Tensor, rule: Rule, lr: float | Tensor | None = None) -> Tensor:
    """``w (1 - lr weight_decay) - lr a sign(x)``; the rule's own `lr` unless given."""
    rate = rule.lr if lr is None else lr
    return w * (1 - rate * rule.weight_decay) - x.sign() * (a * rate)


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


def step_work(work: Work, tile_entries: int = TILE_ENTRIES, signs: Tensor | None = None) -> Tensor | None:
    """One step, in place; no more than `tile_entries` of the momentum exist as float32 at a time.

    Parameters
    ----------
    work : Work
    tile_entries : int
    signs : torch.Tensor, optional
        int8, shape of the parameter's view. Where given, the weights stay and the signs of the direction are put here.

    Returns
    -------
    torch.Tensor or None
        With `signs` the step sizes, (rows, blocks, 1).
    """
    sizes = None if signs is None else torch.zeros_like(work.v)
    for rows, blocks, pieces in tiles(work.param, tile_entries):
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


def block_sums(work: Work, tile_entries: int = TILE_ENTRIES) -> Sums:
    """The sums of all blocks, each (rows, blocks, 1), changing nothing: what is added up over processes."""
    found = Sums(*(torch.zeros(*work.param.shape[:2], 1, device=work.param.device) for _ in range(3)))
    for rows, blocks, pieces in tiles(work.param, tile_entries):
        sums = sums_of(new_momentum(work, (rows, blocks, pieces[0])), work.rule)
        for piece in pieces[1:]:
            sums.add(sums_of(new_momentum(work, (rows, blocks, piece)), work.rule))
        for name in ("squares", "sizes", "amax"):
            getattr(found, name)[rows, blocks] = getattr(sums, name)
    return found


def finish_work(work: Work, a: Tensor, new_scale: Tensor | None, tile_entries: int = TILE_ENTRIES) -> None:
    """Move weights and store momenta where the blocks' step sizes and scales are known: each (rows, blocks, 1)."""
    for rows, blocks, pieces in tiles(work.param, tile_entries):
        for piece in pieces:
            at = (rows, blocks, piece)
            g, m = new_momentum(work, at)
            move_tile(work, at, direction(m, g, work.rule), a[rows, blocks])
            save_momentum(work, at, m, None if new_scale is None else new_scale[rows, blocks])


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
