"""The problem behind the door: a checked graph without isolated nodes, its operator and its fair subspace."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check

from riemann_fair.constraints import check_constraint
from riemann_fair.groups import Groups, read_groups
from riemann_fair.laplacian import Affinity, Operator


@dataclass
class Problem:
    """A checked graph without its isolated nodes."""

    op: Operator
    active: np.ndarray
    groups: Groups | None

    @property
    def n(self) -> int:
        """Nodes, isolated ones included."""
        return int(self.active.shape[0])

    def widen(self, X: np.ndarray) -> np.ndarray:
        """Rows for all nodes, zero for isolated ones."""
        if self.active.all():
            return X
        full = np.zeros((self.n, *X.shape[1:]), dtype=X.dtype)
        full[self.active] = X
        return full


def prepare(
    affinity: Affinity,
    groups: Any,
    k: int,
    constraint: str,
    regularization: float | str,
    name: str = "n_components",
) -> Problem:
    """The operator of a checked affinity; raises `InvalidInput` for what cannot be embedded in k dimensions.

    `name` is what the caller calls k.
    """
    check_constraint(constraint)
    W, d = affinity.W, affinity.d
    n = W.shape[0]
    check.positive_int(k, name)
    table = None if groups is None else read_groups(groups, n)
    tau = _tau(regularization, d)
    active = np.ones(n, dtype=bool) if tau > 0 else d > 0
    if not (d > 0).any():
        raise InvalidInput.argument("affinity", expected="at least one edge", got="all degrees 0")
    if not active.all():
        keep = np.flatnonzero(active)
        W = W[keep][:, keep] if sp.issparse(W) else W[np.ix_(keep, keep)]
        d = d[active]
        affinity = Affinity(W, d, affinity.uniform)
        table = None if table is None else table.subset(active)
    if table is not None and table.soft is None and table.codes.shape[1] == 1:
        rank = max(int(np.count_nonzero(np.bincount(table.codes[:, 0] + 1)[1:])) - 1, 0)
        _check_rank(k, d.size, rank, name)
    op = Operator.build(affinity, table, constraint, tau)
    _check_rank(k, d.size, op.space.rank, name)
    if table is not None and op.space.rank == 0:
        warnings.warn("groups: a single group; the constraint is void, this is plain clustering", stacklevel=3)
    return Problem(op, active, table)


def _check_rank(k: int, n: int, rank: int, name: str) -> None:
    if k > n - rank:
        raise InvalidInput.argument(
            name,
            expected=f"at most {n - rank}: {n} nodes with edges and a constraint of rank {rank} leave "
            f"only {n - rank} fair dimensions",
            got=k,
        )


def _tau(regularization: float | str, d: np.ndarray) -> float:
    if isinstance(regularization, str):
        check.one_of(regularization, "regularization", ("auto",))
        return float(d.mean())
    return check.in_range(regularization, "regularization", 0)
