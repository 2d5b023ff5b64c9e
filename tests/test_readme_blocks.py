"""Every README and page does what it shows: its blocks run in order, in one namespace, in an empty folder, in 60 s."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest
from lemmata_tools import readme
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
READMES = sorted(
    [
        ROOT / "CONTRIBUTING.md",
        ROOT / "README.md",
        *(path for folder in ("shared", "tools", "packages/*") for path in ROOT.glob(f"{folder}/README.md")),
        # The pages' own blocks; the READMEs that they include are here already.
        *(path for path in ROOT.glob("docs/**/*.md") if "```" in path.read_text(encoding="utf-8")),
    ]
)
NO_TEST = re.compile(r"^<!--\s*no-test:\s*(?P<reason>(?:(?!-->).)+?)\s*-->\s*?\n\s*", re.MULTILINE | re.DOTALL)


def no_test(document: Document) -> Iterator[Region]:
    """`<!-- no-test: reason -->` skips the block that follows it."""
    for match in NO_TEST.finditer(document.text):
        yield Region(match.start(), match.end(), match["reason"], skip_next)


def skip_next(mark: Example) -> None:
    def skip(example: Example) -> None:
        example.document.pop_evaluator(skip)
        raise SkipTest(mark.parsed)

    mark.document.push_evaluator(skip)


def run_commands(example: Example) -> None:
    for command in readme.Block("console", str(example.parsed), example.line).commands:
        start = readme.moment()
        run_command(command, readme.SECONDS * readme.PATIENCE)
        assert readme.spent(start) < readme.SECONDS, command


def run_command(command: str, patience: float) -> None:
    # The commands of this environment come first, as they do for a reader who has activated it.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(  # noqa: S602 - what a reader would paste into a shell
        command,
        shell=True,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"


SYBIL = Sybil(parsers=[PythonCodeBlockParser(), CodeBlockParser("console", run_commands), no_test])


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_its_blocks_run(path, tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(tmp_path)
    seconds = 0.0
    for example in SYBIL.parse(path).examples():
        if example.region.evaluator is skip_next:
            example.evaluate()
            continue
        start = readme.moment()
        with subtests.test(line=example.line):
            try:
                example.evaluate()
            except SkipTest as reason:
                pytest.skip(str(reason))
        if example.region.evaluator is not run_commands:
            seconds += readme.spent(start)
    assert seconds < readme.SECONDS


SLOW_BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}:{block.line}")
    for path in READMES
    for block in readme.blocks(path.read_text(encoding="utf-8"))
    if block.skip.startswith("slow: ")
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", SLOW_BLOCKS)
def test_a_block_that_takes_minutes_runs_too(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert block.commands, "only commands may be slow"
    for command in block.commands:
        run_command(command, 1800.0)


# Why a block is run by no test here; each is run in a form that a test can bear by what its reason names.
NEVER_RUN = re.compile(
    r"slow: .+|(changes|needs|of) .+tests/\S+ .+|needs .+ tests run it"
    r"|sets up the environment that the tests run in|(minutes, and )?NAME stands for a package|.+`\.ci/run` runs them"
)


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_block_that_nobody_runs_has_one_of_few_reasons(path):
    skipped = [block.skip for block in readme.blocks(path.read_text(encoding="utf-8")) if block.skip]
    assert [reason for reason in skipped if not NEVER_RUN.fullmatch(reason)] == []


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_both_readers_see_the_same_blocks(path):
    """`lemmata release` runs READMEs where there is no sybil; it must miss no block, and skip none that runs."""
    seen, skip = [], ""
    for example in SYBIL.parse(path).examples():
        if example.region.evaluator is skip_next:
            skip = example.parsed
        else:
            language = "console" if example.region.evaluator is run_commands else "python"
            seen.append(readme.Block(language, str(example.parsed), example.line + 1, skip))
            skip = ""
    assert readme.blocks(path.read_text(encoding="utf-8")) == seen


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_program_is_hidden_in_a_block_that_nobody_runs(path):
    kinds = re.findall(r"^[ \t]*```(\S+)[ \t]*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(kinds) <= {"bibtex", "console", "json", "python", "text", "toml", "yaml"}
