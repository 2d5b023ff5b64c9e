"""Claims of arXiv 2510.10981: the identity, shifts of inputs, mean pooling."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Table, Verdict

from icl_theory import bounds
from icl_theory._claims_common import BAYES_PAPER, UniformInputs, seed_of
from icl_theory.bayes import FiniteTasks, LinearGaussian
from icl_theory.risk import Predictor, call_model, decompose

if TYPE_CHECKING:
    from icl_theory.uniform import UniformAttention

# --- B1


class Zero:
    """Predicts zero. A class, so that it can be sent to other processes."""

    def __call__(self, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Return zeros at k = 1 .. length - 1."""
        return np.zeros((y.shape[0], y.shape[1] - 1))


class Means:
    """Predicts the posterior mean of a family, the right one or another."""

    def __init__(self, family: LinearGaussian) -> None:
        self.family = family

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the means at k = 1 .. length - 1."""
        return self.family.predict(x, y).mean[:, 1:]


def run_identity(ctx: Context) -> Evidence:
    """Test (M - f)^2 = (M - E f)^2 + Var f in the mean, for four predictors and at every k."""
    from icl_theory.training import uninterrupted
    from icl_theory.uniform import UniformAttention, fit_least_squares

    smoke = ctx.scale is Scale.SMOKE
    n, length = (4000, 9) if smoke else (100_000, 17)
    family = LinearGaussian(2, 0.5)
    trained = UniformAttention(2, 8, hidden=32, rng=seed_of(ctx))
    if smoke:
        _fit_readout(trained, family, length, seed_of(ctx))
    else:
        uninterrupted(fit_least_squares(trained, family, steps=500, batch=64, length=length, rng=seed_of(ctx)))
    models: dict[str, Predictor] = {
        "exact Bayes": Means(family),
        "ridge with three times the noise": Means(LinearGaussian(2, 1.5)),
        "trained uniform attention": trained,
        "constant 0": Zero(),
    }
    rows, worst_z, worst_p = [], 0.0, 1.0
    for name, model in ctx.progress.track(models.items(), "predictors"):
        report = decompose(model, family, n, length, ctx.rng)
        p = _joint_p(model, family, n // 2, length, ctx.rng)
        worst_z, worst_p = max(worst_z, abs(report.identity_gap.z)), min(worst_p, p)
        parts = (report.risk_naive, report.bayes_gap, report.posterior_variance)
        rows.append((name, *(e.value for e in parts), report.identity_gap.value, report.identity_gap.z, p))
    return Evidence(
        headline=f"risk = gap + posterior variance: largest |z| {worst_z:.2f} over {len(models)} predictors",
        values={"largest_z": worst_z, "least_p": worst_p, "exact_residual": float(_exact_residual())},
        tables=(
            Table(
                "Risk and its parts",
                ("predictor", "risk", "Bayes gap", "posterior variance", "identity gap", "z", "p over all k"),
                tuple(rows),
            ),
        ),
        settings={"prompts": n, "length": length, "family": "linear, dim 2, noise 0.5"},
    )


def _fit_readout(model: UniformAttention, family: LinearGaussian, length: int, seed: int) -> None:
    """Fit the last layer by least squares: a trained model without the seconds that torch's optimizers take to load."""
    import torch

    prompts = family.sample(500, length, seed)
    x, y = torch.from_numpy(prompts.x).float(), torch.from_numpy(prompts.y).float()
    last = model.rho[-1]
    assert isinstance(last, torch.nn.Linear)  # noqa: S101
    with torch.no_grad():
        seen: list[torch.Tensor] = []
        hook = last.register_forward_pre_hook(lambda _, given: seen.append(given[0].flatten(0, 1)))
        model(x, y)
        hook.remove()
        hidden = torch.cat([seen[0], torch.ones(len(seen[0]), 1)], 1)
        ridge = hidden.T @ hidden + 1e-3 * torch.eye(hidden.shape[1])
        solved = torch.linalg.solve(ridge, hidden.T @ y[:, 1:].flatten())
        last.weight.copy_(solved[:-1])
        last.bias.copy_(solved[-1])


