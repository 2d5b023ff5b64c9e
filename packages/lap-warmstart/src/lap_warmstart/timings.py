"""Timed runs of the claims: end to end against the classical method, SciPy and our own cold start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from lemmata_core import Context, Evidence, Scale, Table

from lap_warmstart import instances
from lap_warmstart.solve import solve
from lap_warmstart.trials import Row, classical, garbage, geometric, seeds
from lap_warmstart.warm import RowDuals

# Seconds at which the classical method is stopped, and after which a variant is not timed again.
LIMIT = 2.0
ENOUGH = 1.0


def variants(cost: Any, repeats: int) -> dict[str, float]:
    """Time SciPy, classical, budgeted, core cold and network in turn; return the medians in seconds.

    A variant that took more than a second in all is not timed again. The classical method is stopped at two seconds.
    """
    from scipy.optimize import linear_sum_assignment

    calls: dict[str, Any] = {
        "scipy": lambda: linear_sum_assignment(cost),
        "classical": lambda: classical(cost, seconds=LIMIT),
        "budgeted": lambda: solve(cost, method="dense"),
        "core": lambda: solve(cost),
        "network": lambda: solve(cost, warm_start="net"),
        "auto": lambda: solve(cost, warm_start="auto"),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    predicting = []
    for k in range(repeats + 1):
        for name, call in calls.items():
            if sum(taken[name]) > ENOUGH:
                continue
            begin = time.perf_counter()
            r = call()
            seconds = time.perf_counter() - begin
            # The first run warms caches up, unless it is long enough not to be repeated.
            if k or seconds > ENOUGH:
                taken[name].append(seconds)
                if name == "network":
                    predicting.append(r.stats.predict_time)
    return {name: float(np.median(t)) for name, t in taken.items()} | {"predict": float(np.median(predicting))}


VARIANTS = ("scipy", "classical", "budgeted", "core", "network", "auto")
TIMES = ("scipy ms", "classical ms (stopped at 2 s)", "budgeted ms", "our core ms", "network ms", "auto ms")
RATIOS = ("classical / network", "budgeted / network", "core / network", "scipy / network")


def timed_rows(ctx: Context, problems: Sequence[tuple[str, Any]], repeats: int) -> list[Row]:
    """Time the variants on named problems."""
    rows = []
    with ctx.progress.task("timing", total=len(problems)) as shown:
        for name, make in problems:
            cost = make()
            t = variants(cost, repeats)
            rows.append(
                (
                    name, cost.shape[0], *(round(1e3 * t[k], 3) for k in VARIANTS),
                    t["classical"] / t["network"], t["budgeted"] / t["network"], t["core"] / t["network"],
                    t["scipy"] / t["network"],
                    t["predict"] / t["network"],
                )
            )  # fmt: skip
            shown.advance()
    return rows


def end_to_end(ctx: Context, problems: Sequence[tuple[str, Any]], repeats: int, statistic: Any, word: str) -> Evidence:
    """Compare end-to-end times on named problems; the claim reads the speed-up over the classical method."""
    rows = timed_rows(ctx, problems, repeats)
    over_classical, budgeted, core, peer = (float(statistic([row[k] for row in rows])) for k in (8, 9, 10, 11))
    columns = ("problem", "n", *TIMES, *RATIOS, "share of the prediction")
    return Evidence(
        headline=f"{over_classical:.2f}x of the classical method ({word}), {budgeted:.2f}x of the budgeted one, "
        f"{peer:.2f}x of SciPy, {core:.2f}x of our own core cold",
        values={"classical": over_classical, "budgeted": budgeted, "core": core, "scipy": peer},
        tables=(Table("End to end: features, network, Min-Trick, solve", columns, rows, timed=columns[2:]),),
        settings={"problems": [name for name, _ in problems], "repeats": repeats, "threads": 1},
        timed=frozenset({"classical", "budgeted", "core", "scipy", "headline"}),
    )


def _named(family: str, n: int, seed: int) -> tuple[str, Any]:
    return family, lambda: instances.generate(family, n, seed)


def synthetic(ctx: Context) -> Evidence:
    """Run claim C4."""
    sizes = (2048, 4096) if ctx.scale is Scale.LAPTOP else (16384,)
    names = ("uniform", "block", "metric", "integers", "sparse", "lowrank_noise")
    draws = iter(seeds(ctx, 8))
    problems = [_named(f, n, next(draws)) for n in sizes for f in names if n == 2048 or f in ("uniform", "block")]
    return end_to_end(ctx, problems, 5, geometric, "geometric mean")


def tracking(ctx: Context) -> Evidence:
    """Run claim C5."""
    n = 2000 if ctx.scale is Scale.LAPTOP else 8000
    problems = [
        (f"{name}, tiled", lambda name=name: instances.tiled_frames(n, name))
        for name in ("TUD-Campus", "TUD-Stadtmitte")
    ]
    return end_to_end(ctx, problems, 5, np.median, "median")


def transport(ctx: Context) -> Evidence:
    """Run claim C6."""
    n = 2000 if ctx.scale is Scale.LAPTOP else 10000
    a, b, c = seeds(ctx, 3)
    problems = [
        ("real streets", instances.street),
        ("cities", lambda: instances.cities(n, a)),
        ("cities, another draw", lambda: instances.cities(n, b)),
        ("synthetic roads", lambda: instances.road(n, c)),
    ]
    return end_to_end(ctx, problems, 5, np.median, "median")


def overhead(ctx: Context) -> Evidence:
    """Run claim C8: the share of prediction in an end-to-end solve, by the dense method as in the paper."""
    sizes = (1024, 2048, 4096) if ctx.scale is Scale.LAPTOP else (4096, 8192, 16384)
    rows = []
    for n in sizes:
        cost = instances.generate("uniform", n, seeds(ctx, 1)[0])
        shares: dict[str, list[float]] = {"dense": [], "core": []}
        for _ in range(4):
            for method, found in shares.items():
                r = solve(cost, method=method, warm_start="net")
                found.append(r.stats.predict_time / r.wall_time)
        rows.append((n, float(np.median(shares["dense"][1:])), float(np.median(shares["core"][1:]))))
    columns = ("n", "share, dense method", "share, core method")
    return Evidence(
        headline=f"features and network take {rows[-1][1]:.0%} of a dense solve at n = {rows[-1][0]}",
        values={"first": rows[0][1], "last": rows[-1][1], "n": rows[-1][0], "last of core": rows[-1][2]},
        tables=(Table("Share of the prediction, uniform costs", columns, rows, timed=columns[1:]),),
        settings={"sizes": sizes},
        timed=frozenset({"first", "last", "last of core", "headline"}),
    )


def against_cold(cost: Any, start: RowDuals, repeats: int, limit: float = LIMIT) -> tuple[float, str, float, str]:
    """Time both fallback rules against the cold start, in turn; return (ratio, seed) of each.

    A ratio is the median over the rounds, each with its own cold time. A rule is left out of further rounds once it has
    taken `limit` seconds, since the density rule can take as long for one solve.
    """
    ratios: dict[str, list[float]] = {"bound": [], "density": []}
    spent = dict.fromkeys(ratios, 0.0)
    seed = dict.fromkeys(ratios, "")
    for _ in range(repeats):
        begin = time.perf_counter()
        solve(cost)
        cold = time.perf_counter() - begin
        for rule, found in ratios.items():
            if spent[rule] > limit:
                continue
            begin = time.perf_counter()
            r = solve(cost, warm_start=start, fallback=rule)
            seconds = time.perf_counter() - begin
            spent[rule] += seconds
            found.append(seconds / cold)
            seed[rule] = r.stats.seed
    return float(np.median(ratios["bound"])), seed["bound"], float(np.median(ratios["density"])), seed["density"]


def fallback(ctx: Context) -> Evidence:
    """Run claim C9: garbage seeds against the cold start."""
    n = {Scale.SMOKE: 512, Scale.LAPTOP: 2048, Scale.FULL: 16384}[ctx.scale]
    repeats, limit = (15, 0.1) if ctx.scale is Scale.SMOKE else (9, LIMIT)
    rows: list[tuple[Any, ...]] = []
    for family in ("uniform", "metric"):
        rng = np.random.default_rng(seeds(ctx, 1)[0])
        cost = instances.generate(family, n, rng)
        for kind in ("normal", "large", "row minima"):
            start = RowDuals(garbage(kind, cost, rng))
            for rule in ("bound", "density"):
                # Compiles the kernels that only this path needs.
                solve(cost[:256, :256].copy(), warm_start=RowDuals(start.u[:256]), fallback=rule)  # type: ignore[index]
            rows.append((family, n, kind, *against_cold(cost, start, repeats, limit)))
    worst_bound, worst_density = (max(row[k] for row in rows) for k in (3, 5))
    columns = ("family", "n", "prediction", "bound / cold", "seed (bound)", "density / cold", "seed (density)")
    return Evidence(
        headline=f"with useless predictions at most {worst_bound:.2f}x the cold time by the bound rule, "
        f"{worst_density:.2f}x by the paper's density rule",
        values={"bound": worst_bound, "density": worst_density},
        tables=(Table("Useless predictions", columns, rows, timed=("bound / cold", "density / cold")),),
        settings={"n": n, "repeats": repeats},
        timed=frozenset({"bound", "density", "headline"}),
    )


def stability(ctx: Context) -> Evidence:
    """Run claim C10: the spread of run times over instances."""
    n, count = (2048, 30) if ctx.scale is Scale.LAPTOP else (16384, 30)
    names = ("uniform", "integers")
    taken: dict[str, list[float]] = {"classical": [], "network": []}
    with ctx.progress.task("instances", total=count) as shown:
        for k, seed in enumerate(seeds(ctx, count)):
            cost = instances.generate(names[k % 2], n, seed)
            for name, options in (
                ("classical", {"method": "lapjv"}),
                ("network", {"method": "dense", "warm_start": "net"}),
            ):
                begin = time.perf_counter()
                solve(cost, **options)  # type: ignore[arg-type]
                taken[name].append(time.perf_counter() - begin)
            shown.advance()

    def spread(times: Sequence[float]) -> float:
        return float(np.std(times) / np.mean(times))

    rows = [
        (family, *(spread(taken[name][k::2]) for name in ("classical", "network"))) for k, family in enumerate(names)
    ]
    values = {name: float(np.mean([row[1 + k] for row in rows])) for k, name in enumerate(("classical", "network"))}
    columns = ("family", "classical", "network")
    return Evidence(
        headline=f"coefficient of variation {values['classical']:.0%} (classical), {values['network']:.0%} (network)",
        values=values,
        tables=(Table("Coefficient of variation of the run time, by family", columns, rows, timed=columns[1:]),),
        settings={"n": n, "instances": count},
        timed=frozenset({"classical", "network", "headline"}),
    )
