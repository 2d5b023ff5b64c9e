"""Shortest augmenting paths on the core: Dijkstra with a binary heap. The graph is that of `core`."""

from __future__ import annotations

import numpy as np

from lap_warmstart.simd import inner, kernel


@inner
def _push(keys, items, size, key, item):
    k = size
    while k > 0:
        up = (k - 1) >> 1
        if keys[up] <= key:
            break
        keys[k] = keys[up]
        items[k] = items[up]
        k = up
    keys[k] = key
    items[k] = item


@inner
def _drop_first(keys, items, size):
    """Remove the root of a heap of `size` entries."""
    key = keys[size - 1]
    item = items[size - 1]
    size -= 1
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[k] = keys[child]
        items[k] = items[child]
        k = child
    keys[k] = key
    items[k] = item


@inner
def _flip(pred, edge, x, y, cx, j, r):
    """Match along the path of predecessors that ends in column `j` and starts in row `r`."""
    while j >= 0:
        i = np.int64(pred[j])
        y[j] = i
        cx[i] = edge[j]
        j, x[i] = x[i], j
        if i == r:
            break


@inner
def _shortest_path(ptr, col, val, v, y, cx, r, gate, dist, pred, edge, touched, settled, keys, items):
    """Search from row `r` until no sink can be nearer than the best one found.

    Returns (its distance, its column or -1, the row that would rather pay the gate, row scans, columns touched,
    columns settled).
    """
    size = 0
    scans = 0
    n_touched = 0
    n_settled = 0
    found = -1
    best = gate
    last = r
    i = r
    shift = 0.0
    level = -np.inf
    while True:
        scans += 1
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            # Rounding must not lower a settled distance: it would close a loop of predecessors.
            t = max((val[e] - v[j]) + shift, level)
            if t < dist[j] and t < best:
                if dist[j] == np.inf:
                    touched[n_touched] = j
                    n_touched += 1
                dist[j] = t
                pred[j] = i
                edge[j] = val[e]
                if y[j] < 0:
                    best = t
                    found = j
                else:
                    _push(keys, items, size, t, j)
                    size += 1
        i = -1
        while size > 0:
            key = keys[0]
            j = np.int64(items[0])
            if key >= best:
                break
            _drop_first(keys, items, size)
            size -= 1
            if key == dist[j]:
                level = key
                i = y[j]
                break
        if i < 0:
            return best, found, last, scans, n_touched, n_settled
        settled[n_settled] = j
        n_settled += 1
        shift = level - (cx[i] - v[j])
        if gate + shift < best:
            best = gate + shift
            last = i
            found = -1


@kernel
def search_core(ptr, col, val, v, x, y, cx, rows, start, stop, gate, quota):
    """Augment along shortest paths of the core from the free rows ``rows[start:stop]``.

    Dijkstra with a binary heap, pruned at the best sink found: a free column, or a row that would rather pay the gate.
    Returns (next position, row scans, row without a path or -1), early once `quota` scans are exceeded.
    """
    m = v.size
    dist = np.empty(m)
    for j in range(m):
        dist[j] = np.inf
    pred = np.empty(m, np.int32)
    edge = np.empty(m)
    touched = np.empty(m, np.int64)
    settled = np.empty(m, np.int64)
    room = col.size + 1
    keys = np.empty(room)
    items = np.empty(room, np.int32)
    scans = 0
    for k in range(start, stop):
        r = rows[k]
        best, j, last, seen, n_touched, n_settled = _shortest_path(
            ptr, col, val, v, y, cx, r, gate, dist, pred, edge, touched, settled, keys, items
        )
        scans += seen
        if best == np.inf:
            return k, scans, r
        for q in range(n_settled):
            v[settled[q]] += min(dist[settled[q]] - best, 0.0)
        if j < 0:
            j = x[last]
            x[last] = -1
        _flip(pred, edge, x, y, cx, j, r)
        for q in range(n_touched):
            dist[touched[q]] = np.inf
        if scans > quota:
            return k + 1, scans, -1
    return stop, scans, -1
