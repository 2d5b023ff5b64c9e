"""A round, and the compiled loop, against PyOL and a bare numpy loop. PyOL sees no constraint; ours always does."""

from importlib.metadata import version

import numpy as np
from lemmata_core.executor import one_thread
from lemmata_core.timing import Benchmark, Ratio, growth, paired
from oco_anytime import AnytimeCOCO, domains, play_linear
from pyol.learning_rates import LearningRateSqrtSumSquareGrads
from pyol.oco import L2OptimisticOMD
from pyol.projections import ProjL2Ball, ProjSimplex

REPEATS = 15


def _setting(kind, d):
    domain = domains.Ball(d) if kind == "ball" else domains.Simplex(d)
    rng = np.random.default_rng(d)
    costs, rows = rng.standard_normal((2, 400, d)) / np.sqrt(d)
    peer = L2OptimisticOMD(
        d,
        x0=np.zeros(d) if kind == "ball" else np.full(d, 1.0 / d),
        lr_handler=LearningRateSqrtSumSquareGrads(eta0=domain.diameter / np.sqrt(2.0)),
        proj_handler=ProjL2Ball() if kind == "ball" else ProjSimplex(),
    )
    return domain, costs, rows, peer


def _peer_rounds(peer, costs):
    def rounds():
        for c in costs:
            peer.predict()
            peer.update(c)

    return rounds


def _bare_rounds(kind, domain, costs, rows):
    """The shortest numpy loop that does as much: weighted violation, AdaGrad-norm step, projection; no checks."""
    x, h, scale = domain.center(), 0.0, domain.diameter / np.sqrt(2.0)
    ranks = np.arange(1, domain.dim + 1)

    def rounds():
        nonlocal x, h
        for c, a in zip(costs, rows):
            g = c + 0.1 * a
            h += g @ g
            y = x - scale / np.sqrt(h) * g
            if kind == "ball":
                x = y * min(1.0, 1.0 / np.sqrt(y @ y))
            else:
                s = np.sort(y)[::-1].cumsum() - 1.0
                x = np.maximum(y - (s / ranks).max(), 0.0)

    return rounds


@one_thread()
def step(progress):
    """Predict + update with a violation every round, checks on."""
    out = []
    cases = [(kind, d) for kind in ("ball", "simplex") for d in (10, 100, 1000)]
    for kind, d in progress.track(cases, "a round"):
        domain, costs, rows, peer = _setting(kind, d)
        learner = AnytimeCOCO(domain)

        def ours(learner=learner, costs=costs, rows=rows):
            for c, a in zip(costs, rows):
                learner.predict()
                learner.update(c, 0.1, a)

        timing = paired(ours, _peer_rounds(peer, costs), repeats=REPEATS, warmup=2)
        bar = 0.6 if kind == "ball" else 0.5
        out.append(Ratio.of(f"round, {kind}, d={d}", "PyOL L2OptimisticOMD", version("pyol"), timing, bar, bar))
        timing = paired(ours, _bare_rounds(kind, domain, costs, rows), repeats=REPEATS, warmup=2)
        aim = 1.5 if kind == "ball" else 0.7
        out.append(Ratio.of(f"round, {kind}, d={d}", "bare numpy loop", version("numpy"), timing, None, aim))
    return out


@one_thread()
def loop(progress):
    """play_linear, per round, against PyOL's predict + update."""
    out = []
    cases = [(kind, d) for kind in ("ball", "simplex") for d in (10, 100)]
    for kind, d in progress.track(cases, "the compiled loop"):
        domain, costs, rows, peer = _setting(kind, d)
        many = np.tile(costs, (250, 1)), np.tile(rows, (250, 1)), np.full(100_000, -0.1)
        few = np.tile(costs, (10, 1))
        learner = AnytimeCOCO(domain)
        # ours plays 25 times as many rounds
        timing = paired(
            lambda learner=learner, many=many: play_linear(learner, *many, record="light"),
            _peer_rounds(peer, few),
            repeats=REPEATS,
            warmup=1,
        )
        ratio, low, high = (r / 25.0 for r in (timing.ratio, timing.low, timing.high))
        limit = 1 / 40 if d == 10 else 1 / 10
        bar = limit if d == 10 else None
        name = f"play_linear, {kind}, d={d}, a round"
        out.append(Ratio(name, "PyOL L2OptimisticOMD", version("pyol"), ratio, low, high, bar, limit))
    return out


@one_thread()
def scaling(progress):
    """Exponent of play_linear's time in T, as a ratio to linear growth."""
    sizes = [50_000, 100_000, 200_000, 400_000, 800_000]
    rng = np.random.default_rng(0)
    costs, rows = rng.standard_normal((2, sizes[-1], 10))
    seconds = []
    for n in progress.track(sizes, "growth"):
        runs = []
        for _ in range(5):
            learner = AnytimeCOCO(domains.Ball(10))
            run = play_linear(learner, costs[:n], rows[:n], np.zeros(n), record="light")
            runs.append(run.wall_time)
        seconds.append(min(runs))
    g = growth(sizes, seconds)
    return [Ratio("exponent of time in T, 5e4 to 8e5", "linear growth", "1.0", g.exponent, g.low, g.high, None, 1.05)]


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("oco-anytime/round", step),
    Benchmark("oco-anytime/loop", loop),
    Benchmark("oco-anytime/growth", scaling),
)
