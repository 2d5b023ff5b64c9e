"""Claims of arXiv 2510.10981: in-context learning as Bayesian inference."""

from __future__ import annotations

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Series, Verdict

from icl_theory import bounds
from icl_theory.bayes import FiniteTasks, LinearGaussian, Mixture
from icl_theory.risk import decompose, mixture_study

PAPER = "arXiv 2510.10981"


class Constant:
    """f(x) = value; a class, so that it can be sent to other processes."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the constant for every input."""
        return np.full(x.shape[:-1], self.value)


class Zero:
    """Predicts zero."""

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return zeros at k = 1 .. length - 1."""
        return np.zeros((y.shape[0], y.shape[1] - 1))


# --- B3


def separated() -> Mixture:
    """Three types f = o + w x, o = -0.6, 0, 0.6, w ~ N(0, 0.09), noise 0.5."""
    return Mixture(
        [
            LinearGaussian(1, 0.5, prior_mean=[o, 0.0], prior_cov=np.diag([0.0, 0.09]), features=("polynomial", 1))
            for o in (-0.6, 0.0, 0.6)
        ]
    )


def nested() -> Mixture:
    """Two types on two inputs: the second weight zero, or N(0, 1); noise 0.5."""
    return Mixture([LinearGaussian(2, 0.5, prior_cov=np.diag([1.0, free])) for free in (0.0, 1.0)])


def run_forgetting(ctx: Context) -> Evidence:
    """Measure E[1 - pi_true] for separated and nested types, and the bound of Theorem 3 for two constants."""
    n = 2000 if ctx.scale is Scale.SMOKE else 20_000
    far, near = mixture_study(separated(), n, 33, ctx.rng), mixture_study(nested(), n, 65, ctx.rng)
    simple = near.types[0]  # the simpler type, whose wrong alternative contains it
    two = FiniteTasks([Constant(0.5), Constant(-0.5)], noise=1.0, dim=1)
    report = decompose(Zero(), two, 2 * n, 129, ctx.rng)
    column = report.per_k.columns.index("posterior_variance")
    variance = [float(row[column]) for row in report.per_k.rows]  # type: ignore[arg-type]
    limit = [bounds.posterior_variance_bound(k, 0.5, 0.5, 0.5, 1.0, 0.0) for k in range(1, 129)]
    k_far, k_near = far.all.k[1:].tolist(), simple.k[1:].tolist()
    return Evidence(
        headline=f"separated types: exp(-{far.all.exponential.rate:.3f} k); nested: k^-{simple.power.rate:.2f}",
        values={
            "separated_exp_r2": far.all.exponential.r2,
            "separated_rate": far.all.exponential.rate,
            "nested_exp_r2": simple.exponential.r2,
            "nested_power_r2": simple.power.r2,
            "nested_power": simple.power.rate,
            "largest_variance_over_bound": max(v / b for v, b in zip(variance, limit)),
        },
        series=(
            Series(
                "Weight of wrong types",
                "pairs k",
                "E[1 - pi_true]",
                {"separated": (k_far, far.all.wrong[1:].tolist()), "nested": (k_near, simple.wrong[1:].tolist())},
                log_y=True,
            ),
            Series(
                "Posterior variance of two constants and its bound",
                "pairs k",
                "E Var(f)",
                {"measured": (list(range(1, 129)), variance), "bound of Theorem 3": (list(range(1, 129)), limit)},
                log_y=True,
            ),
        ),
        settings={"prompts": n},
    )


def accept_forgetting(e: Evidence) -> Verdict:
    """Accept the exponential law for separated types only; say what nested types do."""
    v = e.values
    ok = (
        v["separated_exp_r2"] >= 0.99
        and v["largest_variance_over_bound"] <= 1
        and v["nested_power_r2"] > v["nested_exp_r2"]
    )
    reason = (
        f"separated types: wrong weight falls exponentially, R2 {v['separated_exp_r2']:.4f}, and the bound is never "
        f"exceeded (at most {v['largest_variance_over_bound']:.2f} of it). Nested types: NOT exponential, a power law "
        f"k^-{v['nested_power']:.2f} (R2 {v['nested_power_r2']:.3f} against {v['nested_exp_r2']:.3f}), "
        "since no drift D > 0 exists"
    )
    return Verdict.holds(reason) if ok else Verdict.does_not_hold(reason)


CLAIMS_B: tuple[Claim, ...] = (
    Claim(
        id="icl-theory/b3-forgetting",
        statement="The Bayes mixture forgets wrong task types exponentially fast; so it is for separated types, "
        "and not for nested ones.",
        source=f"{PAPER}, Theorem 3",
        paper="exp(-C k)",
        run=run_forgetting,
        accept=accept_forgetting,
    ),
)
