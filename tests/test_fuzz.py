"""Malformed arguments at the public doors of every package: refused in words or answered; no crash, hang, silent NaN.

The ordinary run is small and always the same; `--slow` gives every door its share of ten minutes, whatever fails.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import fuzz_of_arrays, fuzz_of_files, fuzz_of_learning, fuzz_of_online, fuzz_of_problems, fuzz_of_torch
from tests.fuzz_left_out import LEFT_OUT
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


MODULES = (fuzz_of_arrays, fuzz_of_online, fuzz_of_problems, fuzz_of_torch, fuzz_of_learning, fuzz_of_files)
PACKAGES = sorted({name.removeprefix("of_") for module in MODULES for name in vars(module) if name.startswith("of_")})


@cache
def entries(package: str) -> dict[str, Entry]:
    """A door is named after the public name that it opens, then whatever tells it from others."""
    makers = [make for module in MODULES if (make := getattr(module, f"of_{package}", None))]
    return {name: entry for make in makers for name, entry in make().items()}


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
    assert set(PACKAGES) == {"core", *folders}


def public_names(package: str) -> set[str]:
    """What the package and its public modules export that can be called; names of modules stand before a dot."""
    module = importlib.import_module("lemmata_core" if package == "core" else package)
    names: set[str] = set()
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            inner = getattr(value, "__all__", None) or [
                k for k, v in vars(value).items() if k[0] != "_" and getattr(v, "__module__", "") == value.__name__
            ]
            names |= {f"{name}.{each}" for each in inner if callable(getattr(value, each))}
        elif callable(value):
            names.add(name)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_behind_a_door_or_has_a_reason(package):
    # A door that is called "Polytope" opens `domains.Polytope` too.
    opened = {name.split()[0] for name in entries(package)}
    opened |= {part for name in opened for part in (name.split(".")[0],)}
    names = public_names(package)
    reasons = LEFT_OUT.get(package, {})
    shut = {name for name in names if name not in opened and name.rpartition(".")[2] not in opened}
    assert sorted(shut - set(reasons)) == []
    assert sorted(set(reasons) - shut) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_good_arguments_are_answered(package):
    for entry in entries(package).values():
        entry.call(**entry.good())


@pytest.mark.parametrize("package", PACKAGES)
def test_malformed_arguments_are_refused_or_answered(package, subtests):
    for name, entry in entries(package).items():
        with subtests.test(entry=name):
            fuzz(entry, 0)


@pytest.mark.slow
@pytest.mark.timeout(int(SLOW_SECONDS))
@pytest.mark.parametrize("package", PACKAGES)
def test_malformed_arguments_for_ten_minutes_in_all(package, subtests):
    """Each door has the same share; what one takes too long, the next ones lack."""
    share = SLOW_SECONDS / sum(len(entries(each)) for each in PACKAGES)
    begin = time.perf_counter()
    for k, (name, entry) in enumerate(entries(package).items(), start=1):
        with subtests.test(entry=name):
            assert time.perf_counter() < begin + share * k, "the doors before this one left it no time"
            for number in itertools.count(1):
                fuzz(entry, number, begin + share * k)
                if time.perf_counter() > begin + share * k:
                    break
