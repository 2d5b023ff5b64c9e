"""Metrics: means over a log interval, written to CSV and TensorBoard; a resumed run continues its files."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write

from rl_mfpo.callbacks import Callback

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sink(Protocol):
    """Where rows of metrics go."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Write one row; `step` is the number of transitions so far."""


class Logger:
    """Collects metrics between two rows. `agent.logger`.

    Attributes
    ----------
    sinks : list of Sink
        `CSVLogger` and `TensorBoardLogger` add themselves while training runs.
    latest : dict of str to float
        The last row.
    """

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self.latest: dict[str, float] = {}
        self._values: dict[str, float] = {}
        self._sums: dict[str, list[float]] = {}

    def record(self, key: str, value: float) -> None:
        """Put `value` into the next row."""
        self._values[key] = float(value)

    def record_mean(self, key: str, value: float) -> None:
        """Put the mean of all values given since the last row into the next one."""
        held = self._sums.get(key)
        if held is None:
            self._sums[key] = [float(value), 1]
        else:
            held[0] += value
            held[1] += 1

    def dump(self, step: int) -> dict[str, float]:
        """Write the row and begin the next one."""
        row = {**{key: total / n for key, (total, n) in self._sums.items()}, **self._values}
        self._values, self._sums = {}, {}
        self.write(step, row)
        return row

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Write a row of its own, at once."""
        self.latest = dict(row)
        for sink in self.sinks:
            sink.write(step, row)

    def state_dict(self) -> dict[str, Any]:
        """What was collected for the next row."""
        return {"values": dict(self._values), "sums": {key: list(held) for key, held in self._sums.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with `state_dict`."""
        self._values = dict(state["values"])
        self._sums = {key: list(held) for key, held in state["sums"].items()}


class CSVLogger(Callback):
    """Writes ``step`` and every metric as columns of a CSV file, floats with all their digits.

    A run that goes on keeps the rows up to its step and drops later ones (of a process that was killed after its last
    checkpoint); a new run begins a new file. Metrics that a row does not have are empty.

    Parameters
    ----------
    path : path-like
        Its folder is made if it is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._columns: list[str] = ["step"]

    def on_training_start(self) -> None:
        """Open the file and begin to receive rows."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, str]] = []
        if self.agent.num_timesteps and self.path.exists():
            rows = [row for row in read_csv(self.path) if int(row["step"]) <= self.agent.num_timesteps]
        self._columns = ["step"]
        for row in rows:
            self._columns += [key for key, value in row.items() if key not in self._columns and value != ""]
        self._rewrite(rows)
        self.agent.logger.sinks.append(self)

    def on_training_end(self) -> None:
        """Receive no more rows."""
        if self in self.agent.logger.sinks:
            self.agent.logger.sinks.remove(self)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Append a row; a metric that is new makes a new column."""
        new = [key for key in row if key not in self._columns]
        if new:
            rows = read_csv(self.path)
            self._columns += new
            self._rewrite(rows)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow({"step": step, **{k: repr(float(v)) for k, v in row.items()}})

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        with atomic_write(self.path) as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore", lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(rows)


def read_csv(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The rows of a `CSVLogger` file, as text; a last line cut off by a kill is left out."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        text = file.read()
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [{k: v or "" for k, v in row.items()} for row in csv.DictReader(lines) if None not in row]


class TensorBoardLogger(Callback):
    """Writes every metric as a TensorBoard scalar (extra ``tensorboard``).

    Parameters
    ----------
    path : path-like
        The run's folder. A run that goes on hides what was written beyond its step.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._writer: Any = None

    def on_training_start(self) -> None:
        """Open the event file and begin to receive rows."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as err:
            raise InvalidInput("TensorBoardLogger needs tensorboard: pip install 'rl-mfpo[tensorboard]'") from err
        step = self.agent.num_timesteps
        self._writer = SummaryWriter(str(self.path), purge_step=step + 1 if step else None)
        self.agent.logger.sinks.append(self)

    def on_training_end(self) -> None:
        """Close the event file."""
        if self in self.agent.logger.sinks:
            self.agent.logger.sinks.remove(self)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Write a scalar a metric."""
        for key, value in row.items():
            self._writer.add_scalar(key, value, step)
