"""Comparison of learners over seeds: tables and plots on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import Series, Table

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from lemmata_core.progress import Progress


def _task(env: str, name: str, seed: int, rounds: int) -> dict[str, Any]:
    from oco_anytime.named import make_environment, make_learner
    from oco_anytime.runner import play

    environment = make_environment(env, rounds, seed)
    learner = make_learner(name, environment.domain, rounds)
    run = play(learner, environment, rounds, record="light")
    ccv = run.ccv if run.ccv.ndim == 1 else run.ccv.max(axis=1)
    return {"t": run.t, "ccv": ccv, "cost": run.cumulative_cost, "certificate": run.certificate}


def comparison(
    env: str, names: list[str], rounds: int, seeds: int, pool: Executor, progress: Progress
) -> tuple[Table, tuple[Series, ...]]:
    """Play every learner on every seed.

    Parameters
    ----------
    env : str
        Name of an environment.
    names : list of str
        Learners, as on the command line.
    rounds, seeds : int
    pool : concurrent.futures.Executor
    progress : Progress

    Returns
    -------
    Table
        Means over seeds at the end.
    tuple of Series
        CCV (the largest of several constraints) with the seeds' range, cost above the best learner, and certificates.
    """
    jobs = [(env, name, seed, rounds) for name in names for seed in range(seeds)]
    waiting = [pool.submit(_task, *job) for job in jobs]
    results = [w.result() for w in progress.track(waiting, "runs", total=len(jobs))]
    by_name = {name: results[i * seeds : (i + 1) * seeds] for i, name in enumerate(names)}
    rows, ccv, cost, cert = [], {}, {}, {}
    best = np.min([np.mean([r["cost"] for r in rs], axis=0) for rs in by_name.values()], axis=0)
    for name, rs in by_name.items():
        t = rs[0]["t"].tolist()
        all_ccv = np.maximum([r["ccv"] for r in rs], 1e-6)
        mean_cost = np.mean([r["cost"] for r in rs], axis=0)
        bound = np.mean([r["certificate"] for r in rs], axis=0)
        ccv[name] = (t, all_ccv.mean(axis=0).tolist(), all_ccv.min(axis=0).tolist(), all_ccv.max(axis=0).tolist())
        cost[name] = (t, (mean_cost - best).tolist())
        if np.isfinite(bound).all():
            cert[name] = (t, bound.tolist())
        rows.append((name, float(all_ccv[:, -1].mean()), float(mean_cost[-1]), float(bound[-1])))
    table = Table(f"{env}, T = {rounds}, means of {seeds} seeds", ("learner", "CCV", "cost", "regret at most"), rows)
    series = (
        Series("Cumulative violation", "round", "CCV", ccv, log_x=True, log_y=True),
        Series("Cost above the cheapest learner", "round", "cost", cost, log_x=True),
        Series("Certified regret", "round", "regret at most", cert, log_x=True),
    )
    return table, series


def write(path: Path, title: str, table: Table, series: tuple[Series, ...]) -> None:
    """Write one self-contained page."""
    from lemmata_core.page import Page

    page = Page(title, subtitle="oco-anytime")
    page.table(table)
    for plot in series:
        if plot.lines:
            page.series(plot)
    page.write(path)
