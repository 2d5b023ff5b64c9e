"""The problem library: each problem with the formulations it is usually given and one that is certified."""

from qubo_relax.problems.assignment import QAP, GraphMatching, LinearAssignment
from qubo_relax.problems.base import Problem
from qubo_relax.problems.blp import BinaryLP
from qubo_relax.problems.cover import FacilityLocation, SetCover
from qubo_relax.problems.cuts import Colouring, MaxCut, MaxKCut
from qubo_relax.problems.graphs import MIS, MaxClique, SetPacking, VertexCover
from qubo_relax.problems.knapsack import Knapsack, MultiKnapsack
from qubo_relax.problems.packing import GAP, BinPacking
from qubo_relax.problems.pit import OpenPit
from qubo_relax.problems.subset import KSubset, Partition
from qubo_relax.problems.tsp import TSP

MWIS = MIS
"""The weighted independent set is `MIS` with weights."""

__all__ = [
    "GAP",
    "MIS",
    "MWIS",
    "QAP",
    "TSP",
    "BinPacking",
    "BinaryLP",
    "Colouring",
    "FacilityLocation",
    "GraphMatching",
    "KSubset",
    "Knapsack",
    "LinearAssignment",
    "MaxClique",
    "MaxCut",
    "MaxKCut",
    "MultiKnapsack",
    "OpenPit",
    "Partition",
    "Problem",
    "SetCover",
    "SetPacking",
    "VertexCover",
]
