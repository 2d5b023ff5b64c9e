"""What several tests of this package need, as fixtures (test modules cannot import one another)."""

import subprocess
import sys

import pytest

PEAK = """
import sys
import numpy as np
from lap_warmstart import solve

def grown(call):
    def read(name):
        line = next(t for t in open("/proc/self/status") if t.startswith(name))
        return 1024 * int(line.split()[1])
    open("/proc/self/clear_refs", "w").write("5")
    before = read("VmRSS")
    call()
    return (read("VmHWM") - before) / cost.nbytes

for word in sys.argv[1:]:
    order, n, m = word.split(",")
    cost = np.empty((int(n), int(m)), order=order)
    np.random.default_rng(1).random(out=cost if cost.flags.c_contiguous else cost.T)
    solve(cost)
    print(grown(lambda: solve(cost)), grown(cost.copy))
"""


@pytest.fixture
def peaks():
    """Cases "ORDER,n,m" -> what a process of its own grows by in a solve and in a copy, in sizes of the matrix.

    What kernels allocate is not seen by tracemalloc, but it is by the operating system. The copy shows that it is.
    """
    if sys.platform != "linux":
        pytest.skip("the peak of the process is reset by Linux only")

    def measure(*cases):
        words = [sys.executable, "-c", PEAK, *cases]
        try:
            out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as err:
            if "clear_refs" in err.stderr:
                pytest.skip("this system does not let a process reset its peak")
            raise
        return [tuple(map(float, line.split())) for line in out.splitlines()]

    return measure
