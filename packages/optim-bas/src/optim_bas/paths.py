"""One tensor's step on the fastest path that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from optim_bas.blocks import as_matrix, block_runs, runs, write_back
from optim_bas.fp8 import is_stochastic
from optim_bas.groups import native_available
from optim_bas.sharding import CutTensor, Part, local, local_gradient, read_part, step_cut_tensors
from optim_bas.step import Rule
from optim_bas.tiles import Place, Work, keys, step_work

_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor to be stepped.

    Attributes
    ----------
    param, grad : torch.Tensor
    state : dict
        Of `optim_bas.state.new_state`.
    group : dict
    index : int
        Among all tensors of the optimizer, for the random streams.
    """

    param: Tensor
    grad: Tensor
    state: dict[str, Any]
    group: dict[str, Any]
    index: int

    @property
    def part(self) -> Part:
        """What of its blocks is here."""
        return read_part(self.param, self.group["block"], self.group["block_dim"])

    @property
    def rule(self) -> Rule:
        """The numbers of its next step."""
        return rule_of(self.group, int(self.state["step"]) + 1)


def step_items(items: list[Item]) -> None:
    """One step on every tensor, in place.

    Parameters
    ----------
    items : list of Item
        In the same order on every process that shares one of them.
    """
    cut = []
    written_back = []
    for item in items:
        part = item.part
        if part.owner is not None:
            # A process without entries takes part in the sums all the same.
            works, copies = works_of(item, part) if local(item.param).numel() else ([], [])
            cut.append((item, part, works))
            written_back.append((part, copies))
            continue
        if local(item.param).numel():
            step_whole(item, part)
        item.state["step"] += 1
    if cut:
        step_cut_tensors([_cut_tensor(*c) for c in cut])
        for part, copies in written_back:
            for target, matrix in copies:
                write_back(target, matrix, part.layout)
        for item, _, _ in cut:
            item.state["step"] += 1


def step_whole(item: Item, part: Part) -> None:
    """One step of a tensor whose blocks are all here."""
    if _is_native(item, part):
        _step_native(item, part)
        return
    works, copies = works_of(item, part)
    if _is_compiled(item):
        from optim_bas import compiled

        compiled.step_compiled(works)
    else:
        for work in works:
            step_work(work)
    for target, matrix in copies:
        write_back(target, matrix, part.layout)


def works_of(item: Item, part: Part) -> tuple[list[Work], list[tuple[Tensor, Tensor]]]:
    """A tensor as runs of blocks to be stepped, and what has to be written back where its strides allow no view."""
    group, layout, rule = item.group, part.layout, item.rule
    key, weight_key = keys(group["seed"], rule.step, item.index)
    random = is_stochastic(group["rounding"], group["momentum_dtype"], rule.beta1)
    rounds_weights = group["stochastic_rounding"] and item.param.dtype in _HALF
    tensors = (local(item.param), local_gradient(item.param, item.grad), local(item.state["exp_avg"]))
    matrices = [as_matrix(tensor, layout) for tensor in tensors]
    copies = [(tensors[i], matrices[i][0]) for i in (0, 2) if matrices[i][1]]
    views = [runs(matrix, layout) for matrix, _ in matrices]
    scale, v = _block_state(item)
    if part.owner is not None:  # the rows' scales, and a `v` that nobody reads
        scale = None if scale is None else scale.view(-1)[part.owner]
        v = v.new_zeros(layout.rows)
    scales = [None] * len(views[0]) if scale is None else block_runs(scale, layout)
    works = []
    start = part.place.start
    for w, g, code, s, second in zip(*views, scales, block_runs(v, layout)):
        works.append(
            Work(
                param=w,
                grad=g,
                code=code,
                scale=s,
                v=second,
                dtype=group["momentum_dtype"],
                rule=rule,
                place=Place(start, part.place.row_stride, part.place.block_stride),
                key=key if random else None,
                weight_key=weight_key if rounds_weights else None,
            )
        )
        start += w.shape[1] * layout.size
    return works, copies


def rule_of(group: dict[str, Any], step: int) -> Rule:
    """The numbers of a group's step number `step`."""
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = lr.reshape(()) if lr.device.type != "cpu" else float(lr)
    beta1, beta2 = group["betas"]
    return Rule(
        step=step,
        lr=lr,
        beta1=float(beta1),
        beta2=float(beta2),
        eps=group["eps"],
        weight_decay=group["weight_decay"],
        scale=group["scale"],
        nesterov=group["nesterov"],
        maximize=group["maximize"],
    )


def _block_state(item: Item) -> tuple[Tensor | None, Tensor]:
    scale = item.state.get("exp_avg_scale")
    return (None if scale is None else local(scale)), local(item.state["exp_avg_sq"])


def _cut_tensor(item: Item, part: Part, works: list[Work]) -> CutTensor:
    scale, v = _block_state(item)
    return CutTensor(works, scale, v, part, item.rule, item.group["momentum_dtype"])


def _is_native(item: Item, part: Part) -> bool:
    weight, group = local(item.param), item.group
    if group["fused"] is False or weight.device.type != "cpu" or part.layout.block_dim != 0:
        return False
    fits = weight.dtype == torch.float32 and group["momentum_dtype"] == torch.float8_e4m3fn
    return fits and weight.is_contiguous() and local(item.state["exp_avg"]).is_contiguous() and native_available()


def _is_compiled(item: Item) -> bool:
    rounds_weights = item.group["stochastic_rounding"] and item.param.dtype in _HALF
    return item.group["fused"] is not False and local(item.param).device.type == "cuda" and not rounds_weights


def _step_native(item: Item, part: Part) -> None:
    from optim_bas import native  # numba is heavy: only now

    group, layout, rule = item.group, part.layout, item.rule
    random = is_stochastic(group["rounding"], group["momentum_dtype"], rule.beta1)
    scale, v = _block_state(item)
    assert scale is not None  # noqa: S101 - eight-bit momenta have one
    job = native.Job(
        param=local(item.param),
        grad=local_gradient(item.param, item.grad).to(torch.float32).contiguous(),
        code=local(item.state["exp_avg"]),
        scale=scale,
        v=v,
        cols=layout.cols,
        size=layout.size,
        per_row=layout.per_row,
        rule=rule,
        place=part.place,
        key=keys(group["seed"], rule.step, item.index)[0] if random else None,
    )
    native.step_jobs([job])
