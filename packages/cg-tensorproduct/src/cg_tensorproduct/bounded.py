"""Matrix products of a large batch: in chunks, of full precision, and with one more try where memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from cg_tensorproduct import inputs

T = TypeVar("T")


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Consecutive parts of `rows`."""
    for start in range(0, rows, size):
        yield slice(start, min(rows, start + size))


def run(attempt: Callable[[int], T], x: torch.Tensor, chunk: int, allow_tf32: bool | None) -> T:
    """``attempt(chunk)`` on the rows of `x`; if that runs out of memory, once more with half of the rows at a time.

    Products of float32 matrices are computed in float32, whatever torch is set to (None: as it is set; True: TF32 may
    be used) and also where a backward pass runs under autocast. The setting is torch's own and holds for the whole
    process, so it is put back at once.
    """
    return inputs.in_full_precision(x, lambda: _at_precision(attempt, x.shape[0], chunk, allow_tf32))


def run_back(
    back: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    x: torch.Tensor,
    y: torch.Tensor,
    g: torch.Tensor,
    chunk: int,
    allow_tf32: bool | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``back(x, y, g)``, the gradients of a product for x and y, at most `chunk` rows at a time; see `run`."""

    def attempt(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        if x.shape[0] <= size:
            return back(x, y, g)
        gx, gy = torch.empty_like(x), torch.empty_like(y)
        for part in chunks(x.shape[0], size):
            gx[part], gy[part] = back(x[part], y[part], g[part])
        return gx, gy

    return run(attempt, x, chunk, allow_tf32)


def _at_precision(attempt: Callable[[int], T], rows: int, chunk: int, allow_tf32: bool | None) -> T:
    before = torch.get_float32_matmul_precision()
    wanted = before if allow_tf32 is None else "high" if allow_tf32 else "highest"
    if wanted == before:
        return _with_one_retry(attempt, rows, chunk)
    torch.set_float32_matmul_precision(wanted)
    try:
        return _with_one_retry(attempt, rows, chunk)
    finally:
        torch.set_float32_matmul_precision(before)


def _with_one_retry(attempt: Callable[[int], T], rows: int, chunk: int) -> T:
    try:
        return attempt(chunk)
    except (RuntimeError, MemoryError) as err:
        if rows <= 1 or not _out_of_memory(err):
            raise
    # outside of the handler: the error holds on to the tensors of the first attempt
    return attempt(max(1, min(chunk, rows) // 2))


def _out_of_memory(err: BaseException) -> bool:
    # torch has a class of its own for accelerators only
    return isinstance(err, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(err)
