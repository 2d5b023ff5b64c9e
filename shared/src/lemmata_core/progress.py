"""Progress of long work: bars on a terminal, a line every 30 seconds in a log, silence on request."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sized
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from rich.console import Console
    from rich.progress import Progress as RichProgress

T = TypeVar("T")

LOG_SECONDS = 30.0


class Progress:
    """Shows tasks as they advance.

    On a terminal (and with rich installed) each task is a bar; elsewhere a task that lasts prints a line every 30
    seconds; with the environment variable ``LEMMATA_PROGRESS=0`` nothing is shown. Tasks may be advanced from
    several threads.

    Parameters
    ----------
    file : text stream, optional
        Where to write; stderr unless told otherwise.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = sys.stderr if file is None else file
        self._lock = threading.RLock()
        self._open = 0
        self._bars: RichProgress | None = None
        silent = os.environ.get("LEMMATA_PROGRESS", "").strip().lower() in {"0", "off", "false", "no"}
        self._mode = "silent" if silent else ("bars" if _is_terminal(self._file) and _has_rich() else "log")

    def task(self, description: str, total: float | None = None) -> Task:
        """Begin a task.

        Parameters
        ----------
        description : str
            What is done, in a few words.
        total : float, optional
            Number of steps; None where it is not known.

        Returns
        -------
        Task
            To be advanced; a context manager that ends it.
        """
        return Task(self, description, total)

    def track(self, iterable: Iterable[T], description: str, total: float | None = None) -> Iterator[T]:
        """Yield the items of `iterable`, one step each. See the function of the same name."""
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        with self.task(description, total) as task:
            for item in iterable:
                yield item
                task.advance()

    def _begin(self, task: Task) -> Any:
        if self._mode != "bars":
            return None
        with self._lock:
            if self._bars is None:
                self._bars = _make_bars(self._file)
                self._bars.start()
            self._open += 1
            return self._bars.add_task(task.description, total=task.total, text="")

    def _end(self, bar: Any) -> None:
        with self._lock:
            if self._bars is None:
                return
            self._bars.remove_task(bar)
            self._open -= 1
            if self._open == 0:
                self._bars.stop()
                self._bars = None

    @property
    def console(self) -> Console | None:
        """The rich console that the bars are drawn on while they are, so that other output does not tear them."""
        return self._bars.console if self._bars is not None else None


class Task:
    """A piece of work that advances. Made by `Progress.task`."""

    def __init__(self, progress: Progress, description: str, total: float | None) -> None:
        self.description = description
        self.total = total
        self.done = 0.0
        self._note = ""
        self._progress = progress
        self._started = self._printed = time.monotonic()
        self._ended = False
        self._lock = threading.Lock()
        self._bar = progress._begin(self)

    def advance(self, n: float = 1) -> None:
        """Count `n` steps more as done."""
        with self._lock:
            self.done += n
        self._show(n)

    def note(self, text: str) -> None:
        """Show `text` beside the bar, for instance the current loss."""
        self._note = text
        self._show(0)

    def close(self) -> None:
        """End the task. A second call does nothing."""
        if not self._ended:
            self._ended = True
            if self._bar is not None:
                self._progress._end(self._bar)

    def _show(self, n: float) -> None:
        if self._ended:
            return
        bars = self._progress._bars
        if self._bar is not None and bars is not None:
            bars.update(self._bar, advance=n, text=self._note)
        elif self._progress._mode == "log" and time.monotonic() - self._printed >= LOG_SECONDS:
            with self._lock:
                self._printed = time.monotonic()
            print(self._line(), file=self._progress._file, flush=True)

    def _line(self) -> str:
        seconds = int(time.monotonic() - self._started)
        share = f" {self.done:g}" if not self.total else f" {self.done:g}/{self.total:g} ({self.done / self.total:.0%})"
        note = f" {self._note}" if self._note else ""
        return f"{self.description}:{share} after {seconds // 60}:{seconds % 60:02d}{note}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def track(iterable: Iterable[T], description: str, total: float | None = None) -> Iterator[T]:
    """Yield the items of `iterable` and show how far it is.

    Parameters
    ----------
    iterable : iterable
    description : str
    total : float, optional
        Taken from ``len(iterable)`` where there is one.

    Yields
    ------
    object
        The items.
    """
    return Progress().track(iterable, description, total)


def _is_terminal(file: IO[str]) -> bool:
    try:
        return file.isatty()
    except (AttributeError, ValueError):
        return False


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _make_bars(file: IO[str]) -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}", style="dim", markup=False),
        console=Console(file=file),
        transient=True,
    )
