"""The distributions of a checkout, as their ``pyproject.toml`` files describe them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemmata_core import InvalidInput
from packaging.requirements import Requirement
from packaging.version import Version

CORE = "lemmata-core"


@dataclass(frozen=True)
class Member:
    """A distribution of the workspace.

    Attributes
    ----------
    name : str
    folder : pathlib.Path
    version : packaging.version.Version
    dependencies : tuple of packaging.requirements.Requirement
        The required ones and those of all extras.
    data : dict
        The whole ``pyproject.toml``.
    """

    name: str
    folder: Path
    version: Version
    dependencies: tuple[Requirement, ...]
    data: dict[str, Any]

    @property
    def module(self) -> str:
        """What is imported."""
        return self.name.replace("-", "_")

    @property
    def source(self) -> Path:
        """The folder of the import package."""
        return self.folder / "src" / self.module

    @property
    def is_package(self) -> bool:
        """Whether it turns a method into software: it lies under ``packages/``."""
        return self.folder.parent.name == "packages"


def members(root: Path) -> dict[str, Member]:
    """The members that the root ``pyproject.toml`` lists, by name, sorted.

    Raises
    ------
    InvalidInput
        Where a listed folder has no readable ``pyproject.toml``.
    """
    found = [_read(root / folder) for folder in _load(root)["tool"]["uv"]["workspace"]["members"]]
    return {member.name: member for member in sorted(found, key=lambda member: member.name)}


def _read(folder: Path) -> Member:
    data = _load(folder)
    project = data["project"]
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    wanted = tuple(Requirement(text) for each in lists for text in each)
    return Member(project["name"], folder, Version(project["version"]), wanted, data)


def _load(folder: Path) -> dict[str, Any]:
    path = folder / "pyproject.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as err:
        raise InvalidInput.argument(str(path), expected="a pyproject.toml", got=str(err)) from err
