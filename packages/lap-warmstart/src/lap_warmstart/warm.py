"""Warm starts: what the caller may hand in, and the choice among cold seed, prediction and midpoint."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import ArrayLike, NDArray

from lap_warmstart.problem import Problem, from_torch
from lap_warmstart.result import AssignmentResult

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class RowDuals:
    """A prediction of the row duals, for a warm start.

    Attributes
    ----------
    u : array-like (n,)
        One number a row of the problem as given; infinite entries are replaced by the row's minimum.
    """

    u: ArrayLike


@dataclass(frozen=True)
class ColumnDuals:
    """A prediction of the column duals, for a warm start.

    Attributes
    ----------
    v : array-like (m,)
        One number a column of the problem as given; infinite entries are replaced by the column's minimum.
    """

    v: ArrayLike


@runtime_checkable
class DualPredictor(Protocol):
    """Anything that predicts row duals from a cost matrix."""

    def predict(self, cost: NDArray[Any]) -> ArrayLike:
        """Predict one finite number a row of `cost` (n, m, read-only), which is to be minimised."""


@dataclass
class Seed:
    """A prediction in the orientation of the kernels: duals of the rows, or of the columns, of ``Problem.c``."""

    rows: Vector | None
    columns: Vector | None
    predict_time: float = 0.0
    notes: tuple[str, ...] = ()


def _vector(values: object, name: str, length: int) -> Vector:
    if hasattr(values, "detach"):
        values = from_torch(values)
    try:
        if np.asarray(values).dtype.kind == "c":
            raise TypeError("complex numbers")
        a = np.array(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as err:
        raise InvalidInput.argument(
            "warm_start", expected=f"{name}: {length} numbers", got=type(values).__name__
        ) from err
    if a.shape != (length,):
        raise InvalidInput.argument("warm_start", expected=f"{name} of shape ({length},)", got=f"shape {a.shape}")
    if np.isnan(a).any():
        raise InvalidInput.argument(
            "warm_start", expected=f"{name} without NaN", got=f"NaN at {int(np.flatnonzero(np.isnan(a))[0])}"
        )
    return a


def check(warm_start: object, shape: tuple[int, int]) -> None:
    """Refuse a warm start that cannot fit, before any work."""
    if warm_start is None or isinstance(warm_start, AssignmentResult):
        return
    if isinstance(warm_start, ColumnDuals):
        _vector(warm_start.v, "column duals", shape[1])
        return
    if isinstance(warm_start, RowDuals | np.ndarray | list | tuple) or hasattr(warm_start, "__array__"):
        _vector(warm_start.u if isinstance(warm_start, RowDuals) else warm_start, "row duals", shape[0])
        return
    if isinstance(warm_start, str):
        if warm_start not in ("net", "auto"):
            raise InvalidInput.argument("warm_start", expected="'net' or 'auto'", got=warm_start)
    elif not callable(getattr(warm_start, "predict", None)):
        raise InvalidInput.argument(
            "warm_start",
            expected=f"None, 'net', 'auto', an AssignmentResult, RowDuals, ColumnDuals, {shape[0]} row duals or a "
            "DualPredictor",
            got=type(warm_start).__name__,
        )


def is_duals(warm_start: object) -> bool:
    """Whether a checked warm start holds duals, rather than naming or being a predictor."""
    return warm_start is not None and not isinstance(warm_start, str) and not hasattr(warm_start, "predict")


def read(warm_start: object, p: Problem, minima: Vector | None = None, costs: Any = None) -> Seed:
    """Turn a warm start into a seed of the kernels' problem.

    `minima`, the column minima of ``p.c``, spare the bundled network a pass. `costs` returns the matrix of the kernels'
    problem where ``p.c`` is only a placeholder for a graph.

    Raises
    ------
    InvalidInput
        Wrong length, NaN, or not a warm start at all.
    """
    predict_time = 0.0
    rows: Vector | None = None
    columns: Vector | None = None
    if isinstance(warm_start, AssignmentResult):
        # The longer-lived half: the column duals of the problem as given.
        if p.swap:
            rows, columns = _vector(warm_start.u, "row duals", p.shape[0]), None
        else:
            columns = _vector(warm_start.v, "column duals", p.shape[1])
    elif isinstance(warm_start, RowDuals):
        rows = _vector(warm_start.u, "row duals", p.shape[0])
    elif isinstance(warm_start, ColumnDuals):
        columns = _vector(warm_start.v, "column duals", p.shape[1])
    elif minima is not None and callable(getattr(warm_start, "predict_rows", None)):
        begin = time.perf_counter()
        predicted = warm_start.predict_rows(p.c, np.where(np.isfinite(minima), minima, 0.0))  # type: ignore[attr-defined]
        return Seed(_vector(predicted, "predicted row duals", p.c.shape[0]), None, time.perf_counter() - begin)
    elif callable(getattr(warm_start, "predict", None)):
        begin = time.perf_counter()
        c = p.c if costs is None else costs()
        given = (c.T if p.swap else c).view()
        # It is the caller's matrix, not a copy.
        given.flags.writeable = False
        rows = _vector(warm_start.predict(given), "predicted row duals", p.shape[0])  # type: ignore[attr-defined]
        if p.maximize:
            rows = -rows
        predict_time = time.perf_counter() - begin
    else:
        rows = _vector(warm_start, "row duals", p.shape[0])
    if p.maximize:
        rows = None if rows is None else -rows
        columns = None if columns is None else -columns
    notes: list[str] = []
    if p.swap:
        rows, columns = columns, rows
        if not math.isinf(p.gate):
            rows = None if rows is None else rows + p.gate
            columns = None if columns is None else columns - p.gate
    if rows is not None and np.isinf(rows).any():
        rows = np.where(np.isinf(rows), _minima(p.c if costs is None else costs(), 1), rows)
        notes.append("infinite warm-start entries replaced by minima")
    if columns is not None and np.isinf(columns).any():
        columns = np.where(np.isinf(columns), _minima(p.c if costs is None else costs(), 0), columns)
        notes.append("infinite warm-start entries replaced by minima")
    return Seed(rows, columns, predict_time, tuple(notes))


def _minima(c: NDArray[Any], axis: int) -> Vector:
    low = c.min(axis=axis).astype(np.float64)
    return np.where(np.isfinite(low), low, 0.0)
