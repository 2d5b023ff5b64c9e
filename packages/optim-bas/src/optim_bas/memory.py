"""What an optimizer's state costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.groups import parameter_name
from optim_bas.sharding import local

if TYPE_CHECKING:
    from collections.abc import Mapping

ADAMW_BYTES = 8  # a parameter: two float32


@dataclass(frozen=True)
class StateBytes:
    """The bytes of an optimizer's state; the step counters, four bytes a tensor, are left out.

    Attributes
    ----------
    bytes : int
        In this process.
    per_parameter : float
    of_adamw : float
        Ratio to AdamW's 8 bytes a parameter.
    by_tensor : mapping of str to int
    """

    bytes: int
    per_parameter: float
    of_adamw: float
    by_tensor: Mapping[str, int]


def state_bytes(optimizer: torch.optim.Optimizer) -> StateBytes:
    """Count the bytes of the state that an optimizer holds now.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Any; a parameter that has not been stepped yet has no state and is not counted. Of sharded tensors the local
        part counts.

    Returns
    -------
    StateBytes

    Raises
    ------
    InvalidInput
        If it is no optimizer.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInput.argument("optimizer", expected="a torch.optim.Optimizer", got=type(optimizer).__name__)
    by_tensor: dict[str, int] = {}
    entries = 0
    for number, group in enumerate(optimizer.param_groups):
        for offset, param in enumerate(group["params"]):
            state = optimizer.state.get(param)
            if not state:
                continue
            name = parameter_name(group, offset) if group.get("param_names") else f"group {number}, tensor {offset}"
            parts = [local(value) for key, value in state.items() if isinstance(value, Tensor) and key != "step"]
            by_tensor[name] = sum(part.numel() * part.element_size() for part in parts)
            entries += local(param).numel()
    total = sum(by_tensor.values())
    per_parameter = total / entries if entries else 0.0
    return StateBytes(total, per_parameter, per_parameter / ADAMW_BYTES, by_tensor)


def planned_bytes(parameters: float, row: int) -> dict[str, float]:
    """Bytes of optimizer state for a model of so many parameters whose rows have so many entries.

    Parameters
    ----------
    parameters : float
    row : int

    Returns
    -------
    dict of str to float
        AdamW in float32; in eight bits with two codes a parameter and one float32 scale a code and 256 entries
        (what torchao and bitsandbytes keep); BAS.
    """
    return {
        "AdamW": ADAMW_BYTES * parameters,
        "8-bit AdamW": (2 + 2 * 4 / 256) * parameters,
        "BAS": (1 + 8 / row) * parameters,
    }
