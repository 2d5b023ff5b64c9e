"""Runs behind the claims about static regret: anytime CCV and regret, no horizon, budgeted, clean bounds."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import Evidence, Scale, Series, Table

from oco_anytime import baselines
from oco_anytime.certificate import ccv_bound, static_regret_bound
from oco_anytime.environments.streams import Stream
from oco_anytime.hindsight import _generate
from oco_anytime.hindsight_solvers import solver
from oco_anytime.learner import AnytimeCOCO
from oco_anytime.run import log_checkpoints
from oco_anytime.runner import play, play_linear
from oco_anytime.schedules import summable_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lemmata_core import Context

    from oco_anytime.run import Run

HOSTILE = ("opposed", "flip", "random")
LINES = ("paper", "fixed horizon", "doubling", "summable", "budgeted")
D = 2.0


def rounds_of(ctx: Context) -> int:
    """T of the static claims."""
    return {Scale.SMOKE: 20_000, Scale.LAPTOP: 1_000_000, Scale.FULL: 10_000_000}[ctx.scale]


def seeds_of(ctx: Context, n: int) -> list[int]:
    """N seeds from the claim's own generator."""
    return [int(s) for s in ctx.rng.integers(0, 2**31, n)]


def _in_turn(task: Any, jobs: list[tuple[Any, ...]]) -> list[Any]:
    return [task(*job) for job in jobs]


def compile_flows() -> None:
    """Compile the projection onto flows, which is then on the disk for every process."""
    from oco_anytime.domains import FlowPolytope

    FlowPolytope([(0, 1), (1, 2), (0, 2)], 0, 2).center()


