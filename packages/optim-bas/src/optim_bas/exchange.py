"""Data parallelism on signs: what goes over the wire instead of gradients, and its layout.

Every worker keeps momenta and second moments of its own gradients, and sends the signs of its directions, eight a byte,
and its step sizes. All workers decode the same bytes in the same order, so that replicas stay identical bit by bit.
A sign bit has no place for 0: tensors in which a worker has zeros send a second plane of bits in that step, which says
where a direction is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.adamw import step_adamw_group
from optim_bas.blocks import Layout, block_runs, runs, write_back
from optim_bas.paths import Item, works_of
from optim_bas.signs import majority, pack_bits, unpack_bits
from optim_bas.state import decoded_momentum, encoded_state
from optim_bas.tiles import TILE_ENTRIES, step_work, tiles, write_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim_bas.optimizer import BAS

AGGREGATES = ("auto", "mean", "vote")
# Up to here all signs of all workers cost no more bytes than the two ways of a vote do, or little.
_MEAN_UP_TO = 8


@dataclass(frozen=True)
class SignExchange:
    """Send signs between data-parallel workers, whose gradients stay their own.

    Attributes
    ----------
    process_group : torch.distributed.ProcessGroup, optional
        The workers; the default group unless given.
    aggregate : {"auto", "mean", "vote"}
        "mean" moves weights by the average of the workers' updates; a worker sends (W - 1) N / 8 bytes. "vote" moves
        them by the majority of the signs times the mean step size; about 2 N / 8 bytes whatever W. "auto": "mean" for
        up to 8 workers.
    """

    process_group: Any = None
    aggregate: str = "auto"

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise InvalidInput.argument("aggregate", expected='"auto", "mean" or "vote"', got=self.aggregate)

    @property
    def workers(self) -> int:
        """How many there are.

        Raises
        ------
        InvalidInput
            If torch.distributed has not been initialised.
        """
        if not (dist.is_available() and dist.is_initialized()):
            expected = "an initialised process group (torch.distributed.init_process_group)"
            raise InvalidInput.argument("exchange", expected=expected, got="none")
        return dist.get_world_size(self.process_group)

    @property
    def votes(self) -> bool:
        """Whether the majority decides."""
        return self.aggregate == "vote" or (self.aggregate == "auto" and self.workers > _MEAN_UP_TO)


def local_gradients(ddp_model: Any) -> None:
    """Keep the gradients of a `DistributedDataParallel` model local, for an optimizer with a `SignExchange`.

    Parameters
    ----------
    ddp_model : torch.nn.parallel.DistributedDataParallel
        Gets a communication hook, which must be its only one. Clip the norm of the local gradient.

    Raises
    ------
    InvalidInput
    """
    from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

    if not isinstance(ddp_model, torch.nn.parallel.DistributedDataParallel):
        raise InvalidInput.argument(
            "ddp_model", expected="a DistributedDataParallel model", got=type(ddp_model).__name__
        )
    ddp_model.register_comm_hook(None, noop_hook)


@dataclass(slots=True)
class _Sent:
    """A tensor's part of the message: the signs of its own direction in matrix order, and its step sizes."""

    item: Item
    layout: Layout
    signs: Tensor
    sizes: Tensor
    zeros: bool = False