def _joint_p(model: Any, family: LinearGaussian, n: int, length: int, rng: np.random.Generator) -> float:
    """p-value of Hotelling's test that the identity holds at every k at once; the k of a prompt are correlated."""
    from scipy.special import chdtrc

    prompts = family.sample(n, length, rng)
    posterior = family.posterior(prompts)
    out = call_model(model, prompts.x, prompts.y)
    m, v, f = posterior.mean[:, 1:], posterior.var[:, 1:], prompts.f[:, 1:]
    gap = np.square(out - f) - np.square(out - m) - v
    mean, cov = gap.mean(0), np.cov(gap.T) / n
    return float(chdtrc(length - 1, mean @ np.linalg.solve(cov, mean)))


def _exact_residual() -> Fraction:
    """Risk - gap - posterior variance on a finite family, in rationals; any predictor of the first label."""
    prior = {0: Fraction(1, 2), 1: Fraction(1, 3), 3: Fraction(1, 6)}
    noise = {0: Fraction(2, 3), 1: Fraction(1, 3)}
    residual = Fraction(0)
    for label in range(5):
        weight = {f: prior[f] * noise[label - f] for f in prior if label - f in noise}
        total = sum(weight.values(), Fraction(0))
        if not total:
            continue
        guess = Fraction(label * label - 1, 7)
        mean = sum((f * w for f, w in weight.items()), Fraction(0)) / total
        residual += sum((((guess - f) ** 2 - (mean - f) ** 2) * w for f, w in weight.items()), Fraction(0))
        residual -= total * (guess - mean) ** 2
    return residual


def accept_identity(e: Evidence) -> Verdict:
    """Accept where no |z| exceeds 4, no joint p falls below 0.001, and the rationals agree exactly."""
    v = e.values
    ok = v["largest_z"] <= 4 and v["least_p"] >= 1e-3 and v["exact_residual"] == 0
    reason = (
        f"largest |z| {v['largest_z']:.2f}; least p of the joint test over k {v['least_p']:.3f}; in rationals the "
        f"residual is "
        f"{v['exact_residual']:g}"
    )
    return Verdict.of(ok, reason)


# --- B4


def run_shift(ctx: Context) -> Evidence:
    """Move the inputs, and compare the change of the gap with the bound; then a shift that changes R_PV alone."""
    from icl_theory.uniform import UniformAttention

    smoke = ctx.scale is Scale.SMOKE
    n, p, slope = 4000 if smoke else 40_000, 4, 1.5
    model = UniformAttention(1, 8, clip=1.0, spectral_norm=True, rng=seed_of(ctx)).eval()
    # |f|, |M| <= 1; posterior odds are exp(slope sum x y), so L = max(k slope / 4 (f_+ - f_-), slope / 4).
    spread = math.tanh(slope / 2)
    L = max(p * slope / 4 * spread, slope / 4)
    rows, worst = [], 0.0
    seed = seed_of(ctx)
    gaps = {}
    for shift in (0.0, 0.1, 0.3, 0.6):
        family = FiniteTasks(
            [[slope], [-slope]], likelihood="bernoulli", inputs=UniformInputs(-1 + shift, 0.2 + shift)
        )  # fmt: skip
        report = decompose(model, family, n, p + 1, np.random.default_rng(seed), executor=None)
        gaps[shift] = report.bayes_gap
        # One coupling bounds W_1: every x moves by `shift`, a label flips with the change of its odds at most.
        x = np.linspace(-1, 0.2, 2001)
        flips = np.abs(_sigmoid(slope * (x + shift)) - _sigmoid(slope * x)).mean()
        W = shift + 2 * flips + shift
        bound = bounds.shift_bound(1.0, 1.0, L, _lipschitz(model), [W] * p)
        change = abs(gaps[shift].value - gaps[0.0].value)
        rows.append((shift, gaps[shift].value, change, bound, report.posterior_variance.value))
        if shift:
            worst = max(worst, change / bound)
    source, target = (
        decompose(Zero(), FiniteTasks([[1.0], [-1.0]], noise=1e-3, inputs=Coin(q)), n, 2, ctx.rng).posterior_variance
        for q in (0.0, 0.5)
    )
    return Evidence(
        headline=f"the gap changes by at most {worst:.3f} of the bound; "
        f"R_PV from {source.value:.3f} to {target.value:.3f}",
        values={
            "largest_change_over_bound": worst,
            "variance_source": source.value,
            "variance_target": target.value,
            "variance_target_stderr": target.stderr,
        },
        tables=(
            Table("Shift of inputs", ("shift", "Bayes gap", "change", "bound", "posterior variance"), tuple(rows)),
        ),
        settings={"prompts": n, "p": p, "L": L, "Lambda": _lipschitz(model)},
    )


