"""What happened in a run: sums between recorded rounds, regret, and the file that keeps them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array
from lemmata_core.files import DAMAGED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector


@dataclass(frozen=True)
class Run:
    """What happened in a run of T rounds, in n records (n = T with ``record="all"``).

    Attributes
    ----------
    x : numpy.ndarray, shape (T, d), or None
        Decisions; None with ``record="light"``.
    cost : numpy.ndarray, shape (n,)
        Cost paid within each record.
    violation : numpy.ndarray, shape (n,) or (n, m)
        Sum of positive parts within each record; a column a constraint when there are several.
    certificate : numpy.ndarray, shape (n,)
        Regret certificate at the end of each record.
    t : numpy.ndarray of int, shape (n,)
        The round (from 1) with which each record ends.
    wall_time : float
        Seconds.
    status : str
        ``"complete"`` or ``"interrupted"``.
    """

    x: Vector | None
    cost: Vector
    violation: Vector
    certificate: Vector
    t: np.ndarray
    wall_time: float
    status: str

    @property
    def rounds(self) -> int:
        """Rounds played, T."""
        return int(self.t[-1]) if self.t.size else 0

    @property
    def ccv(self) -> Vector:
        """Cumulative violation at the end of each record: shape of `violation`."""
        return np.cumsum(self.violation, axis=0)

    @property
    def cumulative_cost(self) -> Vector:
        """Cumulative cost at the end of each record, shape (n,)."""
        return np.cumsum(self.cost)

    def regret_at(self, ts: ArrayLike, hindsight: Any) -> Vector:
        """Regret at given rounds.

        Parameters
        ----------
        ts : int or array_like of int, shape (k,)
            Rounds at which a record ends.
        hindsight : Hindsight or float, or a sequence of k of them
            The best fixed decision for the rounds up to each of `ts`, or its cost.

        Returns
        -------
        numpy.ndarray, shape (k,)

        Raises
        ------
        InvalidInput
            If no record ends at one of the rounds, or the lengths differ.
        """
        wanted = np.atleast_1d(array(ts, "ts", ndim=(0, 1), dtype=np.int64))
        single = not isinstance(hindsight, Sequence | np.ndarray) or isinstance(hindsight, str | bytes)
        single |= isinstance(hindsight, np.ndarray) and hindsight.ndim == 0
        best = [_objective(h) for h in ([hindsight] if single else hindsight)]
        if len(best) != wanted.size:
            raise InvalidInput.argument("hindsight", expected=f"{wanted.size} results, one a round", got=len(best))
        at = np.searchsorted(self.t, wanted)
        if (at >= self.t.size).any() or (self.t[at] != wanted).any():
            raise InvalidInput.argument("ts", expected="rounds at which a record ends", got=str(wanted))
        return np.subtract(self.cumulative_cost[at], best)

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a compressed .npz file (by rename, so never half a file)."""
        arrays = {"cost": self.cost, "violation": self.violation, "certificate": self.certificate, "t": self.t}
        if self.x is not None:
            arrays["x"] = self.x
        write_npz(Path(path), {**arrays, "wall_time": np.array(self.wall_time), "status": np.array(self.status)})

    @classmethod
    def from_npz(cls, path: str | os.PathLike[str]) -> Run:
        """Read what `to_npz` wrote.

        Raises
        ------
        InvalidInput
            For any other file; an OSError where there is none.
        """
        with Path(path).open("rb") as file:
            try:
                with np.load(file, allow_pickle=False) as f:
                    return cls(
                        x=f["x"] if "x" in f.files else None,
                        cost=f["cost"],
                        violation=f["violation"],
                        certificate=f["certificate"],
                        t=f["t"],
                        wall_time=float(f["wall_time"]),
                        status=str(f["status"]),
                    )
            except (*DAMAGED, AttributeError) as err:
                raise InvalidInput.argument("path", expected="a file that Run.to_npz wrote", got=str(path)) from err


def _objective(hindsight: Any) -> float:
    """What the best decision costs; infinite where there is none."""
    value = float(array(getattr(hindsight, "objective", hindsight), "hindsight", ndim=0, finite=False))
    if math.isnan(value):
        raise InvalidInput.argument("hindsight", expected="results of best_fixed or their costs", got="NaN")
    return value


def write_npz(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays by rename, so never half a file."""
    from lemmata_core.files import atomic_write

    with atomic_write(path, "wb") as f:
        np.savez_compressed(f, **arrays)


def log_checkpoints(rounds: int, per_decade: int = 16) -> np.ndarray:
    """Rounds 1..T, log-spaced and always with T: int64, increasing."""
    if rounds <= 0:
        return np.empty(0, dtype=np.int64)
    n = 1 + int(per_decade * np.log10(max(rounds, 1)))
    return np.unique(np.append(np.round(np.logspace(0, np.log10(rounds), max(n, 2))), rounds).astype(np.int64))


def marks_of(record: str, rounds: int) -> np.ndarray:
    """The rounds at which records end: all, or log-spaced for ``"light"``."""
    if record == "all":
        return np.arange(1, rounds + 1, dtype=np.int64)
    if record == "light":
        return log_checkpoints(rounds)
    raise InvalidInput.argument("record", expected="'all' or 'light'", got=record)
