"""What the claims share: scales, seeds, kept results, and learners on the bandit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from lemmata_core import Context, Evidence, Scale, Verdict
from lemmata_core.executor import one_thread
from lemmata_core.files import atomic_write

PAPER = "arXiv 2604.14698"


def cells(
    ctx: Context, function: Callable[..., dict[str, Any]], arguments: Sequence[tuple[Any, ...]], label: str
) -> list[dict[str, Any]]:
    """Run a function on the claim's executor, once a tuple of arguments; finished cells survive an interruption.

    At scale smoke a cell takes less than the start of a worker, so it runs here.
    """
    if ctx.scale is Scale.SMOKE:
        with one_thread():
            return [function(*args) for args in ctx.progress.track(arguments, label, len(arguments))]
    paths = [ctx.workdir / f"{label}-{'-'.join(str(a) for a in args)}.json".replace(" ", "_") for args in arguments]
    waiting = {p: ctx.executor.submit(function, *args) for p, args in zip(paths, arguments) if not p.exists()}
    found = []
    for path in ctx.progress.track(paths, label, len(paths)):
        if path in waiting:
            result = waiting[path].result()
            with atomic_write(path) as file:
                json.dump(result, file)
        found.append(json.loads(path.read_text()))
    return found


def judged(ctx: Context) -> dict[str, float]:
    """A value by which the rule knows whether the run was long enough to be judged."""
    return {"judged": float(ctx.scale is not Scale.SMOKE)}


def too_short(evidence: Evidence) -> Verdict | None:
    """The verdict of a run at scale smoke, which shows that the experiment runs, and no more."""
    if evidence.values["judged"]:
        return None
    return Verdict.not_testable(f"too short to be judged (scale laptop is not): so far {evidence.headline}")
