"""Warm starts: exact duals against peers' cold solves; duals of a similar problem and the network against our own."""

from contextlib import contextmanager

import numpy as np
from lap_warmstart import RowDuals, pricing, solve
from lap_warmstart.compare import peer
from lap_warmstart.dense import survey
from lap_warmstart.instances import generate
from lemmata_core.timing import Benchmark, Ratio, growth, paired

EXACT = (("uniform", 2000, 0.16, 0.14), ("uniform", 5000, None, 0.07), ("metric", 2000, None, 0.05))
NETWORK = ("uniform", "metric", "integers", "sparse", "lowrank_noise", "potentials")
SIMILAR = (("uniform", 0.45), ("metric", 0.2), ("lowrank_noise", 0.05))


def exact(progress):
    """Start from the optimal row duals."""
    run, version = peer("lapcpp")
    rows = []
    for name, n, bar, aim in progress.track(EXACT, "exact duals", len(EXACT)):
        cost = generate(name, n, 0)
        start = RowDuals(solve(cost).u)
        warm = lambda c=cost, s=start: solve(c, warm_start=s)  # noqa: E731
        t = paired(warm, lambda c=cost: run(c), repeats=5 if n < 5000 else 2)
        rows.append(Ratio.of(f"exact duals, {name}, n={n}", "lapcpp", version, t, bar, aim))
        minima = np.full(n, np.inf)
        t = paired(warm, lambda c=cost, v=minima: survey(c, v, 0, len(c)), repeats=9)
        speed = cost.nbytes / t.b_seconds / 1e9
        rows.append(Ratio.of(f"exact duals, {name}, n={n}", f"one pass over the costs ({speed:.1f} GB/s)", "", t))
    return rows


@contextmanager
def without_the_hard_rule():
    """Our core method as it would be without the seeds for hard problems."""
    held, pricing.HARD = pricing.HARD, 2.0
    try:
        yield
    finally:
        pricing.HARD = held


def plain(cost):
    """Solve cold without the seeds for hard problems."""
    with without_the_hard_rule():
        return solve(cost)


def similar(progress):
    """Start from the duals of a matrix that differs by 1 %, and from the network; the peer is our own cold solve."""
    rows = []
    for name, aim in progress.track(SIMILAR, "similar problems", len(SIMILAR)):
        cost = generate(name, 2000, 0)
        before = solve(cost)
        changed = cost * (1.0 + 0.01 * np.random.default_rng(1).standard_normal(cost.shape))
        t = paired(lambda c=changed, b=before: solve(c, warm_start=b), lambda c=changed: solve(c), repeats=7)
        rows.append(Ratio.of(f"1 % changed, {name}, n=2000", "our own cold solve", "", t, None, aim))
    for name in progress.track(NETWORK, "network", len(NETWORK)):
        cost = generate(name, 2048, 0)
        for word in ("net", "auto"):
            t = paired(lambda c=cost, w=word: solve(c, warm_start=w), lambda c=cost: solve(c), repeats=5)
            aim = 0.9 if (name, word) == ("lowrank_noise", "net") else None
            rows.append(Ratio.of(f'warm_start="{word}", {name}, n=2048', "our own cold solve", "", t, None, aim))
        if name in ("lowrank_noise", "potentials"):
            t = paired(lambda c=cost: solve(c, warm_start="net"), lambda c=cost: plain(c), repeats=3)
            aim = 0.3 if name == "lowrank_noise" else None
            rows.append(
                Ratio.of(f'warm_start="net", {name}, n=2048', "our core without hard-case seeds", "", t, None, aim)
            )
    return rows


def scaling(progress):
    """Fit the growth of the cold time; the ratio column holds the exponent."""
    import time

    rows = []
    for name, sizes, aim in (("uniform", (1000, 2000, 4000, 8000), 2.2), ("metric", (1000, 2000, 4000), 2.6)):
        seconds = []
        for n in progress.track(sizes, f"growth, {name}", len(sizes)):
            cost = generate(name, n, 0)
            solve(cost)
            taken = []
            for _ in range(3):
                begin = time.perf_counter()
                solve(cost)
                taken.append(time.perf_counter() - begin)
            seconds.append(float(np.median(taken)))
        fit = growth(sizes, seconds)
        rows.append(
            Ratio(
                f"exponent of n, {name}, n={sizes[0]}..{sizes[-1]}",
                "none",
                "",
                fit.exponent,
                fit.low,
                fit.high,
                None,
                aim,
            )
        )
    return rows


BENCHMARKS = (
    Benchmark("lap-warmstart/warm-exact", exact),
    Benchmark("lap-warmstart/warm-similar", similar),
    Benchmark("lap-warmstart/growth", scaling),
)
