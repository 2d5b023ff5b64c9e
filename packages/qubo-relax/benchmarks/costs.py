"""What building, proving and the factored forms cost: seconds or bytes over the design's bars, lower is better."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import qubo_relax as qr
from lemmata_core.timing import Benchmark, Ratio
from qubo_relax import problems as P  # noqa: N812
from qubo_relax.solvers.lanes import Stop
from qubo_relax.solvers.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from lemmata_core.progress import Progress

DATA = Path(__file__).parent.parent / "tests" / "data"


def _least(f: Callable[[], Any], repeats: int = 3) -> list[float]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        seconds.append(time.perf_counter() - start)
    return seconds


def _row(case: str, bar_text: str, values: list[float], bar: float, aim: float | None = None) -> Ratio:
    low, mid, high = (float(x) for x in np.quantile(values, [0.25, 0.5, 0.75]))
    return Ratio(case, bar_text, "", mid / bar, low / bar, high / bar, 1.0, aim)


def _tour(n: int) -> P.TSP:
    points = np.random.default_rng(n).random((n, 2))
    return P.TSP(np.linalg.norm(points[:, None] - points, axis=-1))


def building_and_proving(progress: Progress) -> list[Ratio]:
    """newman1's quadratic, the structural proof of a million entries, integer programs for an independent set."""
    del progress
    pit = qr.read(DATA / "newman1.upit")
    built = _least(pit.qubo)
    g = np.random.default_rng(0)
    ends = g.integers(0, 200_000, (500_000, 2))
    big = P.MIS((200_000, ends[ends[:, 0] != ends[:, 1]]))
    q = big.qubo()
    rows = _structural(q)
    small = P.MIS((60, [(i, j) for i in range(60) for j in range(i) if g.random() < 0.1]))
    milp = _least(lambda: qr.verify_conditions(small, method="milp"), 2)
    return [
        _row("quadratic of newman1", "0.2 s", built, 0.2),
        _row(f"structural proof, {q.quadratic.nnz} entries", "1 s", rows, 1.0),
        _row("integer programs, independent set of 60", "2 s", milp, 2.0),
    ]


def _structural(q: qr.Qubo) -> list[float]:
    from qubo_relax.structure import structural_margin

    return _least(lambda: structural_margin(q))


def factored(progress: Progress) -> list[Ratio]:
    """Graduated steps for a tour of 100 cities without its four million entries, against the stored form."""
    p = _tour(100)
    tracemalloc.start()
    f = p.factored()
    f.products(np.zeros((f.n, 32), dtype=np.float32))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = [_row(f"factored tour of 100, {peak / 1e6:.0f} MB", "50 MB", [peak / 50e6], 1.0)]
    steps = 30
    ratios = []
    qr.minimize(_tour(5), "graduated", 2, 10, options={"factored": False}, improve=False)
    stored = Prepared.of(p.qubo())
    starts = 0.25 + 0.5 * np.random.default_rng(0).random((32, f.n), dtype=np.float32)
    from qubo_relax.solvers.batch import prepared
    from qubo_relax.solvers.factored import run
    from qubo_relax.solvers.graduated import graduated

    ours = prepared(f)
    assert abs(ours.spectral[0] / stored.spectral[0] - 1) < 0.05
    for _ in progress.track(range(3), "factored"):
        a = _least(lambda: run("graduated", ours, starts, steps, {}, Stop()), 1)[0]
        b = _least(lambda: graduated(stored, starts, steps // 10, {}, Stop()), 1)[0] * 10
        ratios.append(a / b)
    rows.append(_row("factored tour of 100: time of a step", "1/20 of the stored form's", ratios, 1 / 20))
    return rows


def kernel(progress: Progress) -> list[Ratio]:
    """Operations a second of graduated descent at 2000 variables and 32 lanes: 4 GFLOP/s over what is reached."""
    from qubo_relax.solvers.graduated import graduated

    del progress
    g = np.random.default_rng(0)
    q = qr.Qubo.from_coo(2000, g.integers(0, 2000, 40_000), g.integers(0, 2000, 40_000), g.standard_normal(40_000))
    prep = Prepared.of(q)
    X = g.random((32, 2000), dtype=np.float32)
    graduated(prep, X, 2, {}, Stop())
    seconds = _least(lambda: graduated(prep, X, 100, {}, Stop()), 5)
    reached = [q.quadratic.nnz * 32 * 2 * 100 / s / 1e9 for s in seconds]
    case = f"graduated kernel, {np.median(reached):.1f} GFLOP/s"
    return [_row(case, "4 GFLOP/s", [4 / r for r in reached], 1.0, 0.5)]


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("qubo-relax/building-and-proving", building_and_proving),
    Benchmark("qubo-relax/factored", factored),
    Benchmark("qubo-relax/kernel", kernel),
)
