"""Callbacks: what happens beside training. The names are those of stable-baselines3."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int

from rl_mfpo.evaluation import EvaluationResult, evaluate

if TYPE_CHECKING:
    from rl_mfpo.agent import MFPO


class Callback:
    """Base class. Override what you need; `agent` is there from `on_training_start` on.

    Any object with some of these methods is accepted in its place, and any function: it is called after every vector
    step as ``f()``, ``f(agent)`` or ``f(locals, globals)`` (stable-baselines3's form).
    """

    agent: MFPO

    def init_callback(self, agent: MFPO) -> None:
        """Receive the agent."""
        self.agent = agent

    def on_training_start(self) -> None:
        """Called before the first step of a `learn`."""

    def on_step(self) -> bool:
        """Called after every vector step and the updates that follow it. False ends the training."""
        return True

    def on_training_end(self) -> None:
        """Called at the end of a `learn`, also after an error or an interruption."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this callback: plain values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with `state_dict`."""


class EvalCallback(Callback):
    """Evaluates the policy while it is trained and keeps the best one. Of several ranks the first one does.

    Rows ``eval/return_mean``, ``eval/return_std``, ``eval/length_mean`` go to the logger. The episodes are the same
    at each evaluation; training does not notice them.

    Parameters
    ----------
    env : str or gymnasium.Env
        Not the one that is trained on.
    every : int
        Transitions between two evaluations.
    n_episodes : int
    best_path : path-like, optional
        The agent is saved here whenever the mean return is the highest so far.
    deterministic : bool
    seed : int
        Of the episodes.

    Attributes
    ----------
    best_mean : float
    history : list of (int, EvaluationResult)
        Transitions and result, of this process.
    """

    def __init__(
        self,
        env: str | gym.Env[Any, Any],
        every: int = 10_000,
        n_episodes: int = 10,
        best_path: str | os.PathLike[str] | None = None,
        *,
        deterministic: bool = True,
        seed: int = 0,
    ) -> None:
        self.env = env
        self.every = positive_int(every, "every")
        self.n_episodes = positive_int(n_episodes, "n_episodes")
        self.best_path = None if best_path is None else Path(best_path)
        self.deterministic = deterministic
        self.seed = seed
        self.best_mean = -np.inf
        self.history: list[tuple[int, EvaluationResult]] = []

    def on_step(self) -> bool:
        """Evaluate when it is time."""
        if self.agent.rank or not self.agent.passed(self.every):
            return True
        agent = self.agent
        result = evaluate(agent, self.env, self.n_episodes, deterministic=self.deterministic, seed=self.seed)
        self.history.append((agent.num_timesteps, result))
        row = {
            "eval/return_mean": result.mean,
            "eval/return_std": result.std,
            "eval/length_mean": float(np.mean(result.lengths)),
        }
        agent.logger.write(agent.num_timesteps, row)
        if result.mean > self.best_mean:
            self.best_mean = result.mean
            if self.best_path is not None:
                self.best_path.parent.mkdir(parents=True, exist_ok=True)
                agent.save(self.best_path)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The best mean so far."""
        return {"best_mean": self.best_mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with `state_dict`."""
        self.best_mean = float(state["best_mean"])


class CheckpointCallback(Callback):
    """Writes checkpoints from which `MFPO.resume` goes on exactly.

    It is always called last, so that a checkpoint holds what the other callbacks did at its step. One more is written
    when training is interrupted or the environment faults.

    Parameters
    ----------
    every : int
        Transitions between two checkpoints.
    path : path-like
        A folder; the checkpoints in it share the replay's rows.
    keep : int
        Newest checkpoints that stay.
    """

    def __init__(self, every: int, path: str | os.PathLike[str], keep: int = 3) -> None:
        self.every = positive_int(every, "every")
        self.path = Path(path)
        self.keep = positive_int(keep, "keep")

    def on_step(self) -> bool:
        """Write one when it is time."""
        if self.agent.passed(self.every):
            self.save()
        return True

    def save(self) -> None:
        """Write one now. Of several ranks the first one writes."""
        if self.agent.rank == 0:
            self.agent.save_checkpoint(self.path, keep=self.keep)


class StopOnReturn(Callback):
    """Ends the training when the mean return of the last training episodes is high enough.

    Parameters
    ----------
    threshold : float
    n_episodes : int
        How many of the last episodes count (at most 100); before there are as many, training goes on.
    """

    def __init__(self, threshold: float, n_episodes: int = 20) -> None:
        self.threshold = in_range(threshold, "threshold")
        self.n_episodes = positive_int(n_episodes, "n_episodes", maximum=100)

    def on_step(self) -> bool:
        """Compare."""
        last = list(self.agent.episodes)[-self.n_episodes :]
        return len(last) < self.n_episodes or float(np.mean([r for r, _ in last])) < self.threshold


class _Adapted(Callback):
    """Anything else that a user may hand over."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._is_function = not any(
            hasattr(inner, name) for name in ("on_step", "on_training_start", "on_training_end")
        )
        self._arguments = _positional(inner) if self._is_function else 0

    def init_callback(self, agent: MFPO) -> None:
        self.agent = agent
        if hasattr(self.inner, "init_callback"):
            self.inner.init_callback(agent)

    def on_training_start(self) -> None:
        method = getattr(self.inner, "on_training_start", None)
        if method is not None:
            method(*[{"self": self.agent}, {}][: _positional(method)])

    def on_step(self) -> bool:
        if self._is_function:
            known: list[Any] = [self.agent] if self._arguments < 2 else [{"self": self.agent}, {}]
            return self.inner(*known[: self._arguments]) is not False
        method = getattr(self.inner, "on_step", None)
        # None goes on: whoever forgets to return something does not mean to stop.
        return method is None or method() is not False

    def on_training_end(self) -> None:
        method = getattr(self.inner, "on_training_end", None)
        if method is not None:
            method()

    def state_dict(self) -> dict[str, Any]:
        method = getattr(self.inner, "state_dict", None)
        return dict(method()) if method is not None else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        method = getattr(self.inner, "load_state_dict", None)
        if method is not None:
            method(state)


CallbackLike = Callback | Callable[..., Any] | Any


def as_callbacks(given: CallbackLike | Sequence[CallbackLike] | None) -> list[Callback]:
    """Make `Callback` objects of what a user handed over; those that write checkpoints come last.

    Raises
    ------
    InvalidInput
        For an object without any of the methods, that cannot be called either.
    """
    items = [] if given is None else (list(given) if isinstance(given, (list, tuple)) else [given])
    made: list[Callback] = []
    for item in items:
        if isinstance(item, Callback):
            made.append(item)
        elif callable(item) or any(hasattr(item, m) for m in ("on_step", "on_training_start", "on_training_end")):
            made.append(_Adapted(item))
        else:
            expected = "a function, or an object with on_step, on_training_start or on_training_end"
            raise InvalidInput.argument("callback", expected=expected, got=item)
    return sorted(made, key=lambda c: isinstance(c, CheckpointCallback))


def type_name(callback: Callback) -> str:
    """The class by which a checkpoint knows a callback."""
    inner = callback.inner if isinstance(callback, _Adapted) else callback
    return type(inner).__qualname__


def _positional(function: Any) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} for p in parameters)
