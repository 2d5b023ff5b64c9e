"""Growth with the number of nodes, and the fair assignment against HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, growth, paired
from riemann_fair import fair_assign, modified_sbm
from riemann_fair.versus import Case, knn_case, ours
from scipy.optimize import linprog

# Finding neighbours takes most of the time at 100,000 points; the embedding a quarter of a second.
SIZES = (20_000, 35_000, 60_000, 100_000)


ROUNDS = 15


def exponents(progress: Progress) -> Sequence[Ratio]:
    """The exponent of the time in n; linear is 1.

    Sizes are timed in turn, `ROUNDS` times, each round from another start: the machine's moods meet all sizes alike.
    """
    rows = []
    with progress.task("growth", 2 * (len(SIZES) + ROUNDS)) as bar:
        for title, make, limit in (
            ("block model of degree 40", lambda n: _model(n), 1.3),
            ("kNN graph", knn_case, 1.6),
        ):
            graphs = []
            for n in SIZES:
                graphs.append(make(n))
                ours(graphs[-1], 0)()
                bar.advance()
            seconds = np.empty((ROUNDS, len(SIZES)))
            for seed in range(ROUNDS):
                for column, graph in enumerate(graphs):
                    start = perf_counter()
                    ours(graph, seed)()
                    seconds[seed, column] = perf_counter() - start
                bar.advance()
            fit = growth(SIZES, np.median(seconds, axis=0))
            rows.append(Ratio(f"exponent in n, {title}, 20k to 100k", "linear growth", "", fit.exponent,
                              fit.low, fit.high, limit, 1.15))  # fmt: skip
    return rows


def _model(n: int) -> Case:
    graph = modified_sbm(n, 2, 4, scale=40.0, rng=0)
    return Case("block model", graph.affinity, graph.groups, 4)


def assignment(progress: Progress) -> Sequence[Ratio]:
    """Exact fair assignment against the linear program by HiGHS."""
    rng = np.random.default_rng(0)
    n, k, h = 5000, 8, 3
    points, centres = rng.standard_normal((n, 4)), rng.standard_normal((k, 4))
    cost = ((points[:, None] - centres) ** 2).sum(axis=2)
    groups = rng.integers(0, h, n)
    sizes = np.bincount(cost.argmin(axis=1), minlength=k)
    exact = np.outer(np.bincount(groups), sizes) / n
    low, high = np.floor(0.95 * exact).astype(int), np.ceil(1.05 * exact).astype(int)
    once = sp.kron(sp.eye_array(n), np.ones((1, k)))
    inside = sp.csr_array((np.ones(n), (groups, np.arange(n))), shape=(h, n))
    counts = sp.kron(inside, sp.eye_array(k))
    both = sp.csr_array(sp.vstack([counts, -counts]))

    def program() -> float:
        return linprog(cost.ravel(), A_ub=both, b_ub=np.concatenate([high.ravel(), -low.ravel()]), A_eq=once,
                       b_eq=np.ones(n), bounds=(0, 1), method="highs").fun  # fmt: skip

    with progress.task("fair assignment", 1) as bar:
        assert abs(fair_assign(cost, groups, low, high).cost - program()) < 1e-6
        timing = paired(lambda: fair_assign(cost, groups, low, high), program, repeats=5)
        bar.advance()
    return [Ratio.of("n = 5000, k = 8, 3 groups", "scipy linprog (HiGHS)", metadata.version("scipy"), timing, 0.05)]


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("riemann-fair/growth", exponents),
    Benchmark("riemann-fair/assign", assignment),
)
