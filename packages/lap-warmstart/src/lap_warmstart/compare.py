"""Other solvers under one signature, for timings: each adapter returns the columns of rows 0..n-1.

They are looked up by name when asked for; none is a dependency.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import one_of
from lemmata_core.timing import paired
from numpy.typing import NDArray

Solver = Callable[[NDArray[Any]], NDArray[Any]]


def _scipy() -> Solver:
    solve = importlib.import_module("scipy.optimize").linear_sum_assignment
    return lambda cost: solve(cost)[1]


def _lapcpp() -> Solver:
    # It returns (cost, rows, columns).
    solve = importlib.import_module("lapcpp").lapjv
    return lambda cost: np.asarray(solve(cost, extend_cost=cost.shape[0] != cost.shape[1])[2])


def _lapx() -> Solver:
    solve = importlib.import_module("lap").lapjv
    return lambda cost: solve(cost, extend_cost=cost.shape[0] != cost.shape[1])[1]


def _lapjv() -> Solver:
    # Its default casts to float32 and is not exact.
    solve = importlib.import_module("lapjv").lapjv
    return lambda cost: solve(cost, force_doubles=True)[0]


def _fastlap() -> Solver:
    solve = importlib.import_module("fastlap").solve_lap
    return lambda cost: np.asarray(solve(cost, "lapjv")[1])


def _ortools() -> Solver:
    module = importlib.import_module("ortools.graph.python.linear_sum_assignment")

    def run(cost: NDArray[Any]) -> NDArray[Any]:
        n, m = cost.shape
        solver = module.SimpleLinearSumAssignment()
        rows, columns = np.repeat(np.arange(n, dtype=np.int32), m), np.tile(np.arange(m, dtype=np.int32), n)
        solver.add_arcs_with_cost(rows, columns, cost.ravel().astype(np.int64))
        solver.solve()
        return np.array([solver.right_mate(i) for i in range(n)])

    return run


PEERS: Mapping[str, tuple[str, Callable[[], Solver]]] = {
    "fastlap": ("fastlap", _fastlap),
    "lapcpp": ("lapcpp", _lapcpp),
    "lapjv": ("lapjv", _lapjv),
    "lapx": ("lapx", _lapx),
    "ortools": ("ortools", _ortools),
    "scipy": ("scipy", _scipy),
}


def peer(name: str) -> tuple[Solver, str]:
    """Return a peer's adapter and its version.

    Raises
    ------
    InvalidInput
        Unknown, or not installed.
    """
    one_of(name, "peers", tuple(PEERS))
    distribution, make = PEERS[name]
    try:
        return make(), metadata.version(distribution)
    except ImportError as err:
        raise InvalidInput.argument("peers", expected="an installed peer", got=f"{name}: {err}") from err


def value(cost: NDArray[Any], columns: NDArray[Any]) -> float:
    """Return the cost of an assignment of all rows."""
    return float(cost[np.arange(cost.shape[0]), columns].sum())


def compare(
    families: Sequence[str], sizes: Sequence[int], peers: Sequence[str], repeats: int = 3
) -> list[dict[str, Any]]:
    """Time `solve` against each peer on the same matrices, in turn; objectives must agree.

    Returns
    -------
    list of dict
        ``family``, ``n``, ``peer``, ``version``, ``ours_ms``, ``peer_ms``, ``ratio`` (ours over the peer's).

    Raises
    ------
    RuntimeError
        A peer's answer costs less or more than ours beyond rounding.
    """
    from lap_warmstart.instances import generate
    from lap_warmstart.solve import solve

    rows = []
    for family in families:
        for n in sizes:
            cost = generate(family, n, 0)
            ours = solve(cost).objective
            for name in peers:
                run, version = peer(name)
                theirs = value(cost, run(cost))
                if abs(theirs - ours) > 1e-9 * max(1.0, abs(ours)):
                    raise RuntimeError(f"{name} finds {theirs!r} on {family}, n={n}; ours is {ours!r}")
                t = paired(partial(solve, cost), partial(run, cost), repeats=repeats)
                rows.append(
                    {
                        "family": family, "n": n, "peer": name, "version": version, "ours_ms": 1e3 * t.a_seconds,
                        "peer_ms": 1e3 * t.b_seconds, "ratio": t.ratio,
                    }
                )  # fmt: skip
    return rows
