"""lapjv with exact arithmetic, in a process of its own: on Euclidean costs it can take minutes."""

import subprocess
import sys

from lap_warmstart import solve
from lap_warmstart.compare import peer
from lap_warmstart.instances import generate
from lemmata_core.timing import Benchmark, Ratio, paired

CODE = """
import sys, time
from lap_warmstart.compare import peer
from lap_warmstart.instances import generate
run, _ = peer("lapjv")
cost = generate(sys.argv[1], int(sys.argv[2]), 0)
begin = time.perf_counter()
run(cost)
print(time.perf_counter() - begin)
"""


def slow(progress):
    """Uniform and Euclidean costs; a row is left out where the peer does not return in 25 s."""
    rows = []
    for name, n in progress.track((("uniform", 1000), ("metric", 300), ("metric", 1500)), "lapjv", 3):
        command = [sys.executable, "-c", CODE, name, str(n)]
        try:
            out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=25).stdout
        except subprocess.TimeoutExpired:
            continue
        theirs = float(out)
        cost = generate(name, n, 0)
        t = paired(lambda c=cost: solve(c), lambda: None, repeats=5)
        ratio = t.a_seconds / theirs
        rows.append(
            Ratio(f"{name}, n={n}, peer timed once", "lapjv (force_doubles)", peer("lapjv")[1], ratio, ratio, ratio)
        )
    return rows


BENCHMARKS = (Benchmark("lap-warmstart/lapjv", slow),)
