"""The claims of the paper, and ours beside them, as code."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict

from qubo_relax import claims_work as work
from qubo_relax.instances import CERTIFIED

PAPER = "arXiv 2606.28734"
OURS = "ours; the paper's full text was not at hand"
NEWMAN_MISSING = "not testable here: at scale laptop and above, from a checkout, which has the file"
FRESH_PITS = tuple(range(9000, 9018))
CLASSICS = ("pit direct", "tsp lucas", "knapsack slack_binary")


def _map(ctx: Context, text: str, function: Any, jobs: list[tuple[Any, ...]]) -> list[Any]:
    futures = [ctx.executor.submit(function, *job) for job in jobs]
    return [f.result() for f in ctx.progress.track(futures, text)]


def _seeds(ctx: Context, n: int) -> list[int]:
    return [int(s) for s in ctx.rng.integers(0, 2**31, n)]


def _ends_table(title: str, rows: list[Any]) -> Table:
    columns = ("problem", "method", "formulation", "binary before polishing", "feasible after", "minimal after")
    return Table(title, columns, [(*r[:3], *(round(v, 4) for v in r[3:])) for r in rows])


def run_binary_feasible(ctx: Context) -> Evidence:
    """Enumerate every certified formulation on random small instances; larger ones by integer programs and descents."""
    count = {Scale.SMOKE: 5, Scale.LAPTOP: 50, Scale.FULL: 1000}[ctx.scale]
    seeds = _seeds(ctx, len(CERTIFIED))
    found = _map(ctx, "enumerating", work.enumerate_kind, [(k, s, count) for k, s in zip(CERTIFIED, seeds)])
    columns = ("formulation", "instances", "with an infeasible local minimizer", "least margin / value scale")
    rows = [(k, n, bad, None if least < 0 else round(least, 6)) for k, n, bad, least in found]
    tables = [Table("All vertices of random small instances", columns, rows)]
    values = {
        "formulations": float(len(found)),
        "instances": float(sum(r[1] for r in found)),
        "bad": float(sum(r[2] for r in found)),
    }
    if ctx.scale != Scale.SMOKE:
        names = [k for k in work.MEDIUM if k not in {"bin packing", "gap", "set cover"}]
        limit = 20.0 if ctx.scale == Scale.LAPTOP else 600.0
        milp = _map(ctx, "integer programs", work.milp_kind, [(k, s, limit) for k, s in zip(names, _seeds(ctx, 99))])
        tables.append(Table("Integer programs", ("problem", "variables", "verdict"), milp, timed=("verdict",)))
        values["milp_refuted"] = float(sum(r[2] == "refuted" for r in milp))
        starts = 200 if ctx.scale == Scale.LAPTOP else 8000
        jobs = [(k, m, s, starts, 300) for k, s in zip(work.MEDIUM, _seeds(ctx, 99)) for m in ("pgd", "adam")]
        ends = _map(ctx, "descents", work.gradient_ends, jobs)
        tables.append(_ends_table("Where descents end", ends))
        values["ends"] = float(starts * len(ends))
        values["bad_ends"] = float(sum(round((1 - min(r[4], r[5])) * starts) for r in ends))
    bad, instances = int(values["bad"]), int(values["instances"])
    return Evidence(
        headline=f"{bad} of {instances} instances of {len(found)} certified formulations fail",
        values=values,
        tables=tuple(tables),
        settings={"seeds": seeds, "variables": "at most 14"},
    )


def accept_binary_feasible(e: Evidence) -> Verdict:
    """No counterexample anywhere."""
    bad = e.values["bad"] + e.values.get("milp_refuted", 0) + e.values.get("bad_ends", 0)
    text = f"{int(bad)} counterexamples in {int(e.values['instances'])} enumerated instances"
    if "ends" in e.values:
        text += f" and {int(e.values['ends'])} descents"
    return Verdict.of(bad == 0, text)


def run_classic_fails(ctx: Context) -> Evidence:
    """Counterexamples to the usual formulations, and how often descents end infeasible on them."""
    found = _map(ctx, "verifying", work.classic, list(zip(CLASSICS, _seeds(ctx, 3))))
    starts = {Scale.SMOKE: 16, Scale.LAPTOP: 200, Scale.FULL: 2000}[ctx.scale]
    steps = 300 if ctx.scale == Scale.SMOKE else 1000
    pairs = (("large pit", "direct", "closure"), ("tsp", "lucas", None), ("knapsack", "slack_binary", None))
    seeds = _seeds(ctx, 3)
    jobs = [(k, m, s, starts, steps, f) for (k, f, _), s in zip(pairs, seeds) for m in ("pgd", "adam")]
    certified = [(k, m, s, starts, steps, f) for (k, _, f), s in zip(pairs, seeds) for m in ("pgd", "adam")]
    beside = _map(ctx, "descents on certified forms", work.gradient_ends, certified)
    ends = _map(ctx, "descents", work.gradient_ends, jobs)
    columns = ("formulation", "verdict", "counterexample is a local minimizer", "and infeasible")
    values = {
        "refuted": float(sum(r[2] == "refuted" and r[3] and r[4] for r in found)),
        "infeasible_ends": 1 - float(np.mean([r[4] for r in ends])),
        "infeasible_pits": 1 - float(np.mean([r[4] for r in ends if r[0] == "large pit"])),
        "infeasible_certified": 1 - float(np.min([r[4] for r in beside])),
    }
    pits, other = values["infeasible_pits"], values["infeasible_certified"]
    newman = _newman(ctx, min(starts, 64), steps, values)
    return Evidence(
        headline=f"{int(values['refuted'])} of 3 usual forms refuted; descents end infeasible in {pits:.0%} on the "
        f"usual pit, in {other:.0%} on certified forms",
        values=values,
        tables=(
            Table("Verdicts", columns, [(r[0], *r[2:]) for r in found]),
            _ends_table("Ends of PGD and Adam on the usual and on the certified formulations", [*ends, *beside]),
            *newman,
        ),
        settings={"starts": starts, "steps": steps, "newman1": "run" if newman else NEWMAN_MISSING},
    )


def _newman(ctx: Context, starts: int, steps: int, values: dict[str, float]) -> tuple[Table, ...]:
    """Descents on the usual form of MineLib's newman1, where a checkout has the file; adds to `values`."""
    path = work.newman_file()
    if ctx.scale == Scale.SMOKE or path is None:
        return ()
    jobs = [(str(path), m, s, starts, min(steps, 300)) for m, s in zip(("pgd", "adam"), _seeds(ctx, 2))]
    rows = _map(ctx, "newman1", work.newman_ends, jobs)
    values["feasible_newman"] = max(r[1] for r in rows)
    return (Table("Ends on the usual form of newman1", ("method", "feasible", "feasible, closure form"), rows),)


