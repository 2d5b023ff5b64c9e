"""Public doors of the core and the packages whose numbers are arrays, each with a good call, for `test_fuzz.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lemmata_core import check as core
from lemmata_core.rng import generator
from scipy import sparse

from tests.fuzzing import Entry, Size, graph, normal, positive


def of_core() -> dict[str, Entry]:
    return {
        "array": Entry(lambda x: core.array(x, "x", ndim=2), lambda: {"x": normal(3, 4)}),
        "in_range": Entry(lambda x: core.in_range(x, "x", low=0, high=1), lambda: {"x": 0.5}),
        "positive_int": Entry(lambda x: core.positive_int(x, "x"), lambda: {"x": 3}),
        "square_sparse": Entry(lambda x: core.square_sparse(x, "x"), lambda: {"x": sparse.csr_array(graph())}),
        "generator": Entry(generator, lambda: {"rng": 3}),
    }


def of_lap_warmstart() -> dict[str, Entry]:
    import lap_warmstart as lap
    from lap_warmstart.compat.lap import lapjv
    from lap_warmstart.predict import density, min_trick

    def opened(r: lap.AssignmentResult) -> tuple[Any, ...]:
        return r.row_ind, r.col_ind, r.u, r.v, r.objective, r.status

    known = lap.solve(normal(4, 5))
    return {
        "solve": Entry(lambda cost: opened(lap.solve(cost)), lambda: {"cost": normal(5, 5)}),
        "rectangular": Entry(
            lambda cost, method: opened(lap.solve(cost, method=method)),
            lambda: {"cost": normal(6, 4), "method": "core"},
        ),
        "gate": Entry(
            lambda cost, gate, maximize: opened(lap.solve(cost, unmatched_cost=gate, maximize=maximize)),
            lambda: {"cost": positive(4, 5), "gate": 0.5, "maximize": False},
        ),
        "partial": Entry(lambda cost: opened(lap.solve(cost, on_infeasible="partial")), lambda: {"cost": normal(5, 4)}),
        "sparse": Entry(lambda cost: opened(lap.solve(cost)), lambda: {"cost": sparse.csr_array(positive(5, 5))}),
        "warm": Entry(
            lambda cost, warm: opened(lap.solve(cost, warm_start=warm)),
            lambda: {"cost": normal(5, 6), "warm": normal(5)},
        ),
        "column duals": Entry(
            lambda cost, v: opened(lap.solve(cost, warm_start=lap.ColumnDuals(v))),
            lambda: {"cost": normal(5, 6), "v": normal(6)},
        ),
        "solve_batch": Entry(
            lambda costs: [opened(r) for r in lap.solve_batch(costs)], lambda: {"costs": normal(3, 4, 4)}
        ),
        "stream": Entry(
            lambda cost, ids: opened(lap.AssignmentStream().solve(cost, row_ids=ids)),
            lambda: {"cost": normal(3, 4), "ids": [1, 2, 3]},
        ),
        "linear_sum_assignment": Entry(
            lap.linear_sum_assignment, lambda: {"cost": normal(4, 4)}, refuses=(ValueError,)
        ),
        "certify": Entry(lambda cost: lap.certify(cost, known), lambda: {"cost": normal(4, 5)}),
        "lapjv": Entry(lapjv, lambda: {"cost": normal(4, 4), "cost_limit": 0.5}),
        "min_trick": Entry(min_trick, lambda: {"cost": normal(4, 5), "u": normal(4)}),
        "density": Entry(density, lambda: {"cost": normal(4, 5), "u": normal(4), "v": normal(5)}),
    }


def of_oco_anytime() -> dict[str, Entry]:
    import oco_anytime as oco
    from oco_anytime import domains as d

    def projected(domain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda y, **options: domain(**options).project(y)

    def played(cost_grad: Any, violation: Any, violation_grad: Any, kind: Any = oco.AnytimeCOCO) -> Any:
        learner = kind(d.Ball(3))
        for _ in range(2):
            learner.predict()
            learner.update(cost_grad, violation, violation_grad)
        return learner.predict(), learner.certificate()

    def round_() -> dict[str, Any]:
        return {"cost_grad": normal(3), "violation": 0.3, "violation_grad": normal(3)}

    A = np.vstack([np.eye(3), np.ones((1, 3))])
    arcs = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("a", "b")]
    return {
        "Ball": Entry(projected(d.Ball), lambda: {"y": normal(3), "d": Size(3), "radius": 1.0, "center": normal(3)}),
        "Box": Entry(
            projected(d.Box), lambda: {"y": normal(3), "d": Size(3), "lower": -positive(3), "upper": positive(3)}
        ),
        "Simplex": Entry(projected(d.Simplex), lambda: {"y": normal(3), "d": Size(3), "total": 1.0}),
        "CappedSimplex": Entry(
            projected(d.CappedSimplex), lambda: {"y": normal(3), "d": Size(3), "total": 1.0, "cap": 0.5}
        ),
        "L1Ball": Entry(projected(d.L1Ball), lambda: {"y": normal(3), "d": Size(3), "radius": 1.0}),
        "BudgetSet": Entry(projected(d.BudgetSet), lambda: {"y": normal(3), "weights": positive(3), "budget": 1.0}),
        "Polytope": Entry(
            projected(d.Polytope),
            lambda: {"y": normal(3), "A_ub": A.copy(), "b_ub": np.ones(4), "lower": -np.ones(3)},
            refuses=(d.ProjectionFailed,),
        ),
        "FlowPolytope": Entry(
            lambda y, capacity, demand: d.FlowPolytope(arcs, "s", "t", demand, capacity).project(y),
            lambda: {"y": normal(5), "capacity": np.ones(5), "demand": 1.0},
            refuses=(d.ProjectionFailed,),
        ),
        "AnytimeCOCO": Entry(played, round_),
        "DynamicCOCO": Entry(lambda **a: played(**a, kind=oco.DynamicCOCO), round_),
        "OptimisticCOCO": Entry(lambda **a: played(**a, kind=oco.OptimisticCOCO), round_),
        "options": Entry(
            lambda **options: oco.AnytimeCOCO(d.Ball(3), **options).update(normal(3), 0.1, normal(3)).predict(),
            lambda: {
                "lipschitz": 2.0,
                "regret_budget": 2.0,
                "pace": 2.0,
                "eps": 0.3,
                "x0": np.zeros(3),
                "penalty": "budgeted",
            },
        ),
        "hint": Entry(
            lambda cost_grad, a, b: oco.OptimisticCOCO(d.Ball(3)).predict(oco.Hint(cost_grad, a, b)),
            lambda: {"cost_grad": normal(3), "a": normal(3), "b": 0.5},
        ),
        "play_linear": Entry(
            lambda costs, A, b: oco.play_linear(oco.AnytimeCOCO(d.Ball(3)), costs, A, b),
            lambda: {"costs": normal(5, 3), "A": normal(5, 3), "b": positive(5)},
        ),
        "best_fixed": Entry(
            lambda cost_sum, A, b: oco.best_fixed(d.Simplex(3), cost_sum, A, b),
            lambda: {"cost_sum": normal(3), "A": normal(4, 3), "b": positive(4)},
        ),
        "HindsightTracker": Entry(
            lambda c, a, b: oco.HindsightTracker(d.Simplex(3)).push(c, a, b).best(),
            lambda: {"c": normal(3), "a": normal(3), "b": 1.0},
        ),
    }


def of_qubo_relax() -> dict[str, Entry]:
    import qubo_relax as qr
    from qubo_relax import problems as p

    S = normal(5, 5) + normal(5, 5).T
    np.fill_diagonal(S, 0)
    qubo = qr.Qubo(normal(5), S)
    quick = {"restarts": 4, "steps": 20, "rng": 0}

    def solved(problem: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **data: qr.minimize(problem(**data), **quick)

    return {
        "Qubo": Entry(
            lambda **data: qr.minimize(qr.Qubo(**data), **quick),
            lambda: {"linear": normal(5), "quadratic": sparse.csr_array(S), "offset": 1.0, "concavity": 0.0},
        ),
        "from_matrix": Entry(lambda Q: qr.minimize(qr.Qubo.from_matrix(Q), **quick), lambda: {"Q": S.copy()}),
        "from_coo": Entry(
            lambda **data: qr.Qubo.from_coo(**data).energy(np.zeros(5)),
            lambda: {"n": Size(5), "i": np.array([0, 1]), "j": np.array([1, 2]), "v": normal(2), "linear": normal(5)},
        ),
        "energy": Entry(qubo.energy, lambda: {"X": (normal(3, 5) > 0).astype(float)}),
        "gradient": Entry(qubo.gradient, lambda: {"X": (normal(3, 5) > 0).astype(float)}),
        "flip_gains": Entry(qubo.flip_gains, lambda: {"x": (normal(5) > 0).astype(float)}),
        "certify_point": Entry(lambda x: qr.certify_point(qubo, x), lambda: {"x": (normal(5) > 0).astype(float)}),
        "round_point": Entry(lambda x: qr.round_point(qubo, x), lambda: {"x": np.full(5, 0.3)}),
        "minimize": Entry(
            lambda **options: qr.minimize(qubo, **options),
            lambda: {
                "method": "auto",
                "restarts": Size(4),
                "steps": Size(20),
                "time_limit": 1.0,
                "rng": 0,
                "backend": "auto",
            },
        ),
        "LinearConstraint": Entry(
            lambda a, sense, b: qr.LinearConstraint(a, sense, b).key(),
            lambda: {"a": normal(5), "sense": "<=", "b": 1.0},
        ),
        "verify_conditions": Entry(
            lambda a, b: qr.verify_conditions(qubo, [qr.LinearConstraint(a, "<=", b)], time_limit=1.0),
            lambda: {"a": np.ones(5), "b": 2.0},
        ),
        "Knapsack": Entry(
            solved(p.Knapsack), lambda: {"values": positive(4), "weights": np.arange(1.0, 5), "capacity": 6.0}
        ),
        "MultiKnapsack": Entry(
            solved(p.MultiKnapsack),
            lambda: {"values": positive(4), "weights": positive(2, 4), "capacities": np.array([3.0, 4.0])},
        ),
        "GAP": Entry(
            solved(p.GAP),
            lambda: {"profit": positive(3, 2), "weights": np.ones((3, 2)), "capacities": np.array([2.0, 2.0])},
        ),
        "BinPacking": Entry(
            solved(p.BinPacking), lambda: {"weights": np.arange(1.0, 5), "capacity": 6.0, "bins": Size(3)}
        ),
        "TSP": Entry(solved(p.TSP), lambda: {"distances": graph(4) * 2 + 1 - np.eye(4)}),
        "MaxCut": Entry(solved(p.MaxCut), lambda: {"weights": graph(6)}),
        "MaxKCut": Entry(solved(p.MaxKCut), lambda: {"weights": graph(6), "k": Size(3)}),
        "MIS": Entry(solved(p.MIS), lambda: {"graph": graph(6), "weights": positive(6)}),
        "OpenPit": Entry(solved(p.OpenPit), lambda: {"value": normal(4), "arcs": np.array([[0, 1], [2, 3]])}),
        "BinaryLP": Entry(
            solved(p.BinaryLP), lambda: {"c": normal(4), "A": np.ones((1, 4)), "b": np.array([2.0]), "sense": "<="}
        ),
        "QAP": Entry(solved(p.QAP), lambda: {"flow": graph(4), "distance": graph(4)}),
        "LinearAssignment": Entry(solved(p.LinearAssignment), lambda: {"cost": normal(3, 3)}),
        "FacilityLocation": Entry(solved(p.FacilityLocation), lambda: {"cost": positive(3, 2), "opening": positive(2)}),
        "SetCover": Entry(solved(p.SetCover), lambda: {"sets": [[0, 1], [1, 2], [2]], "costs": positive(3)}),
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

    return {
        "fair_embedding": Entry(
            lambda **data: fair.fair_embedding(**data, rng=0, max_iter=20),
            lambda: {**graphs(), "n_components": Size(2), "tolerance": 0.0, "tol": 1e-3, "solver": "auto"},
        ),
        "dense": Entry(
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
        "fairness_report": Entry(fair.fairness_report, lambda: {**graphs(), "labels": labels.copy()}),
        "balance": Entry(fair.balance, lambda: {"labels": labels.copy(), "groups": groups.copy()}),
        "proportion_gap": Entry(fair.proportion_gap, lambda: {"labels": labels.copy(), "groups": groups.copy()}),
        "normalized_cut": Entry(fair.normalized_cut, lambda: {"affinity": graph(), "labels": labels.copy()}),
        "clustering_error": Entry(fair.clustering_error, lambda: {"labels": labels.copy(), "planted": groups.copy()}),
        "adjacency_from_edges": Entry(
            fair.adjacency_from_edges,
            lambda: {"edges": np.array([[0, 1], [1, 2]]), "weights": positive(2), "n_nodes": Size(4)},
        ),
        "modified_sbm": Entry(
            lambda **data: fair.modified_sbm(**data, rng=0).affinity,
            lambda: {"n": Size(40), "n_groups": Size(2), "n_clusters": Size(2)},
        ),
    }
