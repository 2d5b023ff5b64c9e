"""Consecutive problems that share rows: duals are carried from one to the next by row id."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from lemmata_core import InvalidInput

from lap_warmstart.problem import gate_of, is_sparse, numeric
from lap_warmstart.result import AssignmentResult
from lap_warmstart.solve import _options, solve
from lap_warmstart.warm import RowDuals

UNKNOWN = (np.nan, 0)
# Problems for which the dual of a row that is missing is kept, so that hidden tracks come back warm.
KEPT = 30
OVERRUNS = 3
PAUSE = 50


class AssignmentStream:
    """Solves a sequence of similar problems, each started from the duals of the one before.

    Parameters
    ----------
    maximize, unmatched_cost, on_infeasible, method, fallback
        As for `solve`, the same for every problem.
    warm_start : optional
        For the first problem (and for those after a `reset`).

    Notes
    -----
    A row is predicted its last dual (kept for 30 problems after the row was last seen), a new row the median over the
    row minima. Column duals follow by the Min-Trick, so
    columns may come, go and move freely. After three searches in a row that overran, the next 50 problems are solved
    from cold.
    """

    def __init__(
        self,
        *,
        maximize: bool = False,
        unmatched_cost: float | None = None,
        on_infeasible: str = "raise",
        warm_start: object = None,
        method: str = "auto",
        fallback: str = "bound",
    ) -> None:
        self._options: dict[str, Any] = {
            "maximize": maximize, "unmatched_cost": unmatched_cost, "on_infeasible": on_infeasible,
            "method": method, "fallback": fallback,
        }  # fmt: skip
        _options(method, fallback, on_infeasible, maximize)
        gate_of(unmatched_cost, maximize=bool(maximize))
        self._first = warm_start
        self._last: dict[Hashable, tuple[float, int]] = {}
        self._frame = 0
        self._overruns = 0
        self._pause = 0

    def reset(self) -> None:
        """Forget all duals."""
        self._last.clear()
        self._overruns = self._pause = 0

    def solve(self, cost: Any, row_ids: Sequence[Hashable] | None = None) -> AssignmentResult:
        """Solve the next problem.

        Parameters
        ----------
        cost : array-like (n, m)
        row_ids : sequence of n hashable, optional
            Names the rows, each once; the row numbers unless told otherwise.
        """
        if getattr(cost, "ndim", 0) != 2:
            numeric(cost)
            cost = np.asarray(cost)
        n = int(cost.shape[0])
        try:
            ids: list[Hashable] = list(range(n)) if row_ids is None else [_plain(i) for i in row_ids]
            different = len(set(ids))
        except TypeError as err:
            raise InvalidInput.argument("row_ids", expected=f"{n} hashable ids", got=str(err)) from err
        if len(ids) != n or different != n:
            raise InvalidInput.argument(
                "row_ids", expected=f"{n} different ids", got=f"{len(ids)} ids, {different} different"
            )
        warm = self._prediction(cost, ids)
        r = solve(cost, warm_start=warm, **self._options)
        if self._pause:
            self._pause -= 1
        elif warm is not None:
            self._overruns = self._overruns + 1 if r.stats.overran else 0
            if self._overruns >= OVERRUNS:
                self._overruns, self._pause = 0, PAUSE
        self._frame += 1
        for i, t in zip(ids, r.u.tolist()):
            self._last[i] = (t, self._frame)
        if len(self._last) > n:
            self._last = {i: kept for i, kept in self._last.items() if kept[1] > self._frame - KEPT}
        return r

    def _prediction(self, cost: Any, ids: list[Hashable]) -> object:
        if self._pause:
            return None
        if not self._last:
            return self._first
        known = np.array([self._last.get(i, UNKNOWN)[0] for i in ids])
        new = np.isnan(known)
        if new.all():
            return None
        if new.any():
            known[new] = np.median(known[~new]) if is_sparse(cost) else self._newcomer(cost)
        return RowDuals(known)

    def _newcomer(self, cost: Any) -> float:
        c = np.asarray(cost.detach().cpu().float() if hasattr(cost, "detach") else cost, dtype=np.float64)
        best = c.max(axis=1) if self._options["maximize"] else c.min(axis=1)
        best = best[np.isfinite(best)]
        return float(np.median(best)) if best.size else 0.0


def _plain(identity: Hashable) -> Hashable:
    return identity.item() if isinstance(identity, np.generic) else identity
