"""Playing learners against environments: the compiled loop, the plain loop, and many seeds at once."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, positive_int

from oco_anytime.domains.base import contiguous, within
from oco_anytime.engine import PenaltyLearner
from oco_anytime.interface import Learner
from oco_anytime.loop import Interruption, Recorder
from oco_anytime.penalty import LARGEST
from oco_anytime.run import Run, log_checkpoints, marks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector
    from oco_anytime.environments.base import Environment

#: rounds between two looks at the clock and the keyboard in the compiled loop
_CHUNK = 1 << 16
_CHECKPOINT_SECONDS = 10.0

__all__ = ["Run", "log_checkpoints", "play", "play_linear", "play_many"]  # the first two: see `run`


def _linear_input(
    d: int, costs: ArrayLike, A: ArrayLike | None, b: ArrayLike | None
) -> tuple[Vector, Vector, Vector, bool]:
    """Costs (T, d), rows (T, m, d), right-hand sides (T, m), checked; and whether there was one constraint a round."""
    C = within(contiguous(array(costs, "costs", ndim=2, shape=(None, d))), "costs", LARGEST)
    rounds = C.shape[0]
    if A is None:
        if b is not None:
            raise InvalidInput.argument("A", expected="rows for b", got="None")
        return C, np.zeros((rounds, 0, d)), np.zeros((rounds, 0)), True
    rows = within(contiguous(array(A, "A", ndim=(2, 3))), "A", LARGEST)
    single = rows.ndim == 2
    if rows.shape[0] != rounds or rows.shape[-1] != d:
        expected = f"shape ({rounds}, {d}) or ({rounds}, m, {d})"
        raise InvalidInput.argument("A", expected=expected, got=f"shape {rows.shape}")
    if single:
        rows = rows[:, None, :]
    given = within(array(0.0 if b is None else b, "b"), "b", LARGEST)
    if given.shape not in ((), rows.shape[: 1 if single else 2]):
        expected = f"a number or shape {rows.shape[: 1 if single else 2]}"
        raise InvalidInput.argument("b", expected=expected, got=f"shape {given.shape}")
    rhs = contiguous(np.broadcast_to(given[..., None] if single else given, rows.shape[:2]))
    return C, rows, rhs, single


def play_linear(
    learner: PenaltyLearner,
    costs: ArrayLike,
    A: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    record: str = "all",
) -> Run:
    """Play linear costs ``costs[t] . x`` and constraints ``A[t] . x <= b[t]`` in one compiled loop.

    Parameters
    ----------
    learner : PenaltyLearner
        `AnytimeCOCO`, `ProjectedOGD`, `FixedHorizonCOCO` or `DoublingCOCO` on a ball, box, simplex, capped simplex, l1
        ball or budget set. It is advanced by T rounds.
    costs : array_like, shape (T, d)
    A : array_like, shape (T, d) or (T, m, d), optional
    b : array_like, shape (T,) or (T, m), optional
        0 unless given.
    record : {"all", "light"}
        ``"light"`` keeps sums between log-spaced rounds only: memory O(d + log T) beside the input.

    Returns
    -------
    Run
        Equal to the predict/update loop to rounding. After an interruption from the keyboard: the rounds played so
        far, with status ``"interrupted"``.

    Raises
    ------
    InvalidInput
        For a learner or domain outside the above, wrong shapes, NaN or infinity; nothing has been played then.
    """
    player: Any = learner
    if not isinstance(player, PenaltyLearner) or not player._compiled_loop or player._set is None:
        raise InvalidInput.argument(
            "learner",
            expected="AnytimeCOCO or an adaptive-gradient baseline on a domain with a compiled projection",
            got=f"{type(learner).__name__} on {type(getattr(learner, 'domain', None)).__name__}",
        )
    began = time.perf_counter()
    C, rows, rhs, single = _linear_input(learner.domain.dim, costs, A, b)
    marks = marks_of(record, rhs.shape[0])
    learner._before_rounds(rhs.shape[0])
    rows, rhs = _known_constraints(learner, rows, rhs)
    X = np.empty((rhs.shape[0] if record == "all" else 0, C.shape[1]))
    done, closed, cost, violation, certificate = _play_compiled(learner, C, rows, rhs, marks, X)
    return Run(
        x=X[:done] if record == "all" else None,
        cost=cost[:closed],
        violation=_violations(violation[:closed], single=single),
        certificate=certificate[:closed],
        t=marks[:closed],
        wall_time=time.perf_counter() - began,
        status="complete" if done == rhs.shape[0] else "interrupted",
    )


def _known_constraints(learner: PenaltyLearner, rows: Vector, rhs: Vector) -> tuple[Vector, Vector]:
    """Rows and right-hand sides in the learner's number of constraints, which it learns from the first that come."""
    (rounds, m), known = rhs.shape, learner._round.m
    if m == 0:
        return np.zeros((rounds, known, rows.shape[2])), np.full((rounds, known), 1.0)
    if known not in (0, m):
        raise InvalidInput.argument("A", expected=f"{known} constraints as before", got=m)
    if known == 0:
        learner._know_rows(m)
    return rows, rhs


