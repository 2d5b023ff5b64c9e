"""Claims about cost, wide matrices and convergence: no language model is trained here."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict
from lemmata_core.timing import growth, paired

from optim_rmnp.row_norm import row_normalize
from optim_rmnp.step import Rule, step_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

# ------------------------------------------------------------------------------------------------------------- cost

COST_SQUARE = {
    Scale.SMOKE: (256, 512, 768),
    Scale.LAPTOP: (256, 384, 512, 768, 1024),
    Scale.FULL: (512, 768, 1024, 1536, 2048, 4096),
}
# GPT-2 small: attention output, fused query-key-value, and both halves of the perceptron.
COST_LAYERS = {Scale.SMOKE: (), Scale.LAPTOP: ((2304, 768), (3072, 768), (768, 3072))}
COST_LAYERS[Scale.FULL] = (*COST_LAYERS[Scale.LAPTOP], (6400, 1600), (1600, 6400))


def newton_schulz(matrix: Tensor, dtype: torch.dtype = torch.bfloat16, steps: int = 5) -> Tensor:
    """Muon's preconditioner: five quintic Newton-Schulz steps towards the polar factor.

    Parameters
    ----------
    matrix : torch.Tensor
        Shape (m, n).
    dtype : torch.dtype
        bfloat16 as Muon runs it. CPUs without bfloat16 units are faster in float32.
    steps : int

    Returns
    -------
    torch.Tensor
        Of `dtype`. The coefficients are K. Jordan's (Muon, 2024), as in `torch.optim.Muon`.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.to(dtype)
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.t()
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


def run_cost(context: Context) -> Evidence:
    """Time both preconditioners on the same matrices, in turn."""
    device = "cuda" if context.scale is Scale.FULL and torch.cuda.is_available() else "cpu"
    squares = COST_SQUARE[context.scale]
    shapes = [(n, n) for n in squares] + list(COST_LAYERS[context.scale])
    repeats = {Scale.SMOKE: 3, Scale.LAPTOP: 5, Scale.FULL: 9}[context.scale]
    dtypes = (torch.bfloat16, torch.float32) if has_bfloat16_units(device) else (torch.float32,)
    rows = []
    for shape in context.progress.track(shapes, "preconditioners"):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0])).to(device)
        timing = [paired_preconditioners(x, d, repeats) for d in dtypes]
        rows.append((min(own for own, _ in timing), *(theirs for _, theirs in timing)))
    sizes = [n * n for n in squares]
    own = growth(sizes, [r[0] for r in rows[: len(squares)]])
    theirs = growth(sizes, [min(r[1:]) for r in rows[: len(squares)]])
    ratios = [min(r[1:]) / r[0] for r in rows]
    names = ("row normalisation", *(f"Newton-Schulz {str(d).removeprefix('torch.')}" for d in dtypes))
    table = Table(
        "Seconds a matrix",
        ("shape", *names, "ratio to the faster"),
        [(f"{m} x {n}", *row, ratio) for (m, n), row, ratio in zip(shapes, rows, ratios)],
        timed=(*names, "ratio to the faster"),
    )
    curve = Series(
        "Cost of one preconditioning",
        "entries of a square matrix",
        "seconds",
        {name: (sizes, [r[k] for r in rows[: len(squares)]]) for k, name in enumerate(names)},
        log_x=True,
        log_y=True,
    )
    values = {
        "lowest_ratio": min(ratios),
        "highest_ratio": max(ratios),
        "exponent_rows": own.exponent,
        "exponent_newton_schulz": theirs.exponent,
    }
    return Evidence(
        headline=f"{min(ratios):.0f}x to {max(ratios):.0f}x cheaper than the faster Newton-Schulz",
        values=values,
        tables=(table,),
        series=(curve,),
        settings={"device": device, "repeats": repeats, "newton_schulz_steps": 5, "dtypes": [str(d) for d in dtypes]},
        timed=frozenset({*values, curve.title, "headline"}),
    )


def has_bfloat16_units(device: str) -> bool:
    """Whether a product in bfloat16 takes less than four times one in float32: without units for it, some seventy."""
    x = torch.ones(256, 256, device=device)
    timing = paired(lambda: x.bfloat16() @ x.bfloat16(), lambda: x @ x, repeats=3, warmup=1)
    return timing.a_seconds < 4 * timing.b_seconds


