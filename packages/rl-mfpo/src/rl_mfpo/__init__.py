"""Mean flow policy optimisation: policies for continuous control with several good actions and two network calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium import register

if TYPE_CHECKING:
    from rl_mfpo import distributed, functional
    from rl_mfpo.agent import MFPO
    from rl_mfpo.buffer import ReplayBuffer
    from rl_mfpo.callbacks import Callback, CheckpointCallback, EvalCallback, StopOnReturn
    from rl_mfpo.collector import EnvironmentFault, ResumeReport
    from rl_mfpo.config import MFPOConfig
    from rl_mfpo.errors import HealthWarning, TrainingDiverged
    from rl_mfpo.evaluation import EvaluationResult, evaluate
    from rl_mfpo.learner import Batch, MFPOLearner
    from rl_mfpo.loggers import CSVLogger, TensorBoardLogger
    from rl_mfpo.policy import MeanFlowPolicy

# Names and the files that hold them; a file is imported when a name of it is first asked for, torch not before.
_HOME = {
    "Batch": "learner",
    "CSVLogger": "loggers",
    "Callback": "callbacks",
    "CheckpointCallback": "callbacks",
    "EnvironmentFault": "collector",
    "EvalCallback": "callbacks",
    "EvaluationResult": "evaluation",
    "HealthWarning": "errors",
    "MFPO": "agent",
    "MFPOConfig": "config",
    "MFPOLearner": "learner",
    "MeanFlowPolicy": "policy",
    "ReplayBuffer": "buffer",
    "ResumeReport": "collector",
    "StopOnReturn": "callbacks",
    "TensorBoardLogger": "loggers",
    "TrainingDiverged": "errors",
    "evaluate": "evaluation",
}
_MODULES = ("distributed", "functional")

__all__ = [
    "MFPO",
    "Batch",
    "CSVLogger",
    "Callback",
    "CheckpointCallback",
    "EnvironmentFault",
    "EvalCallback",
    "EvaluationResult",
    "HealthWarning",
    "MFPOConfig",
    "MFPOLearner",
    "MeanFlowPolicy",
    "ReplayBuffer",
    "ResumeReport",
    "StopOnReturn",
    "TensorBoardLogger",
    "TrainingDiverged",
    "distributed",
    "evaluate",
    "functional",
]

register(id="rl_mfpo/MultiGoal-v0", entry_point="rl_mfpo.toys:MultiGoalEnv")
register(id="rl_mfpo/Bandit-v0", entry_point="rl_mfpo.toys:BanditEnv")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rl_mfpo.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"rl_mfpo.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
