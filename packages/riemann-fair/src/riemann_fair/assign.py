"""From embedding to labels: k-means, pivoted QR, and exact proportions at the label level."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from lemmata_core import InvalidInput, check

from riemann_fair.groups import Groups, read_groups

# A heap pool that has to grow is copied; doubling a room each time keeps that rare.
LP_LIMIT = 500_000


@dataclass(frozen=True)
class AssignmentResult:
    """An assignment of points to clusters within count bounds.

    Attributes
    ----------
    labels : ndarray of int32, shape (n,)
    cost : float
        Sum of ``cost[i, labels[i]]``; the least possible within the bounds.
    extra_cost : float
        How much more than without bounds.
    n_moves : int
        Points not in their cheapest cluster.
    status : str
        "optimal".
    """

    labels: np.ndarray
    cost: float
    extra_cost: float
    n_moves: int
    status: str


def fair_assign(cost: Any, groups: Any, lower: Any, upper: Any) -> AssignmentResult:
    """The cheapest assignment in which every group has between `lower` and `upper` members in every cluster.

    Parameters
    ----------
    cost : array-like of float64, shape (n, k)
        Cost of putting point i in cluster c, as the squared distance to a centre.
    groups : array-like of shape (n,)
        One attribute; cross several first (``combine="intersect"``).
    lower, upper : int or array-like of int, shape (k,) or (h, k)
        Bounds of every group (in sorted order of its label) in every cluster.

    Returns
    -------
    AssignmentResult

    Raises
    ------
    InvalidInput
        Bounds that no assignment meets, naming the group and the cluster. Bounds are never widened.

    Notes
    -----
    Exact: groups do not interact, and for each the moves follow shortest paths between clusters (the cost is
    M-convex in the cluster sizes). O(moves (k^3 + k log n)).
    """
    C = check.array(cost, "cost", ndim=2)
    if C.shape[1] == 0:
        raise InvalidInput.argument("cost", expected="at least one cluster", got=f"shape {C.shape}")
    table = read_groups(groups, C.shape[0])
    if table.soft is not None or table.codes.shape[1] != 1:
        raise InvalidInput.argument("groups", expected="one attribute of labels", got="several or soft ones")
    h, k = len(table.labels[0]), C.shape[1]
    lo, hi = _bounds(lower, "lower", (h, k)), _bounds(upper, "upper", (h, k))
    _check_bounds(lo, hi, np.bincount(table.codes[:, 0], minlength=h), table.labels[0])
    return assign_groups(np.ascontiguousarray(C), table.codes[:, 0], lo, hi)


def _bounds(values: Any, name: str, shape: tuple[int, int]) -> np.ndarray:
    given = check.array(values, name, ndim=(0, 1, 2), dtype=np.int64)
    try:
        return np.array(np.broadcast_to(given, shape))
    except ValueError as err:
        raise InvalidInput.argument(
            name, expected=f"an integer, {shape[1]} of them (one a cluster) or an array of shape {shape}",
            got=f"shape {given.shape}",
        ) from err  # fmt: skip


def _check_bounds(lo: np.ndarray, hi: np.ndarray, members: np.ndarray, names: tuple[str, ...]) -> None:
    for s, name in enumerate(names):
        for c in range(lo.shape[1]):
            if lo[s, c] < 0 or lo[s, c] > hi[s, c]:
                raise InvalidInput.argument(
                    "lower", expected="0 <= lower <= upper",
                    got=f"[{lo[s, c]}, {hi[s, c]}] for group {name!r} in cluster {c}",
                )  # fmt: skip
        if lo[s].sum() > members[s]:
            c = int(np.argmax(lo[s]))
            raise InvalidInput.argument(
                "lower",
                expected=f"bounds that the {members[s]} members of group {name!r} can meet",
                got=f"{lo[s].sum()} in all, {lo[s, c]} of them in cluster {c}",
            )
        if hi[s].sum() < members[s]:
            c = int(np.argmin(hi[s]))
            raise InvalidInput.argument(
                "upper",
                expected=f"room for the {members[s]} members of group {name!r}",
                got=f"{hi[s].sum()} in all, {hi[s, c]} of it in cluster {c}",
            )


def assign_groups(C: np.ndarray, codes: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> AssignmentResult:
    """`fair_assign` behind the door: checked arrays, one row of bounds for each group code."""
    from riemann_fair.assign_kernel import INFEASIBLE, assign_within_bounds

    nearest = np.argmin(C, axis=1).astype(np.int32)
    labels = nearest.copy()
    for s in range(lo.shape[0]):
        members = np.flatnonzero(codes == s)
        if members.size == 0:
            continue
        part = labels[members]
        whole = members.size == C.shape[0]
        if assign_within_bounds(C if whole else C[members], part, lo[s], hi[s]) == INFEASIBLE:
            raise RuntimeError("feasible bounds were found infeasible: a defect of ours")
        labels[members] = part
    rows = np.arange(C.shape[0])
    total = float(C[rows, labels].sum())
    free = float(C[rows, nearest].sum())
    return AssignmentResult(labels, total, total - free, int((C[rows, labels] > C[rows, nearest]).sum()), "optimal")


def proportional_bounds(sizes: np.ndarray, shares: np.ndarray, balance_tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Count bounds (h, k): the share of each group of each cluster's size, widened by the relative tolerance."""
    exact = np.outer(shares, sizes)
    # 0.1 * 30 must not become 4 by rounding.
    lo = np.floor((1 - balance_tol) * exact + 1e-9)
    hi = np.ceil((1 + balance_tol) * exact - 1e-9)
    return np.maximum(lo, 0).astype(np.int64), hi.astype(np.int64)


