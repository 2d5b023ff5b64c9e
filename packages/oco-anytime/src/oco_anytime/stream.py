"""A learner behind a pipe: JSON lines in and out, its state on the disk, so that any language can drive it."""

from __future__ import annotations

import inspect
import json
import math
import signal
import threading
from typing import IO, TYPE_CHECKING, Any

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write

from oco_anytime.state import from_json, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from oco_anytime.interface import Learner


def serve(learner: Learner, source: IO[str], sink: IO[str], state: Path | None, save_every: int) -> None:
    """Answer every line of `source` with the next decision on `sink`.

    Parameters
    ----------
    learner : Learner
    source, sink : text streams
        A line in: ``{"cost_grad": [..], "violation": 0.1, "violation_grad": [..]}`` (the last two may be absent). A
        line out: ``{"t": rounds so far, "x": [..], "ccv": .., "regret_upper": ..}``; the first comes before any input.
        A line that cannot be used is answered by ``{"t": .., "error": ".."}`` and changes nothing.
    state : path, optional
        Where the state is kept: by rename, every `save_every` rounds, at the end of the input, and on SIGTERM. If the
        file exists the run goes on from it; the first line's ``t`` tells the driver where.
    save_every : int

    Raises
    ------
    InvalidInput
        If the state belongs to another learner.
    """
    if state is not None and state.exists():
        try:
            text = state.read_text("utf-8")
        except UnicodeDecodeError as err:
            raise InvalidInput.argument("state", expected="JSON of a state", got=str(err)) from None
        learner.load_state_dict(from_json(text))
    keys = set(inspect.signature(learner.update).parameters)
    terminated = _Termination()
    saved = learner.certificate().t

    def save() -> None:
        if state is not None:
            with atomic_write(state) as f:
                f.write(to_json(learner.state_dict()))

    _say(sink, answer(learner))
    try:
        while line := terminated.readline(source):
            if not line.strip():
                continue
            try:
                learner.update(**_round(line, keys))
            except InvalidInput as err:
                _say(sink, {"t": learner.certificate().t, "error": str(err)})
                continue
            out = answer(learner)
            if out["t"] - saved >= save_every:
                # before the answer, so that no decision that the driver has seen is more than save_every rounds ahead
                save()
                saved = out["t"]
            _say(sink, out)
    finally:
        save()


def answer(learner: Learner) -> dict[str, Any]:
    """The decision and what is guaranteed so far, as plain values."""
    x = learner.predict()
    c = learner.certificate()
    upper = c.regret_upper if math.isfinite(c.regret_upper) else None
    return {"t": c.t, "x": x.tolist(), "ccv": c.ccv, "regret_upper": upper, "status": c.status}


def _round(line: str, accepted: set[str]) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except ValueError as err:
        raise InvalidInput.argument("line", expected="a JSON object", got=str(err)) from None
    if not isinstance(given, dict) or "cost_grad" not in given or not set(given) <= accepted:
        keys = sorted(given) if isinstance(given, dict) else type(given).__name__
        raise InvalidInput.argument(
            "line", expected="cost_grad, perhaps " + ", ".join(sorted(accepted - {"cost_grad"})), got=keys
        )
    return {key: value for key, value in given.items() if value is not None}


def _say(sink: IO[str], what: dict[str, Any]) -> None:
    sink.write(json.dumps(what) + "\n")
    sink.flush()


class _Stop(BaseException):
    """SIGTERM came while waiting for input."""


class _Termination:
    """SIGTERM ends the loop between rounds: at once while it waits for a line, else after the round."""

    def __init__(self) -> None:
        self._asked = self._waiting = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self._asked = True
        if self._waiting:
            raise _Stop

    def readline(self, source: IO[str]) -> str:
        """The next line, or nothing at the end of input or after SIGTERM."""
        self._waiting = True
        try:
            return "" if self._asked else source.readline()
        except _Stop:
            return ""
        finally:
            self._waiting = False
