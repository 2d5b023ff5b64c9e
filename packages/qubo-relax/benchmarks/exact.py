"""Pits and knapsacks against exact methods, and a quadratic of a million variables. Ratios of values: exact / ours."""

from __future__ import annotations

import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import qubo_relax as qr
from lemmata_core.timing import Benchmark, Ratio
from qubo_relax import problems as P  # noqa: N812
from qubo_relax.exact import max_closure, milp, pit_milp
from qubo_relax.instances import box_pit, section_pit

if TYPE_CHECKING:
    from collections.abc import Callable

    from lemmata_core.progress import Progress

DATA = Path(__file__).parent.parent / "tests" / "data"
SCIPY = metadata.version("scipy")


def _timed(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    out = f()
    return time.perf_counter() - start, out


def _one(case: str, peer: str, ratio: float, bar: float | None = None, aim: float | None = None) -> Ratio:
    return Ratio(case, peer, SCIPY, ratio, ratio, ratio, bar, aim)


def _pits() -> dict[str, P.OpenPit]:
    found = {"newman1": qr.read(DATA / "newman1.upit")}
    for name, make in (
        ("section 80x24", lambda g: section_pit(g, 80, 24, ore=5.0)),
        ("section 60x16", lambda g: section_pit(g, 60, 16, ore=5.0)),
        ("box 12x12x8", lambda g: box_pit(g, 12, 8)),
    ):
        for seed in range(20):
            value, arcs = make(np.random.default_rng(seed))
            if value[max_closure(value, arcs)].sum() > 0:
                found[name] = P.OpenPit(value, arcs)
                break
    return found


def _linear_program(p: P.OpenPit) -> float:
    from scipy import optimize, sparse

    arcs, n = np.asarray(p.arcs), p.n
    k, one = np.arange(len(arcs)), np.ones(len(arcs))
    A = sparse.csr_array((np.r_[one, -one], (np.r_[k, k], np.r_[arcs[:, 0], arcs[:, 1]])), shape=(len(arcs), n))
    scale = float(np.abs(p.value).max())
    answer = optimize.linprog(-np.asarray(p.value) / scale, A_ub=A, b_ub=np.zeros(len(arcs)), bounds=(0, 1))
    return -float(answer.fun) * scale


def pits(progress: Progress) -> list[Ratio]:
    """The ultimate pit: max-flow equals the linear program; improve from the ends of each method; max-flow's time."""
    rows = []
    for name, p in progress.track(list(_pits().items()), "ultimate pits"):
        p.solve_exact()
        flow_s, x = _timed(p.solve_exact)
        best = p.objective(x)
        rows.append(_one(f"{name}: linear program / solve_exact", "HiGHS", _linear_program(p) / best, 1.000001))
        for method in ("pgd", "adam", "graduated", "anneal"):
            qr.minimize(p, method, 1, 1, improve=False)
            t, r = _timed(lambda p=p, m=method: qr.minimize(p, m, 8, 600, improve=False))
            after = p.objective(p.improve(r.solution))
            case = f"{name}: {method} {r.sample_objective / best:.3f} + improve ({t / flow_s:.0f} x max-flow's time)"
            rows.append(_one(case, "max-flow", best / after, 1 / 0.999))
    return rows


def capacities(progress: Progress) -> list[Ratio]:
    """Pits with capacity rows: improve in 3 s against HiGHS in 10 s."""
    rows = []
    for name, p in progress.track(list(_pits().items()), "capacity rows"):
        g = np.random.default_rng(5)
        weight = g.uniform(1.0, 5.0, p.n)
        full = weight[p.solve_exact()].sum()
        ore = weight * (np.asarray(p.value) > 0)
        for kind, resource, capacity in (
            ("one row", [weight], [0.5 * full]),
            ("total and ore rows", [weight, ore], [0.6 * full, 0.3 * ore[p.solve_exact()].sum()]),
        ):
            c = P.OpenPit(p.value, p.arcs, resource, capacity)
            found = c.improve(c.start(), 0, 3.0)
            x, proved, _ = pit_milp(c, 10.0)
            ratio = (c.objective(x) if x is not None else 0.0) / c.objective(found)
            note = "proved" if proved else "not proved"
            rows.append(_one(f"{name}, {kind}: improve 3 s (HiGHS {note})", "HiGHS 10 s", ratio, 1 / 0.995, 1 / 0.998))
    return rows


def knapsacks(progress: Progress) -> list[Ratio]:
    """Knapsacks of three kinds and multi-knapsacks, improve from the price form, against exact methods."""
    rows = []
    for n in progress.track((100, 500), "knapsacks"):
        for kind in ("uncorrelated", "weakly", "strongly"):
            g = np.random.default_rng(n)
            a = g.integers(1, 1001, n)
            noise = {"uncorrelated": g.integers(1, 1001, n) - a, "weakly": g.integers(-100, 101, n), "strongly": 100}[
                kind
            ]
            p = P.Knapsack(np.maximum(a + noise, 1), a, int(a.sum() // 2))
            r = qr.minimize(p, "adam", 32, 300)
            ratio = p.objective(p.solve_exact()) / r.objective
            rows.append(_one(f"knapsack {n}, {kind} correlated", "dynamic programming", ratio, 1 / 0.995, 1.0))
    for n, d in ((100, 5), (100, 10), (150, 10), (100, 30), (250, 10)):
        g = np.random.default_rng(n + d)
        a = g.integers(1, 1001, (d, n))
        p = P.MultiKnapsack(a.mean(axis=0) + g.integers(0, 500, n), a, a.sum(axis=1) // 4)
        r = qr.minimize(p, "adam", 32, 300)
        x, proved, _ = milp(-np.asarray(p.values), [(np.asarray(p.weights), -np.inf, np.asarray(p.capacities))], 10.0)
        ratio = p.objective(x > 0.5) / r.objective if x is not None else 1.0
        note = "proved" if proved else "not proved"
        rows.append(_one(f"multi-knapsack {n}x{d} (HiGHS {note})", "HiGHS 10 s", ratio, 1 / 0.995, 1.0))
    p = qr.read(DATA / "OR10x100-0.25_1.dat", "mkp")
    r = qr.minimize(p, "adam", 32, 300)
    rows.append(
        Ratio(
            "Chu-Beasley OR10x100-0.25_1",
            "best known",
            "23064",
            23064 / r.objective,
            *[23064 / r.objective] * 2,
            1 / 0.995,
        )
    )
    return rows


def million(progress: Progress) -> list[Ratio]:
    """A million variables, four million random pairs: seconds over the bar, peak memory over the matrix."""
    import resource

    n, m = 1_000_000, 4_000_000
    g = np.random.default_rng(0)
    i, j = g.integers(0, n, m, dtype=np.int32), g.integers(0, n, m, dtype=np.int32)
    v = g.choice([-1.0, 1.0], m)
    qr.Qubo.from_coo(10, np.arange(9), np.arange(1, 10), np.ones(9))
    _warm()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    build, q = _timed(lambda: qr.Qubo.from_coo(n, i, j, v))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    S = q.quadratic
    size = S.data.nbytes + S.indices.nbytes + S.indptr.nbytes
    qr.minimize(qr.Qubo([1.0], [[0.0]]), "anneal", 1, 1)
    t, r = _timed(lambda: qr.minimize(q, "anneal", 1, 100, progress=progress))
    assert r.certificate.status == "local_min"
    return [
        Ratio(f"build in {build:.1f} s", "4 s", "", build / 4, build / 4, build / 4, 1.0),
        Ratio(
            f"peak {peak / 1e6:.0f} MB over the inputs, matrix {size / 1e6:.0f} MB",
            "the matrix",
            "",
            *[peak / size] * 3,
            2.5,
        ),
        Ratio(f"100 anneal sweeps and all checks in {t:.1f} s", "8 s", "", t / 8, t / 8, t / 8, 1.0),
    ]


def _warm() -> None:
    from qubo_relax.assemble import symmetric_csr

    symmetric_csr(3, np.array([0], dtype=np.int32), np.array([1], dtype=np.int32), np.ones(1), np.zeros(3))


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("qubo-relax/pits", pits),
    Benchmark("qubo-relax/capacities", capacities),
    Benchmark("qubo-relax/knapsacks", knapsacks),
    Benchmark("qubo-relax/million", million),
)
