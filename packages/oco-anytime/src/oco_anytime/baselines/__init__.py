"""Baselines with the learner's interface. Each docstring says which published guarantee the method has."""

from oco_anytime.baselines.anytime import DoublingCOCO, FixedHorizonCOCO, HorizonExceeded, ProjectedOGD
from oco_anytime.baselines.queues import (
    ClippedPrimalDual,
    DriftPlusPenalty,
    LatestConstraintProjection,
    RectifiedCOCO,
)

__all__ = [
    "ClippedPrimalDual",
    "DoublingCOCO",
    "DriftPlusPenalty",
    "FixedHorizonCOCO",
    "HorizonExceeded",
    "LatestConstraintProjection",
    "ProjectedOGD",
    "RectifiedCOCO",
]
