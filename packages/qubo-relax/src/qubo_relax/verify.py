"""Is every local minimizer of this quadratic feasible? A proof, a counterexample, or "unknown"."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax.constraints import LinearConstraint, Rows
from qubo_relax.qubo import ENUMERATION_LIMIT, Qubo
from qubo_relax.structure import structural_margin, unproved
from qubo_relax.theory import is_vertex_minimum

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

METHODS = ("auto", "structural", "enumerate", "milp", "search")


@dataclass(frozen=True)
class Certificate:
    """The answer of `verify_conditions`.

    Attributes
    ----------
    status : {"certified", "refuted", "unknown"}
        "certified": every local minimizer on the box satisfies the constraints. "refuted": `counterexample` does not.
    method : str
        Which verifier settled it.
    margin : float
        For "enumerate" the exact ``min over infeasible v of max_i -D_i(v)``, for "structural" a lower bound of it, for
        the others NaN. Certified if and only if it exceeds the concavity.
    counterexample : ndarray of int8 of shape (n,) or None
        A binary local minimizer that violates `violated`.
    violated : str or None
        The row that the counterexample breaks.
    gains : ndarray of shape (n,) or None
        The flip gains there, none at or below ``-eps``.
    checked : int
        Vertices visited, inequalities or integer programs evaluated, or starts tried.
    wall_time : float
        Seconds.
    reasons : list of str
    """

    status: str
    method: str
    margin: float
    counterexample: NDArray[np.int8] | None = None
    violated: str | None = None
    gains: NDArray[np.float64] | None = None
    checked: int = 0
    wall_time: float = 0.0
    reasons: list[str] = field(default_factory=list)


def verify_conditions(
    target: Any,
    constraints: Sequence[LinearConstraint] | None = None,
    *,
    method: str = "auto",
    eps: float | None = None,
    time_limit: float = 60.0,
    rng: Any = None,
    formulation: str | None = None,
    executor: Executor | None = None,
) -> Certificate:
    """Prove that every local minimizer is feasible, or show one that is not.

    Parameters
    ----------
    target : Problem or Qubo
        A problem brings its own constraints and its certified formulation (or `formulation`).
    constraints : sequence of LinearConstraint, optional
        Needed with a `Qubo`.
    method : {"auto", "structural", "enumerate", "milp", "search"}
        "auto" tries them in this order: the structural inequalities; all vertices up to 22 variables; integer programs
        within `time_limit`; a search that can only refute.
    eps : float, optional
        The concavity to decide for; that of the quadratic when left out.
    time_limit : float
        Seconds for the integer programs and the search.
    rng : Generator, int or None
        For the search.
    formulation : str, optional
        A formulation of the problem other than its certified one.
    executor : concurrent.futures.Executor, optional
        Solves the integer programs, one a task.

    Returns
    -------
    Certificate

    Raises
    ------
    InvalidInput
        On an unknown method, a quadratic without constraints, or one with a kept convex diagonal.
    """
    check.one_of(method, "method", METHODS)
    time_limit = check.in_range(time_limit, "time_limit", 0.0)
    own = constraints is None
    if isinstance(target, Qubo):
        if constraints is None:
            raise InvalidInput.argument("constraints", expected="the rows that must hold", got="None with a Qubo")
        qubo = target
    elif hasattr(target, "qubo"):
        qubo = target.qubo() if formulation is None else target.qubo(formulation)
        constraints = target.constraints(formulation) if own else constraints
    else:
        raise InvalidInput.argument("target", expected="a Qubo or a problem", got=type(target).__name__)
    if eps is not None:
        qubo = qubo.with_concavity(eps)
    if qubo.diagonal is not None:
        raise InvalidInput.argument("target", expected="a folded quadratic", got="a kept diagonal (fold it)")
    rows = list(constraints or ())
    for row in rows:
        if not isinstance(row, LinearConstraint):
            raise InvalidInput.argument("constraints", expected="LinearConstraint objects", got=type(row).__name__)
    return _verify(qubo, rows, own, method, time_limit, rng, executor)


def _verify(
    qubo: Qubo,
    constraints: list[LinearConstraint],
    own: bool,
    method: str,
    time_limit: float,
    rng: Any,
    executor: Executor | None,
) -> Certificate:
    start = time.perf_counter()
    rows = Rows(constraints, qubo.n)
    reasons: list[str] = []
    if qubo.concavity == 0:
        reasons.append(
            "concavity 0: the verdict is about vertices; a concavity below the margin also excludes fractions"
        )
    answer = Certificate("unknown", method, np.nan)
    steps: tuple[tuple[str, Callable[[], Certificate | None]], ...] = (
        ("structural", lambda: _structural(qubo, constraints, own)),
        ("enumerate", lambda: _enumerate(qubo, rows, constraints, forced=method == "enumerate")),
        ("milp", lambda: _milp(qubo, constraints, time_limit, executor)),
        ("search", lambda: _search(qubo, rows, constraints, time_limit, rng)),
    )
    for name, step in steps:
        if method not in ("auto", name):
            continue
        found = step()
        if found is None:
            continue
        reasons += found.reasons
        answer = found
        if found.status != "unknown":
            break
    return _with(answer, reasons=reasons, wall_time=time.perf_counter() - start)


def _with(c: Certificate, **changes: Any) -> Certificate:
    return Certificate(**{**{name: getattr(c, name) for name in c.__dataclass_fields__}, **changes})


def _structural(qubo: Qubo, constraints: list[LinearConstraint], own: bool) -> Certificate | None:
    if not constraints:
        return Certificate("certified", "structural", np.inf, reasons=["no constraints: every vertex is feasible"])
    margin, reasons = structural_margin(qubo)
    if not np.isfinite(margin) and margin < 0 and not qubo.blocks:
        return Certificate("unknown", "structural", np.nan, reasons=reasons)
    left = [] if own else unproved(qubo, constraints)
    if left:
        reasons.append(f"no block stands for {_name(left[0], constraints)}")
        return Certificate("unknown", "structural", np.nan, reasons=reasons)
    status = "certified" if margin > qubo.concavity else "unknown"
    return Certificate(status, "structural", margin, checked=len(qubo.blocks), reasons=reasons)


def _enumerate(qubo: Qubo, rows: Rows, constraints: list[LinearConstraint], *, forced: bool) -> Certificate | None:
    if qubo.n > ENUMERATION_LIMIT:
        if forced:
            raise InvalidInput.argument(
                "method", expected=f"n <= {ENUMERATION_LIMIT} to enumerate", got=f"n = {qubo.n}"
            )
        return None
    from qubo_relax.verify_enum import enumerate_vertices

    e = enumerate_vertices(qubo, rows)
    reasons = [f"{e.vertices} vertices: {e.minima} local minimizers, {e.infeasible_minima} of them infeasible"]
    if e.counterexample is None:
        return Certificate("certified", "enumerate", e.margin, checked=e.vertices, reasons=reasons)
    found = _refuted(qubo, rows, constraints, e.counterexample, "enumerate", e.vertices, reasons)
    return _with(found, margin=e.margin)


def _milp(qubo: Qubo, constraints: list[LinearConstraint], time_limit: float, executor: Executor | None) -> Certificate:
    from qubo_relax.verify_milp import milp_check

    status, point, _, solved = milp_check(qubo, constraints, time_limit, executor)
    reasons = [f"{solved} integer programs"]
    if point is None:
        return Certificate(status, "milp", np.nan, checked=solved, reasons=reasons)
    return _refuted(qubo, Rows(constraints, qubo.n), constraints, point, "milp", solved, reasons)


def _search(qubo: Qubo, rows: Rows, constraints: list[LinearConstraint], time_limit: float, rng: Any) -> Certificate:
    from qubo_relax.search import infeasible_minimum

    point, tried = infeasible_minimum(qubo, rows, time_limit, rng)
    reasons = [f"{tried} descents searched"]
    if point is None:
        return Certificate("unknown", "search", np.nan, checked=tried, reasons=reasons)
    return _refuted(qubo, rows, constraints, point, "search", tried, reasons)


def _refuted(
    qubo: Qubo,
    rows: Rows,
    constraints: list[LinearConstraint],
    point: NDArray[np.int8],
    method: str,
    checked: int,
    reasons: list[str],
) -> Certificate:
    if not is_vertex_minimum(qubo, point[None])[0] or rows.feasible(point[None])[0]:
        reasons = [*reasons, "a candidate did not survive the check in float64"]
        return Certificate("unknown", method, np.nan, checked=checked, reasons=reasons)
    row = constraints[int(np.argmax(rows.violated(point[None])[0]))]
    return Certificate(
        "refuted", method, np.nan, point, _name(row, constraints), qubo.flip_gains(point), checked, reasons=reasons
    )


def _name(row: LinearConstraint, constraints: Sequence[LinearConstraint]) -> str:
    return row.name or f"row {constraints.index(row)}: {row!r}"
