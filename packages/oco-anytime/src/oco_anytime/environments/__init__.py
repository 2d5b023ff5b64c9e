"""Environments: seeded streams of costs and constraints to play against."""

from collections.abc import Callable
from functools import partial
from typing import Any

from oco_anytime.environments.base import Environment, LinearEnvironment, Outcome
from oco_anytime.environments.control import SafeControl
from oco_anytime.environments.fairness import FairRegression
from oco_anytime.environments.pacing import AdPacing, ResourceAllocation
from oco_anytime.environments.portfolio import PortfolioRisk
from oco_anytime.environments.shortest_path import OnlineShortestPath
from oco_anytime.environments.streams import STREAMS, Stream

__all__ = [
    "BY_NAME",
    "AdPacing",
    "Environment",
    "FairRegression",
    "LinearEnvironment",
    "OnlineShortestPath",
    "Outcome",
    "PortfolioRisk",
    "ResourceAllocation",
    "SafeControl",
    "Stream",
]

#: What the command line calls them: ``BY_NAME[name](rounds=T, rng=seed)``.
BY_NAME: dict[str, Callable[..., Any]] = {
    **{name: partial(Stream, name) for name in STREAMS},
    "abilene": partial(OnlineShortestPath, "abilene"),
    "nsfnet": partial(OnlineShortestPath, "nsfnet"),
    "pacing": AdPacing,
    "allocation": ResourceAllocation,
    "portfolio": partial(PortfolioRisk, "skfolio"),
    "portfolio-synthetic": partial(PortfolioRisk, "synthetic"),
    "fairness": FairRegression,
    "control": SafeControl,
}
