import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lemmata_core import InvalidInput
from lemmata_tools import release as module
from lemmata_tools.new import new_package
from lemmata_tools.release import bumped, release, sections
from packaging.version import Version
from rich.console import Console

ROOT = Path(__file__).parents[2]
NAME = "zz-sample"


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of the core, the command and one new package."""
    for variable in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{variable}_NAME", "t")
        monkeypatch.setenv(f"GIT_{variable}_EMAIL", "t@example.org")
    root = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "tests")
    for part in ("shared", "tools"):
        shutil.copytree(ROOT / part, root / part, ignore=ignore)
    for file in ("README.md", "mkdocs.yml", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / file, root / file)
    drop_packages(root)
    new_package(root, NAME)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "start")
    return root


def drop_packages(root: Path) -> None:
    path = root / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    for member in (ROOT / "packages").glob("*/pyproject.toml"):
        name = member.parent.name
        text = re.sub(rf'^ +"(packages/)?{name}[\["/].*\n|^{name} = .*\n', "", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def quick(monkeypatch):
    """Leaves out the build, which the slow tests do."""
    monkeypatch.setattr(module, "_rehearse", lambda *_: [])


def edit(root: Path, file: str, old: str, new: str, *, commit: bool = True) -> None:
    path = root / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    if commit:
        git(root, "commit", "--quiet", "--all", "--message", "edit")


def add_entry(root: Path, folder: str = f"packages/{NAME}") -> None:
    edit(root, f"{folder}/CHANGELOG.md", "## 0.1.0", "## Unreleased\n\n- Faster.\n\n## 0.1.0")


def run(root: Path, name: str = NAME, bump: str | None = None, dry_run: bool = False) -> tuple[int, str]:
    stream = io.StringIO()
    code = release(root, name, bump, dry_run, Console(file=stream, width=200))
    return code, stream.getvalue()


def state(root: Path) -> tuple[object, ...]:
    files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and ".git" not in p.parts}
    return files, git(root, "rev-parse", "HEAD"), git(root, "tag"), git(root, "status", "--porcelain")


@pytest.mark.parametrize(
    ("bump", "after"), [(None, "0.1.9"), ("patch", "0.1.10"), ("minor", "0.2.0"), ("major", "1.0.0")]
)
def test_a_bump_raises_one_part_and_clears_those_after(bump, after):
    assert bumped(Version("0.1.9"), bump) == Version(after)


def test_a_changelog_is_read_by_headings():
    text = "# Title\n\nintro\n\n## Unreleased\n\n- a\n\n## [0.2.0] - 2026-01-01\n\n- b\n\n### more\n\n- c\n\n## 0.1.0\n"
    assert sections(text) == {"Unreleased": "- a", "0.2.0": "- b\n\n### more\n\n- c", "0.1.0": ""}


def test_the_first_release_is_a_tag_on_what_stands(checkout, quick):
    code, out = run(checkout)
    assert code == 0, out
    assert git(checkout, "tag").split() == [f"{NAME}-v0.1.0"]
    assert git(checkout, "rev-parse", f"{NAME}-v0.1.0^{{}}") == git(checkout, "rev-parse", "HEAD")
    assert git(checkout, "log", "--oneline").count("\n") == 1


def test_a_bump_is_one_commit_of_version_and_changelog(checkout, quick):
    add_entry(checkout)
    code, out = run(checkout, bump="minor")
    assert code == 0, out
    assert git(checkout, "show", "--name-only", "--format=%s", f"{NAME}-v0.2.0^{{}}").split("\n")[:4] == [
        f"Release {NAME} 0.2.0",
        "",
        f"packages/{NAME}/CHANGELOG.md",
        f"packages/{NAME}/pyproject.toml",
    ]
    folder = checkout / "packages" / NAME
    assert 'version = "0.2.0"\n' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert list(sections((folder / "CHANGELOG.md").read_text(encoding="utf-8"))) == ["0.2.0", "0.1.0"]
    assert git(checkout, "status", "--porcelain") == ""


@pytest.mark.parametrize("bump", [None, "patch"])
def test_a_dry_run_changes_nothing_and_says_what_would_be(checkout, quick, bump):
    if bump:
        add_entry(checkout)
    before = state(checkout)
    code, out = run(checkout, bump=bump, dry_run=True)
    assert code == 0, out
    assert f"would make the tag {NAME}-v0.1.{1 if bump else 0}" in out
    assert ("would write and commit" in out) == bool(bump)
    assert state(checkout) == before


def test_all_that_stands_against_it_is_said_at_once(checkout, quick):
    git(checkout, "tag", f"{NAME}-v0.1.0")
    git(checkout, "tag", f"{NAME}-v0.3.0")
    edit(checkout, f"packages/{NAME}/CHANGELOG.md", "## 0.1.0", "## 0.0.9")
    edit(checkout, f"packages/{NAME}/pyproject.toml", "lemmata-core[cli]>=0.1,<0.2", "lemmata-core[cli]>=0.1")
    (checkout / "stray.txt").write_text("x")
    before = state(checkout)
    code, out = run(checkout)
    assert code == 1
    for part in (
        f"packages/{NAME}/CHANGELOG.md: expected an entry under ## 0.1.0",
        f"packages/{NAME}/pyproject.toml: lemmata-core[cli]>=0.1 admits 0.2.0",
        "the tree is not clean: stray.txt",
        f"the tag {NAME}-v0.1.0 exists",
        "0.1.0 is below the released 0.3.0",
        "5 to mend, nothing was changed",
    ):
        assert part in out
    assert state(checkout) == before


@pytest.mark.parametrize(
    ("bump", "entry", "said"),
    [
        ("patch", False, "expected what changed under ## Unreleased"),
        (None, True, "## Unreleased has entries"),
    ],
)
def test_changelog_and_bump_must_agree(checkout, quick, bump, entry, said):
    if entry:
        add_entry(checkout)
    code, out = run(checkout, bump=bump)
    assert code == 1
    assert said in out


def test_a_breaking_core_needs_every_bound_to_follow(checkout, quick):
    add_entry(checkout, "shared")
    code, out = run(checkout, "lemmata-core", "minor")
    assert code == 1
    assert f"packages/{NAME}/pyproject.toml: lemmata-core[cli]<0.2,>=0.1 does not admit lemmata-core 0.2.0" in out
    assert "tools/pyproject.toml: lemmata-core" in out
    assert run(checkout, "lemmata-core", "patch", dry_run=True)[0] == 0
    for folder in (f"packages/{NAME}", "tools"):
        text = (checkout / folder / "pyproject.toml").read_text(encoding="utf-8")
        (checkout / folder / "pyproject.toml").write_text(text.replace(">=0.1,<0.2", ">=0.2,<0.3"), encoding="utf-8")
    git(checkout, "commit", "--quiet", "--all", "--message", "bounds")
    code, out = run(checkout, "lemmata-core", "minor")
    assert code == 0, out
    assert git(checkout, "tag").split() == ["lemmata-core-v0.2.0"]


@pytest.mark.parametrize(("name", "bump", "said"), [("zz-sampel", None, "zz-sample"), (NAME, "huge", "major")])
def test_unknown_words_are_refused(checkout, name, bump, said):
    with pytest.raises(InvalidInput, match=said):
        run(checkout, name, bump)


def test_outside_git_it_says_so(checkout, quick):
    shutil.rmtree(checkout / ".git")
    code, out = run(checkout)
    assert code == 1
    assert "git status: fatal: not a git repository" in out


def test_a_tag_that_cannot_be_made_undoes_the_commit(checkout, quick, monkeypatch):
    add_entry(checkout)
    before = state(checkout)
    original = module._git

    def refuse(root, *words):
        if words[:2] == ("tag", "--annotate"):
            raise InvalidInput("git tag: refused")
        return original(root, *words)

    monkeypatch.setattr(module, "_git", refuse)
    with pytest.raises(InvalidInput, match="refused"):
        run(checkout, bump="patch")
    assert state(checkout) == before


def test_a_tree_that_changes_meanwhile_is_not_tagged(checkout, monkeypatch):
    def meanwhile(planned, console):
        (checkout / "stray.txt").write_text("x")
        return []

    monkeypatch.setattr(module, "_rehearse", meanwhile)
    code, out = run(checkout)
    assert code == 1
    assert "changed while" in out
    assert git(checkout, "tag") == ""


@pytest.mark.slow
def test_the_wheel_is_built_and_tried(checkout):
    add_entry(checkout)
    before = state(checkout)
    code, out = run(checkout, bump="minor", dry_run=True)
    assert code == 0, out
    assert "built zz_sample-0.2.0-py3-none-any.whl and zz_sample-0.2.0.tar.gz" in out
    assert "README's example and commands run in a clean environment" in out
    assert "1 claims at scale smoke" in out
    assert "1 hold" in out
    assert state(checkout) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("README.md", "assert abs(solution.x - 0.3) < 1e-6", "assert False", "README.md: python blocks"),
        (
            "src/zz_sample/claims.py",
            "calls = 0\n",
            "calls = 0\n    raise RuntimeError('broken')\n",
            "RuntimeError: broken",
        ),
        ("pyproject.toml", '"lemmata-core[cli]>=0.1,<0.2",', "", "No module named 'lemmata_core'"),
    ],
)
def test_a_wheel_that_fails_is_not_released(checkout, file, old, new, said):
    edit(checkout, f"packages/{NAME}/{file}", old, new)
    code, out = run(checkout)
    assert code == 1
    assert said in out
    assert git(checkout, "tag") == ""
