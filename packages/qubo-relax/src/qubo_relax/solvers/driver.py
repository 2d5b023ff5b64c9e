"""`minimize`: many lanes, rounding, descent, certificate, improvement, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import check
from lemmata_core import rng as rngs
from lemmata_core.errors import InvalidInput

from qubo_relax.constraints import LinearConstraint, Rows
from qubo_relax.qubo import Qubo
from qubo_relax.solvers.batch import BLOCK, Batch, Job, prepared, run
from qubo_relax.solvers.options import METHODS, check_method, checked
from qubo_relax.terms import FactoredQubo
from qubo_relax.theory import PointCertificate, certify_point

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

__all__ = ["BLOCK", "METHODS", "Result", "minimize"]

FACTORED_FROM = 3_000
"""Variables from which gradient methods work on the factored form of a problem that has one."""


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
    target : Problem, Qubo or FactoredQubo
    method : {"auto", "pgd", "adam", "graduated", "anneal", "tabu", "mutate", "flip"}
        "pgd" and "adam" are the paper's; "auto" is the problem's own choice, "anneal" for a plain quadratic. Names
        joined by ``+`` run one after the other: "graduated+anneal", "anneal+mutate".
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
        For torch: "cpu", "cuda". numba knows "cpu" only.
    improve : bool
        Whether the problem's own local search finishes the best sample.
    callback : callable, optional
        Given the steps done and the best energy known (NaN at first) between chunks; True ends the run.
    formulation : str, optional
        Of a problem; its certified one when left out.
    constraints : sequence of LinearConstraint, optional
        For a plain quadratic: what feasible means.
    options : mapping, optional
        Of the method; see the solver's docstring. For all: ``corners`` (bool), whether lanes 0 and 1 start at all zeros
        and all ones; ``reorder`` ("rcm"), variables in reverse Cuthill-McKee order, for large sparse quadratics whose
        neighbours lie far apart in memory; ``factored`` (bool), whether a problem's factored form is used, by itself
        from 3000 variables on where there is one (tours and assignments by gradient methods). For graduated: ``sigma``
        also "auto", the better of 0 and 0.01 in a pilot of an eighth of the steps.
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
        On unknown names or options, sizes below 1 or a kept convex diagonal.
    """
    start = time.perf_counter()
    method = check_method(method)
    backend = _checked_place(backend, device)
    if callback is not None and not callable(callback):
        raise InvalidInput.argument("callback", expected="a function of steps and energy", got=callback)
    given = checked(options)
    restarts = check.positive_int(restarts, "restarts")
    steps = check.positive_int(steps, "steps")
    limit = np.inf if time_limit is None else check.in_range(time_limit, "time_limit", 0.0, low_open=True)
    stop_at = None if stop_at is None else check.in_range(stop_at, "stop_at")
    streams = rngs.spawn(rng, restarts)
    method, opts = _choose(target, method, given)
    asked = _asked(target, formulation, constraints, _factored(target, formulation, method, opts))
    share = 0.5 if improve and asked.problem is not None else 1.0
    until = time.time() + limit * share - (time.perf_counter() - start)
    job = Job(asked.qubo, method, steps, opts, backend, device, until)
    batch = run(job, streams, callback, stop_at, executor, progress)
    samples = batch.samples
    energies = asked.qubo.energy(samples)
    feasible = asked.feasible(samples)
    left = limit - (time.perf_counter() - start)
    found = _finish(asked, samples, energies, feasible, batch.ended, improve, rng, left)
    return _result(asked, found, batch, energies, feasible, start)


@dataclass(frozen=True)
class _Asked:
    """What is to be minimized: a quadratic and, where it stands for one, the problem in a formulation."""

    qubo: Qubo | FactoredQubo
    problem: Any
    rows: Rows | None
    formulation: str | None

    def feasible(self, samples: NDArray[np.int8]) -> NDArray[np.bool_]:
        return np.ones(len(samples), dtype=bool) if self.rows is None else self.rows.feasible(samples)


@dataclass(frozen=True)
class _Found:
    """The best point, what it stands for and is worth; `before` is its worth as it was sampled."""

    x: NDArray[np.int8]
    solution: Any
    objective: float
    before: float
    status: str


def _checked_place(backend: str, device: str | None) -> str:
    check.one_of(backend, "backend", ("auto", "numba", "torch"))
    if backend != "torch" and device not in (None, "cpu"):
        raise InvalidInput.argument("device", expected='None or "cpu" unless backend="torch"', got=device)
    return "numba" if backend == "auto" else backend


def _asked(
    target: Any, formulation: str | None, constraints: Sequence[LinearConstraint] | None, factored: bool
) -> _Asked:
    if isinstance(target, Qubo | FactoredQubo):
        if formulation is not None:
            raise InvalidInput.argument("formulation", expected="None with a Qubo", got=formulation)
        if target.diagonal is not None and (target.diagonal > target.concavity).any():
            raise InvalidInput.argument("target", expected="a folded quadratic", got="a kept convex diagonal")
        return _Asked(target, None, None if constraints is None else Rows(list(constraints), target.n), None)
    if constraints is not None:
        raise InvalidInput.argument("constraints", expected="None with a problem, which has its own", got="rows")
    qubo = target.factored() if factored else target.qubo(formulation)
    return _Asked(qubo, target, Rows(target.constraints(formulation), qubo.n), formulation)


