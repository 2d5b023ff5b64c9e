"""What a weighted product needs for one dtype and device, and how its instructions are grouped."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct import ops, weighted
from cg_tensorproduct.costs import Costs
from cg_tensorproduct.instructions import Instruction
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.paths import Pair, Problem
from cg_tensorproduct.plans import HAS_NUMBA, build_plan
from cg_tensorproduct.store import Store
from cg_tensorproduct.tuning import COMPILED_BATCH, pick, tuning_state
from cg_tensorproduct.wigner import wigner_3j

Tensor = torch.Tensor
Subject = tuple[tuple[Irreps, Irreps, Irreps], tuple[Instruction, ...], str]


class Tables:
    """Couplings of every instruction, with uuu instructions of one multiplicity run together as a full product of
    channels.
    """

    def __init__(self, name: str, subject: Subject, dtype: torch.dtype, device: torch.device) -> None:
        native = name == "kernel"
        if native and (not HAS_NUMBA or device.type != "cpu"):
            expected = "'torch', or numba (pip install 'cg-tensorproduct[cpu]') and the CPU"
            raise InvalidInput.argument("algorithm", expected=expected, got=f"'kernel' on {device}")
        self._terms, instructions, self._layout = subject
        self._out = [None] * len(self._terms[2])
        self._sizes = [ins.numel for ins in instructions if ins.has_weight]
        self._couplings: list[tuple[int, Instruction, Tensor]] = []
        uuu: dict[int, list[tuple[int, Instruction]]] = {}
        uvu: list[tuple[int, int, Instruction]] = []
        starts = np.cumsum([0, *self._sizes])
        position = 0
        for ins in instructions:
            where = position if ins.has_weight else -1
            position += ins.has_weight
            if 0 in ins.path_shape or ins.path_weight == 0 or self._terms[2][ins.i_out].dim == 0:
                continue
            if ins.connection_mode == "uuu":
                uuu.setdefault(ins.path_shape[0], []).append((where, ins))
                continue
            if ins.connection_mode == "uvu" and native:
                uvu.append((where, int(starts[where]) if where >= 0 else -1, ins))
                continue
            self._couplings.append((where, ins, self._coupling(ins).to(dtype=dtype, device=device)))
        self._uvu_instructions = [
            (where, ins, self._coupling(ins).to(dtype=dtype, device=device)) for where, _, ins in uvu
        ]
        self._uvu = None
        if uvu:
            from cg_tensorproduct.plan_uvu import UvuPlan

            flat = [(start, ins) for _, start, ins in uvu]
            self._uvu = UvuPlan(self._terms, self._layout, flat, int(starts[-1]), dtype)
        self._channelwise = [
            _Channelwise(self._terms, mul, found, dtype, device, native=native) for mul, found in uuu.items()
        ]

    def _coupling(self, ins: Instruction) -> Tensor:
        l1, l2, l3 = (terms[i].ir.l for terms, i in zip(self._terms, ins.terms))
        return wigner_3j(l1, l2, l3) * ins.path_weight

    def product(self, x: Tensor, y: Tensor, w: Tensor, *, inference: bool) -> Tensor:
        """Rows [B, dim1], [B, dim2] and weights [weight_numel] or [B, weight_numel] -> [B, dim_out]."""
        couplings, total = self._couplings, None
        if self._uvu is not None:
            if torch.compiler.is_compiling():
                couplings = [*couplings, *self._uvu_instructions]
            else:
                total = ops.weighted_product(self._uvu, x, y, w if w.dim() == 2 else w.unsqueeze(0))
                if not couplings and not self._channelwise:
                    return total
        first, second = self._split(0, x), self._split(1, y)
        weights = (
            torch.split(w, self._sizes, -1) if self._sizes else ()
        )  # one split: slices would each make a full gradient
        out: dict[int, list[Tensor]] = {}
        for where, ins, c in couplings:
            weight = None if where < 0 else weights[where].view(*w.shape[:-1], *ins.path_shape)
            z = weighted.one(ins.connection_mode, first[ins.i_in1], second[ins.i_in2], c, weight)
            out.setdefault(ins.i_out, []).append(z)
        for group in self._channelwise:
            group.add(out, first, second, weights, inference=inference)
        joined = self._joined(out, x)
        return joined if total is None else joined + total

    def _split(self, side: int, x: Tensor) -> list[Tensor]:
        """Each term as [B, mul, 2 l + 1]."""
        terms = self._terms[side]
        parts = torch.split(x, [term.dim for term in terms], -1)
        if self._layout == "mul_ir":
            return [part.view(x.shape[0], mul, ir.dim) for part, (mul, ir) in zip(parts, terms)]
        return [part.view(x.shape[0], ir.dim, mul).transpose(1, 2) for part, (mul, ir) in zip(parts, terms)]

    def _joined(self, out: dict[int, list[Tensor]], x: Tensor) -> Tensor:
        columns = []
        for k, (mul, ir) in enumerate(self._terms[2]):
            if k not in out:
                columns.append(x.new_zeros(x.shape[0], mul * ir.dim))
                continue
            total = out[k][0]
            for z in out[k][1:]:
                total = total + z
            columns.append((total.transpose(1, 2) if self._layout == "mul_ir" else total).flatten(1))
        return torch.cat(columns, 1)


@dataclass(frozen=True)
class _Slot:
    """A distinct output term of a channel-wise group and its width."""

    i_out: int
    width: int


class _Channelwise:
    """Instructions uuu of one multiplicity: channels join the batch, paths come from one full product, and weights
    follow.
    """

    def __init__(
        self,
        terms: tuple[Irreps, Irreps, Irreps],
        mul: int,
        found: list[tuple[int, Instruction]],
        dtype: torch.dtype,
        device: torch.device,
        *,
        native: bool,
    ) -> None:
        self._mul, self._native = mul, native
        self._chosen: dict[tuple[int, bool, bool], tuple[str, int]] = {}
        self._in = [sorted({ins.terms[side] for _, ins in found}) for side in (0, 1)]
        rows = [_columns([terms[side][i].ir.dim for i in self._in[side]]) for side in (0, 1)]
        widths = [terms[2][ins.i_out].ir.dim for _, ins in found]
        columns = _columns(widths)
        grouped: dict[tuple[int, int], list[int]] = {}
        for k, (_, ins) in enumerate(found):
            grouped.setdefault((ins.i_in1, ins.i_in2), []).append(k)
        pairs = []
        for (i1, i2), members in grouped.items():
            # a pair lists each l3 once and ascending; a second instruction of the same path goes into a pair of its own
            for chosen in _distinct(members, [terms[2][found[k][1].i_out].ir.l for k in members]):
                pairs.append(
                    Pair(
                        terms[0][i1].ir.l,
                        terms[1][i2].ir.l,
                        rows[0][self._in[0].index(i1)][None],
                        rows[1][self._in[1].index(i2)][None],
                        tuple(terms[2][found[k][1].i_out].ir.l for k in chosen),
                        tuple(found[k][1].path_weight for k in chosen),
                        tuple(columns[k][None] for k in chosen),
                    )
                )
        dims = [sum(len(r) for r in side) for side in rows]
        self._problem = Problem(dims[0], dims[1], sum(widths), tuple(pairs))
        self._costs = Costs.of(self._problem)
        self._plans = Store(build_plan, self._problem)
        self._where = [where for where, _ in found]
        self._spread = torch.as_tensor(np.repeat(np.arange(len(found)), widths), device=device)
        outputs = sorted({ins.i_out for _, ins in found})
        starts = np.cumsum([0, *(terms[2][i].ir.dim for i in outputs)])
        self._slots = [_Slot(i, terms[2][i].ir.dim) for i in outputs]
        target = np.concatenate([starts[outputs.index(ins.i_out)] + np.arange(w) for (_, ins), w in zip(found, widths)])
        self._sum = torch.zeros(sum(widths), int(starts[-1]), dtype=dtype, device=device)
        self._sum[torch.arange(sum(widths)), torch.as_tensor(target)] = 1

    def _choice(self, x: Tensor, y: Tensor, *, inference: bool) -> str:
        native = self._native and ops.native_allowed(x, y, inference=inference)
        if torch.compiler.is_compiling():
            return pick(self._costs, COMPILED_BATCH * self._mul, x.dtype, x.device, native=native, measured=False)
        gradients = torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
        key = x.shape[0], native, gradients
        chosen = self._chosen.get(key)
        if chosen is None or chosen[1] != tuning_state():
            where = x.shape[0], x.dtype, x.device
            name = pick(self._costs, *where, native=native, measured=True, backward=gradients)
            chosen = self._chosen[key] = name, tuning_state()
        return chosen[0]

    def add(
        self,
        out: dict[int, list[Tensor]],
        first: list[Tensor],
        second: list[Tensor],
        weights: Any,
        *,
        inference: bool,
    ) -> None:
        """Append [B, 2 l3 + 1, mul] for each output term to `out`."""
        x = torch.cat([first[i] for i in self._in[0]], 2)
        y = torch.cat([second[i] for i in self._in[1]], 2)
        batch, mul, _ = x.shape
        x, y = x.reshape(batch * mul, x.shape[2]), y.reshape(batch * mul, y.shape[2])
        plan = self._plans.get(self._choice(x, y, inference=inference), x.dtype, x.device)
        t = ops.product(plan, x, y).view(batch, mul, self._problem.dim_out)
        if any(where >= 0 for where in self._where):
            shape = next(weights[where] for where in self._where if where >= 0).shape
            ones = x.new_ones(shape)
            w = torch.stack([weights[where] if where >= 0 else ones for where in self._where], -1)  # [(B,) mul, paths]
            t = t * w.index_select(-1, self._spread)
        z = t @ self._sum
        for slot, part in zip(self._slots, torch.split(z, [slot.width for slot in self._slots], -1)):
            out.setdefault(slot.i_out, []).append(part.transpose(1, 2))


def _columns(widths: list[int]) -> list[np.ndarray]:
    ends = np.cumsum([0, *widths])
    return [np.arange(a, b) for a, b in itertools.pairwise(ends)]


def _distinct(members: list[int], degrees: list[int]) -> list[list[int]]:
    rounds: list[dict[int, int]] = []
    for member, degree in zip(members, degrees):
        for chosen in rounds:
            if degree not in chosen:
                chosen[degree] = member
                break
        else:
            rounds.append({degree: member})
    return [[chosen[degree] for degree in sorted(chosen)] for chosen in rounds]
