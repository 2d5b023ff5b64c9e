"""The files at the top level: sorted lists, current changelogs, nothing of one machine."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from lemmata_tools.lock import read_pins
from lemmata_tools.readme import install_line
from lemmata_tools.release import sections
from lemmata_tools.workspace import members
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)
PACKAGES = [member for member in MEMBERS.values() if member.is_package]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Spelled in pieces, or this file would find itself.
FORBIDDEN = {
    "a path of one machine": re.compile(
        r"(?<![\w.$}~-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me|Us" + r"ers|tm" + r"p)/\w"
    ),
    "the address of a package index": re.compile(
        r"https?://\S*(?:py" + r"pi\b|/simp" + r"le\b|pythonho" + r"sted|devpi|artifactory|nexus)", re.IGNORECASE
    ),
    "an index option": re.compile(r"--(?:extra-)?index" + r"-url|^\[\[tool\.uv\.ind" + r"ex\]\]", re.MULTILINE),
}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def names(requirements: list[str]) -> list[str]:
    return [Requirement(text).name for text in requirements]


def test_the_lock_file_is_not_tracked():
    assert "uv.lock" not in tracked()
    assert "uv.lock" in read(".gitignore").splitlines()


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(names(PYPROJECT["project"]["dependencies"]), id="dependencies"),
        *[pytest.param(names(group), id=f"group {key}") for key, group in PYPROJECT["dependency-groups"].items()],
        pytest.param(PYPROJECT["tool"]["uv"]["workspace"]["members"], id="members"),
        pytest.param(list(PYPROJECT["tool"]["uv"]["sources"]), id="sources"),
        pytest.param(PYPROJECT["tool"]["mypy"]["files"], id="mypy files"),
        pytest.param(read_pins(read("pyproject.toml")), id="pins"),
        pytest.param(re.findall(r"^\| \[([\w-]+)\]\(packages/", read("README.md"), re.MULTILINE), id="README table"),
        pytest.param(re.findall(r"- ([\w-]+): packages/", read("mkdocs.yml")), id="navigation"),
        pytest.param(re.findall(r"^    title: \"?(.+?)\"?$", read("CITATION.cff"), re.MULTILINE), id="citations"),
    ],
)
def test_a_list_that_every_package_touches_is_sorted(entries):
    assert entries == sorted(entries)
    assert len(entries) == len(set(entries))


@pytest.mark.parametrize("member", PACKAGES, ids=lambda m: m.name)
def test_every_list_has_the_package(member):
    name = member.name
    assert name in names(PYPROJECT["project"]["dependencies"])
    assert PYPROJECT["tool"]["uv"]["sources"][name] == {"workspace": True}
    assert any(f.startswith(f"packages/{name}/src") for f in PYPROJECT["tool"]["mypy"]["files"])
    row = re.search(rf"^\| \[{name}\]\(packages/{name}\) \| .+ \| `(\S+)` \|$", read("README.md"), re.MULTILINE)
    assert row
    assert Requirement(row[1]) == install_line(read(f"packages/{name}/README.md"), name)
    assert f"\n      - {name}: packages/{name}.md\n" in read("mkdocs.yml")
    assert f"::: {member.module}\n" in read(f"docs/packages/{name}.md")


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_the_changelog_tells_of_the_current_version(member):
    found = sections((member.folder / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert found.get(str(member.version), "").strip()


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_a_distribution_has_the_common_form(member):
    project, build = member.data["project"], member.data["build-system"]
    assert project["requires-python"] == PYPROJECT["project"]["requires-python"]
    assert project["license"] == "Apache-2.0"
    assert project["readme"] == "README.md"
    assert project["description"].strip()
    assert re.fullmatch(r"\d+\.\d+\.\d+", project["version"])
    assert build == {"requires": ["uv_build>=0.9,<0.14"], "build-backend": "uv_build"}
    assert (member.source / "py.typed").is_file()
    assert (member.folder / "README.md").is_file()


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_a_distribution_names_the_pythons_that_the_workflow_tries(member):
    matrix = re.search(r"^ +python: \[(.+)\]$", read(".github/workflows/tests.yml"), re.MULTILINE)
    tried = [f"Programming Language :: Python :: {version}" for version in re.findall(r"3\.\d+", matrix[1])]
    assert [c for c in member.data["project"]["classifiers"] if ":: Python :: 3." in c] == tried


@pytest.mark.parametrize("member", PACKAGES, ids=lambda m: m.name)
def test_a_package_offers_its_command_and_its_claims(member):
    project = member.data["project"]
    assert project["scripts"][member.name].startswith(f"{member.module}.")
    assert project["entry-points"]["lemmata.claims"] == {member.name: f"{member.module}.claims:CLAIMS"}
    assert list((member.folder / "benchmarks").glob("*.py"))
    assert list((member.folder / "tests").glob("test_*.py"))


def test_nothing_of_one_machine_or_index_is_written_down():
    found = []
    for name in tracked():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for what, pattern in FORBIDDEN.items():
            found += [f"{name}: {what}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("see /wo" + "rk/main/x", "a path of one machine"),
        ("'/tm" + "p/a'", "a path of one machine"),
        ("https://py" + "pi.org/simple", "the address of a package index"),
        ("http://10.0.0.1/simp" + "le/", "the address of a package index"),
        ("pip install --index" + "-url x", "an index option"),
    ],
)
def test_what_is_forbidden_is_found(text, what):
    assert FORBIDDEN[what].search(text)


@pytest.mark.parametrize("text", ["packages/work/x", "a/tm" + "p/b", "https://arxiv.org/abs/1", "{x}/ro" + "ot/x"])
def test_what_is_harmless_is_not(text):
    assert not any(pattern.search(text) for pattern in FORBIDDEN.values())


def test_every_open_task_stands_in_the_roadmap():
    roadmap = ROOT / "docs" / "roadmap.md"
    listed = roadmap.read_text(encoding="utf-8") if roadmap.is_file() else ""
    mark = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")
    sources = [name for name in tracked() if name.endswith((".py", ".in", ".toml", ".yml"))]
    assert [name for name in sources if mark.search(read(name)) and name not in listed] == []
