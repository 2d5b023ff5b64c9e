"""Shortening tours: 2-opt and Or-opt over near neighbours, with local double-bridge kicks."""

from __future__ import annotations

import time
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import rng as rngs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

NEIGHBOURS = 12
KICKS_PER_CITY = 200
BRUTE_FORCE = 8


def improve_tour(d: Floats, tour: Ints, rng: Any = 0, time_limit: float | None = None) -> Ints:
    """A tour no longer than `tour`, starting at city 0.

    Parameters
    ----------
    d : ndarray of shape (n, n)
        Distances >= 0; where they are not symmetric the search runs on a symmetric copy with 2 n cities.
    tour : ndarray of int of shape (n,)
    rng : Generator, int or None
    time_limit : float, optional
        Seconds; without it 200 kicks a city.

    Returns
    -------
    ndarray of int64 of shape (n,)
    """
    n = len(d)
    start = np.roll(tour, -int(np.argmin(tour))) if n else tour
    if n <= 3 and np.array_equal(d, d.T):
        return start
    if n <= BRUTE_FORCE:
        found = _brute_force(d)
    elif np.array_equal(d, d.T):
        found = _search(np.ascontiguousarray(d), start.copy(), rng, time_limit)
    else:
        found = _asymmetric(d, start, rng, time_limit)
    found = np.roll(found, -int(np.argmin(found)))
    return found if tour_length(d, found) < tour_length(d, start) else start


def tour_length(d: Floats, tour: Ints) -> float:
    """Length of the closed tour."""
    return float(d[tour, np.roll(tour, -1)].sum())


def _brute_force(d: Floats) -> Ints:
    n = len(d)
    rest = np.array(list(permutations(range(1, n))), dtype=np.int64).reshape(-1, n - 1)
    tours = np.concatenate([np.zeros((len(rest), 1), dtype=np.int64), rest], axis=1)
    return np.asarray(tours[int(np.argmin(d[tours, np.roll(tours, -1, axis=1)].sum(axis=1)))])


def _near(d: Floats) -> Ints:
    apart = d + np.diag(np.full(len(d), np.inf))
    k = min(NEIGHBOURS, len(d) - 1)
    part = np.argpartition(apart, k - 1, axis=1)[:, :k]
    return np.take_along_axis(part, np.argsort(np.take_along_axis(apart, part, axis=1), axis=1, kind="stable"), axis=1)


def _search(d: Floats, tour: Ints, rng: Any, time_limit: float | None) -> Ints:
    from qubo_relax.improve.tour_kernel import local_search

    state = np.array([rngs.generator(rng).integers(1, 2**63)], dtype=np.uint64)
    near = _near(d)
    if time_limit is None:
        local_search(d, near, tour, KICKS_PER_CITY * len(d), state, True)
        return tour
    deadline = time.monotonic() + time_limit
    local_search(d, near, tour, 0, state, True)
    # The limit is an upper bound: the default effort is reached long before it on small instances.
    left = KICKS_PER_CITY * len(d) * max(1, round(4 * time_limit))
    while left > 0 and time.monotonic() < deadline:
        part = min(left, 2000)
        local_search(d, near, tour, part, state, False)
        left -= part
    return tour


def _asymmetric(d: Floats, tour: Ints, rng: Any, time_limit: float | None) -> Ints:
    """In-copy i and out-copy n + i, tied by a link cheaper than anything; out(i) - in(j) costs d_ij."""
    n = len(d)
    top = float(d.max()) or 1.0
    S = np.full((2 * n, 2 * n), 6 * top)
    S[n:, :n] = d
    S[:n, n:] = d.T
    link = np.arange(n)
    S[link, n + link] = S[n + link, link] = -2 * top
    np.fill_diagonal(S, 0.0)
    best = tour
    for stream in rngs.spawn(rng, 4):
        start = np.stack([best, best + n], axis=1).ravel()
        found = _search(S, start.copy(), stream, None if time_limit is None else time_limit / 4)
        out = _unfold(found, n)
        if out is not None and tour_length(d, out) < tour_length(d, best):
            best = out
    return best


def _unfold(tour: Ints, n: int) -> Ints | None:
    """The directed tour of a symmetric one whose links all survived, else None."""
    for t in (tour, tour[::-1]):
        t = np.roll(t, -int(np.argmax(t < n)))
        for shift in (0, 1):
            u = np.roll(t, -shift)
            first, second = u[0::2], u[1::2]
            if (first < n).all() and np.array_equal(second, first + n):
                return first
    return None
