"""Public doors of the packages whose numbers are tensors, each with a good call, for `test_fuzz.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzzing import Entry, Size, normal, positive, tensor


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
            lambda: {"lr": 4e-3, "aux_lr": 3e-3, "weight_decay": 0.1, "policy": "hidden", "stacked": {}},
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

    # Mathematics for other people's algorithms, under torch.compile too: no tensor, or one of another shape, is torch's
    # own error.
    torchs = (ArithmeticError, AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)

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
            refuses=torchs,
        ),
        "sample_flow": Entry(
            lambda noise, steps: f.sample_flow(field, noise, steps=steps),
            lambda: {"noise": tensor(4, 2), "steps": Size(2)},
            carries=True,
            refuses=torchs,
        ),
        "project_categorical": Entry(
            f.project_categorical,
            lambda: {"probs": torch.full((4, 5), 0.2), "atoms_shifted": tensor(4, 5), "v_min": -2.0, "v_max": 2.0},
            carries=True,
            refuses=torchs,
        ),
        "truncated_normal": Entry(
            f.truncated_normal, lambda: {"low": -tensor(4).abs(), "high": tensor(4).abs()}, carries=True, refuses=torchs
        ),
        "sample_time_pairs": Entry(
            f.sample_time_pairs, lambda: {"n": Size(4), "dist": "logit_normal", "data_proportion": 0.75}
        ),
    }


def rotation() -> Any:
    import torch

    return torch.linalg.qr(tensor(3, 3).double())[0]
