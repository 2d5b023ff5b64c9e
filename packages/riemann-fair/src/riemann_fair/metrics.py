"""How fair and how good a clustering is: balance, proportions, normalised cut, error against planted labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check

from riemann_fair.groups import Groups, read_groups
from riemann_fair.laplacian import check_affinity

NOISE = -1


def _labels(labels: Any, n: int | None = None, name: str = "labels") -> tuple[np.ndarray, np.ndarray]:
    """Clusters in sorted order and the index of each node's cluster (-1: noise)."""
    given = check.array(labels, name, ndim=1, dtype=np.int64, shape=None if n is None else (n,))
    clusters = np.unique(given[given != NOISE])
    if clusters.size == 0:
        raise InvalidInput.argument(name, expected="at least one cluster", got="noise only or nothing")
    index = np.searchsorted(clusters, given)
    index[given == NOISE] = NOISE
    return clusters, index


def group_counts(labels: Any, groups: Any) -> tuple[np.ndarray, list[np.ndarray], Groups]:
    """Clusters, one table (clusters, groups) of counts for each attribute, and the groups read.

    Soft memberships count as expected numbers; nodes with a missing label and noise (-1) do not count.
    """
    clusters, index = _labels(labels)
    table = groups if isinstance(groups, Groups) else read_groups(groups, index.size, missing="ignore")
    if table.n != index.size:
        raise InvalidInput.argument("groups", expected=f"{index.size} labels", got=f"{table.n}")
    inside = index >= 0
    if table.soft is not None:
        counts = np.zeros((clusters.size, table.soft.shape[1]))
        np.add.at(counts, index[inside], table.soft[inside])
        return clusters, [counts], table
    tables = []
    for a, names in enumerate(table.labels):
        code = table.codes[:, a]
        known = inside & (code >= 0)
        flat = np.bincount(index[known] * len(names) + code[known], minlength=clusters.size * len(names))
        tables.append(flat.reshape(clusters.size, len(names)))
    return clusters, tables, table


def balance_of_counts(counts: np.ndarray) -> np.ndarray:
    """Smallest over largest count of each row of a table (clusters, groups); 0 where a group is absent."""
    top = counts.max(axis=1)
    return np.asarray(counts.min(axis=1) / np.where(top > 0, top, 1))


def balance(labels: Any, groups: Any) -> np.ndarray:
    """Balance of every cluster: the smallest ratio of two groups' numbers in it (arXiv 1901.08668, section 1).

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        -1 is noise and does not count.
    groups : array-like
        Protected attributes; with several the smallest balance of any of them.

    Returns
    -------
    ndarray of float64, shape (clusters,)
        In [0, 1], in sorted order of the labels; 0 where a group is absent.
    """
    _, tables, _ = group_counts(labels, groups)
    return np.asarray(np.min([balance_of_counts(t) for t in tables], axis=0))


def average_balance(labels: Any, groups: Any) -> float:
    """Mean of `balance` over the clusters."""
    return float(balance(labels, groups).mean())


def proportion_gap(labels: Any, groups: Any) -> float:
    """``max over groups s and clusters c of | |V_s in c| / |c| - p_s |``."""
    _, tables, _ = group_counts(labels, groups)
    return float(max(np.abs(gaps(t)).max() for t in tables))


def gaps(counts: np.ndarray) -> np.ndarray:
    """Share of each group in each cluster less its share in the population, (clusters, groups)."""
    sizes = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(sizes > 0, sizes, 1) - counts.sum(axis=0) / counts.sum())


def normalized_cut(affinity: Any, labels: Any) -> float:
    """``sum over clusters c of (vol(c) - assoc(c)) / vol(c)``, volumes by row sums.

    Noise (-1) is in no cluster but its edges count as cut; a cluster without edges adds 0.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
    labels : array-like of int, shape (n,)

    Returns
    -------
    float
        In [0, clusters].
    """
    W = check_affinity(affinity)
    clusters, index = _labels(labels, W.shape[0])
    inside = index >= 0
    member = sp.csr_array(
        (np.ones(inside.sum()), (np.flatnonzero(inside), index[inside])), shape=(W.shape[0], clusters.size)
    )
    spread = W @ member
    spread = spread.toarray() if sp.issparse(spread) else np.asarray(spread)
    volume = member.T @ np.asarray(W.sum(axis=1)).ravel()
    assoc = np.bincount(index[inside], weights=spread[np.flatnonzero(inside), index[inside]], minlength=clusters.size)
    positive = volume > 0
    return float(((volume - assoc)[positive] / volume[positive]).sum())


def clustering_error(labels: Any, planted: Any) -> float:
    """Share of nodes outside the best one-to-one matching of clusters to planted ones (Hungarian method)."""
    from scipy.optimize import linear_sum_assignment

    found, index = _labels(labels)
    truth, other = _labels(planted, index.size, "planted")
    both = (index >= 0) & (other >= 0)
    table = np.bincount(index[both] * truth.size + other[both], minlength=found.size * truth.size)
    table = table.reshape(found.size, truth.size)
    rows, cols = linear_sum_assignment(table, maximize=True)
    return float(1 - table[rows, cols].sum() / index.size)
