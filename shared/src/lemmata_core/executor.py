"""Executors on which work splits. Every task runs with one BLAS, OpenMP and torch thread, wherever it runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

from lemmata_core.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
ACCEPTED = '"serial", "local", "local:N" or "tcp://HOST:PORT"'


@contextmanager
def _one_thread_environment() -> Iterator[None]:
    # A spawned process reads these when it loads its libraries, before any code of ours could run.
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, OpenMP, torch and numba to one thread inside the block, whether loaded before or in it.

    A BLAS that is loaded already is reached through threadpoolctl where that is installed (lemmata-tools and
    scikit-learn bring it). On leaving, threads are as they were.
    """
    with ExitStack() as stack:
        try:
            from threadpoolctl import threadpool_limits
        except ImportError:
            pass
        else:
            stack.enter_context(threadpool_limits(limits=1))
        for name in ("torch", "numba"):
            module = sys.modules.get(name)
            if module is None:
                stack.callback(_free_threads, name)
            else:
                stack.callback(module.set_num_threads, module.get_num_threads())
                module.set_num_threads(1)
        # Entered last and so left first: _free_threads reads the caller's own environment.
        own = os.environ.get("NUMBA_NUM_THREADS")
        stack.enter_context(_one_thread_environment())
        if "numba" in sys.modules:
            # numba reads this variable again whenever it compiles, and refuses a number other than the threads it has
            # launched; set_num_threads above has masked them.
            _set_numba_threads(own)
        yield


def _set_numba_threads(value: str | None) -> None:
    if value is None:
        os.environ.pop("NUMBA_NUM_THREADS", None)
    else:
        os.environ["NUMBA_NUM_THREADS"] = value


def _free_threads(name: str) -> None:
    # A library that loaded inside the block took one thread from the environment: give it what it would have had.
    module = sys.modules.get(name)
    if module is None:
        return
    if name == "torch":
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        module.set_num_threads(int(wanted) if wanted.isdigit() and int(wanted) else os.cpu_count() or 1)
    else:
        try:
            module.config.reload_config()
        except RuntimeError:
            # Its one thread was launched in the block: one thread stays, and the variable has to say so, or numba
            # would refuse to compile anything from here on.
            _set_numba_threads("1")


def _task(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    with one_thread():
        return function(*args, **kwargs)


class _Serial(Executor):
    """Runs each task at once, in the caller's thread; an interruption reaches the caller."""

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as err:  # noqa: BLE001 - a future hands on whatever the task raised
            future.set_exception(err)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        self._closed = True


class _OneThread(Executor):
    """Hands each task to another executor so that it runs with one thread."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return self._inner.submit(_task, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait=wait, cancel_futures=cancel_futures)


@contextmanager
def executor(spec: str = "local") -> Iterator[Executor]:
    """Give a `concurrent.futures.Executor`.

    Parameters
    ----------
    spec : str
        ``"serial"``: in this process. ``"local"``: one process a core, started by spawn as tasks come. ``"local:4"``:
        four processes. ``"tcp://host:port"``: a Dask scheduler (extra ``distributed``), its workers with one thread
        each.

    Yields
    ------
    concurrent.futures.Executor
        Tasks are top-level functions with picklable arguments. Leaving the block normally waits for them; leaving it by
        an exception (Ctrl-C too) cancels those not started and ends the processes.

    Raises
    ------
    InvalidInput
        For any other `spec`, a scheduler that does not answer, or a missing extra.
    """
    kind, workers = _parse(spec)
    if kind == "serial":
        with _Serial() as inner:
            yield _OneThread(inner)
    elif kind == "local":
        with _pool(workers) as pool:
            yield _OneThread(pool)
    else:
        with _dask(spec) as cluster:
            yield _OneThread(cluster)


def _parse(spec: object) -> tuple[str, int]:
    if not isinstance(spec, str):
        raise InvalidInput.argument("executor", expected=ACCEPTED, got=spec)
    if spec in {"serial", "local"}:
        return spec, os.cpu_count() or 1
    head, _, tail = spec.partition(":")
    if head == "local" and tail.isascii() and tail.isdigit() and int(tail) > 0:
        return "local", int(tail)
    if head in {"tcp", "tls"} and tail.startswith("//") and ":" in tail[2:]:
        return "dask", 0
    raise InvalidInput.argument("executor", expected=ACCEPTED, got=spec)


def _start_worker() -> None:
    # Ctrl-C reaches the whole process group: the parent decides, the workers are ended by it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A parent that was killed tells nobody, and the pool's own queue would keep its workers waiting for ever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _SpawnPool(ProcessPoolExecutor):
    """A process pool whose processes, started as tasks come, are born with one thread each."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        with _one_thread_environment():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    pool = _SpawnPool(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as err:
        raise InvalidInput.argument(
            "executor", expected="the extra lemmata-core[distributed] for a Dask address", got=address
        ) from err
    try:
        client: Any = Client(address, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as err:
        raise InvalidInput.argument(
            "executor", expected="the address of a running Dask scheduler", got=f"{address} ({err})"
        ) from err
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
