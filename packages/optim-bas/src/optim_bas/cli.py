"""The command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from lemmata_core.cli import JsonOption, app, emit

main = app("optim-bas", "BAS: AdamW's behaviour on one byte of optimizer state a parameter.")


@dataclass(frozen=True)
class Memory:
    """Bytes of optimizer state.

    Attributes
    ----------
    parameters : float
    adamw, adamw_8bit, bas : float
        Gigabytes (1e9 bytes).
    of_adamw : float
        BAS over AdamW.
    """

    parameters: float
    adamw: float
    adamw_8bit: float
    bas: float
    of_adamw: float


@main.command()
def memory(
    parameters: Annotated[float, typer.Option(help="Parameters of the model: 7e9.")],
    row: Annotated[int, typer.Option(help="Entries a row of its weights.")] = 4096,
    as_json: JsonOption = False,
) -> None:
    """Say what the state of AdamW, of an eight-bit AdamW and of BAS costs."""
    from optim_bas.memory import planned_bytes

    count = in_range(parameters, "parameters", 0, low_open=True)
    planned = planned_bytes(count, positive_int(row, "row"))
    adamw, eight, bas = (planned[name] / 1e9 for name in ("AdamW", "8-bit AdamW", "BAS"))
    emit(Memory(count, adamw, eight, bas, bas / adamw), as_json=as_json)


@main.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Checkpoint with AdamW's state_dict.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write the same with BAS's.")],
    nesterov: Annotated[bool, typer.Option(help="Set this option in the groups.")] = False,
) -> None:
    """Turn a checkpoint of AdamW into one of BAS."""
    import torch
    from lemmata_core.files import atomic_write

    from optim_bas.conversion import convert_checkpoint

    if not source.is_file():
        raise InvalidInput.argument("IN", expected="a file", got=str(source))
    try:
        loaded = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as err:
        raise InvalidInput.argument(
            "IN", expected="a checkpoint that torch.load reads with weights_only=True", got=f"{source}: {err}"
        ) from err
    if not isinstance(loaded, dict):
        raise InvalidInput.argument("IN", expected="a dict", got=type(loaded).__name__)
    converted = convert_checkpoint(loaded, nesterov=nesterov)
    with atomic_write(target, "wb") as file:
        torch.save(converted, file)
    print(f"{source.stat().st_size} bytes -> {target.stat().st_size} bytes")  # noqa: T201