def gather(ctx: Context, what: str, task: Any, jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run the jobs on the executor, in their order, with progress.

    At smoke scale all are one task: other workers would compile the same kernels for a second's work.
    """
    jobs = list(jobs)
    if ctx.scale is Scale.SMOKE:
        results: list[Any] = ctx.executor.submit(_in_turn, task, jobs).result()
        return results
    waiting = [ctx.executor.submit(task, *job) for job in jobs]
    return [w.result() for w in ctx.progress.track(waiting, what, total=len(jobs))]


def make(kind: str, env: Stream, rounds: int) -> Any:
    """A learner by the name of its line in the tables."""
    domain, G = env.domain, env.lipschitz
    makers: dict[str, Any] = {
        "paper": lambda: AnytimeCOCO.paper(domain, lipschitz=G),
        "fixed horizon": lambda: baselines.FixedHorizonCOCO(domain, horizon=rounds, lipschitz=G),
        "doubling": lambda: baselines.DoublingCOCO(domain, lipschitz=G),
        "summable": lambda: AnytimeCOCO(
            domain, lipschitz=G, penalty="lyapunov", schedule="summable", clock="violations"
        ),
        "budgeted": lambda: AnytimeCOCO(domain, lipschitz=G),
        "gradient only": lambda: baselines.ProjectedOGD(domain),
        "drift plus penalty": lambda: baselines.DriftPlusPenalty(domain),
        "clipped primal-dual": lambda: baselines.ClippedPrimalDual(domain),
        "rectified": lambda: baselines.RectifiedCOCO(domain),
        "latest constraint": lambda: baselines.LatestConstraintProjection(domain),
    }
    return makers[kind]()


@functools.lru_cache(maxsize=2)
def _stream(stream: str, seed: int, rounds: int, d: int) -> Stream:
    return Stream(stream, rounds, d, seed)


def stream_run(kind: str, stream: str, seed: int, rounds: int, d: int = 2) -> dict[str, Any]:
    """One learner on one stream: checkpoints, CCV, certificate and cumulative cost there."""
    env = _stream(stream, seed, rounds, d)
    learner = make(kind, env, rounds)
    compiled = hasattr(learner, "_k")
    run: Run = (
        play_linear(learner, *env.linear(rounds), record="light")
        if compiled
        else play(learner, env, rounds, record="light")
    )
    return {"t": run.t, "ccv": run.ccv, "certificate": run.certificate, "cost": run.cumulative_cost, "G": env.lipschitz}


def best_costs(stream: str, seed: int, rounds: int, ts: np.ndarray, d: int = 2) -> np.ndarray:
    """Cost of the best fixed feasible decision for the first t rounds, for each t."""
    env: Any = _stream(stream, seed, rounds, d)
    working = np.empty(0, dtype=np.int64)
    sums = np.cumsum(env.costs, axis=0)
    out = []
    for t in ts:
        found, working = _generate(solver(env.domain, sums[t - 1], None), env.A[:t], env.b[:t], working[working < t])
        out.append(found.objective)
    return np.array(out)


def coarse(ts: np.ndarray, per_decade: int = 4) -> np.ndarray:
    """Indices of about `per_decade` of the checkpoints in each decade, the last always."""
    want = log_checkpoints(int(ts[-1]), per_decade)
    return np.unique(np.searchsorted(ts, want))


def anytime_ccv(ctx: Context) -> Evidence:
    """C1: CCV of paper mode against 4 G D sqrt t log(t + 2), and its local exponent."""
    if ctx.scale is Scale.SMOKE:
        # the longest compilation of the claims to come, on the core that this one leaves idle
        ctx.executor.submit(compile_flows)
    rounds, seeds = rounds_of(ctx), seeds_of(ctx, 5)
    jobs = [("paper", stream, seed, rounds) for stream in HOSTILE for seed in seeds]
    worst, rows, lines = 0.0, [], {}
    exponents: list[float] = []
    for job, r in zip(jobs, gather(ctx, "CCV of paper mode", stream_run, jobs)):
        t, ccv = r["t"], r["ccv"]
        late = t >= 100
        share = float((ccv / (4 * r["G"] * D * np.sqrt(t) * np.log(t + 2)))[late].max())
        early = int(np.searchsorted(t, rounds // 10))
        exponent = math.log(ccv[-1] / ccv[early]) / math.log(t[-1] / t[early])
        worst, exponents = max(worst, share), [*exponents, exponent]
        rows.append((job[1], job[2], float(ccv[-1]), share, exponent))
        if job[2] == seeds[0]:
            lines[job[1]] = (t[late].tolist(), ccv[late].tolist())
            bound = (4 * r["G"] * D * np.sqrt(t) * np.log(t + 2))[late].tolist()
            lines["bound, G = 1" if job[1] == "opposed" else "bound, G = sqrt 2"] = (t[late].tolist(), bound)
    tested = ctx.scale is not Scale.SMOKE
    return Evidence(
        headline=f"CCV at most {worst:.2f} of the bound at every t >= 100, T = {rounds:,}; local exponent at the end "
        f"{min(exponents):.2f} to {max(exponents):.2f}",
        values={"worst_share": worst, "largest_exponent": max(exponents), "exponent_tested": float(tested)},
        tables=(
            Table(
                "Paper mode", ("stream", "seed", "CCV at T", "largest share of bound", "exponent on [T/10, T]"), rows
            ),
        ),
        series=(Series("CCV of paper mode", "round", "CCV", lines, log_x=True, log_y=True),),
        settings={"rounds": rounds, "seeds": seeds, "d": 2},
    )


def _regret_task(kind: str, stream: str, seed: int, rounds: int) -> dict[str, Any]:
    r = stream_run(kind, stream, seed, rounds)
    at = coarse(r["t"])
    t = r["t"][at]
    regret = r["cost"][at] - best_costs(stream, seed, rounds, t)
    return {"t": t, "regret": regret, "certificate": r["certificate"][at], "G": r["G"]}


def _rademacher_task(seed: int, rounds: int) -> list[float]:
    r = stream_run("paper", "rademacher", seed, rounds)
    env = _stream("rademacher", seed, rounds, 2)
    sums = np.cumsum(env.costs, axis=0)
    decades = [10**k for k in range(4, 8) if 10**k <= rounds]
    # the constraint never binds on the ball, so the best fixed cost is -||sum of costs||
    at = [int(np.searchsorted(r["t"], t)) for t in decades]
    return [abs(float(r["cost"][i]) + float(np.linalg.norm(sums[t - 1]))) / math.sqrt(t) for i, t in zip(at, decades)]


def anytime_regret(ctx: Context) -> Evidence:
    """C2: regret of paper mode against 2 G D (sqrt t + 1) and the certificate; random signs for tightness."""
    rounds, seeds = rounds_of(ctx), seeds_of(ctx, 5)
    jobs = [("paper", stream, seed, rounds) for stream in HOSTILE for seed in seeds]
    share, gap, rows, lines = -np.inf, -np.inf, [], {}
    for job, r in zip(jobs, gather(ctx, "regret against the best fixed decision", _regret_task, jobs)):
        t, regret = r["t"], r["regret"]
        bound = 2 * r["G"] * D * (np.sqrt(t) + 1)
        mine = float((regret / bound).max())
        slack = float(((regret - r["certificate"]) / np.maximum(1.0, np.abs(r["certificate"]))).max())
        share, gap = max(share, mine), max(gap, slack)
        rows.append((job[1], job[2], float(regret[-1]), float(r["certificate"][-1]), mine))
        if job[2] == seeds[0]:
            lines[job[1]] = (t.tolist(), regret.tolist())
            lines[f"{job[1]}, certificate"] = (t.tolist(), r["certificate"].tolist())
    signs = np.array(gather(ctx, "random signs", _rademacher_task, [(s, rounds) for s in seeds_of(ctx, 20)]))
    mean = signs.mean(axis=0)
    tail = [(10 ** (4 + i), float(x)) for i, x in enumerate(mean)]
    return Evidence(
        headline=f"regret at most {share:.2f} of 2GD(sqrt t + 1), never above its certificate; on random signs "
        f"|regret|/sqrt t averages {', '.join(f'{x:.2f}' for x in mean)}",
        values={"worst_share": share, "excess": gap, "signs_low": float(mean.min()), "signs_high": float(mean.max())},
        tables=(
            Table("Paper mode", ("stream", "seed", "regret at T", "certificate at T", "largest share of bound"), rows),
            Table("Random signs, mean of 20 seeds", ("t", "|regret|/sqrt t"), tail),
        ),
        series=(Series("Regret and certificate, paper mode", "round", "regret", lines, log_x=True),),
        settings={"rounds": rounds, "seeds": seeds, "d": 2},
    )


def no_horizon(ctx: Context) -> Evidence:
    """C3: CCV of the fixed horizon at T/10 and of doubling at T, over paper mode's; all penalties at T."""
    rounds, seed = rounds_of(ctx), seeds_of(ctx, 1)[0]
    jobs = [(kind, stream, seed, rounds) for stream in HOSTILE for kind in LINES]
    found = {job[:2]: r for job, r in zip(jobs, gather(ctx, "three ways to treat the horizon", stream_run, jobs))}
    fixed, doubling, rows, lines = [], [], [], {}
    for stream in HOSTILE:
        paper = found["paper", stream]
        early = int(np.searchsorted(paper["t"], rounds // 10))
        fixed.append(found["fixed horizon", stream]["ccv"][early] / paper["ccv"][early])
        doubling.append(found["doubling", stream]["ccv"][-1] / paper["ccv"][-1])
        ccv = [found[k, stream]["ccv"] for k in LINES]
        rows.append((stream, *(float(c[early]) for c in ccv[:3]), *(float(c[-1]) for c in ccv)))
    for kind in LINES:
        r = found[kind, "opposed"]
        lines[kind] = (r["t"].tolist(), r["ccv"].tolist())
    a, b = (float(np.exp(np.mean(np.log(x)))) for x in (fixed, doubling))
    columns = ("stream", *(f"{k}, T/10" for k in LINES[:3]), *(f"{k}, T" for k in LINES))
    return Evidence(
        headline=f"fixed horizon at T/10: {a:.1f}x the CCV of paper mode; doubling at T: {b:.1f}x (T = {rounds:,})",
        values={"fixed_ratio": a, "doubling_ratio": b},
        tables=(Table("CCV", columns, rows),),
        series=(Series("CCV on the stream opposed", "round", "CCV", lines, log_x=True, log_y=True),),
        settings={"rounds": rounds, "seed": seed, "d": 2},
    )


def _budget_task(kind: str, stream: str, seed: int, rounds: int) -> dict[str, Any]:
    r = stream_run(kind, stream, seed, rounds)
    at = coarse(r["t"])
    r["regret_t"], r["regret"] = r["t"][at], r["cost"][at] - best_costs(stream, seed, rounds, r["t"][at])
    return r


def budgeted(ctx: Context) -> Evidence:
    """C8: CCV of paper mode over the budgeted penalty's at T = 2e4; certified regret against B_t; all learners."""
    rounds, seeds = 20_000, seeds_of(ctx, 3)
    smoke = ctx.scale is Scale.SMOKE
    shown = [*LINES, "gradient only"]
    slow = [] if smoke else ["drift plus penalty", "clipped primal-dual", "rectified", "latest constraint"]
    jobs = [(k, stream, seed, rounds) for stream in HOSTILE for seed in seeds for k in ("paper", "budgeted")]
    jobs += [(k, s, seeds[0], rounds) for s in HOSTILE for k in (*shown, *slow) if k not in ("paper", "budgeted")]
    found = {job[:3]: r for job, r in zip(jobs, gather(ctx, "all learners", _budget_task, jobs))}
    ratios, over, rows = [], -np.inf, []
    for stream in HOSTILE:
        for seed in seeds:
            r = found["budgeted", stream, seed]
            ratios.append(float(found["paper", stream, seed]["ccv"][-1] / r["ccv"][-1]))
            bound = [static_regret_bound(int(t), D, r["G"], 2.0, 1, True) for t in r["t"]]
            over = max(over, float((r["certificate"] / np.array(bound)).max()))
        rows += [
            (stream, k, float(r["ccv"][-1]), float(r["regret"][-1]))
            for k in (*shown, *slow)
            for r in [found[k, stream, seeds[0]]]
        ]
    series = []
    for stream in HOSTILE:
        runs = {k: found[k, stream, seeds[0]] for k in (*shown, *slow)}
        ccv = {k: (r["t"].tolist(), np.maximum(r["ccv"], 1e-3).tolist()) for k, r in runs.items()}
        regret = {k: (r["regret_t"].tolist(), np.maximum(r["regret"], 1e-2).tolist()) for k, r in runs.items()}
        series.append(Series(f"CCV, {stream}", "round", "CCV", ccv, log_x=True, log_y=True))
        title = f"Regret, {stream} (values at or below 0.01 drawn at 0.01)"
        series.append(Series(title, "round", "regret", regret, log_x=True, log_y=True))
    return Evidence(
        headline=f"{min(ratios):.0f} to {max(ratios):.0f} times less violation than paper mode at T = {rounds:,}; "
        f"certified regret at most {over:.2f} of B_t",
        values={"smallest_ratio": min(ratios), "largest_share": over},
        tables=(Table(f"All learners at T = {rounds:,}, first seed", ("stream", "learner", "CCV", "regret"), rows),),
        series=tuple(series),
        settings={"rounds": rounds, "seeds": seeds, "d": 2},
    )


def _clean_task(stream: str, seed: int, rounds: int) -> tuple[float, float]:
    env = _stream(stream, seed, rounds, 2)
    G = env.lipschitz
    run = play_linear(make("summable", env, rounds), *env.linear(rounds), record="all")
    at = np.array(coarse(run.t))
    ts = run.t[at]
    regret = run.cumulative_cost[at] - best_costs(stream, seed, rounds, ts)
    share = float((regret / np.array([static_regret_bound(int(t), D, G, 0.0, 1, True) for t in ts])).max())
    violated, ccv = np.cumsum(run.violation > 0), run.ccv
    worst = 0.0
    for i in range(0, rounds, max(1, rounds // 5000)):
        if violated[i]:
            lam = summable_schedule(float(violated[i]), 1.0, 0.3)
            worst = max(worst, float(ccv[i]) / ccv_bound(i + 1, D, G, lam, 1, False))
    return share, worst


def clean_bounds(ctx: Context) -> Evidence:
    """C9: both proved bounds of the summable schedule."""
    rounds, seeds = rounds_of(ctx), seeds_of(ctx, 3)
    jobs = [(stream, seed, rounds) for stream in HOSTILE for seed in seeds]
    found = gather(ctx, "summable schedule", _clean_task, jobs)
    rows = [(stream, seed, *share) for (stream, seed, _), share in zip(jobs, found)]
    regret, ccv = max(r for r, _ in found), max(c for _, c in found)
    return Evidence(
        headline=f"regret at most {regret:.2f} and CCV at most {ccv:.2f} of their bounds, T = {rounds:,}",
        values={"regret_share": regret, "ccv_share": ccv},
        tables=(Table("Largest share of the bound", ("stream", "seed", "regret", "CCV"), rows),),
        settings={"rounds": rounds, "seeds": seeds, "d": 2},
    )
