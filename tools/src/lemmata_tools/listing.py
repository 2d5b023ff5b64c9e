"""`lemmata list`: what is installed."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from lemmata_core import discover

if TYPE_CHECKING:
    from rich.console import RenderableType


def installed() -> list[dict[str, Any]]:
    """The installed packages: name, version, claims (id and statement), extras, error."""
    return [
        {
            "name": package.name,
            "version": package.version,
            "extras": sorted(importlib.metadata.metadata(package.name).get_all("Provides-Extra") or []),
            "claims": [{"id": claim.id, "statement": claim.statement} for claim in package.claims],
            "error": package.error,
        }
        for package in discover().values()
    ]


def table(rows: list[dict[str, Any]]) -> RenderableType:
    """The same as a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    made = Table("package", "version", "extras", "claim", "statement", show_lines=False, box=None, pad_edge=False)
    for row in rows:
        first = [row["name"], row["version"], ", ".join(row["extras"])]
        lines = [(c["id"].partition("/")[2], c["statement"]) for c in row["claims"]]
        if row["error"]:
            lines = [("-", f"cannot be loaded: {row['error']}")]
        for claim, statement in lines or [("-", "offers no claims")]:
            made.add_row(*(Text(str(cell)) for cell in (*first, claim, statement)))
            first = ["", "", ""]
    return made
