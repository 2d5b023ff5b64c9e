"""Fair spectral clustering by Riemannian optimisation: clusters that keep the proportions of protected groups.

The problem (`fair_embedding`, `FairSpectralClustering`): the spectral embedding of a graph under linear fairness
constraints; the report (`fairness_report`, `fairness_path`); exact proportions at the label level (`fair_assign`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from riemann_fair.assign import AssignmentResult, fair_assign
from riemann_fair.constraints import ConstraintInfo, constraint_matrix
from riemann_fair.datasets import GraphDataset, SBMResult, load_graph, modified_sbm
from riemann_fair.embedding import fair_embedding
from riemann_fair.laplacian import adjacency_from_edges
from riemann_fair.metrics import average_balance, balance, clustering_error, normalized_cut, proportion_gap
from riemann_fair.path import PathResult, fairness_path
from riemann_fair.radmm import RADMMParams
from riemann_fair.rcg import RCGParams
from riemann_fair.report import FairnessReport, fairness_report
from riemann_fair.result import EmbeddingResult

if TYPE_CHECKING:
    from riemann_fair.estimator import FairSpectralClustering
    from riemann_fair.manifolds import FairGrassmann, FairStiefel

# scikit-learn (which loads pandas where it is installed) and pymanopt are loaded for those who ask for what needs them.
_LATER = {
    "FairSpectralClustering": "riemann_fair.estimator",
    "FairStiefel": "riemann_fair.manifolds",
    "FairGrassmann": "riemann_fair.manifolds",
}

__all__ = [
    "AssignmentResult",
    "ConstraintInfo",
    "EmbeddingResult",
    "FairGrassmann",
    "FairSpectralClustering",
    "FairStiefel",
    "FairnessReport",
    "GraphDataset",
    "PathResult",
    "RADMMParams",
    "RCGParams",
    "SBMResult",
    "adjacency_from_edges",
    "average_balance",
    "balance",
    "clustering_error",
    "constraint_matrix",
    "fair_assign",
    "fair_embedding",
    "fairness_path",
    "fairness_report",
    "load_graph",
    "modified_sbm",
    "normalized_cut",
    "proportion_gap",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
