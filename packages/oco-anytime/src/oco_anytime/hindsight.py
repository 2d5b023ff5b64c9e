"""The best fixed decision in hindsight: exact, by constraint generation, so that regret can be measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, one_of

from oco_anytime.domains.base import Domain, checked_domain, vector, within
from oco_anytime.hindsight_solvers import solver
from oco_anytime.implicit import cut
from oco_anytime.penalty import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

_TOL = 1e-10
#: what an interior-point method leaves
_SOLVER_TOL = 1e-7


@dataclass(frozen=True)
class Hindsight:
    """The best fixed decision.

    Attributes
    ----------
    x : numpy.ndarray, shape (d,)
        NaN if there is none.
    objective : float
        Its total cost; infinity if there is none.
    status : str
        ``"optimal"`` or ``"infeasible"``; ``"inaccurate"`` if the solver of a non-linear cost says so.
    n_active : int
        Constraint rows in the last working set.
    n_iter : int
        Rounds of constraint generation.
    wall_time : float
        Seconds.
    """

    x: Vector
    objective: float
    status: str
    n_active: int
    n_iter: int
    wall_time: float


def best_fixed(
    domain: Domain,
    cost_sum: ArrayLike,
    A: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    cost: Callable[[Any], Any] | None = None,
) -> Hindsight:
    """Minimise ``<cost_sum, x>`` (plus `cost`) over the domain and {A x <= b}.

    Parameters
    ----------
    domain : Domain
    cost_sum : array_like, shape (d,)
        Sum of the cost gradients.
    A : array_like, shape (n, d), optional
        All constraint rows, of all rounds.
    b : array_like, shape (n,), optional
        0 unless given.
    cost : callable, optional
        From a cvxpy variable of shape (d,) to a convex cvxpy expression that is added to the linear cost.

    Returns
    -------
    Hindsight

    Raises
    ------
    InvalidInput
        For wrong shapes, NaN or infinity.

    Notes
    -----
    Only violated rows enter the problem that is solved: a linear program by HiGHS where the domain is a polyhedron,
    an exact active-set step on the ball, cvxpy otherwise.
    """
    domain = checked_domain(domain)
    if cost is not None and not callable(cost):
        raise InvalidInput.argument("cost", expected="a callable", got=type(cost).__name__)
    c, rows, rhs = _checked(domain, cost_sum, A, b)
    return _generate(solver(domain, c, cost), rows, rhs, np.empty(0, dtype=np.int64))[0]


def _checked(
    domain: Domain, cost_sum: ArrayLike, A: ArrayLike | None, b: ArrayLike | None
) -> tuple[Vector, Vector, Vector]:
    c = within(vector(cost_sum, "cost_sum", domain.dim), "cost_sum", LARGEST)
    if A is None:
        if b is not None:
            raise InvalidInput.argument("A", expected="rows for b", got="None")
        return c, np.empty((0, domain.dim)), np.empty(0)
    rows = array(A, "A", ndim=(2, 3))
    if rows.shape[-1] != domain.dim:
        expected = f"shape (n, {domain.dim}) or (T, m, {domain.dim})"
        raise InvalidInput.argument("A", expected=expected, got=f"shape {rows.shape}")
    rows = rows.reshape(-1, domain.dim)
    given = array(0.0 if b is None else b, "b")
    rhs = given.reshape(-1)
    if rhs.size == 1:
        rhs = np.full(rows.shape[0], rhs[0])
    if rhs.size != rows.shape[0]:
        raise InvalidInput.argument("b", expected=f"{rows.shape[0]} finite numbers", got=f"shape {given.shape}")
    return c, rows, rhs


def _generate(solve: Any, rows: Vector, rhs: Vector, working: np.ndarray) -> tuple[Hindsight, np.ndarray]:
    """Solve with a working set of rows, add the most violated, until none is."""
    began = time.perf_counter()
    batch = max(4, rows.shape[1])
    n_iter = 0
    while True:
        n_iter += 1
        x, objective, status = solve(rows[working], rhs[working])
        if status == "infeasible" or rows.shape[0] == 0:
            break
        excess = rows @ x - rhs
        worst = float(excess.max())
        if worst <= _TOL * max(1.0, float(np.abs(rhs).max())):
            break
        k = min(batch, excess.size)
        new = np.argpartition(-excess, k - 1)[:k]
        new = np.setdiff1d(new[excess[new] > 0.0], working)
        if new.size == 0:
            # every broken row is in the problem: what is left is the solver's own tolerance
            status = status if worst <= _SOLVER_TOL * max(1.0, float(np.abs(rhs).max())) else "inaccurate"
            break
        working = np.concatenate([working, new])
    return Hindsight(x, objective, status, working.size, n_iter, time.perf_counter() - began), working


class HindsightTracker:
    """Regret over time: collects rounds and solves for the best fixed decision at checkpoints.

    The active rows of one checkpoint start the next, so that a whole curve costs little more than its last point.

    Parameters
    ----------
    domain : Domain
    checkpoints : "log" or sequence of int
        Rounds at which to solve; ``"log"``: 1, 2, 4, 8, ...
    """

    def __init__(self, domain: Domain, checkpoints: Any = "log") -> None:
        self.domain = checked_domain(domain)
        self._wanted: set[int] | None = None
        if isinstance(checkpoints, str):
            one_of(checkpoints, "checkpoints", ("log",))
        else:
            rounds = array(checkpoints, "checkpoints", ndim=1, dtype=np.int64)
            if (rounds < 1).any():
                raise InvalidInput.argument("checkpoints", expected="rounds from 1 on", got=str(checkpoints))
            self._wanted = set(rounds.tolist())
        self._sum = np.zeros(domain.dim)
        self._rows = np.empty((64, domain.dim))
        self._rhs = np.empty(64)
        self._n = self._t = 0
        self._paid: float | None = 0.0
        self._working = np.empty(0, dtype=np.int64)
        self._solved: list[tuple[int, float, Hindsight]] = []
        self._ends: list[int] = []

    def push(self, c: ArrayLike, a: ArrayLike | None = None, b: ArrayLike = 0.0, x: ArrayLike | None = None) -> Self:
        """Add a round.

        Parameters
        ----------
        c : array_like, shape (d,)
            Cost gradient.
        a : array_like, shape (d,) or (m, d), optional
            Constraint rows.
        b : float or array_like, shape (m,)
        x : array_like, shape (d,), optional
            The decision that was played; `regret` needs it in every round.

        Returns
        -------
        HindsightTracker
            Itself.
        """
        rows = None if a is None else np.atleast_2d(array(a, "a", ndim=(1, 2)))
        grad, rows, rhs = _checked(self.domain, c, rows, None if rows is None else b)
        point = None if x is None else vector(x, "x", self.domain.dim)
        self._sum += grad
        self._paid = None if point is None or self._paid is None else self._paid + float(grad @ point)
        n = rows.shape[0]
        while self._n + n > self._rhs.size:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._rhs = np.concatenate([self._rhs, np.empty_like(self._rhs)])
        self._rows[self._n : self._n + n], self._rhs[self._n : self._n + n] = rows, rhs
        self._n += n
        self._ends.append(self._n)
        self._t += 1
        due = self._t & (self._t - 1) == 0 if self._wanted is None else self._t in self._wanted
        if due:
            self._solve()
        return self

    def _solve(self) -> Hindsight:
        if not self._solved or self._solved[-1][0] != self._t:
            solve = solver(self.domain, self._sum.copy(), None)
            found, self._working = _generate(solve, self._rows[: self._n], self._rhs[: self._n], self._working)
            self._solved.append((self._t, np.nan if self._paid is None else self._paid, found))
        return self._solved[-1][2]

    def best(self) -> Hindsight:
        """The best fixed decision for the rounds so far."""
        return self._solve()

    def regret(self) -> tuple[np.ndarray, Vector]:
        """Regret at the checkpoints and now.

        Returns
        -------
        t : numpy.ndarray of int, shape (k,)
        regret : numpy.ndarray, shape (k,)

        Raises
        ------
        InvalidInput
            If a round came without the decision played.
        """
        if self._t:
            if self._paid is None:
                raise InvalidInput.argument("x", expected="the decision played, in every push", got="None")
            self._solve()
        ts = np.array([t for t, _, _ in self._solved], dtype=np.int64)
        return ts, np.array([paid - found.objective for _, paid, found in self._solved])

    def greedy_path(self) -> Vector:
        """A comparator for those who have none: it stays until a round forbids that, then moves as little as it can.

        Returns
        -------
        numpy.ndarray, shape (t, d)
            One point a round, feasible for that round (where the domain allows).
        """
        u = self.domain.project(self.domain.center())
        path = np.empty((self._t, self.domain.dim))
        first = 0
        for t, end in enumerate(self._ends):
            rows, rhs = self._rows[first:end], self._rhs[first:end]
            # several rows: cut by the worst in turn, as often as a small number of rows can need
            for _ in range(200 if end - first > 1 else 1):
                over = rows @ u - rhs
                if over.size == 0 or over.max() <= _TOL * max(1.0, float(np.abs(rhs).max())):
                    break
                i = int(np.argmax(over))
                u = cut(self.domain, u, rows[i], float(rhs[i]))
            path[t] = u
            first = end
        return path
