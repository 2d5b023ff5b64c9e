"""Mean flow policy optimisation: policies for continuous control with several good actions and two network calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium import register

if TYPE_CHECKING:
    from rl_mfpo.config import MFPOConfig
    from rl_mfpo.errors import HealthWarning, TrainingDiverged
    from rl_mfpo.learner import Batch, MFPOLearner
    from rl_mfpo.policy import MeanFlowPolicy

# Names and the files that hold them; a file is imported when a name of it is first asked for, torch not before.
_HOME = {
    "Batch": "learner",
    "HealthWarning": "errors",
    "MFPOConfig": "config",
    "MFPOLearner": "learner",
    "MeanFlowPolicy": "policy",
    "TrainingDiverged": "errors",
}

__all__ = ["Batch", "HealthWarning", "MFPOConfig", "MFPOLearner", "MeanFlowPolicy", "TrainingDiverged"]

register(id="rl_mfpo/MultiGoal-v0", entry_point="rl_mfpo.toys:MultiGoalEnv")
register(id="rl_mfpo/Bandit-v0", entry_point="rl_mfpo.toys:BanditEnv")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rl_mfpo.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
