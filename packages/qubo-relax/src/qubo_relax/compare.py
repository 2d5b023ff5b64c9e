"""The certified formulation beside the usual ones and the samplers that are installed, at equal time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.constraints import Rows
from qubo_relax.qubo import Qubo
from qubo_relax.solvers.driver import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """One line of the table: failed tries stay in `wall_time` and in `feasible`."""

    solver: str
    formulation: str
    best: float | None
    feasible: float
    samples: int
    wall_time: float


def compare(target: Any, time_limit: float = 5.0, seed: int = 0) -> list[Row]:
    """Run everything for about the same time.

    Parameters
    ----------
    target : Problem or Qubo
    time_limit : float
        Seconds for each line of the table.
    seed : int

    Returns
    -------
    list of Row

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: a line that was broken off is no line to compare with.
    """
    rows = []
    # Loading compiled code is paid once a process, not once a problem.
    minimize(target, restarts=1, steps=1, time_limit=0.01)
    r = minimize(target, restarts=10_000, rng=seed, time_limit=time_limit)
    if r.status == "interrupted":
        raise KeyboardInterrupt
    forms: list[str | None] = [None]
    if isinstance(target, Qubo):
        rows.append(Row("qubo-relax anneal", "", r.energy, 1.0, len(r.samples), r.wall_time))
    else:
        best = None if not r.feasible else r.objective
        rows.append(Row("qubo-relax", target.default, best, r.feasible_fraction, len(r.samples), r.wall_time))
        forms = [target.default, *(k for k, v in target.formulations.items() if v == "classic" and k != "laplacian")]
    for name in peers():
        rows += [_peer(name, target, form, time_limit, seed) for form in forms]
    return rows


def peers() -> list[str]:
    """Which of the samplers can be imported."""
    from importlib.util import find_spec

    known = {"dwave.samplers": ["dwave SA", "dwave tabu"], "openjij": ["openjij SA"]}
    found = []
    for module, names in known.items():
        try:
            if find_spec(module) is not None and find_spec("dimod") is not None:
                found += names
        except ModuleNotFoundError:
            continue
    return found


def _peer(name: str, target: Any, form: str | None, time_limit: float, seed: int) -> Row:
    from qubo_relax.interop import to_bqm

    qubo = target if isinstance(target, Qubo) else target.qubo(form)
    bqm = to_bqm(qubo.with_concavity(0.0))
    found: list[NDArray[Any]] = []
    start = time.perf_counter()
    reads, batch = 4, 0
    while True:
        before = time.perf_counter()
        found.append(_sample(name, bqm, reads, seed + batch, time_limit))
        took = time.perf_counter() - before
        left = time_limit - (time.perf_counter() - start)
        batch += 1
        if left < took / reads:
            break
        reads = max(1, min(1000, int(reads * left / max(took, 1e-3))))
    total = time.perf_counter() - start
    X = np.concatenate(found)
    label = f"{name} {metadata.version('openjij' if name.startswith('openjij') else 'dwave-samplers')}"
    if isinstance(target, Qubo):
        return Row(label, "", float(qubo.energy(X).min()), 1.0, len(X), total)
    good = Rows(target.constraints(form), qubo.n).feasible(X)
    values = [target.objective(target.decode(x, form)) for x in X[good]]
    best = None if not values else float(max(values) if target.maximise else min(values))
    return Row(label, str(form), best, float(good.mean()), len(X), total)


def _sample(name: str, bqm: Any, reads: int, seed: int, time_limit: float) -> NDArray[Any]:
    if name == "dwave SA":
        from dwave.samplers import SimulatedAnnealingSampler

        answer = SimulatedAnnealingSampler().sample(bqm, num_reads=reads, num_sweeps=1000, seed=seed)
    elif name == "dwave tabu":
        from dwave.samplers import TabuSampler

        each = max(20, int(1000 * time_limit / 8))
        answer = TabuSampler().sample(bqm, num_reads=1, timeout=each, seed=seed)
    else:
        # No extra of ours brings it: it is compared with where the user has it.
        answer = import_module("openjij").SASampler().sample(bqm, num_reads=reads, num_sweeps=1000, seed=seed)
    order = np.argsort([list(bqm.variables).index(v) for v in answer.variables])
    return np.asarray(answer.record.sample)[:, order]
