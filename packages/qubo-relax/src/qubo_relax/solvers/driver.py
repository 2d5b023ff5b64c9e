"""`minimize`: many lanes, rounding, descent, certificate, improvement, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import check
from lemmata_core import rng as rngs
from lemmata_core.errors import InvalidInput

from qubo_relax.constraints import LinearConstraint, Rows
from qubo_relax.qubo import Qubo
from qubo_relax.solvers.lanes import Lanes, Stop
from qubo_relax.theory import PointCertificate, certify_point

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

BLOCK = 32
"""Lanes that are solved together; also what one task of an executor gets."""

METHODS = ("auto", "pgd", "adam", "graduated", "anneal", "graduated+anneal", "tabu", "flip")


@dataclass(frozen=True)
class Result:
    """What `minimize` returns.

    Attributes
    ----------
    x : ndarray of int8 of shape (n,)
        The best feasible local minimizer found (the best one, where none is feasible).
    solution : object
        What it stands for, after `improve`; `x` itself for a plain quadratic.
    objective : float
        Of the solution, in the problem's own terms; the energy for a plain quadratic.
    energy : float
        ``f(x)``.
    feasible : bool or None
        None for a plain quadratic without constraints.
    status : {"optimal", "local_min", "time_limit", "interrupted"}
        "optimal" when the objective meets a proved bound.
    samples : ndarray of int8 of shape (B, n)
        Where each lane ended, after rounding and descent; the order is that of the lanes.
    energies : ndarray of shape (B,)
    feasible_fraction : float
        Share of feasible samples, 1 without constraints.
    certificate : PointCertificate
        That `x` is a local minimizer of the quadratic.
    n_iter : int
        Steps or sweeps a lane.
    wall_time : float
        Seconds.
    binary_fraction : float
        Share of lanes that were binary before any rounding.
    unique_fraction : float
        Share of distinct samples: near 0 when all lanes ended in one point.
    sample_objective : float
        Of the best feasible sample before `improve`.
    """

    x: NDArray[np.int8]
    solution: Any
    objective: float
    energy: float
    feasible: bool | None
    status: str
    samples: NDArray[np.int8]
    energies: NDArray[np.float64]
    feasible_fraction: float
    certificate: PointCertificate
    n_iter: int
    wall_time: float
    binary_fraction: float = 1.0
    unique_fraction: float = 1.0
    sample_objective: float = np.nan


@dataclass(frozen=True)
class _Job:
    """What a block of lanes needs, picklable."""

    qubo: Qubo
    method: str
    steps: int
    options: Mapping[str, Any]
    backend: str
    device: str | None
    seconds: float = np.inf
    first: int = 0
    seeds: tuple[Any, ...] = field(default=())


def minimize(
    target: Any,
    method: str = "auto",
    restarts: int = 32,
    steps: int = 600,
    time_limit: float | None = None,
    rng: Any = 0,
    backend: str = "auto",
    device: str | None = None,
    improve: bool = True,
    callback: Callable[[int, float], bool | None] | None = None,
    *,
    formulation: str | None = None,
    constraints: Sequence[LinearConstraint] | None = None,
    options: Mapping[str, Any] | None = None,
    stop_at: float | None = None,
    executor: Executor | None = None,
    progress: Any = None,
) -> Result:
    """Minimize a quadratic on the box from many starts; every sample returned is a certified local minimizer.

    Parameters
    ----------
    target : Problem or Qubo
    method : {"auto", "pgd", "adam", "graduated", "anneal", "graduated+anneal", "tabu", "flip"}
        "pgd" and "adam" are the paper's; "auto" is the problem's own choice, "anneal" for a plain quadratic.
    restarts : int
        Number of lanes.
    steps : int
        Gradient steps or sweeps a lane.
    time_limit : float, optional
        Seconds for solving and improving together.
    rng : Generator, int or None
        Lane k draws from the k-th spawned stream, so it does not depend on `restarts`.
    backend : {"auto", "numba", "torch"}
        "auto" is numba. torch (an extra) runs "pgd", "adam" and "graduated".
    device : str, optional
        For torch: "cpu", "cuda".
    improve : bool
        Whether the problem's own local search finishes the best sample.
    callback : callable, optional
        Given the steps done and the best energy known (NaN at first) between chunks; True ends the run.
    formulation : str, optional
        Of a problem; its certified one when left out.
    constraints : sequence of LinearConstraint, optional
        For a plain quadratic: what feasible means.
    options : mapping, optional
        Of the method; see the solver's docstring. ``corners`` (bool): start lanes 0 and 1 at all zeros and all ones.
    stop_at : float, optional
        An energy at which the remaining blocks of lanes are dropped.
    executor : concurrent.futures.Executor, optional
        Solves blocks of 32 lanes as tasks; the samples are the same as without.
    progress : lemmata_core.progress.Progress, optional

    Returns
    -------
    Result

    Raises
    ------
    InvalidInput
        On unknown names, sizes below 1 or a kept convex diagonal.
    """
    start = time.perf_counter()
    check.one_of(method, "method", METHODS)
    check.one_of(backend, "backend", ("auto", "numba", "torch"))
    restarts = check.positive_int(restarts, "restarts")
    steps = check.positive_int(steps, "steps")
    limit = np.inf if time_limit is None else check.in_range(time_limit, "time_limit", 0.0, low_open=True)
    qubo, problem, rows, name = _target(target, formulation, constraints)
    method, opts = _choose(problem, method, options)
    share = 0.5 if improve and problem is not None else 1.0
    job = _Job(qubo, method, steps, opts, "numba" if backend == "auto" else backend, device, limit * share)
    lanes, samples, binary = _run(job, rngs.spawn(rng, restarts), callback, stop_at, executor, progress)
    energies = qubo.energy(samples)
    feasible = np.ones(len(samples), dtype=bool) if rows is None else rows.feasible(samples)
    pick = _best(energies, feasible)
    x, solution, objective, before, status = _finish(
        qubo,
        problem,
        name,
        samples,
        energies,
        feasible,
        pick,
        lanes.ended,
        improve,
        rng,
        limit - (time.perf_counter() - start),
    )
    return Result(
        x,
        solution,
        objective,
        float(qubo.energy(x)),
        None if rows is None else bool(rows.feasible(x[None])[0]),
        status,
        samples,
        energies,
        float(feasible.mean()),
        certify_point(qubo, x),
        lanes.steps,
        time.perf_counter() - start,
        binary,
        len({np.packbits(s).tobytes() for s in samples}) / len(samples),
        before,
    )


def _target(
    target: Any, formulation: str | None, constraints: Sequence[LinearConstraint] | None
) -> tuple[Qubo, Any, Rows | None, str | None]:
    if isinstance(target, Qubo):
        if formulation is not None:
            raise InvalidInput.argument("formulation", expected="None with a Qubo", got=formulation)
        if target.diagonal is not None and (target.diagonal > target.concavity).any():
            raise InvalidInput.argument("target", expected="a folded quadratic", got="a kept convex diagonal")
        return target, None, None if constraints is None else Rows(list(constraints), target.n), None
    if not hasattr(target, "qubo"):
        raise InvalidInput.argument("target", expected="a Qubo or a problem", got=type(target).__name__)
    qubo = target.qubo(formulation)
    return qubo, target, Rows(target.constraints(formulation), qubo.n), formulation


def _choose(problem: Any, method: str, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    defaults = {"method": "anneal"} if problem is None else dict(problem.solver_defaults)
    chosen = defaults.pop("method", "anneal")
    return (chosen if method == "auto" else method), {**defaults, **(options or {})}


def _run(
    job: _Job,
    streams: Sequence[np.random.Generator],
    callback: Callable[[int, float], bool | None] | None,
    stop_at: float | None,
    executor: Executor | None,
    progress: Any,
) -> tuple[Lanes, NDArray[np.int8], float]:
    n = job.qubo.n
    width = BLOCK if n <= 200_000 else 8
    deadline = time.monotonic() + job.seconds
    blocks = [streams[k : k + width] for k in range(0, len(streams), width)]
    done: list[tuple[Lanes, NDArray[np.int8]]] = []
    if executor is not None:
        futures = [executor.submit(_solve_block, job, block, k * width) for k, block in enumerate(blocks)]
        for future in futures:
            if future.cancelled():
                continue
            done.append(future.result())
            if stop_at is not None and job.qubo.energy(done[-1][1]).min() <= stop_at:
                for other in futures:
                    other.cancel()
    else:
        rounds = len(streams) * job.steps * len(job.method.split("+"))
        task = None if progress is None else progress.task(job.method, total=rounds)
        stop = Stop(deadline, callback, None if task is None else task.advance)
        for k, block in enumerate(blocks):
            done.append(_solve(job, block, k * width, stop))
            if done[-1][0].ended != "done":
                break
            if stop_at is not None and job.qubo.energy(done[-1][1]).min() <= stop_at:
                break
        if task is not None:
            task.close()
    samples = np.concatenate([s for _, s in done])
    raw = np.concatenate([((d.X == 0) | (d.X == 1)).all(axis=1) for d, _ in done])
    ended = next((d.ended for d, _ in done if d.ended != "done"), "done")
    steps = max(d.steps for d, _ in done)
    return Lanes(np.zeros((0, n), dtype=np.int8), steps, ended), samples, float(raw.mean())


def _solve_block(job: _Job, streams: Sequence[np.random.Generator], first: int) -> tuple[Lanes, NDArray[np.int8]]:
    return _solve(job, streams, first, Stop(time.monotonic() + job.seconds))


def _solve(job: _Job, streams: Sequence[np.random.Generator], first: int, stop: Stop) -> tuple[Lanes, NDArray[np.int8]]:
    from qubo_relax.solvers.prepared import Prepared

    prep = Prepared.of(job.qubo)
    opts = dict(job.options)
    opts["states"] = np.array([g.integers(1, 2**63) for g in streams], dtype=np.uint64)
    methods = job.method.split("+")
    X0 = _starts(job.qubo.n, streams, first, methods[0], bool(opts.get("corners", False)))
    if opts.get("sigma", 0.0):
        opts["noise"] = np.stack([g.standard_normal(job.qubo.n, dtype=np.float32) for g in streams], axis=1)
    try:
        lanes = _method(methods[0], prep, X0, job.steps, opts, stop, job.backend, job.device)
    except KeyboardInterrupt:
        # Before the method's own loop, in its preparations: the starts are what there is.
        lanes = Lanes(X0, 0, "interrupted")
    for later in methods[1:]:
        if lanes.ended != "done":
            break
        from qubo_relax.solvers.anneal import WARM

        settled = prep.settle(lanes.X)
        next_lanes = _method(later, prep, settled, job.steps, {"hot": WARM, **opts}, stop, job.backend, job.device)
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
        if method in ("anneal", "tabu", "flip"):
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
    name: str,
    prep: Prepared,
    X0: NDArray[Any],
    steps: int,
    options: Mapping[str, Any],
    stop: Stop,
    backend: str,
    device: str | None,
) -> Lanes:
    if backend == "torch":
        from qubo_relax.solvers.torch_backend import run

        return run(name, prep, X0, steps, options, stop, device)
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
    else:
        return Lanes(X0, 0, "done")
    return solver(prep, X0, steps, options, stop)


def _best(energies: NDArray[np.float64], feasible: NDArray[np.bool_]) -> int:
    return int(np.argmin(np.where(feasible, energies, np.inf) if feasible.any() else energies))


def _finish(
    qubo: Qubo,
    problem: Any,
    formulation: str | None,
    samples: NDArray[np.int8],
    energies: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    pick: int,
    ended: str,
    improve: bool,
    rng: Any,
    seconds: float,
) -> tuple[NDArray[np.int8], Any, float, float, str]:
    status = {"done": "local_min", "callback": "interrupted"}.get(ended, ended)
    x = samples[pick]
    if problem is None:
        return x, x, float(energies[pick]), float(energies[pick]), status
    if not feasible[pick]:
        return x, None, float("nan"), float("nan"), status
    # The objective, not the energy, chooses among feasible samples: a formulation may be biased.
    solutions = [problem.decode(samples[k], formulation) for k in np.flatnonzero(feasible)]
    values = np.array([problem.objective(s) for s in solutions])
    best = int(np.argmax(values) if problem.maximise else np.argmin(values))
    x, solution, objective = samples[np.flatnonzero(feasible)[best]], solutions[best], float(values[best])
    before = objective
    if improve and ended != "interrupted":
        solution = _improved(problem, solution, rng, seconds)
        objective = float(problem.objective(solution))
        bound = problem.bound()
        if bound is not None and abs(objective - bound) <= 1e-9 * max(1.0, abs(bound)):
            status = "optimal"
    x = _encoded(qubo, problem, formulation, solution, x, objective)
    return x, solution, objective, before, status


def _improved(problem: Any, solution: Any, rng: Any, seconds: float) -> Any:
    limit = None if not np.isfinite(seconds) else max(seconds, 0.01)
    seed = rng if isinstance(rng, (int, np.integer)) else 0
    better = max if problem.maximise else min
    found = [problem.improve(solution, seed, limit)]
    return better([solution, *found], key=problem.objective)


def _encoded(
    qubo: Qubo, problem: Any, formulation: str | None, solution: Any, x: NDArray[np.int8], objective: float
) -> NDArray[np.int8]:
    """The improved solution as a local minimizer, where the formulation's own descent keeps it; else the sample."""
    from qubo_relax.solvers.prepared import Prepared

    try:
        point: NDArray[np.int8] = problem.encode(solution, formulation)
    except InvalidInput:
        return x
    settled: NDArray[np.int8] = Prepared.of(qubo).settle(point[None])[0]
    if np.array_equal(settled, point) or problem.objective(problem.decode(settled, formulation)) == objective:
        return settled
    return x
