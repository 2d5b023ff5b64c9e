"""Malformed arguments at the public doors of every package: refused in words or answered; no crash, hang, silent NaN.

The ordinary run is small and always the same; `--slow` gives every door its share of ten minutes, whatever fails.
"""

from __future__ import annotations

import itertools
import math
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import fuzz_of_arrays, fuzz_of_torch
from tests.fuzzing import Entry, check, malformed

SLOW_SECONDS = 600.0
# A failing call is reported as it was found: to look for a smaller one takes minutes where a call is slow.
SETTINGS = settings(
    max_examples=6,
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


MAKERS = {
    name.removeprefix("of_"): make
    for module in (fuzz_of_arrays, fuzz_of_torch)
    for name, make in vars(module).items()
    if name.startswith("of_")
}


@cache
def entries(package: str) -> dict[str, Entry]:
    return MAKERS[package]()


def fuzz(entry: Entry, number: int, end: float = math.inf) -> None:
    """Some calls with malformed arguments, the same ones for the same number, none of which starts after the end."""

    @seed(number)
    @SETTINGS
    @given(st.data())
    def spoilt(data: st.DataObject) -> None:
        arguments = data.draw(malformed(entry.good()), label=f"seed {number}, spoilt")
        if time.perf_counter() < end:
            check(entry, arguments)

    spoilt()


def test_all_packages_are_here():
    folders = {
        path.name.replace("-", "_") for path in (Path(__file__).parents[1] / "packages").iterdir() if path.is_dir()
    }
    assert set(MAKERS) == {"core", *folders}


@pytest.mark.parametrize("package", MAKERS)
def test_good_arguments_are_answered(package):
    for entry in entries(package).values():
        entry.call(**entry.good())


@pytest.mark.parametrize("package", MAKERS)
def test_malformed_arguments_are_refused_or_answered(package, subtests):
    for name, entry in entries(package).items():
        with subtests.test(entry=name):
            fuzz(entry, 0)


@pytest.mark.slow
@pytest.mark.timeout(int(SLOW_SECONDS))
@pytest.mark.parametrize("package", MAKERS)
def test_malformed_arguments_for_ten_minutes_in_all(package, subtests):
    """Each door has the same share; what one takes too long, the next ones lack."""
    share = SLOW_SECONDS / sum(len(entries(each)) for each in MAKERS)
    begin = time.perf_counter()
    for k, (name, entry) in enumerate(entries(package).items(), start=1):
        with subtests.test(entry=name):
            assert time.perf_counter() < begin + share * k, "the doors before this one left it no time"
            for number in itertools.count(1):
                fuzz(entry, number, begin + share * k)
                if time.perf_counter() > begin + share * k:
                    break
