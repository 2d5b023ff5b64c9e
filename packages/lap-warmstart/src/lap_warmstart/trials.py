"""Runs of the claims. Tasks are top-level functions of plain values; what they draw depends on their seed alone."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from lemmata_core import Context, Evidence, Scale, Series, Table
from lemmata_core.timing import growth

from lap_warmstart import dense, instances, predict
from lap_warmstart.certificate import certify
from lap_warmstart.passes import survey
from lap_warmstart.problem import prepare
from lap_warmstart.result import AssignmentResult
from lap_warmstart.rowdualnet import RowDualNet, bundled
from lap_warmstart.run import Run
from lap_warmstart.solve import solve
from lap_warmstart.warm import RowDuals

Row = tuple[Any, ...]


def seeds(ctx: Context, count: int) -> list[int]:
    """Draw seeds for tasks."""
    return [int(s) for s in ctx.rng.integers(0, 2**31, count)]


def run_tasks(ctx: Context, what: str, function: Any, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run tasks on the context's executor, in order, showing progress."""
    # The kernels are compiled here once, so that the workers find them in the cache instead of compiling all at a time.
    for method in ("core", "dense"):
        solve(np.eye(32), method=method, warm_start=np.zeros(32))
    results = []
    with ctx.progress.task(what, total=len(tasks)) as shown:
        for result in ctx.executor.map(function, *zip(*tasks)):
            results.append(result)
            shown.advance()
    return results


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-300)))))


