"""RMNP: row-normalised momentum, a Muon-like optimizer for PyTorch whose preconditioner is one row normalisation."""

from importlib.metadata import version

from optim_rmnp.optimizer import RMNP
from optim_rmnp.row_norm import row_normalize
from optim_rmnp.step import rmnp_step

__all__ = ["RMNP", "rmnp_step", "row_normalize"]
__version__ = version("optim-rmnp")
