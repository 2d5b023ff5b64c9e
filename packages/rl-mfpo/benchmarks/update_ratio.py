"""The cost of one update on one thread, against stable-baselines3's SAC with equal networks and batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

import gymnasium
import numpy as np
import torch
from lemmata_core.executor import one_thread
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired
from rl_mfpo import Batch, MFPOConfig, MFPOLearner

PENDULUM, CHEETAH = (3, 1), (17, 6)
# case: shapes, configuration, batch of SAC, updates a measurement, pairs, bar, aim
CASES = {
    "Pendulum shapes, 2 x 64, B 256, K 8/16": (
        PENDULUM, MFPOConfig.preset("small", batch_size=256, actor_batch_size=None), 10, 15, 6.0, 5.0,
    ),
    "preset small, Pendulum shapes, 2 x 64, B 128": (PENDULUM, MFPOConfig.preset("small"), 10, 15, None, 3.5),
    "preset cpu, HalfCheetah shapes, 3 x 256, B 256": (CHEETAH, MFPOConfig.preset("cpu"), 3, 11, 3.0, 2.5),
    "preset paper, HalfCheetah shapes, 3 x 256, B 256, K 16/32": (CHEETAH, MFPOConfig(), 1, 11, 11.0, 9.5),
}  # fmt: skip


class Shapes(gymnasium.Env):
    """Spaces of the wanted shapes, and nothing behind them."""

    def __init__(self, obs_dim: int, act_dim: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (obs_dim,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (act_dim,), np.float32)

    def reset(self, **_):
        """Start an episode."""
        return np.zeros(self.observation_space.shape, np.float32), {}


def sac(shapes: tuple[int, int], config: MFPOConfig):
    """A SAC whose replay holds random transitions."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.logger import configure

    model = SAC(
        "MlpPolicy", Shapes(*shapes), batch_size=config.batch_size, buffer_size=2048, seed=0, device="cpu",
        policy_kwargs={"net_arch": list(config.hidden_sizes)}, learning_rate=config.learning_rate,
    )  # fmt: skip
    model.set_logger(configure(None, []))
    rng = np.random.default_rng(0)
    for _ in range(1024):
        obs, following = rng.normal(size=(2, 1, shapes[0])).astype(np.float32)
        action = rng.uniform(-1, 1, (1, shapes[1])).astype(np.float32)
        model.replay_buffer.add(obs, following, action, rng.normal(size=1), np.zeros(1), [{}])
    return model


def batches(shapes: tuple[int, int], size: int) -> Callable[[], Batch]:
    """Batches drawn at random from transitions in memory, as the replay draws them."""
    g = torch.Generator().manual_seed(0)
    n = 1024
    kept = Batch(
        torch.randn(n, shapes[0], generator=g), 2 * torch.rand(n, shapes[1], generator=g) - 1,
        torch.randn(n, generator=g), torch.randn(n, shapes[0], generator=g), torch.zeros(n),
    )  # fmt: skip

    def draw() -> Batch:
        index = torch.randint(n, (size,), generator=g)
        return Batch(*(part[index] for part in kept))

    return draw


def run(progress: Progress) -> Sequence[Ratio]:
    ratios = []
    with one_thread():
        for case, (shapes, config, updates, pairs, bar, aim) in progress.track(CASES.items(), "update", len(CASES)):
            learner, draw, peer = (
                MFPOLearner(*shapes, config, seed=0),
                batches(shapes, config.batch_size),
                sac(shapes, config),
            )

            def ours(learner=learner, draw=draw, updates=updates) -> None:
                for _ in range(updates):
                    learner.update(draw())

            timing = paired(ours, lambda m=peer, u=updates, c=config: m.train(u, c.batch_size), repeats=pairs, warmup=2)
            version = metadata.version("stable-baselines3")
            ratios.append(Ratio.of(case, "stable-baselines3 SAC.train", version, timing, bar, aim))
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("rl-mfpo/update", run),)
