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
import sys
import numpy as np
from lap_warmstart import solve
order, dtype, n, m = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def read(name):
    line = next(t for t in open("/proc/self/status") if t.startswith(name))
    return 1024 * int(line.split()[1])
rng = np.random.default_rng(0)
cost = np.empty((n, m), dtype=dtype, order=order)
rng.random(out=cost if order == "C" else cost.T, dtype=dtype)
if sys.argv[5] == "solve":
    solve(cost)
open("/proc/self/clear_refs", "w").write("5")
before = read("VmRSS")
solve(cost) if sys.argv[5] == "solve" else cost.copy()
print((read("VmHWM") - before) / cost.nbytes)
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
    # In the cache, so that the threads do not share the memory bus.
    costs = [generate("lowrank_noise", 700, seed) for seed in (0, 1)]
    with progress.task("threads", total=1), ThreadPoolExecutor(2) as pool:
        t = paired(lambda: list(pool.map(solve, costs)), lambda: list(map(solve, costs)), repeats=15)
    return [Ratio.of("two solves on two threads", "one after the other", "", t, None, 0.7)]


def memory(progress):
    """Peak memory that a solve adds, as a share of the matrix; the last row shows what a copy would add (Linux)."""
    rows = []
    cases = [("C", "f8", 4000, 4000), ("F", "f8", 4000, 4000), ("C", "f4", 4000, 4000), ("F", "f4", 4000, 4000)]
    cases += [(order, "f8", *shape) for shape in ((4000, 3000), (3000, 4000)) for order in "CF"]
    for order, dtype, n, m in progress.track(cases, "memory", len(cases)):
        share = child(MEMORY, order, dtype, n, m, "solve")
        bar = 0.1 if dtype == "f8" else None
        case = f"peak memory of a solve, n={n}, {order} {dtype}" if n == m else f"peak memory, {n}x{m}, {order} {dtype}"
        rows.append(Ratio(case, "the matrix", "", share, share, share, bar))
    share = child(MEMORY, "C", "f8", 4000, 4000, "copy")
    rows.append(Ratio("peak memory of a copy, n=4000", "the matrix", "", share, share, share))
    return rows


BENCHMARKS = (
    Benchmark("lap-warmstart/interruption", interruption),
    Benchmark("lap-warmstart/threads", threads),
    Benchmark("lap-warmstart/memory", memory),
)
