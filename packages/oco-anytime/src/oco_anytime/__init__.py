"""Online decisions under adversarial constraints, with a guarantee at every round."""

from oco_anytime import baselines, domains, environments
from oco_anytime.certificate import Certificate
from oco_anytime.hindsight import Hindsight, HindsightTracker, best_fixed
from oco_anytime.learner import AnytimeCOCO
from oco_anytime.runner import Run, play, play_linear, play_many

__all__ = [
    "AnytimeCOCO",
    "Certificate",
    "Hindsight",
    "HindsightTracker",
    "Run",
    "baselines",
    "best_fixed",
    "domains",
    "environments",
    "play",
    "play_linear",
    "play_many",
]
