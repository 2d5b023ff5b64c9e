"""Exact proportions at the label level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from riemann_fair import fair_assign
from riemann_fair.assign import cluster_qr, fair_labels, kmeans_labels
from riemann_fair.groups import read_groups
from scipy.optimize import Bounds, LinearConstraint, milp


def test_four_points_two_clusters_worked_by_hand():
    cost = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    found = fair_assign(cost, [0, 0, 0, 0], 2, 2)
    assert found.cost == 3
    assert found.labels.tolist() == [1, 1, 0, 0]
    assert (found.extra_cost, found.n_moves, found.status) == (3, 2, "optimal")


def test_bounds_that_hold_already_move_nothing():
    cost = np.array([[0.0, 1], [1, 0], [0, 1], [1, 0]])
    found = fair_assign(cost, ["a", "a", "b", "b"], 1, 1)
    assert found.labels.tolist() == [0, 1, 0, 1]
    assert found.extra_cost == 0


def by_program(cost, groups, lower, upper):
    n, k = cost.shape
    h = lower.shape[0]
    rows = np.zeros((n + h * k, n * k))
    for i in range(n):
        rows[i, i * k : (i + 1) * k] = 1
        for c in range(k):
            rows[n + groups[i] * k + c, i * k + c] = 1
    low = np.concatenate([np.ones(n), lower.ravel()])
    high = np.concatenate([np.ones(n), upper.ravel()])
    found = milp(cost.ravel(), constraints=LinearConstraint(rows, low, high), bounds=Bounds(0, 1))
    return found.fun


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 24), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_as_cheap_as_the_linear_program(seed, n, k, h, ties):
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 4, (n, k)).astype(float) if ties else rng.random((n, k)) + 0.3 * np.arange(k)
    groups = np.concatenate([np.arange(min(h, n)), rng.integers(0, h, max(n - h, 0))])
    h = int(groups.max()) + 1
    members = np.bincount(groups)
    chosen = rng.integers(0, k, n)
    inside = np.zeros((h, k), dtype=int)
    np.add.at(inside, (groups, chosen), 1)
    lower = np.maximum(inside - rng.integers(0, 3, (h, k)), 0)
    upper = inside + rng.integers(0, 3, (h, k))
    found = fair_assign(cost, groups, lower, upper)
    counts = np.zeros((h, k), dtype=int)
    np.add.at(counts, (groups, found.labels), 1)
    assert (counts >= lower).all()
    assert (counts <= upper).all()
    assert (counts.sum(axis=1) == members).all()
    assert found.cost == pytest.approx(by_program(cost, groups, lower, upper), abs=1e-9)
    assert found.cost == pytest.approx(cost[np.arange(n), found.labels].sum())


def test_one_cluster_drained_into_many():
    """Everybody prefers cluster 0; the pool of heaps has to grow on the way."""
    rng = np.random.default_rng(0)
    cost = rng.random((3000, 4)) + np.array([0, 10, 10, 10.0])
    found = fair_assign(cost, np.zeros(3000, dtype=int), 750, 750)
    assert np.bincount(found.labels).tolist() == [750] * 4


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        ([[2, 2], [0, 0]], 9, "3 members of group 'a'"),
        (0, [[1, 1], [9, 9]], "room for the 3 members of group 'a'"),
        ([[3, 0], [0, 0]], [[2, 9], [9, 9]], r"\[3, 2\] for group 'a' in cluster 0"),
        (-1, 9, "0 <= lower"),
        (0, [1, 2, 3], "shape"),
        (0.5, 9, "fractional"),
    ],
)
def test_infeasible_bounds_name_the_group_and_the_cluster(lower, upper, words):
    with pytest.raises(InvalidInput, match=words):
        fair_assign(np.zeros((4, 2)), ["a", "a", "a", "b"], lower, upper)


@pytest.mark.parametrize("balance_tol", [0.0, 0.1, 0.5])
def test_fair_labels_keep_their_bounds(balance_tol):
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 3, 400)
    points = rng.standard_normal((400, 2)) + 3 * (groups[:, None] == np.array([0, 1]))
    table = read_groups(groups)
    start = kmeans_labels(points, 4, 3, 0, np.arange(400) % 4)
    found = fair_labels(points, start, table, balance_tol)
    p, sizes = np.bincount(groups) / 400, np.bincount(start)
    counts = np.zeros((3, 4))
    np.add.at(counts, (groups, found.labels), 1)
    assert (counts >= np.floor((1 - balance_tol) * np.outer(p, sizes) + 1e-9)).all()
    assert (counts <= np.ceil((1 + balance_tol) * np.outer(p, sizes) - 1e-9)).all()


def test_several_attributes_at_once_go_through_the_program():
    rng = np.random.default_rng(4)
    G = rng.integers(0, 2, (80, 2))
    points = rng.standard_normal((80, 2)) + 2 * G
    start = kmeans_labels(points, 2, 3, 0, np.arange(80) % 2)
    found = fair_labels(points, start, read_groups(G), 0.1)
    for a in range(2):
        share = np.array([G[found.labels == c, a].mean() for c in range(2)])
        assert np.abs(share - G[:, a].mean()).max() < 0.12


def test_coinciding_rows_leave_no_cluster_empty():
    points = np.zeros((10, 2))
    points[5:] = 1
    with pytest.warns(UserWarning, match="2 distinct clusters of the 4"):
        labels = kmeans_labels(points, 4, 2, 0, np.zeros(10, dtype=int))
    assert np.unique(labels).tolist() == [0, 1, 2, 3]


def test_pivoted_qr_reads_indicators():
    H = np.kron(np.eye(3), np.ones((4, 1))) / 2
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    labels = cluster_qr(H @ rotation)
    assert np.unique(labels.reshape(3, 4), axis=1).shape == (3, 1)
    assert np.unique(labels).size == 3
