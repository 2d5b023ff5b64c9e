"""Pictures of runs, for notebooks and reports. Needs matplotlib (extra ``plot``), imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.run import Run


def ccv_and_regret(
    runs: Mapping[str, Run], comparator_cost: ArrayLike | None = None, *, log: bool = True, title: str = ""
) -> Any:
    """Cumulative violation, and regret or cost, over the rounds.

    Parameters
    ----------
    runs : mapping of str to Run
        By the name that the legend shows.
    comparator_cost : array_like, shape (T,), optional
        Cost of the comparator in each round; the right panel then shows regret against it, else cumulative cost. Needs
        runs recorded with ``record="all"``.
    log : bool
        A logarithmic axis of rounds for the violation (its own axis is logarithmic above 1).
    title : str

    Returns
    -------
    matplotlib.figure.Figure
        Not shown and not saved.

    Raises
    ------
    InvalidInput
        If there is no run, or a run's length does not fit `comparator_cost`.
    """
    from matplotlib.figure import Figure

    if not runs:
        raise InvalidInput.argument("runs", expected="at least one run", got="none")
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    paid = None if comparator_cost is None else np.cumsum(np.asarray(comparator_cost, dtype=float))
    for name, run in runs.items():
        ccv = run.ccv if run.ccv.ndim == 1 else run.ccv.max(axis=1)
        if paid is not None and run.rounds > paid.size:
            got = f"{paid.size} for a run of {run.rounds} rounds ({name})"
            raise InvalidInput.argument("comparator_cost", expected="a cost for every round", got=got)
        left.plot(run.t, ccv, label=name)
        right.plot(run.t, run.cumulative_cost if paid is None else run.cumulative_cost - paid[run.t - 1], label=name)
    left.set_yscale("symlog", linthresh=1.0)
    if log:
        left.set_xscale("log")
    left.set(xlabel="round", ylabel="cumulative violation", title=title)
    right.set(xlabel="round", ylabel="cumulative cost" if paid is None else "regret against the best fixed decision")
    left.legend(fontsize="small")
    return figure
