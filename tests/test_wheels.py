"""Each distribution built, and installed alone: nothing comes along that it did not ask for."""

import functools
import json
import os
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from lemmata_tools import readme
from lemmata_tools.lock import read_pins
from lemmata_tools.workspace import CORE, members
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)

# Prints what the environment holds: for each distribution its name and what it requires where it stands.
LIST = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"]: d.requires or [] for d in m.distributions()}))
"""


def run(*command, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    run("uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder, cwd=ROOT)
    return {str(canonicalize_name(path.name.partition("-")[0])): path for path in folder.glob("*.whl")}


def closure(name: str, requires: dict[str, list[str]]) -> set[str]:
    """What `name` brings along, by the metadata of what is installed, extras included where they are asked for."""
    known = {canonicalize_name(key): value for key, value in requires.items()}
    seen: set[tuple[str, str]] = set()
    waiting = [(str(canonicalize_name(name)), "")]
    while waiting:
        current, extra = waiting.pop()
        if (current, extra) in seen:
            continue
        seen.add((current, extra))
        for requirement in map(Requirement, known.get(current, [])):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(str(canonicalize_name(requirement.name)), e) for e in ("", *requirement.extras)]
    return {current for current, _ in seen}


def test_the_closure_follows_extras_and_markers():
    requires = {
        "A": ["b[x]>=1", "c; python_version < '3'", "d; extra == 'y'"],
        "b": ["e; extra == 'x'", "f; extra == 'z'"],
        "e": ["a"],
    }
    assert closure("a", requires) == {"a", "b", "e"}


def test_there_is_a_wheel_for_every_member(wheels):
    assert set(wheels) == set(MEMBERS)


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_a_wheel_holds_the_package_and_no_more(wheels, member):
    with zipfile.ZipFile(wheels[member.name]) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
        info = f"{member.module}-{member.version}.dist-info"
        headers = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
    assert {name.partition("/")[0] for name in files} == {member.module, info}
    source = {p for p in member.source.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    compiled = {".nbc", ".nbi", ".pyc"}
    expected = {p.relative_to(member.source.parent).as_posix() for p in source if p.suffix not in compiled}
    assert {name for name in files if name.startswith(f"{member.module}/")} == expected
    assert headers["License-Expression"] == "Apache-2.0"
    assert headers["Description-Content-Type"] == "text/markdown"


# The core is small and quick; a package brings compilers, solvers or torch.
ALONE = [pytest.param(name, marks=() if name == CORE else pytest.mark.slow, id=name) for name in MEMBERS]


@functools.cache
def pins() -> str:
    return "\n".join(read_pins((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) + "\n"


@pytest.mark.parametrize("name", ALONE)
def test_installed_alone_it_brings_its_own_dependencies_and_runs_its_example(wheels, name, tmp_path):
    run("uv", "venv", "--quiet", "--python", sys.executable, "env", cwd=tmp_path)
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    (tmp_path / "pins.txt").write_text(pins(), encoding="utf-8")
    install = ["uv", "pip", "install", "--quiet", "--no-config", "--python", python, "--constraint", "pins.txt"]
    # The core comes from the wheel beside it, as it would from an index.
    run(*install, "--find-links", wheels[name].parent, wheels[name], cwd=tmp_path)
    installed = json.loads(run(python, "-I", "-c", LIST, cwd=tmp_path))
    assert {str(canonicalize_name(key)) for key in installed} == closure(name, installed)
    ours = {str(canonicalize_name(key)) for key in installed} & set(MEMBERS)
    assert ours == {name, CORE}
    assert readme.run(MEMBERS[name].folder / "README.md", python, console=False) == []
