"""What a step will do to every tensor, before the first step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from optim_rmnp.groups import GROUP_KEYS, parameter_name
from optim_rmnp.layout import read_layout
from optim_rmnp.row_norm import update_scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class ParamRow:
    """One tensor of a `ParamTable`.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Global.
    rows, fan_in : int or None
        Of one matrix; None under AdamW.
    stacked : int
        Matrices on top of each other.
    algorithm : str
    scale : float or None
        The factor s.
    effective_lr : float
        lr * s; lr under AdamW.
    update_rms : float or None
        Root mean square of an entry of s D, which lr multiplies: s / sqrt(fan_in). AdamW's depends on the gradients.
    weight_decay : float
    """

    name: str
    shape: tuple[int, ...]
    rows: int | None
    fan_in: int | None
    stacked: int
    algorithm: str
    scale: float | None
    effective_lr: float
    update_rms: float | None
    weight_decay: float


@dataclass(frozen=True)
class ParamTable:
    """The rows of `describe`; a sequence of `ParamRow` that prints as a table."""

    rows: tuple[ParamRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ParamRow]:
        return iter(self.rows)

    def __getitem__(self, key: int | str) -> ParamRow:
        """By position or by name."""
        if isinstance(key, int):
            return self.rows[key]
        for row in self.rows:
            if row.name == key:
                return row
        raise KeyError(key)

    def __str__(self) -> str:
        head = ("name", "shape", "rows x fan-in", "algorithm", "s", "lr*s", "update RMS", "decay")
        return format_table(head, [_cells(row) for row in self.rows])


def describe(groups_or_optimizer: torch.optim.Optimizer | Iterable[Mapping[str, Any]]) -> ParamTable:
    """How every tensor will be stepped.

    Parameters
    ----------
    groups_or_optimizer : RMNP, or the list that `param_groups` returns
        Not changed. Keys that a group lacks count as RMNP's defaults.

    Returns
    -------
    ParamTable

    Raises
    ------
    InvalidInput
    """
    optimizer = isinstance(groups_or_optimizer, torch.optim.Optimizer)
    try:
        groups = groups_or_optimizer.param_groups if optimizer else list(groups_or_optimizer)  # type: ignore[union-attr,arg-type]
    except TypeError:
        groups = [groups_or_optimizer]
    if not all(isinstance(group, dict) and "params" in group for group in groups):
        raise InvalidInput.argument(
            "groups_or_optimizer", expected="an optimizer or a list of parameter groups", got=groups
        )
    return ParamTable(tuple(row for group in groups for row in _rows(_completed(group))))


def format_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Columns padded to their widest cell; the first flush left, the others flush right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _completed(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group with its defaults, its tensors and names as lists."""
    pairs = list(group["params"]) if not isinstance(group["params"], torch.Tensor) else [group["params"]]
    full = {**GROUP_KEYS, "lr": 4e-3, "weight_decay": 0.1, "adjust_lr_fn": None, **group, "params": pairs}
    if pairs and isinstance(pairs[0], tuple):
        full["param_names"] = [name for name, _ in pairs]
        full["params"] = [param for _, param in pairs]
    return full


def _rows(group: dict[str, Any]) -> Iterator[ParamRow]:
    lr, decay, algorithm = float(group["lr"]), float(group["weight_decay"]), group["algorithm"]
    for position, param in enumerate(group["params"]):
        name, shape = parameter_name(group, position), tuple(param.shape)
        if algorithm != "rmnp":
            yield ParamRow(name, shape, None, None, 1, algorithm, None, lr, None, decay)
            continue
        layout = read_layout(shape, group, name)
        s = update_scale(layout.rows, layout.fan_in, group["adjust_lr_fn"])
        rms = s / math.sqrt(layout.fan_in) if layout.fan_in else 0.0
        yield ParamRow(name, shape, layout.rows, layout.fan_in, group["stacked"], algorithm, s, lr * s, rms, decay)


def _cells(row: ParamRow) -> tuple[str, ...]:
    shape = " x ".join(map(str, row.shape)) or "scalar"
    matrix = "-"
    if row.rows is not None:
        matrix = f"{row.rows} x {row.fan_in}" if row.stacked == 1 else f"{row.stacked} of {row.rows} x {row.fan_in}"
    numbers = [f"{x:.4g}" if x is not None else "-" for x in (row.scale, row.effective_lr, row.update_rms)]
    return (row.name, shape, matrix, row.algorithm, *numbers, f"{row.weight_decay:g}")