def accept_classic_fails(e: Evidence) -> Verdict:
    """All three refuted by a counterexample that stands a check flip by flip; no end on newman1's usual form feasible.

    The instance may be used in tests and benchmarks, but is not part of the package: without a checkout that part is
    not testable, and the verdict says so.
    """
    refuted, share = e.values["refuted"], e.values["infeasible_ends"]
    found = e.values.get("feasible_newman")
    newman = "not testable here" if found is None else f"{found:.0%} of ends feasible"
    text = f"{int(refuted)} of 3 refuted, {share:.0%} of ends infeasible; newman1: {newman}"
    return Verdict.of(refuted == 3 and not found, text)


def run_any_lambda(ctx: Context) -> Evidence:
    """The usual formulations at multipliers from 1 to 10^6 times the value scale."""
    powers = (0, 2, 4, 6) if ctx.scale == Scale.SMOKE else range(7)
    seeds = dict(zip(CLASSICS, _seeds(ctx, 3)))
    base = dict(zip(CLASSICS, (6.0, 10.0, 20.0)))
    jobs = [(k, seeds[k], base[k] * 10.0**p) for k in CLASSICS for p in powers]
    found = _map(ctx, "verifying", work.classic, jobs)
    good = sum(r[2] == "refuted" and r[3] and r[4] for r in found)
    columns = ("formulation", "penalty", "verdict", "local minimizer", "infeasible")
    return Evidence(
        headline=f"{good} of {len(found)} refuted, whatever the multiplier",
        values={"refuted": float(good), "tried": float(len(found))},
        tables=(Table("Every multiplier", columns, [tuple(r) for r in found]),),
    )


