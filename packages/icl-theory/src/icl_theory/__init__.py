"""Two laboratories for in-context learning, with exact answers.

(A) One-layer Mamba against linear attention when examples of the prompt carry outliers (arXiv 2510.00399).
(B) The Bayes gap and the posterior variance of in-context predictors (arXiv 2510.10981).

Names are loaded when they are first used, so that importing the package loads neither torch nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icl_theory import bayes, bounds, theory
    from icl_theory.bayes import (
        FiniteTasks,
        LinearGaussian,
        LogisticGaussian,
        MarkovDirichlet,
        Mixture,
        PatternOutliers,
        Posterior,
        Prompts,
        SparseLinear,
    )
    from icl_theory.bounds import collision_example
    from icl_theory.channels_first import selective_scan_fn
    from icl_theory.deep import AttentionICL, DeepICL
    from icl_theory.estimates import Estimate
    from icl_theory.gated import GatedLinearICL, LinearAttentionICL, MambaICL, Parts, gate_weights
    from icl_theory.patterns import Coverage, PatternBank, check_coverage, tasks_all, tasks_ring
    from icl_theory.probes import probe_attention, probe_gates, steps_to_loss
    from icl_theory.prompts import TEST_MIX, PromptBatch, PromptSpec, sample_prompts, stream_prompts
    from icl_theory.risk import MixtureStudy, RiskReport, decompose, mixture_study
    from icl_theory.scan import selective_scan
    from icl_theory.ssm import MambaBlock, MambaLayer
    from icl_theory.stressing import prompts_from_table, stress
    from icl_theory.sweep import PhaseDiagram, phase_diagram
    from icl_theory.training import TrainResult, evaluate, train
    from icl_theory.uniform import SoftHistogram, UniformAttention, fit_least_squares

_HOME = {
    "bayes": (
        "FiniteTasks", "LinearGaussian", "LogisticGaussian", "MarkovDirichlet", "Mixture", "PatternOutliers",
        "Posterior", "Prompts", "SparseLinear",
    ),
    "bounds": ("collision_example",),
    "channels_first": ("selective_scan_fn",),
    "deep": ("AttentionICL", "DeepICL"),
    "estimates": ("Estimate",),
    "gated": ("GatedLinearICL", "LinearAttentionICL", "MambaICL", "Parts", "gate_weights"),
    "patterns": ("Coverage", "PatternBank", "check_coverage", "tasks_all", "tasks_ring"),
    "probes": ("probe_attention", "probe_gates", "steps_to_loss"),
    "prompts": ("TEST_MIX", "PromptBatch", "PromptSpec", "sample_prompts", "stream_prompts"),
    "risk": ("MixtureStudy", "RiskReport", "decompose", "mixture_study"),
    "scan": ("selective_scan",),
    "ssm": ("MambaBlock", "MambaLayer"),
    "stressing": ("prompts_from_table", "stress"),
    "sweep": ("PhaseDiagram", "phase_diagram"),
    "training": ("TrainResult", "evaluate", "train"),
    "uniform": ("SoftHistogram", "UniformAttention", "fit_least_squares"),
}  # fmt: skip
_MODULES = ("bayes", "bounds", "theory")
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "TEST_MIX",
    "AttentionICL",
    "Coverage",
    "DeepICL",
    "Estimate",
    "FiniteTasks",
    "GatedLinearICL",
    "LinearAttentionICL",
    "LinearGaussian",
    "LogisticGaussian",
    "MambaBlock",
    "MambaICL",
    "MambaLayer",
    "MarkovDirichlet",
    "Mixture",
    "MixtureStudy",
    "Parts",
    "PatternBank",
    "PatternOutliers",
    "PhaseDiagram",
    "Posterior",
    "PromptBatch",
    "PromptSpec",
    "Prompts",
    "RiskReport",
    "SoftHistogram",
    "SparseLinear",
    "TrainResult",
    "UniformAttention",
    "bayes",
    "bounds",
    "check_coverage",
    "collision_example",
    "decompose",
    "evaluate",
    "fit_least_squares",
    "gate_weights",
    "mixture_study",
    "phase_diagram",
    "probe_attention",
    "probe_gates",
    "prompts_from_table",
    "sample_prompts",
    "selective_scan",
    "selective_scan_fn",
    "steps_to_loss",
    "stream_prompts",
    "stress",
    "tasks_all",
    "tasks_ring",
    "theory",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"icl_theory.{name}")
    if name in _WHERE:
        value = getattr(import_module(f"icl_theory.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
