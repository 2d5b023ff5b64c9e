import dataclasses
import json
import math
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from lemmata_core import InvalidInput
from lemmata_core.cli import JsonOption, app, emit, fail
from lemmata_core.plain import plain
from typer.testing import CliRunner


@dataclasses.dataclass(frozen=True)
class Answer:
    x: np.ndarray
    objective: float
    status: str = "optimal"
    gap: float = math.nan


class DoublyMeantError(Exception):
    """What typer 0.20 makes of a mistyped command beside click 8.5."""

    exit_code = 2

    def format_message(self) -> str:
        return "No such command 'sovle'. Did you mean 'solve'? Did you mean 'solve'?"


made = app("lemmata-core", "Tries the scaffold.")


@made.command()
def solve(number: int, as_json: JsonOption = False) -> None:
    """Solve."""
    errors = {
        1: InvalidInput("cost: expected a matrix,\n  got 1"),
        2: KeyError("k"),
        3: KeyboardInterrupt(),
        4: PermissionError(13, "Permission denied", "there.txt"),
        5: OSError("odd"),
        7: DoublyMeantError(),
    }
    if number in errors:
        raise errors[number]
    if number == 6:
        fail("nothing to do", 3)
    emit(Answer(np.arange(12.0), 1 / 3), as_json=as_json)


@made.command()
def other() -> None:
    """Other."""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["solve", "1"], 2, "error: cost: expected a matrix, got 1\n"),
        (["solve", "2"], 1, "error: KeyError: 'k' (a defect of ours; --debug prints the traceback)\n"),
        (["solve", "3"], 130, "error: interrupted\n"),
        (["solve", "4"], 2, "error: there.txt: Permission denied\n"),
        (["solve", "5"], 2, "error: odd\n"),
        (["solve", "6"], 3, "error: nothing to do\n"),
        (["solve", "7"], 2, "error: No such command 'sovle'. Did you mean 'solve'?\n"),
        (["sovle"], 2, "error: No such command 'sovle'. Did you mean 'solve'?\n"),
        (["solve"], 2, "error: Missing argument"),
    ],
)
def test_an_error_is_one_line_on_stderr(words, code, message):
    result = CliRunner().invoke(made, words)
    assert result.exit_code == code
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_traceback_comes_only_with_debug_wherever_it_stands():
    for words in (["--debug", "solve", "2"], ["solve", "2", "--debug"]):
        result = CliRunner().invoke(made, words)
        assert result.exit_code == 1
        assert "Traceback (most recent call last)" in result.stderr
    assert CliRunner().invoke(made, ["solve", "--", "--debug"]).exit_code == 2


def test_help_and_version():
    assert CliRunner().invoke(made, ["--version"]).stdout == "lemmata-core 0.1.0\n"
    shown = CliRunner().invoke(made, ["--help"])
    assert shown.exit_code == 0
    assert "solve" in shown.stdout
    assert CliRunner().invoke(made, []).exit_code == 2


def test_a_result_is_printed_as_lines_or_as_json():
    lines = CliRunner().invoke(made, ["solve", "0"]).stdout.splitlines()
    assert lines[0].split() == ["x:", "[0,", "1,", "2,", "3,", "4,", "5,", "6,", "7,", "...", "12", "in", "all]"]
    assert lines[1].split() == ["objective:", "0.333333"]
    data = json.loads(CliRunner().invoke(made, ["solve", "0", "--json"]).stdout)
    assert data == {"x": list(range(12)), "objective": 1 / 3, "status": "optimal", "gap": "nan"}


def test_lists_and_single_values_are_printed_too(capsys):
    emit([{"a": 1.0}, 2])
    emit("text")
    emit([1, 2], as_json=True)
    assert capsys.readouterr().out == "a=1\n2\ntext\n[\n  1,\n  2\n]\n"


def test_without_standalone_mode_errors_are_the_callers():
    from typer.main import get_command

    command = get_command(made)
    with pytest.raises(InvalidInput):
        command.main(["solve", "1"], standalone_mode=False)
    assert command.main(["other"], standalone_mode=False) in {None, 0}


def test_a_reader_that_goes_away_is_no_defect(tmp_path):
    script = tmp_path / "many.py"
    script.write_text(
        "from lemmata_core.cli import app\nimport typer\na = app('lemmata-core', 'h')\n"
        "@a.command()\ndef go():\n    for i in range(200000):\n        typer.echo(str(i))\n"
        "@a.command()\ndef x(): pass\na()\n"
    )
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, str(script), "go"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (float("-inf"), "-inf"),
        ({Colour.RED: Path("a")}, {"Colour.RED": "a"}),
        (Colour.RED, "red"),
        (frozenset({"b", "a"}), ["a", "b"]),
        (range(2), [0, 1]),
        (None, None),
        ("a\udcff", "a\\udcff"),
    ],
)
def test_values_become_plain(value, expected):
    assert plain(value) == expected


def test_what_cannot_be_written_is_an_error():
    with pytest.raises(TypeError, match="cannot write a object as JSON"):
        plain(object())
