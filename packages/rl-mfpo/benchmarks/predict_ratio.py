"""The latency of one action on one thread: against SAC of stable-baselines3, 20 steps against 2, under ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from lemmata_core.executor import one_thread
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, PairedTiming, Ratio, paired
from rl_mfpo import MFPO
from rl_mfpo.spaces import ActionScale, Spaces

OBS, ACT = 17, 6
CALLS, PAIRS = 50, 15


def agent(hidden: tuple[int, ...]) -> MFPO:
    ones = np.ones(ACT, np.float32)
    return MFPO(Spaces(OBS, ActionScale(-ones, ones)), hidden_sizes=hidden, seed=0, device="cpu", buffer_size=10_000)


def peer(hidden: tuple[int, ...]):
    import gymnasium
    from stable_baselines3 import SAC

    class Shapes(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACT,), np.float32)

        def reset(self, **_):
            """Start an episode."""
            return np.zeros(OBS, np.float32), {}

    kwargs = {"net_arch": list(hidden)}
    return SAC("MlpPolicy", Shapes(), buffer_size=100, seed=0, device="cpu", policy_kwargs=kwargs)


def many(case: Callable[[], object], calls: int = CALLS) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(calls):
            case()

    return repeated


def per_call(timing: PairedTiming, ours: int, theirs: int) -> PairedTiming:
    """The ratio a call, where the two sides were called different numbers of times."""
    scale = theirs / ours
    return PairedTiming(
        timing.ratio * scale, timing.low * scale, timing.high * scale,
        timing.a_seconds / ours, timing.b_seconds / theirs, timing.n,
    )  # fmt: skip


def run(progress: Progress) -> Sequence[Ratio]:
    wide, small = (256, 256, 256), (64, 64)
    mine, sac = agent(wide), peer(wide)
    obs = np.random.default_rng(0).normal(size=OBS).astype(np.float32)
    batch = torch.from_numpy(obs)[None]
    sb3, version = "stable-baselines3 SAC", metadata.version("stable-baselines3")
    noise, generator = torch.randn(1, ACT), torch.Generator().manual_seed(0)

    def raw_actor() -> None:
        with torch.no_grad():
            sac.actor(batch)

    theirs = many(lambda: sac.predict(obs))
    cases = {
        "predict, 2 steps": (many(lambda: mine.predict(obs)), theirs, f"{sb3}.predict", 0.65, 0.6),
        "predict, 2 steps, best of 10": (
            many(lambda: mine.predict(obs, deterministic=True)), theirs, f"{sb3}.predict", None, 1.5,
        ),
        "2 steps, sampler alone": (
            many(lambda: mine.policy.sample(batch, generator=generator)), many(raw_actor), f"{sb3} actor", None, 2.0,
        ),
    }  # fmt: skip
    ratios = []
    with one_thread(), progress.task("predict", len(cases) + 2) as task:
        for case, (ours, other, name, bar, aim) in cases.items():
            timing = paired(ours, other, repeats=PAIRS, warmup=2)
            ratios.append(Ratio.of(f"{case}, 3 x 256", name, version, timing, bar, aim))
            task.advance()
        # Lower is better: 2 steps over 20, so a seventh is the bar.
        timing = paired(
            many(lambda: mine.policy.sample(batch, steps=2, noise=noise)),
            many(lambda: mine.policy.sample(batch, steps=20, noise=noise), 10),
            repeats=PAIRS, warmup=2,
        )  # fmt: skip
        timing = per_call(timing, CALLS, 10)
        ratios.append(Ratio.of("2 steps, 3 x 256", "20 steps of the same sampler", "", timing, 1 / 7, 1 / 8))
        task.advance()
        ratios.append(_onnx(agent(small), peer(small), obs, version))
        task.advance()
    return ratios


def _onnx(mine: MFPO, sac, obs: np.ndarray, version: str) -> Ratio:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = mine.export(Path(folder) / "policy.onnx", steps=2)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    many_obs, noise = rng.normal(size=(500, OBS)).astype(np.float32), rng.normal(size=(500, ACT)).astype(np.float32)
    (found,) = session.run(None, {"observation": many_obs, "noise": noise})
    expected = mine.policy.sample(many_obs, noise=torch.from_numpy(noise)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    feed = {"observation": obs[None], "noise": noise[:1]}
    timing = paired(many(lambda: session.run(None, feed)), many(lambda: sac.predict(obs)), repeats=PAIRS, warmup=2)
    case = "ONNX policy (equal to 1e-5), 2 steps, 2 x 64"
    return Ratio.of(case, "stable-baselines3 SAC.predict", version, timing, None, 0.25)


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("rl-mfpo/predict", run),)
