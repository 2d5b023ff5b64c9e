"""What a trained one-layer model does inside: attention by pattern, gates by kind of example, steps to a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput, Table
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator

from icl_theory.gated import GatedLinearICL, check_tokens, log_gates
from icl_theory.pattern_engine import PatternEngine
from icl_theory.patterns import PatternBank
from icl_theory.prompts import PromptSpec, checked_setting, draw_coefficients, sample_prompts
from icl_theory.training import _PatternTrainer, default_rate, uses_patterns

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray


def probe_attention(
    model: GatedLinearICL, bank: PatternBank, tasks: ArrayLike, spec: PromptSpec, *, n: int = 1000, rng: RNGLike = 2
) -> Table:
    """Sum the scores (W_B p_i) . (W_C p_q) over examples with the query's pattern, and over the others (Corollary 1).

    Parameters
    ----------
    model : GatedLinearICL
    bank, tasks, spec
        As in `sample_prompts`.
    n : int
        Prompts.
    rng : numpy.random.Generator, int or None

    Returns
    -------
    Table
        Rows "same pattern" and "other pattern": mean sum a prompt, its standard error, mean score an example. Gates and
        labels are left out of the sums.

    Raises
    ------
    InvalidInput
    """
    given: object = model
    if not isinstance(given, GatedLinearICL):
        raise InvalidInput.argument("model", expected="a one-layer model", got=type(given).__name__)
    batch = sample_prompts(bank, tasks, spec, positive_int(n, "n", minimum=2), rng)
    with torch.no_grad():
        scores = model.parts(batch.tokens.to(model.W_B)).scores[:, :-1].double().cpu().numpy()
    same = batch.same_pattern[:, :-1].numpy()
    rows = []
    for name, mask in (("same pattern", same), ("other pattern", ~same)):
        sums = (scores * mask).sum(1)
        each = scores[mask].mean() if mask.any() else math.nan
        rows.append((name, float(sums.mean()), float(sums.std(ddof=1) / math.sqrt(n)), float(each)))
    return Table("Attention by pattern", ("examples", "sum", "stderr", "per example"), tuple(rows))


@dataclass(frozen=True)
class GateProbe:
    """Gates of clean and outlier examples (Corollary 2).

    Attributes
    ----------
    clean, outlier : float
        Median of s = sigmoid(w . p).
    ratio : float
        outlier / clean.
    by_rank : ndarray, shape (length,)
        Mean log G of the j-th clean example counted from the query, j = 1 ..; NaN where too few prompts have one.
    slope, r2 : float
        Of a line through `by_rank`; Corollary 2 wants a slope of at least -log 2.
    table : Table
    """

    clean: float
    outlier: float
    ratio: float
    by_rank: NDArray[Any]
    slope: float
    r2: float
    table: Table


def probe_gates(
    model: GatedLinearICL, bank: PatternBank, tasks: ArrayLike, spec: PromptSpec, *, n: int = 1000, rng: RNGLike = 3
) -> GateProbe:
    """Look at the gates of a model with Mamba's gate. Parameters as in `probe_attention`.

    Raises
    ------
    InvalidInput
    """
    given: object = model
    if not isinstance(given, GatedLinearICL) or model.gate != "mamba" or model.w is None:
        raise InvalidInput.argument("model", expected='a one-layer model with gate "mamba"', got=type(model).__name__)
    batch = sample_prompts(bank, tasks, spec, positive_int(n, "n", minimum=2), rng)
    with torch.no_grad():
        check_tokens(batch.tokens, model.d, batch.tokens.dtype)
        a = batch.tokens.double() @ model.w.double().cpu()
        logs = log_gates(a).numpy()[:, :-1]
    s, spoilt = torch.sigmoid(a).numpy()[:, :-1], batch.is_outlier.numpy()[:, :-1]
    clean = float(np.median(s[~spoilt]))
    dirty = float(np.median(s[spoilt])) if spoilt.any() else math.nan
    # Rank of each clean example among the clean ones, from the query backwards.
    rank = np.flip(np.cumsum(np.flip(~spoilt, 1), 1), 1)
    means = np.full(spec.length, math.nan)
    for j in range(1, spec.length + 1):
        chosen = (~spoilt) & (rank == j)
        if chosen.sum() >= max(20, n // 50):
            means[j - 1] = logs[chosen].mean()
    seen = np.isfinite(means)
    slope, r2 = _line(np.flatnonzero(seen) + 1.0, means[seen])
    rows = tuple((j + 1, float(means[j]), -j * math.log(2)) for j in np.flatnonzero(seen).tolist())
    table = Table("Gate by rank of clean examples", ("rank", "mean log G", "-(rank - 1) log 2"), rows)
    return GateProbe(clean, dirty, dirty / clean, means, slope, r2, table)


def _line(x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    if len(x) < 3:
        return math.nan, math.nan
    slope, start = np.polyfit(x, y, 1)
    spread = float(np.square(y - y.mean()).sum())
    return float(slope), 1 - float(np.square(y - start - slope * x).sum()) / spread if spread else math.nan


def steps_to_loss(
    model: GatedLinearICL,
    bank: PatternBank,
    tasks: ArrayLike,
    spec: PromptSpec,
    *,
    loss: float = 0.2,
    batch: int = 256,
    lr: float | None = None,
    limit: int = 20_000,
    n_validation: int = 1000,
    rng: RNGLike = 0,
) -> float:
    """Count SGD steps until the hinge loss on a fixed validation set is at most `loss`.

    Parameters
    ----------
    model : GatedLinearICL
        Gate "mamba" or "none"; it is not changed.
    bank, tasks, spec, batch, lr
        As in `train`.
    loss : float
    limit : int
        Give up after so many steps.
    n_validation : int
    rng : numpy.random.Generator, int or None

    Returns
    -------
    float
        Checked at every step up to 50, then every 2 %. Infinity where the limit was reached or the loss is not finite.

    Raises
    ------
    InvalidInput
    """
    pairs = checked_setting(bank, tasks, spec)
    positive_int(batch, "batch")
    goal = in_range(loss, "loss", 0.0, low_open=True)
    uses_patterns(model, "pattern")
    source, aside = generator(rng).spawn(2)
    validation = draw_coefficients(bank, pairs, spec, positive_int(n_validation, "n_validation"), aside)
    rate = default_rate(model) if lr is None else in_range(lr, "lr", 0.0, low_open=True)
    trainer = _PatternTrainer(model, bank, spec, rate, None)
    engine, step, due = PatternEngine(bank, spec), 0, 0
    while step <= positive_int(limit, "limit"):
        if step >= due:
            now = engine.run(trainer.weights, validation, False)[1]
            if now <= goal:
                return float(step)
            if not math.isfinite(now):
                return math.inf
            due = step + max(1, step // 50)
        trainer.step(draw_coefficients(bank, pairs, spec, batch, source))
        step += 1
    return math.inf
