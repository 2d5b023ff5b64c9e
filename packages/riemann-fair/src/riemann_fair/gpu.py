"""Products with A on a GPU: the same solvers over another product (extra ``torch``).

The matrix lives on the device as a sparse CSR tensor in float32; blocks go there and back for each product, n k numbers
each way, which is little beside the product.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput
from lemmata_core.rng import generator

from riemann_fair.embedding import from_state
from riemann_fair.laplacian import Operator, read_affinity
from riemann_fair.problem import prepare
from riemann_fair.radmm import RADMMParams, radmm
from riemann_fair.result import EmbeddingResult
from riemann_fair.threads import one_blas_thread


@dataclass
class TorchOperator(Operator):
    """An `Operator` whose block products run on a torch device, in float32.

    Attributes
    ----------
    device : str
        "cuda", "cuda:1", or "cpu" for a trial.
    """

    device: str = "cuda"
    _matrix: Any = field(default=None, repr=False)

    @classmethod
    def on(cls, device: str, op: Operator) -> TorchOperator:
        """The same operator on `device`."""
        import torch

        if device.startswith("cuda") and not torch.cuda.is_available():
            raise InvalidInput.argument("device", expected="a CUDA device", got="a machine without one")
        W = sp.csr_array(op.W)
        with warnings.catch_warnings():
            # torch calls its sparse CSR tensors beta; a product with a block is all that is asked of them.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            matrix = torch.sparse_csr_tensor(
                torch.from_numpy(W.indptr.astype(np.int64)),
                torch.from_numpy(W.indices.astype(np.int64)),
                torch.from_numpy(W.data.astype(np.float32)),
                size=W.shape,
                check_invariants=False,
            ).to(device)
        return cls(op.W, op.d, op.tau, op.space, op.trivial, op.uniform, device, matrix)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """``A X`` for X of shape (n,) or (n, m), in the dtype of X; the product itself is float32."""
        import torch

        s = self.scale[:, None] if X.ndim == 2 else self.scale
        Z = (s * X).astype(np.float32)
        block = torch.from_numpy(np.ascontiguousarray(Z if Z.ndim == 2 else Z[:, None])).to(self.device)
        Y = (self._matrix @ block).cpu().numpy().reshape(Z.shape)
        if self.tau:
            Y = Y + np.float32(self.tau / self.n) * Z.sum(axis=0)
        return np.asarray((s * Y).astype(X.dtype, copy=False))


def radmm_on(
    device: str,
    affinity: Any,
    groups: Any,
    n_components: int,
    *,
    params: RADMMParams | None = None,
    constraint: str = "count",
    rng: Any = None,
) -> EmbeddingResult:
    """`fair_embedding(..., solver="radmm")` with the products on a torch device.

    Parameters
    ----------
    device : str
    affinity, groups, n_components, params, constraint, rng
        As in `fair_embedding`.

    Returns
    -------
    EmbeddingResult
    """
    problem = prepare(read_affinity(affinity), groups, n_components, constraint, 0.0)
    problem.op = TorchOperator.on(device, problem.op)
    constants = params or RADMMParams()
    with one_blas_thread():
        state = radmm(problem.op, n_components, constants, dtype=np.float32, rng=generator(rng))
        return from_state(problem, state, 0.0, constants, "float64")