def accept_any_lambda(e: Evidence) -> Verdict:
    """Refuted at each multiplier."""
    refuted, tried = e.values["refuted"], e.values["tried"]
    return Verdict.of(refuted == tried, f"{int(refuted)} of {int(tried)} refuted")


def run_gradient_valid(ctx: Context) -> Evidence:
    """PGD and Adam from uniform starts on the certified formulations: before any rounding, and where they end.

    "Before polishing" is the point of the box that the method itself reaches; the end is what `minimize` returns, after
    T4, which never raises the value. The bare iteration, without leaps and kicks, creeps along ridges whose slope is
    the concavity, 2.5e-4 of the values at the default margin.
    """
    starts = {Scale.SMOKE: 8, Scale.LAPTOP: 64, Scale.FULL: 1024}[ctx.scale]
    steps = 300 if ctx.scale == Scale.SMOKE else 2000
    names = work.MEDIUM[:6] if ctx.scale == Scale.SMOKE else work.MEDIUM
    seeds = _seeds(ctx, len(names))
    bare = {"leaps": False, "kick": 0.0}
    runs = {}
    for title, margin, options in (
        (f"As shipped, default margin (1e-3 of the values), {steps} steps", None, None),
        (f"The bare iteration, default margin, {steps} steps", None, bare),
        (f"The bare iteration, margin 0.1 of the values, {steps} steps", 0.1, bare),
    ):
        jobs = [(k, m, s, starts, steps, None, margin, options) for k, s in zip(names, seeds) for m in ("pgd", "adam")]
        runs[title] = _map(ctx, title, work.gradient_ends, jobs)
    shipped, plain, wide = ([r[3] for r in rows] for rows in runs.values())
    values = {
        "valid_after": min(min(r[4], r[5]) for rows in runs.values() for r in rows),
        "binary_default": float(np.mean(shipped)),
        "binary_worst": min(shipped),
        "binary_bare": float(np.mean(plain)),
        "binary_bare_wide": float(np.mean(wide)),
        "steps": float(steps),
    }
    return Evidence(
        headline=f"{values['valid_after']:.0%} of lanes end binary and feasible at worst; exactly binary before any "
        f"rounding: {values['binary_default']:.1%} on average, {values['binary_bare']:.0%} by the bare iteration",
        values=values,
        tables=tuple(_ends_table(title, rows) for title, rows in runs.items()),
        settings={"starts": starts, "steps": steps},
    )


def accept_gradient_valid(e: Evidence) -> Verdict:
    """Every lane ends binary, feasible and minimal; 99 % are exactly binary before rounding, within 2000 steps.

    Both at the default margin, of the methods as shipped; what the bare iteration and a wider margin give is said too,
    but does not decide. At smoke scale, with 300 steps, only the first half is judged.
    """
    v = e.values
    text = (
        f"{v['valid_after']:.1%} of lanes end binary and feasible; before rounding {v['binary_default']:.1%} are "
        f"binary after {v['steps']:.0f} steps ({v['binary_worst']:.1%} in the worst case); the bare iteration: "
        f"{v['binary_bare']:.1%}, at a margin of 0.1 {v['binary_bare_wide']:.1%}"
    )
    return Verdict.of(v["valid_after"] == 1.0 and (v["steps"] < 2000 or v["binary_default"] >= 0.99), text)


