"""What a solve does to its process: memory, compiled code, imports, threads and interruption."""

import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from lap_warmstart import solve


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_copy_of_an_ordered_matrix(order):
    cost = np.asarray(np.random.default_rng(6).random((2000, 2000)), order=order)
    cost.flags.writeable = False
    solve(cost)
    tracemalloc.start()
    solve(cost)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * cost.nbytes


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_copy_in_the_memory_of_the_process(order, peaks):
    [(solved, copied)] = peaks(f"{order},2500,2500")
    assert copied > 0.9
    assert solved < 0.1


def test_kernels_compile_without_a_cache_after_one_warning():
    code = """
import warnings
import numba.core.caching
import numpy as np

numba.core.caching.CacheImpl._locator_classes = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from lap_warmstart import certify, solve
    cost = np.random.default_rng(0).random((300, 300))
    assert certify(cost, solve(cost)).optimal
print([str(w.message)[:32] for w in caught])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "['numba finds no writable folder f']\n"


def test_offsets_beyond_two_to_the_31_entries(tmp_path):
    from lap_warmstart import dense

    # A sparse file of 9.2 GB that takes no room on the disk; only its last rows are read.
    cost = np.memmap(tmp_path / "cost.bin", dtype=np.float32, mode="w+", shape=(70_000, 32_768))
    cost[69_999, 32_767] = -3.0
    v = np.full(32_768, np.inf)
    dense.survey(np.asarray(cost), v, 69_990, 70_000)
    assert (v[-1], v[0]) == (-3.0, 0.0)


def test_import_is_light():
    code = (
        "import sys, lap_warmstart; "
        "heavy = {'numba', 'torch', 'scipy.sparse', 'scipy.optimize', 'matplotlib', 'sklearn', 'typer'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_kernel_releases_the_gil():
    import importlib

    from numba.core.dispatcher import Dispatcher

    seen = 0
    for name in ("dense", "core", "heap", "small", "gated", "tight", "duals", "across", "features", "simd"):
        for kernel in vars(importlib.import_module(f"lap_warmstart.{name}")).values():
            if isinstance(kernel, Dispatcher):
                seen += 1
                assert kernel.targetoptions["nogil"], kernel
                assert type(kernel._cache).__name__ == "FunctionCache", kernel
    assert seen > 30


def test_two_solves_on_two_threads_overlap():
    # Each thread must get through whole solves while the other one is inside a single solve.
    cost = np.random.default_rng(10).random((1500, 1500))
    small = np.random.default_rng(11).random((60, 60))
    solve(cost, method="lapjv")
    spans = {"large": [], "small": []}
    done = threading.Event()

    def large():
        begin = time.perf_counter()
        solve(cost, method="lapjv")
        spans["large"].append((begin, time.perf_counter()))
        done.set()

    def many():
        while not done.is_set():
            begin = time.perf_counter()
            solve(small)
            spans["small"].append((begin, time.perf_counter()))

    pair = [threading.Thread(target=f) for f in (many, large)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    ((first, last),) = spans["large"]
    inside = [b for a, b in spans["small"] if first < a and b < last]
    assert len(inside) > 20


def test_interruption_is_quick(tmp_path):
    code = """
import numpy as np, signal, os, threading, time
from lap_warmstart import solve
rng = np.random.default_rng(0)
cost = 5.0 * (rng.random((3000, 4)) @ rng.random((4, 3000))) + rng.random((3000, 3000))
solve(cost[:300, :300].copy(), method="lapjv")
sent = []
def interrupt():
    time.sleep(1.0)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    solve(cost, method="lapjv")
    print("finished")
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 2.0  # half a second on an idle machine
