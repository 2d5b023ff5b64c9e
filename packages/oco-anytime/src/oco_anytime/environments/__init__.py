"""Environments: seeded streams of costs and constraints to play against."""

from oco_anytime.environments.base import Environment, LinearEnvironment, Outcome
from oco_anytime.environments.streams import Stream

__all__ = ["Environment", "LinearEnvironment", "Outcome", "Stream"]
