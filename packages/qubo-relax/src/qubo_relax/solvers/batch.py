"""Blocks of lanes: their starts, their methods in turn, their descent; in this process or as tasks of an executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.solvers.lanes import Lanes, Stop
from qubo_relax.terms import FactoredQubo

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from numpy.typing import NDArray

    from qubo_relax.qubo import Qubo

    Block = tuple[Lanes, NDArray[np.int8]]

BLOCK = 32
"""Lanes that are solved together; also what one task of an executor gets."""

PILOT_LANES = 8
PILOT_SIGMA = 0.01


@dataclass(frozen=True)
class Job:
    """What a block of lanes needs, picklable.

    Attributes
    ----------
    until : float
        Of ``time.time()``, which processes share.
    """

    qubo: Qubo | FactoredQubo
    method: str
    steps: int
    options: Mapping[str, Any]
    backend: str
    device: str | None
    until: float = np.inf

    def stop(self) -> Stop:
        """The deadline on this process's monotonic clock."""
        left = self.until - time.time()
        return Stop(time.monotonic() + max(left, 0.0) if np.isfinite(left) else np.inf)


@dataclass(frozen=True)
class Batch:
    """All lanes: samples (B, n), steps of a lane, why they ended, the share binary before rounding."""

    samples: NDArray[np.int8]
    steps: int
    ended: str
    binary: float


def prepared(qubo: Qubo | FactoredQubo) -> Any:
    """The form that the solvers read."""
    if isinstance(qubo, FactoredQubo):
        from qubo_relax.solvers.factored import FactoredPrepared

        return FactoredPrepared(qubo)
    from qubo_relax.solvers.prepared import Prepared

    return Prepared.of(qubo)


def run(
    job: Job,
    streams: Sequence[np.random.Generator],
    callback: Callable[[int, float], bool | None] | None = None,
    stop_at: float | None = None,
    executor: Executor | None = None,
    progress: Any = None,
) -> Batch:
    """Solve one lane a stream.

    Parameters
    ----------
    job : Job
    streams : sequence of Generator
    callback, stop_at, executor, progress
        See `qubo_relax.minimize`.

    Returns
    -------
    Batch
        Blocks that an interruption left out are missing; the first is always there.
    """
    n = job.qubo.n
    width = BLOCK if n <= 200_000 else 8
    job = _settled_sigma(job)
    order = None
    if job.options.get("reorder") is not None and not isinstance(job.qubo, FactoredQubo):
        from qubo_relax.solvers.prepared import band_order, reordered

        order = band_order(job.qubo)
        job = replace(job, qubo=reordered(job.qubo, order))
    blocks = [list(streams[k : k + width]) for k in range(0, len(streams), width)]
    total = len(streams) * job.steps * len(job.method.split("+"))
    task = None if progress is None else progress.task(job.method, total=total)
    if executor is None:
        stop = job.stop()
        stop.callback, stop.advance = callback, None if task is None else task.advance
        done = _here(job, blocks, width, order, stop, stop_at)
    else:
        done = _away(job, blocks, width, order, executor, stop_at, task)
    if task is not None:
        task.close()
    samples = np.concatenate([s for _, s in done])
    if order is not None:
        back = np.empty_like(samples)
        back[:, order] = samples
        samples = back
    raw = np.concatenate([((d.X == 0) | (d.X == 1)).all(axis=1) for d, _ in done])
    ended = next((d.ended for d, _ in done if d.ended != "done"), "done")
    return Batch(samples, max(d.steps for d, _ in done), ended, float(raw.mean()))


def _here(
    job: Job, blocks: list[Any], width: int, order: NDArray[Any] | None, stop: Stop, stop_at: float | None
) -> list[Block]:
    done: list[Block] = []
    prep = prepared(job.qubo)
    for k, block in enumerate(blocks):
        done.append(_solve(job, prep, block, k * width, order, stop))
        stop.note(float(job.qubo.energy(done[-1][1]).min()))
        if done[-1][0].ended != "done" or (stop_at is not None and stop.best <= stop_at):
            break
    return done


def _away(
    job: Job,
    blocks: list[Any],
    width: int,
    order: NDArray[Any] | None,
    executor: Executor,
    stop_at: float | None,
    task: Any,
) -> list[Block]:
    futures: list[Future[Block]] = [
        executor.submit(solve_block, job, block, k * width, order) for k, block in enumerate(blocks)
    ]
    done: list[Block] = []
    try:
        for block, future in zip(blocks, futures):
            if future.cancelled():
                continue
            done.append(future.result())
            if task is not None:
                task.advance(len(block) * job.steps)
            if stop_at is not None and job.qubo.energy(done[-1][1]).min() <= stop_at:
                for other in futures:
                    other.cancel()
    except KeyboardInterrupt:
        for other in futures:
            other.cancel()
        if not done:
            raise
        lanes, samples = done[-1]
        done[-1] = (replace(lanes, ended="interrupted"), samples)
    return done


