r"""The affinity of a graph, checked, and its normalised form ``A = D^-1/2 W D^-1/2`` applied without being built.

With regularisation tau the matrix is ``W + (tau/n) 1 1^T`` and its degrees ``d + tau``, again without being built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput

from riemann_fair.constraints import FairSubspace

SYMMETRY_TOLERANCE = 1e-10
DIRECTED_RULES = ("error", "symmetrize")
# Up to here numpy checks the affinity; above, a compiled scan does in one pass, and numba is loaded.
SMALL = 1000


def check_affinity(affinity: Any, *, directed: str = "error", name: str = "affinity") -> Any:
    """A symmetric, non-negative affinity as a canonical CSR array or a dense float array.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix or array, shape (n, n)
    directed : {"error", "symmetrize"}
        What to do when it is not symmetric within 1e-10 relative.
    name : str
        The argument's name in messages.

    Returns
    -------
    csr_array or ndarray
        float32 or float64; explicit zeros dropped. The caller's arrays are shared where nothing had to change and
        are never written to.

    Raises
    ------
    InvalidInput
        Not square, empty, not finite, negative, not symmetric under ``directed="error"``, a dense boolean or an
        object array.
    """
    if directed not in DIRECTED_RULES:
        raise InvalidInput.argument("directed", expected=f"one of {', '.join(DIRECTED_RULES)}", got=directed)
    W = _as_numbers(affinity, name)
    if directed == "symmetrize" and not _is_symmetric(W):
        W = (W + W.T) / 2 if not sp.issparse(W) else sp.csr_array((W + W.T) / 2)
    if sp.issparse(W) and W.shape[0] > SMALL:
        return _scan(W, name)
    values = W.data if sp.issparse(W) else W
    if not np.isfinite(values).all():
        raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")
    if (values < 0).any():
        raise InvalidInput.argument(name, expected="non-negative weights", got=f"a weight of {float(values.min()):g}")
    if not _is_symmetric(W):
        _raise_asymmetric(name)
    return W


def _raise_asymmetric(name: str) -> None:
    raise InvalidInput.argument(
        name, expected='a symmetric matrix (or directed="symmetrize")', got="one that differs from its transpose"
    )


def _as_numbers(affinity: Any, name: str) -> Any:
    if sp.issparse(affinity):
        shape, kind = affinity.shape, affinity.dtype.kind
    else:
        affinity = np.asarray(affinity)
        shape, kind = affinity.shape, affinity.dtype.kind
        if kind == "b":
            raise InvalidInput.argument(name, expected="numbers (convert with .astype(float))", got="a boolean array")
    if kind not in "fiub":
        raise InvalidInput.argument(name, expected="real numbers", got=f"dtype {affinity.dtype}")
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise InvalidInput.argument(name, expected="a square matrix", got=f"shape {shape}")
    dtype = affinity.dtype if affinity.dtype in (np.float32, np.float64) else np.float64
    if not sp.issparse(affinity):
        return np.asarray(affinity, dtype=dtype)
    given = affinity
    W = sp.csr_array(affinity, dtype=dtype, copy=False)
    if not W.has_canonical_format or (W.data == 0).any():
        # csr_array shares the caller's buffers, and both calls below work in place.
        W = W.copy() if given.format == "csr" else W
        W.sum_duplicates()
        W.eliminate_zeros()
    return W


def _is_symmetric(W: Any) -> bool:
    gap = abs(W - W.T).max() if W.shape[0] else 0.0
    return bool(gap <= SYMMETRY_TOLERANCE * max(float(abs(W).max()), np.finfo(float).tiny))


def _scan(W: Any, name: str) -> Any:
    from riemann_fair import products

    fault = products.scan(W.indptr, W.indices, W.data, SYMMETRY_TOLERANCE)
    if fault == products.NOT_FINITE:
        raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")
    if fault == products.NEGATIVE:
        raise InvalidInput.argument(name, expected="non-negative weights", got="a negative weight")
    if fault == products.ASYMMETRIC and not _is_symmetric(W):
        # The scan asks for the same pattern; entries below the tolerance on one side only are let pass.
        _raise_asymmetric(name)
    return W


def degrees(W: Any) -> np.ndarray:
    """Row sums in float64, whatever the dtype of `W`; self-loops count once."""
    if not sp.issparse(W):
        return np.asarray(W.sum(axis=1, dtype=np.float64))
    if W.nnz and W.data[0] == W.data[-1] and (W.data == W.data[0]).all():
        return np.asarray(np.diff(W.indptr) * float(W.data[0]))
    ones = np.ones(W.shape[1])
    return np.asarray(W @ ones) if W.dtype == np.float64 else np.asarray(W.astype(np.float64) @ ones)


@dataclass
class Operator:
    """``A = D^-1/2 W D^-1/2`` with the fair subspace and the trivial eigenvector.

    Attributes
    ----------
    W : csr_array or ndarray, shape (n, n)
        No empty row.
    d : ndarray of float64, shape (n,)
        Degrees, regularisation included.
    tau : float
        Regularisation.
    space : FairSubspace
    trivial : ndarray of float64, shape (n,), or None
        ``sqrt(d)`` of unit length where it is feasible and known to be the first eigenvector.
    """

    W: Any
    d: np.ndarray
    tau: float
    space: FairSubspace
    trivial: np.ndarray | None

    @classmethod
    def build(cls, W: Any, d: np.ndarray, groups: Any, constraint: str, tau: float = 0.0) -> Operator:
        """The operator of a checked affinity whose degrees `d` are all positive."""
        full = d + tau
        space = FairSubspace(groups, full, constraint)
        root = np.sqrt(full)
        feasible = groups is None or constraint != "plain"
        return cls(W, full, tau, space, root / np.linalg.norm(root) if feasible else None)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.d.shape[0])

    @property
    def scale(self) -> np.ndarray:
        """``d^-1/2``."""
        made: np.ndarray | None = self.__dict__.get("_scale")
        if made is None:
            made = 1 / np.sqrt(self.d)
            self.__dict__["_scale"] = made
        return made

    @property
    def uniform(self) -> float:
        """The common weight of all stored entries, or 0 where weights differ."""
        made: float | None = self.__dict__.get("_uniform")
        if made is None:
            data = self.W.data if sp.issparse(self.W) else np.zeros(0)
            same = data.size > 0 and data[0] == data[-1] and bool((data == data[0]).all())
            made = float(data[0]) if same else 0.0
            self.__dict__["_uniform"] = made
        return made

    def apply(self, X: np.ndarray) -> np.ndarray:
        """``A X`` for X of shape (n,) or (n, m), in the dtype of X."""
        s = self.scale.astype(X.dtype, copy=False)
        s = s[:, None] if X.ndim == 2 else s
        Z = s * X
        if sp.issparse(self.W) and self.n > SMALL and X.ndim == 2:
            from riemann_fair import products

            Y = products.block_product(self.W, self.uniform, Z)
        else:
            Y = (self.W @ Z).astype(X.dtype, copy=False)
        if self.tau:
            Y = Y + X.dtype.type(self.tau / self.n) * Z.sum(axis=0)
        return np.asarray(s * Y)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Projection on the fair subspace, without the trivial vector where that is known."""
        Y = self.space.project(X)
        if self.trivial is not None:
            q = self.trivial.astype(X.dtype, copy=False)
            t = q @ Y
            Y -= q[:, None] * t if Y.ndim == 2 else q * t
        return Y

    def laplacian(self, X: np.ndarray) -> np.ndarray:
        """``L X = X - A X``."""
        return np.asarray(X - self.apply(X))

    def dense_laplacian(self) -> np.ndarray:
        """L as an n x n array, for small n."""
        W = self.W.toarray().astype(np.float64) if sp.issparse(self.W) else self.W.astype(np.float64)
        A = self.scale[:, None] * (W + self.tau / self.n) * self.scale
        return np.asarray(np.eye(self.n) - (A + A.T) / 2)
