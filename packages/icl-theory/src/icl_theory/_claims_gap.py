"""Claims of arXiv 2510.10981 on the Bayes gap of uniform attention: its rate, and what keeps it from zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict

from icl_theory import bounds
from icl_theory._claims_common import BAYES_PAPER, UniformInputs, seed_of, sweep
from icl_theory.bayes import LinearGaussian
from icl_theory.risk import decompose


def gap_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Train a uniform-attention model on N prompts of length p, and measure its Bayes gap."""
    from icl_theory.training import uninterrupted
    from icl_theory.uniform import UniformAttention, fit_least_squares

    family = LinearGaussian(1, 0.5, inputs=UniformInputs(-1, 1))
    length, seed = cell["p"] + 1, cell["seed"]
    model = UniformAttention(1, cell["m"], cardinality=cell["cardinality"], rng=seed)
    prompts = family.sample(cell["N"], length, np.random.default_rng([seed, 1]))
    source = np.random.default_rng([seed, 2])
    uninterrupted(fit_least_squares(model, prompts, steps=cell["steps"], batch=cell["batch"], rng=source))
    report = decompose(model, family, cell["n"], length, np.random.default_rng([seed, 3]))
    column = report.per_k.columns.index("bayes_gap")
    return {
        "gap": report.bayes_gap.value,
        "variance": report.posterior_variance.value,
        "gap_at_1": float(report.per_k.rows[0][column]),  # type: ignore[arg-type]
    }


def histogram_errors(widths: tuple[int, ...], n: int, rng: np.random.Generator) -> list[float]:
    """Mean squared error of a pooled soft histogram for the mean of Takagi's function, rough at every scale."""
    import torch

    from icl_theory.uniform import SoftHistogram

    u = rng.random((n, 16))
    truth = _takagi(u).mean(1)
    errors = []
    for m in widths:
        cells = SoftHistogram(m + 1, 0.0, 1.0)
        pooled = cells(torch.from_numpy(u)).mean(1).numpy()
        errors.append(float(np.square(pooled @ _takagi(np.linspace(0, 1, m + 1)) - truth).mean()))
    return errors


def _takagi(u: Any) -> Any:
    """Sum of 2^-j times the distance of 2^j u to the nearest integer: Hoelder 1 but for a logarithm, nowhere smooth."""
    return sum(np.abs(2.0**j * u - np.round(2.0**j * u)) / 2.0**j for j in range(24))


SETTINGS = {"p": 16, "m": 16, "steps": 1500, "batch": 256, "n": 4000}


def run_rate(ctx: Context) -> Evidence:
    """Measure the Bayes gap over N, with and without telling the model how many examples it has seen; then m and p."""
    sizes = [64, 256, 1024, 4096, 16384]
    base = SETTINGS | {"seed": seed_of(ctx)}
    few = sizes[1::2] + sizes[-1:]  # enough to see where mean pooling without k stops
    cells = [base | {"N": N, "cardinality": False} for N in few] + [base | {"N": N, "cardinality": True} for N in sizes]
    cells += [base | {"N": 4096, "cardinality": True, "m": m} for m in (1, 2, 4)]
    cells += [base | {"N": 1024, "cardinality": True, "p": p} for p in (4, 8)]
    found = sweep(ctx, gap_cell, cells, "trainings")
    without = [r["gap"] for r in found[: len(few)]]
    within = [r["gap"] for r in found[len(few) : len(few) + len(sizes)]]
    slope, low, high = _slope(sizes, within)
    slope_without, _, _ = _slope(few, without)
    widths = (4, 8, 16, 32, 64)
    errors = histogram_errors(widths, 4000, ctx.rng)
    rows = tuple(
        (c["N"], c["m"], c["p"], "yes" if c["cardinality"] else "no", r["gap"], r["gap_at_1"], r["variance"])
        for c, r in zip(cells, found)
    )
    return Evidence(
        headline=f"gap ~ N^{slope:.2f} [{low:.2f}, {high:.2f}] with k given, N^{slope_without:.2f} without",
        values={
            "slope": slope,
            "slope_high": high,
            "slope_without": slope_without,
            "approximation_slope": _slope(widths, errors)[0],
        },
        tables=(
            Table("Bayes gap", ("N", "m", "p", "k given", "gap", "gap at k = 1", "posterior variance"), rows),
            Table("Soft histogram", ("cells", "mean squared error"), tuple(zip(widths, errors))),
        ),
        series=(
            Series(
                "Bayes gap against the number of training prompts",
                "prompts N",
                "Bayes gap",
                {"mean pooling": (few, without), "mean pooling and 1/k": (sizes, within)},
                log_x=True,
                log_y=True,
            ),
        ),
        settings=base | {"noise": 0.5, "x": "uniform on [-1, 1]"},
    )


