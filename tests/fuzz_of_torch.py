"""Public doors of the packages whose numbers are tensors, each with a good call, for `test_fuzz.py`.

Long functions on purpose: each is a plain list of one package's doors, with no step to name inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzzing import Entry, Size, normal, positive, tensor


def of_cg_tensorproduct() -> dict[str, Entry]:
    import cg_tensorproduct as cg
    import torch

    irreps, small = cg.Irreps("2x0e+1o"), cg.FullTensorProduct("0e", "0e")
    full = cg.FullTensorProduct("2x0e+1o", "0e+1o", algorithm="dense")
    blocked = cg.FullTensorProduct("0e+1o+2e", "0e+1o+2e", algorithm="blocked")
    connected = cg.FullyConnectedTensorProduct("2x0e+1o", "0e+1o", "2x0e+1o")
    signals = cg.SignalTensorProduct(2, 2, channels=2)
    learned = cg.SignalTensorProduct(2, 2, weights="path", rank=9)
    weighted = cg.TensorProduct("2x0e+1o", "0e+1o", "2x0e", [(0, 0, 0, "uvw", True)], shared_weights=False)
    elementwise = cg.ElementwiseTensorProduct("2x0e+1o", "2x0e+1o")
    return {
        "FullTensorProduct": Entry(cg.FullTensorProduct, lambda: {"irreps_in1": "2x0e+1o", "irreps_in2": "0e"}),
        "FullTensorProduct dense": Entry(
            lambda x, y: full(x, y), lambda: {"x": tensor(4, 5), "y": tensor(4, 4)}, carries=True
        ),
        "FullTensorProduct blocked": Entry(
            lambda x, y: blocked(x, y), lambda: {"x": tensor(4, 9), "y": tensor(4, 9)}, carries=True
        ),
        "FullyConnectedTensorProduct": Entry(
            lambda x, y: connected(x, y), lambda: {"x": tensor(4, 5), "y": tensor(4, 4)}, carries=True
        ),
        "SignalTensorProduct": Entry(
            lambda x, y: signals(x, y), lambda: {"x": tensor(4, 2, 9), "y": tensor(4, 2, 9)}, carries=True
        ),
        "SignalTensorProduct.load_path_weights": Entry(
            lambda W, tol: learned.load_path_weights(W, tol=tol), lambda: {"W": tensor(3, 3, 5), "tol": 1e-10}
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
        "gaunt_coefficient": Entry(cg.gaunt_coefficient, lambda: {"l1": Size(1), "l2": Size(1), "l3": Size(2)}),
        "bracket_coefficient": Entry(cg.bracket_coefficient, lambda: {"l1": Size(1), "l2": Size(2), "l3": Size(2)}),
        "ElementwiseTensorProduct": Entry(
            lambda x, y: elementwise(x, y), lambda: {"x": tensor(4, 5), "y": tensor(4, 5)}, carries=True
        ),
        "ElementwiseTensorProduct options": Entry(
            lambda **a: str(cg.ElementwiseTensorProduct(**a).irreps_out),
            lambda: {"irreps_in1": "2x0e+1o", "irreps_in2": "2x0e+1o", "irrep_normalization": "component"},
        ),
        "TensorProduct": Entry(
            lambda x, y, weight: weighted(x, y, weight),
            lambda: {"x": tensor(4, 5), "y": tensor(4, 4), "weight": tensor(4, weighted.weight_numel)},
            carries=True,
        ),
        "TensorProduct options": Entry(
            lambda **a: str(cg.TensorProduct("0e", "0e", "0e", **a).irreps_out),
            lambda: {"instructions": [(0, 0, 0, "uvw", True)], "in1_var": [1.0], "path_normalization": "element"},
        ),
        "FullyConnectedTensorProduct options": Entry(
            lambda **a: str(cg.FullyConnectedTensorProduct(**a).irreps_out),
            lambda: {"irreps_in1": "2x0e+1o", "irreps_in2": "0e", "irreps_out": "0e", "irrep_normalization": "norm"},
        ),
        "SignalTensorProduct options": Entry(
            lambda **a: str(cg.SignalTensorProduct(**a).irreps_even),
            lambda: {"lmax1": Size(2), "lmax2": Size(1), "lmax_out": Size(2), "channels": Size(2), "couplings": "both"},
        ),
        "SignalTensorProduct more options": Entry(
            lambda **a: str(cg.SignalTensorProduct(2, 1, weights="path", **a).irreps_even),
            lambda: {"rank": Size(2), "normalization": "component", "transform": "auto"},
        ),
        "choose_algorithm": Entry(
            lambda batch, device: cg.choose_algorithm(full, batch, device), lambda: {"batch": Size(4), "device": "cpu"}
        ),
        "explain": Entry(lambda batch: cg.explain(full, batch), lambda: {"batch": Size(4)}),
        "autotune": Entry(
            lambda batch, backward: cg.autotune(small, batch, backward=backward, cache=False).choice,
            lambda: {"batch": Size(2), "backward": False},
        ),
        "replace_e3nn": Entry(
            lambda model, kinds: cg.replace_e3nn(model, kinds=kinds),
            lambda: {"model": torch.nn.Linear(1, 1), "kinds": ("FullTensorProduct",)},
        ),
        "Irrep": Entry(lambda given, p: str(cg.Irrep(given, p)), lambda: {"given": Size(1), "p": 1}),
        "Irreps methods": Entry(
            lambda R, n: (irreps.D_from_matrix(R), irreps.randn(n, -1).shape), lambda: {"R": rotation(), "n": Size(2)}
        ),
        "Irreps.spherical_harmonics": Entry(
            lambda lmax: str(cg.Irreps.spherical_harmonics(lmax)), lambda: {"lmax": Size(2)}
        ),
        "Irreps": Entry(lambda irreps: str(cg.Irreps(irreps)), lambda: {"irreps": "2x0e+1o"}),
    }


def of_icl_theory() -> dict[str, Entry]:
    import icl_theory as icl

    bank = icl.PatternBank(d=20, n_relevant=4, n_irrelevant=4, n_outlier=2)
    tasks = icl.tasks_ring(4)
    spec = icl.PromptSpec(length=6)
    model = icl.GatedLinearICL(20)
    families = [icl.LinearGaussian(2), icl.SparseLinear(2, 1)]
    mixture = icl.Mixture(families)
    xy = {"x": normal(3, 5, 2), "y": normal(3, 5)}
    scan = dict(zip(["u", "delta", "A", "B", "C"], [(2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4)], strict=True))

    def scanned() -> dict[str, Any]:
        made = {name: tensor(*shape) for name, shape in scan.items()}
        return made | {"delta": made["delta"].abs(), "A": -made["A"].abs()}

    def channels_first() -> dict[str, Any]:
        return {name: x if name == "A" else x.mT for name, x in scanned().items()}

    few = {"labels": ("flip",), "placements": ("random",), "outlier_mix": None}
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
        "GatedLinearICL": Entry(lambda tokens: model(tokens), lambda: {"tokens": tensor(2, 7, 21)}, carries=True),
        "LinearGaussian": Entry(
            lambda x, y, noise: icl.LinearGaussian(2, noise=noise).predict(x, y), lambda: {**xy, "noise": 0.5}
        ),
        "LinearGaussian prior": Entry(
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
        "theory.bayes_floor": Entry(icl.theory.bayes_floor, lambda: {"alpha": 0.5, "length": Size(9)}),
        "theory.same_pattern_floor": Entry(icl.theory.same_pattern_floor, lambda: {"alpha": 0.5, "length": Size(9)}),
        "theory.conditions": Entry(
            lambda batch, eps, lr: [c.term for c in icl.theory.conditions(bank, spec, batch=batch, eps=eps, lr=lr)],
            lambda: {"batch": Size(4), "eps": 0.1, "lr": 0.5},
        ),
        "bounds.bayes_gap_rate": Entry(
            icl.bounds.bayes_gap_rate, lambda: {"m": 3.0, "N": 4.0, "p": 5.0, "alpha": 0.5, "d_eff": 2.0}
        ),
        "bounds.optimal_width": Entry(
            icl.bounds.optimal_width, lambda: {"N": 4.0, "p": 5.0, "alpha": 0.5, "d_eff": 2.0}
        ),
        "bounds.shift_bound": Entry(
            icl.bounds.shift_bound, lambda: {"B_M": 1.0, "B_f": 1.0, "L": 1.0, "lip": 1.0, "wasserstein": positive(3)}
        ),
        "bounds.estimate_drift": Entry(
            lambda n, rng, length: icl.bounds.estimate_drift(mixture, n, rng, length=length),
            lambda: {"n": Size(20), "rng": 0, "length": Size(3)},
        ),
        "Mixture": Entry(
            lambda x, y, weights: icl.Mixture(families, weights).predict(x, y),
            lambda: {**xy, "weights": np.array([0.5, 0.5])},
        ),
        "PatternOutliers": Entry(
            lambda n, length, rule: (
                icl.PatternOutliers(bank, tasks, spec, rule=rule).sample(n, length, np.random.default_rng(0)).y
            ),
            lambda: {"n": Size(3), "length": Size(6), "rule": "known"},
        ),
        "mixture_study": Entry(
            lambda n, length, rng: icl.mixture_study(mixture, n, length, rng, fit_from=2).n,
            lambda: {"n": Size(20), "length": Size(4), "rng": 0},
        ),
        "decompose": Entry(
            lambda n, length, rng: (
                icl.decompose(lambda x, y: np.zeros((len(y), y.shape[1] - 1)), families[0], n, length, rng).n
            ),
            lambda: {"n": Size(20), "length": Size(4), "rng": 0},
        ),
        "evaluate": Entry(
            lambda tasks, n, rng: icl.evaluate(model, bank, tasks, spec, n=n, rng=rng),
            lambda: {"tasks": tasks, "n": Size(8), "rng": 0},
        ),
        "train": Entry(
            lambda steps, batch, lr, rng: (
                icl.train(icl.GatedLinearICL(20), bank, tasks, spec, steps=steps, batch=batch, lr=lr, rng=rng).losses
            ),
            lambda: {"steps": Size(2), "batch": Size(4), "lr": 0.1, "rng": 0},
            carries=True,
        ),
        "fit_least_squares": Entry(
            lambda steps, batch, lr, length: (
                icl.fit_least_squares(
                    icl.UniformAttention(2, 3, hidden=4), families[0], steps=steps, batch=batch, lr=lr, length=length
                ).losses
            ),
            lambda: {"steps": Size(2), "batch": Size(4), "lr": 0.01, "length": Size(4)},
            carries=True,
        ),
        "steps_to_loss": Entry(
            lambda loss, batch, limit: icl.steps_to_loss(
                icl.GatedLinearICL(20), bank, tasks, spec, loss=loss, batch=batch, limit=limit, n_validation=8
            ),
            lambda: {"loss": 0.2, "batch": Size(4), "limit": Size(2)},
        ),
        "stream_prompts": Entry(
            lambda tasks, batch, rng: next(icl.stream_prompts(bank, tasks, spec, batch, rng)).tokens,
            lambda: {"tasks": tasks, "batch": Size(4), "rng": 0},
        ),
        "stress": Entry(
            lambda **options: icl.stress(model, bank, tasks, **few, **options),
            lambda: {"alphas": [0.2], "kappas": [2.0], "length": Size(6), "n": Size(8)},
        ),
        "phase_diagram": Entry(
            lambda **options: icl.phase_diagram(models=("none",), **options).table.rows,
            lambda: {"alphas": [0.2], "train_fractions": [0.2], "seeds": Size(1), "steps": Size(1), "n": Size(8)},
        ),
        "probe_attention": Entry(
            lambda tasks, n: icl.probe_attention(model, bank, tasks, spec, n=n).rows,
            lambda: {"tasks": tasks, "n": Size(8)},
        ),
        "probe_gates": Entry(
            lambda tasks, n: str(icl.probe_gates(model, bank, tasks, spec, n=n)), lambda: {"tasks": tasks, "n": Size(8)}
        ),
        "gate_weights": Entry(icl.gate_weights, lambda: {"a": tensor(2, 5)}, carries=True),
        "tasks_all": Entry(icl.tasks_all, lambda: {"m": Size(4)}),
        "tasks_ring": Entry(icl.tasks_ring, lambda: {"m": Size(4)}),
        "selective_scan_fn": Entry(
            icl.selective_scan_fn,
            lambda: {name: x.mT if name != "A" else x for name, x in scanned().items()},
            carries=True,
        ),
        "SoftHistogram": Entry(
            lambda m, low, x: icl.SoftHistogram(m, low)(x),
            lambda: {"m": Size(3), "low": -1.0, "x": tensor(2, 5)},
            carries=True,
        ),
        **{
            kind: Entry(
                lambda d, rng, tokens, kind=kind, options=options: getattr(icl, kind)(d, **options, rng=rng)(tokens),
                lambda: {"d": Size(20), "rng": 0, "tokens": tensor(2, 7, 21)},
                carries=True,
            )
            for kind, options in {
                "AttentionICL": {},
                "DeepICL": {"n_layers": 1},
                "LinearAttentionICL": {},
                "MambaICL": {},
            }.items()
        },
        **{
            kind: Entry(
                lambda d, rng, x, kind=kind: getattr(icl, kind)(d, rng=rng)(x),
                lambda: {"d": Size(4), "rng": 0, "x": tensor(2, 5, 4)},
                carries=True,
            )
            for kind in ("MambaBlock", "MambaLayer")
        },
        "UniformAttention": Entry(
            lambda m, hidden, x, y: icl.UniformAttention(2, m, hidden=hidden)(x, y),
            lambda: {"m": Size(3), "hidden": Size(4), "x": tensor(2, 5, 2), "y": tensor(2, 5)},
            carries=True,
        ),
        "selective_scan": Entry(icl.selective_scan, scanned, carries=True),
        "theory.vote_error": Entry(icl.theory.vote_error, lambda: {"alpha": 0.5, "length": Size(9), "labels": "flip"}),
        "bounds.posterior_variance_bound": Entry(
            icl.bounds.posterior_variance_bound,
            lambda: {"k": 3, "B_f": 1.0, "alpha_true": 0.5, "D": positive(2), "nu2": positive(2), "b": positive(2)},
        ),
    }


def rotation() -> Any:
    import torch

    return torch.linalg.qr(tensor(3, 3).double())[0]
