"""Exact minimum-cost assignment of points to clusters under count bounds, compiled.

Successive shortest paths on the graph of k clusters and one sink. The arc from cluster a to b costs the cheapest
``cost[i, b] - cost[i, a]`` over the points i now in a, kept in a heap with lazy deletion.
"""

from __future__ import annotations

import numba
import numpy as np

INFEASIBLE = -1


@numba.njit(cache=True, nogil=True, inline="never")
def _push(key: np.ndarray, who: np.ndarray, at: int, size: int, value: float, point: int) -> None:
    j = size
    while j > 0:
        up = (j - 1) // 2
        if key[at + up] <= value:
            break
        key[at + j] = key[at + up]
        who[at + j] = who[at + up]
        j = up
    key[at + j] = value
    who[at + j] = point


@numba.njit(cache=True, nogil=True, inline="never")
def _sink(key: np.ndarray, who: np.ndarray, at: int, size: int, j: int) -> None:
    value, point = key[at + j], who[at + j]
    while True:
        down = 2 * j + 1
        if down >= size:
            break
        if down + 1 < size and key[at + down + 1] < key[at + down]:
            down += 1
        if key[at + down] >= value:
            break
        key[at + j] = key[at + down]
        who[at + j] = who[at + down]
        j = down
    key[at + j] = value
    who[at + j] = point


