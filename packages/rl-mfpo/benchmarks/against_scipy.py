"""Time against SciPy's golden search, on the same function to the same width."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio, paired
from rl_mfpo import minimise
from rl_mfpo.functions import PROBLEMS

PEER = "scipy.optimize.minimize_scalar(method='golden')"
SOLVES = 200


def run(progress: Progress) -> Sequence[Ratio]:
    """Measure one ratio a function."""
    from scipy.optimize import minimize_scalar

    version = metadata.version("scipy")
    ratios = []
    for name, problem in progress.track(sorted(PROBLEMS.items()), "against SciPy"):

        def ours(problem=problem):
            for _ in range(SOLVES):
                minimise(problem.function, problem.low, problem.high, tol=1e-6)

        def peer(problem=problem):
            # SciPy's tolerance is relative to |x|, and the least values here lie near 1.
            for _ in range(SOLVES):
                bracket = (problem.low, problem.minimiser, problem.high)
                minimize_scalar(problem.function, bracket=bracket, method="golden", tol=1e-6)

        timing = paired(ours, peer, repeats=9)
        ratios.append(Ratio.of(name, PEER, version, timing, bar=1.0, aim=0.5))
    return ratios


BENCHMARKS: tuple[Benchmark, ...] = (Benchmark("rl-mfpo/against-scipy", run),)
