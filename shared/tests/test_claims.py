import dataclasses
import pickle
import subprocess
import sys
from importlib import metadata

import lemmata_core
import numpy as np
import pytest
from lemmata_core import Claim, Evidence, Outcome, Scale, Series, Table, Verdict, discover


def measure(context):
    return Evidence(headline="done")


def agree(evidence):
    return Verdict.holds("done")


def claim(name):
    return Claim(id=name, statement="s", source="t", run=measure, accept=agree)


def test_importing_the_core_loads_only_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import lemmata_core; "
        "names = {m.partition('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(names - set(sys.stdlib_module_names) - {'lemmata_core'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_types_travel_between_processes():
    table = Table("t", ("a", "b"), ((1, None),), timed=("b",))
    series = Series("s", "x", "y", {"l": ([1, 2], [3, 4])}, log_x=True)
    evidence = Evidence(headline="h", values={"v": 1.0}, tables=(table,), series=(series,), timed=frozenset({"v"}))
    for value in (evidence, claim("a/b"), Verdict.not_testable("no GPU")):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes


def test_verdicts_have_three_outcomes():
    assert [Verdict.holds("r").outcome, Verdict.does_not_hold("r").outcome, Verdict.not_testable("r").outcome] == list(
        Outcome
    )
    assert [str(s) for s in Scale] == ["smoke", "laptop", "full"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Verdict.holds("r").reason = "other"


@pytest.mark.parametrize(
    ("ok", "asked", "expected"),
    [
        (True, "", Verdict.holds("3 %")),
        (True, "1 %", Verdict.holds("3 %")),
        (False, "", Verdict.does_not_hold("3 %")),
        (False, "1 %", Verdict.does_not_hold("3 % (asked: 1 %)")),
        (np.bool_(False), "", Verdict.does_not_hold("3 %")),
    ],
)
def test_a_condition_gives_one_verdict_or_the_other(ok, asked, expected):
    assert Verdict.of(ok, "3 %", asked=asked) == expected


class Point:
    def __init__(self, name, content, dist=None):
        self.name, self.content, self.dist = name, content, dist

    def load(self):
        if isinstance(self.content, BaseException):
            raise self.content
        return self.content


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (ImportError("no module named torch"), "ImportError: no module named torch"),
        ([claim("a/x")], "TypeError: the entry point a of lemmata.claims is not a tuple of Claim"),
        ((claim("b/x"),), "ValueError: claim ids must have the form a/ID: b/x"),
        ((claim("a/x/y"),), "ValueError: claim ids must have the form a/ID: a/x/y"),
        (SystemExit(3), "SystemExit: 3"),
        ((claim("a/.."),), "ValueError: claim ids must have the form a/ID: a/.."),
        ((claim("a/"),), "ValueError: claim ids must have the form a/ID: a/"),
        ((claim("a/x"), claim("a/x")), "ValueError: claim ids occur twice: a/x"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_a_row_with_its_error(monkeypatch, content, error):
    points = [Point("b", (claim("b/y"),)), Point("a", content)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    found = discover()
    assert list(found) == ["a", "b"]
    assert found["a"].error == error
    assert found["a"].claims == ()
    assert found["a"].version == "unknown"
    assert [c.id for c in found["b"].claims] == ["b/y"]
    assert found["b"].error == ""


def test_everything_public_is_there():
    assert all(hasattr(lemmata_core, name) for name in lemmata_core.__all__)
    assert Evidence(headline="h").values == {}
