"""Rows of a batch shared out between as many threads as torch uses; native kernels release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import torch

LEAST_SECONDS = 1e-4  # of work for a thread: handing it over costs a tenth of that
TILE = 16  # rows that a kernel takes together


def shares(rows: int, seconds: float) -> list[slice]:
    """Consecutive parts of `rows` that are worth a thread each, for work that takes about `seconds` on one.

    Cut between tiles, so that every row is computed as it would be on one thread.
    """
    wanted = min(torch.get_num_threads(), int(seconds / LEAST_SECONDS), -(-rows // TILE))
    if wanted <= 1:
        return [slice(0, rows)]
    tiles = -(-rows // TILE)
    ends = [min(rows, TILE * (tiles * k // wanted)) for k in range(wanted + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def run(task: Callable[[int, slice], None], parts: list[slice]) -> None:
    """Call ``task(k, parts[k])`` for every part, the first on this thread."""
    pending = [_pool(len(parts)).submit(task, k, part) for k, part in enumerate(parts) if k]
    try:
        task(0, parts[0])
    finally:  # never return while a thread still writes
        errors = [future.exception() for future in pending]
    for error in errors:
        if error is not None:
            raise error


@lru_cache(maxsize=8)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size - 1, thread_name_prefix="cg-tensorproduct")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
