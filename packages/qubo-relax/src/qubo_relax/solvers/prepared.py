"""A quadratic in the form that the kernels read, with the scales that set their steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.qubo import Qubo, scale_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

POWER_STEPS = 50


@dataclass(frozen=True, eq=False)
class Prepared:
    """Arrays of one type each, so that every kernel is compiled once.

    Attributes
    ----------
    qubo : Qubo
    indptr : ndarray of int64
    indices : ndarray of int32
    data, linear : ndarray of float32
    """

    qubo: Qubo
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
    linear: NDArray[np.float32]

    @classmethod
    def of(cls, qubo: Qubo) -> Prepared:
        """Convert the arrays; those of the right type are shared (`qubo` and `indices` keep them read-only)."""
        S = qubo.quadratic
        return cls(
            qubo,
            S.indptr.astype(np.int64, copy=False),
            S.indices.astype(np.int32, copy=False),
            S.data.astype(np.float32),
            qubo.linear.astype(np.float32),
        )

    @cached_property
    def spectral(self) -> tuple[float, float]:
        """Largest absolute eigenvalue of S and its smallest eigenvalue, by power steps (rounded outwards by 2 %)."""
        S, n = self.qubo.quadratic, self.qubo.n
        if S.nnz == 0:
            size = float(np.max(np.abs(self.qubo.linear), initial=0.0)) or 1.0
            return size, -size
        v = np.random.default_rng(0).standard_normal(n)
        top = _power(S, v, 0.0)
        low = top - _power(S, v, top)
        bound = float(np.max(np.asarray(abs(S).sum(axis=1))))
        return min(1.02 * top, bound), max(min(1.02 * low, -1e-6 * top), -bound)

    @cached_property
    def row_scale(self) -> float:
        """The median of ``sqrt(sum_j S_ij^2)`` over rows with entries: what a temperature is measured in.

        The root mean square would be spoiled by a few hubs.
        """
        S = self.qubo.quadratic
        counts = np.diff(S.indptr)
        square = np.bincount(np.repeat(np.arange(self.qubo.n), counts), S.data**2, minlength=self.qubo.n)
        used = np.sqrt(square[counts > 0])
        scale = float(np.median(used)) if used.size else float(np.max(np.abs(self.qubo.linear), initial=0.0))
        return scale or 1.0

    @cached_property
    def flip_tolerance(self) -> float:
        """Flips gaining less are rounding noise; less than `certify_point` forgives, so descent ends certified."""
        scale = scale_of(self.qubo)
        if self.qubo.concavity == 0:
            return 0.5e-12 * scale
        return max(min(1e-9 * scale, 0.5 * self.qubo.concavity), 1e-14 * scale)

    def gradient(self, X: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write the gradient of ``f`` at lanes innermost, shape (n, B), into `out`."""
        from qubo_relax.solvers.kernels import gradient

        gradient(self.indptr, self.indices, self.data, self.linear, np.float32(self.qubo.concavity), X, out)

    def settle(self, X: NDArray[Any]) -> NDArray[np.int8]:
        """Round and descend each row of `X` (B, n) to a vertex that no flip improves (T4), in float64."""
        from qubo_relax.solvers.kernels import settle

        out = np.empty(X.shape, dtype=np.int8)
        S = self.qubo.quadratic
        linear = self.qubo.linear if self.qubo.diagonal is None else self.qubo.linear + self.qubo.diagonal
        # With concavity T1 asks for single flips only; without it T2 asks for tied pairs too.
        pairs = self.qubo.concavity == 0 and self.qubo.diagonal is None
        settle(
            self.indptr, self.indices, S.data, linear, X.astype(np.float32), out, self.flip_tolerance, pairs, 100_000
        )
        return out


def band_order(qubo: Qubo) -> NDArray[np.int32]:
    """The variables by reverse Cuthill-McKee, which brings neighbours near each other in memory."""
    from scipy import sparse
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    S = qubo.quadratic
    # scipy's routine asks for writeable buffers.
    pattern = sparse.csr_matrix((np.ones(S.nnz, dtype=np.int8), S.indices.copy(), S.indptr.copy()), shape=S.shape)
    return np.asarray(reverse_cuthill_mckee(pattern, symmetric_mode=True))


def reordered(qubo: Qubo, order: NDArray[np.int32]) -> Qubo:
    """The quadratic with variable ``order[k]`` at place k; without labels and blocks, which solvers do not read."""
    from qubo_relax.matrices import canonical

    S = canonical(qubo.quadratic[order][:, order])
    bend = None if qubo.diagonal is None else qubo.diagonal[order]
    return Qubo._trusted(qubo.linear[order], S, qubo.offset, concavity=qubo.concavity, diagonal=bend)


def _power(S: Any, v: NDArray[np.float64], shift: float) -> float:
    size = float(np.linalg.norm(v))
    for _ in range(POWER_STEPS):
        v = v / (np.linalg.norm(v) or 1.0)
        v = shift * v - S @ v
        size = float(np.linalg.norm(v))
    return size
