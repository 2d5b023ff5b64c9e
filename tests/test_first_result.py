"""Each README says how long it takes from an empty environment to the first result, in the words of the script."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from lemmata_tools.workspace import CORE, members

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)
SCAFFOLD = "the worked example that `lemmata new` wrote"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("first_result", ROOT / "docs" / "first_result.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_the_readme_has_the_paragraph_that_the_script_prints(script, member):
    text = (member.folder / "README.md").read_text(encoding="utf-8")
    if SCAFFOLD in text:
        pytest.skip("a new package: nothing was measured yet")
    (found,) = script.PARAGRAPH.findall(text)
    form = re.escape(script.paragraph(member.name, script.Times(11.0, 1.0, 1.0, 1.0, 10**9)))
    form = re.sub(r"\b1(1|\\.0)(?=\\ (s|GB)\b)", r"[\\d.]+", form).replace("GB", "[GM]B")
    form = re.sub(r"\d+(?=\\ cores)", r"\\d+", form)
    assert re.fullmatch(form, found)


def test_the_paragraph_takes_the_place_of_the_old_one_or_follows_the_block_that_installs(script):
    text = "# x\n\n```console\n$ pip install x\n```\n\nMore.\n"
    first = script.placed(text, f"{script.START} 1 s.\nAll.")
    assert first == f"# x\n\n```console\n$ pip install x\n```\n\n{script.START} 1 s.\nAll.\n\nMore.\n"
    assert script.placed(first, f"{script.START} 2 s.") == first.replace("1 s.\nAll.", "2 s.")


def test_the_first_example_is_the_first_block_that_runs(script):
    text = "<!-- no-test: a -->\n```console\n$ false\n```\n\n```python\nx = 1\n```\n\n```console\n$ false\n```\n"
    assert script.first_example(text) == "```python\nx = 1\n```\n"


@pytest.mark.slow
def test_the_way_is_measured(script, tmp_path):
    times = script.measure(MEMBERS[CORE], tmp_path)
    assert min(times.download, times.install, times.first, times.again) > 0
    assert times.size > 10_000_000  # NumPy's
