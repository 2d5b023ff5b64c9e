"""Or-opt and 2-opt on neighbour lists with kicks, compiled. Every change is a reversal, so it can be undone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _reverse(tour: Any, pos: Any, i: int, j: int) -> None:
    """Reverse the cyclic stretch of positions i..j, or, when that is longer, its complement: the same tour."""
    n = tour.size
    inner = (j - i + n) % n + 1
    if 2 * inner > n:
        i, j = (j + 1) % n, (i - 1 + n) % n
        inner = n - inner
    for _ in range(inner // 2):
        a, b = tour[i], tour[j]
        tour[i], tour[j] = b, a
        pos[b], pos[a] = i, j
        i += 1
        if i == n:
            i = 0
        j -= 1
        if j < 0:
            j = n - 1


@njit(cache=True)
def _exchange(tour: Any, pos: Any, log: Any, count: int, x: int, y: int, z: int, w: int) -> int:
    """Edges xy and zw become xz and yw, whichever way the tour runs; y follows x as w follows z, or precedes it."""
    n = tour.size
    if tour[(pos[x] + 1) % n] == y:
        i, j = pos[y], pos[z]
    else:
        i, j = pos[x], pos[w]
        # Reading backwards: ... y x ... w z ...
        if tour[(pos[y] + 1) % n] != x:
            return count
    _reverse(tour, pos, i, j)
    if count < log.shape[0]:
        log[count, 0], log[count, 1] = i, j
    return count + 1


@njit(cache=True)
def _enqueue(queue: Any, queued: Any, tail: int, cities: Any) -> int:
    """Append the cities that are not waiting already; the new end of the cyclic queue."""
    for city in cities:
        if not queued[city]:
            queued[city] = True
            queue[tail % queue.size] = city
            tail += 1
    return tail


@njit(cache=True)
def _improve_city(
    d: Any, near: Any, tour: Any, pos: Any, log: Any, count: int, a: int, queue: Any, queued: Any, tail: int
) -> Any:
    """The first improving move at city a: ``(gain, count, tail)``, gain 0 for none. Touched cities are queued."""
    n, K = near.shape
    for way in range(2):
        step = 1 if way == 0 else n - 1
        b = tour[(pos[a] + step) % n]
        dab = d[a, b]
        for k in range(K):
            c = near[a, k]
            if d[a, c] >= dab:
                break
            e = tour[(pos[c] + step) % n]
            delta = d[a, c] + d[b, e] - dab - d[c, e]
            if delta < -1e-9 * dab:
                count = _exchange(tour, pos, log, count, a, b, c, e)
                tail = _enqueue(queue, queued, tail, (a, b, c, e))
                return -delta, count, tail
        s2 = a
        p = tour[(pos[a] + n - step) % n]
        for length in range(1, 4):
            if length > 1:
                s2 = tour[(pos[s2] + step) % n]
            q = tour[(pos[s2] + step) % n]
            if q == p or length > n - 3:
                break
            saved = d[p, a] + d[s2, q] - d[p, q]
            for k in range(K):
                c = near[a, k]
                if d[a, c] >= saved:
                    break
                if (step * (pos[c] - pos[a]) if step == 1 else pos[a] - pos[c]) % n < length:
                    continue
                for side in range(2):
                    # side 0: c - a .. s2 - e with e behind c; side 1: e - s2 .. a - c with e before c.
                    if (side == 0 and c == p) or (side == 1 and c == q):
                        continue
                    e = tour[(pos[c] + (step if side == 0 else n - step)) % n]
                    delta = d[c, a] + d[s2, e] - d[c, e] - saved
                    if delta < -1e-9 * saved:
                        first, second = (c, e) if side == 0 else (e, c)
                        count = _exchange(tour, pos, log, count, p, a, first, second)
                        if q != first:
                            count = _exchange(tour, pos, log, count, p, first, q, s2)
                        if side == 0:
                            count = _exchange(tour, pos, log, count, first, s2, a, second)
                        tail = _enqueue(queue, queued, tail, (a, s2, p, q, c, e))
                        return -delta, count, tail
    return 0.0, count, tail


@njit(cache=True)
def _descend(
    d: Any, near: Any, tour: Any, pos: Any, log: Any, count: int, queue: Any, queued: Any, head: int, tail: int
) -> Any:
    gain = 0.0
    size = queue.size
    while head < tail:
        a = queue[head % size]
        head += 1
        queued[a] = False
        while True:
            g, count, tail = _improve_city(d, near, tour, pos, log, count, a, queue, queued, tail)
            if g <= 0.0:
                break
            gain += g
    return gain, count


@njit(cache=True)
def local_search(d: Any, near: Any, tour: Any, kicks: int, state: Any, descend_first: bool) -> float:
    """Descend (unless that was done), then kick and repair `kicks` times; `tour` changes in place. The total gain."""
    n = tour.size
    pos = np.empty(n, dtype=np.int64)
    for i in range(n):
        pos[tour[i]] = i
    queue, queued = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    log = np.empty((max(1000, 10 * n), 2), dtype=np.int64)
    total = 0.0
    if descend_first:
        for i in range(n):
            queue[i] = tour[i]
            queued[tour[i]] = True
        total, _ = _descend(d, near, tour, pos, log, log.shape[0], queue, queued, 0, n)
    widest = max(1, min(50, n - 1) // 3)
    r = state[0]
    for _ in range(kicks):
        r ^= r << np.uint64(13)
        r ^= r >> np.uint64(7)
        r ^= r << np.uint64(17)
        at = np.int64((r >> np.uint64(33)) % np.uint64(n))
        l1 = 1 + np.int64((r >> np.uint64(13)) % np.uint64(widest))
        l2 = 1 + np.int64((r >> np.uint64(3)) % np.uint64(widest))
        # p | A | B | q becomes p | B | A | q: the local double bridge, as three reversals.
        i, m, j = (at + 1) % n, (at + l1) % n, (at + l1 + l2) % n
        p, a1, a2, b1, b2, q = tour[at], tour[i], tour[m], tour[(m + 1) % n], tour[j], tour[(j + 1) % n]
        delta = d[p, b1] + d[b2, a1] + d[a2, q] - d[p, a1] - d[a2, b1] - d[b2, q]
        count = 0
        count = _exchange(tour, pos, log, count, p, a1, b2, q)
        if b1 != b2:
            count = _exchange(tour, pos, log, count, p, b2, b1, a2)
        if a1 != a2:
            count = _exchange(tour, pos, log, count, b2, a2, a1, q)
        tail = _enqueue(queue, queued, 0, (p, a1, a2, b1, b2, q))
        gain, count = _descend(d, near, tour, pos, log, count, queue, queued, 0, tail)
        if gain - delta >= -1e-12 or count > log.shape[0]:
            total += gain - delta
        else:
            for k in range(count - 1, -1, -1):
                _reverse(tour, pos, log[k, 0], log[k, 1])
    state[0] = r
    return total
