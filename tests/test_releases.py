"""Every distribution can be released from a clean clone, in any order; and what the workflow does with its tag."""

import io
import os
import random
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from lemmata_tools import release as module
from lemmata_tools.release import release, sections
from lemmata_tools.workspace import members
from rich.console import Console

ROOT = Path(__file__).parents[1]
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
NAMES = list(members(ROOT))
random.Random(11).shuffle(NAMES)


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("clean") / "clone"
    git(ROOT, "clone", "--quiet", str(ROOT), str(folder))
    return folder


def dry_run(clone: Path, name: str) -> str:
    """What a dry run says; the version that stands is released where it is not out yet, else the next one."""
    member = members(clone)[name]
    news = sections((member.folder / "CHANGELOG.md").read_text(encoding="utf-8")).get("Unreleased")
    released = git(clone, "tag", "--list", f"{name}-v{member.version}").strip()
    if released and not news:
        pytest.skip("released, and nothing new since")
    before = git(clone, "rev-parse", "HEAD"), git(clone, "tag"), git(clone, "status", "--porcelain")
    stream = io.StringIO()
    code = release(clone, name, "patch" if news else None, True, Console(file=stream, width=200))
    assert code == 0, stream.getvalue()
    assert (git(clone, "rev-parse", "HEAD"), git(clone, "tag"), git(clone, "status", "--porcelain")) == before
    return stream.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_stands_against_its_release(clone, name, monkeypatch):
    monkeypatch.setattr(module, "_rehearse", lambda *_: [])
    assert f"would make the tag {name}-v" in dry_run(clone, name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_its_release_is_rehearsed_from_a_clean_clone(clone, name):
    said = dry_run(clone, name)
    assert "its README's example and commands run in a clean environment" in said
    assert name not in {m.name for m in members(clone).values() if m.is_package} or "its claims run there" in said


def script(step: str) -> str:
    """The commands of a step of the workflow."""
    found = re.search(rf"- name: {re.escape(step)}\n +run: \|\n((?: +.*\n)+?)(?= +- )", WORKFLOW)
    assert found, f"the workflow has no step {step!r}"
    return textwrap.dedent(found[1])


def checked(tag: str, tmp_path: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"TAG": tag, "GITHUB_ENV": str(tmp_path / "env")}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("The tag names what stands there")]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
@pytest.mark.parametrize("name", NAMES)
def test_the_workflow_takes_the_tag_of_the_version_that_stands(name, tmp_path):
    done = checked(f"{name}-v{members(ROOT)[name].version}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "env").read_text() == f"NAME={name}\n"


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
@pytest.mark.parametrize("tag", ["lemmata-core-v9.9.9", "no-such-package-v0.1.0"])
def test_the_workflow_refuses_any_other_tag(tag, tmp_path):
    assert checked(tag, tmp_path).returncode != 0
    assert not (tmp_path / "env").exists()


@pytest.mark.skipif(os.name == "nt", reason="the workflow runs on Linux")
def test_the_workflow_refuses_a_version_that_the_changelog_does_not_tell_of(clone, tmp_path):
    path = clone / "shared" / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8")
    version = members(clone)["lemmata-core"].version
    assert f"## {version}\n" in text
    path.write_text(text.replace(f"## {version}\n", f"## {version}0\n"), encoding="utf-8")
    try:
        done = checked(f"lemmata-core-v{version}", tmp_path, clone)
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode != 0
    assert not (tmp_path / "env").exists()


def test_the_workflow_builds_one_package_and_knows_no_secret():
    assert re.findall(r"uv build .*", WORKFLOW) == ['uv build --package "$NAME" --out-dir dist']
    assert re.findall(r"uv publish.*", WORKFLOW) == ["uv publish --trusted-publishing always"]
    assert not re.search(r"secrets\.|password|token:(?! write)", WORKFLOW, re.IGNORECASE)
