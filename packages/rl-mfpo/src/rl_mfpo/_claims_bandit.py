"""Claims on the bandit with a known value: few steps, likelihood, proposals, temperature."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict
from torch import Tensor

from rl_mfpo._claims_common import PAPER, cells, judged, too_short
from rl_mfpo.baselines import KnownValueLearner
from rl_mfpo.config import MFPOConfig
from rl_mfpo.errors import HealthWarning
from rl_mfpo.functional import estimate_velocity
from rl_mfpo.toys import BANDIT_ALPHA, GaussianMixture, bandit_q, total_variation

TIMES = {"split": ("split", 0.5), "paper": ("logit_normal", 0.75)}
SAMPLERS = {"MF1": (1, False), "MF2": (2, False), "MF4": (4, False), "Euler2": (2, True), "Euler20": (20, True)}
ESS_TIMES = (0.1, 0.3, 0.5, 0.7, 0.9)
SAMPLES = {Scale.SMOKE: 1000, Scale.LAPTOP: 8000, Scale.FULL: 8000}


def learner(
    seed: int, *, rows: int = 64, times: str = "split", exact: bool = False, **changes: Any
) -> KnownValueLearner:
    """A learner of 2 x 64 on the bandit: exact velocity without likelihood, or both estimated."""
    dist, share = TIMES[times]
    config = MFPOConfig.preset(
        "small",
        **{
            "batch_size": max(rows, 128), "learning_starts": 500, "actor_batch_size": rows, "time_dist": dist,
            "data_proportion": share, "temperature": BANDIT_ALPHA, **({"k_policy": 1} if exact else {}), **changes,
        },
    )  # fmt: skip
    mixture = GaussianMixture()
    return KnownValueLearner(
        2, config, q=bandit_q, velocity=mixture.velocity if exact else None, divergence=not exact, seed=seed
    )


# Few steps


def few_steps(seed: int, times: str, updates: int, samples: int) -> dict[str, Any]:
    """Train with the exact velocity; total variation of each sampler, halfway and at the end."""
    made, mixture = learner(seed, rows=256, times=times, exact=True), GaussianMixture()
    found: dict[str, Any] = {"seed": seed, "times": times, "updates": [], **{name: [] for name in SAMPLERS}}
    for part in (updates - updates // 2, updates // 2):
        made.improve(part)
        found["updates"].append(made.n_updates)
        for name, (steps, euler) in SAMPLERS.items():
            found[name].append(total_variation(made.draw(samples, steps=steps, euler=euler), mixture))
    return found


def run_few_steps(ctx: Context) -> Evidence:
    """Three seeds, two laws of the times."""
    seeds, updates = {Scale.SMOKE: ((0,), 40), Scale.LAPTOP: ((0, 1, 2), 2500), Scale.FULL: (range(5), 20_000)}[
        ctx.scale
    ]
    n = SAMPLES[ctx.scale]
    found = cells(ctx, few_steps, [(seed, times, updates, n) for seed in seeds for times in TIMES], "few-step")
    split, paper = ([c for c in found if c["times"] == times] for times in TIMES)
    ratio = max(c["MF2"][-1] / c["Euler2"][-1] for c in split)
    gain = min(c["MF2"][-1] - c["MF4"][-1] for c in split)
    times_gain = min(p["MF2"][-1] - s["MF2"][-1] for s, p in zip(split, paper))
    columns = ("times", "seed", "updates", *SAMPLERS)
    rows = [
        (c["times"], c["seed"], n, *(c[name][i] for name in SAMPLERS))
        for c in found
        for i, n in enumerate(c["updates"])
    ]
    return Evidence(
        headline=f"two average steps have at most {ratio:.2f} of the total variation of two Euler steps",
        values={
            "mf2_over_euler2": ratio, "mf2_minus_mf4": gain, "paper_minus_split": times_gain,
            "seeds": float(len(split)), **judged(ctx),
        },
        tables=(Table("Total variation to the target (exact samples: 0.05)", columns, rows),),
        settings={"updates": updates, "network": "2 x 64", "rows": 256, "samples": n, "seeds": list(seeds)},
    )  # fmt: skip


def accept_few_steps(evidence: Evidence) -> Verdict:
    """On every seed: MF2 <= 0.6 Euler2, MF4 < MF2, and the split times below the paper's."""
    v = evidence.values
    reason = (
        f"MF2 / Euler2 at most {v['mf2_over_euler2']:.2f} (bar 0.6), MF4 better than MF2 by {v['mf2_minus_mf4']:+.2f}, "
        f"split times better than the paper's by {v['paper_minus_split']:+.2f}, at worst of {v['seeds']:.0f} seeds"
    )
    holds = v["mf2_over_euler2"] <= 0.6 and v["mf2_minus_mf4"] > 0 and v["paper_minus_split"] > 0
    return too_short(evidence) or Verdict.of(holds, reason)


