"""The paper's claims as code: what to run, and the rule that accepts."""

from __future__ import annotations

import math

from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict

from rl_mfpo.functions import PROBLEMS
from rl_mfpo.golden_section import INVERSE_RATIO, minimise

# Widths of the last bracket, relative to the first.
WIDTHS = {
    Scale.SMOKE: (1e-1, 1e-2, 1e-4, 1e-6),
    Scale.LAPTOP: tuple(10.0**-k for k in range(1, 9)),
    Scale.FULL: tuple(10.0**-k for k in range(1, 9)),
}


def count_evaluations(name: str, width: float) -> tuple[int, float]:
    """Count the function's evaluations until the bracket is `width` times the first, and the error that is left."""
    problem = PROBLEMS[name]
    calls = 0

    def counted(x: float) -> float:
        nonlocal calls
        calls += 1
        return problem.function(x)

    span = problem.high - problem.low
    solution = minimise(counted, problem.low, problem.high, tol=width * span)
    return calls, abs(solution.x - problem.minimiser) / span


def predicted(width: float) -> int:
    """Return the number that Kiefer's rule gives: n evaluations leave 0.618^(n - 1) of the bracket."""
    return 1 + math.ceil(math.log(width) / math.log(INVERSE_RATIO) - 1e-9)


def run_rate(ctx: Context) -> Evidence:
    """Count evaluations on each function at each width."""
    cases = [(name, width) for name in PROBLEMS for width in WIDTHS[ctx.scale]]
    found = ctx.executor.map(count_evaluations, *zip(*cases, strict=True))
    rows = [
        (name, width, calls, predicted(width), error)
        for (name, width), (calls, error) in zip(cases, ctx.progress.track(found, "rate", len(cases)), strict=True)
    ]
    worst = max(row[2] - row[3] for row in rows)
    outside = max(row[4] / row[1] for row in rows)
    lines = {
        name: ([float(row[2]) for row in rows if row[0] == name], [row[1] for row in rows if row[0] == name])
        for name in PROBLEMS
    }
    return Evidence(
        headline=f"{rows[-1][2]} evaluations leave {rows[-1][1]:g} of the interval, on {len(PROBLEMS)} functions",
        values={"evaluations_above_rule": float(worst), "error_over_width": outside},
        tables=(Table("Evaluations", ("function", "width", "evaluations", "by the rule", "error"), rows),),
        series=(Series("Width of the bracket", "evaluations", "width / first width", lines, log_y=True),),
        settings={"functions": sorted(PROBLEMS), "widths": WIDTHS[ctx.scale]},
    )


def accept_rate(evidence: Evidence) -> Verdict:
    """Accept where no case needs more evaluations than the rule says, and the minimiser lies in the last bracket."""
    above, error = evidence.values["evaluations_above_rule"], evidence.values["error_over_width"]
    reason = f"{above:+.0f} evaluations against the rule at worst; the error is {error:.2f} of the last width at most"
    return Verdict.holds(reason) if above <= 0 and error <= 1 else Verdict.does_not_hold(reason)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rl-mfpo/rate",
        statement="n values of a unimodal function narrow the interval to 0.618^(n - 1) of its width.",
        source="J. Kiefer, Proc. AMS 4 (1953), 502-506",
        paper="0.618 a value",
        run=run_rate,
        accept=accept_rate,
    ),
)
