"""The small core of the lemmata packages. Importing it loads the standard library only."""

from lemmata_core.claims import (
    Claim,
    Context,
    Evidence,
    Outcome,
    Package,
    Scale,
    Series,
    Table,
    Verdict,
    discover,
)
from lemmata_core.errors import InvalidInput, NotConvergedWarning

__all__ = [
    "Claim",
    "Context",
    "Evidence",
    "InvalidInput",
    "NotConvergedWarning",
    "Outcome",
    "Package",
    "Scale",
    "Series",
    "Table",
    "Verdict",
    "discover",
]
