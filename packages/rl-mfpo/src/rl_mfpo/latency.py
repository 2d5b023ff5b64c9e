"""What an action and an update cost on this machine."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from lemmata_core.progress import Progress

from rl_mfpo.agent import MFPO
from rl_mfpo.learner import Batch
from rl_mfpo.spaces import ActionScale, Spaces

if TYPE_CHECKING:
    from collections.abc import Callable


def measure(obs_dim: int, action_dim: int, preset: str, repeats: int) -> dict[str, float | str]:
    """Medians of `repeats` runs in milliseconds, on one thread.

    Returns
    -------
    dict
        ``predict`` of one observation at 1, 2, 4 and 20 steps with one sample, at 2 steps with the configured
        candidates,
        and one update.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ones = np.ones(action_dim, dtype=np.float32)
        agent = MFPO(Spaces(obs_dim, ActionScale(-ones, ones)), config=preset, seed=0, device="cpu")
        obs = np.zeros(obs_dim, dtype=np.float32)
        rows = agent.config.batch_size
        draw = torch.Generator().manual_seed(0)
        batch = Batch(
            obs=torch.randn(rows, obs_dim, generator=draw),
            action=torch.rand(rows, action_dim, generator=draw) * 2 - 1,
            reward=torch.randn(rows, generator=draw),
            next_obs=torch.randn(rows, obs_dim, generator=draw),
            terminated=torch.zeros(rows),
        )
        cases: dict[str, Callable[[], object]] = {
            f"predict_{n}_steps_ms": partial(agent.predict, obs, steps=n) for n in (1, 2, 4, 20)
        }
        cases["predict_candidates_ms"] = partial(agent.predict, obs, deterministic=True)
        cases["update_ms"] = partial(agent.learner.update, batch)
        result: dict[str, float | str] = {"preset": preset, "torch": torch.__version__}
        with Progress().task("measuring", len(cases)) as task:
            for name, case in cases.items():
                calls = repeats if name == "update_ms" else 20 * repeats
                result[name] = _median(case, calls)
                task.advance()
    finally:
        torch.set_num_threads(threads)
    return result


def _median(case: Callable[[], object], calls: int) -> float:
    seconds = []
    for _ in range(2):
        case()
    for _ in range(calls):
        begin = time.perf_counter()
        case()
        seconds.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(seconds)
