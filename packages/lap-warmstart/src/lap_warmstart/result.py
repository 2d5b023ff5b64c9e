"""What a solve returns. Fields are computed when first asked for, so that a small solve costs microseconds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SolveStats:
    """How a solve went.

    Attributes
    ----------
    row_scans : int
        Rows scanned by reduction and search; a scan of a core row (some 16 entries) counts one too.
    augmentations : int
        Rows matched by a search rather than greedily.
    greedy_fraction : float
        Share of the rows that the seed matched before any search.
    density : float
        Tight entries a row under the seed (the paper's rho); NaN where it was not computed.
    dual_bound, cold_bound : float
        Dual bound of the seed taken and of the cold seed; NaN where no choice was made. Where a sample of the rows
        decided the choice (from 512 rows on), these are estimates; the core method puts the exact bound of the seed
        taken in their place.
    seed : {"cold", "warm", "mid"}
    fell_back : bool
        A warm start was given and the cold seed was taken.
    overran : bool
        A warm search took more than ``8 n**1.5`` row scans.
    rounds : int
        Pricing rounds of the core method.
    core_size : int
        Edges of the core at the end.
    predict_time : float
        Seconds spent in the predictor.
    notes : tuple of str
    """

    row_scans: int = 0
    augmentations: int = 0
    greedy_fraction: float = 0.0
    density: float = math.nan
    dual_bound: float = math.nan
    cold_bound: float = math.nan
    seed: str = "cold"
    fell_back: bool = False
    overran: bool = False
    rounds: int = 0
    core_size: int = 0
    predict_time: float = 0.0
    notes: tuple[str, ...] = ()


class AssignmentResult:
    """An optimal assignment with its dual solution.

    Attributes
    ----------
    row_ind, col_ind : ndarray of int64
        The matched pairs, rows ascending.
    row_to_col, col_to_row : ndarray of int64
        The partner of each row and column, -1 where unmatched.
    u, v : ndarray of float64
        Row and column duals of the problem as given: ``u[i] + v[j] <= cost[i, j]`` (``>=`` with `maximize`), with
        equality on matched pairs. With a gate L an unmatched row has ``u = L``.
    objective : float
        Sum of the matched costs, correctly rounded (`math.fsum`); the cost of unmatched rows is not in it.
    status : {"optimal", "partial"}
        "partial": no complete matching exists; this one has the most pairs and, among those, the least cost.
    n_unmatched_rows : int
    method : str
    stats : SolveStats
    wall_time : float
        Seconds.
    """

    __slots__ = (
        "_cache", "_costs", "_gate", "_maximize", "_method", "_shape", "_stats", "_status", "_swap", "_u", "_v",
        "_wall", "_x",
    )  # fmt: skip

    def __init__(
        self,
        x: NDArray[np.int64],
        costs: NDArray[np.float64],
        v: NDArray[np.float64],
        shape: tuple[int, int],
        method: str,
        wall_time: float,
        *,
        swap: bool = False,
        maximize: bool = False,
        gate: float = math.inf,
        status: str = "optimal",
        stats: SolveStats | dict[str, Any] | tuple[int, int, int] | None = None,
        u: NDArray[np.float64] | None = None,
    ) -> None:
        self._x, self._costs, self._v, self._u = x, costs, v, u
        self._shape, self._swap, self._maximize, self._gate = shape, swap, maximize, gate
        # A small solve hands in (row scans, rows left by the greedy step, rows searched) only.
        self._stats: SolveStats | dict[str, Any] | tuple[int, int, int] | None = stats
        self._method, self._status, self._wall = method, status, wall_time
        self._cache: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"_cache": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"AssignmentResult(status={self.status!r}, objective={self.objective!r}, pairs={self.row_ind.size}, "
            f"shape={self._shape}, method={self.method!r})"
        )

    def oriented(self, shape: tuple[int, int], *, swap: bool, maximize: bool) -> AssignmentResult:
        """Say how the problem that was solved relates to the one given; for the solver's own use."""
        self._shape, self._swap, self._maximize = shape, swap, maximize
        return self

    def _get(self, name: str, build: Any) -> Any:
        if self._cache is None:
            self._cache = {}
        if name not in self._cache:
            value = build()
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            self._cache[name] = value
        return self._cache[name]

    def _inverse(self, length: int) -> NDArray[np.int64]:
        other = np.full(length, -1, dtype=np.int64)
        matched = np.flatnonzero(self._x >= 0)
        other[self._x[matched]] = matched
        return other

    @property
    def method(self) -> str:
        """The method that solved it."""
        return self._method

    @property
    def status(self) -> str:
        """Either "optimal" or "partial"."""
        return self._status

    @property
    def wall_time(self) -> float:
        """Seconds."""
        return self._wall

    @property
    def row_to_col(self) -> NDArray[np.int64]:
        """The column of each row, -1 where unmatched."""
        return self._get("row_to_col", lambda: self._inverse(self._shape[0]) if self._swap else self._x.view())  # type: ignore[no-any-return]

    @property
    def col_to_row(self) -> NDArray[np.int64]:
        """The row of each column, -1 where unmatched."""
        return self._get("col_to_row", lambda: self._x.view() if self._swap else self._inverse(self._shape[1]))  # type: ignore[no-any-return]

    @property
    def row_ind(self) -> NDArray[np.int64]:
        """The matched rows, ascending."""
        return self._get("row_ind", lambda: np.flatnonzero(self.row_to_col >= 0))  # type: ignore[no-any-return]

    @property
    def col_ind(self) -> NDArray[np.int64]:
        """The columns matched to `row_ind`."""
        return self._get("col_ind", lambda: self.row_to_col[self.row_ind])  # type: ignore[no-any-return]

    @property
    def objective(self) -> float:
        """The sum of the matched costs."""
        total = self._get("objective", lambda: math.fsum(self._costs[self._x >= 0].tolist()))
        return -total if self._maximize and total != 0.0 else total  # type: ignore[no-any-return]

    @property
    def n_unmatched_rows(self) -> int:
        """How many rows of the given problem have no partner."""
        return int(self._shape[0] - self.row_ind.size)

    def _inner_u(self) -> NDArray[np.float64]:
        if self._u is not None:
            return self._u
        u = self._costs - self._v[self._x]
        if not math.isinf(self._gate):
            u[self._x < 0] = self._gate
        return u

    def _duals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        u, v = self._inner_u(), self._v.copy()
        if self._swap:
            u, v = v, u
            if not math.isinf(self._gate):
                u, v = u + self._gate, v - self._gate
        if self._maximize:
            u, v = -u, -v
        u.flags.writeable = v.flags.writeable = False
        return u, v

    @property
    def u(self) -> NDArray[np.float64]:
        """Row duals."""
        return self._get("duals", self._duals)[0]  # type: ignore[no-any-return]

    @property
    def v(self) -> NDArray[np.float64]:
        """Column duals."""
        return self._get("duals", self._duals)[1]  # type: ignore[no-any-return]

    @property
    def unmatched_cost(self) -> float | None:
        """The gate that the problem was solved with, None where there was none."""
        if math.isinf(self._gate):
            return None
        return -self._gate if self._maximize else self._gate

    @property
    def stats(self) -> SolveStats:
        """How the solve went."""
        if isinstance(self._stats, SolveStats):
            return self._stats
        return self._get("stats", self._build_stats)  # type: ignore[no-any-return]

    def _build_stats(self) -> SolveStats:
        if isinstance(self._stats, tuple):
            scans, left, searched = self._stats
            share = 1.0 - left / max(self._x.size, 1)
            return SolveStats(row_scans=scans, greedy_fraction=share, augmentations=searched)
        return SolveStats(**(self._stats or {}))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON. `AssignmentResult.from_dict` reads it back."""
        return {
            "schema": 1,
            "status": self.status,
            "objective": self.objective,
            "shape": list(self._shape),
            "maximize": self._maximize,
            "unmatched_cost": self.unmatched_cost,
            "row_to_col": self.row_to_col.tolist(),
            "u": [None if math.isnan(t) else t for t in self.u.tolist()],
            "v": [None if math.isnan(t) else t for t in self.v.tolist()],
            "costs": (-self._row_costs() if self._maximize else self._row_costs()).tolist(),
            "method": self.method,
            "wall_time": self.wall_time,
            "stats": {k: None if v != v else v for k, v in asdict(self.stats).items()},
        }

    def _row_costs(self) -> NDArray[np.float64]:
        if not self._swap:
            return np.where(self._x >= 0, self._costs, 0.0)
        costs = np.zeros(self._shape[0])
        matched = self._x >= 0
        costs[self._x[matched]] = self._costs[matched]
        return costs

    def to_json(self) -> str:
        """The result as a JSON document."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AssignmentResult:
        """Read what `to_dict` wrote.

        Raises
        ------
        InvalidInput
            It is something else.
        """
        try:
            return cls._from_dict(data)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, np.ma.MaskError) as err:
            if isinstance(err, InvalidInput):
                raise
            raise InvalidInput.argument("data", expected="what to_dict wrote", got=repr(err)) from err

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> AssignmentResult:
        n, m = (int(k) for k in data["shape"])
        for name, length in (("row_to_col", n), ("costs", n), ("u", n), ("v", m)):
            if len(data[name]) != length:
                raise InvalidInput.argument(name, expected=f"{length} entries", got=f"{len(data[name])}")
        if any(int(j) != j or not -1 <= j < m for j in data["row_to_col"]):
            raise InvalidInput.argument("row_to_col", expected=f"columns from -1 to {m - 1}", got="others")
        costs, u, v = (np.asarray(data[name], dtype=np.float64) for name in ("costs", "u", "v"))
        if not costs.ndim == u.ndim == v.ndim == 1:
            raise InvalidInput.argument("costs, u, v", expected="lists of numbers", got="nested lists")
        maximize, gate = bool(data["maximize"]), data["unmatched_cost"]
        sign = -1.0 if maximize else 1.0
        stats: dict[str, Any] = {
            k: math.nan if v is None else tuple(v) if k == "notes" else v for k, v in data["stats"].items()
        }
        return cls(
            np.asarray(data["row_to_col"], dtype=np.int64),
            sign * costs,
            sign * v,
            (n, m),
            data["method"],
            float(data["wall_time"]),
            maximize=maximize,
            gate=math.inf if gate is None else sign * float(gate),
            status=data["status"],
            stats=SolveStats(**stats),
            u=sign * u,
        )
