"""Claims about time: likelihood, inference, training. Ratios of interleaved runs on one thread."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module, metadata

import torch
from lemmata_core import Claim, Context, Evidence, Scale, Table, Verdict
from lemmata_core.executor import one_thread
from lemmata_core.timing import PairedTiming, paired

from rl_mfpo._claims_common import PAPER
from rl_mfpo.baselines import without_divergence
from rl_mfpo.config import MFPOConfig
from rl_mfpo.errors import HealthWarning
from rl_mfpo.learner import Batch, MFPOLearner
from rl_mfpo.policy import MeanFlowPolicy

CHEETAH = (17, 6)
SHORT = MFPOConfig.preset("cpu", batch_size=64, actor_batch_size=32)


def batch(size: int) -> Batch:
    """Random transitions of HalfCheetah's shapes."""
    g = torch.Generator().manual_seed(0)
    obs, following = torch.randn(2, size, CHEETAH[0], generator=g)
    action = 2 * torch.rand(size, CHEETAH[1], generator=g) - 1
    return Batch(obs, action, torch.randn(size, generator=g), following, torch.zeros(size))


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    """A callable that calls another several times."""

    def run() -> None:
        for _ in range(times):
            call()

    return run


def configuration(scale: Scale) -> MFPOConfig:
    """The paper's networks; at scale smoke with fewer rows."""
    return SHORT if scale is Scale.SMOKE else MFPOConfig()


def compare(ctx: Context, ours: Callable[[], object], other: Callable[[], object]) -> PairedTiming:
    """Interleaved runs on one thread."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        return paired(ours, other, repeats=5 if ctx.scale is Scale.SMOKE else 9)


def timing_row(name: str, t: PairedTiming) -> tuple[object, ...]:
    """A row of a table of timings."""
    return (name, 1e3 * t.a_seconds, 1e3 * t.b_seconds, t.ratio, t.low, t.high)


COLUMNS = ("what", "ms", "ms, other", "ratio", "low", "high")


def evidence(headline: str, values: dict[str, float], rows: list[tuple[object, ...]], **settings: object) -> Evidence:
    """Evidence of timings: everything in it varies from run to run."""
    return Evidence(
        headline=headline,
        values=values,
        tables=(Table("Timings, medians and quartiles", COLUMNS, rows, timed=COLUMNS[1:]),),
        settings={"threads": 1, "torch": torch.__version__, **settings},
        timed=frozenset({*values, "headline"}),
    )


def run_adn_cost(ctx: Context) -> Evidence:
    """An update with the average divergence network, and without it."""
    config = configuration(ctx.scale)
    full, bare = MFPOLearner(*CHEETAH, config, seed=0), without_divergence(MFPOLearner(*CHEETAH, config, seed=0))
    rows = batch(config.batch_size)
    timing = compare(ctx, lambda: full.update(rows), lambda: bare.update(rows))
    share = 1 - 1 / timing.ratio
    return evidence(
        f"{share:.0%} of an update goes into the likelihood",
        {"share": share},
        [timing_row("update with / without the network", timing)],
        shapes=CHEETAH,
        hidden=config.hidden_sizes,
    )


def accept_adn_cost(found: Evidence) -> Verdict:
    """At most 15 %."""
    share = found.values["share"]
    return Verdict.of(share <= 0.15, f"{share:.1%} of an update, its step and its part of sampling (bar 15 %)")


def run_inference(ctx: Context) -> Evidence:
    """One action: 2 steps against 20, and against the actor of stable-baselines3's SAC."""
    import gymnasium
    import numpy as np

    Actor = import_module("stable_baselines3.sac.policies").Actor  # a peer: here for the comparison alone

    hidden = (256, 256, 256)
    policy = MeanFlowPolicy(*CHEETAH, MFPOConfig(hidden_sizes=hidden), generator=torch.Generator().manual_seed(0))
    observations = gymnasium.spaces.Box(-np.inf, np.inf, (CHEETAH[0],), np.float32)
    actor = Actor(
        observations, gymnasium.spaces.Box(-1.0, 1.0, (CHEETAH[1],), np.float32), list(hidden),
        torch.nn.Flatten(), CHEETAH[0],
    )  # fmt: skip
    obs, noise = torch.randn(1, CHEETAH[0]), torch.randn(1, CHEETAH[1])

    def sac() -> None:
        with torch.no_grad():
            actor(obs)

    calls = 100 if ctx.scale is Scale.SMOKE else 200
    steps = compare(
        ctx,
        repeated(lambda: policy.sample(obs, steps=20, noise=noise), calls // 10),
        repeated(lambda: policy.sample(obs, steps=2, noise=noise), calls // 10),
    )
    against = compare(ctx, repeated(lambda: policy.sample(obs, steps=2, noise=noise), calls), repeated(sac, calls))
    return evidence(
        f"20 steps cost {steps.ratio:.1f} times 2 steps; 2 steps cost {against.ratio:.1f} times SAC's actor",
        {"twenty_over_two": steps.ratio, "two_over_sac": against.ratio},
        [timing_row("20 steps / 2 steps", steps), timing_row("2 steps / SAC's actor", against)],
        hidden=hidden,
        stable_baselines3=metadata.version("stable-baselines3"),
    )


def accept_inference(found: Evidence) -> Verdict:
    """20 steps at least 5 times 2 steps, and 2 steps at most twice SAC's actor."""
    a, b = found.values["twenty_over_two"], found.values["two_over_sac"]
    return Verdict.of(
        a >= 5 and b <= 2, f"20 steps / 2 steps = {a:.1f} (bar 5); 2 steps / SAC's actor = {b:.2f} (bar 2)"
    )


def run_training_time(ctx: Context) -> Evidence:
    """An update with T = 2 against the same update with T = 20."""
    config = SHORT if ctx.scale is Scale.SMOKE else MFPOConfig.preset("cpu")
    two = MFPOLearner(*CHEETAH, config, seed=0)
    twenty = MFPOLearner(*CHEETAH, config.override(n_sample_steps=20), seed=0)
    rows = batch(config.batch_size)
    timing = compare(ctx, lambda: two.update(rows), lambda: twenty.update(rows))
    return evidence(
        f"an update with two steps takes {timing.ratio:.2f} of one with twenty",
        {"ratio": timing.ratio},
        [timing_row("update, T = 2 / T = 20", timing)],
        hidden=config.hidden_sizes,
    )


def accept_training_time(found: Evidence) -> Verdict:
    """At most 0.6."""
    ratio = found.values["ratio"]
    return Verdict.of(ratio <= 0.6, f"T = 2 takes {ratio:.2f} of T = 20 (bar 0.6)")


CLAIMS_COST = (
    Claim(
        id="rl-mfpo/adn-cost",
        statement="The likelihood costs a small part of the training time.",
        source=f"{PAPER}, training time",
        paper="about 5 %",
        run=run_adn_cost,
        accept=accept_adn_cost,
        timed=True,
    ),
    Claim(
        id="rl-mfpo/inference",
        statement="Two steps act much faster than a diffusion policy's twenty, and about as fast as SAC.",
        source=f"{PAPER}, inference time",
        paper="0.46 ms; 16 to 20 steps 0.97 to 1.68, SAC 0.15",
        run=run_inference,
        accept=accept_inference,
        requires=("stable_baselines3",),
        timed=True,
    ),
    Claim(
        id="rl-mfpo/training-time",
        statement="Training takes about half of the time of diffusion policies.",
        source=f"{PAPER}, training time",
        paper="about 0.5",
        run=run_training_time,
        accept=accept_training_time,
        timed=True,
    ),
)
