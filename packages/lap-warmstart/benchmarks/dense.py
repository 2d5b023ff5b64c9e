"""Cold solves of square and rectangular matrices, batches and growth, against every peer that is exact."""

import time

import numpy as np
from lap_warmstart import linear_sum_assignment, solve, solve_batch
from lap_warmstart.compare import peer, value
from lap_warmstart.instances import generate, tracking
from lemmata_core.timing import Benchmark, PairedTiming, Ratio, paired
from scipy.spatial.distance import cdist


def zeros(per_row):
    """0/1 costs with a given mean number of zeros a row."""
    return lambda n, seed: (np.random.default_rng(seed).random((n, n)) > per_row / n).astype(float)


def below(top):
    """Integers from 0 to top - 1."""
    return lambda n, seed: np.random.default_rng(seed).integers(0, top, (n, n)).astype(float)


def product(n, _seed):
    """Machol and Wien's i * j."""
    k = np.arange(1.0, n + 1)
    return np.outer(k, k)


def family(name):
    """A family of `lap_warmstart.instances`."""
    return lambda n, seed: generate(name, n, seed)


# (case, make, n, seeds, bar, aim, peers). The first peer is the one that may win; it gets every seed, the others one.
ALL = ("lapcpp", "scipy", "lapx", "fastlap")
FAST = ("lapcpp", "lapx")  # the others are an order of magnitude behind on these
SQUARE = [
    ("uniform", family("uniform"), 2000, 3, 0.35, 0.30, ALL),
    ("uniform", family("uniform"), 5000, 1, 0.20, 0.16, ("lapcpp",)),
    ("uniform", family("uniform"), 10000, 1, None, 0.18, ("lapcpp",)),
    ("Euclidean", family("metric"), 2000, 4, 0.25, 0.22, ("lapcpp", "scipy")),
    ("Euclidean", family("metric"), 5000, 1, None, 0.15, ("lapcpp",)),
    ("integers 0..1e6", family("integers"), 2000, 2, 0.35, 0.35, (*ALL, "ortools")),
    ("additive potentials", family("potentials"), 2000, 1, 0.06, 0.06, ("lapcpp",)),
    ("block", family("block"), 2000, 3, 0.8, 0.8, ALL),
    ("block", family("block"), 5000, 1, None, 0.8, ("lapcpp",)),
    ("low-rank, clipped", family("lowrank"), 2000, 3, 0.8, 0.8, FAST),
    ("0/1, half zeros", below(2), 2000, 3, 0.8, 0.8, FAST),
    ("integers 0..4", below(5), 2000, 3, 0.8, 0.8, FAST),
    ("integers 0..99", below(100), 2000, 3, 1.7, 1.5, FAST),
    ("0/1, 8 zeros a row", zeros(8), 2000, 3, 1.7, 1.5, FAST),
    ("square 1 - IoU", tracking, 2000, 4, 4.0, 2.5, ("lapcpp", "scipy", "lapx")),
    ("i * j", product, 500, 1, None, 1.2, ("lapcpp",)),
    ("i * j", product, 1000, 1, None, 1.2, ("lapcpp",)),
]
# Seconds of measurement a peer gets in a case, all seeds together.
BUDGET = 4.0


def against(case, cost, name, seconds):
    """Time a peer against ours on one matrix within about `seconds`; objectives must agree."""
    run, _ = peer(name)
    ours = solve(cost).objective
    begin = time.perf_counter()
    theirs = value(cost, run(cost))
    taken = time.perf_counter() - begin
    if abs(ours - theirs) > 1e-9 * max(1.0, abs(ours)):
        raise RuntimeError(f"{case}: {name} finds {theirs!r}, ours is {ours!r}")
    repeats = int(np.clip(seconds / max(1.2 * taken, 1e-6), 1, 9))
    return paired(lambda: solve(cost), lambda: run(cost), repeats=repeats, warmup=0)


