"""A README's blocks, run as a reader would: in order, in an empty folder, by any interpreter."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lemmata_core import InvalidInput
from packaging.requirements import Requirement

SECONDS = 60.0  # for all python blocks of a README together, and for each command
PATIENCE = 10  # times as long by the clock: a busy machine is not the README's fault

_BLOCK = re.compile(r"^([ \t]*)```(python|console)\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_NO_TEST = re.compile(r"<!--\s*no-test:\s*((?:(?!-->).)+?)\s*-->\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes
    ----------
    language : {"python", "console"}
    text : str
    line : int
        Of its first line of text, counted from 1.
    skip : str
        The reason given by ``<!-- no-test: reason -->`` before it; else empty.
    """

    language: str
    text: str
    line: int
    skip: str = ""

    @property
    def commands(self) -> list[str]:
        """What follows ``$ ``; a line that ends in a backslash goes on in the next."""
        joined = re.sub(r"\\\n", "", self.text)
        return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]


def blocks(text: str) -> list[Block]:
    """The ``python`` and ``console`` blocks of a Markdown text, in order."""
    found = []
    for match in _BLOCK.finditer(text):
        reason = _NO_TEST.search(text[: match.start()])
        line = text.count("\n", 0, match.start(3)) + 1
        inside = "".join(each.removeprefix(match[1]) for each in match[3].splitlines(keepends=True))
        found.append(Block(match[2], inside, line, reason[1] if reason else ""))
    return found


def python_script(text: str) -> str:
    """One script of all python blocks that are not skipped; its line numbers are the README's."""
    lines: list[str] = []
    for block in blocks(text):
        if block.language == "python" and not block.skip:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def install_line(text: str, name: str) -> Requirement:
    """What a README tells its reader to install first: ``name``, with the extras that its commands need.

    Raises
    ------
    InvalidInput
        Where no line ``$ pip install`` names it.
    """
    lines = [line for block in blocks(text) if block.language == "console" for line in block.commands]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:2] == ["pip", "install"]:
            found = [wanted for wanted in map(Requirement, words[2:]) if wanted.name == name]
            if found:
                return found[0]
    raise InvalidInput.argument("README.md", expected=f"a line `$ pip install {name}`", got="none")


def trials(text: str, name: str) -> list[tuple[Requirement, bool]]:
    """How to try a README: what to install, and whether its commands are to run with it.

    Its python blocks need nothing but ``name``; its commands may need the extras of its `install_line`.
    """
    wanted = install_line(text, name)
    return [(wanted, True)] if not wanted.extras else [(Requirement(name), False), (wanted, True)]


def run(readme: Path, python: Path, *, console: bool = True, without: Collection[str] = ()) -> list[str]:
    """Run a README's blocks in an empty folder.

    Parameters
    ----------
    readme : pathlib.Path
    python : pathlib.Path
        The interpreter; commands are looked for beside it first.
    console : bool
        Whether the ``$ `` lines of console blocks are run too.
    without : collection of str
        Commands that the environment does not have: lines that begin with one are left out.

    Returns
    -------
    list of str
        What went wrong: a line naming the block, and the end of its output. Empty if nothing did.
    """
    text = readme.read_text(encoding="utf-8")
    environment = os.environ | {"PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])}
    problems = []
    with tempfile.TemporaryDirectory() as name:
        script, folder = Path(name) / f"{readme.parent.name}-readme.py", Path(name) / "empty"
        folder.mkdir()
        script.write_text(python_script(text), encoding="utf-8")
        problems += _run([str(python), str(script)], f"{readme}: python blocks", folder, environment)
        for block in blocks(text):
            if console and block.language == "console" and not block.skip:
                for command in block.commands:
                    if command.split()[0] in without:
                        continue
                    problems += _run(command, f"{readme}:{block.line}: $ {command}", folder, environment)
    return problems


def moment() -> tuple[float, float]:
    """Seconds on the clock, and seconds of computing by this process and the children that it waited for."""
    return time.perf_counter(), sum(os.times()[:4])


def spent(since: tuple[float, float]) -> float:
    """Seconds since a `moment`: the lesser of both kinds (Windows counts no children's computing: 0)."""
    return min(now - then for now, then in zip(moment(), since, strict=True))


def _run(command: list[str] | str, place: str, folder: Path, environment: dict[str, str]) -> list[str]:
    start = moment()
    try:
        done = subprocess.run(  # noqa: S603 - the commands of our own READMEs, as a reader's shell would run them
            command,
            cwd=folder,
            env=environment,
            shell=isinstance(command, str),
            capture_output=True,
            text=True,
            timeout=SECONDS * PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [f"{place}: not done after {SECONDS * PATIENCE:.0f} s"]
    if spent(start) > SECONDS:
        return [f"{place}: took {spent(start):.0f} s, more than {SECONDS:.0f}"]
    if done.returncode == 0:
        return []
    tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
    return [f"{place}: exit code {done.returncode}\n{tail}"]
