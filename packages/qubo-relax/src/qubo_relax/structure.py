"""The structural verifier: the inequalities of each block, evaluated on the quadratic as it is, in O(nnz).

Every check bounds, from below and over ALL vertices that violate the block, the gain of one particular flip; the bound
counts every coupling that could stand against it. So a positive slack is a proof whatever the builder did, and the
smallest slack over the blocks is a lower bound of the margin ``min over infeasible v of max_i -D_i(v)`` (theorem T5). A
slack that is not positive proves nothing: "unknown", never "refuted".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax import blocks as bl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qubo_relax.constraints import LinearConstraint
    from qubo_relax.qubo import Qubo

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


class _View:
    """The quadratic as arrays of entries, with the fixed variables taken out."""

    def __init__(self, qubo: Qubo, fixed: NDArray[np.bool_]) -> None:
        S = qubo.quadratic
        self.c = qubo.linear
        self.S = S
        self.n = qubo.n
        self.fixed = fixed
        self.row = np.repeat(np.arange(self.n), np.diff(S.indptr))
        self.col = S.indices
        self.val = np.where(fixed[self.col], 0.0, S.data) if fixed.any() else S.data
        self.neg = np.bincount(self.row, np.minimum(self.val, 0.0), minlength=self.n)
        self.pos = np.bincount(self.row, np.maximum(self.val, 0.0), minlength=self.n)

    def at(self, i: Ints, j: Ints) -> Floats:
        """S at pairs; 0 where nothing is stored."""
        return np.asarray(self.S[i, j]).ravel() if len(i) else np.zeros(0)

    def sum(self, i: Ints, v: Floats) -> Floats:
        return np.asarray(np.bincount(i, v, minlength=self.n), dtype=np.float64)


def structural_margin(qubo: Qubo) -> tuple[float, list[str]]:
    """The smallest slack of the blocks of `qubo` and one sentence a block.

    Returns
    -------
    margin : float
        ``inf`` when no vertex violates any block, ``-inf`` when there are no blocks.
    reasons : list of str
    """
    if not qubo.blocks or qubo.diagonal is not None:
        return -np.inf, ["no structure is known for this quadratic"]
    fixed = np.zeros(qubo.n, dtype=bool)
    for block in qubo.blocks:
        if isinstance(block, bl.Fixed):
            fixed = fixed | block.mask
    everything, active = _View(qubo, np.zeros(qubo.n, dtype=bool)), _View(qubo, fixed)
    margin, reasons = np.inf, []
    for block in qubo.blocks:
        name = type(block).__name__
        slack = _CHECKS[name](everything if isinstance(block, bl.Fixed) else active, block)
        margin = min(margin, slack)
        reasons.append(f"{name}: smallest slack {slack:.6g}")
    return float(margin), reasons


def _fixed(q: _View, block: bl.Fixed) -> float:
    if not block.mask.any():
        return np.inf
    place = _places(block.order)
    later = block.mask[q.col] & (place[q.col] > place[q.row])
    neg = np.bincount(q.row, np.where(later, 0.0, np.minimum(q.val, 0.0)), minlength=q.n)
    return float(np.min((q.c + neg)[block.mask]))


def _conflicts(q: _View, block: bl.Conflicts) -> float:
    return _pair_slack(q, block.i, block.j)


def _pair_slack(q: _View, i: Ints, j: Ints) -> float:
    keep = ~(q.fixed[i] | q.fixed[j])
    i, j = i[keep], j[keep]
    if not i.size:
        return np.inf
    s = q.at(i, j)
    base = s - np.minimum(s, 0.0)
    return float(np.min(np.maximum(q.c[i] + q.neg[i] + base, q.c[j] + q.neg[j] + base)))


def _covers(q: _View, block: bl.Covers) -> float:
    if not block.i.size:
        return np.inf
    s = np.maximum(q.at(block.i, block.j), 0.0)
    enter = q.c + q.pos
    return float(np.min(np.maximum(s - enter[block.i], s - enter[block.j])))


def _implications(q: _View, block: bl.Implications) -> float:
    child, parent = block.child, block.parent
    if not child.size:
        return np.inf
    s = q.at(child, parent)
    # What the selected children add when their parent enters: at least one of them is selected.
    some = q.sum(parent, np.maximum(s, 0.0))
    most = np.full(q.n, -np.inf)
    np.maximum.at(most, parent, s)
    gain_of_children = np.where(most > 0, some, most)
    others = q.pos - some
    if block.transitive:
        # All ancestors of the entering block are in, so its couplings to them count as they are.
        others = others + q.sum(child, s) - q.sum(child, np.maximum(s, 0.0))
    needed = np.isfinite(most) & ~q.fixed
    return float(np.min(-(q.c + gain_of_children + others)[needed], initial=np.inf))


def _removals(q: _View, block: bl.Removals) -> float:
    child, parent = block.child, block.parent
    keep = ~q.fixed[child]
    child, parent = child[keep], parent[keep]
    if not child.size:
        return np.inf
    if q.fixed[parent].any():
        return -np.inf
    s = np.minimum(q.at(child, parent), 0.0)
    outside = q.neg - q.sum(parent, s)  # descendants are not selected
    nearest = np.full(q.n, -np.inf)
    np.maximum.at(nearest, child, s)
    bound = q.c + outside - np.where(np.isfinite(nearest), nearest, 0.0)
    return float(np.min(bound[np.unique(child)]))


def _prices(q: _View, block: bl.Prices) -> float:
    place = _places(block.order)
    later = place[q.col] > place[q.row]
    slack = np.inf
    for a, b, unit, rate, relevant in zip(block.weights, block.capacity, block.unit, block.rate, block.relevant):
        if ((a > 0) & ~relevant).any():
            return -np.inf
        active = np.where(q.fixed, 0.0, a)
        before = np.empty(q.n)
        before[block.order] = np.cumsum(active[block.order]) - active[block.order]
        excluded = (later & relevant[q.col]) | q.fixed[q.col]
        priced = rate[q.row] * a[q.col]
        kept = np.where(excluded, 0.0, np.minimum(q.val - priced, 0.0) + priced)
        bound = q.c + rate * (b + unit - a) - rate * before + q.sum(q.row, kept)
        can_be_last = relevant & ~q.fixed & (before + a >= b + unit * (1 - 1e-9))
        slack = min(slack, float(np.min(bound[can_be_last], initial=np.inf)))
    return slack


def _places(order: Ints) -> Ints:
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place


def _sum_of_group_maxima(owner: Ints, group: Ints, value: Floats, n: int) -> tuple[Floats, Ints]:
    """For each owner the sum over groups of the largest positive value, and the number of such groups."""
    keep = value > 0
    owner, group, value = owner[keep], group[keep], value[keep]
    if not owner.size:
        return np.zeros(n), np.zeros(n, dtype=np.int64)
    _, best_owner, best = _maxima(owner, group, value)
    total: Floats = np.bincount(best_owner, best, minlength=n).astype(np.float64)
    return total, np.bincount(best_owner, minlength=n)


def _maxima(owner: Ints, group: Ints, value: Floats) -> tuple[Ints, Ints, Floats]:
    """The largest value of each (owner, group), sorted by owner and falling value."""
    order = np.lexsort((-value, group, owner))
    o, g, v = owner[order], group[order], value[order]
    first = np.r_[True, (np.diff(o) != 0) | (np.diff(g) != 0)]
    o, g, v = o[first], g[first], v[first]
    order = np.lexsort((-v, o))
    return g[order], o[order], v[order]


def _groups(q: _View, block: bl.Groups) -> float:
    slack = _pair_slack(q, *bl.group_pairs(block.group))
    group = block.group
    count = int(group.max(initial=-1)) + 1
    if count == 0:
        return slack
    # A variable outside every group is a group of its own.
    of = np.where(group >= 0, group, count + np.arange(q.n))
    cross = of[q.row] != of[q.col]
    row, col, val = q.row[cross], q.col[cross], q.val[cross]
    direct = -(q.c + _sum_of_group_maxima(row, of[col], val, q.n)[0])
    best = np.full(count, -np.inf)
    np.maximum.at(best, group[group >= 0], direct[group >= 0])
    # Pigeonhole: the average over the members, other groups holding at most one selected variable each.
    inside = group[row] >= 0
    key = group[row[inside]] * q.n + col[inside]
    keys, index = np.unique(key, return_inverse=True)
    total = np.zeros(keys.size)
    np.add.at(total, index, val[inside])
    cost, _ = _sum_of_group_maxima(keys // max(q.n, 1), of[keys % max(q.n, 1)], total, count)
    members = group >= 0
    size = np.bincount(group[members], minlength=count)
    # Or a member that nothing outside stands against: fewer groups touch these members than there are members, and each
    # outside variable stands against one member at most.
    against = val > 0
    each = np.unique(key[against[inside]], return_counts=True)[1] if against[inside].any() else np.zeros(0)
    if each.size == 0 or each.max() <= 1:
        touching = np.unique(np.stack([group[row[inside & against]], of[col[inside & against]]]), axis=1)[0]
        free = np.bincount(touching, minlength=count) < np.bincount(group[group >= 0], minlength=count)
        least = np.full(count, np.inf)
        np.minimum.at(least, group[group >= 0], -q.c[group >= 0])
        best = np.where(free, np.maximum(best, least), best)
    mean = -(np.bincount(group[members], q.c[members], minlength=count) + cost) / np.maximum(size, 1)
    return min(slack, float(np.min(np.where(size > 0, np.maximum(best, mean), -np.inf))))


def _permutation(q: _View, block: bl.Permutation) -> float:
    rows, cols = block.index.shape
    if rows != cols or block.index.size == 0:
        return np.inf if block.index.size == 0 else -np.inf
    slack = _pair_slack(q, *bl.rook_pairs(block.index))
    r, c = np.full(q.n, -1), np.full(q.n, -1)
    r[block.index] = np.arange(rows)[:, None]
    c[block.index] = np.arange(cols)
    if (r < 0).any():
        return -np.inf
    apart = (r[q.row] != r[q.col]) & (c[q.row] != c[q.col]) & (q.val > 0)
    u, k, v = q.row[apart], q.col[apart], q.val[apart]
    by_row, by_col = _line_maxima(u, r[k], v, q.n, rows), _line_maxima(u, c[k], v, q.n, cols)
    # Rooks stand in different rows AND columns, so no more column maxima can be met together than rows are touched.
    worst = np.minimum(_largest(by_col, (by_row > 0).sum(axis=1)), _largest(by_row, (by_col > 0).sum(axis=1)))
    return min(slack, float(np.min(-(q.c + worst)[block.index])))


def _line_maxima(owner: Ints, line: Ints, value: Floats, n: int, lines: int) -> Floats:
    """For each owner and line the largest value, 0 where there is none: shape (n, lines)."""
    out = np.zeros(n * lines)
    np.maximum.at(out, owner * lines + line, value)
    return out.reshape(n, lines)


def _largest(maxima: Floats, count: Ints) -> Floats:
    """For each row the sum of its `count` largest entries."""
    falling = -np.sort(-maxima, axis=1)
    total = np.concatenate([np.zeros((len(maxima), 1)), np.cumsum(falling, axis=1)], axis=1)
    return np.asarray(total[np.arange(len(maxima)), np.minimum(count, maxima.shape[1])])


def _cardinality(q: _View, block: bl.Cardinality) -> float:
    both = np.concatenate([block.members, block.slack])
    inside = np.zeros(q.n, dtype=bool)
    inside[both] = True
    lam = block.weight
    rest = np.where(inside[q.row] & inside[q.col], q.val - 2 * lam, q.val)
    stored = q.sum(q.row[inside[q.row] & inside[q.col]], np.ones(int((inside[q.row] & inside[q.col]).sum())))
    missing = np.where(inside, both.size - 1 - stored, 0) * -2 * lam
    linear = q.c - np.where(inside, lam * (1 - 2 * block.target), 0.0)
    leave = -linear - np.bincount(q.row, np.minimum(rest, 0.0), minlength=q.n) - np.minimum(missing, 0.0)
    enter = linear + np.bincount(q.row, np.maximum(rest, 0.0), minlength=q.n)
    over = lam - np.max(leave[both], initial=-np.inf) if both.size > block.target else np.inf
    under = lam - np.max(enter[both], initial=-np.inf) if block.target > 0 and not block.slack.size else np.inf
    if block.target > both.size:
        return -np.inf
    return float(min(over, under))


_CHECKS: dict[str, Any] = {
    "Fixed": _fixed,
    "Conflicts": _conflicts,
    "Covers": _covers,
    "Implications": _implications,
    "Removals": _removals,
    "Prices": _prices,
    "Groups": _groups,
    "Permutation": _permutation,
    "Cardinality": _cardinality,
}


def unproved(qubo: Qubo, constraints: Sequence[LinearConstraint]) -> list[LinearConstraint]:
    """The constraints that no block of `qubo` stands for, compared as sets of pairs and rows."""
    together, implied, rows = _proved(qubo)
    left = []
    for row in constraints:
        index, value = row.index.tolist(), row.value
        ones = bool((value == 1).all())
        if ones and row.sense == "<=" and row.b == 1 and _all_pairs(index, together):
            continue
        if row.sense == "<=" and row.b == 0 and sorted(value.tolist()) == [-1.0, 1.0]:
            pair = (index[int(np.argmax(value))], index[int(np.argmin(value))])
            if pair in implied:
                continue
        if row.key() in rows:
            continue
        left.append(row)
    return left


def _all_pairs(index: list[int], pairs: set[tuple[int, int]]) -> bool:
    return all((a, b) in pairs for k, a in enumerate(index) for b in index[k + 1 :])


def _proved(qubo: Qubo) -> tuple[set[tuple[int, int]], set[tuple[int, int]], set[Any]]:
    from qubo_relax.constraints import LinearConstraint as Row

    together: set[tuple[int, int]] = set()
    implied: set[tuple[int, int]] = set()
    rows: set[Any] = set()
    for block in qubo.blocks:
        if isinstance(block, bl.Conflicts):
            together |= set(zip(np.minimum(block.i, block.j).tolist(), np.maximum(block.i, block.j).tolist()))
        elif isinstance(block, bl.Covers):
            rows |= {Row({int(i): 1.0, int(j): 1.0}, ">=", 1.0).key() for i, j in zip(block.i, block.j)}
        elif isinstance(block, bl.Implications | bl.Removals):
            implied |= set(zip(block.child.tolist(), block.parent.tolist()))
        elif isinstance(block, bl.Prices):
            rows |= {Row(a, "<=", b).key() for a, b in zip(block.weights, block.capacity)}
        elif isinstance(block, bl.Groups):
            i, j = bl.group_pairs(block.group)
            together |= set(zip(np.minimum(i, j).tolist(), np.maximum(i, j).tolist()))
            for g in range(int(block.group.max(initial=-1)) + 1):
                rows |= {
                    Row(dict.fromkeys(np.flatnonzero(block.group == g).tolist(), 1.0), s, 1.0).key()
                    for s in (">=", "==")
                }
        elif isinstance(block, bl.Permutation):
            i, j = bl.rook_pairs(block.index)
            together |= set(zip(np.minimum(i, j).tolist(), np.maximum(i, j).tolist()))
            for line in (*block.index, *block.index.T):
                rows |= {Row(dict.fromkeys(line.tolist(), 1.0), s, 1.0).key() for s in (">=", "==")}
        elif isinstance(block, bl.Cardinality):
            sense = "<=" if block.slack.size else "=="
            rows.add(Row(dict.fromkeys(block.members.tolist(), 1.0), sense, float(block.target)).key())
        elif isinstance(block, bl.Fixed):
            rows |= {Row({int(i): 1.0}, "<=", 0.0).key() for i in np.flatnonzero(block.mask)}
    return together, implied, rows
