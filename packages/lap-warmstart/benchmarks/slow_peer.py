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


# Seconds after which the peer is stopped; its row is then an upper bound of the ratio.
LIMIT = 12.0


def slow(progress):
    """Uniform and Euclidean costs."""
    rows = []
    for name, n in progress.track((("uniform", 1000), ("metric", 300), ("metric", 1500)), "lapjv", 3):
        command = [sys.executable, "-c", CODE, name, str(n)]
        how = "peer timed once"
        try:
            out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT).stdout
            theirs = float(out)
        except subprocess.TimeoutExpired:
            theirs, how = LIMIT, f"peer stopped at {LIMIT:.0f} s"
        cost = generate(name, n, 0)
        t = paired(lambda c=cost: solve(c), lambda: None, repeats=5)
        ratio = t.a_seconds / theirs
        rows.append(Ratio(f"{name}, n={n}, {how}", "lapjv (force_doubles)", peer("lapjv")[1], ratio, ratio, ratio))
    return rows


BENCHMARKS = (Benchmark("lap-warmstart/lapjv", slow),)
