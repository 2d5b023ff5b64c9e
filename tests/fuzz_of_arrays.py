"""Public doors of the core and the packages whose numbers are arrays, each with a good call, for `test_fuzz.py`.

Long functions on purpose: each is a plain list of one package's doors, with no step to name inside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from lemmata_core import check as core
from lemmata_core.executor import executor
from lemmata_core.rng import generator, spawn, torch_generator
from lemmata_core.timing import growth
from scipy import sparse

from tests.fuzzing import Entry, Size, graph, normal, positive


def of_core() -> dict[str, Entry]:
    def started(spec: Any) -> int:
        with executor(spec) as pool:
            return pool.submit(len, "abc").result()

    return {
        "array": Entry(lambda x: core.array(x, "x", ndim=2), lambda: {"x": normal(3, 4)}),
        "in_range": Entry(lambda x: core.in_range(x, "x", low=0, high=1), lambda: {"x": 0.5}),
        "positive_int": Entry(lambda x: core.positive_int(x, "x"), lambda: {"x": 3}),
        "square_sparse": Entry(lambda x: core.square_sparse(x, "x"), lambda: {"x": sparse.csr_array(graph())}),
        "one_of": Entry(lambda x: core.one_of(x, "x", ("a", "b")), lambda: {"x": "a"}),
        "generator": Entry(generator, lambda: {"rng": 3}),
        "spawn": Entry(spawn, lambda: {"rng": 3, "n": Size(2)}),
        "torch_generator": Entry(torch_generator, lambda: {"rng": 3, "device": "cpu"}),
        "growth": Entry(
            growth, lambda: {"sizes": np.array([10, 20, 40, 80]), "seconds": np.array([0.1, 0.21, 0.4, 0.8])}
        ),
        "executor": Entry(started, lambda: {"spec": "serial"}),
    }


def of_riemann_fair() -> dict[str, Entry]:
    import riemann_fair as fair

    groups = np.arange(12) % 2
    labels = np.arange(12) // 6

    def graphs() -> dict[str, Any]:
        return {"affinity": sparse.csr_array(graph()), "groups": groups.copy()}

    def fitted(X: Any, groups: Any, **options: Any) -> Any:
        model = fair.FairSpectralClustering(2, n_neighbors=4, random_state=0, **options)
        return model.fit(X, sensitive_features=groups).labels_, model.embedding_

    def manifold(kind: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **options: kind(**options, rng=0).random_point()

    def reported(**data: Any) -> Any:
        """NaN is documented as the cut without an affinity."""
        report = fair.fairness_report(**data)
        return dataclasses.replace(report, ncut=0.0) if data["affinity"] is None else report

    return {
        "fair_embedding": Entry(
            lambda **data: fair.fair_embedding(**data, rng=0, max_iter=20),
            lambda: {**graphs(), "n_components": Size(2), "tolerance": 0.0, "tol": 1e-3, "solver": "auto"},
        ),
        "fair_embedding dense": Entry(
            lambda affinity, groups: fair.fair_embedding(affinity, groups, 2, rng=0, max_iter=20),
            lambda: {"affinity": graph(), "groups": np.array(["a", "b"] * 6)},
        ),
        "FairSpectralClustering": Entry(
            fitted,
            lambda: {"X": normal(12, 2), "groups": groups.copy(), "gamma": 1.0, "balance_tol": 0.1},
            refuses=(ValueError, TypeError),
        ),
        "constraint_matrix": Entry(fair.constraint_matrix, lambda: {"groups": groups.copy(), "degrees": positive(12)}),
        "fair_assign": Entry(
            fair.fair_assign,
            lambda: {
                "cost": positive(12, 2),
                "groups": groups.copy(),
                "lower": np.array([2, 2]),
                "upper": np.array([4, 4]),
            },
        ),
        "fairness_report": Entry(reported, lambda: {**graphs(), "labels": labels.copy()}),
        "balance": Entry(fair.balance, lambda: {"labels": labels.copy(), "groups": groups.copy()}),
        "proportion_gap": Entry(fair.proportion_gap, lambda: {"labels": labels.copy(), "groups": groups.copy()}),
        "normalized_cut": Entry(fair.normalized_cut, lambda: {"affinity": graph(), "labels": labels.copy()}),
        "clustering_error": Entry(fair.clustering_error, lambda: {"labels": labels.copy(), "planted": groups.copy()}),
        "adjacency_from_edges": Entry(
            fair.adjacency_from_edges,
            lambda: {"edges": np.array([[0, 1], [1, 2]]), "weights": positive(2), "n_nodes": Size(4)},
        ),
        "average_balance": Entry(fair.average_balance, lambda: {"labels": labels.copy(), "groups": groups.copy()}),
        "fairness_path": Entry(
            lambda **data: fair.fairness_path(**data, rng=0),
            lambda: {**graphs(), "n_clusters": Size(2), "grid": Size(2)},
        ),
        "fair_embedding options": Entry(
            lambda **options: fair.fair_embedding(graph(), groups, 2, rng=0, max_iter=300, tol=0.1, **options),
            lambda: {"solver": "radmm", "constraint": "count", "regularization": 0.1, "x0": normal(12, 2)},
        ),
        "RADMMParams": Entry(
            lambda **options: fair.fair_embedding(
                graph(), groups, 2, rng=0, max_iter=300, tol=0.1, solver="radmm", params=fair.RADMMParams(**options)
            ),
            lambda: {"alpha0": 1.0, "tau": 2.0, "mu": 10.0, "inner": Size(3), "grad_tol": 1e-5, "retraction": "polar"},
        ),
        "RCGParams": Entry(
            lambda **options: fair.fair_embedding(
                graph(), groups, 2, rng=0, max_iter=300, solver="rcg", params=fair.RCGParams(**options)
            ),
            lambda: {"guard": Size(2)},
        ),
        "FairStiefel": Entry(manifold(fair.FairStiefel), lambda: {"n": Size(6), "k": Size(2), "C": normal(6, 1)}),
        "FairGrassmann": Entry(manifold(fair.FairGrassmann), lambda: {"n": Size(6), "k": Size(2), "C": normal(6, 1)}),
        "load_graph": Entry(fair.load_graph, lambda: {"name": "lastfm_asia"}),
        "modified_sbm": Entry(
            lambda **data: fair.modified_sbm(**data, rng=0).affinity,
            lambda: {"n": Size(40), "n_groups": Size(2), "n_clusters": Size(2)},
        ),
    }
