"""Checked arrays and matrices: what `qubo_relax.Qubo` is built from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1_000_000
# Solvers sweep in float32, and bounds add up rows and penalties: what is larger must be rescaled.
LARGEST = 1e30
_COMPILED_FROM = 1_000_000  # pairs from which a compiled build repays its loading time


def warn_wide(name: str, *arrays: NDArray[np.float64]) -> None:
    """Refuse coefficients above `LARGEST`; warn when the others span more than twelve orders of magnitude.

    Raises
    ------
    InvalidInput
    """
    low, high = np.inf, 0.0
    for a in arrays:
        for k in range(0, a.size, _CHUNK):
            size = np.abs(a[k : k + _CHUNK])
            high = max(high, float(size.max()))
            low = min(low, float(np.min(size, where=size > 0, initial=np.inf)))
    if high > LARGEST:
        raise InvalidInput.argument(name, expected=f"numbers up to {LARGEST:g} in magnitude: rescale", got=f"{high:g}")
    if high > 1e12 * low:
        warnings.warn(
            f"{name}: the coefficients span more than 1e12; float64 cannot hold the small ones beside the large",
            UserWarning,
            stacklevel=4,
        )


def pair_matrix(
    n: int, rows: NDArray[Any], cols: NDArray[Any], vals: NDArray[np.float64], linear: NDArray[np.float64]
) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """The linear term with the ``i == i`` values added in place, and the symmetric matrix of the other pairs."""
    if rows.size > _COMPILED_FROM:
        from qubo_relax.assemble import symmetric_csr

        return linear, symmetric_csr(n, rows, cols, vals, linear)
    own = rows == cols
    np.add.at(linear, rows[own], vals[own])
    r, c, v = rows[~own], cols[~own], vals[~own]
    M = sparse.coo_array((np.r_[v, v], (np.r_[r, c], np.r_[c, r])), shape=(n, n))
    return linear, canonical(M)


def number(x: Any, name: str) -> float:
    """A finite float."""
    try:
        value = np.nan if isinstance(x, str | bytes) else float(x)
    except (OverflowError, TypeError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        raise InvalidInput.argument(name, expected="a finite number", got=x)
    return value


def vector(x: Any, name: str, size: int | None = None, *, copy: bool = True) -> NDArray[np.float64]:
    """A finite float64 vector, copied unless told otherwise."""
    v: NDArray[np.float64] = check.array(x, name, ndim=1, shape=(size,), copy=copy)
    return v


def indices(x: Any, n: int, name: str) -> NDArray[Any]:
    """Whole numbers in 0..n-1, as int32 where they fit."""
    try:
        a = np.asarray(x)
    except (OverflowError, ValueError):
        raise InvalidInput.argument(
            name, expected="a 1-D array of whole numbers", got="rows of unequal length"
        ) from None
    if a.ndim != 1 or (a.size and a.dtype.kind not in "iu"):
        raise InvalidInput.argument(name, expected="a 1-D array of whole numbers", got=f"{a.dtype}, shape {a.shape}")
    if a.size and (a.min() < 0 or a.max() >= n):
        raise InvalidInput.argument(name, expected=f"indices in 0..{n - 1}", got=f"{a.min()}..{a.max()}")
    return a.astype(np.int32, copy=False) if n < 2**31 else a.astype(np.int64, copy=False)


def square_matrix(Q: Any, name: str) -> sparse.csr_array:
    """A square finite CSR array of anything dense, sparse or from torch; it shares nothing with the caller's."""
    if hasattr(Q, "detach"):
        Q = _from_torch(Q)
    # A copy first: summing duplicates and sorting happen in place.
    return check.square_sparse(Q.copy() if sparse.issparse(Q) else Q, name)


def _from_torch(Q: Any) -> Any:
    Q = Q.detach().cpu().double()
    if str(Q.layout) == "torch.strided":
        return Q.numpy()
    Q = Q.to_sparse_coo().coalesce()
    return sparse.coo_array((Q.values().numpy(), tuple(Q.indices().numpy())), shape=tuple(Q.shape))


def canonical(M: Any) -> sparse.csr_array:
    """CSR, float64, duplicates summed, zeros dropped, indices sorted."""
    S = sparse.csr_array(M, dtype=np.float64)
    S.sum_duplicates()
    S.eliminate_zeros()
    S.sort_indices()
    return S


def _keys(pairs: Mapping[Any, Any]) -> NDArray[np.int64]:
    if not pairs:
        return np.zeros((0, 2), dtype=np.int64)
    try:
        keys = check.array(list(pairs), "quadratic", ndim=2, dtype=np.int64)
    except InvalidInput:
        keys = np.zeros((0, 0), dtype=np.int64)
    if keys.shape[1] != 2:
        raise InvalidInput.argument("quadratic", expected="keys (i, j) of whole numbers", got=next(iter(pairs)))
    return keys


def symmetric_matrix(quadratic: Any, n: int) -> sparse.csr_array:
    """A symmetric matrix with zero diagonal from a matrix, a strict triangle or a mapping of pairs."""
    if isinstance(quadratic, Mapping):
        keys = _keys(quadratic)
        vals = vector(list(quadratic.values()), "quadratic")
        indices(keys.ravel(), n, "quadratic")
        M = sparse.csr_array(sparse.coo_array((vals, (keys[:, 0], keys[:, 1])), shape=(n, n)))
        M = M + M.T
        if (keys[:, 0] == keys[:, 1]).any():
            raise InvalidInput.argument("quadratic", expected="a zero diagonal", got="a key (i, i); use from_matrix")
        return canonical(M)
    M = canonical(square_matrix(quadratic, "quadratic"))
    if M.shape[0] != n:
        raise InvalidInput.argument("quadratic", expected=f"shape ({n}, {n})", got=f"shape {M.shape}")
    if M.diagonal().any():
        raise InvalidInput.argument("quadratic", expected="a zero diagonal (use Qubo.from_matrix)", got="a diagonal")
    if sparse.triu(M, 1).nnz == 0 or sparse.tril(M, -1).nnz == 0:
        return canonical(M + M.T)
    gap = abs(M - M.T)
    if gap.nnz and gap.max() > 1e-12 * abs(M).max():
        raise InvalidInput.argument(
            "quadratic", expected="a symmetric or strictly triangular matrix (use Qubo.from_matrix)", got="neither"
        )
    return M