def run_quality(ctx: Context) -> Evidence:
    """Values of PGD, Adam, graduated and anneal, each before and after `improve`, over the exact optimum."""
    cases = ["section 30 8", "tsp 9", "knapsack 50"]
    if ctx.scale != Scale.SMOKE:
        cases = ["section 60 16", "section 80 24", "box 10 6", "tsp 17", "tsp 29", "knapsack 100", "multi 60"]
    lanes, steps = (8, 300) if ctx.scale == Scale.SMOKE else (16, 1000)
    jobs = [(k, s, lanes, steps) for k, s in zip(cases, _seeds(ctx, len(cases)))]
    rows = [row for part in _map(ctx, "solving", work.quality_case, jobs) for row in part]
    pits = [r[3] for r in rows if r[0].startswith(("section", "box"))]
    tours = [r for r in rows if r[0].startswith("tsp")]
    worse = [
        g[2] > s[2]
        for g in tours
        for s in tours
        if g[0] == s[0] and g[1] == "graduated" and s[1] == "SA on lucas" and not np.isnan(s[2])
    ]
    values = {
        "pits_after": min(pits),
        "sacks_after": min(r[3] for r in rows if r[0].startswith(("knapsack", "multi"))),
        "graduated_tsp": max(r[2] for r in tours if r[1] == "graduated"),
        "sa_tsp": float(np.nanmin([r[2] for r in tours if r[1] == "SA on lucas"])),
        "tours_worse_than_sa": float(sum(worse)),
    }
    columns = ("case", "method", "best sample", "after improve", "feasible", "seconds")
    shown = [(*r[:2], *(None if np.isnan(v) else round(float(v), 4) for v in r[2:5]), round(r[5], 3)) for r in rows]
    return Evidence(
        headline=f"pits reach {values['pits_after']:.4f} of the optimum after improve; before it tours are at most "
        f"{values['graduated_tsp']:.2f} times the shortest (SA on the usual form: {values['sa_tsp']:.2f} at best)",
        values=values,
        tables=(Table("Value over the optimum (tours: length over the shortest)", columns, shown, timed=("seconds",)),),
        settings={"lanes": lanes, "steps": steps, "peer": "dwave-samplers, 1000 sweeps"},
    )


def accept_quality(e: Evidence) -> Verdict:
    """Pits at 0.999 after improve from every end, and no tour of graduated longer than SA's on the usual form."""
    v = e.values
    text = f"pits {v['pits_after']:.4f} after improve; tours {v['graduated_tsp']:.3f} against {v['sa_tsp']:.3f} of SA"
    return Verdict.of(v["pits_after"] >= 0.999 and v["tours_worse_than_sa"] == 0, text)


def run_where_it_matters(ctx: Context) -> Evidence:
    """Pits with a quadratic risk: anneal on two certified forms, and cone moves, beside HiGHS on the linearised model.

    "closure" (8 lanes) goes astray on a pit in ten or twenty, into too large a pit; "removal" (64 lanes) rarely on the
    same. What "closure" does alone stays in the table and values. The second form was added after "closure" alone had
    failed on a pit of this claim, and chosen on pits of other seeds. So the protocol, as it stands here, was then fixed
    and tried on pits that nobody had seen, seeds 9000 to 9017, which are run beside its own.
    """
    smoke = ctx.scale == Scale.SMOKE
    count, size, limit = (2, (18, 6), 5.0) if smoke else (5, (45, 9), 30.0)
    seeds = [*_seeds(ctx, count), *(() if smoke else FRESH_PITS)]
    jobs = [(s, *size, 1000 if smoke else 2000, limit) for s in seeds]
    cases = _map(ctx, "solving", work.risk_case, jobs)
    values = {
        "worst": min(c["raw"] for c in cases),
        "closure_alone": min(c["closure_ratio"] for c in cases),
        "improved": min(c["improved"] for c in cases),
        "feasible": min(c["feasible"] for c in cases),
        "pits": float(len(cases)),
        "blind": float(np.mean([c["blind"] for c in cases]) / max(np.mean([c["highs"] for c in cases]), 1e-9)),
        "proved": float(sum(c["proved"] for c in cases)),
    }
    if cases[count:]:
        values["fresh_worst"] = min(c["raw"] for c in cases[count:])
    columns = tuple(cases[0])
    rows = [[round(c[k], 4) for k in columns] for c in cases]
    timed = ("highs", "raw", "closure_ratio", "improved", "proved", "bound", "anneal_s", "highs_s")
    return Evidence(
        headline=f"anneal {values['worst']:.4f} of HiGHS at worst ({values['closure_alone']:.4f} on the closure form "
        f"alone), improve {values['improved']:.4f}; "
        f"the pit that ignores the risk {values['blind']:.2f} on average",
        values=values,
        tables=(Table("Pits with risk", columns, rows, timed=timed),),
        settings={
            "HiGHS limit in seconds": limit,
            "seeds": seeds,
            "protocol": "two forms since a failure of the closure form alone was seen; fixed before seeds 9000 to "
            "9017 were run",
        },
        timed=frozenset({"worst", "fresh_worst", "closure_alone", "improved", "blind", "proved", "headline"}),
    )


