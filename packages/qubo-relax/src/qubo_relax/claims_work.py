"""The work behind `qubo_relax.claims`: top-level functions with picklable arguments, one task each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from qubo_relax import problems as P  # noqa: N812 - a table of problems reads better so
from qubo_relax.instances import box_pit, instance, section_pit
from qubo_relax.solvers.driver import Result, minimize
from qubo_relax.verify import verify_conditions


def _solved(*target_and_options: Any, **options: Any) -> Result:
    """`minimize`, but an interruption ends the task: half of the steps would be kept as evidence of all."""
    r = minimize(*target_and_options, **options)
    if r.status == "interrupted":
        raise KeyboardInterrupt
    return r


def enumerate_kind(name: str, seed: int, count: int) -> tuple[str, int, int, float]:
    """`count` random instances of a certified formulation: (name, checked, counterexamples, least margin)."""
    g = np.random.default_rng(seed)
    bad, least = 0, np.inf
    for _ in range(count):
        problem, formulation = instance(name, g, limit=14)
        qubo = problem.qubo(formulation)
        exact = verify_conditions(qubo, problem.constraints(formulation), method="enumerate")
        proof = verify_conditions(problem, method="structural", formulation=formulation)
        bad += exact.status != "certified" or proof.status != "certified"
        least = min(least, exact.margin / (problem.value_scale or 1.0))
    return name, count, bad, float(least) if np.isfinite(least) else -1.0


def milp_kind(name: str, seed: int, limit: float) -> tuple[str, int, str]:
    """A certified formulation of up to 60 variables proved by integer programs: (name, variables, status)."""
    g = np.random.default_rng(seed)
    problem = medium(name, g)
    qubo = problem.qubo()
    certificate = verify_conditions(qubo, problem.constraints(), method="milp", time_limit=limit)
    return name, qubo.n, certificate.status


def medium(name: str, g: np.random.Generator) -> P.Problem:
    """Instances beyond enumeration for the integer programs and the solvers."""
    if name == "pit":
        value, arcs = section_pit(g, 10, 4)
        return P.OpenPit(value, arcs)
    if name == "large pit":
        value, arcs = section_pit(g, 40, 12, ore=6.0)
        return P.OpenPit(value, arcs)
    if name == "pit with a row":
        value, arcs = section_pit(g, 10, 4)
        return P.OpenPit(value, arcs, g.integers(1, 6, 40), [40])
    if name == "knapsack":
        return P.Knapsack(g.integers(1, 50, 30), g.integers(1, 50, 30), 350)
    if name == "multi-knapsack":
        return P.MultiKnapsack(g.integers(1, 50, 30), g.integers(1, 50, (3, 30)), [350, 360, 370])
    if name == "tsp":
        points = g.random((6, 2))
        return P.TSP(np.rint(100 * np.linalg.norm(points[:, None] - points, axis=-1)))
    if name == "independent set":
        return P.MIS(random_graph(g, 60, 0.1))
    if name == "vertex cover":
        return P.VertexCover(random_graph(g, 60, 0.1), g.integers(1, 9, 60))
    if name == "facility location":
        return P.FacilityLocation(g.integers(1, 30, (8, 5)), g.integers(10, 40, 5))
    if name == "set cover":
        return P.SetCover([g.choice(12, 4, replace=False).tolist() for _ in range(12)] + [list(range(12))])
    if name == "max-k-cut":
        return P.MaxKCut(random_graph(g, 15, 0.4), 3)
    if name == "bin packing":
        return P.BinPacking(g.integers(2, 6, 6), 8)
    if name == "gap":
        return P.GAP(g.integers(1, 20, (12, 3)), g.integers(1, 20, (12, 3)), [60, 60, 60])
    msg = f"no instance named {name}"
    raise KeyError(msg)


MEDIUM = (
    "pit",
    "pit with a row",
    "knapsack",
    "multi-knapsack",
    "tsp",
    "independent set",
    "vertex cover",
    "facility location",
    "set cover",
    "max-k-cut",
    "bin packing",
    "gap",
)


def random_graph(g: np.random.Generator, n: int, p: float) -> tuple[int, np.ndarray[Any, Any]]:
    """G(n, p) as (n, edges)."""
    i, j = np.nonzero(np.triu(g.random((n, n)) < p, 1))
    return n, np.stack([i, j], axis=1)


def gradient_ends(
    name: str,
    method: str,
    seed: int,
    starts: int,
    steps: int,
    formulation: str | None = None,
    margin: float | None = None,
    options: dict[str, Any] | None = None,
) -> tuple[str, str, str, float, float, float]:
    """Lanes of a method: (name, method, formulation, binary before polishing, feasible and minimal after)."""
    g = np.random.default_rng(seed)
    problem = medium(name, g)
    qubo = problem.qubo(formulation, margin=None if margin is None else margin * problem.value_scale)
    rows = problem.constraints(formulation)
    r = _solved(qubo, method, starts, steps, rng=seed, constraints=rows, options={"corners": False, **(options or {})})
    from qubo_relax.theory import is_vertex_minimum

    minimal = is_vertex_minimum(qubo, r.samples)
    return name, method, formulation or problem.default, r.binary_fraction, r.feasible_fraction, float(minimal.mean())


def newman_file() -> Path | None:
    """MineLib's newman1 in the tests of a checkout; the wheel does not carry it."""
    path = Path(__file__).parents[2] / "tests" / "data" / "newman1.upit"
    return path if path.is_file() and path.with_suffix(".prec").is_file() else None


