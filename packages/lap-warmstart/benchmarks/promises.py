"""What is promised besides speed: an interruption is honoured, threads overlap, a matrix is not copied."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from lap_warmstart import solve
from lap_warmstart.instances import generate
from lemmata_core.timing import Benchmark, Ratio, paired

INTERRUPT = """
import os, signal, sys, threading, time
import numpy as np
from lap_warmstart import solve
from lap_warmstart.instances import generate
method, family, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
cost = generate(family, n, 0)
solve(cost[:400, :400].copy(), method=method)
sent = []
def interrupt():
    time.sleep(0.35)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    while True:
        solve(cost, method=method)
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
"""

MEMORY = """
import resource, sys
import numpy as np
from lap_warmstart import solve
order, dtype, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
solve(rng.random((400, 400), dtype=dtype))
cost = np.empty((n, n), dtype=dtype, order=order)
for i in range(n):
    cost[i] = rng.random(n, dtype=dtype)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
solve(cost)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unit = 1 if sys.platform == "darwin" else 1024
print((after - before) * unit / cost.nbytes)
"""


def child(code, *words):
    """Run a script and return the number that it prints."""
    command = [sys.executable, "-c", code, *map(str, words)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def interruption(progress):
    """Seconds from Ctrl-C to KeyboardInterrupt, over the half second that is allowed."""
    rows = []
    cases = (("lapjv", "lowrank_noise", 3000), ("dense", "lowrank_noise", 3000), ("auto", "lowrank_noise", 5000))
    for case in progress.track(cases, "Ctrl-C", len(cases)):
        seconds = sorted(child(INTERRUPT, *case) for _ in range(3))
        low, middle, high = (s / 0.5 for s in seconds)
        rows.append(Ratio(f"Ctrl-C, method={case[0]}, n={case[2]}", "0.5 s", "", middle, low, high, 1.0))
    return rows


def threads(progress):
    """Two solves on two threads against the same two one after the other; half is a full overlap."""
    costs = [generate("lowrank_noise", 1500, seed) for seed in (0, 1)]
    with progress.task("threads", total=1), ThreadPoolExecutor(2) as pool:
        t = paired(lambda: list(pool.map(solve, costs)), lambda: list(map(solve, costs)), repeats=7)
    return [Ratio.of("two solves on two threads", "one after the other", "", t, None, 0.7)]


def memory(progress):
    """Peak memory that a solve adds, as a share of the matrix."""
    rows = []
    for order, dtype in progress.track((("C", "f8"), ("F", "f8"), ("C", "f4"), ("F", "f4")), "memory", 4):
        share = child(MEMORY, order, dtype, 4000)
        rows.append(
            Ratio(f"peak memory of a solve, n=4000, {order} {dtype}", "the matrix", "", share, share, share, 0.1)
        )
    return rows


BENCHMARKS = (
    Benchmark("lap-warmstart/interruption", interruption),
    Benchmark("lap-warmstart/threads", threads),
    Benchmark("lap-warmstart/memory", memory),
)
