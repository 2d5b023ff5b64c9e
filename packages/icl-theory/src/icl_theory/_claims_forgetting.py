"""Claims of arXiv 2510.10981 on forgetting: how fast a Bayes mixture drops wrong task types."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Series, Verdict

from icl_theory import bounds
from icl_theory._claims_common import BAYES_PAPER
from icl_theory.bayes import FiniteTasks, LinearGaussian, Mixture
from icl_theory.risk import decompose, mixture_study


class Constant:
    """f(x) = value. A class, so that it can be sent to other processes."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, x: Any) -> Any:
        """Return the constant for every input."""
        return np.full(x.shape[:-1], self.value)


def separated() -> Mixture:
    """Three types f = o + w x, o = -0.6, 0, 0.6, w ~ N(0, 0.09), noise 0.5."""
    return Mixture(
        [
            LinearGaussian(1, 0.5, [o, 0.0], np.diag([0.0, 0.09]), features=("polynomial", 1), allow_singular=True)
            for o in (-0.6, 0.0, 0.6)
        ]
    )


def nested() -> Mixture:
    """Two types on two inputs: the second weight zero, or N(0, 1); noise 0.5."""
    return Mixture(
        [LinearGaussian(2, 0.5, prior_cov=np.diag([1.0, free]), allow_singular=free == 0) for free in (0.0, 1.0)]
    )


def _size(ctx: Context) -> int:
    return 2000 if ctx.scale is Scale.SMOKE else 20_000


def run_separated(ctx: Context) -> Evidence:
    """Measure E[1 - pi_true] for separated types, and the bound of Theorem 3 for two constants."""
    n = _size(ctx)
    study = mixture_study(separated(), n, 33, ctx.rng).all
    two = FiniteTasks([Constant(0.5), Constant(-0.5)], noise=1.0, dim=1)
    report = decompose(_zero, two, 2 * n, 129, ctx.rng)
    column = report.per_k.columns.index("posterior_variance")
    variance = [float(row[column]) for row in report.per_k.rows]  # type: ignore[arg-type]
    k = list(range(1, 129))
    limit = [bounds.posterior_variance_bound(j, 0.5, 0.5, 0.5, 1.0, 0.0) for j in k]
    return Evidence(
        headline=f"separated types: wrong weight ~ exp(-{study.exponential.rate:.3f} k), R2 {study.exponential.r2:.4f}",
        values={
            "exp_r2": study.exponential.r2,
            "power_r2": study.power.r2,
            "rate": study.exponential.rate,
            "largest_variance_over_bound": max(v / b for v, b in zip(variance, limit)),
        },
        series=(
            Series(
                "Weight of wrong types, separated types",
                "pairs k",
                "E[1 - pi_true]",
                {"measured": (study.k[1:].tolist(), study.wrong[1:].tolist())},
                log_y=True,
            ),
            Series(
                "Posterior variance of two constants and its bound",
                "pairs k",
                "E Var(f)",
                {"measured": (k, variance), "bound of Theorem 3": (k, limit)},
                log_y=True,
            ),
        ),
        settings={"prompts": n, "fit": "k = 4 .. 32"},
    )


def _zero(x: Any, y: Any) -> Any:  # noqa: ARG001
    return np.zeros((y.shape[0], y.shape[1] - 1))


def accept_separated(e: Evidence) -> Verdict:
    """Accept where the decay is exponential with R2 >= 0.99, and the bound is never exceeded."""
    v = e.values
    ok = v["exp_r2"] >= 0.99 and v["largest_variance_over_bound"] <= 1
    reason = (
        f"separated types: exponential, R2 {v['exp_r2']:.4f}, rate {v['rate']:.3f}; the variance of two constants "
        f"is at most "
        f"{v['largest_variance_over_bound']:.3f} of the bound, k = 1 .. 128. For nested types see b3-nested"
    )
    return Verdict.of(ok, reason)


def run_nested(ctx: Context) -> Evidence:
    """Measure E[1 - pi_true] where the wrong type contains the true one."""
    n = _size(ctx)
    study = mixture_study(nested(), n, 65, ctx.rng).types[0]
    drift = [bounds.estimate_drift(nested(), n, ctx.rng, length=j).D[0] for j in (1, 8, 32)]
    k = study.k[1:]
    return Evidence(
        headline=f"nested types: wrong weight ~ k^-{study.power.rate:.2f}, not exponential",
        values={
            "exp_r2": study.exponential.r2,
            "power_r2": study.power.r2,
            "power": study.power.rate,
            "drift_1": drift[0],
            "drift_32": drift[2],
        },
        series=(
            Series(
                "Weight of wrong types, nested types",
                "pairs k",
                "E[1 - pi_true]",
                {
                    "measured": (k.tolist(), study.wrong[1:].tolist()),
                    "power law": (k.tolist(), (study.power.scale * k**-study.power.rate).tolist()),
                    "exponential": (
                        k.tolist(),
                        (study.exponential.scale * np.exp(-study.exponential.rate * k)).tolist(),
                    ),
                },
                log_x=True,
                log_y=True,
            ),
        ),
        settings={"prompts": n, "fit": "k = 4 .. 64"},
    )


def accept_nested(e: Evidence) -> Verdict:
    """Accept where the decay is exponential with R2 >= 0.99 and better than a power law."""
    v = e.values
    ok = v["exp_r2"] >= 0.99 and v["exp_r2"] > v["power_r2"]
    reason = (
        f"counterexample, w2 = 0 inside w2 free: a power law k^-{v['power']:.2f} with R2 {v['power_r2']:.4f} against "
        f"{v['exp_r2']:.3f} for the exponential; the drift falls from {v['drift_1']:.4f} at the first step to "
        f"{v['drift_32']:.4f} at the 32nd, so no D > 0 serves"
    )
    return Verdict.of(ok, reason)


CLAIMS_FORGETTING: tuple[Claim, ...] = (
    Claim(
        id="icl-theory/b3-separated",
        statement="A Bayes mixture forgets wrong task types exponentially fast where the types are separated.",
        source=f"{BAYES_PAPER}, Theorem 3",
        paper="exp(-C k)",
        run=run_separated,
        accept=accept_separated,
    ),
    Claim(
        id="icl-theory/b3-nested",
        statement="The forgetting is exponential for nested types too (the theorem's condition D_j > 0 left out).",
        source=f"{BAYES_PAPER}, Theorem 3",
        paper="exp(-C k)",
        run=run_nested,
        accept=accept_nested,
    ),
)
