"""B1 to B11: penalties whose violations a single flip repairs, and the record a `Qubo` keeps of them.

Each record (a `Block`) names the constraints it stands for and the little that the structural verifier needs besides
the matrix itself (an order, rates, a reading direction). It carries no claim: `qubo_relax.structure` evaluates the
inequalities on the matrix and the linear term as they are, so a changed coefficient changes the verdict. All
formulations here are ours, of the kind whose conditions arXiv 2606.28734 states; the proofs are in the docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qubo_relax.matrices import pair_matrix
from qubo_relax.qubo import Qubo

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Conflicts:
    """B1: ``x_i + x_j <= 1`` for each pair, penalty ``w_ij x_i x_j`` with ``w_ij > min(v_i, v_j)``.

    Proof: in a violated pair, switching off the end that is worth less gains ``w_ij - v > 0``. With weight equal to the
    value (a maximum independent set with penalty 1) both ends tie and ``(1, 1)`` becomes a local minimizer.
    """

    i: Ints
    j: Ints


@dataclass(frozen=True, eq=False)
class Covers:
    """B2: ``x_i + x_j >= 1`` for each pair, penalty ``w_ij (1 - x_i)(1 - x_j)``, ``w_ij > max(min(cost_i, cost_j),
    0)``.

    The complement of B1.
    """

    i: Ints
    j: Ints


@dataclass(frozen=True, eq=False)
class Implications:
    """B3: ``x_child <= x_parent``, penalty ``w x_child (1 - x_parent)``, proved by switching a missing parent ON.

    ``transitive=True``: the pairs are all pairs of the transitive closure and ``w = max(cost_parent, 0) + margin``.
    Proof: take a missing parent with a selected descendant, all of whose own ancestors are in (it exists in a DAG);
    switching it on costs ``cost``, adds no violation and removes at least one of weight ``w``.

    ``transitive=False``: immediate arcs with ``L_j = max(cost_j, 0) + margin + sum over parents l of L_l``; switching a
    missing parent on can violate its own arcs, which ``L_j`` pays for.
    """

    child: Ints
    parent: Ints
    transitive: bool = True


@dataclass(frozen=True, eq=False)
class Removals:
    """B3, second weighting: ``w_ij = max(value_i, 0) + margin`` on all closure pairs, proved by switching a child OFF.

    Proof: among the selected blocks with a missing ancestor take one without selected descendants; removing it costs at
    most its value, breaks nothing and clears at least one violation. Composes with packing rows (B5), where the first
    weighting does not: there a parent may not be addable.
    """

    child: Ints
    parent: Ints


@dataclass(frozen=True, eq=False)
class Prices:
    """B5: rows ``sum_i a_i x_i <= b`` with ``a >= 0``, priced without slack variables.

    For a fixed order, a pair of a LATER item l and an EARLIER item e has weight ``v_l a_e / (b + h - a_l - tau h)``
    with ``h`` the resolution of the row (1 for integers) and ``0 < tau < 1``. Proof: let l be the last item of an
    overfull selection that is relevant to the row; the earlier ones weigh at least ``b + h - a_l``, so its prices
    exceed ``v_l`` and removing it gains. Removing never hurts another row, so several rows compose by the entrywise
    maximum.

    Attributes
    ----------
    weights : ndarray of shape (d, n)
    capacity, unit : ndarray of shape (d,)
    order : ndarray of int of shape (n,)
        Items, first to last.
    rate : ndarray of shape (d, n)
        ``v_l / (b + h - a_l - tau h)`` of each item as the later end; 0 where it is not priced.
    relevant : ndarray of bool of shape (d, n)
        Items that weigh in the row or need one that does; without the latter an item may be impossible to remove
        because a selected weightless item depends on it.
    """

    weights: Floats
    capacity: Floats
    unit: Floats
    order: Ints
    rate: Floats
    relevant: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Fixed:
    """Variables that are 0 in every local minimizer: the last selected one in `order` always gains by leaving."""

    mask: NDArray[np.bool_]
    order: Ints


@dataclass(frozen=True, eq=False)
class Groups:
    """B8, B9, B10: exactly one variable of each group (``group[i]``, -1 for none).

    Two of one group are a conflict (B1). An empty group must have a member whose reward pays for entering; by the
    pigeonhole it is enough that the members' average does.
    """

    group: Ints


@dataclass(frozen=True, eq=False)
class Permutation:
    """B7: ``index[r, c]`` is 1 for exactly one c in each row and one r in each column (a rook placement).

    Every pair in a row or column has weight G, every variable reward R. Two rooks on a line: one leaves, gaining at
    least ``G - R``. An incomplete placement has a free row and a free column: entering gains R less the costs there.
    The usual ``(1 - sum)^2`` gives R = G exactly, a tie that no multiplier removes.
    """

    index: Ints


@dataclass(frozen=True, eq=False)
class Cardinality:
    """B4: ``sum of members = target``, penalty ``lam (sum - target)^2``, `slack` unit bits turning it into ``<=``.

    ``lam`` exceeds the largest change of the objective by one flip, so a flip that lowers the residual gains. Unit
    weights are the only ones for which a squared residual is sound: a step of a_i needs a_i < 2 r at residual r = 1.
    """

    members: Ints
    slack: Ints
    target: int
    weight: float


Block = Conflicts | Covers | Implications | Removals | Prices | Fixed | Groups | Permutation | Cardinality


class Terms:
    """Collects linear and pair terms, then builds the `Qubo`.

    Parameters
    ----------
    n : int
        Number of variables.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.linear = np.zeros(n)
        self.offset = 0.0
        self._pairs: list[tuple[Ints, Ints, Floats]] = []

    def add_linear(self, i: ArrayLike, v: ArrayLike) -> None:
        """Add ``v_k x_{i_k}``; indices may repeat."""
        i = np.asarray(i, dtype=np.int64)
        self.linear += np.bincount(i.ravel(), np.broadcast_to(v, i.shape).ravel(), minlength=self.n)

    def add_pairs(self, i: ArrayLike, j: ArrayLike, v: ArrayLike) -> None:
        """Add ``v_k x_{i_k} x_{j_k}``."""
        a, b = np.broadcast_arrays(np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64))
        w = np.broadcast_to(np.asarray(v, dtype=np.float64), a.shape)
        self._pairs.append((a.ravel(), b.ravel(), w.ravel()))

    def add_implications(self, child: Ints, parent: Ints, w: ArrayLike) -> None:
        """Add ``w_k x_child (1 - x_parent)``."""
        w = np.broadcast_to(np.asarray(w, dtype=np.float64), child.shape)
        self.add_linear(child, w)
        self.add_pairs(child, parent, -w)

    def add_covers(self, i: Ints, j: Ints, w: ArrayLike) -> None:
        """Add ``w_k (1 - x_i)(1 - x_j)``."""
        w = np.broadcast_to(np.asarray(w, dtype=np.float64), i.shape)
        self.offset += float(w.sum())
        self.add_linear(i, -w)
        self.add_linear(j, -w)
        self.add_pairs(i, j, w)

    def add_square(self, index: ArrayLike, coefficient: ArrayLike, target: float, weight: float) -> None:
        """Add ``weight (sum_k coefficient_k x_{index_k} - target)^2``, folded."""
        index = np.asarray(index, dtype=np.int64)
        a = np.broadcast_to(np.asarray(coefficient, dtype=np.float64), index.shape)
        self.offset += weight * target**2
        self.add_linear(index, weight * (a * a - 2 * target * a))
        p, q = np.triu_indices(index.size, 1)
        self.add_pairs(index[p], index[q], 2 * weight * a[p] * a[q])

    def build(
        self, *, concavity: float = 0.0, blocks: Sequence[Block] = (), labels: Sequence[Hashable] | None = None
    ) -> Qubo:
        """The collected quadratic, with its blocks."""
        i = np.concatenate([p[0] for p in self._pairs]) if self._pairs else np.zeros(0, dtype=np.int64)
        j = np.concatenate([p[1] for p in self._pairs]) if self._pairs else np.zeros(0, dtype=np.int64)
        v = np.concatenate([p[2] for p in self._pairs]) if self._pairs else np.zeros(0)
        linear, S = pair_matrix(self.n, i.astype(np.int32), j.astype(np.int32), v, self.linear.copy())
        return Qubo._trusted(linear, S, self.offset, concavity=concavity, labels=labels, blocks=tuple(blocks))


