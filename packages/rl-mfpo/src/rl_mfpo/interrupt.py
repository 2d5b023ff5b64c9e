"""Ctrl-C between two steps instead of within one."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class Interruption:
    """While entered (in the main thread), a first Ctrl-C is noted and `check` raises it; a second is raised at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None
        self._installed = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
            # A program that handles or ignores Ctrl-C itself goes on doing so.
            if self._previous is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._note)
                self._installed = True
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's signature
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._previous)