# A heap for each arc (a, b) of clusters: `size[a, b]` entries from `at[a, b]` on in one pool of keys and points, which
# has room for `room[a, b]` there and is used up to `total`.
@numba.njit(cache=True, nogil=True)
def _heaps(
    cost: np.ndarray, labels: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """The heaps of all arcs: key, who, at, room, size and total."""
    n, k = cost.shape
    at = np.zeros((k, k), dtype=np.int64)
    room = np.zeros((k, k), dtype=np.int64)
    size = np.zeros((k, k), dtype=np.int64)
    total = 0
    for a in range(k):
        for b in range(k):
            if a != b:
                at[a, b] = total
                room[a, b] = count[a] + count[a] // 8 + 16
                total += room[a, b]
    key = np.empty(total)
    who = np.empty(total, dtype=np.int32)
    for i in range(n):
        a = labels[i]
        for b in range(k):
            if b != a:
                key[at[a, b] + size[a, b]] = cost[i, b] - cost[i, a]
                who[at[a, b] + size[a, b]] = i
                size[a, b] += 1
    for a in range(k):
        for b in range(k):
            for j in range(size[a, b] // 2 - 1, -1, -1):
                _sink(key, who, at[a, b], size[a, b], j)
    return key, who, at, room, size, total


@numba.njit(cache=True, nogil=True)
def _grown(
    key: np.ndarray, who: np.ndarray, at: np.ndarray, room: np.ndarray, size: np.ndarray, total: int, a: int, b: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Move the heap of (a, b) to the pool's end, with twice the room; key, who and total."""
    need = total + 2 * room[a, b]
    if need > key.size:
        # By half at a time, so that copying the pool stays rare.
        longer = np.empty(need + total // 2)
        longer[:total] = key[:total]
        wider = np.empty(longer.size, dtype=np.int32)
        wider[:total] = who[:total]
        key, who = longer, wider
    start, end = at[a, b], at[a, b] + size[a, b]
    key[total : total + end - start] = key[start:end]
    who[total : total + end - start] = who[start:end]
    at[a, b] = total
    room[a, b] *= 2
    return key, who, need


@numba.njit(cache=True, nogil=True)
def _refresh(
    arc: np.ndarray,
    labels: np.ndarray,
    key: np.ndarray,
    who: np.ndarray,
    at: np.ndarray,
    size: np.ndarray,
    a: int,
) -> None:
    """The lengths of the arcs out of a: points that left it are dropped from the tops of its heaps."""
    for b in range(arc.shape[0]):
        if a == b:
            continue
        while size[a, b] > 0 and labels[who[at[a, b]]] != a:
            size[a, b] -= 1
            key[at[a, b]] = key[at[a, b] + size[a, b]]
            who[at[a, b]] = who[at[a, b] + size[a, b]]
            _sink(key, who, at[a, b], size[a, b], 0)
        arc[a, b] = key[at[a, b]] if size[a, b] > 0 else np.inf


@numba.njit(cache=True, nogil=True)
def _shortest_paths(
    arc: np.ndarray,
    count: np.ndarray,
    flow: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    dist: np.ndarray,
    parent: np.ndarray,
) -> int:
    """Bellman-Ford from every node with more than its flow; fills dist and parent (the sink is k).

    Returns the nearest node with less than its flow, or -1.
    """
    k = count.size
    surplus = flow.sum() - count.sum()
    for c in range(k):
        dist[c] = 0.0 if count[c] > flow[c] else np.inf
    dist[k] = 0.0 if surplus > 0 else np.inf
    parent[:] = -1
    for _ in range(k + 1):
        changed = False
        for a in range(k):
            if dist[a] == np.inf:
                continue
            for b in range(k):
                through = dist[a] + arc[a, b]
                if through < dist[b] - 1e-13 * (1.0 + abs(dist[b]) if dist[b] < np.inf else 0.0):
                    dist[b], parent[b], changed = through, a, True
            if flow[a] < upper[a] and dist[a] < dist[k] - 1e-13:
                dist[k], parent[k], changed = dist[a], a, True
        if dist[k] < np.inf:
            for c in range(k):
                if flow[c] > lower[c] and dist[k] < dist[c] - 1e-13:
                    dist[c], parent[c], changed = dist[k], k, True
        if not changed:
            break
    target = -1
    for c in range(k):
        if count[c] < flow[c] and dist[c] < np.inf and (target < 0 or dist[c] < dist[target]):
            target = c
    if surplus < 0 and dist[k] < np.inf and (target < 0 or dist[k] < dist[target]):
        target = k
    return target


@numba.njit(cache=True, nogil=True)
def assign_within_bounds(cost: np.ndarray, labels: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> int:
    """Change `labels` (each point's cheapest cluster on entry) into the cheapest assignment within the bounds.

    Parameters
    ----------
    cost : ndarray of float64, shape (n, k)
    labels : ndarray of int32, shape (n,)
    lower, upper : ndarray of int64, shape (k,)
        ``sum lower <= n <= sum upper`` and ``lower <= upper``.

    Returns
    -------
    int
        Elementary moves made, or INFEASIBLE.

    Notes
    -----
    The flow of cluster c into the sink is kept in [lower, upper]; nodes whose balance is violated are the sources and
    targets of the paths. Starting from the unconstrained optimum no cycle is negative, and a shortest path keeps it so.
    """
    n, k = cost.shape
    count = np.bincount(labels, minlength=k)
    key, who, at, room, size, total = _heaps(cost, labels, count)
    arc = np.full((k, k), np.inf)
    for a in range(k):
        _refresh(arc, labels, key, who, at, size, a)
    flow = np.minimum(np.maximum(count, lower), upper)
    dist: np.ndarray = np.empty(k + 1)
    parent = np.empty(k + 1, dtype=np.int64)
    moved = np.empty(k + 1, dtype=np.int64)
    touched = np.zeros(k, dtype=np.bool_)
    moves = 0
    while flow.sum() != n or (count != flow).any():
        target = _shortest_paths(arc, count, flow, lower, upper, dist, parent)
        if target < 0:
            return INFEASIBLE
        # All points are chosen before any moves: an arc's top must be the one its length was read from.
        b, steps = target, 0
        while parent[b] >= 0 and steps <= k:
            a = parent[b]
            moved[b] = who[at[a, b]] if a < k and b < k else -1
            b = a
            steps += 1
        b = target
        while parent[b] >= 0:
            a = parent[b]
            if b == k:
                flow[a] += 1
            elif a == k:
                flow[b] -= 1
            else:
                i = moved[b]
                labels[i] = b
                count[a] -= 1
                count[b] += 1
                moves += 1
                touched[a] = touched[b] = True
                for c in range(k):
                    if c == b:
                        continue
                    if size[b, c] == room[b, c]:
                        key, who, total = _grown(key, who, at, room, size, total, b, c)
                    _push(key, who, at[b, c], size[b, c], cost[i, c] - cost[i, b], i)
                    size[b, c] += 1
            b = a
        for a in range(k):
            if touched[a]:
                touched[a] = False
                _refresh(arc, labels, key, who, at, size, a)
    return moves
