"""Tables for the native kernel of mode uvu (extra `cpu`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cg_tensorproduct import threads
from cg_tensorproduct.coupling import clebsch_gordan
from cg_tensorproduct.instructions import Instruction
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.paths import term_columns
from cg_tensorproduct.plan_kernel import steps, table

Terms = tuple[Irreps, Irreps, Irreps]


class UvuPlan:
    """All uvu instructions of a product, each copy of the second input as a path of its own. Not differentiable by
    torch.
    """

    name = "uvu"
    native = True

    def __init__(
        self, terms: Terms, layout: str, instructions: list[tuple[int, Instruction]], weights: int, dtype: torch.dtype
    ) -> None:
        """`instructions` come with the position of their first weight in the flat weights, or -1."""
        self._dims = terms[0].dim, terms[1].dim, weights
        self.dim_out = terms[2].dim
        self._dtype = dtype
        columns = [term_columns(irreps, layout) for irreps in terms]
        used = [sorted({ins.i_in1 for _, ins in instructions}), sorted({ins.i_out for _, ins in instructions})]
        terms1, size1 = _terms([columns[0][i] for i in used[0]])
        terms3, size3 = _terms([columns[2][i] for i in used[1]])
        paths: list[tuple[int, ...]] = []
        rows: list[int] = []
        entries: list[tuple[int, int, int]] = []
        js: list[int] = []
        values: list[float] = []
        widest = 1
        for start, ins in instructions:
            l1, l2, l3 = (irreps[i].ir.l for irreps, i in zip(terms, ins.terms))
            c = clebsch_gordan(l1, l2, l3) * (ins.path_weight / np.sqrt(2 * l3 + 1))
            row0, entry0 = len(rows), len(entries)
            for k in range(2 * l3 + 1):
                rows.append(len(entries))
                for i in range(2 * l1 + 1):
                    (nonzero,) = np.nonzero(np.abs(c[i, :, k]) > 1e-15)
                    if len(nonzero):
                        entries.append((i, len(js), len(js) + len(nonzero)))
                        js.extend(nonzero.tolist())
                        values.extend(c[i, nonzero, k].tolist())
            rows.append(len(entries))
            widest = max(widest, len(entries) - entry0)
            y = columns[1][ins.i_in2]
            term1, term3 = used[0].index(ins.i_in1), used[1].index(ins.i_out)
            for v in range(len(y)):
                weight = (start + v, len(y)) if start >= 0 else (-1, 0)
                paths.append((term1, term3, int(y[v, 0]), steps(y)[1], *weight, row0, entry0, len(entries)))
        real = np.float32 if dtype == torch.float32 else np.float64
        widths = [(mul + 15) // 16 * 16 for mul in (terms[0][i].mul for i in used[0])]
        self._tables = (
            table(terms1, 6),
            table(terms3, 6),
            table(paths, 9),
            np.array(rows, dtype=np.int64),
            table(entries, 3),
            np.array(js, dtype=np.int64),
            np.array(values, dtype=real),
            np.array([size1, size3, widest, max(widths, default=16)], dtype=np.int64),
        )
        work = sum(p[8] - p[7] for p in paths) * max(widths, default=0)
        self._seconds = work * 1e-10 + self.dim_out * 1e-9  # a row, about
        self._kernels: tuple[Any, Any] | None = None

    def run_couple(self, *tensors: torch.Tensor) -> torch.Tensor:
        """[B, dim1], [B, dim2], [1 or B, weights] -> [B, dim_out]; columns that no instruction reaches are zero."""
        out = torch.zeros(tensors[0].shape[0], self.dim_out, dtype=self._dtype)
        self._share(self._load()[0], (*map(_view, tensors), out.numpy()), len(tensors[0]), 1.0)
        return out

    def run_back(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Gradients of ``(couple(x, y, w) * g).sum()`` from x, y, w and g."""
        rows = len(tensors[0])
        # terms without an instruction are not written
        gx, gy = (torch.zeros(rows, n, dtype=self._dtype) for n in self._dims[:2])
        shared = len(tensors[2]) == 1 and rows != 1
        parts = len(threads.shares(rows, 2.5 * rows * self._seconds))
        # of shared weights every thread has a gradient of its own to add to
        gw = torch.zeros(parts if shared else rows, self._dims[2], dtype=self._dtype)
        arrays = (*map(_view, tensors), gx.numpy(), gy.numpy(), gw.numpy())
        self._share(self._load()[1], arrays, rows, 2.5)
        return gx, gy, gw.sum(0, keepdim=True) if shared and parts > 1 else gw

    def _share(self, kernel: Any, arrays: tuple[Any, ...], rows: int, effort: float) -> None:
        parts = threads.shares(rows, effort * rows * self._seconds)
        if len(parts) == 1:
            kernel(*arrays, *self._tables)
            return

        def task(k: int, part: slice) -> None:
            # weights, or their gradients, that are not one a row: one for all, or one a thread
            chosen = (a[part] if len(a) == rows else a[k : k + 1] if len(a) == len(parts) else a for a in arrays)
            kernel(*chosen, *self._tables)

        threads.run(task, parts)

    def _load(self) -> tuple[Any, Any]:
        if self._kernels is None:
            from cg_tensorproduct import kernel_uvu

            self._kernels = kernel_uvu.couple, kernel_uvu.back
        return self._kernels


def _view(x: torch.Tensor) -> Any:
    return x.detach().contiguous().numpy()


def _terms(columns: list[Any]) -> tuple[list[tuple[int, ...]], int]:
    rows, size = [], 0
    for term in columns:
        copy, component = steps(term)
        rows.append((int(term[0, 0]), *term.shape, copy, component, size))
        size += term.shape[1] * ((term.shape[0] + 15) // 16 * 16)
    return rows, size
