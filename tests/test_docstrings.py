"""Examples in docstrings give what they show."""

import doctest
import importlib
from pathlib import Path

import pytest
from lemmata_tools.workspace import members

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    ".".join(path.relative_to(member.source.parent).with_suffix("").parts)
    for member in members(ROOT).values()
    for path in member.source.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_examples_of_a_module(name):
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted
    assert not done.failed
