"""Peak memory: of a graph of two million edges, and of single calls beside those of the peers."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from lemmata_core.progress import Progress
from lemmata_core.timing import Benchmark, Ratio
from riemann_fair import modified_sbm
from riemann_fair.versus import Case, case, eigsh, ours, sfairsc

# Where a process's peak can be read.
PROC = Path("/proc/self/clear_refs").exists()
# A child begins with the peak of its parent in ru_maxrss, so VmHWM is asked for.
WHOLE = """
import re, time
from pathlib import Path
from riemann_fair import FairSpectralClustering, modified_sbm
graph = modified_sbm(100_000, 2, 8, scale=40.0, rng=0)
before = time.perf_counter()
FairSpectralClustering(8, affinity="precomputed", n_init=1, random_state=0).fit(
    graph.affinity, sensitive_features=graph.groups)
seconds = time.perf_counter() - before
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
print(graph.affinity.nnz // 2, peak, seconds)
"""


# SuperLU allocates behind numpy's back: the growth of the process over one call, hundreds of MiB, is read instead.
FACTORISED = """
import re
from pathlib import Path
from riemann_fair import modified_sbm, versus

def status(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

drawn = modified_sbm(5000, 2, 4, rng=0)
call = versus.sklearn(versus.Case("model", drawn.affinity, drawn.groups, 4), 0)
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
call()
print(status("VmHWM") - before)
"""


def _printed(code: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def two_million_edges(progress: Progress) -> Sequence[Ratio]:
    """Peak memory of a process that draws and clusters a graph of 2 million edges, over 3 GiB."""
    with progress.task("memory of 2 million edges", 1) as bar:
        edges, peak, seconds = _printed(WHOLE)
        bar.advance()
    share = float(peak) / (3 * 2**30)
    title, detail = "peak memory at 2 million edges, k = 8", f"{int(edges)} edges, fit in {float(seconds):.1f} s"
    return [Ratio(title, "3 GiB", detail, share, share, share, 1.0, 1 / 3)]


def _peak(call: Callable[[], object]) -> int:
    """Peak of what a second call allocates through numpy and Python."""
    call()
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def against_peers(progress: Progress) -> Sequence[Ratio]:
    """Peak memory of one call over that of the peer's."""
    drawn = modified_sbm(5000, 2, 4, rng=0)
    small, large = Case("block model, n = 5000", drawn.affinity, drawn.groups, 4), case("sbm")
    scipy, peers = metadata.version("scipy"), 3 if PROC else 2
    rows = []
    with progress.task("memory of calls", peers) as bar:
        for graph, name, version, peer in (
            (large, "scipy eigsh on x -> P (A + I) x", scipy, lambda: _peak(eigsh(large, 0))),
            (small, "sFairSC, literal port", f"scipy {scipy}", lambda: _peak(sfairsc(small, 0))),
            (small, "scikit-learn spectral_embedding(arpack)", metadata.version("scikit-learn"),
             lambda: int(_printed(FACTORISED)[0])),
        )[:peers]:  # fmt: skip
            mine, theirs = _peak(ours(graph, 0)), peer()
            detail = f"{version}; {mine / 2**20:.1f} and {theirs / 2**20:.1f} MiB"
            rows.append(Ratio(f"memory, {graph.title}", name, detail, *3 * (mine / theirs,)))
            bar.advance()
    return rows


BENCHMARKS: tuple[Benchmark, ...] = (
    *([Benchmark("riemann-fair/memory", two_million_edges)] if PROC else []),
    Benchmark("riemann-fair/memory-of-calls", against_peers),
)
