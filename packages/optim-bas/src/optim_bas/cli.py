"""The command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

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
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInput.argument("OUT", expected="a file's name in a folder that exists", got=str(target))
    try:
        loaded = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as err:
        raise InvalidInput.argument(
            "IN", expected="a checkpoint that torch.load reads with weights_only=True", got=f"{source}: {err}"
        ) from err
    converted = convert_checkpoint(loaded, nesterov=nesterov)
    before = source.stat().st_size  # OUT may be IN
    with atomic_write(target, "wb") as file:
        torch.save(converted, file)
    print(f"{before} bytes -> {target.stat().st_size} bytes")  # noqa: T201


@dataclass(frozen=True)
class Trained:
    """What a training run reached.

    Attributes
    ----------
    optimizer : str
    steps : int
    loss : float
        Held-out cross-entropy, nats a byte.
    wall_time : float
        Seconds.
    state_bytes_per_parameter : float
    """

    optimizer: str
    steps: int
    loss: float
    wall_time: float
    state_bytes_per_parameter: float


@main.command()
def train(
    optimizer: Annotated[str, typer.Option(help="bas, nesterov or adamw.")] = "bas",
    lr: Annotated[float, typer.Option(help="Learning rate: the same for all three.")] = 5e-3,
    steps: Annotated[int, typer.Option(help="Steps of 12 windows of 64 bytes.")] = 400,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    text: Annotated[str, typer.Option(help="kjv or pydoc.")] = "kjv",
    as_json: JsonOption = False,
) -> None:
    """Train a byte-level GPT of 100 000 parameters on real English."""
    import torch
    from lemmata_core import testbed_data, testbeds
    from lemmata_core.check import one_of
    from lemmata_core.progress import Progress

    from optim_bas.memory import state_bytes
    from optim_bas.optimizer import BAS

    one_of(optimizer, "optimizer", ("bas", "nesterov", "adamw"))
    problem = testbeds.problem(one_of(text, "text", testbed_data.CORPORA))
    shared: dict[str, Any] = {"lr": in_range(lr, "lr", 0), "betas": (0.9, 0.95), "weight_decay": 0.1}
    made: list[torch.optim.Optimizer] = []

    def factory(model: torch.nn.Module) -> torch.optim.Optimizer:
        if optimizer == "adamw":
            made.append(torch.optim.AdamW(model.parameters(), **shared))
        else:
            made.append(BAS(model.parameters(), **shared, nesterov=optimizer == "nesterov"))
        return made[0]

    with Progress().task(f"training with {optimizer}", total=steps) as task:
        history = testbeds.train(
            problem,
            factory,
            positive_int(steps, "steps"),
            positive_int(seed, "seed", minimum=0),
            after_step=lambda *_: task.advance(),
        )
    per_parameter = state_bytes(made[0]).per_parameter
    emit(Trained(optimizer, steps, history.loss, history.wall_time, per_parameter), as_json=as_json)


@dataclass(frozen=True)
class Wire:
    """Bytes that one worker sends in a step, read from its sockets.

    Attributes
    ----------
    parameters, workers : int
    all_reduce : int
        Averaging float32 gradients.
    mean, vote : int
        Exchanging signs.
    """

    parameters: int
    workers: int
    all_reduce: int
    mean: int
    vote: int


@main.command()
def wire(
    parameters: Annotated[int, typer.Option(help="Entries, in rows of 1000.")] = 1_000_000,
    workers: Annotated[int, typer.Option(help="Processes to start on this machine.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Measure the bytes of an exchange of signs between real processes (Linux)."""
    from optim_bas.wire import measure

    count = positive_int(parameters, "parameters", minimum=1000)
    ranks = positive_int(workers, "workers", minimum=2, maximum=64)
    emit(Wire(parameters, ranks, *measure(count, ranks)), as_json=as_json)
