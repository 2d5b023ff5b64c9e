"""Errors of this package."""

from __future__ import annotations

from lemmata_core import InvalidInput


class NotCertifiable(InvalidInput):
    """No formulation with a structural proof is known for this model; the message names the row and the reason.

    See Also
    --------
    qubo_relax.verify_conditions : may still settle a concrete model by enumeration or by MILP.
    """
