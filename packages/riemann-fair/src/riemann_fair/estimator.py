"""The scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from riemann_fair.assign import cluster_qr, fair_labels, kmeans_labels
from riemann_fair.embedding import embed, warn_unless_converged
from riemann_fair.groups import COMBINE_RULES, MISSING_RULES, Groups, read_groups
from riemann_fair.laplacian import adjacency_from_edges, read_affinity
from riemann_fair.problem import prepare
from riemann_fair.report import FairnessReport, fairness_report
from riemann_fair.result import EmbeddingResult
from riemann_fair.threads import one_blas_thread

AFFINITIES = ("nearest_neighbors", "rbf", "precomputed", "precomputed_nearest_neighbors")
ASSIGN = ("kmeans", "cluster_qr", "fair")
ISOLATED = ("assign", "noise", "error")
RBF_UP_TO = 20_000


class FairSpectralClustering(ClusterMixin, BaseEstimator):
    """Spectral clustering whose clusters keep the proportions of protected groups.

    Parameters shared with `sklearn.cluster.SpectralClustering` have its names; without `sensitive_features` it is
    plain normalised spectral clustering.

    Parameters
    ----------
    n_clusters : int
    affinity : {"nearest_neighbors", "rbf", "precomputed", "precomputed_nearest_neighbors"}
        "rbf" is dense and refused above 20,000 rows. "precomputed_nearest_neighbors": X holds distances, as sparse
        neighbour graphs of scikit-learn do, and the graph is that of the `n_neighbors` nearest.
    n_neighbors : int
        Of the kNN graph, the point itself counted; cut to the number of rows. The graph is symmetrised by maximum.
    gamma : float
        Of the RBF kernel.
    solver : str
        See `fair_embedding`.
    solver_params : RADMMParams, RCGParams, pymanopt optimizer or None
    constraint : {"count", "plain", "volume"}
    tolerance : float
        Allowed violation ``||Q^T H||_F`` of the embedding; 0: none.
    assign_labels : {"kmeans", "cluster_qr", "fair"}
        "fair" bounds the proportions of the labels themselves, see `balance_tol`. Several attributes with
        ``combine="concat"`` then need a mixed-integer program (HiGHS), for small data; "intersect" does not.
    balance_tol : float
        Relative band of each group's numbers in each cluster, for "fair".
    regularization : float or "auto"
    row_normalize : bool
        Cluster rows of H of unit length instead of ``D^-1/2 H``.
    combine : {"concat", "intersect"}
    missing : {"error", "ignore", "group"}
    isolated : {"assign", "noise", "error"}
        Nodes without edges: to the cluster where their group is most under-represented; -1; refused. The bounds of
        ``assign_labels="fair"`` are on the nodes with edges.
    directed : {"error", "symmetrize"}
    min_group_size : int
    tol : float
        Largest residual of the embedding.
    max_iter : int or None
    n_init : int
        k-means starts, the first from pivoted QR.
    dtype : {"float64", "float32"}
    random_state : int, RandomState or None
    n_jobs : int or None
        For the kNN graph.
    verbose : int
        1: a line on what was solved.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    embedding_ : ndarray, shape (n, n_clusters)
    eigenvalues_ : ndarray of float64, shape (n_clusters,)
    affinity_matrix_ : csr_array or ndarray, shape (n, n)
    group_names_ : tuple of str
    report_ : FairnessReport or None
        None without groups.
    result_ : EmbeddingResult
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> from riemann_fair import FairSpectralClustering, modified_sbm
    >>> graph = modified_sbm(400, n_groups=2, n_clusters=4, rng=0)
    >>> model = FairSpectralClustering(4, affinity="precomputed", random_state=0)
    >>> labels = model.fit_predict(graph.affinity, sensitive_features=graph.groups)
    >>> round(model.report_.average_balance, 2) > 0.9
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        affinity: str = "nearest_neighbors",
        n_neighbors: int = 10,
        gamma: float = 1.0,
        solver: str = "auto",
        solver_params: Any = None,
        constraint: str = "count",
        tolerance: float = 0.0,
        assign_labels: str = "kmeans",
        balance_tol: float = 0.1,
        regularization: float | str = 0.0,
        row_normalize: bool = False,
        combine: str = "concat",
        missing: str = "error",
        isolated: str = "assign",
        directed: str = "error",
        min_group_size: int = 5,
        tol: float = 1e-3,
        max_iter: int | None = None,
        n_init: int = 10,
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.solver = solver
        self.solver_params = solver_params
        self.constraint = constraint
        self.tolerance = tolerance
        self.assign_labels = assign_labels
        self.balance_tol = balance_tol
        self.regularization = regularization
        self.row_normalize = row_normalize
        self.combine = combine
        self.missing = missing
        self.isolated = isolated
        self.directed = directed
        self.min_group_size = min_group_size
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, features) or (n, n) with a precomputed affinity
        y : ignored
        sensitive_features : array-like of shape (n,) or (n, a), Series, DataFrame, mapping or None
            Protected attributes of the rows; None: plain spectral clustering.

        Returns
        -------
        self
        """
        self._check_parameters()
        affinity = read_affinity(self._graph(X), directed=self.directed, name="X")
        n = affinity.d.size
        table = None
        if sensitive_features is not None:
            table = read_groups(
                sensitive_features,
                n,
                combine=self.combine,
                missing=self.missing,
                min_group_size=self.min_group_size,
                name="sensitive_features",
            )
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        lonely = affinity.d == 0
        if lonely.any() and self.isolated == "error":
            raise InvalidInput.argument("X", expected="no isolated nodes", got=f"{int(lonely.sum())} of them")
        with one_blas_thread():
            problem = prepare(affinity, table, self.n_clusters, self.constraint, self.regularization, "n_clusters")
        result = embed(
            problem,
            self.n_clusters,
            solver=self.solver,
            tolerance=self.tolerance,
            params=self.solver_params,
            tol=self.tol,
            max_iter=self.max_iter,
            dtype=self.dtype,
            rng=np.random.default_rng(seed),
        )
        warn_unless_converged(result, self.tol)
        labels = self._label(result, table, ~lonely, seed)
        report = None if table is None else fairness_report(affinity, labels, table)
        if self.verbose:
            print(f"{result.solver}: {result.status}, {result.n_products:g} products, {result.wall_time:.2f} s")  # noqa: T201
        self.labels_ = labels
        self.embedding_ = result.embedding
        self.eigenvalues_ = result.eigenvalues
        self.affinity_matrix_ = affinity.W
        self.group_names_: tuple[str, ...] = () if table is None else table.names
        self.report_: FairnessReport | None = report
        self.result_: EmbeddingResult = result
        self.n_iter_ = max(int(result.n_iter), 1)
        return self

    def fit_predict(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> np.ndarray:
        """Fit, and return `labels_`.

        Parameters
        ----------
        X, y, sensitive_features
            As in `fit`.

        Returns
        -------
        ndarray of int32, shape (n,)
        """
        return np.asarray(self.fit(X, y, sensitive_features=sensitive_features).labels_)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        *,
        weights: Any = None,
        n_nodes: int | None = None,
        sensitive_features: Any = None,
        **params: Any,
    ) -> FairSpectralClustering:
        """An estimator fitted on an edge list.

        Parameters
        ----------
        edges : array-like of int, shape (m, 2)
            One undirected edge a row; a repeated edge adds up.
        weights : array-like of shape (m,), optional
        n_nodes : int, optional
            Taken from the largest id where not given.
        sensitive_features : array-like, optional
        **params
            Of the estimator, `affinity` excepted.

        Returns
        -------
        FairSpectralClustering
        """
        W = adjacency_from_edges(edges, weights, n_nodes)
        if params.setdefault("affinity", "precomputed") != "precomputed":
            raise InvalidInput.argument("affinity", expected='"precomputed" with an edge list', got=params["affinity"])
        return cls(**params).fit(W, sensitive_features=sensitive_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity in ("precomputed", "precomputed_nearest_neighbors")
        return tags

    def _check_parameters(self) -> None:
        check.positive_int(self.n_clusters, "n_clusters")
        check.one_of(self.affinity, "affinity", AFFINITIES)
        check.positive_int(self.n_neighbors, "n_neighbors")
        check.in_range(self.gamma, "gamma", 0, low_open=True)
        check.one_of(self.assign_labels, "assign_labels", ASSIGN)
        check.one_of(self.isolated, "isolated", ISOLATED)
        check.one_of(self.combine, "combine", COMBINE_RULES)
        check.one_of(self.missing, "missing", MISSING_RULES)
        check.in_range(self.balance_tol, "balance_tol", 0)
        check.positive_int(self.n_init, "n_init")
        check.positive_int(self.min_group_size, "min_group_size")

    def _validated(self, X: Any, **accepted: Any) -> Any:
        """Ask scikit-learn whether it is data, and keep its words."""
        try:
            return validate_data(self, X, ensure_min_samples=2, **accepted)
        except ValueError as err:
            raise InvalidInput(f"X: {err}") from err

    def _graph(self, X: Any) -> Any:
        if self.affinity in ("precomputed", "precomputed_nearest_neighbors"):
            if isinstance(X, np.ndarray) and X.dtype.kind == "b":
                raise InvalidInput.argument(
                    "X", expected="numbers (convert with .astype(float))", got="a boolean array"
                )
            X = self._validated(X, accept_sparse=["csr", "csc", "coo"], dtype=[np.float64, np.float32])
            if self.affinity == "precomputed":
                return X
            return self._nearest_of_distances(X)
        X = self._validated(X, accept_sparse="csr", dtype=np.float64)
        if self.affinity == "rbf":
            if X.shape[0] > RBF_UP_TO:
                raise InvalidInput.argument(
                    "affinity", expected=f'"nearest_neighbors" above {RBF_UP_TO} rows', got='"rbf"'
                )
            from sklearn.metrics.pairwise import rbf_kernel

            return rbf_kernel(X, gamma=self.gamma)
        from sklearn.neighbors import kneighbors_graph

        near = min(int(self.n_neighbors), X.shape[0])
        return _connectivity(
            sp.csr_array(kneighbors_graph(X, near, mode="connectivity", include_self=True, n_jobs=self.n_jobs))
        )

    def _nearest_of_distances(self, X: Any) -> Any:
        """The kNN graph of precomputed distances, in scikit-learn's sense: every stored entry is a distance."""
        from sklearn.neighbors import NearestNeighbors, sort_graph_by_row_values

        if X.shape[0] != X.shape[1]:
            raise InvalidInput.argument("X", expected="a square matrix of distances", got=f"shape {X.shape}")
        if sp.issparse(X):
            X = sort_graph_by_row_values(sp.csr_matrix(X), copy=True, warn_when_not_sorted=False)
        near = NearestNeighbors(n_neighbors=min(int(self.n_neighbors), X.shape[0]), metric="precomputed").fit(X)
        return _connectivity(sp.csr_array(near.kneighbors_graph(X, mode="connectivity")))

    def _label(self, result: EmbeddingResult, table: Groups | None, active: np.ndarray, seed: int) -> np.ndarray:
        k, n = int(self.n_clusters), active.size
        points = (result.row_normalized if self.row_normalize else result.scaled).astype(np.float64)[active]
        if k > points.shape[0]:
            raise InvalidInput.argument("n_clusters", expected=f"at most {points.shape[0]} nodes with edges", got=k)
        first = cluster_qr(result.embedding.astype(np.float64)[active])
        inside = first if self.assign_labels == "cluster_qr" else kmeans_labels(points, k, self.n_init, seed, first)
        if self.assign_labels == "fair" and table is not None:
            if table.soft is not None:
                raise InvalidInput.argument("assign_labels", expected='"kmeans" with soft groups', got="fair")
            inside = fair_labels(points, inside, table.subset(active), self.balance_tol).labels
        labels = np.full(n, -1, dtype=np.int32)
        labels[active] = inside
        if self.isolated == "assign" and not active.all():
            _place_isolated(labels, active, table, k)
        if table is not None:
            _warn_of_small_groups(table, k)
        return labels


