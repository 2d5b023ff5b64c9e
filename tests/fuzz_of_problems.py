"""Public doors of the packages that solve combinatorial problems, each with a good call, for `test_fuzz.py`.

Long functions on purpose: each is a plain list of one package's doors, with no step to name inside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tests.fuzzing import Entry, Size, graph, normal, positive


def of_lap_warmstart() -> dict[str, Entry]:
    import lap_warmstart as lap
    from lap_warmstart import predict as p
    from lap_warmstart.compat.lap import lapjv, lapmod
    from lap_warmstart.compat.scipy import min_weight_full_bipartite_matching

    def opened(r: lap.AssignmentResult) -> tuple[Any, ...]:
        return r.row_ind, r.col_ind, r.u, r.v, r.objective, r.status

    class Guess:
        def __init__(self, duals: Any) -> None:
            self.duals = duals

        def predict(self, _cost: Any) -> Any:
            return self.duals

    known = lap.solve(normal(4, 5))
    linear = p.LinearRow.fit([normal(4, 5), normal(5, 5)])
    return {
        "solve": Entry(lambda cost: opened(lap.solve(cost)), lambda: {"cost": normal(5, 5)}),
        "solve rectangular": Entry(
            lambda cost, method: opened(lap.solve(cost, method=method)),
            lambda: {"cost": normal(6, 4), "method": "core"},
        ),
        "solve gate": Entry(
            lambda cost, gate, maximize: opened(lap.solve(cost, unmatched_cost=gate, maximize=maximize)),
            lambda: {"cost": positive(4, 5), "gate": 0.5, "maximize": False},
        ),
        "solve partial": Entry(
            lambda cost: opened(lap.solve(cost, on_infeasible="partial")), lambda: {"cost": normal(5, 4)}
        ),
        "solve sparse": Entry(lambda cost: opened(lap.solve(cost)), lambda: {"cost": sparse.csr_array(positive(5, 5))}),
        "RowDuals": Entry(
            lambda cost, warm: opened(lap.solve(cost, warm_start=lap.RowDuals(warm))),
            lambda: {"cost": normal(5, 6), "warm": normal(5)},
        ),
        "ColumnDuals": Entry(
            lambda cost, v: opened(lap.solve(cost, warm_start=lap.ColumnDuals(v))),
            lambda: {"cost": normal(5, 6), "v": normal(6)},
        ),
        "solve_batch": Entry(
            lambda costs: [opened(r) for r in lap.solve_batch(costs)], lambda: {"costs": normal(3, 4, 4)}
        ),
        "AssignmentStream": Entry(
            lambda cost, ids: opened(lap.AssignmentStream().solve(cost, row_ids=ids)),
            lambda: {"cost": normal(3, 4), "ids": [1, 2, 3]},
        ),
        "linear_sum_assignment": Entry(
            lap.linear_sum_assignment, lambda: {"cost": normal(4, 4)}, refuses=(ValueError,)
        ),
        "certify": Entry(lambda cost: lap.certify(cost, known), lambda: {"cost": normal(4, 5)}),
        "lapjv": Entry(lapjv, lambda: {"cost": normal(4, 4), "cost_limit": 0.5}),
        "lapmod": Entry(
            lapmod,
            lambda: {
                "n": Size(2),
                "cc": normal(3),
                "ii": np.array([0, 2, 3]),
                "kk": np.array([0, 1, 0]),
                "return_cost": True,
            },
        ),
        "min_weight_full_bipartite_matching": Entry(
            min_weight_full_bipartite_matching,
            lambda: {"biadjacency": sparse.csr_array(positive(4, 4)), "maximize": False},
            refuses=(ValueError, TypeError),
        ),
        "solve options": Entry(
            lambda **options: opened(lap.solve(normal(5, 5), **options)),
            lambda: {"on_infeasible": "raise", "warm_start": normal(5), "method": "auto", "fallback": "bound"},
        ),
        "AssignmentStream options": Entry(
            lambda **options: opened(lap.AssignmentStream(**options).solve(normal(3, 4))),
            lambda: {"unmatched_cost": 0.5, "on_infeasible": "raise", "method": "auto", "fallback": "bound"},
        ),
        "AssignmentResult.from_dict": Entry(
            lambda **changed: opened(lap.AssignmentResult.from_dict({**known.to_dict(), **changed})),
            known.to_dict,
            refuses=(KeyError, TypeError, ValueError),
        ),
        "dual_bound": Entry(p.dual_bound, lambda: {"cost": normal(4, 5), "v": -positive(5)}),
        "KthSmallest": Entry(
            lambda cost, k: p.KthSmallest(k).predict(cost), lambda: {"cost": normal(4, 5), "k": Size(2)}
        ),
        "RowMin": Entry(p.RowMin().predict, lambda: {"cost": normal(4, 5)}),
        "RowMean": Entry(p.RowMean().predict, lambda: {"cost": normal(4, 5)}),
        "LinearRow": Entry(linear.predict, lambda: {"cost": normal(4, 5)}),
        "LinearRow.fit": Entry(
            lambda costs, ridge: p.LinearRow.fit(costs, ridge).predict(normal(4, 5)),
            lambda: {"costs": normal(3, 4, 5), "ridge": 1.0},
        ),
        "RowDualNet": Entry(p.RowDualNet.load().predict, lambda: {"cost": normal(4, 20)}),
        "DualPredictor": Entry(
            lambda duals: opened(lap.solve(normal(4, 5), warm_start=Guess(duals))), lambda: {"duals": normal(4)}
        ),
        "min_trick": Entry(p.min_trick, lambda: {"cost": normal(4, 5), "u": normal(4)}),
        "density": Entry(p.density, lambda: {"cost": normal(4, 5), "u": normal(4), "v": normal(5)}),
    }


def of_qubo_relax() -> dict[str, Entry]:
    import qubo_relax as qr
    from qubo_relax import problems as p

    S = normal(5, 5) + normal(5, 5).T
    np.fill_diagonal(S, 0)
    qubo = qr.Qubo(normal(5), S)
    quick = {"restarts": 4, "steps": 20, "rng": 0}

    knapsack, tsp = p.Knapsack([3, 4, 5, 1], [1, 2, 3, 1], 3), p.TSP(graph(4) + 1 - np.eye(4))

    def solved(problem: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **data: qr.minimize(problem(**data), **quick)

    def bqm(linear: Any, offset: Any) -> Any:
        import dimod

        return dimod.BinaryQuadraticModel({0: linear, 1: -1.0}, {(0, 1): 0.5}, offset, "BINARY")

    def wrote(linear: Any, name: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            qr.write(qr.Qubo(linear, S.copy()), path)
            return qr.read(path).linear

    return {
        "Qubo": Entry(
            lambda **data: qr.minimize(qr.Qubo(**data), **quick),
            lambda: {"linear": normal(5), "quadratic": sparse.csr_array(S), "offset": 1.0, "concavity": 0.0},
        ),
        "Qubo.from_matrix": Entry(lambda Q: qr.minimize(qr.Qubo.from_matrix(Q), **quick), lambda: {"Q": S.copy()}),
        "Qubo.from_coo": Entry(
            lambda **data: qr.Qubo.from_coo(**data).energy(np.zeros(5)),
            lambda: {"n": Size(5), "i": np.array([0, 1]), "j": np.array([1, 2]), "v": normal(2), "linear": normal(5)},
        ),
        "Qubo.energy": Entry(qubo.energy, lambda: {"X": (normal(3, 5) > 0).astype(float)}),
        "Qubo.gradient": Entry(qubo.gradient, lambda: {"X": (normal(3, 5) > 0).astype(float)}),
        "Qubo.flip_gains": Entry(qubo.flip_gains, lambda: {"x": (normal(5) > 0).astype(float)}),
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
        "KSubset": Entry(solved(p.KSubset), lambda: {"values": normal(4), "k": Size(2), "quadratic": graph(4)}),
        "Partition": Entry(solved(p.Partition), lambda: {"weights": graph(4)}),
        "MWIS": Entry(solved(p.MWIS), lambda: {"graph": graph(4), "weights": positive(4)}),
        "Colouring": Entry(solved(p.Colouring), lambda: {"graph": graph(4), "colours": Size(3)}),
        "VertexCover": Entry(solved(p.VertexCover), lambda: {"graph": graph(4), "weights": positive(4)}),
        "MaxClique": Entry(solved(p.MaxClique), lambda: {"graph": graph(4), "weights": positive(4)}),
        "GraphMatching": Entry(solved(p.GraphMatching), lambda: {"first": graph(4), "second": graph(4)}),
        "SetPacking": Entry(solved(p.SetPacking), lambda: {"sets": [[0, 1], [1, 2], [2]], "values": positive(3)}),
        "OpenPit periods": Entry(
            solved(p.OpenPit),
            lambda: {
                "value": normal(4),
                "arcs": np.array([[0, 1], [2, 3]]),
                "resource": positive(4),
                "capacity": np.array([[2.0, 2.0]]),
                "periods": Size(2),
                "discount": 0.1,
            },
        ),
        "Problem": Entry(
            lambda solution, formulation: (
                knapsack.objective(solution),
                knapsack.is_feasible(solution),
                knapsack.qubo(formulation),
            ),
            lambda: {"solution": np.array([1, 0, 0, 1]), "formulation": None},
        ),
        "TSP methods": Entry(
            lambda tour: (tsp.objective(tour), tsp.is_feasible(tour), tsp.encode(tour)),
            lambda: {"tour": np.array([0, 2, 1, 3])},
        ),
        "suggest_weights": Entry(
            lambda formulation, margin: qr.suggest_weights(knapsack, formulation, margin=margin),
            lambda: {"formulation": None, "margin": 1.0},
        ),
        "repair": Entry(
            lambda a, b, margin: qr.repair(qubo, [qr.LinearConstraint(a, "<=", b)], margin=margin),
            lambda: {"a": np.ones(5), "b": 2.0, "margin": 1.0},
        ),
        "from_bqm": Entry(
            lambda linear, offset: qr.minimize(qr.from_bqm(bqm(linear, offset)), **quick),
            lambda: {"linear": 1.0, "offset": 0.5},
            refuses=(TypeError, ValueError, OverflowError),
        ),
        "to_bqm": Entry(
            lambda linear: qr.to_bqm(qr.Qubo(linear, S.copy())).energy(dict.fromkeys(range(5), 0)),
            lambda: {"linear": normal(5)},
        ),
        "RelaxSampler": Entry(
            lambda num_reads, linear: qr.RelaxSampler().sample(bqm(linear, 0.0), num_reads=num_reads).record.energy,
            lambda: {"num_reads": Size(2), "linear": 1.0},
            refuses=(TypeError, ValueError, OverflowError),
        ),
        "write": Entry(wrote, lambda: {"linear": normal(5), "name": "a.qubo"}, refuses=(OSError, TypeError)),
        "SetCover": Entry(solved(p.SetCover), lambda: {"sets": [[0, 1], [1, 2], [2]], "costs": positive(3)}),
    }
