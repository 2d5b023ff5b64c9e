import shutil
import subprocess

import pytest
from lemmata_core import InvalidInput
from lemmata_tools.checkout import find_root, require_root
from lemmata_tools.lock import BEGIN, END, lock, missing_pins, read_pins, with_pins

TEXT = f"""[project]
name = "lemmata"
version = "0"
requires-python = ">=3.11"
dependencies = ["member"]

[tool.uv]
package = false
constraint-dependencies = [
{BEGIN}
  "old==1.0",
{END}
]

[tool.uv.workspace]
members = [
  "member",
]

[tool.uv.sources]
member = {{ workspace = true }}
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "member").mkdir()
    (tmp_path / "member" / "pyproject.toml").write_text(
        '[project]\nname = "member"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = []\n'
        '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'
    )
    (tmp_path / "pyproject.toml").write_text(TEXT)
    return tmp_path


def test_pins_stand_between_two_lines_and_nothing_else_changes():
    assert read_pins(TEXT) == ["old==1.0"]
    changed = with_pins(TEXT, ["a==1", "b==2 ; sys_platform == 'win32'"])
    assert read_pins(changed) == ["a==1", "b==2 ; sys_platform == 'win32'"]
    assert with_pins(changed, ["old==1.0"]) == TEXT


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END}"])
def test_without_the_two_lines_nothing_is_guessed(text):
    with pytest.raises(InvalidInput, match="pins: begin"):
        read_pins(text)


def test_what_is_locked_from_a_registry_needs_its_pin(root):
    with pytest.raises(InvalidInput, match=r"uv\.lock"):
        missing_pins(root)
    package = '[[package]]\nname = "{}"\nversion = "{}"\nsource = {{ {} }}\n'
    (root / "uv.lock").write_text(
        package.format("Old", "1.0", 'registry = "r"')
        + package.format("new_one", "2.0", 'registry = "r"')
        + package.format("old", "1.1", 'registry = "r"')
        + package.format("member", "0", 'editable = "member"')
    )
    assert missing_pins(root) == ["new-one==2.0", "old==1.1"]


@pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv on the PATH")
def test_a_resolution_writes_pins_and_drops_stale_ones(root, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")  # nothing from a registry is asked for
    assert lock(root) == ["- old==1.0"]
    assert read_pins((root / "pyproject.toml").read_text()) == []
    assert missing_pins(root) == []
    assert lock(root) == []
    with pytest.raises(InvalidInput, match="NAME: expected a pinned package, got numpy"):
        lock(root, upgrade=True, name="numpy")


@pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv on the PATH")
def test_a_failed_resolution_changes_nothing(root, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    member = root / "member" / "pyproject.toml"
    member.write_text(member.read_text().replace("[]", '["a-package-that-nobody-has==9"]'))
    with pytest.raises(InvalidInput, match=r"(?s)uv lock failed: .*a-package-that-nobody-has"):
        lock(root)
    assert (root / "pyproject.toml").read_text() == TEXT
    assert not (root / "uv.lock").exists()


def test_without_uv_it_says_what_is_missing(root, monkeypatch):
    def missing(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(InvalidInput, match="pip install uv"):
        lock(root)


def test_the_root_is_found_from_below_and_only_there(root, tmp_path_factory, monkeypatch):
    assert find_root(root / "member") == root.resolve()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "pyproject.toml").write_text("not toml [")
    assert find_root(elsewhere) is None
    monkeypatch.chdir(elsewhere)
    with pytest.raises(InvalidInput, match="lemmata lock works in a checkout of lemmata"):
        require_root("lock")