def fair_labels(points: np.ndarray, labels: np.ndarray, groups: Groups, balance_tol: float) -> AssignmentResult:
    """Reassign k-means labels so that each group's share of each cluster is within `balance_tol` of its population's.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    labels : ndarray of int, shape (n,)
        k-means labels 0..k-1, no cluster empty.
    groups : Groups
        Missing labels are free of bounds.
    balance_tol : float

    Returns
    -------
    AssignmentResult
        Group s has between ``floor((1 - tol) p_s n_c)`` and ``ceil((1 + tol) p_s n_c)`` members in cluster c, where n_c
        is its size under k-means. Cluster sizes may move inside their band, so a proportion lies in
        ``[p_s (1 - tol)/(1 + tol), p_s (1 + tol)/(1 - tol)]`` up to a point of rounding.
    """
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    centres = np.array([points[labels == c].mean(axis=0) for c in range(k)])
    cost = np.maximum((points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1), 0.0)
    if groups.codes.shape[1] == 1:
        code = groups.codes[:, 0].copy()
        h = len(groups.labels[0])
        members = np.bincount(code[code >= 0], minlength=h)
        known = np.bincount(labels[code >= 0], minlength=k)
        lo, hi = proportional_bounds(known, members / members.sum(), balance_tol)
        if (code < 0).any():
            code[code < 0] = h
            lo = np.vstack([lo, np.zeros(k, dtype=np.int64)])
            hi = np.vstack([hi, np.full(k, code.size)])
        return assign_groups(np.ascontiguousarray(cost), code, lo, hi)
    return _by_linear_program(cost, groups, sizes, labels, balance_tol)


def _by_linear_program(
    cost: np.ndarray, groups: Groups, sizes: np.ndarray, labels: np.ndarray, balance_tol: float
) -> AssignmentResult:
    """Several attributes at once do not split by group: a mixed-integer program, solved by HiGHS."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, k = cost.shape
    if n * k > LP_LIMIT:
        raise InvalidInput.argument(
            "assign_labels",
            expected=f'combine="intersect" for several attributes at this size (n k <= {LP_LIMIT} otherwise)',
            got=f'"fair" with n = {n}, k = {k}',
        )
    blocks, low, high = [sp.kron(sp.eye_array(n), np.ones((1, k)))], [np.ones(n)], [np.ones(n)]
    for a, names in enumerate(groups.labels):
        code = groups.codes[:, a]
        known = code >= 0
        members = np.bincount(code[known], minlength=len(names))
        lo, hi = proportional_bounds(np.bincount(labels[known], minlength=k), members / members.sum(), balance_tol)
        inside = sp.csr_array((np.ones(known.sum()), (code[known], np.flatnonzero(known))), shape=(len(names), n))
        blocks.append(sp.kron(inside, sp.eye_array(k)))
        low.append(lo.ravel())
        high.append(hi.ravel())
    del sizes
    found = milp(
        cost.ravel(),
        integrality=np.ones(n * k),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(sp.csc_array(sp.vstack(blocks)), np.concatenate(low), np.concatenate(high)),
        options={"mip_rel_gap": 1e-6},
    )
    if found.x is None:
        raise InvalidInput.argument(
            "balance_tol", expected="bounds that several attributes can meet at once", got=balance_tol
        )
    chosen = np.argmax(found.x.reshape(n, k), axis=1).astype(np.int32)
    rows, nearest = np.arange(n), np.argmin(cost, axis=1)
    total, free = float(cost[rows, chosen].sum()), float(cost[rows, nearest].sum())
    return AssignmentResult(chosen, total, total - free, int((chosen != nearest).sum()), "optimal")


def cluster_qr(H: np.ndarray) -> np.ndarray:
    """Labels from an orthonormal embedding by column-pivoted QR (Damle, Minden, Ying 2019); no iterations."""
    k = H.shape[1]
    _, _, pivots = scipy.linalg.qr(H.T, pivoting=True, mode="economic")
    U, _, Vt = np.linalg.svd(H[pivots[:k]].T)
    return np.asarray(np.argmax(np.abs(H @ (U @ Vt)), axis=1), dtype=np.int32)


def kmeans_labels(points: np.ndarray, k: int, n_init: int, seed: int, first: np.ndarray) -> np.ndarray:
    """k-means labels of the best of `n_init` starts: the first from the labels `first`, the others by k-means++.

    Rows that coincide can leave fewer than k clusters; then the row farthest from its centre founds a new one.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    best, inertia = first, np.inf
    present = np.unique(first)
    centres = np.array([points[first == c].mean(axis=0) for c in present])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = []
        if present.size == k:
            runs.append(KMeans(k, init=centres, n_init=1, random_state=seed))
        if n_init > len(runs):
            runs.append(KMeans(k, n_init=n_init - len(runs), random_state=seed))
        for run in runs:
            run.fit(points)
            if run.inertia_ < inertia:
                best, inertia = run.labels_, run.inertia_
    return _no_empty_cluster(points, np.asarray(best, dtype=np.int32), k)


def _no_empty_cluster(points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    missing = np.setdiff1d(np.arange(k), labels)
    if not missing.size:
        return labels
    labels = labels.copy()
    warnings.warn(
        f"k-means found {k - missing.size} distinct clusters of the {k} asked for; the rows farthest from their "
        "centres found the others",
        stacklevel=4,
    )
    for c in missing:
        sizes = np.bincount(labels, minlength=k)
        centres = np.array(
            [points[labels == j].mean(axis=0) if sizes[j] else np.zeros(points.shape[1]) for j in range(k)]
        )
        far = np.linalg.norm(points - centres[labels], axis=1) + 1e-9 * sizes[labels]
        far[sizes[labels] < 2] = -1
        labels[int(np.argmax(far))] = c
    return labels