def accept_where_it_matters(e: Evidence) -> Verdict:
    """Anneal at least 0.99 of HiGHS on each, all lanes feasible."""
    unseen = e.values.get("fresh_worst")
    fresh = "" if unseen is None else f"{unseen:.4f} on those unseen when the protocol was fixed; "
    text = (
        f"anneal on both certified forms {e.values['worst']:.4f} of HiGHS at worst of {e.values['pits']:.0f} pits "
        f"({fresh}closure alone "
        f"{e.values['closure_alone']:.4f}; improve {e.values['improved']:.4f}), "
        f"{e.values['feasible']:.0%} of lanes feasible"
    )
    return Verdict.of(e.values["worst"] >= 0.99 and e.values["feasible"] == 1.0, text)


def run_scaling(ctx: Context) -> Evidence:
    """Seconds of a sweep against the number of variables at fixed degree."""
    from lemmata_core.timing import growth

    sizes = [1000, 2000, 4000, 8000]
    if ctx.scale == Scale.FULL:
        sizes = [1000, 4000, 16000, 64000, 256000, 1000000]
    work.sweep_seconds(100, 10, 0)  # compiles or loads
    seconds = [work.sweep_seconds(n, 1000, 0) for n in ctx.progress.track(sizes, "timing")]
    fit = growth(sizes, seconds)
    return Evidence(
        headline=f"a sweep costs n^{fit.exponent:.2f}",
        values={"exponent": fit.exponent, "low": fit.low, "high": fit.high},
        series=(Series("Seconds of a sweep", "variables", "seconds", {"anneal": (sizes, seconds)}, True, True),),
        timed=frozenset({"exponent", "low", "high", "headline", "Seconds of a sweep"}),
    )


def accept_scaling(e: Evidence) -> Verdict:
    """Exponent 1.0 +- 0.1."""
    return Verdict.of(abs(e.values["exponent"] - 1) <= 0.1, f"exponent {e.values['exponent']:.3f}")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="qubo-relax/binary-feasible",
        statement="Every local minimizer of each certified formulation is binary and feasible.",
        source=f"{PAPER}, main theorems; the formulations are ours",
        paper="all local minimizers valid",
        run=run_binary_feasible,
        accept=accept_binary_feasible,
    ),
    Claim(
        id="qubo-relax/classic-fails",
        statement="The usual QUBOs of the pit, the tour and the knapsack have infeasible local minimizers.",
        source=f"{PAPER}, the sections on each problem",
        paper="spurious local minimizers",
        run=run_classic_fails,
        accept=accept_classic_fails,
    ),
    Claim(
        id="qubo-relax/any-lambda",
        statement="The usual QUBOs fail at every penalty weight.",
        source=f"{PAPER}, the sections on each problem",
        run=run_any_lambda,
        accept=accept_any_lambda,
    ),
    Claim(
        id="qubo-relax/gradient-valid",
        statement="PGD and Adam on the certified formulations return only valid binary points.",
        source=f"{PAPER}, experiments",
        paper="valid binary solutions",
        run=run_gradient_valid,
        accept=accept_gradient_valid,
    ),
    Claim(
        id="qubo-relax/quality",
        statement="Certified formulations with first-order methods and a finisher give usable objective values.",
        source=f"{PAPER}, experiments; graduated, anneal and improve are ours",
        run=run_quality,
        accept=accept_quality,
        requires=("dimod", "dwave.samplers"),
    ),
    Claim(
        id="qubo-relax/where-it-matters",
        statement="On pits with a quadratic risk, beyond max-flow, flips on the certified form reach what HiGHS does.",
        source=OURS,
        run=run_where_it_matters,
        accept=accept_where_it_matters,
    ),
    Claim(
        id="qubo-relax/scaling",
        statement="The cost of a sweep is linear in the number of entries.",
        source=OURS,
        run=run_scaling,
        accept=accept_scaling,
        timed=True,
    ),
)
