"""Learning curves of the agent, and of stable-baselines3's SAC, evaluated alike."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from lemmata_core.files import atomic_write
from numpy.typing import NDArray

from rl_mfpo.errors import HealthWarning

EVALUATION_SEED = 10_000
FINAL_SEED = 20_000
# The critics' support where the default, wide enough for Pendulum, is too coarse: discounted returns of at most 100.
SUPPORTS: dict[str, dict[str, float]] = {"InvertedPendulum-v5": {"v_min": -150.0, "v_max": 150.0}}


def mfpo_curve(
    env_id: str,
    seed: int,
    steps: int,
    every: int,
    episodes: int,
    store: Path | None = None,
    final: int = 0,
    **overrides: Any,
) -> dict[str, Any]:
    """Train preset "small" and evaluate every `every` steps, with the best of candidates and with single samples.

    The critics' support is that of `SUPPORTS`, else the preset's.
    With `store`, a folder, a checkpoint is written after each evaluation, and a later call goes on from it exactly.

    Returns
    -------
    dict
        ``steps``, ``candidates`` and ``samples``: lists, mean returns over `episodes`. With `final` > 0 also
        ``final_candidates`` and ``final_samples``: mean returns of the last policy over `final` other episodes.
    """
    from rl_mfpo.agent import MFPO
    from rl_mfpo.evaluation import evaluate

    found: dict[str, Any] = {"steps": [], "candidates": [], "samples": []}
    curve = None if store is None else store / "curve.json"
    if curve is not None and curve.exists():
        found = json.loads(curve.read_text())
        agent = MFPO.resume(curve.parent / "checkpoints", env=env_id, device="cpu")
        # The checkpoint is written first: a kill between the two leaves one evaluation too few.
        if agent.num_timesteps != found["steps"][-1]:
            found = {"steps": [], "candidates": [], "samples": []}
    if not found["steps"]:
        options = SUPPORTS.get(env_id, {}) | overrides
        agent = MFPO(env_id, config="small", seed=seed, device="cpu", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        for until in range(len(found["steps"]) * every + every, steps + 1, every):
            agent.learn(until=until)
            found["steps"].append(until)
            for name, deterministic in (("candidates", True), ("samples", False)):
                result = evaluate(agent, env_id, episodes, deterministic=deterministic, seed=EVALUATION_SEED + seed)
                found[name].append(result.mean)
            if curve is not None:
                agent.save_checkpoint(curve.parent / "checkpoints")
                with atomic_write(curve) as file:
                    json.dump(found, file)
        if final:
            for name, deterministic in (("candidates", True), ("samples", False)):
                result = evaluate(agent, env_id, final, deterministic=deterministic, seed=FINAL_SEED + seed)
                found[f"final_{name}"] = result.mean
    agent.close()
    return found


def sac_curve(env_id: str, seed: int, steps: int, every: int, episodes: int, final: int = 0) -> dict[str, Any]:
    """SAC with the same widths, batch, rate and random actions; evaluated with its mean action.

    Returns
    -------
    dict
        ``steps`` and ``candidates``: lists. With `final` > 0 also ``final_candidates``, as `mfpo_curve`.
    """
    import gymnasium

    SAC = import_module("stable_baselines3").SAC  # a peer: here for the comparison alone

    from rl_mfpo.evaluation import evaluate

    model = SAC(
        "MlpPolicy", gymnasium.make(env_id), learning_rate=1e-3, batch_size=128, learning_starts=500,
        policy_kwargs={"net_arch": [64, 64]}, seed=seed, device="cpu",
    )  # fmt: skip
    found: dict[str, Any] = {"steps": [], "candidates": []}
    for until in range(every, steps + 1, every):
        model.learn(every, reset_num_timesteps=False)
        found["steps"].append(until)
        found["candidates"].append(evaluate(model, env_id, episodes, seed=EVALUATION_SEED + seed).mean)
    if final:
        found["final_candidates"] = evaluate(model, env_id, final, seed=FINAL_SEED + seed).mean
    return found


def interquartile_mean(values: NDArray[np.floating[Any]], *, draws: int = 2000, seed: int = 0) -> tuple[float, ...]:
    """Interquartile mean with a 95 % bootstrap interval (Agarwal et al., arXiv 2108.13264).

    Parameters
    ----------
    values : ndarray
        Scores of all runs; of three seeds the middle half is the median and parts of its neighbours.

    Returns
    -------
    mean, low, high : float
    """
    scores = np.sort(np.asarray(values, dtype=np.float64).ravel())

    def middle(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        n = rows.shape[-1]
        # Weights of the sorted scores that fall between the quartiles, fractions included.
        edges = np.arange(n + 1) / n
        weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
        mean: NDArray[np.float64] = np.sort(rows, -1) @ weight / weight.sum()
        return mean

    drawn = np.random.default_rng(seed).choice(scores, (draws, scores.size))
    low, high = np.quantile(middle(drawn), [0.025, 0.975])
    return float(middle(scores)), float(low), float(high)