def best_of(case, costs, peers, bar, aim):
    """Time each peer against ours on the same matrices; the bar and the aim are put on the fastest peer."""
    found = []
    for name in peers:
        chosen = costs if name == peers[0] else costs[:1]
        timings = [against(case, cost, name, BUDGET / len(chosen)) for cost in chosen]
        found.append((name, peer(name)[1], _middle(timings)))
    fastest = max(found, key=lambda f: f[2].ratio)[0]
    return [
        Ratio.of(case, name, version, t, bar if name == fastest else None, aim if name == fastest else None)
        for name, version, t in found
    ]


def _middle(timings):
    """Return the median timing over seeds, with the widest quartiles."""
    middle = sorted(timings, key=lambda t: t.ratio)[len(timings) // 2]
    return PairedTiming(
        float(np.median([t.ratio for t in timings])), min(t.low for t in timings), max(t.high for t in timings),
        middle.a_seconds, middle.b_seconds, middle.n,
    )  # fmt: skip


def square(progress):
    """Every square case."""
    rows = []
    for case, make, n, seeds, bar, aim, peers in progress.track(SQUARE, "square", len(SQUARE)):
        rows += best_of(f"{case}, n={n}", [make(n, seed) for seed in range(seeds)], peers, bar, aim)
    return rows


def rectangular(progress):
    """Rectangular cases."""
    rows = []
    rng = np.random.default_rng(0)
    cases = [
        ("uniform 1000x1200", rng.random((1000, 1200)), 0.8),
        ("Euclidean 1000x1200", cdist(rng.random((1000, 2)), rng.random((1200, 2))), 0.3),
        ("uniform 1000x3000", rng.random((1000, 3000)), 1.3),
    ]
    run, version = peer("lapcpp")
    for case, cost, aim in progress.track(cases, "rectangular", len(cases)):
        t = paired(lambda c=cost: solve(c), lambda c=cost: run(c), repeats=7)
        rows.append(Ratio.of(case, "lapcpp", version, t, None, aim))
    for shape in ((1200, 1000), (3000, 1000), (5000, 4000)):
        cost = rng.random(shape)
        t = paired(lambda c=cost: solve(c), lambda c=cost: solve(np.ascontiguousarray(c.T)), repeats=7)
        rows.append(Ratio.of(f"uniform {shape[0]}x{shape[1]}, C-ordered", "turned first", "", t, None, 1.0))
    return rows


def calls(progress):
    """Single calls of small matrices, and batches; microseconds of ours stand in the case."""
    import lapcpp

    rows = []
    version = peer("lapcpp")[1]
    for n, aim in progress.track(((10, None), (30, 1.5), (100, 1.3)), "calls", 3):
        cost = np.random.default_rng(n).random((n, n))
        k = 20_000 // n

        def many(function, cost=cost, k=k):
            for _ in range(k):
                function(cost)

        for function, limit in ((linear_sum_assignment, 3.0), (solve, 10.0)):
            t = paired(lambda f=function: many(f), lambda: many(lapcpp.lapjv), repeats=9)
            us = 1e6 * t.a_seconds / k
            name = f"{function.__name__} n={n} ({us:.1f} us)"
            rows.append(Ratio.of(name, "lapcpp", version, t, None, aim if limit == 3.0 else None))
            if n == 10:
                share = us / limit
                rows.append(Ratio(f"{name} over its limit", f"{limit:.0f} us", "", share, share, share, 1.0))
    for shape in ((64, 100, 100), (1000, 30, 30)):
        stack = np.random.default_rng(0).random(shape)
        t = paired(lambda s=stack: solve_batch(s), lambda s=stack: lapcpp.lapjv_batch(s), repeats=9)
        rows.append(Ratio.of(f"batch {shape}", "lapcpp batch", version, t, None, 1.1))
    return rows


BENCHMARKS = (
    Benchmark("lap-warmstart/square", square),
    Benchmark("lap-warmstart/rectangular", rectangular),
    Benchmark("lap-warmstart/calls", calls),
)
