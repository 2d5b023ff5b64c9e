"""The price of fairness: objective, cut and balance along a grid of allowed violations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from lemmata_core import InvalidInput, check
from lemmata_core.claims import Series, Table
from lemmata_core.progress import Progress
from lemmata_core.rng import generator

from riemann_fair.assign import cluster_qr, kmeans_labels
from riemann_fair.embedding import fair_embedding, from_state
from riemann_fair.groups import read_groups
from riemann_fair.laplacian import read_affinity
from riemann_fair.metrics import average_balance, normalized_cut
from riemann_fair.problem import prepare
from riemann_fair.radmm import RADMMParams, RADMMState, radmm
from riemann_fair.result import EmbeddingResult
from riemann_fair.threads import one_blas_thread

COLUMNS = ("delta", "violation", "objective", "lower_bound", "ncut", "balance")


@dataclass(frozen=True)
class PathResult:
    """The path from the plain embedding to the fair one.

    Attributes
    ----------
    delta : ndarray of float64, shape (grid,)
        Allowed violations, from the plain embedding's down to 0.
    violation, objective, lower_bound, ncut, balance : ndarray of float64, shape (grid,)
        What was reached: ``||Q^T H||_F``, ``tr(H^T L H)``, the dual bound (equal to the objective at both ends, where
        the optimum is an eigenproblem), and the k-means labels' normalised cut and average balance.
    status : tuple of str
    """

    delta: np.ndarray
    violation: np.ndarray
    objective: np.ndarray
    lower_bound: np.ndarray
    ncut: np.ndarray
    balance: np.ndarray
    status: tuple[str, ...]

    def table(self) -> Table:
        """A row for each allowed violation."""
        rows = [[*(float(getattr(self, c)[i]) for c in COLUMNS), self.status[i]] for i in range(self.delta.size)]
        return Table("Price of fairness", [*COLUMNS, "status"], rows)

    def series(self) -> tuple[Series, ...]:
        """Objective with its bound, and balance with the cut, against the allowed violation."""
        x = self.delta.tolist()
        return (
            Series(
                "Objective along the path",
                "allowed violation",
                "tr(H' L H)",
                {"objective": (x, self.objective.tolist()), "lower bound": (x, self.lower_bound.tolist())},
            ),
            Series(
                "Balance and cut along the path",
                "allowed violation",
                "value",
                {"average balance": (x, self.balance.tolist()), "normalised cut": (x, self.ncut.tolist())},
            ),
        )

    def to_frame(self) -> Any:
        """A data frame; needs pandas (extra ``frame``)."""
        import pandas as pd

        return pd.DataFrame({c: getattr(self, c) for c in COLUMNS} | {"status": self.status})

    def plot(self) -> Any:
        """Objective and balance against the allowed violation; needs matplotlib (extra ``plot``).

        Returns
        -------
        matplotlib.figure.Figure
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.3, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.delta, self.objective, marker="o", label="objective")
        axes.plot(self.delta, self.lower_bound, linestyle="--", label="lower bound")
        axes.plot(self.delta, self.balance, marker="s", label="average balance")
        axes.set_xlabel("allowed violation")
        axes.legend(fontsize="small")
        return figure


def fairness_path(
    affinity: Any,
    groups: Any,
    n_clusters: int,
    *,
    grid: int = 20,
    rng: Any = None,
    constraint: str = "count",
    params: RADMMParams | None = None,
) -> PathResult:
    """Solve the relaxed problem for violations from the plain embedding's down to 0, each from the one before.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
    groups : array-like
    n_clusters : int
    grid : int
        Points, both ends included.
    rng : numpy.random.Generator, int or None
    constraint : {"count", "plain", "volume"}
    params : RADMMParams, optional

    Returns
    -------
    PathResult

    Raises
    ------
    InvalidInput
        As `fair_embedding`; a single group.
    """
    check.positive_int(grid, "grid", minimum=2)
    if groups is None:
        raise InvalidInput.argument("groups", expected="protected attributes", got="None")
    W = read_affinity(affinity)
    table = read_groups(groups, W.d.size, missing="ignore")
    random = generator(rng)
    n_clusters = check.positive_int(n_clusters, "n_clusters")
    problem = prepare(W, table, n_clusters, constraint, 0.0, "n_clusters")
    op = problem.op
    if op.space.rank == 0:
        raise InvalidInput.argument("groups", expected="at least two groups", got="one")
    constants = params or RADMMParams()
    seed = int(random.integers(2**31 - 1))
    plain = fair_embedding(W, None, n_clusters, tol=1e-6, rng=random)
    fair = fair_embedding(W, table, n_clusters, constraint=constraint, tol=1e-6, rng=random)
    top = op.space.violation(plain.embedding[problem.active])
    deltas = np.linspace(top, 0.0, grid)
    rows: list[tuple[float, ...]] = []
    status: list[str] = []
    state: RADMMState | np.ndarray = plain.embedding[problem.active]
    with one_blas_thread(), Progress().task("price of fairness", grid) as task:
        for i, delta in enumerate(deltas):
            if i == 0 or i == grid - 1:
                result = plain if i == 0 else fair
                bound, violation = result.objective, top if i == 0 else fair.fairness_violation
            else:
                state = radmm(op, n_clusters, constants, delta=float(delta), rng=random, start=state)
                result = from_state(problem, state, float(delta), constants, "float64")
                bound, violation = float(result.lower_bound or 0.0), result.fairness_violation
            labels = _labels(result, n_clusters, problem.active, seed)
            rows.append((float(delta), violation, result.objective, bound, normalized_cut(W, labels),
                         average_balance(labels, table)))  # fmt: skip
            status.append(result.status)
            task.advance()
    columns = dict(zip(COLUMNS, np.array(rows).T))
    return PathResult(**columns, status=tuple(status))


def _labels(result: EmbeddingResult, k: int, active: np.ndarray, seed: int) -> np.ndarray:
    labels = np.full(active.size, -1, dtype=np.int32)
    labels[active] = kmeans_labels(result.scaled[active], k, 3, seed, cluster_qr(result.embedding[active]))
    return labels
