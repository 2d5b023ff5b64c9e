"""Each distribution built, and installed alone: nothing comes along that it did not ask for."""

import functools
import re
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from lemmata_tools import readme
from lemmata_tools.clean import Environment, run
from lemmata_tools.lock import read_pins
from lemmata_tools.release import WORKSPACE_COMMAND
from lemmata_tools.workspace import CORE, Member, members
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)

# A distribution without a command line of its own, and why.
NO_COMMAND_LINE = {CORE: "a library: what it offers for command lines is seen in those of the packages"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    run(["uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", str(folder)], ROOT)
    return {str(canonicalize_name(path.name.partition("-")[0])): path for path in folder.glob("*.whl")}


def closure(wanted: Requirement, requires: dict[str, list[str]]) -> set[str]:
    """What `wanted` brings along, by the metadata of what is installed, extras included where they are asked for."""
    known = {canonicalize_name(key): value for key, value in requires.items()}
    seen: set[tuple[str, str]] = set()
    waiting = [(str(canonicalize_name(wanted.name)), extra) for extra in ("", *wanted.extras)]
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
    assert closure(Requirement("a"), requires) == {"a", "b", "e"}
    assert closure(Requirement("a[y]"), requires) == {"a", "b", "d", "e"}


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
ALONE = [pytest.param(member, marks=() if member.name == CORE else pytest.mark.slow) for member in MEMBERS.values()]


def page(member: Member) -> Path:
    return member.folder / "README.md"


def scripts(member: Member) -> list[str]:
    return list(member.data["project"].get("scripts", {}))


@functools.cache
def pins() -> str:
    return "\n".join(read_pins((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) + "\n"


def test_what_has_no_command_line_says_why():
    assert {member.name for member in MEMBERS.values() if not scripts(member)} == set(NO_COMMAND_LINE)


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_a_readme_says_how_to_install_it_and_how_its_command_is_used(member):
    text = page(member).read_text(encoding="utf-8")
    assert readme.install_line(text, member.name).extras <= set(member.data["project"].get("optional-dependencies", {}))
    shown = {command for block in readme.blocks(text) if not block.skip for command in block.commands}
    for script in scripts(member):
        assert [command for command in shown if re.search(rf"(^|\| ){script} ", command)]


@pytest.mark.parametrize("member", ALONE, ids=lambda m: m.name)
def test_installed_alone_it_brings_its_own_dependencies_and_does_what_its_readme_shows(wheels, member, tmp_path):
    """The README's code with the package alone, its commands with the extras that it says they need."""
    environment = Environment.make(tmp_path / "env")
    (tmp_path / "pins.txt").write_text(pins(), encoding="utf-8")
    # The core comes from the wheel beside it, as it would from an index.
    options = ["--find-links", wheels[member.name].parent, "--constraint", tmp_path / "pins.txt"]
    for wanted, commands in readme.trials(page(member).read_text(encoding="utf-8"), member.name):
        environment.install(f"{wanted} @ {wheels[member.name].as_uri()}", *options)
        installed = environment.distributions()
        assert {str(canonicalize_name(key)) for key in installed} == closure(wanted, installed)
        ours = {str(canonicalize_name(key)) for key in installed} & set(MEMBERS)
        assert ours == {member.name, CORE}
        without = {WORKSPACE_COMMAND} - set(scripts(member))
        assert readme.run(page(member), environment.python, console=commands, without=without) == []
    for script in scripts(member):
        command = environment.python.with_name(script)
        assert script in run([str(command), "--help"], tmp_path)
        assert str(member.version) in run([str(command), "--version"], tmp_path)
