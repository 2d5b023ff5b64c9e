"""The seed of a warm start: what a prediction becomes for the kernels, and whether it is better than the cold start."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lap_warmstart import passes, warm
from lap_warmstart.problem import Problem
from lap_warmstart.run import Run

Vector = NDArray[np.float64]
DENSITY = 1.2
REACH = 64.0


def choose(
    run: Run, minima: Vector, warm_start: object, fallback: str, known: warm.Seed | None = None
) -> Vector | None:
    """Return the column duals to start from, None for the cold start.

    The default rule takes the largest dual bound among the cold seed, the prediction and their midpoint. `known` is the
    warm start, where it is no predictor.
    """
    p = run.p
    if warm_start is None:
        return None
    if isinstance(warm_start, str):
        from lap_warmstart.rowdualnet import bundled

        if warm_start == "auto":
            # The network is asked only where the cold start turns out hard: elsewhere it costs more than it saves.
            run.network = bundled() if min(p.c.shape) >= 512 and p.square else None
            return None
        warm_start = bundled()
    prediction = warm.read(warm_start, p, minima) if known is None else known
    run.stats["predict_time"] = prediction.predict_time
    run.stats["notes"] = prediction.notes
    v = tame(p, feasible_columns(p, prediction), *span(p, minima))
    if fallback == "none":
        run.stats["seed"] = "warm"
        return v
    cold = minima if p.square else np.zeros_like(v)
    if fallback == "density":
        return v if keeps(run, passes.density(p, v)) else None
    seeds = (cold, v, 0.5 * (cold + v))
    return pick(run, seeds, passes.compare(p, *seeds))


def keeps(run: Run, rho: float) -> bool:
    """Apply the paper's rule to a seed of density `rho`: keep it from 1.2 tight entries a row on."""
    run.stats.update(density=rho, seed="warm" if rho >= DENSITY else "cold", fell_back=rho < DENSITY)
    return rho >= DENSITY


def pick(run: Run, seeds: tuple[Vector, Vector, Vector], totals: list[float]) -> Vector | None:
    """Take the largest dual bound among cold seed, prediction and midpoint; None is the cold start."""
    best = int(np.argmax([-math.inf if math.isnan(t) else t for t in totals]))
    run.stats.update(
        cold_bound=totals[0], dual_bound=totals[best], seed=("cold", "warm", "mid")[best], fell_back=best == 0
    )
    return None if best == 0 else seeds[best]


def feasible_columns(p: Problem, prediction: warm.Seed) -> Vector:
    """Return column duals with which the prediction is feasible.

    Row duals go through the Min-Trick. In a rectangular problem without a gate, columns are first shifted by their
    (m - n)-th largest dual, which makes the seed independent of the gauge, then clipped at 0.
    """
    v = prediction.columns
    if v is None:
        assert prediction.rows is not None  # noqa: S101 - a seed holds one of the two
        v = passes.lower_columns(p, prediction.rows)
    return clip_columns(p, v)


def clip_columns(p: Problem, v: Vector) -> Vector:
    """Shift and clip column duals to what a rectangular or gated problem allows."""
    if p.square:
        return v
    n, m = p.c.shape
    with np.errstate(over="ignore"):
        if math.isinf(p.gate) and m > n:
            v = v - np.partition(v, n)[n]
        return np.minimum(v, 0.0)


def span(p: Problem, minima: Vector) -> tuple[float, float]:
    """Return the smallest cost, and the largest finite one of some sixty rows."""
    low = minima[np.isfinite(minima)]
    rows = p.c[:: max(1, p.c.shape[0] // 64)]
    top = float(rows.max())
    if math.isinf(top):
        finite = rows[np.isfinite(rows)]
        top = float(finite.max()) if finite.size else math.inf
    if not low.size or math.isinf(top):
        return 0.0, 0.0
    return float(low.min()), top


def tame(p: Problem, v: Vector, low: float, top: float) -> Vector:
    """Bring column duals that are out of all proportion to the costs back to their size.

    Reduced costs under such duals would lose the digits of the costs, and with them the optimum. A spread of 64 times
    that of the costs is kept, which duals of real problems do not reach and which costs six bits of 53.
    """
    reach = REACH * max(top - low, 0.0)
    if not math.isinf(p.gate):
        reach = REACH * (max(top, p.gate) - min(low, p.gate))
    if not p.square:
        return np.maximum(v, -reach)
    middle = float(np.partition(v, v.size // 2)[v.size // 2])
    if 0.5 * float(v.max()) - 0.5 * float(v.min()) > 0.5 * reach:
        v = np.clip(v, middle - 0.5 * reach, middle + 0.5 * reach)
    return v - middle if abs(middle) > REACH * max(abs(low), abs(top)) else v
