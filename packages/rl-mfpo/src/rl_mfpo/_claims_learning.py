"""Claims that need learned critics: several goals, and returns."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict

from rl_mfpo._claims_common import PAPER, cells, judged, too_short
from rl_mfpo.goals import RULES, run_goals, run_goals_sac
from rl_mfpo.returns import mfpo_curve, sac_curve

FLOOR = "floor 0.1"
PENDULUM, MUJOCO, BEST = "Pendulum-v1", "InvertedPendulum-v5", "MFPO, candidates"


def goals_cell(rule: str, seed: int, updates: int, every: int) -> dict[str, Any]:
    """One run on the wide goals."""
    looks = (
        [run_goals_sac(seed, "wide", updates)]
        if rule == "SAC"
        else run_goals(seed, "wide", updates, every, **RULES[rule])
    )
    return {"rule": rule, "seed": seed, "looks": looks}


def run_multi_goal(ctx: Context) -> Evidence:
    """Four goals, equal networks; the paper's temperature rule beside it at scale full."""
    seeds, updates, rules = {
        Scale.SMOKE: ((0,), 20, (FLOOR,)),
        Scale.LAPTOP: ((0,), 4500, (FLOOR, "SAC")),
        Scale.FULL: (range(5), 4500, (FLOOR, "SAC", "no floor")),
    }[ctx.scale]
    every = updates if ctx.scale is Scale.SMOKE else updates // 6
    found = cells(ctx, goals_cell, [(rule, seed, updates, every) for seed in seeds for rule in rules], "multi-goal")
    last = {rule: [c["looks"][-1] for c in found if c["rule"] == rule] for rule in rules}
    rows = [
        (c["rule"], c["seed"], look["updates"], *look["shares"], look["reward"], look["alpha"])
        for c in found
        for look in c["looks"]
    ]
    mine = [c for c in found if c["rule"] == FLOOR]
    alive = float(np.mean([look["min_share"] >= 0.05 for look in last[FLOOR]]))
    values = {"alive": alive, "seeds": float(len(seeds)), **judged(ctx)}
    values["reward"] = float(np.mean([look["reward"] for look in last[FLOOR]]))
    if "SAC" in rules:
        values["sac_dead"] = float(np.mean([look["min_share"] <= 0.02 for look in last["SAC"]]))
        values["sac_reward"] = float(np.mean([look["reward"] for look in last["SAC"]]))
    lines = {
        f"seed {c['seed']}": ([float(k["updates"]) for k in c["looks"]], [k["min_share"] for k in c["looks"]])
        for c in mine
    }
    shares = " ".join(f"{s:.2f}" for s in last[FLOOR][0]["shares"])
    return Evidence(
        headline=f"shares of the four goals {shares} (seed 0)",
        values=values,
        tables=(Table("Goals reached", ("learner", "seed", "updates", *"1234", "reward", "alpha"), rows),),
        series=(Series("Least share of a goal", "updates", "share", lines),),
        settings={"updates": updates, "seeds": list(seeds), "network": "2 x 64", "min_temperature": 0.1},
    )


def accept_multi_goal(evidence: Evidence) -> Verdict:
    """All goals alive on four seeds of five, SAC's not, and at most 0.03 less reward."""
    v = evidence.values
    short = too_short(evidence)
    if short:
        return short
    reason = (
        f"every goal has 5 % on {v['alive']:.0%} of {v['seeds']:.0f} seeds (bar 80 %); SAC has a goal under 2 % on "
        f"{v['sac_dead']:.0%}; reward {v['reward']:.2f} against {v['sac_reward']:.2f}"
    )
    return Verdict.of(v["alive"] >= 0.8 and v["sac_dead"] >= 0.8 and v["reward"] >= v["sac_reward"] - 0.03, reason)


# Scale and environment: seeds, steps, steps between two looks, episodes a look, learners
RETURNS_PLANS: dict[Scale, dict[str, tuple[range, int, int, int, tuple[str, ...]]]] = {
    Scale.SMOKE: {PENDULUM: (range(1), 520, 520, 1, ("MFPO",))},
    Scale.LAPTOP: {
        PENDULUM: (range(1), 6000, 2000, 5, ("MFPO", "SAC")),
        MUJOCO: (range(1), 3000, 500, 5, ("MFPO", "SAC")),
    },
    Scale.FULL: {
        PENDULUM: (range(3), 8000, 1000, 10, ("MFPO", "SAC")),
        MUJOCO: (range(3), 6000, 500, 10, ("MFPO", "SAC")),
    },
}


