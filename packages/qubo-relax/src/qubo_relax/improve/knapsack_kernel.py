"""The compiled rounds of `qubo_relax.improve.knapsack`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NOISE = 0.2
MIX = 0.3
MOST_DROPS = 3


@njit(cache=True)
def _random(state: Any) -> float:
    r = state[0]
    r ^= r << np.uint64(13)
    r ^= r >> np.uint64(7)
    r ^= r << np.uint64(17)
    state[0] = r
    return np.float64(r >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True)
def _put(W: Any, room: Any, x: Any, i: int, inside: bool) -> None:
    x[i] = inside
    for k in range(room.size):
        room[k] += -W[i, k] if inside else W[i, k]


@njit(cache=True)
def _fits(W: Any, room: Any, i: int) -> bool:
    for k in range(room.size):
        if W[i, k] > room[k]:
            return False
    return True


@njit(cache=True)
def _fits_for(W: Any, room: Any, i: int, out: int) -> bool:
    for k in range(room.size):
        if W[i, k] > room[k] + W[out, k]:
            return False
    return True


@njit(cache=True)
def _fill(values: Any, W: Any, room: Any, order: Any, x: Any) -> None:
    for i in order:
        if not x[i] and values[i] > 0 and _fits(W, room, i):
            _put(W, room, x, i, True)


@njit(cache=True)
def _swaps(values: Any, W: Any, room: Any, x: Any, falling: Any) -> None:
    """One out, one in, best gain first, while there is a gain; `falling` are the items by falling value."""
    n = values.size
    while True:
        gain, out, new = 1e-12 * abs(values[falling[0]]), -1, -1
        for p in range(n - 1, -1, -1):
            i = falling[p]
            if not x[i]:
                continue
            for q in range(p):
                j = falling[q]
                if values[j] - values[i] <= gain:
                    break
                if not x[j] and _fits_for(W, room, j, i):
                    gain, out, new = values[j] - values[i], i, j
                    break
        if out < 0:
            return
        _put(W, room, x, out, False)
        _put(W, room, x, new, True)


@njit(cache=True)
def _order(values: Any, W: Any, capacity: Any, prices: Any, state: Any, key: Any) -> Any:
    """Items by falling utility, the prices of the rows and the utilities disturbed.

    Noise on the prices moves all items that are heavy in a row together, which noise on the items cannot.
    """
    n, d = W.shape
    total = 0.0
    for k in range(d):
        total += prices[k] * capacity[k]
    mix = MIX * _random(state)
    mixed = np.empty(d)
    for k in range(d):
        mixed[k] = (1.0 - mix) * prices[k] + mix * 2.0 * _random(state) * total / (d * capacity[k])
    for i in range(n):
        cost = 1e-300 + 1e-12 * abs(values[i])
        for k in range(d):
            cost += mixed[k] * W[i, k]
        key[i] = -values[i] / cost * (1.0 + NOISE * (_random(state) - 0.5))
    return np.argsort(key)


@njit(cache=True)
def _disturb(values: Any, W: Any, capacity: Any, order: Any, room: Any, x: Any, state: Any) -> None:
    """Force a random item in, drop those of least utility until all fits, then drop a few at random."""
    n = values.size
    first = int(_random(state) * n)
    for a in range(n):
        i = (first + a) % n
        if x[i] or values[i] <= 0 or not _fits(W, capacity, i):
            continue
        _put(W, room, x, i, True)
        for p in range(n - 1, -1, -1):
            if room.min() >= 0:
                break
            if x[order[p]] and order[p] != i:
                _put(W, room, x, order[p], False)
        break
    drops = int(_random(state) * (MOST_DROPS + 1))
    for _ in range(2 * n):
        if drops == 0:
            break
        pick = int(_random(state) * n)
        if x[pick]:
            _put(W, room, x, pick, False)
            drops -= 1


@njit(cache=True)
def refill_rounds(
    values: Any, W: Any, capacity: Any, prices: Any, x: Any, best: Any, state: Any, rounds: int, hot: float, cold: float
) -> None:
    """Disturb, refill, swap, refill; Metropolis on the value, from temperature `hot` down to `cold`.

    `x` is where the walk starts and ends, `best` the best selection met; both fit `capacity`.
    """
    n = values.size
    falling = np.argsort(-values)
    room = capacity.copy()
    value, top = 0.0, 0.0
    for i in range(n):
        if x[i]:
            value += values[i]
            _put(W, room, x, i, True)
        if best[i]:
            top += values[i]
    trial, left, key = x.copy(), room.copy(), np.empty(n)
    for t in range(rounds):
        trial[:] = x
        left[:] = room
        order = _order(values, W, capacity, prices, state, key)
        _disturb(values, W, capacity, order, left, trial, state)
        _fill(values, W, left, order, trial)
        _swaps(values, W, left, trial, falling)
        _fill(values, W, left, order, trial)
        total = 0.0
        for i in range(n):
            if trial[i]:
                total += values[i]
        temperature = hot * (cold / hot) ** (t / rounds)
        if total >= value + temperature * np.log(_random(state) + 1e-300):
            x[:] = trial
            room[:] = left
            value = total
            if total > top * (1.0 + 1e-12):
                top = total
                best[:] = trial