def garbage(kind: str, cost: Any, rng: np.random.Generator) -> Any:
    """Return row duals that are wrong in a named way."""
    n = cost.shape[0]
    if kind == "normal":
        return rng.standard_normal(n)
    if kind == "large":
        return 100.0 * rng.standard_normal(n)
    if kind == "row minima":
        return cost.min(axis=1)
    if kind == "one huge":
        return np.where(np.arange(n) == n // 2, 1e12, 0.0)
    return bundled().predict(cost)


KINDS = ("normal", "large", "row minima", "one huge", "network")


def feasibility(family: str, n: int, seed: int) -> list[Row]:
    """Measure the worst violation of Min-Trick duals for each kind of prediction."""
    rng = np.random.default_rng(seed)
    cost = instances.generate(family, n, rng)
    rows = []
    for kind in KINDS:
        u = np.asarray(garbage(kind, cost, rng))
        v = predict.min_trick(cost, u)
        violation = max(0.0, float(((u[:, None] + v) - cost).max()))
        scale = max(1.0, float(np.abs(cost).max()), float(np.abs(u).max()))
        rows.append((family, n, kind, violation, violation / scale))
    return rows


def feasible(ctx: Context) -> Evidence:
    """Run claim C1."""
    sizes = {Scale.SMOKE: (16, 64), Scale.LAPTOP: (512, 2000), Scale.FULL: (2000, 16384)}[ctx.scale]
    names = ("uniform", "metric", "lowrank_noise", "potentials")
    draws = seeds(ctx, len(names) * len(sizes))
    tasks = [(f, n, draws[k * len(sizes) + j]) for k, f in enumerate(names) for j, n in enumerate(sizes)]
    rows = [row for part in run_tasks(ctx, "Min-Trick", feasibility, tasks) for row in part]
    worst = max(row[4] for row in rows)
    return Evidence(
        headline=f"worst violation {worst:.1e} of max(1, |C|, |u|) over {len(rows)} predictions",
        values={"worst": worst, "predictions": len(rows)},
        tables=(Table("Violation of dual constraints", ("family", "n", "prediction", "violation", "relative"), rows),),
        settings={"sizes": sizes, "families": names, "kinds": KINDS},
    )


def exactness(first: int, count: int, seed: int, top: int) -> Row:
    """Solve instances with garbage and network seeds, compare with SciPy; return (instances, failures, worst gap)."""
    from scipy.optimize import linear_sum_assignment

    failures, worst, names = 0, 0.0, sorted(instances.FAMILIES)
    for k in range(first, first + count):
        rng = np.random.default_rng([seed, k])
        family, kind = names[k % len(names)], KINDS[k % len(KINDS)]
        cost = instances.generate(family, int(rng.integers(40, top)), rng)
        rows, columns = linear_sum_assignment(cost)
        expected = math.fsum(cost[rows, columns])
        method = ("auto", "core", "dense")[k % 3]
        r = solve(cost, warm_start=RowDuals(garbage(kind, cost, rng)), fallback="none", method=method)
        gap = abs(r.objective - expected)
        # Integers have to agree exactly, floats up to the rounding of a sum.
        allowed = 0.0 if family in ("integers", "rounded_metric") else 1e-12 * max(1.0, abs(expected))
        failures += gap > allowed or not certify(cost, r).optimal
        worst = max(worst, gap / max(1.0, abs(expected)))
    return count, failures, worst


def exact(ctx: Context) -> Evidence:
    """Run claim C2."""
    total, top = {Scale.SMOKE: (50, 120), Scale.LAPTOP: (500, 400), Scale.FULL: (5000, 600)}[ctx.scale]
    seed = seeds(ctx, 1)[0]
    tasks = [(k, min(10, total - k), seed, top) for k in range(0, total, 10)]
    parts = run_tasks(ctx, "exactness", exactness, tasks)
    count, failures, worst = sum(p[0] for p in parts), sum(p[1] for p in parts), max(p[2] for p in parts)
    return Evidence(
        headline=f"{count - failures} of {count} instances optimal; worst relative difference to SciPy {worst:.1e}",
        values={"instances": count, "failures": failures, "worst": worst},
        tables=(
            Table("Against SciPy", ("instances", "failures", "worst relative difference"), [(count, failures, worst)]),
        ),
        settings={"sizes": (40, top), "families": sorted(instances.FAMILIES), "predictions": KINDS},
    )


def classical(cost: Any, *, scans: float = math.inf, seconds: float = math.inf) -> tuple[float, int, float]:
    """Run the classical method up to a limit; return (seconds, row scans, greedy share).

    With float costs its row reduction can make millions of scans ("price wars": 2.6 to 10.6 million on Euclidean costs
    at n = 512). A run that reaches a limit is stopped, so that the figures are lower bounds of the classical effort.
    """
    begin = time.perf_counter()
    p = prepare(np.asarray(cost, dtype=np.float64), maximize=False, gate=math.inf)
    _, minima, _ = survey(p)
    n = p.c.shape[0]
    run = Run.start(p, minima)
    dense.column_reduction(p.c, run.v, run.x, run.y)
    share = float(np.count_nonzero(run.x >= 0)) / n
    rows, state, buffer = np.empty(n, dtype=np.int64), np.zeros(5, dtype=np.int64), np.empty(n)
    state[3] = dense.free_rows(run.x, rows)
    step = max(8, 20_000_000 // n)

    def over(done: int) -> bool:
        return done >= scans or time.perf_counter() - begin >= seconds

    while not dense.row_reduction(p.c, run.v, run.x, run.y, rows, state, 2**62, math.inf, True, buffer, step):
        if over(int(state[4])):
            return time.perf_counter() - begin, int(state[4]), share
    done, at, total = int(state[4]), 0, int(state[2])
    while at < total and not over(done):
        at, more, _ = dense.search(p.c, run.v, run.x, run.y, rows, at, total, math.inf, step)
        done += more
    return time.perf_counter() - begin, done, share


def effort(family: str, n: int, seed: int) -> Row:
    """Count row scans: classical (stopped at 1000 n), budgeted cold, network, all by the dense method."""
    cost = instances.generate(family, n, seed)
    _, scans, share = classical(cost, scans=1000 * n)
    budgeted = solve(cost, method="dense").stats
    net = solve(cost, method="dense", warm_start="net").stats
    ratio = net.row_scans / max(scans, 1)
    return family, n, scans, budgeted.row_scans, net.row_scans, ratio, share, net.greedy_fraction


EFFORT_COLUMNS = (
    "family", "n", "classical scans", "budgeted scans", "network scans", "network / classical", "classical greedy",
    "network greedy",
)  # fmt: skip


def search_effort(ctx: Context) -> Evidence:
    """Run claim C3."""
    sizes = {Scale.SMOKE: (512,), Scale.LAPTOP: (1024, 2048), Scale.FULL: (2048, 16384)}[ctx.scale]
    names = ("uniform", "metric", "lowrank_noise")
    draws = seeds(ctx, 6)
    tasks = [(f, n, draws[2 * k + j]) for k, f in enumerate(names) for j, n in enumerate(sizes)]
    rows = run_tasks(ctx, "row scans", effort, tasks)
    worst = max(row[5] for row in rows)
    share = float(np.mean([row[7] for row in rows]))
    return Evidence(
        headline=f"row scans at most {worst:.2f} of the classical method's; greedy share {share:.2f}",
        values={"worst": worst, "greedy": share} | {f"{r[0]} {r[1]}": r[5] for r in rows},
        tables=(Table("Row scans of the dense method", EFFORT_COLUMNS, rows),),
        settings={"sizes": sizes, "families": names, "network": bundled().record.get("seed")},
    )


def memory(ctx: Context) -> Evidence:
    """Run claim C7: the peak that the prediction adds to the matrix."""
    sizes = {
        Scale.SMOKE: (256, 512, 1024),
        Scale.LAPTOP: (512, 1024, 2048, 4096),
        Scale.FULL: (2048, 4096, 8192, 16384),
    }
    rows = []
    net = bundled()
    for n in sizes[ctx.scale]:
        cost = np.random.default_rng(n).random((n, n))
        minima = cost.min(axis=0)
        net.predict_rows(cost, minima)
        tracemalloc.start()
        net.predict_rows(cost, minima)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append((n, peak / 1e6, peak / n, cost.nbytes / 1e6))
    fit = growth([r[0] for r in rows], [r[1] for r in rows])
    columns = ("n", "peak MB", "bytes a row", "matrix MB")
    return Evidence(
        headline=f"peak memory of the prediction grows as n^{fit.exponent:.2f}",
        values={"exponent": fit.exponent},
        tables=(Table("Peak memory of features and network", columns, rows, timed=("peak MB", "bytes a row")),),
        series=(Series("Peak memory", "n", "MB", {"peak": ([r[0] for r in rows], [r[1] for r in rows])}, True, True),),
        settings={"sizes": sizes[ctx.scale]},
        timed=frozenset({"exponent", "headline", "Peak memory"}),
    )


def ablation_task(family: str, n: int, seed: int) -> Row:
    """Count the row scans of the dense method from simple predictors and from the network, no fallback."""
    rng = np.random.default_rng(seed)
    linear = predict.LinearRow.fit([instances.generate(family, min(n, 512), rng) for _ in range(2)])
    cost = instances.generate(family, n, rng)
    starts: dict[str, Any] = {
        "network": "net", "linear": linear, "row mean": predict.RowMean(), "row minimum": predict.RowMin(),
        "random": RowDuals(rng.random(n) * float(cost.mean())),
    }  # fmt: skip
    cold = solve(cost, method="dense").stats.row_scans
    scans = [solve(cost, method="dense", warm_start=s, fallback="none").stats.row_scans for s in starts.values()]
    return family, n, cold, *scans


def ablation(ctx: Context) -> Evidence:
    """Run claim C11."""
    n = {Scale.SMOKE: 512, Scale.LAPTOP: 2048, Scale.FULL: 8192}[ctx.scale]
    tasks = [(f, n, s) for f, s in zip(("uniform", "metric"), seeds(ctx, 2))]
    rows = run_tasks(ctx, "predictors", ablation_task, tasks)
    names = ("linear", "row mean", "row minimum", "random")
    values = {name: geometric([row[4 + k] / row[3] for row in rows]) for k, name in enumerate(names)}
    best = min(values, key=values.__getitem__)
    return Evidence(
        headline=f"the best simple predictor ({best}) needs {values[best]:.1f} times the network's row scans",
        values=values,
        tables=(Table("Row scans from a prediction", ("family", "n", "cold (budgeted)", "network", *names), rows),),
        settings={"n": n, "linear model": "fitted to two instances of the same family, n <= 512"},
    )


def unseen(path: str, family: str, n: int, seed: int) -> Row:
    """Compare the network of `path` (the bundled one if empty) with the classical method on a family."""
    net = RowDualNet.load(path) if path else bundled()
    cost = instances.generate(family, n, seed)
    _, scans, _ = classical(cost, scans=1000 * n)
    budgeted = solve(cost, method="dense").stats.row_scans
    r: AssignmentResult = solve(cost, method="dense", warm_start=net)
    return family, n, scans, budgeted, r.stats.row_scans, r.stats.row_scans / max(scans, 1), r.stats.seed


def zero_shot(ctx: Context) -> Evidence:
    """Run claim C12: networks trained without one family, tried on it; at smoke scale the bundled network only."""
    names = ("uniform", "metric", "lowrank_noise")
    draws = seeds(ctx, 8)
    tasks: list[tuple[Any, ...]] = []
    if ctx.scale is Scale.SMOKE:
        tasks = [("", family, 512, draws[k]) for k, family in enumerate(("integers", "rounded_metric"))]
    else:
        from lap_warmstart.train import train

        small = ctx.scale is Scale.LAPTOP
        sizes, count, epochs, n = ((256, 512), 24, 8, 1024) if small else ((512, 1024, 2048, 3072), 180, 35, 16384)
        pool = ("uniform", "metric", "lowrank_noise", "potentials", "sparse", "block")
        for k, left_out in enumerate(names):
            out = Path(ctx.workdir) / f"without-{left_out}.npz"
            if not out.exists() or out.with_suffix(".checkpoint.pt").exists():
                families = [f for f in pool if f != left_out]
                train(families, sizes, count, epochs=epochs, rng=draws[k] % 1000, out=out, progress=ctx.progress)
            tasks.append((str(out), left_out, n, draws[3 + k]))
    rows = list(starmap(unseen, tasks))
    worst = max(row[5] for row in rows)
    columns = (
        "unseen family",
        "n",
        "classical scans",
        "budgeted scans",
        "network scans",
        "network / classical",
        "seed",
    )
    return Evidence(
        headline=f"on unseen families at most {worst:.2f} of the classical row scans",
        values={"worst": worst} | {row[0]: row[5] for row in rows},
        tables=(Table("Families that the network was not trained on", columns, rows),),
        settings={"scale": str(ctx.scale), "bundled network": ctx.scale is Scale.SMOKE},
    )