def _connectivity(G: Any) -> Any:
    """The symmetric closure of a neighbour graph: an edge where either end names the other."""
    return sp.csr_array(G.maximum(G.T))


def _place_isolated(labels: np.ndarray, active: np.ndarray, table: Groups | None, k: int) -> None:
    """Each isolated node to the cluster where its group is most under-represented; without groups, to the smallest."""
    code = np.zeros(labels.size, dtype=np.int64) if table is None else np.maximum(table.codes[:, 0], 0).astype(np.int64)
    h = int(code.max()) + 1
    counts = np.bincount(labels[active] * h + code[active], minlength=k * h).reshape(k, h).astype(np.float64)
    for i in np.flatnonzero(~active):
        share = counts[:, code[i]] / np.maximum(counts.sum(axis=1), 1) if h > 1 else counts.sum(axis=1)
        c = int(np.argmin(share))
        labels[i] = c
        counts[c, code[i]] += 1


def _warn_of_small_groups(table: Groups, k: int) -> None:
    if table.soft is not None:
        return
    for a, names in enumerate(table.labels):
        members = np.bincount(table.codes[table.codes[:, a] >= 0, a], minlength=len(names))
        small = [f"{n} ({m})" for n, m in zip(names, members) if m < k]
        if small:
            warnings.warn(
                f"{table.attributes[a]}: {', '.join(small)} have fewer members than there are clusters ({k}); "
                "they cannot be in every cluster, and a balance of 0 is arithmetic",
                stacklevel=4,
            )
