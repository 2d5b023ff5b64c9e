"""The claims run at scale smoke, and each rule tells right evidence from wrong."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lemmata_core import Context, Evidence, Outcome, Scale
from lemmata_core.progress import Progress
from rl_mfpo import _claims_learning
from rl_mfpo.claims import CLAIMS

BY_ID = {claim.id.removeprefix("rl-mfpo/"): claim for claim in CLAIMS}
DESIGNED = {
    "few-step", "adn-accuracy", "adn-cost", "ess", "inference", "training-time", "steps-enough", "auto-temperature",
    "multi-goal", "proposals", "returns",
}  # fmt: skip


def test_every_claim_of_the_design_is_there():
    assert set(BY_ID) == DESIGNED


@pytest.mark.parametrize("name", sorted(DESIGNED))
def test_a_claim_runs_at_smoke_scale(name, tmp_path):
    claim = BY_ID[name]
    with ThreadPoolExecutor(1) as executor:
        evidence = claim.run(Context(Scale.SMOKE, np.random.default_rng(0), executor, Progress(), tmp_path))
    verdict = claim.accept(evidence)
    assert evidence.headline
    if name == "ess":
        assert verdict.outcome is Outcome.HOLDS
    elif not claim.timed:
        # Seconds of training prove nothing either way, and the rule says so.
        assert verdict.outcome is Outcome.NOT_TESTABLE
    assert claim.timed == bool(evidence.timed)


GOOD = {
    "few-step": {"mf2_over_euler2": 0.4, "mf2_minus_mf4": 0.1, "paper_minus_split": 0.1, "seeds": 3.0},
    "steps-enough": {"two": 0.5, "four": 0.48},
    "adn-accuracy": {"gap": 0.02, "worst_gap": 0.05, "rmse": 0.2},
    "adn-cost": {"share": 0.1},
    "ess": {"gaussian_falls": 0.9, "policy_rises": 1.1, "error_ratio": 0.6},
    "inference": {"twenty_over_two": 8.0, "two_over_sac": 1.5},
    "training-time": {"ratio": 0.4},
    "auto-temperature": {"entropy_gap": 0.1, "alpha_ratio": 9.0},
    "multi-goal": {"alive": 0.8, "sac_dead": 1.0, "reward": 0.7, "sac_reward": 0.66, "seeds": 5.0},
    "proposals": {"adaptive": 0.3, "gaussian": 0.4, "policy": 0.5},
    "returns": {"pendulum": -150.0, "seeds": 3.0},
}
BAD = [
    ("few-step", "mf2_over_euler2", 0.7),
    ("few-step", "mf2_minus_mf4", -0.01),
    ("few-step", "paper_minus_split", -0.01),
    ("steps-enough", "four", 0.3),
    ("adn-accuracy", "worst_gap", 0.2),
    ("adn-accuracy", "rmse", 0.3),
    ("adn-cost", "share", 0.2),
    ("ess", "gaussian_falls", 1.2),
    ("ess", "policy_rises", 0.8),
    ("ess", "error_ratio", 1.1),
    ("inference", "twenty_over_two", 4.0),
    ("inference", "two_over_sac", 3.0),
    ("training-time", "ratio", 0.7),
    ("auto-temperature", "entropy_gap", 0.3),
    ("auto-temperature", "alpha_ratio", 3.0),
    ("multi-goal", "alive", 0.6),
    ("multi-goal", "sac_dead", 0.6),
    ("multi-goal", "reward", 0.6),
    ("proposals", "gaussian", 0.6),
    ("returns", "pendulum", -300.0),
]


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_rule_accepts_what_the_claim_says(name):
    evidence = Evidence(headline="", values={**GOOD[name], "judged": 1.0})
    assert BY_ID[name].accept(evidence).outcome is Outcome.HOLDS


@pytest.mark.parametrize(("name", "key", "value"), BAD)
def test_a_rule_rejects_what_misses_its_bar(name, key, value):
    evidence = Evidence(headline="", values={**GOOD[name], "judged": 1.0, key: value})
    assert BY_ID[name].accept(evidence).outcome is Outcome.DOES_NOT_HOLD


@pytest.mark.parametrize("mujoco", [True, False])
def test_returns_shows_a_mujoco_curve_beside_sac_where_mujoco_is_installed(mujoco, monkeypatch, tmp_path):
    asked = []

    def cells(ctx, function, arguments, label):
        asked.extend(arguments)
        made = []
        for env_id, learner, seed, steps, every, _ in arguments:
            looks = list(range(every, steps + 1, every))
            curve = {"steps": looks, "candidates": [-150.0 + i for i in range(len(looks))]}
            if learner == "MFPO":
                curve["samples"] = curve["candidates"]
            made.append({"env": env_id, "learner": learner, "seed": seed, "curve": curve})
        return made

    monkeypatch.setattr(_claims_learning, "cells", cells)
    monkeypatch.setattr(_claims_learning, "find_spec", lambda name: object() if mujoco else None)
    with ThreadPoolExecutor(1) as executor:
        evidence = BY_ID["returns"].run(Context(Scale.LAPTOP, np.random.default_rng(0), executor, Progress(), tmp_path))
    environments = ["Pendulum-v1", *(["InvertedPendulum-v5"] if mujoco else [])]
    assert [series.title.split(",")[0] for series in evidence.series] == environments
    assert all(set(series.lines) == {"MFPO, candidates", "MFPO, samples", "SAC"} for series in evidence.series)
    # Both learners have the same budget.
    budgets = {(env_id, *rest) for env_id, _, *rest in asked}
    assert len(asked) == 2 * len(budgets) == 2 * len(environments)
    verdict = BY_ID["returns"].accept(evidence)
    assert verdict.outcome is Outcome.HOLDS
    assert ("InvertedPendulum-v5" in verdict.reason) == mujoco
