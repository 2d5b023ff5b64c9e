import gc
import math
import sys
import time

import numpy as np
import pytest
from lemmata_core import InvalidInput
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, PairedTiming, Ratio, growth, paired, preparation
from scipy import stats


def test_two_callables_are_measured_in_turn_and_the_first_alternates():
    calls = []
    result = paired(lambda: calls.append("a"), lambda: calls.append("b"), repeats=4, warmup=1)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab" + "ba"
    assert result.n == 4
    assert result.low <= result.ratio <= result.high


def test_the_ratio_is_first_over_second(monkeypatch):
    clock = iter(np.cumsum([0, 2, 0, 1, 0, 1, 0, 2, 0, 2, 0, 1]).tolist())
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    result = paired(lambda: None, lambda: None, repeats=3, warmup=0)
    assert (result.ratio, result.a_seconds, result.b_seconds) == (2.0, 2.0, 1.0)
    assert (result.low, result.high) == (2.0, 2.0)
    assert result.a_process_seconds >= 0


def test_garbage_collection_is_put_back_as_it_was():
    def fails():
        assert not gc.isenabled()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        paired(fails, fails, repeats=1, warmup=0)
    assert gc.isenabled()
    gc.disable()
    try:
        paired(lambda: None, lambda: None, repeats=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("options", [{"repeats": 0}, {"warmup": -1}, {"repeats": 1.5}])
def test_bad_counts_are_refused_before_anything_is_called(options):
    with pytest.raises(InvalidInput):
        paired(pytest.fail, pytest.fail, **options)


def test_growth_finds_the_exponent_with_scipys_interval():
    rng = np.random.default_rng(0)
    for n in (3, 5, 17, 40):
        x = np.geomspace(100, 10000, n)
        y = 3e-6 * x**1.7 * np.exp(0.05 * rng.standard_normal(n))
        ours, theirs = growth(x, y), stats.linregress(np.log(x), np.log(y))
        half = stats.t.ppf(0.975, n - 2) * theirs.stderr
        assert ours.exponent == pytest.approx(theirs.slope, rel=1e-12)
        assert (ours.high - ours.low) / 2 == pytest.approx(half, rel=2e-3)
        assert ours.n == n


def test_growth_of_an_exact_power_has_no_width():
    found = growth([1, 2, 4, 8], [5, 20, 80, 320])
    assert found.exponent == pytest.approx(2)
    assert found.high - found.low == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([0, 1, 2], [1, 2, 3]), ([1, 2, 3], [1, 0, 1]), ([1, 2, 3], [1, 2])],
)
def test_growth_needs_three_positive_points(sizes, seconds):
    with pytest.raises(InvalidInput):
        growth(sizes, seconds)


def test_a_ratio_is_made_from_a_timing():
    row = Ratio.of("n=3", "peer.f", "1.2", PairedTiming(0.5, 0.4, 0.6, 1.0, 2.0, 9), bar=0.8)
    assert (row.ratio, row.low, row.high, row.bar, row.aim) == (0.5, 0.4, 0.6, 0.8, None)
    assert Benchmark("x/y", lambda progress: [row]).run(Progress())[0] is row
    assert math.isnan(PairedTiming(1, 1, 1, 1, 1, 1).a_process_seconds)


def test_compiling_is_told_from_running():
    numba = pytest.importorskip("numba")
    kernel = numba.njit(lambda n: n + 1)
    with preparation() as first:
        start = time.perf_counter()
        kernel(1)
        took = time.perf_counter() - start
    assert 0 < first.seconds <= took
    with preparation() as again:
        kernel(1)
    assert again.seconds == 0


def test_without_numba_nothing_is_prepared(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba.core", None)
    with preparation() as found:
        pass
    assert found.seconds == 0
