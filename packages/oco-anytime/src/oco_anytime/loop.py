"""The books of the plain loop in `runner.play`: records, and the checkpoint that lets it go on."""

from __future__ import annotations

import json
import os
import signal
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput

from oco_anytime.run import Run, write_npz
from oco_anytime.state import from_json, to_json

if TYPE_CHECKING:
    from oco_anytime.environments.base import Environment
    from oco_anytime.interface import Learner


class Interruption:
    """Within the block an interruption from the keyboard is noted instead of raised, so that no round is half played.

    Outside the main thread, where signals cannot be caught, nothing changes.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __bool__(self) -> bool:
        return self._asked

    def _note(self, *_: object) -> None:
        self._asked = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class Recorder:
    """Plays single rounds and keeps their records."""

    def __init__(
        self,
        marks: np.ndarray,
        record: str,
        learner: Learner,
        environment: Environment,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        self.marks, self.learner, self.environment = marks, learner, environment
        rounds = int(marks[-1]) if marks.size else 0
        self.done = self.closed = self.shown = 0
        self.x = np.empty((rounds if record == "all" else 0, learner.domain.dim))
        self.cost, self.certificate = np.zeros(marks.size), np.zeros(marks.size)
        self.violation: np.ndarray | None = None
        self.path = None if checkpoint is None else Path(checkpoint)
        self.kind = f"{type(learner).__name__} {type(environment).__name__} {record} {rounds}"
        if self.path is not None and self.path.exists():
            self._resume()

    def play_one(self) -> bool:
        """One round: decide, see the outcome, update, record. False if the environment was interrupted."""
        learner, t = self.learner, self.done
        ask = getattr(self.environment, "predict", None)
        x = learner.predict() if ask is None else ask(learner, t)
        try:
            outcome = self.environment.round(t, x)
        except KeyboardInterrupt:
            return False
        learner.update(*outcome.feedback(learner))
        if self.x.shape[0]:
            self.x[t] = x
        v = np.maximum(np.atleast_1d(np.asarray(outcome.violation, dtype=float)), 0.0)
        if self.violation is None:
            self.violation = np.zeros((self.marks.size, max(v.size, 1)))
        self.cost[self.closed] += outcome.cost
        self.violation[self.closed] += v if v.size else 0.0
        self.done += 1
        if self.marks[self.closed] == self.done:
            self.certificate[self.closed] = learner.certificate().regret_upper
            self.closed += 1
        return True

    def save(self) -> None:
        """Write everything by rename."""
        if self.path is None:
            return
        violation = np.zeros((0, 0)) if self.violation is None else self.violation
        head = json.dumps({"kind": self.kind, "done": self.done, "closed": self.closed})
        write_npz(
            self.path,
            {
                "head": np.array(head),
                "state": np.array(to_json(self.learner.state_dict())),
                "x": self.x[: self.done],
                "cost": self.cost,
                "violation": violation,
                "certificate": self.certificate,
            },
        )

    def _resume(self) -> None:
        expected = f"a checkpoint of {self.kind}"
        try:
            with np.load(self.path, allow_pickle=False) as f:  # type: ignore[arg-type]
                saved: dict[str, Any] = {key: f[key] for key in f.files}
            head = json.loads(str(saved["head"]))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as err:
            raise InvalidInput.argument("checkpoint", expected=expected, got=f"{type(err).__name__}: {err}") from None
        if head["kind"] != self.kind:
            raise InvalidInput.argument("checkpoint", expected=expected, got=head["kind"])
        self.learner.load_state_dict(from_json(str(saved["state"])))
        self.done, self.closed = self.shown, _ = head["done"], head["closed"]
        if self.x.shape[0]:
            self.x[: self.done] = saved["x"]
        self.cost, self.certificate = saved["cost"], saved["certificate"]
        self.violation = saved["violation"] if saved["violation"].size else None

    def run(self, seconds: float, status: str) -> Run:
        """What has been recorded so far."""
        k, marks = self.closed, self.marks.copy()
        if k < marks.size and self.done > (marks[k - 1] if k else 0):
            marks[k], self.certificate[k] = self.done, self.learner.certificate().regret_upper
            k += 1
        violation = np.zeros((marks.size, 1)) if self.violation is None else self.violation
        violation = violation[:k, 0] if violation.shape[1] == 1 else violation[:k]
        return Run(
            x=self.x[: self.done] if self.x.shape[0] or marks.size == 0 else None,
            cost=self.cost[:k],
            violation=violation,
            certificate=self.certificate[:k],
            t=marks[:k],
            wall_time=seconds,
            status=status,
        )