def rook_pairs(index: Ints) -> tuple[Ints, Ints]:
    """All pairs of `index` (rows, cols) that share a row or a column."""
    rows, cols = index.shape
    p, q = np.triu_indices(cols, 1)
    r, s = np.triu_indices(rows, 1)
    i = np.concatenate([index[:, p].ravel(), index[r].ravel()])
    j = np.concatenate([index[:, q].ravel(), index[s].ravel()])
    return i, j


def group_pairs(group: Ints) -> tuple[Ints, Ints]:
    """All pairs of variables with the same non-negative group number."""
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    if not order.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    sizes = np.diff(np.r_[starts, order.size])
    out_i, out_j = [], []
    for size in np.unique(sizes):
        p, q = np.triu_indices(size, 1)
        base = starts[sizes == size][:, None]
        out_i.append(order[base + p].ravel())
        out_j.append(order[base + q].ravel())
    return np.concatenate(out_i), np.concatenate(out_j)


def slack_widths(capacity: float) -> list[int]:
    """Binary slack weights 1, 2, 4, .., rest that reach exactly 0..floor(capacity)."""
    left = int(capacity)
    widths: list[int] = []
    while left > 0:
        step = min(1 << len(widths), left)
        widths.append(step)
        left -= step
    return widths


def price_rates(
    values: Floats,
    weights: Floats,
    capacity: Floats,
    unit: Floats,
    relevant: NDArray[np.bool_],
    fixed: NDArray[np.bool_],
    tau: float,
) -> Floats:
    """The rates of B5, shape (d, n): ``v_l / (b + h - a_l - tau h)`` for relevant items that are not fixed."""
    room = capacity[:, None] + unit[:, None] * (1.0 - tau) - weights
    rate = np.where(relevant & ~fixed, values / np.where(room > 0, room, 1.0), 0.0)
    return np.asarray(rate)


def add_prices(terms: Terms, block: Prices, fixed: NDArray[np.bool_]) -> None:
    """Add the entrywise maximum over rows of the price pairs of `block`; fixed items take no part."""
    order = block.order[~fixed[block.order]]
    total = np.zeros((order.size, order.size))
    for a, rate in zip(block.weights, block.rate):
        np.maximum(total, np.outer(rate[order], a[order]), out=total)
    later, earlier = np.nonzero(np.tril(total, -1))
    terms.add_pairs(order[later], order[earlier], total[later, earlier])


def overlap_pairs(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """All pairs of half-open intervals ``[start, stop)`` that overlap."""
    p, q = np.nonzero(np.triu((start[:, None] < stop) & (start < stop[:, None]), 1))
    return p, q
