"""Blocked algorithm: in the complex basis m1 + m2 = M, so every pair of degrees falls apart into small square blocks.

O(L^5) multiplications for one copy of l = 0..L on both sides instead of O(L^6), all of them in batched matrix products:
blocks of one shape go through one `torch.bmm`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cg_tensorproduct import bounded
from cg_tensorproduct.ops import register
from cg_tensorproduct.paths import BlockRows, Pair, Problem, block_rows, complex_rows

_CHUNK_BYTES = 1 << 20  # one chunk of z and O should stay in a core's share of the cache

Index = NDArray[np.int64]


@dataclass(frozen=True)
class _Group:
    """Blocks of one shape: coefficients [G, rows, n] and how many columns (copies) each has."""

    matrix: torch.Tensor
    transposed: torch.Tensor
    copies: int
    z_rows: int
    o_rows: int


class _ComplexRows:
    """Real columns -> complex components: ``Xr = ar x[ir]``, ``Xi = ai x[ii]`` (m > 0: (-1)^m (x_m + i x_-m) / sqrt
    2).
    """

    def __init__(self, dim: int, terms: list[Index], dtype: torch.dtype, device: torch.device) -> None:
        index, factor = complex_rows(dim, terms)
        self.real, self.imag = (torch.as_tensor(column.copy(), device=device) for column in index.T)
        self.ar, self.ai = (torch.as_tensor(a, dtype=dtype, device=device).unsqueeze(1) for a in factor.T.copy())

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.t()
        return rows.index_select(0, self.real) * self.ar, rows.index_select(0, self.imag) * self.ai

    def join(self, gr: torch.Tensor, gi: torch.Tensor) -> torch.Tensor:
        """Transpose of `split`."""
        out = torch.zeros_like(gr).index_add_(0, self.real, gr * self.ar).index_add_(0, self.imag, gi * self.ai)
        return out.t().contiguous()


class BlockedPlan:
    """Index maps and coefficient blocks. `couple` is differentiable torch; `run_*` work in chunks of the batch."""

    name = "blocked"
    native = False

    def __init__(self, problem: Problem, dtype: torch.dtype, device: torch.device) -> None:
        self.dim1, self.dim2, self.dim_out = problem.dim1, problem.dim2, problem.dim_out
        self._x = _ComplexRows(self.dim1, [pair.rows1 for pair in problem.pairs], dtype, device)
        self._y = _ComplexRows(self.dim2, [pair.rows2 for pair in problem.pairs], dtype, device)
        shapes: dict[tuple[int, int, int], list[_Block]] = {}
        for pair in problem.pairs:
            for M, coupling in enumerate(block_rows(pair, np.float32 if dtype == torch.float32 else np.float64)):
                made = _make_block(pair, M, coupling)
                shapes.setdefault((*made.matrix.shape, made.copies), []).append(made)
        self.groups: list[_Group] = []
        base = 0
        out_row, out_sign = np.zeros(self.dim_out, int), np.zeros(self.dim_out)
        for (rows, n, copies), blocks in shapes.items():
            matrix = np.stack([made.matrix for made in blocks])
            tensor = torch.as_tensor(matrix, dtype=dtype, device=device)
            o_rows = len(blocks) * rows * copies
            self.groups.append(
                _Group(tensor, tensor.transpose(1, 2).contiguous(), copies, len(blocks) * n * copies, o_rows)
            )
            for made in blocks:
                for column, row, part, sign in made.outputs:
                    out_row[column] = 2 * (base + row) + part
                    out_sign[column] = sign
                base += rows * copies
        self._o_total = base
        ordered = [made for blocks in shapes.values() for made in blocks]
        self._i1 = _concatenated([made.i1 for made in ordered], device)
        self._i2 = _concatenated([made.i2 for made in ordered], device)
        self._out_row = torch.as_tensor(out_row, device=device)
        self._out_sign = torch.as_tensor(out_sign, dtype=dtype, device=device)
        columns, signs = np.zeros(2 * base, int), np.zeros(2 * base)
        columns[out_row], signs[out_row] = np.arange(self.dim_out), out_sign
        self._g_column = torch.as_tensor(columns, device=device)
        self._g_sign = torch.as_tensor(signs, dtype=dtype, device=device).unsqueeze(1)
        self.chunk = max(16, _CHUNK_BYTES // (6 * torch.finfo(dtype).bits // 8 * max(1, len(self._i1))))
        self._allow_tf32 = problem.allow_tf32
        self.handle = register(self)

    def couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Product of rows: [B, dim1], [B, dim2] -> [B, dim_out]."""
        batch = x.shape[0]
        (xr, xi), (yr, yi) = self._x.split(x), self._y.split(y)
        xr, xi = xr.index_select(0, self._i1), xi.index_select(0, self._i1)
        yr, yi = yr.index_select(0, self._i2), yi.index_select(0, self._i2)
        z = torch.cat((xr * yr - xi * yi, xr * yi + xi * yr), 1)
        parts, at = [], 0
        for group in self.groups:
            count, rows, n = group.matrix.shape
            block = z[at : at + group.z_rows].reshape(count, n, group.copies * 2 * batch)
            parts.append(torch.bmm(group.matrix, block).reshape(count * rows * group.copies * 2, batch))
            at += group.z_rows
        return torch.cat(parts).index_select(0, self._out_row).t() * self._out_sign

    def _back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = x.shape[0]
        go = g.t().index_select(0, self._g_column) * self._g_sign
        parts, at = [], 0
        for group in self.groups:
            count, _, rows = group.transposed.shape
            size = 2 * group.o_rows
            block = go[at : at + size].reshape(count, rows, group.copies * 2 * batch)
            parts.append(torch.bmm(group.transposed, block).reshape(group.z_rows, 2 * batch))
            at += size
        gz = torch.cat(parts)
        gr, gi = gz[:, :batch], gz[:, batch:]
        (xr, xi), (yr, yi) = self._x.split(x), self._y.split(y)
        ar, ai = yr.index_select(0, self._i2), yi.index_select(0, self._i2)
        gx = self._collect(self._x, self._i1, gr * ar + gi * ai, gi * ar - gr * ai, x)
        ar, ai = xr.index_select(0, self._i1), xi.index_select(0, self._i1)
        gy = self._collect(self._y, self._i2, gr * ar + gi * ai, gi * ar - gr * ai, y)
        return gx, gy

    @staticmethod
    def _collect(
        rows: _ComplexRows, index: torch.Tensor, gr: torch.Tensor, gi: torch.Tensor, like: torch.Tensor
    ) -> torch.Tensor:
        zeros = like.new_zeros(like.shape[1], like.shape[0])
        return rows.join(zeros.index_add(0, index, gr), zeros.index_add(0, index, gi))

    def run_couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """`couple` without autograd: never more than the output and one chunk in memory."""

        def attempt(size: int) -> torch.Tensor:
            if x.shape[0] <= size:
                return self.couple(x, y).contiguous()
            out = x.new_empty(x.shape[0], self.dim_out)
            for part in bounded.chunks(x.shape[0], size):
                out[part] = self.couple(x[part], y[part])
            return out

        return bounded.run(attempt, x, self.chunk, self._allow_tf32)

    def run_back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``, in chunks."""
        return bounded.run_back(self._back, x, y, g, self.chunk, self._allow_tf32)


@dataclass(frozen=True)
class _Block:
    matrix: NDArray[np.float64]
    copies: int
    i1: Index
    i2: Index
    outputs: tuple[tuple[Index, Index, int, float], ...]  # columns, rows of O, part (Re 0, Im 1), sign


def _make_block(pair: Pair, M: int, rows: BlockRows) -> _Block:
    n = rows.matrix.shape[1]
    mul1, mul2 = len(pair.rows1), len(pair.rows2)
    m1 = rows.first + np.arange(n)
    shape = (n, mul1, mul2)
    i1 = np.broadcast_to(pair.rows1.T[pair.l1 + m1][:, :, None], shape).ravel()
    i2 = np.broadcast_to(pair.rows2.T[pair.l2 + M - m1][:, None, :], shape).ravel()
    copies = mul1 * mul2
    outputs = []
    for k, place in enumerate(rows.places.tolist()):
        odd = int(k >= rows.even)
        l3, out = pair.l3[place], pair.out[place]
        row = k * copies + np.arange(copies)
        outputs.append((out[:, l3 + M], row, odd, 1.0))
        if M:
            outputs.append((out[:, l3 - M], row, 1 - odd, -1.0 if odd else 1.0))
    return _Block(rows.matrix, copies, i1, i2, tuple(outputs))


def _concatenated(parts: list[Index], device: torch.device) -> torch.Tensor:
    return torch.as_tensor(np.concatenate(parts), device=device)