def run_consistency(ctx: Context) -> Evidence:
    """Compute the collision in fractions; beyond smoke scale also train on many prompts, told k and not told."""
    found = bounds.collision_example()
    values = {"collision": float(found.gap)}
    rows = tuple((name, str(value), float(value)) for name, value in found._asdict().items())
    tables = [Table("Two prompts that pool alike, {1} and {1, 1}", ("quantity", "exactly", "value"), rows)]
    settings: dict[str, object] = {}
    if ctx.scale is not Scale.SMOKE:
        base = SETTINGS | {"seed": seed_of(ctx), "N": 16384}
        without, within = sweep(ctx, gap_cell, [base | {"cardinality": c} for c in (False, True)], "trainings")
        values |= {"floor": without["gap"], "floor_ratio": without["gap"] / within["gap"]}
        tables.append(
            Table(
                "Trained on 16384 prompts",
                ("k given", "gap", "gap at k = 1"),
                (("no", without["gap"], without["gap_at_1"]), ("yes", within["gap"], within["gap_at_1"])),
            )
        )
        settings = dict(base)
    return Evidence(
        headline=f"no mean-pooling model has a gap below {found.gap} on this family",
        values=values,
        tables=tuple(tables),
        settings=settings,
    )  # fmt: skip


def _slope(x: Any, y: Any) -> tuple[float, float, float]:
    """Slope of log y in log x with Student's 95 % interval."""
    from scipy.stats import linregress, t

    fit = linregress(np.log(x), np.log(y))
    half = float(t.ppf(0.975, len(x) - 2)) * float(fit.stderr)
    return float(fit.slope), float(fit.slope) - half, float(fit.slope) + half


def accept_rate(e: Evidence) -> Verdict:
    """Accept where the gap falls with N beyond doubt, and the approximation has the exponent of Theorem 2."""
    v = e.values
    ok = v["slope_high"] < 0 and abs(v["approximation_slope"] + 2) <= 0.3
    reason = (
        f"gap ~ N^{v['slope']:.2f}, upper end of the 95 % interval {v['slope_high']:.2f} "
        f"(N^{v['slope_without']:.2f} where the "
        f"model is not told k, see b2-consistency); soft histogram error ~ "
        f"m^{v['approximation_slope']:.2f} (theory -2 alpha / d_eff = -2)"
    )
    return Verdict.of(ok, reason)


def accept_consistency(e: Evidence) -> Verdict:
    """Accept only if nothing keeps the gap of mean pooling from zero."""
    v = e.values
    ok = v["collision"] == 0 and v.get("floor_ratio", 0.0) <= 3
    reason = (
        f"counterexample: prompts {{1}} and {{1, 1}} pool alike for every feature map, so a gap of 1/255 = "
        f"{v['collision']:.6f} stays whatever m and N"
    )
    if "floor" in v:
        reason += (
            f"; trained without k the gap stops at {v['floor']:.4f}, {v['floor_ratio']:.1f} times that with 1/k given"
        )
    return Verdict.of(ok, reason)


CLAIMS_GAP: tuple[Claim, ...] = (
    Claim(
        id="icl-theory/b2-rate",
        statement="The Bayes gap of a uniform-attention transformer falls as a power of the number of "
        "training prompts.",
        source=f"{BAYES_PAPER}, Theorem 2",
        paper="m^(-2 alpha / d_eff) + m / (p N)",
        run=run_rate,
        accept=accept_rate,
        scales=frozenset({Scale.LAPTOP, Scale.FULL}),
    ),
    Claim(
        id="icl-theory/b2-consistency",
        statement="As written, with mean pooling that is not told k, the gap tends to zero with m and N.",
        source=f"{BAYES_PAPER}, Theorem 2 and Definition 2",
        paper="R_BG -> 0",
        run=run_consistency,
        accept=accept_consistency,
    ),
)
