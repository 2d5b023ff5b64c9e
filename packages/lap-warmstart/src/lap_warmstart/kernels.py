"""Loads the compiled kernels, with one warning where their cache cannot be written."""

from __future__ import annotations

import warnings
from typing import Any


def load() -> Any:
    """Return the kernel for small problems; compiled code comes from numba's cache where there is one."""
    try:
        from lap_warmstart.small import assign
    except RuntimeError as err:
        if "cannot cache function" not in str(err):
            raise
        import numba

        warnings.warn(
            "numba finds no writable folder for compiled code, so kernels are compiled anew in each process; "
            "set NUMBA_CACHE_DIR to a writable one",
            UserWarning,
            stacklevel=3,
        )
        plain = numba.njit

        def njit(*args: Any, **options: Any) -> Any:
            options.pop("cache", None)
            return plain(*args, **options)

        numba.njit = njit
        try:
            from lap_warmstart.small import assign
        finally:
            numba.njit = plain
    return assign


__all__ = ["load"]