def _play_compiled(
    learner: PenaltyLearner, C: Vector, rows: Vector, rhs: Vector, marks: np.ndarray, X: Vector
) -> tuple[int, int, Vector, Vector, Vector]:
    """Play all rounds, or those before an interruption, with the decisions into X where that has room.

    Returns the number of rounds played and of records closed, and cost, violation and certificate a record.
    """
    (rounds, m), d = rhs.shape, C.shape[1]
    played, grads = (learner.domain._tangent(C), learner.domain._tangent(rows)) if learner._tangent else (C, rows)
    # a point handed out earlier must not move
    learner._x, learner._view = learner._x.copy(), None
    cost, violation, certificate = np.zeros(marks.size), np.zeros((marks.size, m)), np.zeros(marks.size)
    done = closed = 0
    scratch = np.empty(d), np.empty(d), np.empty(m)
    compiled: Any = learner._set
    with Interruption() as asked:
        while done < rounds and not asked:
            to = min(done + _CHUNK, rounds)
            part = slice(done, to)
            learner._k.play(
                *learner._compiled_state(), learner._x, C[part], played[part], rows[part], grads[part], rhs[part],
                *compiled, done, marks[closed:], X[part],
                cost[closed:], violation[closed:], certificate[closed:], *scratch,
            )  # fmt: skip
            done, closed = to, int(np.searchsorted(marks, to, side="right"))
    if done < rounds and closed < marks.size and done > (marks[closed - 1] if closed else 0):
        marks[closed], certificate[closed] = done, learner.certificate().regret_upper
        closed += 1
    learner._after_rounds()
    return done, closed, cost, violation, certificate


def _violations(found: Vector, *, single: bool) -> Vector:
    """The columns of a `Run`: none where there was one constraint a round, and zeros where there was none."""
    if found.shape[1] == 0:
        return np.zeros(len(found))
    return found[:, 0] if single and found.shape[1] == 1 else found


