"""What all tests share: the option --slow, and one thread a library so that parallel runs do not fight."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("LEMMATA_PROGRESS", "0")

import signal  # noqa: E402 - the variables must stand before anything numerical loads

import pytest  # noqa: E402

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; the tests of Ctrl-C need the signal
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