def newman_ends(path: str, method: str, seed: int, starts: int, steps: int) -> tuple[str, float, float]:
    """Shares of feasible ends on the pit's usual form and on the certified one: (method, usual, certified)."""
    from qubo_relax.io import read

    pit = read(path)
    shares = []
    for formulation, lanes in (("direct", starts), ("closure", min(starts, 8))):
        rows = pit.constraints(formulation)
        r = _solved(pit.qubo(formulation), method, lanes, steps, rng=seed, constraints=rows)
        shares.append(r.feasible_fraction)
    return method, shares[0], shares[1]


def classic(name: str, seed: int, penalty: float | None = None) -> tuple[str, float, str, bool, bool]:
    """The usual formulation of a small instance: (name, penalty, status, counterexample minimal, and infeasible)."""
    g = np.random.default_rng(seed)
    if name == "pit direct":
        problem: P.Problem = P.OpenPit([5, 5, -1, -1], [(0, 1), (1, 2), (2, 3)])
        formulation = "direct"
    elif name == "tsp lucas":
        points = g.random((4, 2))
        d = np.rint(10 * np.linalg.norm(points[:, None] - points, axis=-1))
        problem, formulation = P.TSP(d, fix_first=False), "lucas"
    else:
        problem = P.Knapsack(g.integers(1, 20, 8), 2 * g.integers(1, 10, 8), 31)
        formulation = "slack_binary"
    qubo = problem.qubo(formulation, penalty=penalty)
    found = verify_conditions(qubo, problem.constraints(formulation))
    x = found.counterexample
    if x is None:
        return name, penalty or -1.0, found.status, False, False
    # Checked again flip by flip, without the verifier.
    energies = qubo.energy(np.where(np.eye(qubo.n, dtype=bool), 1 - x, x))
    minimal = bool((energies >= qubo.energy(x) - qubo.concavity - 1e-9).all())
    infeasible = any(
        (row.value @ x[row.index] > row.b + 1e-9 and row.sense != ">=")
        or (row.value @ x[row.index] < row.b - 1e-9 and row.sense != "<=")
        for row in problem.constraints(formulation)
    )
    return name, penalty or -1.0, found.status, minimal, bool(infeasible)


def risk_case(seed: int, width: int, depth: int, sweeps: int, limit: float) -> dict[str, float]:
    """A pit with a risk term: anneal on the certified quadratic beside HiGHS on the linearised model."""
    from qubo_relax.exact import max_closure, pit_milp

    g = np.random.default_rng(seed)
    value, arcs = section_pit(g, width, depth, ore=8.0)
    n = value.size
    C = np.zeros((n, n))
    ore = np.flatnonzero(value > 0)
    near = [(i, j) for i in ore for j in (i + 1, i + width, i + width + 1) if j < n and value[j] > 0]
    for i, j in near:
        C[i, j] = C[j, i] = 0.3 * g.random() * min(value[i], value[j])
    problem = P.OpenPit(value, arcs, risk=C)
    t = time.perf_counter()
    r = _solved(problem, "anneal", 8, sweeps, rng=seed, improve=False)
    grown = _solved(problem, "anneal", 64, sweeps, rng=seed, improve=False, formulation="removal")
    ours = time.perf_counter() - t
    after = problem.objective(problem.improve(r.solution, 0)) if r.feasible else -np.inf
    t = time.perf_counter()
    x, proved, bound = pit_milp(problem, limit)
    highs = time.perf_counter() - t
    blind = problem.objective(max_closure(value, arcs))
    best = problem.objective(x) if x is not None else -np.inf
    return {
        "blocks": float(n),
        "pairs": float(len(near)),
        "closure": r.objective,
        "removal": grown.objective,
        "feasible": min(r.feasible_fraction, grown.feasible_fraction),
        "highs": best,
        "closure_ratio": r.objective / best if best > 0 else float(r.objective >= best),
        "raw": max(r.objective, grown.objective) / best if best > 0 else 1.0,
        "improved": after / best if best > 0 else float(after >= best),
        "proved": float(proved),
        "bound": bound,
        "blind": blind,
        "anneal_s": ours,
        "highs_s": highs,
    }


