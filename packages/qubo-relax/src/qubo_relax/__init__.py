"""QUBOs whose every local minimum is valid: formulations, proofs or counterexamples, and solvers."""

from qubo_relax import problems
from qubo_relax.constraints import LinearConstraint
from qubo_relax.errors import NotCertifiable
from qubo_relax.qubo import Qubo
from qubo_relax.solvers.driver import Result, minimize
from qubo_relax.theory import PointCertificate, certify_point, round_point
from qubo_relax.verify import Certificate, verify_conditions

__all__ = [
    "Certificate",
    "LinearConstraint",
    "NotCertifiable",
    "PointCertificate",
    "Qubo",
    "Result",
    "certify_point",
    "minimize",
    "problems",
    "round_point",
    "verify_conditions",
]