def returns_cell(env_id: str, learner: str, seed: int, steps: int, every: int, episodes: int) -> dict[str, Any]:
    """One learning curve."""
    curve = (mfpo_curve if learner == "MFPO" else sac_curve)(env_id, seed, steps, every, episodes)
    return {"env": env_id, "learner": learner, "seed": seed, "curve": curve}


def curve_lines(found: list[dict[str, Any]], env_id: str) -> dict[str, tuple[list[float], ...]]:
    """Steps, and mean, least and greatest return over the seeds, of each learner on an environment."""
    lines: dict[str, tuple[list[float], ...]] = {}
    for learner, kind in (("MFPO", "candidates"), ("MFPO", "samples"), ("SAC", "candidates")):
        curves = [c["curve"] for c in found if (c["env"], c["learner"]) == (env_id, learner)]
        if curves:
            runs = [c[kind] for c in curves]
            name = learner if learner == "SAC" else f"MFPO, {kind}"
            ends = (np.mean(runs, axis=0).tolist(), np.min(runs, axis=0).tolist(), np.max(runs, axis=0).tolist())
            lines[name] = ([float(n) for n in curves[0]["steps"]], *ends)
    return lines


def run_returns(ctx: Context) -> Evidence:
    """Pendulum-v1 and, where MuJoCo is installed, InvertedPendulum-v5: preset small, and SAC with equal networks."""
    plans = dict(RETURNS_PLANS[ctx.scale])
    if find_spec("mujoco") is None:
        plans.pop(MUJOCO, None)
    arguments = [
        (env_id, learner, seed, steps, every, episodes)
        for env_id, (seeds, steps, every, episodes, learners) in plans.items()
        for seed in seeds
        for learner in learners
    ]
    found = cells(ctx, returns_cell, arguments, "returns")
    lines = {env_id: curve_lines(found, env_id) for env_id in plans}
    values = {"pendulum": lines[PENDULUM][BEST][1][-1], "seeds": float(len(plans[PENDULUM][0])), **judged(ctx)}
    headline = f"{PENDULUM}: {values['pendulum']:.0f} after {plans[PENDULUM][1]} steps"
    if MUJOCO in plans:
        curve = lines[MUJOCO][BEST][1]
        values |= {"mujoco_first": curve[0], "mujoco_last": curve[-1], "mujoco_best": max(curve)}
        values["mujoco_sac"] = lines[MUJOCO]["SAC"][1][-1]
        headline += f"; {MUJOCO}: {curve[0]:.0f} to {curve[-1]:.0f}, SAC {values['mujoco_sac']:.0f}"
    rows = [
        (env_id, name, int(n), value)
        for env_id, drawn in lines.items()
        for name, line in drawn.items()
        for n, value in zip(line[0], line[1])
    ]
    return Evidence(
        headline=headline,
        values=values,
        tables=(Table("Mean return", ("environment", "learner", "steps", "return"), rows),),
        series=tuple(Series(f"{env_id}, preset small", "steps", "return", drawn) for env_id, drawn in lines.items()),
        settings={
            env_id: {"seeds": len(seeds), "steps": steps, "episodes": episodes}
            for env_id, (seeds, steps, _, episodes, _) in plans.items()
        },
    )


def accept_returns(evidence: Evidence) -> Verdict:
    """Pendulum solved; the MuJoCo curve is reported beside SAC's, and the paper's tasks are not run."""
    v = evidence.values
    reason = f"{PENDULUM}: {v['pendulum']:.0f} over {v['seeds']:.0f} seed(s) (bar -200)"
    if "mujoco_last" in v:
        reason += (
            f"; {MUJOCO}: from {v['mujoco_first']:.0f} to {v['mujoco_last']:.0f} (best look {v['mujoco_best']:.0f}), "
            f"SAC {v['mujoco_sac']:.0f}, no bar"
        )
    reason += "; the paper's tasks are not run here"
    return too_short(evidence) or Verdict.of(v["pendulum"] >= -200, reason)


CLAIMS_LEARNING = (
    Claim(
        id="rl-mfpo/multi-goal",
        statement="One policy keeps several equally good goals, where a Gaussian policy cannot.",
        source=f"{PAPER}, AntMaze trajectories",
        paper="all goals visited",
        run=run_multi_goal,
        accept=accept_multi_goal,
        requires=("stable_baselines3",),
    ),
    Claim(
        id="rl-mfpo/returns",
        statement="Returns are at least those of SAC, TD3 and diffusion policies; here: it learns Pendulum-v1.",
        source=f"{PAPER}, MuJoCo and DMC results",
        paper="best or equal on 14 tasks",
        run=run_returns,
        accept=accept_returns,
        requires=("stable_baselines3",),
    ),
)