class Coin:
    """Inputs 1 with probability q, else 0."""

    def __init__(self, q: float) -> None:
        self.q = q

    def __call__(self, rng: np.random.Generator, n: int, length: int) -> Any:
        """Draw (n, length, 1)."""
        return (rng.random((n, length, 1)) < self.q).astype(float)


def _sigmoid(t: Any) -> Any:
    return 1 / (1 + np.exp(-t))


def _lipschitz(model: Any) -> float:
    """L_s Lip(phi) + L_c from products of spectral norms, which hold for the l1 metric on (x, y) and means too."""
    import torch

    def product(net: Any) -> float:
        norms = [float(torch.linalg.matrix_norm(m.weight.detach(), 2)) for m in net if isinstance(m, torch.nn.Linear)]
        return math.prod(norms)

    return product(model.rho) * product(model.phi) + product(model.rho)


def accept_shift(e: Evidence) -> Verdict:
    """Accept where the bound is never exceeded, and the posterior variance moves from 0 to 1/4."""
    v = e.values
    ok = (
        v["largest_change_over_bound"] <= 1
        and v["variance_source"] < 1e-4
        and abs(v["variance_target"] - 0.25) <= 4 * v["variance_target_stderr"]
    )
    reason = (
        f"the gap changes by at most {v['largest_change_over_bound']:.3f} of the bound; the posterior variance, "
        f"of which the "
        f"theorem says nothing, goes from {v['variance_source']:.4f} to {v['variance_target']:.4f} (exactly 0 and 1/4)"
    )
    return Verdict.of(ok, reason)


# --- B5


def run_pooling(ctx: Context) -> Evidence:
    """Compare with softmax attention at Q = K = 0, and permute the context."""
    import torch

    from icl_theory.uniform import UniformAttention

    model, length = UniformAttention(3, 16, rng=seed_of(ctx)).double(), 12
    x, y = (torch.from_numpy(ctx.rng.normal(size=s)) for s in ((50, length, 3), (50, length)))
    turn = torch.from_numpy(np.append(ctx.rng.permutation(length - 1), length - 1))
    with torch.no_grad():
        out = model(x, y)
        moved = float((model(x[:, turn], y[:, turn])[:, -1] - out[:, -1]).abs().max())
        values = model.phi(torch.cat([x, y[..., None]], -1))
        apart = 0.0
        for k in range(1, length):
            zero = torch.zeros(50, k, 4, dtype=torch.float64)
            pooled = torch.nn.functional.scaled_dot_product_attention(zero[:, :1], zero, values[:, :k])[:, 0]
            attended = model.rho(torch.cat([pooled, x[:, k]], -1))[:, 0].clamp(-5, 5)
            apart = max(apart, float((attended - out[:, k - 1]).abs().max()))
    return Evidence(
        headline=f"differs from softmax attention with Q = K = 0 by {apart:.1e}, under permutation by {moved:.1e}",
        values={"from_softmax": apart, "under_permutation": moved},
        settings={"d": 3, "m": 16, "length": length},
    )


def accept_pooling(e: Evidence) -> Verdict:
    """Accept differences up to 1e-6."""
    v = e.values
    reason = f"from softmax attention {v['from_softmax']:.1e}, under permutation {v['under_permutation']:.1e}"
    return Verdict.of(max(v.values()) <= 1e-6, reason)


CLAIMS_BAYES: tuple[Claim, ...] = (
    Claim(
        id="icl-theory/b1-identity",
        statement="The risk of any predictor is its Bayes gap plus the posterior variance.",
        source=f"{BAYES_PAPER}, Theorem 1",
        paper="R = R_BG + R_PV",
        run=run_identity,
        accept=accept_identity,
    ),
    Claim(
        id="icl-theory/b4-shift",
        statement="Under a shift of inputs the Bayes gap changes by no more than a Wasserstein distance allows.",
        source=f"{BAYES_PAPER}, Theorem 4",
        paper="2 (B_M + B_f) (L + Lambda) mean W_1",
        run=run_shift,
        accept=accept_shift,
    ),
    Claim(
        id="icl-theory/b5-pooling",
        statement="Attention with Q = K = 0 is mean pooling, and does not see the order of the context.",
        source=f"{BAYES_PAPER}, Definition 2",
        paper="exact",
        run=run_pooling,
        accept=accept_pooling,
    ),
)
