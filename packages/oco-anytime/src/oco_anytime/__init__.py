"""Online decisions under adversarial constraints, with a guarantee at every round."""

from oco_anytime import domains
from oco_anytime.certificate import Certificate
from oco_anytime.learner import AnytimeCOCO

__all__ = ["AnytimeCOCO", "Certificate", "domains"]
