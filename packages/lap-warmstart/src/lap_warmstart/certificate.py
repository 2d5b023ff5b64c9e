"""Proof of optimality from the duals, independent of how the answer was found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from lap_warmstart.partial import decompose, finite_pattern
from lap_warmstart.problem import is_sparse, numeric
from lap_warmstart.result import AssignmentResult

RELATIVE = 2.0**-40


@dataclass(frozen=True)
class Certificate:
    """What weak duality says about an answer.

    Attributes
    ----------
    gap : float
        Primal minus dual value, in the units of the costs; infinite where the matching itself is not valid.
    max_violation : float
        The largest amount by which the duals break a constraint.
    optimal : bool
        Both are zero up to rounding: ``max_violation <= 2**-40 s`` and ``|gap| <= n 2**-40 s``, where s is the largest
        absolute cost or dual.
    reason : str
        Why not, where not.
    """

    gap: float
    max_violation: float
    optimal: bool
    reason: str = ""


def certify(cost: object, result: AssignmentResult) -> Certificate:
    """Check that `result` is an optimal answer to `cost`.

    Parameters
    ----------
    cost : array-like (n, m), torch tensor or scipy.sparse matrix
    result : AssignmentResult
        With its own gate and sense (`maximize`).

    Returns
    -------
    Certificate

    Raises
    ------
    InvalidInput
        `cost` is no cost matrix, or `result` is for another shape.
    """
    if not isinstance(result, AssignmentResult):
        raise InvalidInput.argument("result", expected="an AssignmentResult", got=type(result).__name__)
    c = _dense(cost, result)
    with np.errstate(all="ignore"):
        doubtful = bool(np.isnan(c.sum()))
    if doubtful and np.isnan(c).any():
        raise InvalidInput.argument("cost", expected="no NaN", got=f"NaN at {_first(np.isnan(c))}")
    if c.shape != result._shape:
        raise InvalidInput.argument("result", expected=f"an answer for shape {c.shape}", got=f"shape {result._shape}")
    x = result.row_to_col
    matched = np.flatnonzero(x >= 0)
    columns = x[matched]
    if columns.size and (columns.max() >= c.shape[1] or np.unique(columns).size != columns.size):
        return Certificate(math.inf, math.inf, False, "a column is matched twice or does not exist")
    sign = -1.0 if result._maximize else 1.0
    paid = c[matched, columns].astype(np.float64)
    if not np.isfinite(paid).all():
        return Certificate(math.inf, math.inf, False, "a forbidden pair is matched")
    if c.size == 0:
        return Certificate(0.0, 0.0, True)
    u, v = sign * result.u, sign * result.v
    if not (np.isfinite(u).all() and np.isfinite(v).all()):
        return Certificate(math.inf, math.inf, False, "a dual is not finite")
    if result.status == "partial":
        return _partial(c, sign, u, v, x, paid)
    return _complete(c, sign, u, v, matched, paid, result._gate)


def _dense(cost: object, result: AssignmentResult) -> NDArray[Any]:
    if not is_sparse(cost):
        return numeric(cost)[0]
    missing = -np.inf if result._maximize else np.inf
    coo = cost.tocoo()  # type: ignore[attr-defined]
    c = np.zeros(coo.shape)
    np.add.at(c, (coo.row, coo.col), coo.data)
    seen = np.zeros(coo.shape, dtype=bool)
    seen[coo.row, coo.col] = True
    c[~seen] = missing
    return c


def _first(bad: NDArray[Any]) -> tuple[int, int]:
    i, j = np.argwhere(bad)[0]
    return int(i), int(j)


def _slack(c: NDArray[Any], sign: float, u: NDArray[Any], v: NDArray[Any]) -> tuple[float, float]:
    """Return the least reduced cost and the largest absolute finite entry."""
    from lap_warmstart.duals import least_slack
    from lap_warmstart.problem import prepare

    p = prepare(c, maximize=sign < 0, gate=0.0)
    least, top = least_slack(p.c, v, u) if p.swap else least_slack(p.c, u, v)
    return float(least), float(top)


def _complete(
    c: NDArray[Any],
    sign: float,
    u: NDArray[Any],
    v: NDArray[Any],
    matched: NDArray[Any],
    paid: NDArray[Any],
    gate: float,
) -> Certificate:
    n, m = c.shape
    if math.isinf(gate) and matched.size < min(n, m):
        return Certificate(math.inf, math.inf, False, f"{min(n, m) - matched.size} pairs are missing")
    least, top = _slack(c, sign, u, v)
    violation = max(0.0, -least)
    if n < m or not math.isinf(gate):
        violation = max(violation, float(v.max()))
    if not math.isinf(gate):
        violation = max(violation, float((u - gate).max()))
    elif n > m:
        violation = max(violation, float(u.max()))
    terms = [*(sign * paid), *(-u), *(-v)]
    if not math.isinf(gate):
        terms += [gate] * (n - matched.size)
    return _judge(math.fsum(terms), violation, max(top, float(np.abs(u).max()), float(np.abs(v).max())), max(n, m))


def _judge(gap: float, violation: float, scale: float, size: int) -> Certificate:
    tolerance = RELATIVE * scale
    if violation > tolerance:
        return Certificate(gap, violation, False, "the duals are infeasible")
    if abs(gap) > size * tolerance:
        return Certificate(gap, violation, False, "primal and dual values differ")
    return Certificate(gap, violation, True)


def _partial(
    c: NDArray[Any], sign: float, u: NDArray[Any], v: NDArray[Any], x: NDArray[Any], paid: NDArray[Any]
) -> Certificate:
    """Check a largest matching of least cost: its size, and weak duality on each part of the decomposition.

    The decomposition from the rows and the one from the columns may differ, and the solver may have used either; weak
    duality on the parts of one of them is a proof.
    """
    first = _parts(c, sign, u, v, x, paid)
    if first.optimal:
        return first
    y = np.full(c.shape[1], -1, dtype=np.int64)
    matched = np.flatnonzero(x >= 0)
    y[x[matched]] = matched
    second = _parts(c.T, sign, v, u, y, paid)
    return second if second.optimal else first


def _parts(
    c: NDArray[Any], sign: float, u: NDArray[Any], v: NDArray[Any], x: NDArray[Any], paid: NDArray[Any]
) -> Certificate:
    parts = decompose(finite_pattern(c))
    if paid.size != parts.size:
        return Certificate(math.inf, math.inf, False, f"{paid.size} pairs, but {parts.size} are possible")
    n, m = c.shape
    gap = violation = 0.0
    scale = max(float(np.abs(u).max()), float(np.abs(v).max()))
    blocks = (
        (parts.rows, parts.columns),
        (np.setdiff1d(np.arange(n), parts.rows), np.setdiff1d(np.arange(m), parts.columns)),
    )
    for rows, columns in blocks:
        if rows.size == 0 or columns.size == 0:
            continue
        least, top = _slack(c[np.ix_(rows, columns)], sign, u[rows], v[columns])
        own = rows[x[rows] >= 0]
        if not np.isin(x[own], columns).all():
            return Certificate(math.inf, math.inf, False, "a pair crosses the parts that every largest matching keeps")
        free_side = u[rows] if rows.size > columns.size else v[columns] if rows.size < columns.size else np.zeros(1)
        violation = max(violation, -least, float(free_side.max()))
        gap += math.fsum([*(sign * c[own, x[own]].astype(np.float64)), *(-u[rows]), *(-v[columns])])
        scale = max(scale, top)
    return _judge(gap, violation, scale, max(n, m))
