#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""A contributor's verbs: `uvx nox -l` lists them, `uvx nox -s tests` runs one."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"


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


@nox.session(python=False, default=False)
def coverage(session: nox.Session) -> None:
    """Coverage of the core by the core's tests."""
    uv_run(session, "coverage", "erase")
    uv_run(session, "coverage", "run", "-m", "pytest", "shared/tests", *session.posargs)
    uv_run(session, "coverage", "combine")
    uv_run(session, "coverage", "report")


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
    """The Scientific Python guide's review of the repository."""
    session.run("uvx", "sp-repo-review[cli]", ".", external=True)


if __name__ == "__main__":
    nox.main()