def solve_block(
    job: Job, streams: Sequence[np.random.Generator], first: int, order: NDArray[Any] | None = None
) -> Block:
    """One block as a task of its own."""
    return _solve(job, prepared(job.qubo), streams, first, order, job.stop())


def _solve(
    job: Job, prep: Any, streams: Sequence[np.random.Generator], first: int, order: NDArray[Any] | None, stop: Stop
) -> Block:
    n = job.qubo.n
    opts = dict(job.options)
    opts["states"] = np.array([g.integers(1, 2**63) for g in streams], dtype=np.uint64)
    methods = job.method.split("+")
    X0 = _starts(n, streams, first, methods[0], bool(opts.get("corners", False)))
    if opts.get("sigma", 0.0):
        opts["noise"] = np.stack([g.standard_normal(n, dtype=np.float32) for g in streams], axis=1)
    if order is not None:
        X0 = np.ascontiguousarray(X0[:, order])
        if "noise" in opts:
            opts["noise"] = np.ascontiguousarray(opts["noise"][order])
    try:
        lanes = _method(methods[0], prep, X0, job.steps, opts, stop, job)
    except KeyboardInterrupt:
        # Before the method's own loop, in its preparations: the starts are what there is.
        lanes = Lanes(X0, 0, "interrupted")
    for later in methods[1:]:
        if lanes.ended != "done":
            break
        from qubo_relax.solvers.anneal import WARM

        settled = prep.settle(lanes.X)
        next_lanes = _method(later, prep, settled, job.steps, {"hot": WARM, **opts}, stop, job)
        # A lane that the time left no room for keeps what it had.
        settled[: len(next_lanes.X)] = next_lanes.X
        lanes = Lanes(settled, lanes.steps + next_lanes.steps, next_lanes.ended)
    return lanes, prep.settle(lanes.X)


def _starts(
    n: int, streams: Sequence[np.random.Generator], first: int, method: str, corners: bool
) -> NDArray[np.float32]:
    X = np.empty((len(streams), n), dtype=np.float32)
    for k, g in enumerate(streams):
        u = g.random(n, dtype=np.float32)
        if method in ("anneal", "tabu", "mutate", "flip"):
            X[k] = u < 0.5
        elif method == "graduated":
            X[k] = 0.25 + 0.5 * u
        else:
            X[k] = u
        if first + k == 0 and (corners or method == "anneal"):
            X[k] = 0
        elif first + k == 1 and corners:
            X[k] = 1
    return X


def _method(
    name: str, prep: Any, X0: NDArray[Any], steps: int, options: Mapping[str, Any], stop: Stop, job: Job
) -> Lanes:
    if isinstance(job.qubo, FactoredQubo):
        from qubo_relax.solvers.factored import run as factored

        return factored(name, prep, X0, steps, options, stop)
    if job.backend == "torch":
        from qubo_relax.solvers.torch_backend import run as on_torch

        return on_torch(name, prep, X0, steps, options, stop, job.device)
    if name == "pgd":
        from qubo_relax.solvers.pgd import pgd as solver
    elif name == "adam":
        from qubo_relax.solvers.adam import adam as solver
    elif name == "graduated":
        from qubo_relax.solvers.graduated import graduated as solver
    elif name == "anneal":
        from qubo_relax.solvers.anneal import anneal as solver
    elif name == "tabu":
        from qubo_relax.solvers.tabu import tabu as solver
    elif name == "mutate":
        from qubo_relax.solvers.mutate import mutate as solver
    else:
        return Lanes(X0, 0, "done")
    return solver(prep, X0, steps, options, stop)


def _settled_sigma(job: Job) -> Job:
    """``sigma="auto"``: a pilot of an eighth of the steps with 0 and with 0.01, from starts of its own.

    The pilot depends on the problem and the number of steps alone, so lanes stay independent of their number.
    """
    if job.options.get("sigma") != "auto":
        return job
    trials = []
    for sigma in (0.0, PILOT_SIGMA):
        options = {**job.options, "sigma": sigma, "corners": False, "reorder": None}
        pilot = replace(job, method=job.method.split("+")[0], steps=max(1, job.steps // 8), options=options)
        streams = [np.random.default_rng([k, 0]) for k in range(PILOT_LANES)]
        energies = job.qubo.energy(solve_block(pilot, streams, 0)[1])
        trials.append((float(energies.min()), float(energies.mean()), sigma))
    return replace(job, options={**job.options, "sigma": min(trials)[2]})
