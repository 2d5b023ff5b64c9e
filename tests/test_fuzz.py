"""Malformed arguments at the public doors of every package: refused in words or answered; no crash, hang, silent NaN.

The ordinary run is small and always the same; `--slow` gives every entry point its share of ten minutes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from lemmata_core import check as core
from lemmata_core.rng import generator
from scipy import sparse

from tests.fuzzing import Entry, Size, check, malformed

SLOW_SECONDS = 600.0
EXAMPLES = 12
SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
)


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


def tensor(*shape: int) -> Any:
    import torch

    return torch.from_numpy(normal(*shape)).float()


def positive(*shape: int) -> Any:
    return np.abs(normal(*shape)) + 0.1


def graph(n: int = 12) -> Any:
    """Two cliques and a bridge."""
    A = np.kron(np.eye(2), np.ones((n // 2, n // 2))) - np.eye(n)
    A[0, n - 1] = A[n - 1, 0] = 1.0
    return A


def of_core() -> dict[str, Entry]:
    return {
        "array": Entry(lambda x: core.array(x, "x", ndim=2), lambda: {"x": normal(3, 4)}),
        "in_range": Entry(lambda x: core.in_range(x, "x", low=0, high=1), lambda: {"x": 0.5}),
        "positive_int": Entry(lambda x: core.positive_int(x, "x"), lambda: {"x": 3}),
        "square_sparse": Entry(lambda x: core.square_sparse(x, "x"), lambda: {"x": sparse.csr_array(graph())}),
        "generator": Entry(generator, lambda: {"rng": 3}),
    }


def of_cg_tensorproduct() -> dict[str, Entry]:
    import cg_tensorproduct as cg

    full = cg.FullTensorProduct("2x0e+1o", "0e+1o", algorithm="dense")
    blocked = cg.FullTensorProduct("0e+1o+2e", "0e+1o+2e", algorithm="blocked")
    connected = cg.FullyConnectedTensorProduct("2x0e+1o", "0e+1o", "2x0e+1o")
    signals = cg.SignalTensorProduct(2, 2, channels=2)
    return {
        "FullTensorProduct": Entry(cg.FullTensorProduct, lambda: {"irreps_in1": "2x0e+1o", "irreps_in2": "0e"}),
        "full": Entry(lambda x, y: full(x, y), lambda: {"x": tensor(4, 5), "y": tensor(4, 4)}, carries=True),
        "blocked": Entry(lambda x, y: blocked(x, y), lambda: {"x": tensor(4, 9), "y": tensor(4, 9)}, carries=True),
        "connected": Entry(lambda x, y: connected(x, y), lambda: {"x": tensor(4, 5), "y": tensor(4, 4)}, carries=True),
        "signals": Entry(
            lambda x, y: signals(x, y), lambda: {"x": tensor(4, 2, 9), "y": tensor(4, 2, 9)}, carries=True
        ),
        "load_path_weights": Entry(
            lambda W: cg.SignalTensorProduct(2, 2, weights="path", rank=9).load_path_weights(W),
            lambda: {"W": tensor(3, 3, 5)},
        ),
        "signal_product": Entry(cg.signal_product, lambda: {"x": tensor(4, 9), "y": tensor(4, 4)}, carries=True),
        "tensor_harmonic_product": Entry(
            cg.tensor_harmonic_product,
            lambda: {"x": tensor(3), "y": tensor(3), "j1": Size(1), "j2": Size(1), "j3": Size(1)},
            carries=True,
        ),
        "rotation_matrix": Entry(cg.rotation_matrix, lambda: {"l": Size(2), "R": rotation()}),
        "wigner_3j": Entry(cg.wigner_3j, lambda: {"l1": Size(1), "l2": Size(2), "l3": Size(2)}),
        "clebsch_gordan": Entry(
            cg.clebsch_gordan, lambda: {"l1": Size(1), "l2": Size(2), "l3": Size(2), "basis": "real"}
        ),
        "coupling_coefficient": Entry(cg.coupling_coefficient, lambda: {"l1": Size(1), "l2": Size(2), "l3": Size(2)}),
        "Irreps": Entry(lambda irreps: str(cg.Irreps(irreps)), lambda: {"irreps": "2x0e+1o"}),
    }


def rotation() -> Any:
    import torch

    return torch.linalg.qr(tensor(3, 3).double())[0]


def of_icl_theory() -> dict[str, Entry]:
    import icl_theory as icl

    bank = icl.PatternBank(d=20, n_relevant=4, n_irrelevant=4, n_outlier=2)
    tasks = icl.tasks_ring(4)
    spec = icl.PromptSpec(length=6)
    model = icl.GatedLinearICL(20)
    xy = {"x": normal(3, 5, 2), "y": normal(3, 5)}
    scan = dict(zip(["u", "delta", "A", "B", "C"], [(2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4)], strict=True))

    def scanned() -> dict[str, Any]:
        made = {name: tensor(*shape) for name, shape in scan.items()}
        return made | {"delta": made["delta"].abs(), "A": -made["A"].abs()}

    return {
        "PatternBank": Entry(
            lambda d, n_relevant, beta: icl.PatternBank(d=d, n_relevant=n_relevant, beta=beta).relevant,
            lambda: {"d": Size(30), "n_relevant": Size(6), "beta": 3.0},
        ),
        "PromptSpec": Entry(
            icl.PromptSpec,
            lambda: {
                "length": Size(6),
                "outlier_fraction": 0.5,
                "kappa_max": 0.5,
                "kappa_outlier": 2.0,
                "labels": "flip",
            },
        ),
        "sample_prompts": Entry(
            lambda tasks, n, rng: icl.sample_prompts(bank, tasks, spec, n, rng).tokens,
            lambda: {"tasks": tasks, "n": Size(4), "rng": 0},
        ),
        "check_coverage": Entry(icl.check_coverage, lambda: {"tasks": tasks, "m": Size(4)}),
        "model": Entry(lambda tokens: model(tokens), lambda: {"tokens": tensor(2, 7, 21)}, carries=True),
        "LinearGaussian": Entry(
            lambda x, y, noise: icl.LinearGaussian(2, noise=noise).predict(x, y), lambda: {**xy, "noise": 0.5}
        ),
        "prior": Entry(
            lambda mean, cov: icl.LinearGaussian(2, prior_mean=mean, prior_cov=cov).predict(**xy),
            lambda: {"mean": normal(2), "cov": np.eye(2)},
        ),
        "SparseLinear": Entry(lambda x, y: icl.SparseLinear(2, 1).predict(x, y), lambda: dict(xy)),
        "LogisticGaussian": Entry(
            lambda x, y: icl.LogisticGaussian(2).predict(x, y), lambda: {**xy, "y": np.sign(xy["y"])}
        ),
        "FiniteTasks": Entry(
            lambda weights, prior, x, y: icl.FiniteTasks(weights, prior).predict(x, y),
            lambda: {**xy, "weights": normal(3, 2), "prior": np.ones(3) / 3},
        ),
        "MarkovDirichlet": Entry(
            lambda seq, concentration: icl.MarkovDirichlet(3, concentration=concentration).predict(seq),
            lambda: {"seq": np.arange(12).reshape(2, 6) % 3, "concentration": 1.0},
        ),
        "prompts_from_table": Entry(
            lambda X, y: icl.prompts_from_table(X, y, 4, 5, rng=0), lambda: {"X": normal(30, 2), "y": normal(30)}
        ),
        "selective_scan": Entry(icl.selective_scan, scanned, carries=True),
        "vote_error": Entry(icl.theory.vote_error, lambda: {"alpha": 0.5, "length": Size(9), "labels": "flip"}),
        "posterior_variance_bound": Entry(
            icl.bounds.posterior_variance_bound,
            lambda: {"k": 3, "B_f": 1.0, "alpha_true": 0.5, "D": positive(2), "nu2": positive(2), "b": positive(2)},
        ),
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
            refuses=(d.ProjectionFailed,) if hasattr(d, "ProjectionFailed") else (),
        ),
        "FlowPolytope": Entry(
            lambda y, capacity, demand: d.FlowPolytope(arcs, "s", "t", demand, capacity).project(y),
            lambda: {"y": normal(5), "capacity": np.ones(5), "demand": 1.0},
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


def of_optim_bas() -> dict[str, Entry]:
    import optim_bas as bas
    import torch

    def stepped(param: Any, grad: Any, **options: Any) -> Any:
        weight = torch.nn.Parameter(param)
        optimizer = bas.BAS([weight], **options)
        weight.grad = grad
        optimizer.step()
        return weight.detach()

    def reference(param: Any, grad: Any, momentum: Any, v: Any, lr: Any, eps: Any) -> Any:
        bas.bas_step(param, grad, momentum, v, 1, lr=lr, betas=(0.9, 0.99), eps=eps, weight_decay=0.1)
        return param, momentum, v

    return {
        "BAS": Entry(
            lambda **options: stepped(tensor(4, 3), tensor(4, 3), **options),
            lambda: {
                "lr": 1e-3,
                "betas": (0.9, 0.999),
                "eps": 1e-8,
                "weight_decay": 0.01,
                "block": "row",
                "scale": "rms",
            },
            carries=True,
        ),
        "BAS parameters": Entry(
            lambda params: bas.BAS(params), lambda: {"params": [tensor(3, 3)]}, refuses=(TypeError, ValueError)
        ),
        "bas_step": Entry(
            reference,
            lambda: {
                "param": tensor(4, 3),
                "grad": tensor(4, 3),
                "momentum": tensor(4, 3),
                "v": tensor(4).abs(),
                "lr": 1e-3,
                "eps": 1e-8,
            },
            carries=True,
            writes=("param", "momentum", "v"),
        ),
        "encode": Entry(bas.encode, lambda: {"x": tensor(3, 4), "scale": tensor(3, 1).abs()}, carries=True),
        "decode": Entry(
            bas.decode,
            lambda: {"code": torch.arange(12).byte().reshape(3, 4), "scale": tensor(3, 1).abs()},
            carries=True,
        ),
        "pack_signs": Entry(bas.pack_signs, lambda: {"x": tensor(11)}),
        "unpack_signs": Entry(bas.unpack_signs, lambda: {"packed": torch.arange(2).byte(), "numel": 11}),
    }


def of_optim_rmnp() -> dict[str, Entry]:
    import optim_rmnp as rmnp
    import torch

    def stepped(**options: Any) -> Any:
        weight = torch.nn.Parameter(tensor(4, 3))
        optimizer = rmnp.RMNP([weight], **options)
        weight.grad = tensor(4, 3)
        optimizer.step()
        return weight.detach()

    def reference(param: Any, grad: Any, buffer: Any, lr: Any, eps: Any) -> Any:
        rule = {"weight_decay": 0.1, "momentum": 0.9, "nesterov": True, "scale": 1.0}
        rmnp.rmnp_step(param, grad, buffer, lr=lr, eps=eps, **rule)
        return param, buffer

    return {
        "RMNP": Entry(
            stepped,
            lambda: {
                "lr": 4e-3,
                "weight_decay": 0.1,
                "momentum": 0.9,
                "eps": 1e-12,
                "nesterov": True,
                "zero_rows": "step",
            },
            carries=True,
        ),
        "RMNP parameters": Entry(
            lambda params: rmnp.RMNP(params), lambda: {"params": [tensor(3, 3)]}, refuses=(TypeError, ValueError)
        ),
        "rmnp_step": Entry(
            reference,
            lambda: {"param": tensor(4, 3), "grad": tensor(4, 3), "buffer": tensor(4, 3), "lr": 4e-3, "eps": 1e-12},
            carries=True,
            writes=("param", "buffer"),
        ),
        "row_normalize": Entry(rmnp.row_normalize, lambda: {"x": tensor(4, 3), "eps": 1e-12, "dim": -1}, carries=True),
        "dominance": Entry(rmnp.dominance, lambda: {"matrix": tensor(4, 6), "orientation": "rows"}),
        "polar_alignment": Entry(rmnp.polar_alignment, lambda: {"matrix": tensor(4, 6)}),
        "param_groups": Entry(
            lambda **options: rmnp.param_groups(torch.nn.Linear(3, 3), **options),
            lambda: {"lr": 4e-3, "aux_lr": 3e-3, "weight_decay": 0.1, "policy": "hidden", "head": "no", "stacked": {}},
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
            lambda: {"values": positive(4), "weights": np.arange(1.0, 5), "capacities": np.array([3.0, 4.0])},
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


def of_rl_mfpo() -> dict[str, Entry]:
    import rl_mfpo as rl
    import torch
    from rl_mfpo import functional as f

    agent = rl.MFPO("rl_mfpo/Bandit-v0", seed=0, config="small")
    observation = np.asarray(agent.observation_space.sample()) if hasattr(agent, "observation_space") else normal(1)
    config = rl.MFPOConfig.preset("small")

    def added(**rows: Any) -> Any:
        buffer = rl.ReplayBuffer(8, 3, 2)
        buffer.add(**rows)
        return buffer.sample(2, np.random.default_rng(0))

    def field(x: Any, r: Any, t: Any) -> Any:
        return x * (t - r)

    return {
        "predict": Entry(
            lambda observation, deterministic, steps: agent.predict(
                observation, deterministic=deterministic, steps=steps
            )[0],
            lambda: {"observation": observation.copy(), "deterministic": True, "steps": Size(2)},
        ),
        "MFPOConfig": Entry(
            lambda **fields: config.override(**fields),
            lambda: {
                "learning_rate": 3e-4,
                "gamma": 0.99,
                "tau": 0.005,
                "batch_size": 64,
                "velocity": "adaptive",
                "critic": "scalar",
            },
        ),
        "ReplayBuffer": Entry(
            added,
            lambda: {
                "obs": normal(2, 3),
                "action": normal(2, 2),
                "reward": normal(2),
                "next_obs": normal(2, 3),
                "terminated": np.zeros(2),
            },
        ),
        "meanflow_target": Entry(
            lambda **data: f.meanflow_target(field, **data),
            lambda: {"x": tensor(4, 2), "r": tensor(4, 1), "t": tensor(4, 1), "v": tensor(4, 2)},
            carries=True,
        ),
        "sample_flow": Entry(
            lambda noise, steps: f.sample_flow(field, noise, steps=steps),
            lambda: {"noise": tensor(4, 2), "steps": Size(2)},
            carries=True,
        ),
        "project_categorical": Entry(
            f.project_categorical,
            lambda: {"probs": torch.full((4, 5), 0.2), "atoms_shifted": tensor(4, 5), "v_min": -2.0, "v_max": 2.0},
            carries=True,
        ),
        "truncated_normal": Entry(
            f.truncated_normal, lambda: {"low": -tensor(4).abs(), "high": tensor(4).abs()}, carries=True
        ),
        "sample_time_pairs": Entry(
            f.sample_time_pairs, lambda: {"n": Size(4), "dist": "logit_normal", "data_proportion": 0.75}
        ),
    }


MAKERS = {name.removeprefix("of_"): make for name, make in sorted(globals().items()) if name.startswith("of_")}


@cache
def entries(package: str) -> dict[str, Entry]:
    return MAKERS[package]()


def fuzz(entry: Entry, number: int) -> None:
    """`EXAMPLES` calls with malformed arguments, the same ones for the same number."""

    @seed(number)
    @SETTINGS
    @given(st.data())
    def spoilt(data: st.DataObject) -> None:
        check(entry, data.draw(malformed(entry.good()), label="spoilt"))

    spoilt()


def test_all_packages_are_here():
    from pathlib import Path

    folders = {
        path.name.replace("-", "_") for path in (Path(__file__).parents[1] / "packages").iterdir() if path.is_dir()
    }
    assert set(MAKERS) == {"core", *folders}


@pytest.mark.parametrize("package", MAKERS)
def test_good_arguments_are_answered(package):
    for entry in entries(package).values():
        entry.call(**entry.good())


@pytest.mark.parametrize("package", MAKERS)
def test_malformed_arguments_are_refused_or_answered(package, subtests):
    for name, entry in entries(package).items():
        with subtests.test(entry=name):
            fuzz(entry, 0)


@pytest.mark.slow
@pytest.mark.timeout(int(SLOW_SECONDS))
@pytest.mark.parametrize("package", MAKERS)
def test_malformed_arguments_for_ten_minutes_in_all(package, subtests):
    share = SLOW_SECONDS / len(MAKERS) / len(entries(package)) * 0.9
    for name, entry in entries(package).items():
        end = time.perf_counter() + share
        with subtests.test(entry=name):
            for number in itertools.count(1):
                fuzz(entry, number)
                if time.perf_counter() > end:
                    break