def paired_preconditioners(x: Tensor, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """Seconds of row normalisation and of Newton-Schulz in `dtype`."""
    wait: Callable[[], None] = torch.cuda.synchronize if x.is_cuda else lambda: None
    inner = max(1, 200_000 // x.numel())  # several small ones a sample: a clock tick must not matter

    def ours() -> None:
        for _ in range(inner):
            row_normalize(x)
        wait()

    def theirs() -> None:
        for _ in range(inner):
            newton_schulz(x, dtype)
        wait()

    timing = paired(ours, theirs, repeats=repeats, warmup=1)
    return timing.a_seconds / inner, timing.b_seconds / inner


def accept_cost(evidence: Evidence) -> Verdict:
    """At least the paper's lowest ratio everywhere, and exponents that show why the gap widens."""
    v = evidence.values
    text = (
        f"{v['lowest_ratio']:.0f}x or more at every size; seconds grow as entries^{v['exponent_rows']:.2f} against "
        f"entries^{v['exponent_newton_schulz']:.2f}"
    )
    ok = v["lowest_ratio"] >= 13 and v["exponent_rows"] <= 1.15 and v["exponent_newton_schulz"] >= 1.35
    return Verdict.of(ok, text, asked="13x, <= 1.15, >= 1.35")


# ------------------------------------------------------------------------------------------------------ equivalence


def run_equivalence(context: Context) -> Evidence:
    """Frobenius distance of row normalisation from the polar factor, for Gaussian matrices of 32 rows."""
    widest = 1024 if context.scale is Scale.SMOKE else 8192
    widths = [2**k for k in range(6, int(math.log2(widest)) + 1)]
    draws = 8 if context.scale is Scale.SMOKE else 16
    gaps = []
    for n in context.progress.track(widths, "polar factors"):
        found = []
        for _ in range(draws):
            v = torch.from_numpy(context.rng.standard_normal((32, n)))
            u, _, vh = torch.linalg.svd(v, full_matrices=False)
            found.append(float((row_normalize(v) - u @ vh).norm()))
        gaps.append(fmean(found))
    fit = growth(widths, gaps)
    return Evidence(
        headline=f"the gap falls as n^{fit.exponent:.3f}",
        values={"slope": fit.exponent, "low": fit.low, "high": fit.high},
        tables=(Table("Distance from the polar factor, 32 rows", ("columns", "distance"), list(zip(widths, gaps))),),
        series=(
            Series(
                "Row normalisation tends to orthogonalisation",
                "columns n",
                "Frobenius distance",
                {"measured": (widths, gaps), "4 sqrt(16.5 / n)": (widths, [4 * math.sqrt(16.5 / n) for n in widths])},
                log_x=True,
                log_y=True,
            ),
        ),
        settings={"rows": 32, "draws": draws, "widths": widths},
    )


def accept_equivalence(evidence: Evidence) -> Verdict:
    """A slope of -1/2."""
    slope = evidence.values["slope"]
    text = f"slope of the gap in n: {slope:.3f} (theory -0.5)"
    return Verdict.of(abs(slope + 0.5) <= 0.05, text)


# ------------------------------------------------------------------------------------------------------------- rate


def quadratic_run(steps: int, seed: int, repeats: int) -> float:
    """Mean over the steps of the sum of the gradient's row norms on a noisy 8 x 16 quadratic.

    f(W) = 1/2 sum_ij a_j W_ij^2 with curvatures a from 0.1 to 1 (so L = 1), started at ones, with unbiased noise of
    standard deviation 4 in the Frobenius norm.

    Parameters
    ----------
    steps : int
        T.
    seed : int
    repeats : int
        Independent runs, stacked into one tall matrix: rows do not see each other.

    Returns
    -------
    float
    """
    m, n, sigma = 8, 16, 4.0
    generator = torch.Generator().manual_seed(seed)
    curvature = torch.linspace(0.1, 1.0, n)
    w = torch.ones(repeats * m, n)
    rule = theorem_rule(0.5 * float(curvature.sum()) * m, 1.0, sigma, steps, m)
    momentum = torch.zeros_like(w)
    total = torch.zeros(())
    for _ in range(steps):
        gradient = curvature * w
        total += gradient.norm(dim=1).sum()
        noise = torch.randn(w.shape, generator=generator) * (sigma / math.sqrt(m * n))
        step_rows(w, gradient + noise, momentum, rule)
    return float(total) / (steps * repeats)


def theorem_rule(delta: float, smoothness: float, sigma: float, steps: int, rows: int) -> Rule:
    """The step of the convergence theorem: no Nesterov term, no decay, no scale.

    1 - mu = min(1, sqrt(L Delta) / (sigma sqrt(T))) and lr = sqrt((1 - mu) Delta / (L T m)). The factor in m balances
    the two terms of the bound that lr stands in: Delta / (lr T), and L lr m / (1 - mu), the lag of the momentum (a step
    has the Frobenius norm lr sqrt(m), and a sum of row norms is at most sqrt(m) times it).
    """
    fresh = min(1.0, math.sqrt(smoothness * delta) / (sigma * math.sqrt(steps)))
    lr = math.sqrt(fresh * delta / (smoothness * steps * rows))
    return Rule(lr, 0.0, 1 - fresh, False, 1e-12, 1.0)


def network_run(steps: int, seed: int, repeats: int) -> float:
    """The same mean on a two-layer net, 8-16-4, tanh, half the mean squared error on 256 points, batches of 4.

    L and sigma of the theorem are measured at the start: the largest of 32 secant slopes of the gradient, and the
    root mean square distance of a batch's gradient from the full one.

    Parameters
    ----------
    steps, seed : int
    repeats : int
        Independent nets on one data set, stacked.

    Returns
    -------
    float
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def batch() -> tuple[Tensor, Tensor]:
        picked = torch.randint(256, (repeats, 4), generator=generator)
        return points[picked], targets[picked]

    points = draw(256, 8)
    targets = torch.tanh(points @ draw(8, 16)) @ draw(16, 4) / 4
    everything = points.expand(repeats, -1, -1), targets.expand(repeats, -1, -1)
    weights = [draw(repeats, 16, 8) / math.sqrt(8), draw(repeats, 4, 16) / 4]
    full = network_gradients(weights, *everything)
    slopes, noise = [], []
    for _ in range(32):
        direction = [draw(*w.shape) for w in weights]
        moved = [w + 0.1 * d / _norm(direction) for w, d in zip(weights, direction)]
        change = [a - b for a, b in zip(network_gradients(moved, *everything), full)]
        slopes.append(float((_norm(change) / 0.1).max()))
        gap = [a - b for a, b in zip(network_gradients(weights, *batch()), full)]
        noise.append(float(_norm(gap).square().mean()))
    hidden = torch.tanh(everything[0] @ weights[0].mT)
    delta = 0.5 * float((hidden @ weights[1].mT - everything[1]).square().sum(dim=2).mean())
    rule = theorem_rule(delta, max(slopes), math.sqrt(fmean(noise)), steps, 20)
    momenta = [torch.zeros_like(w) for w in weights]
    stride = max(1, steps // 512)
    seen = []
    for step in range(steps):
        if step % stride == 0:
            now = network_gradients(weights, *everything)
            seen.append(sum(float(g.norm(dim=2).sum()) for g in now) / repeats)
        for w, g, m in zip(weights, network_gradients(weights, *batch()), momenta):
            step_rows(w.flatten(0, 1), g.flatten(0, 1), m.flatten(0, 1), rule)
    return fmean(seen)


def network_gradients(weights: Sequence[Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of half the mean squared error of W2 tanh(W1 x), written out; the first dimension is the repeat."""
    hidden = torch.tanh(x @ weights[0].mT)
    error = (hidden @ weights[1].mT - y) / x.shape[1]
    back = (error @ weights[1]) * (1 - hidden.square())
    return back.mT @ x, error.mT @ hidden


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    """Frobenius norm over both matrices, one a repeat."""
    return torch.stack([t.square().sum(dim=(1, 2)) for t in tensors]).sum(dim=0).sqrt().view(-1, 1, 1)


def run_rate(context: Context) -> Evidence:
    """The mean gradient norm after T steps, for T doubling."""
    top = {Scale.SMOKE: 10, Scale.LAPTOP: 14, Scale.FULL: 16}[context.scale]
    lengths = [2**k for k in range(6, top + 1)]
    repeats = 4 if context.scale is Scale.SMOKE else 8
    problems = {"quadratic": quadratic_run, "two-layer net": network_run}
    seeds = {name: int(context.rng.integers(2**31)) for name in problems}
    jobs = [
        (name, steps, context.executor.submit(run, steps, seeds[name], repeats))
        for steps in reversed(lengths)  # the longest first
        for name, run in problems.items()
    ]
    found = {}
    for name, steps, future in context.progress.track(jobs, "convergence"):
        found[name, steps] = future.result()
    means = {name: [found[name, steps] for steps in lengths] for name in problems}
    fits = {name: growth(lengths, values) for name, values in means.items()}
    lines: dict[str, tuple[Sequence[float], ...]] = {name: (lengths, values) for name, values in means.items()}
    first = means["quadratic"][0]
    lines["T^(-1/4)"] = (lengths, [first * (steps / lengths[0]) ** -0.25 for steps in lengths])
    title = "Mean over the steps of the sum of the gradient's row norms"
    rows = [(steps, *(means[name][i] for name in means)) for i, steps in enumerate(lengths)]
    return Evidence(
        headline=", ".join(f"{name}: T^{fit.exponent:.3f}" for name, fit in fits.items()),
        values={"slope_quadratic": fits["quadratic"].exponent, "slope_network": fits["two-layer net"].exponent},
        tables=(Table(title, ("steps T", *means), rows),),
        series=(
            Series("Gradient norm under the theorem's parameters", "steps T", "mean row-norm sum", lines, True, True),
        ),
        settings={"repeats": repeats, "seeds": seeds, "lengths": lengths},
    )


def accept_rate(evidence: Evidence) -> Verdict:
    """Slopes of -1/4 or steeper, with a little room for the finite range of T."""
    slopes = evidence.values["slope_quadratic"], evidence.values["slope_network"]
    text = f"slopes in T: quadratic {slopes[0]:.3f}, two-layer net {slopes[1]:.3f} (theory: -0.25 or steeper)"
    return Verdict.of(max(slopes) <= -0.22, text, asked="<= -0.22")
