"""Dense algorithm: one matrix product of the outer product with all couplings. Fastest for l <= 3."""

from __future__ import annotations

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct import bounded
from cg_tensorproduct.coupling import clebsch_gordan
from cg_tensorproduct.ops import register
from cg_tensorproduct.paths import Problem

_LARGEST = 1 << 27  # entries of the matrix: 1 GiB in float64
_CHUNK_BYTES = 1 << 21


class DensePlan:
    """Couplings as a matrix [dim1 * dim2, dim_out]. `couple` is differentiable torch; `run_*` work in chunks."""

    name = "dense"
    native = False

    def __init__(self, problem: Problem, dtype: torch.dtype, device: torch.device) -> None:
        self.dim1, self.dim2, self.dim_out = problem.dim1, problem.dim2, problem.dim_out
        entries = self.dim1 * self.dim2 * self.dim_out
        if entries > _LARGEST:
            expected = f"'blocked' or 'kernel' for this size ('dense' needs a matrix of {entries:.3g} entries)"
            raise InvalidInput.argument("algorithm", expected=expected, got="'dense'")
        matrix = np.zeros((self.dim1, self.dim2, self.dim_out))
        for pair in problem.pairs:
            copies = len(pair.rows1), len(pair.rows2)
            for l3, scale, out in zip(pair.l3, pair.scale, pair.out):
                w = clebsch_gordan(pair.l1, pair.l2, l3) * (scale / np.sqrt(2 * l3 + 1))
                for u in range(copies[0]):
                    for v in range(copies[1]):
                        matrix[np.ix_(pair.rows1[u], pair.rows2[v], out[u * copies[1] + v])] = w
        self.matrix = torch.as_tensor(matrix.reshape(self.dim1 * self.dim2, self.dim_out), dtype=dtype, device=device)
        self.chunk = max(16, _CHUNK_BYTES // (torch.finfo(dtype).bits // 8 * max(1, self.dim1 * self.dim2)))
        self._allow_tf32 = problem.allow_tf32
        self.handle = register(self)

    def couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Product of rows: [B, dim1], [B, dim2] -> [B, dim_out]."""
        return _outer(x, y) @ self.matrix

    def _back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p = (g @ self.matrix.t()).view(g.shape[0], self.dim1, self.dim2)
        return torch.bmm(p, y.unsqueeze(2)).squeeze(2), torch.bmm(x.unsqueeze(1), p).squeeze(1)

    def run_couple(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """`couple` without autograd, one chunk of the outer product at a time."""

        def attempt(size: int) -> torch.Tensor:
            if x.shape[0] <= size:
                return self.couple(x, y)
            out = x.new_empty(x.shape[0], self.dim_out)
            for part in bounded.chunks(x.shape[0], size):
                torch.mm(_outer(x[part], y[part]), self.matrix, out=out[part])
            return out

        return bounded.run(attempt, x, self.chunk, self._allow_tf32)

    def run_back(self, x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``, in chunks."""
        return bounded.run_back(self._back, x, y, g, self.chunk, self._allow_tf32)


def _outer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.unsqueeze(2) * y.unsqueeze(1)).reshape(x.shape[0], x.shape[1] * y.shape[1])
