#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""A contributor's verbs: `uvx nox -l` lists them, `uvx nox -s tests` runs one."""

from __future__ import annotations

import re

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

ROOT = nox.project.load_toml("pyproject.toml")
# By distribution: its folder, and the requirement by which the root asks for it, with the extras that its tests use.
MEMBERS = {
    nox.project.load_toml(f"{folder}/pyproject.toml")["project"]["name"]: folder
    for folder in ROOT["tool"]["uv"]["workspace"]["members"]
}
EXTRAS = {
    text.partition("[")[0]: "[" + text.partition("[")[2] for text in ROOT["project"]["dependencies"] if "[" in text
}
# What the tests themselves import; the rest of the group is for people.
TEST_TOOLS = [text for text in ROOT["dependency-groups"]["dev"] if re.match(r"hypothesis|packaging|pytest|sybil", text)]


def uv_run(session: nox.Session, *command: str, groups: tuple[str, ...] = ()) -> None:
    """Run a command in the workspace's own environment, which uv keeps: nox makes none."""
    session.run("uv", "run", *(f"--group={group}" for group in groups), *command, external=True)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Ruff: rules and format."""
    uv_run(session, "ruff", "check", *session.posargs, ".")
    uv_run(session, "ruff", "format", "--check", ".")


@nox.session(name="format", python=False, default=False)
def format_code(session: nox.Session) -> None:
    """Mend what ruff can mend."""
    uv_run(session, "ruff", "check", "--fix", "--show-fixes", ".")
    uv_run(session, "ruff", "format", ".")


@nox.session(python=False)
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    uv_run(session, "mypy", *session.posargs)


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Pytest; `-- packages/NAME` for one package, `-- --slow` for all."""
    uv_run(session, "pytest", *session.posargs)


@nox.session(python="3.11", default=False)
@nox.parametrize("name", sorted(MEMBERS), ids=sorted(MEMBERS))
def lowest(session: nox.Session, name: str) -> None:
    """Fast tests of one package, alone, on the oldest versions that it says it accepts: `-s "lowest(NAME)"`."""
    # Without the root's settings, whose pins would hide what is tested here.
    install = ["--no-config", "--resolution", "lowest-direct"]
    core = [] if name == "lemmata-core" else [f"./{MEMBERS['lemmata-core']}"]
    session.install(*install, *core, f"./{MEMBERS[name]}{EXTRAS.get(name, '')}")
    session.install("--no-config", *TEST_TOOLS)
    session.run("uv", "pip", "list", external=True)
    # Warnings stay warnings: what an old library says of a young one is nobody's to mend.
    # What `lemmata new` makes is checked by ruff, mypy and its own tests, in the workspace.
    leave = "--ignore=tools/tests/test_new.py"
    session.run("pytest", "-W", "default", leave, MEMBERS[name], *session.posargs, env={"LEMMATA_PROGRESS": "0"})


@nox.session(python=False, default=False)
@nox.parametrize("name", sorted(MEMBERS), ids=sorted(MEMBERS))
def coverage(session: nox.Session, name: str) -> None:
    """Lines that a package's fast tests and smoke claims run, kernels apart; fails below 90 %: `-s coverage(NAME)`."""
    data = f"--data-file=.coverage.{name}"
    # Where Python is 3.12 or later: without it, numba's compiler crawls under the tracer.
    session.env["COVERAGE_CORE"] = "sysmon"
    uv_run(session, "coverage", "erase", data)
    uv_run(session, "coverage", "run", data, "-m", "pytest", "-n0", f"{MEMBERS[name]}/tests", *session.posargs)
    if MEMBERS[name].startswith("packages/"):
        run = ["reproduce", name, "--fresh", f"--out={session.create_tmp()}"]
        uv_run(session, "coverage", "run", data, "-m", "lemmata_tools.main", *run)
    uv_run(session, "coverage", "combine", data)
    uv_run(session, "coverage", "report", data, f"--include={MEMBERS[name]}/*", "--fail-under=90")


@nox.session(python=False, default=False)
def claims(session: nox.Session) -> None:
    """Every claim at scale smoke; `-- NAME --scale laptop` for one package's figures."""
    uv_run(session, "lemmata", "reproduce", *session.posargs)


@nox.session(python=False, default=False)
def docs(session: nox.Session) -> None:
    """The site; `-- serve` shows it while you write."""
    verb = session.posargs or ["build", "--strict"]
    uv_run(session, "mkdocs", *verb, groups=("docs",))


@nox.session(python=False, default=False)
def build(session: nox.Session) -> None:
    """Sdist and wheel of every package, in dist/."""
    session.run("uv", "build", "--all-packages", external=True)


@nox.session(python=False, default=False)
def review(session: nox.Session) -> None:
    """The Scientific Python guide's review of the repository; the one exception is explained in pyproject.toml."""
    session.run("uvx", "sp-repo-review[cli]", ".", "--extend-ignore=PP002", *session.posargs, external=True)


if __name__ == "__main__":
    nox.main()