def check_exchange(exchange: object) -> None:
    """Refuse what is no `SignExchange`.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(exchange, SignExchange):
        raise InvalidInput.argument("exchange", expected="None or a SignExchange", got=exchange)


def step_exchanged(optimizer: BAS) -> None:
    """One step of all groups over all workers. Weights change after the last message only."""
    exchange: SignExchange = optimizer.exchange
    workers = exchange.workers
    group = exchange.process_group
    if not optimizer.replicas_checked:
        _check_replicas(optimizer, group)
        optimizer.replicas_checked = True
    if _skips(optimizer, group):
        return
    items = optimizer.all_items()
    given = [item.param.grad is not None for item in items]
    flags = torch.tensor([[has, _has_zero_code(item)] for has, item in zip(given, items)], dtype=torch.uint8)
    sent = [_own_step(item) if has else None for has, item in zip(given, items)]
    for row, own in zip(flags, sent):
        if own is not None:
            zeros = own.signs == 0
            # A mean weighs a sign with its own step size, so that zeros of blocks at rest do no harm; a vote does not.
            row[1] = bool((zeros if exchange.votes else zeros & _spread(own.sizes != 0, own.layout)).any())
    device = items[0].param.device if items else torch.device("cpu")
    flags = flags.to(device)
    if len(items):
        dist.all_reduce(flags, op=dist.ReduceOp.MAX, group=group)
    stepped = []
    for item, own, (present, zeros) in zip(items, sent, flags.tolist()):
        if present:
            own = _own_step(item) if own is None else own
            own.zeros = bool(zeros)
            stepped.append(own)
    updates = (_votes if exchange.votes else _means)(stepped, workers, group) if stepped else []
    dense = [param_group for param_group in optimizer.param_groups if param_group["algorithm"] == "adamw"]
    for param_group in dense:
        _average_gradients(param_group["params"], workers, group)
    # All messages have arrived: from here on nobody can be left behind.
    for own, update in zip(stepped, updates):
        _apply(own, update)
        own.item.state["step"] += 1
    for param_group in dense:
        step_adamw_group(param_group, optimizer.state)
    for param_group in optimizer.param_groups:
        param_group["workers"] = workers


def _skips(optimizer: BAS, group: Any) -> bool:
    """Whether a `GradScaler` found an infinity on any worker; if not, gradients are divided by its scale, as it would.

    The scaler hands both numbers over as attributes (see `BAS._step_supports_amp_scaling`); without one there is no
    message.
    """
    found = getattr(optimizer, "found_inf", None)
    if found is None:
        return False
    worst = (found.detach() > 0).to(torch.uint8)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX, group=group)
    if worst:
        return True
    scale = getattr(optimizer, "grad_scale", None)
    if scale is not None:
        for param_group in optimizer.param_groups:
            for param in param_group["params"]:
                if param.grad is not None:
                    param.grad.div_(scale.to(param.grad.device))
    return False


def _own_step(item: Item) -> _Sent:
    """Take the gradient into momentum and second moment; the weights stay."""
    part = item.part
    layout = part.layout
    signs = torch.zeros(layout.rows, layout.cols, dtype=torch.int8, device=item.param.device)
    sizes = torch.zeros(layout.state_shape, device=item.param.device)
    if item.param.numel():
        works, copies = works_of(item, part)
        for work, run, size in zip(works, runs(signs, layout), block_runs(sizes, layout)):
            found = step_work(work, signs=run)
            assert found is not None  # noqa: S101 - asked for by `signs`
            size.copy_(found)
        for target, matrix in copies:
            if target is not item.param:
                write_back(target, matrix, layout)
    return _Sent(item, layout, signs, sizes)


def _has_zero_code(item: Item) -> bool:
    """Whether the direction has zeros if the gradient is zero: whether the stored momentum has."""
    stored = item.state["exp_avg"]
    return bool(((stored & 0x7F) == 0).any() if stored.dtype == torch.uint8 else (stored == 0).any())


def _spread(per_block: Tensor, layout: Layout) -> Tensor:
    """What is known of blocks for each of their entries, in matrix order."""
    table = per_block.view(layout.rows, layout.per_row)
    return table.repeat_interleave(layout.size, dim=1)[:, : layout.cols]


def _means(stepped: Sequence[_Sent], workers: int, group: Any) -> list[Tensor]:
    """(1/W) sum_w a_w sign_w of every tensor, in matrix order: one all-gather for the whole model."""
    parts = []
    for own in stepped:
        parts.append(pack_bits(own.signs > 0))
        if own.zeros:
            parts.append(pack_bits(own.signs != 0))
        parts.append(own.sizes.flatten().view(torch.uint8))
    message = torch.cat(parts)
    received = [torch.empty_like(message) for _ in range(workers)]
    dist.all_gather(received, message, group=group)
    updates = []
    start = 0
    for own in stepped:
        lengths = [-(-own.signs.numel() // 8)] * (2 if own.zeros else 1) + [4 * own.sizes.numel()]
        total = torch.zeros(own.signs.shape, device=own.signs.device)
        for theirs in received:
            *planes, sizes = theirs[start : start + sum(lengths)].split(lengths)
            signs = _signs(planes, own.signs.numel()).view(own.signs.shape)
            a = sizes.clone().view(torch.float32).view(own.sizes.shape)
            for to, sign, size in zip(runs(total, own.layout), runs(signs, own.layout), block_runs(a, own.layout)):
                to.add_(sign * size)
        updates.append(total.div_(workers))
        start += sum(lengths)
    return updates


def _signs(planes: Sequence[Tensor], numel: int) -> Tensor:
    """int8 signs from a plane of "positive" and, where there are zeros, one of "not zero"."""
    signs = unpack_bits(planes[0], numel).mul_(2).sub_(1)
    return signs if len(planes) == 1 else signs.mul_(unpack_bits(planes[1], numel))


def _votes(stepped: Sequence[_Sent], workers: int, group: Any) -> list[Tensor]:
    """Mean step size times the majority of the signs of every tensor, in matrix order.

    Every worker counts the votes on its own chunk of the model and sends the outcome to all.
    """
    device = stepped[0].signs.device
    sizes = torch.cat([own.sizes.flatten() for own in stepped])
    dist.all_reduce(sizes, group=group)
    sizes /= workers
    outcome: dict[bool, Tensor] = {}
    for zeros in (False, True):
        chosen = [own.signs.flatten() for own in stepped if own.zeros == zeros]
        if chosen:
            outcome[zeros] = _majority_of(torch.cat(chosen), workers, group, zeros=zeros)
    updates, at, block = [], {False: 0, True: 0}, 0
    for own in stepped:
        n, blocks = own.signs.numel(), own.sizes.numel()
        signs = outcome[own.zeros][at[own.zeros] : at[own.zeros] + n].view(own.signs.shape)
        total = torch.zeros(own.signs.shape, device=device)
        a = sizes[block : block + blocks].view(own.sizes.shape)
        for to, sign, size in zip(runs(total, own.layout), runs(signs, own.layout), block_runs(a, own.layout)):
            to.copy_(sign * size)
        updates.append(total)
        at[own.zeros] += n
        block += blocks
    return updates


def _majority_of(signs: Tensor, workers: int, group: Any, *, zeros: bool) -> Tensor:
    """The majority of a flat vector of signs: its chunks to their counters, and the outcomes back."""
    chunk = 8 * -(-len(signs) // (8 * workers))
    padded = torch.nn.functional.pad(signs, (0, chunk * workers - len(signs))).view(workers, chunk)
    planes = [pack_bits(padded > 0).view(workers, -1)]
    if zeros:
        planes.append(pack_bits(padded != 0).view(workers, -1))
    outgoing = torch.cat(planes, dim=1).contiguous()
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, group=group)
    width = chunk // 8
    counted = majority(torch.stack([_signs(list(row.split(width)), chunk) for row in incoming]))
    # An even number of workers can tie; so can any number where some abstain.
    back = [pack_bits(counted > 0)]
    if zeros or workers % 2 == 0:
        back.append(pack_bits(counted != 0))
    answer = torch.cat(back)
    answers = [torch.empty_like(answer) for _ in range(workers)]
    dist.all_gather(answers, answer, group=group)
    return torch.cat([_signs(list(row.split(width)), chunk) for row in answers])[: len(signs)]


def _apply(own: _Sent, update: Tensor) -> None:
    """Move a tensor's weights by the workers' common update."""
    item = own.item
    if item.param.numel() == 0:
        return
    rule = item.rule
    works, copies = works_of(item, item.part)
    for work, run in zip(works, runs(update, own.layout)):
        for rows, blocks, pieces in tiles(work.param, TILE_ENTRIES):
            for piece in pieces:
                at = (rows, blocks, piece)
                w = work.param[at]
                wide = torch.float64 if w.dtype == torch.float64 else torch.float32
                write_weights(work, at, w.to(wide) * (1 - rule.lr * rule.weight_decay) - run[at] * rule.lr)
    for target, matrix in copies:
        if target is item.param:
            write_back(target, matrix, own.layout)


def _average_gradients(params: Sequence[Tensor], workers: int, group: Any) -> None:
    """The usual exchange, for tensors that AdamW steps: 32 bits an entry, gradients overwritten as DDP does."""
    if not params:
        return
    flags = torch.tensor([param.grad is not None for param in params], dtype=torch.uint8, device=params[0].device)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX, group=group)
    for param, present in zip(params, flags.tolist()):
        if present:
            if param.grad is None:
                param.grad = torch.zeros_like(param)
            dist.all_reduce(param.grad, group=group)
            param.grad /= workers


def average_momenta(optimizer: BAS) -> None:
    """The work of `BAS.average_momentum`."""
    exchange: SignExchange = optimizer.exchange
    workers = exchange.workers
    for param_group in optimizer.param_groups:
        for param in param_group["params"]:
            state = optimizer.state.get(param)
            if param_group["algorithm"] == "adamw" or not state:
                continue
            m = decoded_momentum(param, state, param_group)
            v = state["exp_avg_sq"]
            for tensor in (m, v):
                dist.all_reduce(tensor, group=exchange.process_group)
                tensor /= workers
            state.update(encoded_state(m, param_group))
        param_group["workers"] = 1


def _check_replicas(optimizer: BAS, group: Any) -> None:
    """Raise on every worker if the weights are not the same everywhere."""
    total = 0
    device = torch.device("cpu")
    for param_group in optimizer.param_groups:
        for param in param_group["params"]:
            device = param.device
            total = (total * 1_000_003 + _checksum(param)) % (1 << 61)
    both = torch.tensor([total, -total], dtype=torch.int64, device=device)
    dist.all_reduce(both, op=dist.ReduceOp.MAX, group=group)
    if int(both[0]) != -int(both[1]):
        expected = "the same weights on every worker (broadcast them, or let DistributedDataParallel do it)"
        raise InvalidInput.argument("params", expected=expected, got="weights that differ")


def _checksum(param: Tensor) -> int:
    flat = param.detach().contiguous().view(-1)
    bits = flat.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()])
    total = len(bits)
    for chunk in bits.split(1 << 20):
        weights = torch.arange(1, len(chunk) + 1, device=chunk.device) % 65_521
        total = (total * 31 + int((chunk.long() * weights).sum())) % (1 << 61)
    return total
