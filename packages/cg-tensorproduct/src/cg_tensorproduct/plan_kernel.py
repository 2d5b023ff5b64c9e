"""Tables for the fused CPU kernels (extra `cpu`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cg_tensorproduct import threads
from cg_tensorproduct.ops import register
from cg_tensorproduct.paths import Pair, Problem, block_rows, complex_rows

Index = NDArray[np.int64]


class KernelPlan:
    """Everything `kernel_numba.couple` and `back` read, in a few flat arrays. Not differentiable by torch itself."""

    name = "kernel"
    native = True

    def __init__(self, problem: Problem, dtype: torch.dtype) -> None:
        self.dim1, self.dim2, self.dim_out = problem.dim1, problem.dim2, problem.dim_out
        real = np.float32 if dtype == torch.float32 else np.float64
        self._dtype = dtype
        tables = _Tables(real)
        for pair in problem.pairs:
            tables.add(pair)
        index1, factor1 = complex_rows(self.dim1, [pair.rows1 for pair in problem.pairs])
        index2, factor2 = complex_rows(self.dim2, [pair.rows2 for pair in problem.pairs])
        self._tables = (index1, factor1.astype(real), index2, factor2.astype(real), *tables.arrays())
        self._seconds = tables.multiply_adds * 1e-10 + self.dim_out * 1e-9  # a row, about
        self._kernels: tuple[Any, Any] | None = None
        self.handle = register(self)

    def couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The same as `run_couple`."""
        return self.run_couple(x, y)

    def run_couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """[B, dim1], [B, dim2] -> [B, dim_out]."""
        out = torch.empty(x.shape[0], self.dim_out, dtype=self._dtype)
        self._share(self._load()[0], (_view(x), _view(y), out.numpy()), 1.0)
        return out

    def run_back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``."""
        gx = torch.empty(x.shape[0], self.dim1, dtype=self._dtype)
        gy = torch.empty(x.shape[0], self.dim2, dtype=self._dtype)
        self._share(self._load()[1], (_view(x), _view(y), _view(g), gx.numpy(), gy.numpy()), 1.5)
        return gx, gy

    def _share(self, kernel: Any, arrays: tuple[NDArray[Any], ...], effort: float) -> None:
        parts = threads.shares(len(arrays[0]), effort * len(arrays[0]) * self._seconds)
        if len(parts) == 1:
            kernel(*arrays, *self._tables)
        else:
            threads.run(lambda _, part: kernel(*(array[part] for array in arrays), *self._tables), parts)

    def _load(self) -> tuple[Any, Any]:
        if self._kernels is None:  # numba is loaded by the first product, not by an import
            from cg_tensorproduct import kernel_numba

            self._kernels = kernel_numba.couple, kernel_numba.back
        return self._kernels


def _view(x: torch.Tensor) -> NDArray[Any]:
    return x.detach().contiguous().numpy()


class _Tables:
    def __init__(self, real: type) -> None:
        self._real = real
        self._pairs: list[tuple[int, ...]] = []
        self._blocks: list[tuple[int, ...]] = []
        self._rows: list[Index] = []
        self._paths: list[tuple[int, ...]] = []
        self._A: list[NDArray[np.float64]] = []
        self._entries = self._row_count = self.multiply_adds = 0
        self._most_columns = self._most_rows = 1

    def add(self, pair: Pair) -> None:
        block0, path0 = len(self._blocks), len(self._paths)
        base, centres = 0, []
        for l3, out in zip(pair.l3, pair.out):
            centres.append(base + l3)
            copy, step = steps(out)
            self._paths.append((base, 2 * l3 + 1, int(out[0, 0]), copy, step))
            base += 2 * l3 + 1
        made = block_rows(pair, self._real)
        self.multiply_adds += 2 * sum(rows.matrix.size for rows in made) * len(pair.rows1) * len(pair.rows2)
        for M, rows in enumerate(made):
            count, n = rows.matrix.shape
            i, j = pair.l1 + rows.first, pair.l2 + M - rows.first
            self._blocks.append((i, j, n, rows.even, count - rows.even, self._entries, self._row_count, M))
            self._A.append(rows.matrix.ravel())
            self._entries += rows.matrix.size
            self._row_count += count
        self._most_columns = max(self._most_columns, *(rows.matrix.shape[1] for rows in made))
        centre = np.array(centres)[np.concatenate([rows.places for rows in made])]
        shift = np.repeat(np.arange(len(made)), [len(rows.places) for rows in made])
        self._rows.append(np.stack((centre + shift, centre - shift), 1))
        self._most_rows = max(self._most_rows, base)
        u, c1 = steps(pair.rows1)
        v, c2 = steps(pair.rows2)
        copies = (len(pair.rows1), len(pair.rows2))
        ends = (block0, len(self._blocks), path0, len(self._paths))
        self._pairs.append((int(pair.rows1[0, 0]), u, c1, int(pair.rows2[0, 0]), v, c2, *copies, *ends))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        A: NDArray[Any] = np.concatenate(self._A).astype(self._real)
        return (
            table(self._pairs, 12),
            table(self._blocks, 8),
            np.concatenate(self._rows),
            table(self._paths, 5),
            A,
            np.array([self._most_columns, self._most_rows]),
        )


def steps(columns: Index) -> tuple[int, int]:
    """Distance from one copy to the next and from one component to the next; a layout has no other freedom."""
    copy = int(columns[1, 0] - columns[0, 0]) if columns.shape[0] > 1 else 0
    component = int(columns[0, 1] - columns[0, 0]) if columns.shape[1] > 1 else 0
    return copy, component


def table(rows: list[Any], width: int) -> Index:
    """Rows of integers as the kernels read them."""
    return np.array(rows, dtype=np.int64).reshape(-1, width)
