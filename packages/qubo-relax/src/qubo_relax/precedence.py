"""Precedence graphs: order, transitive closure, cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse
from scipy.sparse import csgraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MAX_PAIRS = 50_000_000
"""Pairs of a transitive closure above which it is refused."""


def check_arcs(arcs: Any, n: int) -> Ints:
    """Validate an array of arcs ``(i, j)``, i needs j: shape (m, 2), distinct, acyclic; names one cycle otherwise."""
    a = check.array(arcs, "arcs", dtype=None, copy=True)
    if a.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if a.ndim != 2 or a.shape[1] != 2 or a.dtype.kind not in "iu":
        raise InvalidInput.argument("arcs", expected="whole numbers of shape (m, 2)", got=f"{a.dtype}, shape {a.shape}")
    if a.min() < 0 or a.max() >= n:
        raise InvalidInput.argument("arcs", expected=f"blocks in 0..{n - 1}", got=f"{a.min()}..{a.max()}")
    a = np.unique(a.astype(np.int64), axis=0)
    graph = sparse.csr_array((np.ones(len(a)), (a[:, 0], a[:, 1])), shape=(n, n))
    count, label = csgraph.connected_components(graph, connection="strong")
    if count < n or (a[:, 0] == a[:, 1]).any():
        raise InvalidInput.argument("arcs", expected="an acyclic precedence", got=f"the cycle {_cycle(a, label)}")
    a.flags.writeable = False
    return a


def _cycle(arcs: Ints, label: NDArray[Any]) -> str:
    loops = arcs[arcs[:, 0] == arcs[:, 1], 0]
    if loops.size:
        return f"{loops[0]} -> {loops[0]}"
    inside = arcs[label[arcs[:, 0]] == label[arcs[:, 1]]]
    follow = {int(i): int(j) for i, j in inside}
    node, seen = int(inside[0, 0]), []
    while node not in seen:
        seen.append(node)
        node = follow[node]
    return " -> ".join(map(str, [*seen[seen.index(node) :], node]))


def levels(n: int, arcs: Ints) -> Ints:
    """The length of the longest chain of needs below each block: 0 for one that needs nothing."""
    level = np.zeros(n, dtype=np.int64)
    missing = np.bincount(arcs[:, 0], minlength=n)
    users = sparse.csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 1], arcs[:, 0])), shape=(n, n))
    ready, depth = np.flatnonzero(missing == 0), 0
    while ready.size:
        level[ready] = depth
        freed = np.concatenate([users.indices[users.indptr[j] : users.indptr[j + 1]] for j in ready])
        hit, times = np.unique(freed, return_counts=True)
        missing[hit] -= times
        ready, depth = hit[missing[hit] == 0], depth + 1
    return level


def closure_pairs(n: int, arcs: Ints, max_pairs: int = MAX_PAIRS) -> tuple[Ints, Ints]:
    """All pairs (block, ancestor) of the transitive closure.

    Parameters
    ----------
    n : int
    arcs : ndarray of int of shape (m, 2)
        Acyclic.
    max_pairs : int
        Refuse more pairs than this.

    Returns
    -------
    child, parent : ndarray of int64
        Sorted by child, then parent.
    """
    if not len(arcs):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    needs = sparse.csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    order = np.argsort(levels(n, arcs), kind="stable")
    words = (n + 7) // 8
    seen: dict[int, NDArray[np.uint8]] = {}
    own = np.left_shift(np.uint8(1), (np.arange(n) & 7).astype(np.uint8))
    child, parent, total = [], [], 0
    for i in order.tolist():
        parents = needs.indices[needs.indptr[i] : needs.indptr[i + 1]]
        bits = np.zeros(words, dtype=np.uint8)
        for j in parents.tolist():
            if j in seen:
                bits |= seen[j]
            bits[j >> 3] |= own[j]
        if parents.size:
            seen[i] = bits
            above = np.flatnonzero(np.unpackbits(bits, bitorder="little", count=n))
            total += above.size
            if total > max_pairs:
                raise InvalidInput.argument(
                    "arcs", expected=f"a transitive closure of at most {max_pairs} pairs", got=f"more than {total}"
                )
            child.append(np.full(above.size, i))
            parent.append(above)
    c, p = np.concatenate(child), np.concatenate(parent)
    by = np.argsort(c, kind="stable")
    return c[by], p[by]
