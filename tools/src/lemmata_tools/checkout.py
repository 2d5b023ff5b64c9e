"""Where the checkout is, for the verbs that need one."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lemmata_core import InvalidInput


def find_root(start: Path | None = None) -> Path | None:
    """The root of the lemmata checkout that `start` (the current folder unless given) lies in; None outside one."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        try:
            data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            continue
        if data.get("project", {}).get("name") == "lemmata" and "workspace" in data.get("tool", {}).get("uv", {}):
            return folder
    return None


def require_root(verb: str) -> Path:
    """The root of the checkout that the current folder lies in.

    Raises
    ------
    InvalidInput
        Outside a checkout, in one line that names the verb.
    """
    root = find_root()
    if root is None:
        raise InvalidInput(f"lemmata {verb} works in a checkout of lemmata, and {Path.cwd()} is not in one")
    return root
