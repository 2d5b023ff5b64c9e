"""Learners and environments by the names that the command line and the comparison use."""

from __future__ import annotations

from typing import Any

from lemmata_core import InvalidInput

LEARNERS = {
    "anytime": "the default: budgeted penalty",
    "paper": "the method as published",
    "fixed": "the ancestor with a known horizon",
    "doubling": "the ancestor restarted on epochs 1, 2, 4, ..",
    "ogd": "projected gradient steps, constraints ignored",
    "dynamic": "experts for moving comparators",
    "optimistic": "the last round as a hint",
    "dpp": "drift plus penalty",
    "clipped": "clipped primal-dual",
    "recoo": "rectified (RECOO)",
    "latest": "projection on the latest constraint",
}


def make_learner(name: str, domain: Any, rounds: int) -> Any:
    """A learner by its name on the command line."""
    from oco_anytime import AnytimeCOCO, DynamicCOCO, OptimisticCOCO, baselines, hints

    makers: dict[str, Any] = {
        "anytime": lambda: AnytimeCOCO(domain),
        "paper": lambda: AnytimeCOCO.paper(domain),
        "fixed": lambda: baselines.FixedHorizonCOCO(domain, horizon=max(rounds, 1)),
        "doubling": lambda: baselines.DoublingCOCO(domain),
        "ogd": lambda: baselines.ProjectedOGD(domain),
        "dynamic": lambda: DynamicCOCO(domain),
        "optimistic": lambda: OptimisticCOCO(domain, hints=hints.Last()),
        "dpp": lambda: baselines.DriftPlusPenalty(domain),
        "clipped": lambda: baselines.ClippedPrimalDual(domain),
        "recoo": lambda: baselines.RectifiedCOCO(domain),
        "latest": lambda: baselines.LatestConstraintProjection(domain),
    }
    if name not in makers:
        raise InvalidInput.argument("learner", expected="one of " + ", ".join(LEARNERS), got=name)
    return makers[name]()


def make_environment(name: str, rounds: int, seed: int) -> Any:
    """An environment by its name on the command line."""
    from oco_anytime.environments import BY_NAME

    if name not in BY_NAME:
        raise InvalidInput.argument("environment", expected="one of " + ", ".join(BY_NAME), got=name)
    maker = BY_NAME[name]
    return maker(rounds=rounds) if name == "portfolio" else maker(rounds=rounds, rng=seed)
