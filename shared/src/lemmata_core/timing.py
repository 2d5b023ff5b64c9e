"""Timing that can be trusted on a noisy machine: ratios of two callables measured in turn."""

from __future__ import annotations

import gc
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lemmata_core.check import array, positive_int
from lemmata_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from lemmata_core.progress import Progress

# Student's t, two-sided 95 %, by degrees of freedom; beyond the table the quantile of the normal law, corrected.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class PairedTiming:
    """The ratio of two callables' times.

    Attributes
    ----------
    ratio : float
        Median over the pairs of time(a) / time(b).
    low, high : float
        Quartiles of that ratio.
    a_seconds, b_seconds : float
        Median wall time of a call.
    n : int
        Number of pairs.
    a_process_seconds, b_process_seconds : float
        Median CPU time of a call, all threads of the process.
    """

    ratio: float
    low: float
    high: float
    a_seconds: float
    b_seconds: float
    n: int
    a_process_seconds: float = math.nan
    b_process_seconds: float = math.nan


@dataclass(frozen=True)
class Growth:
    """The exponent of a power law, seconds ~ size ** exponent, with a 95 % confidence interval, from `n` points."""

    exponent: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Ratio:
    """One figure of a benchmark: ours over the peer's; lower is better.

    Attributes
    ----------
    case : str
        What was measured: "uniform costs, n=2000".
    peer : str
        The peer's distribution and function.
    peer_version : str
    ratio : float
        Median.
    low, high : float
        Quartiles.
    bar : float or None
        The acceptance: the ratio must not be above it.
    aim : float or None
        What the design aims at.
    """

    case: str
    peer: str
    peer_version: str
    ratio: float
    low: float
    high: float
    bar: float | None = None
    aim: float | None = None

    @classmethod
    def of(
        cls,
        case: str,
        peer: str,
        peer_version: str,
        timing: PairedTiming,
        bar: float | None = None,
        aim: float | None = None,
    ) -> Ratio:
        """The figure of a paired timing."""
        return cls(case, peer, peer_version, timing.ratio, timing.low, timing.high, bar, aim)


@dataclass(frozen=True)
class Benchmark:
    """A set of ratios measured together. `id` is ``NAME/what``; `run` takes a `Progress`."""

    id: str
    run: Callable[[Progress], Sequence[Ratio]]


def paired(a: Callable[[], object], b: Callable[[], object], *, repeats: int = 7, warmup: int = 1) -> PairedTiming:
    """Time two callables in turn, A B A B ..., so that a drift of the machine's speed hits both.

    Parameters
    ----------
    a, b : callable
        Called without arguments. Which of the two goes first alternates from pair to pair.
    repeats : int
        Number of pairs.
    warmup : int
        Calls of each before, not counted.

    Returns
    -------
    PairedTiming
        Garbage collection is off during the measurement and put back as it was.
    """
    pairs, before = positive_int(repeats, "repeats"), positive_int(warmup, "warmup", minimum=0)
    for _ in range(before):
        a()
        b()
    wall, process = np.empty((pairs, 2)), np.empty((pairs, 2))
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for i in range(pairs):
            for which in (0, 1) if i % 2 == 0 else (1, 0):
                call = b if which else a
                cpu, start = time.process_time(), time.perf_counter()
                call()
                wall[i, which] = time.perf_counter() - start
                process[i, which] = time.process_time() - cpu
    finally:
        if collecting:
            gc.enable()
    wall = np.maximum(wall, 1e-9)
    low, ratio, high = np.quantile(wall[:, 0] / wall[:, 1], [0.25, 0.5, 0.75])
    seconds, cpu_seconds = np.median(wall, axis=0), np.median(process, axis=0)
    return PairedTiming(
        float(ratio),
        float(low),
        float(high),
        float(seconds[0]),
        float(seconds[1]),
        pairs,
        float(cpu_seconds[0]),
        float(cpu_seconds[1]),
    )


def growth(sizes: ArrayLike, seconds: ArrayLike) -> Growth:
    """Fit seconds ~ size ** exponent by least squares of the logarithms.

    Parameters
    ----------
    sizes, seconds : array_like of float, shape (n,), n >= 3
        Positive; at least two different sizes.

    Returns
    -------
    Growth
        With Student's 95 % interval of the slope.

    Raises
    ------
    InvalidInput
    """
    x = array(sizes, "sizes", ndim=1)
    y = array(seconds, "seconds", ndim=1, shape=(x.size,))
    if x.size < 3 or x.min() <= 0 or y.min() <= 0 or np.ptp(x) == 0:
        raise InvalidInput.argument(
            "sizes, seconds",
            expected="three or more positive points, two sizes at least",
            got=f"{x.tolist()}, {y.tolist()}",
        )
    u, v = np.log(x), np.log(y)
    u = u - u.mean()
    spread = float(u @ u)
    slope = float(u @ v) / spread
    free = x.size - 2
    residual = v - v.mean() - slope * u
    quantile = _T95[free - 1] if free <= len(_T95) else 1.960 + 2.5 / free
    half = quantile * math.sqrt(float(residual @ residual) / free / spread)
    return Growth(slope, slope - half, slope + half, int(x.size))


@dataclass
class Preparation:
    """The `seconds` that went into making compiled code ready, known when its block has ended."""

    seconds: float = 0.0


@contextmanager
def preparation() -> Iterator[Preparation]:
    """Measure how long numba takes, inside the block, to compile kernels or to load compiled ones.

    A command that prints a time takes them off it: they are paid once a process, and on the first day for much longer,
    whatever the method costs.

    Yields
    ------
    Preparation
        Stays at 0 where numba is not installed.
    """
    found = Preparation()
    try:
        from numba.core import event
    except ImportError:
        yield found
        return

    def add(seconds: float) -> None:
        found.seconds += seconds

    # The lock is held while a kernel is compiled, and while it is read from numba's cache.
    with event.install_timer("numba:compiler_lock", add):
        yield found
