"""Graphs with protected groups: the modified stochastic block model and two social graphs shipped with the package."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check
from lemmata_core.rng import generator

# Multiples of q: same cluster and group, same cluster only, same group only, neither.
PAPER_RATIOS = (20.0, 5.0, 5.0, 1.0)
_FILES = {
    "lastfm_asia": ("lastfm_asia", "country"),
    "deezer_europe": ("deezer_gendered", "inferred gender"),
}


@dataclass(frozen=True)
class SBMResult:
    """A graph drawn from the block model.

    Attributes
    ----------
    affinity : csr_array of float64, shape (n, n)
    labels : ndarray of int64, shape (n,)
        Planted clusters.
    groups : ndarray of int64, shape (n,)
    """

    affinity: Any
    labels: np.ndarray
    groups: np.ndarray


@dataclass(frozen=True)
class GraphDataset:
    """A graph shipped with the package.

    Attributes
    ----------
    affinity : csr_array of float64, shape (n, n)
    groups : ndarray of int64, shape (n,)
    attribute_name : str
    """

    affinity: Any
    groups: np.ndarray
    attribute_name: str


def modified_sbm(
    n: int,
    n_groups: int,
    n_clusters: int,
    *,
    probs: Sequence[float] | None = None,
    scale: str | float = "paper",
    rng: Any = None,
) -> SBMResult:
    """Draw a graph with planted clusters of equal proportions of each group.

    Parameters
    ----------
    n : int
        Nodes; blocks (cluster, group) differ by at most one node when it is not a multiple.
    n_groups, n_clusters : int
    probs : sequence of 4 floats, optional
        Edge probabilities of two nodes of the same cluster and group, the same cluster only, the same group only,
        and neither. Overrides `scale`.
    scale : "paper" or float
        "paper": 20q, 5q, 5q, q with ``q = (log n / n)^(2/3)`` as in the reference implementation's experiment; a
        number: the same ratios at that mean degree.
    rng : numpy.random.Generator, int or None

    Returns
    -------
    SBMResult

    Notes
    -----
    O(edges) time and memory: the gaps between edges of a block pair are geometric. Source of the model: arXiv
    1901.08668, section 4.
    """
    check.positive_int(n_groups, "n_groups")
    check.positive_int(n_clusters, "n_clusters")
    check.positive_int(n, "n", minimum=n_groups * n_clusters)
    random = generator(rng)
    blocks = n_groups * n_clusters
    block = np.sort(np.arange(n) % blocks)
    labels, groups = block // n_groups, block % n_groups
    p = _probabilities(n, n_groups, n_clusters, probs, scale)
    start = np.searchsorted(block, np.arange(blocks + 1))
    rows, cols = [], []
    for a in range(blocks):
        for b in range(a, blocks):
            same_cluster, same_group = a // n_groups == b // n_groups, a % n_groups == b % n_groups
            prob = p[0] if same_cluster and same_group else p[1] if same_cluster else p[2] if same_group else p[3]
            height, width = start[a + 1] - start[a], start[b + 1] - start[b]
            hit = _bernoulli_hits(int(height * width), prob, random)
            i, j = start[a] + hit // width, start[b] + hit % width
            if a == b:
                i, j = i[i < j], j[i < j]
            rows.append(i)
            cols.append(j)
    i, j = np.concatenate(rows), np.concatenate(cols)
    return SBMResult(_symmetric(i, j, n), labels, groups)


def _probabilities(
    n: int, n_groups: int, n_clusters: int, probs: Sequence[float] | None, scale: str | float
) -> tuple[float, ...]:
    if probs is not None:
        p = tuple(float(v) for v in probs)
        if len(p) != 4 or not all(0 <= v <= 1 for v in p):
            raise InvalidInput.argument("probs", expected="4 probabilities", got=probs)
        return p
    if isinstance(scale, str):
        check.one_of(scale, "scale", ("paper",))
        q = (math.log(n) / n) ** (2 / 3)
    else:
        degree = check.in_range(scale, "scale", 0, n, low_open=True)
        h, k = n_groups, n_clusters
        a, c, b, d = PAPER_RATIOS
        q = degree / (n * (a + c * (h - 1) + b * (k - 1) + d * (h - 1) * (k - 1)) / (h * k))
    return tuple(min(1.0, r * q) for r in PAPER_RATIOS)


def _bernoulli_hits(cells: int, p: float, random: np.random.Generator) -> np.ndarray:
    """Positions of the successes of `cells` independent trials, sorted."""
    if p <= 0 or cells == 0:
        return np.zeros(0, dtype=np.int64)
    if p >= 1:
        return np.arange(cells, dtype=np.int64)
    found: list[np.ndarray] = []
    last = -1
    while last < cells:
        left = (cells - last) * p
        gaps = random.geometric(p, size=int(left + 4 * math.sqrt(left) + 16))
        positions = last + np.cumsum(gaps)
        found.append(positions)
        last = int(positions[-1])
    every = np.concatenate(found)
    return every[every < cells]


def _symmetric(i: np.ndarray, j: np.ndarray, n: int) -> Any:
    """Unweighted symmetric CSR from each edge once, duplicates merged."""
    both = sp.coo_array((np.ones(2 * i.size), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n)).tocsr()
    both.sum_duplicates()
    both.data[:] = 1.0
    return both


def load_graph(name: str) -> GraphDataset:
    """A social graph with a protected attribute, without network access.

    Parameters
    ----------
    name : {"lastfm_asia", "deezer_europe"}
        LastFM Asia: 7,624 users, 27,806 mutual follows, country (18). Deezer Europe: 28,281 users, 92,752 mutual
        follows, gender (2) **inferred by the collectors from first names**: a noisy label, to be named as such
        wherever a figure uses it.

    Returns
    -------
    GraphDataset

    Notes
    -----
    Source: B. Rozemberczki and R. Sarkar, "Characteristic Functions on Graphs" (CIKM 2020, arXiv 2005.07959); MIT
    licence, see ``data/SOURCE.md`` in the package.
    """
    check.one_of(name, "name", tuple(_FILES))
    stem, attribute = _FILES[name]
    edges = _read_pairs(f"{stem}_edges.csv.gz")
    target = _read_pairs(f"{stem}_target.csv.gz")
    groups = np.empty(target.shape[0], dtype=np.int64)
    groups[target[:, 0]] = target[:, 1]
    loops = edges[:, 0] == edges[:, 1]
    i, j = edges[~loops, 0], edges[~loops, 1]
    return GraphDataset(_symmetric(i, j, groups.size), groups, attribute)


def _read_pairs(file: str) -> np.ndarray:
    packed = resources.files("riemann_fair").joinpath("data", file).read_bytes()
    lines = gzip.decompress(packed).split(b"\n", 1)[1]
    return np.array(lines.replace(b"\n", b",").rstrip(b",").split(b","), dtype=np.int64).reshape(-1, 2)
