"""Online decisions under adversarial constraints, with a guarantee at every round."""

from oco_anytime import baselines, domains, environments, hints
from oco_anytime.certificate import Certificate
from oco_anytime.dynamic import DynamicCOCO
from oco_anytime.hindsight import Hindsight, HindsightTracker, best_fixed
from oco_anytime.hints import Hint
from oco_anytime.learner import AnytimeCOCO
from oco_anytime.optimistic import OptimisticCOCO
from oco_anytime.run import Run
from oco_anytime.runner import play, play_linear, play_many

__all__ = [
    "AnytimeCOCO",
    "Certificate",
    "DynamicCOCO",
    "Hindsight",
    "HindsightTracker",
    "Hint",
    "OptimisticCOCO",
    "Run",
    "baselines",
    "best_fixed",
    "domains",
    "environments",
    "hints",
    "play",
    "play_linear",
    "play_many",
]