def run_steps_enough(ctx: Context) -> Evidence:
    """Train with T = 2 and with T = 4, and sample with both."""
    updates = {Scale.SMOKE: 40, Scale.LAPTOP: 1000, Scale.FULL: 10_000}[ctx.scale]
    found = cells(ctx, trained_steps, [(steps, updates, SAMPLES[ctx.scale]) for steps in (2, 4)], "steps-enough")
    two, four = found[0]["tv"][0], found[1]["tv"][1]
    rows = [(f"T = {c['steps']}", *c["tv"]) for c in found]
    return Evidence(
        headline=f"total variation {two:.2f} with two steps, {four:.2f} with four, each trained so",
        values={"two": two, "four": four, **judged(ctx)},
        tables=(Table("Total variation by steps", ("trained with", "2 steps", "4 steps"), rows),),
        settings={"updates": updates, "seed": 0, "network": "2 x 64"},
    )


def trained_steps(steps: int, updates: int, samples: int) -> dict[str, Any]:
    """Total variation at 2 and 4 steps after training with `steps`."""
    made, mixture = learner(0, rows=256, exact=True, n_sample_steps=steps), GaussianMixture()
    made.improve(updates)
    return {"steps": steps, "tv": [total_variation(made.draw(samples, steps=s), mixture) for s in (2, 4)]}


def accept_steps_enough(evidence: Evidence) -> Verdict:
    """Four steps gain less than a tenth of the total variation."""
    v = evidence.values
    reason = f"total variation {v['two']:.2f} with two steps, {v['four']:.2f} with four (bar: a tenth less)"
    return too_short(evidence) or Verdict.of(v["four"] >= 0.9 * v["two"], f"{reason}; returns: scale full")


# Likelihood


