import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lemmata_core import InvalidInput
from lemmata_tools import new, readme
from lemmata_tools.new import insert_line, new_package

ROOT = Path(__file__).parents[2]
ROOT_FILES = (
    "README.md",
    "conftest.py",
    "mkdocs.yml",
    "pyproject.toml",
    "shared/pyproject.toml",
    "tools/pyproject.toml",
)
NAME = "zz-sample"


def copy_of_the_checkout(folder: Path) -> Path:
    for name in ROOT_FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_of_the_checkout(tmp_path / "checkout")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_of_the_checkout(tmp_path_factory.mktemp("made"))
    new_package(root, NAME)
    return root


@pytest.fixture(scope="module")
def environment(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of these tests with the new package added to it."""
    site = tmp_path_factory.mktemp("site")
    command = ["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", sys.executable]
    subprocess.run([*command, "--target", site, made / "packages" / NAME], check=True, cwd=site)
    path = os.pathsep.join([str(site / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PYTHONPATH": str(site), "PATH": path, "LEMMATA_PROGRESS": "0"}


def check(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_makes_the_files_of_the_architecture_and_nothing_else(checkout):
    before = set(content(checkout))
    listed = new_package(checkout, NAME)
    package = checkout / "packages" / NAME
    assert {str(p.relative_to(package)) for p in set(content(checkout)) - before if package in p.parents} == {
        "CHANGELOG.md",
        "README.md",
        "benchmarks/against_scipy.py",
        "pyproject.toml",
        "src/zz_sample/__init__.py",
        "src/zz_sample/claims.py",
        "src/zz_sample/cli.py",
        "src/zz_sample/functions.py",
        "src/zz_sample/golden_section.py",
        "src/zz_sample/py.typed",
        "tests/test_golden_section.py",
        "tests/test_interface.py",
    }
    changed = {checkout / name for name in ("README.md", "mkdocs.yml", "pyproject.toml")}
    assert set(listed) == set(content(checkout)) - before | changed
    assert listed == sorted(listed)
    assert not [p for p in listed if re.search(r"@[A-Z]+@", p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", ["aa-first", "lemmata-middle", "zz-last"])
def test_every_list_of_the_root_has_it_in_its_place(checkout, name):
    old = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    new_package(checkout, name)
    text = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    for entries in (
        [re.split(r"[\[<>=]", d)[0] for d in data["project"]["dependencies"]],
        data["tool"]["uv"]["workspace"]["members"],
        list(data["tool"]["uv"]["sources"]),
        data["tool"]["mypy"]["files"],
    ):
        assert entries == sorted(entries)
        assert sum(name in entry for entry in entries) == 1
    # One line a list, and no comment lost.
    assert len(text.splitlines()) == len(old.splitlines()) + 4
    assert [line for line in text.splitlines() if line in set(old.splitlines())] == old.splitlines()
    assert f"      - {name}: packages/{name}.md\n" in (checkout / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"\n| [{name}](packages/{name}) |" in (checkout / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Upper",
        "under_score",
        "-lead",
        "trail-",
        "two--hyphens",
        "1digit",
        "dot.ted",
        "../up",
        "a/b",
        "naïve",
        "x" * 41,
        "lambda",
        "json",
        "numpy",
        "pytest",
        "tests",
        "shared",
        "lemmata",
        "lemmata-core",
        "lemmata-tools",
        "scikit-learn",
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_changes(checkout, name):
    before = content(checkout)
    with pytest.raises(InvalidInput, match=r"^name: expected"):
        new_package(checkout, name)
    assert content(checkout) == before


def test_a_package_that_exists_is_left_alone(checkout):
    new_package(checkout, NAME)
    before = content(checkout)
    with pytest.raises(InvalidInput, match="already"):
        new_package(checkout, NAME)
    assert content(checkout) == before


@pytest.mark.parametrize("file", ["mkdocs.yml", "README.md", "pyproject.toml"])
def test_a_root_without_its_lists_is_refused_and_nothing_changes(checkout, file):
    lines = (checkout / file).read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith((new.NAVIGATION, "| --- ", "members = [", '  "shared",'))]
    (checkout / file).write_text("".join(kept), encoding="utf-8")
    before = content(checkout)
    with pytest.raises(InvalidInput):
        new_package(checkout, NAME)
    assert content(checkout) == before


@pytest.mark.parametrize("failing", range(4))
def test_a_failure_half_way_leaves_nothing_behind(checkout, monkeypatch, failing):
    before, calls = content(checkout), 0

    def write(path):
        nonlocal calls
        calls += 1
        if calls > failing:
            raise OSError(28, "No space left on device")
        return original(path)

    original = new.atomic_write
    monkeypatch.setattr(new, "atomic_write", write)
    with pytest.raises(OSError, match="No space"):
        new_package(checkout, NAME)
    assert content(checkout) == before
    assert not (checkout / "packages").exists()


def test_insertion_passes_comments_and_versions():
    text = "list = [\n  # why a\n  'a>=1',\n  'c[x]',\n]\nother\n"
    assert insert_line(text, "list = [", "]", "  'b',", "f") == text.replace("  'c[x]'", "  'b',\n  'c[x]'")


@pytest.mark.parametrize("name", ["a", "aa-first", "zz-" + 37 * "x"])
def test_its_code_is_formatted_whatever_the_name(checkout, name):
    new_package(checkout, name)
    check(sys.executable, "-m", "ruff", "check", "packages", cwd=checkout)
    check(sys.executable, "-m", "ruff", "format", "--check", "packages", cwd=checkout)


def test_its_tests_pass(made, environment):
    out = check(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"packages/{NAME}", cwd=made, env=environment
    )
    assert re.search(r"\d+ passed", out)
    assert not re.search("skipped|failed", out)


def test_its_readme_runs(made, environment, monkeypatch):
    for key in ("PYTHONPATH", "PATH"):
        monkeypatch.setenv(key, environment[key])
    path = made / "packages" / NAME / "README.md"
    found = readme.blocks(path.read_text(encoding="utf-8"))
    assert {b.language for b in found if not b.skip} == {"python", "console"}
    assert readme.run(path, Path(sys.executable)) == []


def test_its_claim_holds_under_reproduce(made, environment, tmp_path):
    command = [sys.executable, "-m", "lemmata_tools.main", "reproduce", NAME, "--strict", "--executor", "serial"]
    out = check(*command, "--out", str(tmp_path), cwd=tmp_path, env=environment)
    assert re.search(rf"{NAME}/rate +holds", out)


def test_its_benchmark_gives_ratios_with_a_bar(made, environment):
    code = (
        "import runpy; from lemmata_core.progress import Progress\n"
        f"module = runpy.run_path('packages/{NAME}/benchmarks/against_scipy.py')\n"
        "module['run'].__globals__['SOLVES'] = 2\n"
        "for benchmark in module['BENCHMARKS']:\n"
        "    for ratio in benchmark.run(Progress()):\n"
        "        assert 0 < ratio.low <= ratio.ratio <= ratio.high and ratio.bar, ratio\n"
        "        print(benchmark.id, ratio.case, ratio.peer_version)\n"
    )
    assert check(sys.executable, "-c", code, cwd=made, env=environment).count(f"{NAME}/against-scipy") == 4


def test_its_types_are_strict(made, environment):
    cache = ROOT / ".mypy_cache"
    check(sys.executable, "-m", "mypy", "--cache-dir", str(cache), f"packages/{NAME}/src", cwd=made, env=environment)


@pytest.mark.slow
def test_the_workspace_takes_it_in(made):
    """`uv sync` and the command as a newcomer runs them, in an environment of its own."""
    for part in ("shared", "tools"):
        shutil.copytree(ROOT / part, made / part, dirs_exist_ok=True)
    data = (made / "pyproject.toml").read_text(encoding="utf-8")
    # The other packages are not needed for this, nor what they bring.
    data = re.sub(r'^ +"packages/(?!zz-sample).*\n', "", data, flags=re.MULTILINE)
    others = [p.name for p in (ROOT / "packages").glob("*") if (p / "pyproject.toml").is_file()]
    for other in others:
        data = re.sub(rf'^ +"{other}[\["].*\n|^{other} = .*\n', "", data, flags=re.MULTILINE)
    (made / "pyproject.toml").write_text(data, encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}} | {"LEMMATA_PROGRESS": "0"}
    check("uv", "sync", "--quiet", cwd=made, env=env)
    out = check("uv", "run", "lemmata", "reproduce", NAME, "--strict", cwd=made, env=env)
    assert "1 hold" in out
    check("uv", "run", "pytest", "-q", f"packages/{NAME}", cwd=made, env=env)
    assert tomllib.loads((made / "uv.lock").read_text(encoding="utf-8"))["package"]
