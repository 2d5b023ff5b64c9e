"""The three networks: average velocity, average divergence, twin critics."""

from rl_mfpo.networks.critic import TwinCritic
from rl_mfpo.networks.meanflow import MeanFlowNet
from rl_mfpo.networks.mlp import MLP

__all__ = ["MLP", "MeanFlowNet", "TwinCritic"]
