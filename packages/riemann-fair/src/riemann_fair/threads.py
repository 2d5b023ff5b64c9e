"""One BLAS thread inside solver loops: tall-skinny products with spinning threads cost up to 20 times the CPU time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

_controllers: list[Any] = []


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread inside the block."""
    import scipy.linalg  # noqa: F401 - scipy brings its own BLAS, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    if not _controllers:
        # Finding the loaded libraries takes milliseconds; they are asked for once.
        _controllers.append(ThreadpoolController())
    made: AbstractContextManager[Any] = _controllers[0].limit(limits=1, user_api="blas")
    return made
