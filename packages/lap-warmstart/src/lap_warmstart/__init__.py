"""Exact linear assignment, started from predicted duals, with a certificate for every answer."""

from lap_warmstart.batch import solve_batch
from lap_warmstart.certificate import Certificate, certify
from lap_warmstart.errors import Infeasible
from lap_warmstart.result import AssignmentResult, SolveStats
from lap_warmstart.solve import linear_sum_assignment, solve
from lap_warmstart.stream import AssignmentStream
from lap_warmstart.warm import ColumnDuals, DualPredictor, RowDuals

__all__ = [
    "AssignmentResult",
    "AssignmentStream",
    "Certificate",
    "ColumnDuals",
    "DualPredictor",
    "Infeasible",
    "RowDuals",
    "SolveStats",
    "certify",
    "linear_sum_assignment",
    "solve",
    "solve_batch",
]
__version__ = "0.1.0"
