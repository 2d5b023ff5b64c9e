"""Routing on a backbone whose delays change all the time, under a price limit with a hidden safe path."""

from __future__ import annotations

import json
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
from lemmata_core.check import one_of, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import FlowPolytope
from oco_anytime.environments.base import LinearEnvironment

_KM_PER_MS = 200.0
_EARTH_KM = 6371.0
#: a round is five minutes
_DAY = 288
_ENDS = {"abilene": ("Seattle", "New York"), "nsfnet": ("Palo Alto", "Princeton")}


class OnlineShortestPath(LinearEnvironment):
    """Split one unit of traffic over the routes between two cities.

    Cost: the delay of the split, in units of the mean link delay: great-circle distance at 200 km a millisecond, times
    a daily wave, times AR(1) congestion. Constraint: the price of the split is at most 1.1 times that of a hidden safe
    path, which avoids the links of the shortest path wherever the network allows.

    Parameters
    ----------
    network : {"abilene", "nsfnet"}
        The Internet2 backbone of 2004-2007 (11 nodes, 28 arcs) or the NSFNET backbone of 1991 (14 nodes, 42 arcs).
    rounds : int
        T.
    rng : int, SeedSequence or Generator

    Attributes
    ----------
    cities : list of str
    safe_path : list of int
        Arc indices of the hidden path; `comparator` is its flow.
    """

    def __init__(self, network: str = "abilene", rounds: int = 5000, rng: Any = 0) -> None:
        one_of(network, "network", tuple(_ENDS))
        rounds = positive_int(rounds, "rounds", minimum=0)
        rng = generator(rng)
        text = resources.files("oco_anytime").joinpath(f"data/{network}.json").read_text("utf-8")
        data = json.loads(text)
        self.network, self.cities = network, [name for name, _, _ in data["nodes"]]
        arcs = [(a, b) for a, b in data["links"]] + [(b, a) for a, b in data["links"]]
        km = np.array([_distance(data["nodes"][a], data["nodes"][b]) for a, b in arcs])
        base = km / _KM_PER_MS
        base /= base.mean()
        source, sink = (self.cities.index(c) for c in _ENDS[network])
        domain = FlowPolytope(arcs, source, sink)
        shortest = _dijkstra(arcs, base, source, sink)
        # links, not arcs: the safe path shall not use the shortest one's in either direction
        m = len(arcs) // 2
        taken = {a % m for a in shortest}
        heavy = np.where([a % m in taken for a in range(2 * m)], 100.0, 1.0)
        self.safe_path = _dijkstra(arcs, base * heavy, source, sink)
        safe = np.zeros(domain.dim)
        safe[self.safe_path] = 1.0
        costs = base * _wave(rng, rounds, domain.dim) * _congestion(rng, rounds, domain.dim)
        prices = 1.0 + rng.random((rounds, domain.dim)) + 2.0 * rng.random(domain.dim)
        prices[:, self.safe_path] = 1.0 + 0.5 * rng.random((rounds, len(self.safe_path)))
        super().__init__(domain, costs, prices, 1.1 * (prices @ safe))
        self.comparator = safe


def _distance(a: list[Any], b: list[Any]) -> float:
    """Great-circle kilometres between (name, latitude, longitude) and another."""
    (la, oa), (lb, ob) = np.radians(a[1:]), np.radians(b[1:])
    h = np.sin((lb - la) / 2) ** 2 + np.cos(la) * np.cos(lb) * np.sin((ob - oa) / 2) ** 2
    return float(2 * _EARTH_KM * np.arcsin(np.sqrt(h)))


def _wave(rng: np.random.Generator, rounds: int, arcs: int) -> np.ndarray:
    phase = rng.random(arcs)
    return 1.0 + 0.3 * np.sin(2 * np.pi * (np.arange(rounds)[:, None] / _DAY + phase))


def _congestion(rng: np.random.Generator, rounds: int, arcs: int) -> np.ndarray:
    """Exp of an AR(1) process with coefficient 0.98 and stationary deviation 0.3."""
    level: np.ndarray = 0.3 * np.sqrt(1 - 0.98**2) * rng.standard_normal((rounds, arcs))
    for before, now in pairwise(level):
        now += 0.98 * before
    return np.asarray(np.exp(level))


def _dijkstra(arcs: list[tuple[int, int]], length: np.ndarray, source: int, sink: int) -> list[int]:
    from scipy import sparse
    from scipy.sparse.csgraph import dijkstra

    n = 1 + max(max(arc) for arc in arcs)
    tail, head = np.array(arcs, dtype=np.int32).T  # csgraph takes 64-bit indices from scipy 1.15 on
    graph = sparse.csr_array((length, (tail, head)), shape=(n, n))
    _, before = dijkstra(graph, indices=source, return_predecessors=True)
    nodes = [sink]
    while nodes[-1] != source:
        nodes.append(int(before[nodes[-1]]))
    return [arcs.index(arc) for arc in pairwise(nodes[::-1])]
