"""Sparse algorithm: one multiplication a non-zero coupling. The readable reference for the others, not fast."""

from __future__ import annotations

import numpy as np
import torch

from cg_tensorproduct.coupling import clebsch_gordan
from cg_tensorproduct.ops import register
from cg_tensorproduct.paths import Problem


class SparsePlan:
    """Non-zero couplings as four lists: columns of x, y and the output, and values."""

    name = "sparse"
    native = False

    def __init__(self, problem: Problem, dtype: torch.dtype, device: torch.device) -> None:
        self.dim1, self.dim2, self.dim_out = problem.dim1, problem.dim2, problem.dim_out
        parts: list[tuple[np.ndarray, ...]] = []
        for pair in problem.pairs:
            for l3, scale, out in zip(pair.l3, pair.scale, pair.out):
                w = clebsch_gordan(pair.l1, pair.l2, l3) * (scale / np.sqrt(2 * l3 + 1))
                a, b, c = np.nonzero(np.abs(w) > 1e-15)
                for u, columns1 in enumerate(pair.rows1):
                    for v, columns2 in enumerate(pair.rows2):
                        parts.append((columns1[a], columns2[b], out[u * len(pair.rows2) + v][c], w[a, b, c]))
        i, j, k, values = (np.concatenate(column) for column in zip(*parts))
        self.i, self.j, self.k = (torch.as_tensor(index, device=device) for index in (i, j, k))
        self.values = torch.as_tensor(values, dtype=dtype, device=device)
        self.handle = register(self)

    def couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Product of rows: [B, dim1], [B, dim2] -> [B, dim_out]."""
        out = x.new_zeros(x.shape[0], self.dim_out)
        return out.index_add(1, self.k, x[:, self.i] * y[:, self.j] * self.values)

    def run_couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """`couple`; there is nothing to save here."""
        return self.couple(x, y)

    def run_back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``."""
        weighted = g[:, self.k] * self.values
        gx = torch.zeros_like(x).index_add(1, self.i, weighted * y[:, self.j])
        return gx, torch.zeros_like(y).index_add(1, self.j, weighted * x[:, self.i])
