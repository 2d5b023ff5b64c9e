"""The graphs and the peers that our speed is measured against, in one place for the command and the benchmarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import NotConvergedWarning
from lemmata_core.timing import paired

from riemann_fair import baselines
from riemann_fair.datasets import load_graph, modified_sbm
from riemann_fair.embedding import fair_embedding
from riemann_fair.laplacian import read_affinity
from riemann_fair.problem import prepare
from riemann_fair.spectral import start_vector
from riemann_fair.threads import one_blas_thread

TOL = 1e-3


@dataclass(frozen=True)
class Case:
    """A graph, its groups and the number of clusters asked for."""

    title: str
    affinity: Any
    groups: np.ndarray
    k: int


def _model(n: int, scale: str | float, title: str, groups: int = 2) -> Case:
    graph = modified_sbm(n, groups, 4, scale=scale, rng=0)
    return Case(title, graph.affinity, graph.groups, 4)


def knn_case(n: int) -> Case:
    """A kNN graph of points in six overlapping clouds, with random groups."""
    from sklearn.neighbors import kneighbors_graph

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 8))
    X = centres[rng.integers(0, 6, n)] + rng.normal(size=(n, 8))
    G = sp.csr_array(kneighbors_graph(X, 10, include_self=True))
    both = sp.csr_array(G.maximum(G.T))
    both.sum_duplicates()
    return Case(f"kNN graph, n = {n}", both, rng.integers(0, 2, n), 5)


def _shipped(name: str, title: str) -> Case:
    graph = load_graph(name)
    return Case(title, graph.affinity, graph.groups, 5)


GRAPHS: dict[str, Callable[[], Case]] = {
    "sbm": lambda: _model(12_000, "paper", "block model, n = 12000, degree 548"),
    "sbm40": lambda: _model(20_000, 40.0, "block model, n = 20000, degree 40"),
    "knn": lambda: knn_case(20_000),
    "lastfm": lambda: _shipped("lastfm_asia", "LastFM Asia, country"),
    "deezer": lambda: _shipped("deezer_europe", "Deezer Europe, inferred gender"),
}


@cache
def case(name: str) -> Case:
    """The graph of that name, made once."""
    return GRAPHS[name]()


def ours(graph: Case, seed: int, **options: Any) -> Callable[[], Any]:
    """The embedding by `fair_embedding`: checks of the input and true residuals included."""

    def solve() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            return fair_embedding(graph.affinity, graph.groups, graph.k, rng=seed, **({"tol": TOL} | options))

    return solve


def eigsh(graph: Case, seed: int, tol: float = TOL) -> Callable[[], Any]:
    """Projected eigsh, the one to beat: nothing is checked, degrees and projection are made beforehand."""
    with one_blas_thread():
        # Outside, threads woken for a norm would go on spinning while the clock runs.
        op = prepare(read_affinity(graph.affinity), graph.groups, graph.k, "count", 0.0).op
        v0 = start_vector(op, np.random.default_rng(seed), None)

    def solve() -> Any:
        with one_blas_thread():
            return baselines.projected_eigsh(op, graph.k - 1, tol, v0)

    return solve


def sklearn(graph: Case, seed: int, tol: float = TOL) -> Callable[[], Any]:
    """scikit-learn's spectral embedding, which knows no groups."""
    from sklearn.manifold import spectral_embedding

    def solve() -> Any:
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return spectral_embedding(
                sp.csr_matrix(graph.affinity), n_components=graph.k, eigen_solver="arpack", random_state=seed,
                eigen_tol=tol, drop_first=False,
            )  # fmt: skip

    return solve


def sfairsc(graph: Case, seed: int, tol: float = 0.0) -> Callable[[], Any]:
    """The literal port of sFairSC."""
    rng = np.random.default_rng(seed)

    def solve() -> Any:
        with one_blas_thread():
            return baselines.sfairsc(graph.affinity, graph.groups, graph.k, tol=tol, rng=rng)

    return solve


PEERS: dict[str, Callable[..., Callable[[], Any]]] = {"eigsh": eigsh, "sklearn": sklearn, "sfairsc": sfairsc}


def compare(graph: str, peer: str, *, repeats: int = 5, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Time the default solver and a peer in turn.

    Parameters
    ----------
    graph : str
        Key of `GRAPHS`.
    peer : str
        Key of `PEERS`.
    repeats, seed : int
    **options
        Of `fair_embedding`.

    Returns
    -------
    dict
        Title, peer and the fields of `PairedTiming`.
    """
    chosen = case(graph)
    timing = paired(ours(chosen, seed, **options), PEERS[peer](chosen, seed), repeats=repeats)
    return {"graph": chosen.title, "peer": peer} | asdict(timing)
