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
    One function: the heaps live in one pool of memory that every part of it reads.
    """
    n, k = cost.shape
    count = np.zeros(k, dtype=np.int64)
    for i in range(n):
        count[labels[i]] += 1
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
    arc = np.full((k, k), np.inf)
    for a in range(k):
        for b in range(k):
            if size[a, b] > 0:
                arc[a, b] = key[at[a, b]]
    flow = np.minimum(np.maximum(count, lower), upper)
    dist: np.ndarray = np.empty(k + 1)
    parent = np.empty(k + 1, dtype=np.int64)
    moved = np.empty(k + 1, dtype=np.int64)
    touched = np.zeros(k, dtype=np.bool_)
    moves = 0
    while True:
        surplus = flow.sum() - n
        open_ends = abs(surplus)
        for c in range(k):
            dist[c] = 0.0 if count[c] > flow[c] else np.inf
            open_ends += abs(count[c] - flow[c])
        if open_ends == 0:
            return moves
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
                        # The pool grows by half at a time, so that copying it stays rare.
                        if total + 2 * room[b, c] > key.size:
                            longer = np.empty(total + 2 * room[b, c] + total // 2)
                            longer[:total] = key[:total]
                            wider = np.empty(longer.size, dtype=np.int32)
                            wider[:total] = who[:total]
                            key, who = longer, wider
                        start, end = at[b, c], at[b, c] + size[b, c]
                        key[total : total + end - start] = key[start:end]
                        who[total : total + end - start] = who[start:end]
                        at[b, c] = total
                        room[b, c] *= 2
                        total += room[b, c]
                    _push(key, who, at[b, c], size[b, c], cost[i, c] - cost[i, b], i)
                    size[b, c] += 1
            b = a
        for a in range(k):
            if not touched[a]:
                continue
            touched[a] = False
            for c in range(k):
                if a == c:
                    continue
                while size[a, c] > 0 and labels[who[at[a, c]]] != a:
                    size[a, c] -= 1
                    key[at[a, c]] = key[at[a, c] + size[a, c]]
                    who[at[a, c]] = who[at[a, c] + size[a, c]]
                    _sink(key, who, at[a, c], size[a, c], 0)
                arc[a, c] = key[at[a, c]] if size[a, c] > 0 else np.inf
