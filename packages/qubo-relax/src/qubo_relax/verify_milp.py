"""Verification by integer programming: it looks for an infeasible vertex that no flip improves.

For one violated row, binary ``v`` with ``a.v >= b + unit`` and for every i the two big-M rows
``g_i >= -eps - M1_i v_i`` and ``g_i <= eps + M2_i (1 - v_i)`` say that flipping i does not descend. No solution for any
row is a proof; a solution is a counterexample, checked again in exact arithmetic before it is reported.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, sparse

from qubo_relax.qubo import scale_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from qubo_relax.constraints import LinearConstraint
    from qubo_relax.qubo import Qubo


def local_minimum_rows(qubo: Qubo) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]]:
    """The 2 n rows that a vertex satisfies if and only if no flip gain is below ``-eps``: ``low <= A v <= high``."""
    S, c, eps = qubo.quadratic, qubo.linear, qubo.concavity
    negative = np.asarray(S.minimum(0).sum(axis=1)).ravel()
    positive = np.asarray(S.maximum(0).sum(axis=1)).ravel()
    m1 = np.maximum(0.0, -(c + negative))
    m2 = np.maximum(0.0, c + positive)
    A = sparse.vstack([S + sparse.diags_array(m1), S + sparse.diags_array(m2)], format="csr")
    low = np.concatenate([-eps - c, np.full(qubo.n, -np.inf)])
    high = np.concatenate([np.full(qubo.n, np.inf), eps + m2 - c])
    return sparse.csr_array(A), low, high


def violations(row: LinearConstraint) -> list[tuple[NDArray[np.float64], float]]:
    """The ways to violate a row, each ``(coefficients, bound)`` meaning ``coefficients . v >= bound``."""
    unit = row.unit
    out = []
    if row.sense in ("<=", "=="):
        out.append((row.value, row.b + unit))
    if row.sense in (">=", "=="):
        out.append((-row.value, -row.b + unit))
    return out


def find_violation(
    qubo: Qubo, index: NDArray[np.int64], coefficient: NDArray[np.float64], bound: float, time_limit: float
) -> tuple[str, NDArray[np.int8] | None]:
    """One integer program: ``("none", None)``, ``("found", v)`` or ``("unknown", None)``."""
    # HiGHS works with absolute tolerances near 1e-6, so the quadratic is brought to unit scale first.
    scale = max(scale_of(qubo) / max(1, np.diff(qubo.quadratic.indptr).max(initial=1)), 1e-300)
    A, low, high = local_minimum_rows(qubo)
    v = np.zeros(qubo.n)
    v[index] = coefficient
    size = max(1.0, float(np.abs(coefficient).max(initial=1.0)))
    found = optimize.milp(
        np.zeros(qubo.n),
        integrality=np.ones(qubo.n),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(A / scale, low / scale, high / scale),
            optimize.LinearConstraint(v[None, :] / size, bound / size, np.inf),
        ],
        options={"time_limit": max(time_limit, 0.05)},
    )
    if found.status == 2:
        return "none", None
    if found.x is None:
        return "unknown", None
    point = np.rint(found.x).astype(np.int8)
    if exact_counterexample(qubo, point, index, coefficient, bound):
        return "found", point
    return "unknown", None


def exact_counterexample(
    qubo: Qubo, v: NDArray[np.int8], index: NDArray[np.int64], coefficient: NDArray[np.float64], bound: float
) -> bool:
    """Whether `v` violates the row and is a local minimizer, in rational arithmetic on the stored numbers."""
    total = sum((Fraction(float(a)) for i, a in zip(index, coefficient) if v[i]), Fraction(0))
    # A billionth absorbs the rounding of decimal data; the bound itself lies a whole unit beyond the row's.
    limit = Fraction(float(bound))
    if total < limit - Fraction(1, 10**9) * (1 + abs(limit)):
        return False
    eps = Fraction(qubo.concavity)
    tie = Fraction(0) if qubo.concavity else Fraction(scale_of(qubo)) * Fraction(1, 10**12)
    for i in range(qubo.n):
        span = slice(qubo.quadratic.indptr[i], qubo.quadratic.indptr[i + 1])
        g = Fraction(float(qubo.linear[i]))
        for j, s in zip(qubo.quadratic.indices[span], qubo.quadratic.data[span]):
            if v[j]:
                g += Fraction(float(s))
        gain = g if v[i] == 0 else -g
        if (gain <= -eps) if qubo.concavity else (gain < -tie):
            return False
    return True


def milp_check(
    qubo: Qubo, constraints: list[LinearConstraint], time_limit: float, executor: Executor | None = None
) -> tuple[str, NDArray[np.int8] | None, LinearConstraint | None, int]:
    """Go through the rows: ``(status, counterexample, its row, programs solved)``."""
    jobs: list[tuple[LinearConstraint, Any]] = [(row, way) for row in constraints for way in violations(row)]
    deadline = time.monotonic() + time_limit
    status, solved = "certified", 0
    if executor is not None:
        futures = [executor.submit(find_violation, qubo, row.index, a, b, time_limit) for row, (a, b) in jobs]
        for (row, _), future in zip(jobs, futures):
            answer, point = future.result()
            solved += 1
            if answer == "found":
                for other in futures:
                    other.cancel()
                return "refuted", point, row, solved
            status = "unknown" if answer == "unknown" else status
        return status, None, None, solved
    for row, (coefficient, bound) in jobs:
        left = deadline - time.monotonic()
        if left <= 0:
            return "unknown", None, None, solved
        answer, point = find_violation(qubo, row.index, coefficient, bound, left)
        solved += 1
        if answer == "found":
            return "refuted", point, row, solved
        if answer == "unknown":
            status = "unknown"
    return status, None, None, solved
