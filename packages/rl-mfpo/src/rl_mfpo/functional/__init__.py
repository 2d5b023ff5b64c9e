"""The method as pure functions of tensors and callables, for use in other algorithms."""

from rl_mfpo.functional.categorical import project_categorical
from rl_mfpo.functional.flow import divergence_target, meanflow_target, sample_flow
from rl_mfpo.functional.times import sample_time_pairs
from rl_mfpo.functional.truncnorm import truncated_normal
from rl_mfpo.functional.velocity import VelocityEstimate, estimate_velocity

__all__ = [
    "VelocityEstimate",
    "divergence_target",
    "estimate_velocity",
    "meanflow_target",
    "project_categorical",
    "sample_flow",
    "sample_time_pairs",
    "truncated_normal",
]
