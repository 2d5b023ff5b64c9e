"""Bounds between distributions, and the lowest versions that packages declare."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lemmata_tools import readme
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
    env = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, "env"], cwd=tmp_path, env=env, check=True)
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = ["uv", "pip", "install", "--quiet", "--no-config", "--resolution", "lowest-direct", "--python", python]
    folders = [ROOT / "shared"] if member.name == CORE else [ROOT / "shared", member.folder]
    subprocess.run([*install, *folders], cwd=tmp_path, env=env, check=True)
    assert readme.run(member.folder / "README.md", python, console=False) == []
