"""Bounds between distributions, and the lowest versions that packages declare."""

from pathlib import Path

import pytest
from lemmata_tools import readme
from lemmata_tools.clean import Environment
from lemmata_tools.workspace import CORE, members
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)
DEPENDENTS = [member for member in MEMBERS.values() if member.name != CORE]


def required(member) -> set[str]:
    return {Requirement(text).name for text in member.data["project"].get("dependencies", [])}


LIGHT = [member for member in DEPENDENTS if member.is_package and not required(member) & {"torch", "gymnasium"}]


@pytest.mark.parametrize("member", DEPENDENTS, ids=lambda m: m.name)
def test_the_core_is_bound_to_its_minor_version(member):
    core = MEMBERS[CORE].version
    expected = SpecifierSet(f">={core.major}.{core.minor},<{core.major}.{core.minor + 1}")
    bounds = [requirement for requirement in member.dependencies if requirement.name == CORE]
    assert bounds, "every distribution leans on the core"
    assert [str(r) for r in bounds if r.specifier != expected] == []


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_every_dependency_has_a_floor(member):
    # Without one, the lowest-version test would install the first release ever made.
    floors = {">=", "~=", "=="}
    loose = [str(r) for r in member.dependencies if not r.url and not {s.operator for s in r.specifier} & floors]
    assert loose == []


@pytest.mark.slow
@pytest.mark.parametrize("member", [MEMBERS[CORE], *LIGHT], ids=lambda m: m.name)
def test_the_lowest_versions_work(member, tmp_path):
    """The README's example runs on the oldest versions that the package says it accepts."""
    environment = Environment.make(tmp_path / "env")
    environment.install("--resolution", "lowest-direct", *dict.fromkeys([MEMBERS[CORE].folder, member.folder]))
    assert readme.run(member.folder / "README.md", environment.python, console=False) == []