def _choose(target: Any, method: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(target, Qubo | FactoredQubo):
        defaults: dict[str, Any] = {"method": "anneal" if isinstance(target, Qubo) else "graduated"}
    elif hasattr(target, "solver_defaults") and hasattr(target, "qubo"):
        defaults = dict(target.solver_defaults)
    else:
        raise InvalidInput.argument("target", expected="a Qubo or a problem", got=type(target).__name__)
    chosen = defaults.pop("method", "anneal")
    return (chosen if method == "auto" else method), {**defaults, **given}


def _factored(target: Any, formulation: str | None, method: str, options: Mapping[str, Any]) -> bool:
    """Whether to work on the factored form of a problem: where it has one, and by itself only where that pays."""
    asked = options.get("factored")
    fits = hasattr(target, "factored") and formulation in (None, getattr(target, "default", None))
    if asked is None:
        large = fits and target.n_variables >= FACTORED_FROM
        return large and all(part in ("pgd", "adam", "graduated", "flip") for part in method.split("+"))
    if asked and not fits:
        raise InvalidInput.argument("options['factored']", expected="False: there is no factored form", got=True)
    return bool(asked)


def _finish(
    asked: _Asked,
    samples: NDArray[np.int8],
    energies: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    ended: str,
    improve: bool,
    rng: Any,
    seconds: float,
) -> _Found:
    problem, formulation = asked.problem, asked.formulation
    status = {"done": "local_min", "callback": "interrupted"}.get(ended, ended)
    pick = int(np.argmin(np.where(feasible, energies, np.inf) if feasible.any() else energies))
    x = samples[pick]
    if problem is None:
        return _Found(x, x, float(energies[pick]), float(energies[pick]), status)
    if not feasible[pick]:
        return _Found(x, None, float("nan"), float("nan"), status)
    # The objective, not the energy, chooses among feasible samples: a formulation may be biased.
    solutions = [problem.decode(samples[k], formulation) for k in np.flatnonzero(feasible)]
    values = np.array([problem.objective(s) for s in solutions])
    best = int(np.argmax(values) if problem.maximise else np.argmin(values))
    x, solution, objective = samples[np.flatnonzero(feasible)[best]], solutions[best], float(values[best])
    before = objective
    if improve and ended != "interrupted":
        try:
            solution = _improved(problem, solution, rng, seconds)
        except KeyboardInterrupt:
            # The sample stands: it is a local minimizer without any improvement.
            return _Found(x, solution, objective, before, "interrupted")
        objective = float(problem.objective(solution))
        bound = problem.bound()
        if bound is not None and abs(objective - bound) <= 1e-9 * max(1.0, abs(bound)):
            status = "optimal"
    x = _encoded(asked.qubo, problem, formulation, solution, x, objective)
    return _Found(x, solution, objective, before, status)


def _result(
    asked: _Asked,
    found: _Found,
    batch: Batch,
    energies: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    start: float,
) -> Result:
    return Result(
        x=found.x,
        solution=found.solution,
        objective=found.objective,
        energy=float(asked.qubo.energy(found.x)),
        feasible=None if asked.rows is None else bool(asked.feasible(found.x[None])[0]),
        status=found.status,
        samples=batch.samples,
        energies=energies,
        feasible_fraction=float(feasible.mean()),
        certificate=certify_point(asked.qubo, found.x),
        n_iter=batch.steps,
        wall_time=time.perf_counter() - start,
        binary_fraction=batch.binary,
        unique_fraction=len({np.packbits(s).tobytes() for s in batch.samples}) / len(batch.samples),
        sample_objective=found.before,
    )


def _improved(problem: Any, solution: Any, rng: Any, seconds: float) -> Any:
    limit = None if not np.isfinite(seconds) else max(seconds, 0.01)
    seed = rng if isinstance(rng, (int, np.integer)) else 0
    better = max if problem.maximise else min
    found = [problem.improve(solution, seed, limit)]
    return better([solution, *found], key=problem.objective)


def _encoded(
    qubo: Qubo | FactoredQubo,
    problem: Any,
    formulation: str | None,
    solution: Any,
    x: NDArray[np.int8],
    objective: float,
) -> NDArray[np.int8]:
    """The improved solution as a local minimizer, where the formulation's own descent keeps it; else the sample."""
    try:
        point: NDArray[np.int8] = problem.encode(solution, formulation)
    except InvalidInput:
        return x
    settled: NDArray[np.int8] = prepared(qubo).settle(point[None])[0]
    if np.array_equal(settled, point) or problem.objective(problem.decode(settled, formulation)) == objective:
        return settled
    return x
