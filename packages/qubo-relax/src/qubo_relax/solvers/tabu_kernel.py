"""The compiled loop of `qubo_relax.solvers.tabu`, apart so that nobody else pays for its compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def tabu_flips(
    indptr: Any,
    indices: Any,
    data: Any,
    gains: Any,
    x: Any,
    best: Any,
    level: Any,
    until: Any,
    state: Any,
    tenure: int,
    start: int,
    count: int,
) -> None:
    """`count` flips from step `start` on; ``level`` holds the energy now and the best, relative to the start."""
    n = x.size
    r = state[0]
    for t in range(start, start + count):
        pick, least = -1, np.inf
        for i in range(n):
            d = gains[i]
            allowed = until[i] <= t or level[0] + d < level[1] - 1e-9
            if allowed and d < least:
                pick, least = i, d
        if pick < 0:
            continue
        step = 1.0 - 2.0 * x[pick]
        for p in range(indptr[pick], indptr[pick + 1]):
            j = indices[p]
            gains[j] += data[p] * step * (1.0 - 2.0 * x[j])
        gains[pick] = -gains[pick]
        x[pick] = 1 - x[pick]
        level[0] += least
        r ^= r << np.uint64(13)
        r ^= r >> np.uint64(7)
        r ^= r << np.uint64(17)
        until[pick] = t + 1 + tenure + np.int64(r % np.uint64(10))
        if level[0] < level[1] - 1e-12:
            level[1] = level[0]
            best[:] = x
    state[0] = r