def adn_error(seed: int, adn_steps: int, updates: int, looks: int) -> dict[str, Any]:
    """Entropy by the average divergence network and by the change of variables, over training."""
    made = learner(seed, divergence_steps=adn_steps, divergence_lr=1e-3 * adn_steps)
    found: dict[str, Any] = {"seed": seed, "adn_steps": adn_steps, "updates": [], "adn": [], "exact": [], "rmse": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        for _ in range(looks):
            made.improve(updates // looks)
            network, exact, rmse = made.entropies()
            found["updates"].append(made.n_updates)
            found["adn"].append(network)
            found["exact"].append(exact)
            found["rmse"].append(rmse)
    return found


def run_adn_accuracy(ctx: Context) -> Evidence:
    """One step of the network an update, and two at twice the rate."""
    updates, looks = {Scale.SMOKE: (20, 2), Scale.LAPTOP: (1000, 5), Scale.FULL: (20_000, 20)}[ctx.scale]
    found = cells(ctx, adn_error, [(0, steps, updates, looks) for steps in (1, 2)], "adn-accuracy")
    one = found[0]
    lines = {}
    for c in found:
        suffix = "" if c["adn_steps"] == 1 else ", two steps an update"
        lines[f"divergence network{suffix}"] = ([float(n) for n in c["updates"]], c["adn"])
        lines[f"change of variables{suffix}"] = ([float(n) for n in c["updates"]], c["exact"])
    rows = [
        (c["adn_steps"], n, c["adn"][i], c["exact"][i], c["rmse"][i]) for c in found for i, n in enumerate(c["updates"])
    ]
    gap = one["adn"][-1] - one["exact"][-1]
    worst = max(abs(a - b) for a, b in zip(one["adn"], one["exact"]))
    return Evidence(
        headline=f"entropy {one['adn'][-1]:.2f} by the network, {one['exact'][-1]:.2f} exactly, at the end",
        values={"gap": gap, "worst_gap": worst, "rmse": one["rmse"][-1], **judged(ctx)},
        tables=(Table("Entropy over training, nat", ("network's steps", "updates", "network", "exact", "RMSE"), rows),),
        series=(Series("Entropy over training", "updates", "nat", lines),),
        settings={"updates": updates, "seed": 0, "network": "2 x 64", "alpha": BANDIT_ALPHA},
    )


def accept_adn_accuracy(evidence: Evidence) -> Verdict:
    """Within 0.1 nat at every look, and 0.25 nat a sample at the end."""
    v = evidence.values
    entropy = f"off by {v['gap']:+.2f} nat at the end, {v['worst_gap']:.2f} at worst (bar 0.1)"
    reason = f"{entropy}; RMSE a sample {v['rmse']:.2f} (bar 0.25)"
    return too_short(evidence) or Verdict.of(v["worst_gap"] <= 0.1 and v["rmse"] <= 0.25, reason)


# Estimates of the velocity


def ess_at(t: float, rows: int, seed: int) -> dict[str, float]:
    """Effective sample sizes and squared errors of the three estimates, with a stale policy."""
    g = torch.Generator().manual_seed(seed)
    stale = GaussianMixture(std=0.2, weights=(0.4, 0.3, 0.2, 0.1))
    actions = stale.sample(rows * 16, g).reshape(rows, 16, 2)
    times = torch.full((rows, 1), t)
    x = (1 - t) * actions[:, 0] + t * torch.randn(rows, 2, generator=g)
    exact = GaussianMixture().velocity(x, times)
    estimate = partial(
        estimate_velocity, bandit_q, x, times, BANDIT_ALPHA, policy_actions=actions,
        policy_log_prob=stale.log_density(actions), k_gaussian=32, generator=g,
    )  # fmt: skip
    found = {mode: estimate(mode=mode) for mode in ("policy", "gaussian", "adaptive")}
    sizes = {"ess_policy": float(found["adaptive"].ess_policy.mean())}
    sizes["ess_gaussian"] = float(found["adaptive"].ess_gaussian.mean())
    return {**sizes, **{m: float((e.velocity - exact).square().sum(-1).mean()) for m, e in found.items()}}


def run_ess(ctx: Context) -> Evidence:
    """Five times, a stale policy."""
    rows = {Scale.SMOKE: 3000, Scale.LAPTOP: 20_000, Scale.FULL: 100_000}[ctx.scale]
    seed = int(ctx.rng.integers(1 << 31))
    found = cells(ctx, ess_at, [(t, rows, seed) for t in ESS_TIMES], "ess")
    falls = max(b["ess_gaussian"] / a["ess_gaussian"] for a, b in pairwise(found))
    rises = min(b["ess_policy"] / a["ess_policy"] for a, b in pairwise(found))
    worst = max(c["adaptive"] / min(c["policy"], c["gaussian"]) for c in found[1:])
    columns = ("t", "ESS policy", "ESS Gaussian", "MSE policy", "MSE Gaussian", "MSE adaptive")
    table = [(t, *c.values()) for t, c in zip(ESS_TIMES, found)]
    times = list(ESS_TIMES)
    return Evidence(
        headline=f"the adaptive estimate has at most {worst:.2f} of the better proposal's squared error",
        values={"gaussian_falls": falls, "policy_rises": rises, "error_ratio": worst},
        tables=(Table("Proposals by time", columns, table),),
        series=(
            Series(
                "Squared error of the velocity", "t", "MSE",
                {m: (times, [c[m] for c in found]) for m in ("policy", "gaussian", "adaptive")}, log_y=True,
            ),
        ),
        settings={"rows": rows, "K": "16/32", "alpha": BANDIT_ALPHA},
    )  # fmt: skip


def accept_ess(evidence: Evidence) -> Verdict:
    """Monotone within 5 %, and below both proposals at t in 0.3, 0.5, 0.7, 0.9."""
    v = evidence.values
    reason = (
        f"the Gaussian proposal's size changes by a factor {v['gaussian_falls']:.2f} at most from time to time, the "
        f"policy's by {v['policy_rises']:.2f} at least; error {v['error_ratio']:.2f} of the better proposal's at worst"
    )
    return Verdict.of(v["gaussian_falls"] <= 1.05 and v["policy_rises"] >= 0.95 and v["error_ratio"] < 1, reason)


def proposal_tv(mode: str, seed: int, updates: int, samples: int) -> dict[str, Any]:
    """Total variation after training with one proposal, or both."""
    made = learner(seed, velocity=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        made.improve(updates)
    mixture = GaussianMixture()
    return {"mode": mode, "seed": seed, "tv": [total_variation(made.draw(samples, steps=s), mixture) for s in (2, 20)]}


def run_proposals(ctx: Context) -> Evidence:
    """The three modes, equal budgets."""
    seeds, updates = {Scale.SMOKE: ((0,), 20), Scale.LAPTOP: ((0,), 500), Scale.FULL: (range(5), 5000)}[ctx.scale]
    modes = ("adaptive", "gaussian", "policy")
    found = cells(
        ctx, proposal_tv, [(mode, seed, updates, SAMPLES[ctx.scale]) for seed in seeds for mode in modes], "proposals"
    )
    mean = {m: sum(c["tv"][0] for c in found if c["mode"] == m) / len(seeds) for m in modes}
    rows = [(c["mode"], c["seed"], *c["tv"]) for c in found]
    return Evidence(
        headline=", ".join(f"{m} {mean[m]:.2f}" for m in modes),
        values={**mean, **judged(ctx)},
        tables=(Table("Total variation by proposal", ("proposal", "seed", "2 steps", "20 steps"), rows),),
        settings={"updates": updates, "seeds": list(seeds), "rows": 64, "K": "8/16"},
    )


def accept_proposals(evidence: Evidence) -> Verdict:
    """Both, then the Gaussian alone, then the policy alone."""
    v = evidence.values
    alone = f"{v['gaussian']:.2f} Gaussian alone, {v['policy']:.2f} policy alone"
    reason = f"total variation {v['adaptive']:.2f} with both, {alone}"
    ordered = v["adaptive"] < v["gaussian"] < v["policy"]
    return too_short(evidence) or Verdict.of(ordered, reason)


# Temperature


def temperature_run(scale: float, updates: int, looks: int) -> dict[str, Any]:
    """Adapt alpha with rewards multiplied by `scale`; entropy and alpha over training."""

    def q(actions: Tensor) -> Tensor:
        return scale * bandit_q(actions)

    config = MFPOConfig.preset(
        "small", actor_batch_size=64, k_policy=4, k_gaussian=8, init_temperature=0.2 * scale, temperature_lr=1e-3
    )
    made = KnownValueLearner(2, config, q=q, seed=0)
    found: dict[str, Any] = {"scale": scale, "updates": [], "entropy": [], "exact": [], "alpha": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        for _ in range(looks):
            made.improve(updates // looks)
            network, exact, _ = made.entropies()
            found["updates"].append(made.n_updates)
            found["entropy"].append(network)
            found["exact"].append(exact)
            found["alpha"].append(made.alpha)
    return found


def run_auto_temperature(ctx: Context) -> Evidence:
    """Rewards as they are, and ten times larger, each from a temperature of its size."""
    updates, looks = {Scale.SMOKE: (20, 2), Scale.LAPTOP: (3000, 6), Scale.FULL: (20_000, 20)}[ctx.scale]
    one, ten = cells(ctx, temperature_run, [(scale, updates, looks) for scale in (1.0, 10.0)], "auto-temperature")
    target = -1.0
    gap = max(abs(c["entropy"][-1] - target) for c in (one, ten))
    ratio = ten["alpha"][-1] / one["alpha"][-1]
    x = [float(n) for n in one["updates"]]
    columns = ("rewards x", "updates", "entropy (network)", "entropy (exact)", "alpha")
    rows = [
        (c["scale"], n, c["entropy"][i], c["exact"][i], c["alpha"][i])
        for c in (one, ten)
        for i, n in enumerate(c["updates"])
    ]
    return Evidence(
        headline=f"entropy {one['entropy'][-1]:.2f} (target -1), alpha x {ratio:.1f} for rewards x 10",
        values={"entropy_gap": gap, "alpha_ratio": ratio, **judged(ctx)},
        tables=(Table("Adapted temperature", columns, rows),),
        series=(
            Series(
                "Entropy under the adapted temperature", "updates", "nat",
                {f"rewards x {c['scale']:g}, {k}": (x, c[k]) for c in (one, ten) for k in ("entropy", "exact")},
            ),
        ),
        settings={"updates": updates, "seed": 0, "temperature_lr": 1e-3, "init": "0.2 x the rewards' factor"},
    )  # fmt: skip


def accept_auto_temperature(evidence: Evidence) -> Verdict:
    """Within 0.2 nat of the target, and alpha ten times larger within a factor of two."""
    v = evidence.values
    reason = (
        f"entropy {v['entropy_gap']:.2f} nat off the target (bar 0.2); alpha x {v['alpha_ratio']:.1f} for rewards x 10"
    )
    return too_short(evidence) or Verdict.of(v["entropy_gap"] <= 0.2 and 5 <= v["alpha_ratio"] <= 20, reason)


CLAIMS_BANDIT = (
    Claim(
        id="rl-mfpo/few-step",
        statement="Two steps of the average velocity come much closer to the target than two Euler steps.",
        source=f"{PAPER}, ablation mean flow against flow matching",
        paper="2 steps suffice",
        run=run_few_steps,
        accept=accept_few_steps,
    ),
    Claim(
        id="rl-mfpo/steps-enough",
        statement="More than two sampling steps help little.",
        source=f"{PAPER}, ablation of the sampling steps",
        paper="returns level from T = 2",
        run=run_steps_enough,
        accept=accept_steps_enough,
    ),
    Claim(
        id="rl-mfpo/adn-accuracy",
        statement="The average divergence network gives the likelihood of the sampler's actions.",
        source=f"{PAPER}, action likelihood",
        paper="an accurate likelihood at 2 steps",
        run=run_adn_accuracy,
        accept=accept_adn_accuracy,
    ),
    Claim(
        id="rl-mfpo/ess",
        statement="The two proposals complement each other over time, and their mixture beats either.",
        source=f"{PAPER}, adaptive velocity estimate",
        paper="adaptive better than either",
        run=run_ess,
        accept=accept_ess,
    ),
    Claim(
        id="rl-mfpo/proposals",
        statement="Training with both proposals beats the Gaussian alone, and that the policy alone.",
        source=f"{PAPER}, ablation on HalfCheetah",
        paper="both > Gaussian > policy",
        run=run_proposals,
        accept=accept_proposals,
    ),
    Claim(
        id="rl-mfpo/auto-temperature",
        statement="The adapted temperature brings the entropy to its target, whatever the scale of the rewards.",
        source=f"{PAPER}, temperature",
        paper="entropy at -0.5 A",
        run=run_auto_temperature,
        accept=accept_auto_temperature,
    ),
)
