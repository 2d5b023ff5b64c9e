import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from lemmata_core import InvalidInput
from lemmata_core.executor import THREAD_VARIABLES, executor, one_thread


def square(x):
    return x * x


def threads(_):
    import numpy as np
    import threadpoolctl
    import torch

    np.ones((4, 4)) @ np.ones((4, 4))
    limits = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return torch.get_num_threads(), limits, os.environ["OMP_NUM_THREADS"]


def fail(_):
    raise InvalidInput.argument("x", expected="a number", got=None)


@pytest.mark.parametrize("spec", ["serial", "local:2"])
def test_tasks_run_with_one_thread_and_errors_come_back(spec):
    with executor(spec) as pool:
        assert list(pool.map(square, range(5))) == [0, 1, 4, 9, 16]
        assert pool.submit(threads, 0).result() == (1, {1}, "1")
        with pytest.raises(InvalidInput, match="x: expected a number, got None"):
            pool.submit(fail, 0).result()
    with pytest.raises(RuntimeError):
        pool.submit(square, 1)


def test_the_callers_threads_come_back(monkeypatch):
    import torch

    numba = pytest.importorskip("numba")

    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    before = numba.get_num_threads()  # launches its threads, which may set OpenMP's number and so torch's
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert numba.get_num_threads() == 1
            assert os.environ["MKL_NUM_THREADS"] == "1"
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert numba.get_num_threads() == before
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


def test_a_library_that_loads_inside_has_one_thread_there_and_all_afterwards():
    code = """
    import os, sys
    for name in list(os.environ):
        if name.endswith("_THREADS"):
            del os.environ[name]
    from lemmata_core.executor import one_thread
    with one_thread():
        import torch
        try:
            import numba
        except ImportError:
            sys.exit()
        assert (torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS) == (1, 1)
    assert torch.get_num_threads() == os.cpu_count(), torch.get_num_threads()
    assert numba.config.NUMBA_NUM_THREADS == os.cpu_count(), numba.config.NUMBA_NUM_THREADS
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], check=True, timeout=120)


@pytest.mark.parametrize(
    "spec", ["", "thread", "local:", "local:0", "local:-1", "local:x", "tcp:", "tcp://host", None, 3]
)
def test_an_unknown_spec_is_refused(spec):
    with pytest.raises(InvalidInput, match="executor: expected"), executor(spec):
        pass


def test_a_scheduler_that_does_not_answer_is_said_so(monkeypatch):
    import distributed

    def refuse(*args, **kwargs):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", refuse)
    with (
        pytest.raises(InvalidInput, match=r"a running Dask scheduler, got tcp://127.0.0.1:1"),
        executor("tcp://127.0.0.1:1"),
    ):
        pass


def test_without_the_extra_a_dask_address_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInput, match=r"lemmata-core\[distributed\]"), executor("tcp://127.0.0.1:1"):
        pass


def test_a_dask_cluster_runs_the_same_tasks():
    from distributed import LocalCluster

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        executor(cluster.scheduler_address) as pool,
    ):
        assert list(pool.map(square, range(4))) == [0, 1, 4, 9]
        assert pool.submit(threads, 0).result() == (1, {1}, "1")


def test_leaving_by_an_exception_ends_the_processes_at_once():
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), executor("local:1") as pool:
        pool.submit(time.sleep, 60)
        time.sleep(1)
        raise KeyboardInterrupt
    assert time.monotonic() - start < 30


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent("""
        import os, time
        from lemmata_core.executor import executor
        if __name__ == "__main__":
            with executor("local:1") as pool:
                print(pool.submit(os.getpid).result(), flush=True)
                pool.submit(time.sleep, 600).result()
        """)
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        if "State:\tZ" in _status(worker):
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its parent")


def _status(pid):
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return "State:\tZ"
