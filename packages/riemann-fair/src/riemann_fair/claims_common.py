"""What the claims share: seeds, labels, tasks whose results are kept."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from lemmata_core import Context, NotConvergedWarning
from lemmata_core.files import atomic_write
from lemmata_core.plain import plain

from riemann_fair.assign import cluster_qr, kmeans_labels
from riemann_fair.result import EmbeddingResult

R = TypeVar("R")


def quiet(solve: Callable[[], R]) -> R:
    """Run without the warning that the status repeats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return solve()


def draw_seeds(ctx: Context, n: int) -> list[int]:
    """Seeds of the claim's own generator."""
    return [int(s) for s in ctx.rng.integers(2**31 - 1, size=n)]


def labels_of(result: EmbeddingResult, k: int, seed: int, *, row_normalize: bool = False) -> np.ndarray:
    """K-means labels of an embedding, 5 starts."""
    points = result.row_normalized if row_normalize else result.scaled
    return kmeans_labels(points, k, 5, seed, cluster_qr(result.embedding))


def run_all(ctx: Context, task: Callable[..., dict[str, Any]], jobs: Iterable[tuple[Any, ...]], what: str) -> list[Any]:
    """Run the tasks through the executor; each result is kept in the claim's folder and found again."""
    jobs = list(jobs)
    done: list[Any] = [None] * len(jobs)
    waiting = {}
    for i, job in enumerate(jobs):
        kept = ctx.workdir / f"{task.__name__}-{'-'.join(str(a) for a in job)}.json"
        if kept.exists():
            done[i] = json.loads(kept.read_text(encoding="utf-8"))
        else:
            waiting[i] = (kept, ctx.executor.submit(task, *job))
    with ctx.progress.task(what, len(jobs)) as bar:
        bar.advance(len(jobs) - len(waiting))
        for i, (kept, future) in waiting.items():
            done[i] = plain(future.result())
            with atomic_write(kept) as file:
                json.dump(done[i], file)
            bar.advance()
    return done
