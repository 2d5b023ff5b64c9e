"""Public doors of the optimizers and of reinforcement learning, each with a good call, for `test_fuzz.py`.

Long functions on purpose: each is a plain list of one package's doors, with no step to name inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzzing import Entry, Size, normal, tensor


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
        "block_scale": Entry(
            lambda direction, v, step, eps: bas.block_scale(direction, v, step, betas=(0.9, 0.99), eps=eps),
            lambda: {"direction": tensor(4, 3), "v": tensor(4).abs(), "step": Size(1), "eps": 1e-8},
            carries=True,
        ),
        "state_bytes": Entry(bas.state_bytes, lambda: {"optimizer": bas.BAS([torch.nn.Parameter(tensor(3, 3))])}),
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
        "describe": Entry(
            lambda groups: str(rmnp.describe(groups)), lambda: {"groups": [{"params": [tensor(3, 3)], "lr": 0.1}]}
        ),
        "DominanceMonitor": Entry(
            lambda every, max_rows: rmnp.DominanceMonitor(
                rmnp.RMNP([torch.nn.Parameter(tensor(4, 3))]), every=every, max_rows=max_rows
            ).to_table(),
            lambda: {"every": Size(2), "max_rows": Size(4)},
        ),
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
    observation = normal(1)
    config = rl.MFPOConfig.preset("small")

    def added(**rows: Any) -> Any:
        buffer = rl.ReplayBuffer(8, 3, 2)
        buffer.add(**rows)
        return buffer.sample(2, np.random.default_rng(0))

    def filled() -> Any:
        buffer = rl.ReplayBuffer(8, 3, 2)
        buffer.add(normal(2, 3), normal(2, 2), normal(2), normal(2, 3), np.zeros(2))
        return buffer

    policy = rl.MeanFlowPolicy(3, 2, config)

    def field(x: Any, r: Any, t: Any) -> Any:
        return x * (t - r)

    return {
        "MFPO.predict": Entry(
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
        "MFPOConfig.preset": Entry(rl.MFPOConfig.preset, lambda: {"name": "small"}),
        "MFPOConfig.from_dict": Entry(
            lambda **changed: rl.MFPOConfig.from_dict({**config.to_dict(), **changed}),
            lambda: {"gamma": 0.99, "batch_size": Size(64), "velocity": "adaptive"},
        ),
        "MFPO": Entry(
            lambda **options: rl.MFPO("rl_mfpo/Bandit-v0", config="small", **options).close(),
            lambda: {"seed": 0, "device": "cpu", "n_envs": Size(1), "vectorization": "sync"},
        ),
        "MFPOLearner": Entry(
            lambda obs_dim, act_dim, seed: rl.MFPOLearner(obs_dim, act_dim, config, seed=seed).act_dim,
            lambda: {"obs_dim": Size(3), "act_dim": Size(2), "seed": 0},
        ),
        "MFPOLearner.update": Entry(
            lambda **rows: rl.MFPOLearner(3, 2, config, seed=0).update(rl.Batch(**rows)),
            lambda: {
                "obs": tensor(64, 3),
                "action": tensor(64, 2).clamp(-1, 1),
                "reward": tensor(64),
                "next_obs": tensor(64, 3),
                "terminated": torch.zeros(64),
            },
            carries=True,
            refuses=(rl.TrainingDiverged,),
        ),
        "MeanFlowPolicy": Entry(
            lambda obs_dim, act_dim: rl.MeanFlowPolicy(obs_dim, act_dim, config).act_dim,
            lambda: {"obs_dim": Size(3), "act_dim": Size(2)},
        ),
        "MeanFlowPolicy.act": Entry(lambda obs: policy.act(obs), lambda: {"obs": tensor(4, 3)}, carries=True),
        "evaluate": Entry(
            lambda n_episodes, seed: rl.evaluate(agent, "rl_mfpo/Bandit-v0", n_episodes, seed=seed).mean,
            lambda: {"n_episodes": Size(2), "seed": 0},
        ),
        "CheckpointCallback": Entry(
            lambda every, keep: rl.CheckpointCallback(every, "folder", keep) and None,
            lambda: {"every": Size(2), "keep": Size(2)},
        ),
        "EvalCallback": Entry(
            lambda every, n_episodes: rl.EvalCallback("rl_mfpo/Bandit-v0", every, n_episodes) and None,
            lambda: {"every": Size(2), "n_episodes": Size(2)},
        ),
        "StopOnReturn": Entry(
            lambda threshold, n_episodes: rl.StopOnReturn(threshold, n_episodes) and None,
            lambda: {"threshold": 1.0, "n_episodes": Size(2)},
        ),
        "ReplayBuffer options": Entry(
            lambda **options: len(rl.ReplayBuffer(**options)),
            lambda: {"capacity": Size(4), "obs_dim": Size(3), "action_dim": Size(2), "max_bytes": 10**6},
        ),
        "ReplayBuffer.sample": Entry(lambda n: filled().sample(n, np.random.default_rng(0)), lambda: {"n": Size(2)}),
        "functional.divergence_target": Entry(
            lambda **data: f.divergence_target(lambda x, r, t: x[..., :1] * (t - r), **data),
            lambda: {
                "x": tensor(4, 2),
                "r": tensor(4, 1),
                "t": tensor(4, 1),
                "v": tensor(4, 2),
                "div": tensor(4, 1),
            },
            carries=True,
        ),
        "functional.estimate_velocity": Entry(
            lambda **data: f.estimate_velocity(lambda a: a[..., 0], **data),
            lambda: {
                "x": tensor(4, 2),
                "t": torch.full((4, 1), 0.5),
                "alpha": 0.1,
                "policy_actions": tensor(4, 3, 2),
                "policy_log_prob": tensor(4, 3),
                "k_gaussian": Size(3),
                "mode": "adaptive",
                "min_ess": 1.0,
            },
            carries=True,
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
        "functional.meanflow_target": Entry(
            lambda **data: f.meanflow_target(field, **data),
            lambda: {"x": tensor(4, 2), "r": tensor(4, 1), "t": tensor(4, 1), "v": tensor(4, 2)},
            carries=True,
        ),
        "functional.sample_flow": Entry(
            lambda noise, steps: f.sample_flow(field, noise, steps=steps),
            lambda: {"noise": tensor(4, 2), "steps": Size(2)},
            carries=True,
        ),
        "functional.project_categorical": Entry(
            f.project_categorical,
            lambda: {"probs": torch.full((4, 5), 0.2), "atoms_shifted": tensor(4, 5), "v_min": -2.0, "v_max": 2.0},
            carries=True,
        ),
        "functional.truncated_normal": Entry(
            f.truncated_normal, lambda: {"low": -tensor(4).abs(), "high": tensor(4).abs()}, carries=True
        ),
        "functional.sample_time_pairs": Entry(
            f.sample_time_pairs, lambda: {"n": Size(4), "dist": "logit_normal", "data_proportion": 0.75}
        ),
    }