def play(
    learner: Learner,
    environment: Environment,
    rounds: int,
    *,
    record: str = "all",
    progress: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Run:
    """Play any learner in any environment, round by round.

    Parameters
    ----------
    learner : Learner
        Advanced by `rounds` rounds.
    environment : Environment
        From `oco_anytime.environments`, or anything with its `round`.
    rounds : int
        T, not negative.
    record : {"all", "light"}
    progress : lemmata_core.progress.Task, optional
        Advanced as rounds pass.
    checkpoint : path, optional
        The run so far and the learner's state are written here by rename every 10 s and at an interruption; a file
        that exists is continued, and the result equals that of an unbroken run.

    Returns
    -------
    Run
        With status ``"interrupted"`` after an interruption from the keyboard.

    Raises
    ------
    InvalidInput
        For bad arguments, or a checkpoint of another run.
    """
    rounds = positive_int(rounds, "rounds", minimum=0)
    _check_pair(learner, environment)
    began = time.perf_counter()
    book = Recorder(marks_of(record, rounds), record, learner, environment, checkpoint)
    saved = seen = began
    status = "complete"
    with Interruption() as asked:
        while book.done < rounds and not asked:
            if not book.play_one():
                break
            if not book.done & 255:
                now = time.perf_counter()
                if checkpoint is not None and now - saved > _CHECKPOINT_SECONDS:
                    book.save()
                    saved = now
                if progress is not None and now - seen > 0.2:
                    progress.advance(book.done - book.shown)
                    book.shown, seen = book.done, now
    if book.done < rounds:
        status = "interrupted"
    if progress is not None:
        progress.advance(book.done - book.shown)
    if checkpoint is not None:
        book.save()
    return book.run(time.perf_counter() - began, status)


def _check_pair(learner: Any, environment: Any) -> None:
    if not isinstance(learner, Learner):
        raise InvalidInput.argument("learner", expected="a learner of oco_anytime", got=type(learner).__name__)
    if not callable(getattr(environment, "round", None)):
        expected = "an environment: an object with round(t, x)"
        raise InvalidInput.argument("environment", expected=expected, got=type(environment).__name__)
    domain = getattr(environment, "domain", learner.domain)
    if domain.dim != learner.domain.dim:
        expected = f"decisions of the learner's dimension {learner.domain.dim}"
        raise InvalidInput.argument("environment", expected=expected, got=domain.dim)


def _call(make: Callable[..., Any], *args: Any) -> Any:
    """Call with as many of the arguments as `make` takes."""
    try:
        kinds = [p.kind for p in inspect.signature(make).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return make(*args)
    if any(kind is inspect.Parameter.VAR_POSITIONAL for kind in kinds):
        return make(*args)
    n = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
    return make(*args[:n])


def _one(
    make_learner: Callable[..., Learner], make_environment: Callable[..., Environment], seed: Any, rounds: int
) -> Run:
    environment = make_environment(seed)
    learner = _call(make_learner, environment)
    arrays = environment.linear(rounds) if hasattr(environment, "linear") else None
    if (
        arrays is not None
        and isinstance(learner, PenaltyLearner)
        and learner._compiled_loop
        and learner._set is not None
    ):
        return play_linear(learner, *arrays, record="light")
    return play(learner, environment, rounds, record="light")


def play_many(
    make_learner: Callable[..., Learner],
    make_environment: Callable[[Any], Environment],
    seeds: int | Sequence[int],
    rounds: int,
    *,
    executor: Executor | None = None,
) -> list[Run]:
    """One run a seed, recorded light.

    Parameters
    ----------
    make_learner : callable
        ``environment -> learner`` (or without arguments); picklable for a pool of processes.
    make_environment : callable
        ``seed -> environment``, where the seed is a `numpy.random.SeedSequence`.
    seeds : int or sequence of int
        A number n stands for n streams spawned from ``SeedSequence(0)``; each given seed spawns its own.
    rounds : int
    executor : concurrent.futures.Executor, optional
        Runs one after the other in this process unless given.

    Returns
    -------
    list of Run
        In the order of the seeds, whatever the executor.
    """
    positive_int(rounds, "rounds", minimum=0)
    if isinstance(seeds, Iterable) and np.ndim(seeds) != 0:
        given = [positive_int(s, "seeds", minimum=0) for s in seeds]
        streams = [np.random.SeedSequence(s).spawn(1)[0] for s in given]
    else:
        count: Any = seeds
        streams = np.random.SeedSequence(0).spawn(positive_int(count, "seeds", minimum=0))
    if executor is None:
        return [_one(make_learner, make_environment, s, rounds) for s in streams]
    waiting = [executor.submit(_one, make_learner, make_environment, s, rounds) for s in streams]
    return [w.result() for w in waiting]
