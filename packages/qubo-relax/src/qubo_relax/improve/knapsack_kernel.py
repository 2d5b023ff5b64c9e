"""The compiled rounds of `qubo_relax.improve.knapsack`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _fits(W: Any, room: Any, i: int) -> bool:
    for r in range(room.size):
        if W[i, r] > room[r]:
            return False
    return True


@njit(cache=True)
def _fill(values: Any, W: Any, room: Any, order: Any, x: Any) -> None:
    for i in order:
        if not x[i] and values[i] > 0 and _fits(W, room, i):
            x[i] = True
            for r in range(room.size):
                room[r] -= W[i, r]


@njit(cache=True)
def _swaps(values: Any, W: Any, room: Any, x: Any) -> None:
    """One out, one in, best gain first, while there is a gain."""
    n, d = W.shape
    for _ in range(4 * n):
        gain, out, new = 1e-12, -1, -1
        for i in range(n):
            if x[i]:
                for j in range(n):
                    if not x[j] and values[j] - values[i] > gain:
                        fits = True
                        for r in range(d):
                            if W[j, r] > room[r] + W[i, r]:
                                fits = False
                                break
                        if fits:
                            gain, out, new = values[j] - values[i], i, j
        if out < 0:
            return
        x[out], x[new] = False, True
        for r in range(d):
            room[r] += W[out, r] - W[new, r]


@njit(cache=True)
def refill_rounds(values: Any, W: Any, capacity: Any, utility: Any, x: Any, best: Any, state: Any, rounds: int) -> None:
    """Drop some, refill by noisy utilities, swap; keep what is not worse, now and then what is nearly as good."""
    n, d = W.shape
    r = state[0]
    room = capacity.copy()
    value = 0.0
    for i in range(n):
        if x[i]:
            value += values[i]
            for k in range(d):
                room[k] -= W[i, k]
    top = 0.0
    for i in range(n):
        if best[i]:
            top += values[i]
    key = np.empty(n)
    trial, left = x.copy(), room.copy()
    for t in range(rounds):
        trial[:] = x
        left[:] = room
        if t > 0:
            drops = 1 + np.int64((r >> np.uint64(5)) % np.uint64(max(4, n // 15)))
            for _ in range(drops):
                r ^= r << np.uint64(13)
                r ^= r >> np.uint64(7)
                r ^= r << np.uint64(17)
                pick = np.int64((r >> np.uint64(11)) % np.uint64(n))
                if trial[pick]:
                    trial[pick] = False
                    for k in range(d):
                        left[k] += W[pick, k]
        for i in range(n):
            r ^= r << np.uint64(13)
            r ^= r >> np.uint64(7)
            r ^= r << np.uint64(17)
            noise = (np.float64(r >> np.uint64(11)) / 9007199254740992.0 - 0.5) * 0.3464
            key[i] = -utility[i] * (1.0 + (noise if t > 0 else 0.0))
        _fill(values, W, left, np.argsort(key), trial)
        _swaps(values, W, left, trial)
        total = 0.0
        for i in range(n):
            if trial[i]:
                total += values[i]
        lucky = (r >> np.uint64(20)) % np.uint64(10) == 0 and total >= 0.998 * top
        if total >= value or lucky:
            x[:] = trial
            room[:] = left
            value = total
            if total > top:
                top = total
                best[:] = trial
    state[0] = r