def pit_case(kind: str, seed: int, size: tuple[int, int]) -> tuple[str, P.OpenPit]:
    """A generated pit: a 2-D section or a 3-D box."""
    from qubo_relax.exact import max_closure

    g = np.random.default_rng(seed)
    while True:
        value, arcs = section_pit(g, *size, ore=5.0) if kind == "section" else box_pit(g, *size)
        # An ore body too deep to pay would leave the empty pit and nothing to compare.
        if value[max_closure(value, arcs)].sum() > 0:
            break
    return f"{kind} {size[0]}x{size[1]}", P.OpenPit(value, arcs)


def quality_case(name: str, seed: int, lanes: int, steps: int) -> list[tuple[Any, ...]]:
    """Rows (case, method, before improve, after improve, seconds) as ratios to the exact optimum."""
    g = np.random.default_rng(seed)
    problem: P.Problem
    if name.startswith(("section", "box")):
        kind, width, depth = name.split()
        problem = pit_case(kind, seed, (int(width), int(depth)))[1]
    elif name.startswith("tsp"):
        points = g.random((int(name.split()[1]), 2))
        problem = P.TSP(np.linalg.norm(points[:, None] - points, axis=-1))
    elif name.startswith("knapsack"):
        n = int(name.split()[1])
        problem = P.Knapsack(g.integers(1, 1000, n), g.integers(1, 1000, n), 250 * n)
    else:
        n = int(name.split()[1])
        problem = P.MultiKnapsack(g.integers(1, 1000, n), g.integers(1, 1000, (5, n)), np.full(5, 125 * n))
    best = problem.solve_exact(60.0)
    if best is None:
        return []
    optimum = problem.objective(best)
    rows = []
    for method in ("pgd", "adam", "graduated", "anneal"):
        t = time.perf_counter()
        r = _solved(problem, method, lanes, steps, rng=seed, improve=False)
        seconds = time.perf_counter() - t
        after = problem.objective(problem.improve(r.solution, 0)) if r.feasible else np.nan
        rows.append((name, method, r.sample_objective / optimum, after / optimum, r.feasible_fraction, seconds))
    if name.startswith("tsp"):
        rows.append(_annealer_on_lucas(problem, name, optimum, lanes, seed))
    return rows


def _annealer_on_lucas(problem: P.Problem, name: str, optimum: float, lanes: int, seed: int) -> tuple[Any, ...]:
    """The usual route: dwave-samplers' simulated annealing on the lucas form, 1000 sweeps; its failures stay in."""
    from dwave.samplers import SimulatedAnnealingSampler

    from qubo_relax.interop import to_bqm

    qubo = problem.qubo("lucas", penalty=2 * problem.value_scale)
    t = time.perf_counter()
    found = SimulatedAnnealingSampler().sample(to_bqm(qubo), num_reads=lanes, num_sweeps=1000, seed=seed)
    seconds = time.perf_counter() - t
    X = found.record.sample[:, np.argsort(found.variables)]
    from qubo_relax.constraints import Rows

    good = Rows(problem.constraints(), qubo.n).feasible(X)
    values = [problem.objective(problem.decode(x)) for x in X[good]]
    best = min(values) / optimum if values else np.nan
    after = min(values, default=np.nan)
    if values:
        x = X[good][int(np.argmin(values))]
        after = problem.objective(problem.improve(problem.decode(x), 0))
    return name, "SA on lucas", best, after / optimum, float(good.mean()), seconds


def sweep_seconds(n: int, sweeps: int, seed: int) -> float:
    """CPU seconds of one anneal sweep on a random graph of degree 8, the least of five runs."""
    from qubo_relax.qubo import Qubo
    from qubo_relax.solvers.anneal import anneal
    from qubo_relax.solvers.lanes import Stop
    from qubo_relax.solvers.prepared import Prepared

    g = np.random.default_rng(seed)
    i, j = g.integers(0, n, 4 * n), g.integers(0, n, 4 * n)
    prep = Prepared.of(Qubo.from_coo(n, i, j, g.standard_normal(4 * n)))
    start = np.zeros((1, n), dtype=np.float32)
    best = np.inf
    for _ in range(5):
        t = time.process_time()
        anneal(prep, start, sweeps, {"states": [1 + seed]}, Stop())
        best = min(best, time.process_time() - t)
    return best / sweeps
