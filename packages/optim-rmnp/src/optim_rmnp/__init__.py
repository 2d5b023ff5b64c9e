"""RMNP: row-normalised momentum, a Muon-like optimizer for PyTorch whose preconditioner is one row normalisation."""

from importlib.metadata import version

from optim_rmnp.describe import ParamRow, ParamTable, describe
from optim_rmnp.dominance import Dominance, DominanceMonitor, MatrixRecord, StepRecord, dominance, polar_alignment
from optim_rmnp.grouping import param_groups
from optim_rmnp.optimizer import RMNP
from optim_rmnp.row_norm import row_normalize
from optim_rmnp.step import rmnp_step

__all__ = [
    "RMNP",
    "Dominance",
    "DominanceMonitor",
    "MatrixRecord",
    "ParamRow",
    "ParamTable",
    "StepRecord",
    "describe",
    "dominance",
    "param_groups",
    "polar_alignment",
    "rmnp_step",
    "row_normalize",
]
__version__ = version("optim-rmnp")
