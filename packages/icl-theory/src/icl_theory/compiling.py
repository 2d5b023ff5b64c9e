"""How kernels are compiled: cached on disk, without the interpreter's lock, on array arguments that never overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.compiler import Compiler

# Reassociation lets reductions vectorise. NaN and infinity keep their meaning: a poisoned input must show.
FAST = {"reassoc", "contract", "arcp", "nsz"}


class DisjointArrays(Compiler):
    """Numba's compiler with `noalias` on array arguments.

    Without it LLVM must prove at run time that a dozen arrays do not overlap, gives up, and leaves the loop scalar:
    the backward scan is five times slower then. Callers pass arrays that share no memory.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.state.flags.noalias = True


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` at its first call, once for each set of argument types, with the options of this module."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": FAST, "error_model": "numpy"}
    compiled: Callable[..., Any] = njit(pipeline_class=DisjointArrays, **options)(function)
    return compiled
