"""Balance, cut, proportions and the report, on graphs whose values are known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from riemann_fair import (
    average_balance,
    balance,
    clustering_error,
    fairness_report,
    load_graph,
    modified_sbm,
    normalized_cut,
    proportion_gap,
)

CLIQUE = [(a, b) for a in range(4) for b in range(a)]
EDGES = [*CLIQUE, *((a + 4, b + 4) for a, b in CLIQUE), (3, 4)]


@pytest.fixture(scope="module")
def cliques():
    W = np.zeros((8, 8))
    for i, j in EDGES:
        W[i, j] = W[j, i] = 1
    return W


LABELS = [0] * 4 + [1] * 4
ACROSS = [0, 0, 1, 1] * 2


def test_two_cliques(cliques):
    assert normalized_cut(cliques, LABELS) == pytest.approx(2 / 13)
    assert balance(LABELS, ACROSS) == pytest.approx([1, 1])
    assert balance(LABELS, LABELS) == pytest.approx([0, 0])
    assert average_balance(LABELS, ACROSS) == 1
    assert proportion_gap(LABELS, ACROSS) == 0
    assert proportion_gap(LABELS, LABELS) == 0.5


def test_noise_does_not_count(cliques):
    labels = [0, 0, 0, -1, 1, 1, 1, 1]
    assert balance(labels, ACROSS) == pytest.approx([0.5, 1])
    assert fairness_report(cliques, labels, ACROSS).n_noise == 1


def test_error_is_by_the_best_matching():
    assert clustering_error([2, 2, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2]) == 0
    assert clustering_error([0, 0, 0, 1], [0, 0, 1, 1]) == 0.25


def test_the_report_counts_every_node_once(cliques):
    report = fairness_report(cliques, LABELS, ["a", "a", "b", "c"] * 2)
    assert report.counts.tolist() == [[2, 1, 1], [2, 1, 1]]
    assert report.sizes.sum() == 8
    assert report.proportions.sum(axis=1) == pytest.approx([1, 1])
    assert report.population_balance == pytest.approx(0.5)
    assert report.average_balance == pytest.approx(0.5)
    assert report.ncut == pytest.approx(2 / 13)
    assert report.attributes[0].disparate_impact == pytest.approx([1, 1, 1])


def test_the_report_in_every_form(cliques):
    report = fairness_report(cliques, LABELS, {"sex": ["f", "f", "m", "m"] * 2, "city": ["x", "y"] * 4})
    read = json.loads(report.to_json())
    assert read["average_balance"] == 1
    assert [a["name"] for a in read["attributes"]] == ["sex", "city"]
    frame = report.to_frame()
    assert frame["count"].sum() == 16
    assert "<table" in report._repr_html_()
    page = report.to_html("Two cliques", note="Made up.")
    assert page.count("<svg") == 2
    assert "balance of the population" in page
    assert report.plot().axes


def test_intersections_in_the_report(cliques):
    report = fairness_report(cliques, LABELS, {"a": [0, 0, 1, 1] * 2, "b": [0, 1] * 4}, combine="intersect")
    assert report.attributes[0].name == "a & b"
    assert report.warnings


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 50), st.integers(1, 5), st.integers(1, 4))
def test_balance_stays_in_the_unit_interval(seed, n, k, h):
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(0, k, n), rng.integers(0, h, n)
    found = balance(labels, groups)
    assert found.size == np.unique(labels).size
    assert ((found >= 0) & (found <= 1)).all()
    assert fairness_report(None, labels, groups).counts.sum() == n


def test_lengths_that_do_not_agree(cliques):
    with pytest.raises(InvalidInput, match="groups"):
        balance([0, 1, 1], [0, 1])
    with pytest.raises(InvalidInput, match="labels"):
        normalized_cut(cliques, [0, 1])
    with pytest.raises(InvalidInput, match="at least one cluster"):
        balance([-1, -1], [0, 1])
    with pytest.raises(InvalidInput, match="groups: expected a known group"):
        fairness_report(None, [-1, 0, 0], ["a", None, None])
    with pytest.raises(InvalidInput, match="labels"):
        fairness_report(None, [[0.0], [0.0, 1.0]], ["a", "b"])


def test_the_block_models_probabilities():
    """Counts within five standard deviations of their expectation, the pairs of each kind told apart."""
    graph = modified_sbm(600, 2, 3, probs=(0.5, 0.3, 0.2, 0.05), rng=0)
    W, y, g = graph.affinity.toarray(), graph.labels, graph.groups
    assert (W == W.T).all()
    assert np.trace(W) == 0
    upper = np.triu(np.ones_like(W), 1) > 0
    cluster, group = y[:, None] == y, g[:, None] == g
    for mask, p in (
        (cluster & group, 0.5),
        (cluster & ~group, 0.3),
        (~cluster & group, 0.2),
        (~cluster & ~group, 0.05),
    ):
        pairs = (mask & upper).sum()
        assert abs(W[mask & upper].sum() - p * pairs) < 5 * np.sqrt(p * (1 - p) * pairs)
    assert np.bincount(y * 2 + g).tolist() == [100] * 6


def test_a_mean_degree_can_be_asked_for():
    assert modified_sbm(4000, 2, 4, scale=30.0, rng=0).affinity.nnz / 4000 == pytest.approx(30, rel=0.03)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "smallest"), [("lastfm_asia", 7624, 27806, 16), ("deezer_europe", 28281, 92752, 12538)]
)
def test_shipped_graphs(name, nodes, edges, smallest):
    graph = load_graph(name)
    assert graph.affinity.shape == (nodes, nodes)
    assert graph.affinity.nnz == 2 * edges
    assert np.bincount(graph.groups).min() == smallest


def test_unknown_graph_lists_the_known_ones():
    with pytest.raises(InvalidInput, match="lastfm_asia"):
        load_graph("lastfm")
