"""The page of bad input: every call raises InvalidInput, and the page says what."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "bad_input.py"
spec = importlib.util.spec_from_file_location("lemmata_docs_bad_input", SCRIPT)
bad_input = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bad_input)

SECTIONS = {s.splitlines()[0].removeprefix("## "): s for s in bad_input.sections(bad_input.PAGE.read_text("utf-8"))}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_says_what_the_calls_raise(name):
    assert bad_input.filled(SECTIONS[name]) == SECTIONS[name]


def test_every_package_has_cases_and_every_row_is_one():
    packages = {p.name for p in (SCRIPT.parents[1] / "packages").iterdir() if (p / "pyproject.toml").is_file()}
    assert packages <= set(SECTIONS)
    for name in packages:
        rows = [line for line in SECTIONS[name].splitlines() if line.startswith("| ")][2:]
        assert len(rows) == len(bad_input._ROW.findall(SECTIONS[name])) >= 5


@pytest.mark.parametrize(("call", "words"), [("1 + 1", "no error"), ("1 / 0", "ZeroDivisionError")])
def test_a_call_that_is_not_refused_is_told(call, words):
    with pytest.raises(AssertionError, match=words):
        bad_input.filled(f"## x\n\n| what | `{call}` | |\n")
