"""QUBOs whose every local minimum is valid: formulations, proofs or counterexamples, and solvers."""

from typing import TYPE_CHECKING, Any

from qubo_relax import problems
from qubo_relax.constraints import LinearConstraint
from qubo_relax.errors import NotCertifiable
from qubo_relax.interop import from_bqm, to_bqm
from qubo_relax.io import read, write
from qubo_relax.qubo import Qubo
from qubo_relax.solvers.driver import Result, minimize
from qubo_relax.theory import PointCertificate, certify_point, round_point
from qubo_relax.verify import Certificate, verify_conditions
from qubo_relax.weights import Repaired, Weights, repair, suggest_weights

if TYPE_CHECKING:
    from qubo_relax.sampler import RelaxSampler

__all__ = [
    "Certificate",
    "LinearConstraint",
    "NotCertifiable",
    "PointCertificate",
    "Qubo",
    "RelaxSampler",
    "Repaired",
    "Result",
    "Weights",
    "certify_point",
    "from_bqm",
    "minimize",
    "problems",
    "read",
    "repair",
    "round_point",
    "suggest_weights",
    "to_bqm",
    "verify_conditions",
    "write",
]


def __getattr__(name: str) -> Any:
    # The sampler derives from a class of dimod, an extra, so it exists only once it is asked for.
    if name == "RelaxSampler":
        from qubo_relax.sampler import RelaxSampler

        return RelaxSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
