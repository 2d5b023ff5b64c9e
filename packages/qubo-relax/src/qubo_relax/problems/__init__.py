"""The problem library: each problem with the formulations it is usually given and one that is certified."""

from qubo_relax.problems.base import Problem
from qubo_relax.problems.knapsack import Knapsack, MultiKnapsack
from qubo_relax.problems.pit import OpenPit
from qubo_relax.problems.tsp import TSP

__all__ = ["TSP", "Knapsack", "MultiKnapsack", "OpenPit", "Problem"]
