r"""The affinity of a graph, checked, and its normalised form ``A = D^-1/2 W D^-1/2`` applied without being built.

With regularisation tau the matrix is ``W + (tau/n) 1 1^T`` and its degrees ``d + tau``, again without being built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check

from riemann_fair.constraints import FairSubspace

SYMMETRY_TOLERANCE = 1e-10
DIRECTED_RULES = ("error", "symmetrize")
# Up to here numpy checks the affinity; above, a compiled scan does in one pass, and numba is loaded.
SMALL = 1000
PIECE = 50_000


@dataclass(frozen=True)
class Affinity:
    """A checked affinity.

    Attributes
    ----------
    W : csr_array or ndarray, shape (n, n)
        float32 or float64; symmetric, finite, non-negative, CSR in canonical form without stored zeros.
    d : ndarray of float64, shape (n,)
        Row sums, whatever the dtype of W; self-loops count once.
    uniform : float
        The common weight of all stored entries of a CSR, or 0 where weights differ.
    """

    W: Any
    d: np.ndarray
    uniform: float


def check_affinity(affinity: Any, *, directed: str = "error", name: str = "affinity") -> Any:
    """`read_affinity(...).W`."""
    return read_affinity(affinity, directed=directed, name=name).W


def read_affinity(affinity: Any, *, directed: str = "error", name: str = "affinity") -> Affinity:
    """Check an affinity.

    Parameters
    ----------
    affinity : ndarray, scipy.sparse matrix or array, shape (n, n), or Affinity
        An `Affinity` was checked before and comes back as it is.
    directed : {"error", "symmetrize"}
        What to do when it is not symmetric within 1e-10 relative.
    name : str
        The argument's name in messages.

    Returns
    -------
    Affinity
        The caller's arrays are shared where nothing had to change, and are never written to.

    Raises
    ------
    InvalidInput
        Not square, empty, not finite, negative, not symmetric under ``directed="error"``, a dense boolean or an
        object array.
    """
    if isinstance(affinity, Affinity):
        return affinity
    if directed not in DIRECTED_RULES:
        raise InvalidInput.argument("directed", expected=f"one of {', '.join(DIRECTED_RULES)}", got=directed)
    W = _as_numbers(affinity, name)
    low, high = _span(W.data if sp.issparse(W) else W, name)
    if sp.issparse(W) and W.nnz and low == 0:
        # csr_array shares the caller's buffers, and eliminate_zeros works in place.
        W = W.copy()
        W.eliminate_zeros()
        low, high = _span(W.data, name)
    if not _is_symmetric(W, low, high):
        if directed == "error":
            raise InvalidInput.argument(
                name,
                expected='a symmetric matrix (or directed="symmetrize")',
                got="one that differs from its transpose",
            )
        W = sp.csr_array((W + W.T) / 2) if sp.issparse(W) else (W + W.T) / 2
        low, high = _span(W.data if sp.issparse(W) else W, name)
    if not sp.issparse(W):
        return Affinity(W, np.asarray(W.sum(axis=1, dtype=np.float64)), 0.0)
    uniform = high if low == high else 0.0
    if uniform:
        return Affinity(W, np.diff(W.indptr) * uniform, uniform)
    ones = np.ones(W.shape[1])
    wide = W if W.dtype == np.float64 else W.astype(np.float64)
    return Affinity(W, np.asarray(wide @ ones), 0.0)


def _as_numbers(affinity: Any, name: str) -> Any:
    if sp.issparse(affinity):
        shape, kind = affinity.shape, affinity.dtype.kind
    else:
        try:
            affinity = np.asarray(affinity)
        except ValueError:
            raise InvalidInput.argument(name, expected="a square matrix", got="rows of unequal length") from None
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
    W = sp.csr_array(affinity, dtype=dtype, copy=False)
    if not W.has_canonical_format:
        # As above: sum_duplicates works in place.
        W = W.copy() if affinity.format == "csr" else W
        W.sum_duplicates()
    return W


def _span(values: np.ndarray, name: str) -> tuple[float, float]:
    """Least and greatest weight; refuses negative, infinite and missing ones."""
    if values.size == 0:
        return 0.0, 0.0
    # In pieces that stay in the cache: both extremes for one pass over memory.
    pieces = [values[i : i + PIECE] for i in range(0, values.shape[0], PIECE if values.ndim == 1 else 64)]
    ends = np.array([(piece.min(), piece.max()) for piece in pieces], dtype=np.float64)
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InvalidInput.argument(name, expected="finite numbers", got="NaN or infinity")
    if low < 0:
        raise InvalidInput.argument(name, expected="non-negative weights", got=f"a weight of {low:g}")
    return low, high


def _is_symmetric(W: Any, low: float, high: float) -> bool:
    """Whether W and its transpose agree within 1e-10 of the largest weight.

    Above 1,000 nodes two pairs of random vectors are asked first: ``a . W b = b . W a`` costs one block product where
    the transpose costs ten. Only a difference beyond rounding is looked at entry by entry.
    """
    n = W.shape[0]
    if sp.issparse(W) and n > SMALL and W.dtype == np.float64:
        from riemann_fair import products

        V = np.random.default_rng(0).random((n, 4)) - 0.5
        image = products.block_product(W, high if low == high else 0.0, V)
        forms = V.T @ image
        gap = max(abs(forms[0, 1] - forms[1, 0]), abs(forms[2, 3] - forms[3, 2]))
        if gap <= high * max(2e-3 * SYMMETRY_TOLERANCE, 5e-15 * float(np.sqrt(W.nnz))):
            return True
    return bool(abs(W - W.T).max() <= SYMMETRY_TOLERANCE * high)


def adjacency_from_edges(edges: Any, weights: Any = None, n_nodes: int | None = None) -> Any:
    """A symmetric CSR adjacency matrix from an edge list; a self-loop counts once.

    Parameters
    ----------
    edges : array-like of int, shape (m, 2)
    weights : array-like of float, shape (m,), optional
    n_nodes : int, optional

    Returns
    -------
    csr_array of float64, shape (n, n)

    Raises
    ------
    InvalidInput
        Negative ids, ids beyond `n_nodes`, weights of another length.
    """
    pairs = check.array(edges, "edges", ndim=2, dtype=np.int64, shape=(None, 2))
    if pairs.shape[0] == 0 or pairs.min() < 0:
        raise InvalidInput.argument("edges", expected="at least one edge of ids >= 0", got=f"{pairs.shape[0]} edges")
    n = int(pairs.max()) + 1 if n_nodes is None else check.positive_int(n_nodes, "n_nodes")
    if pairs.max() >= n:
        raise InvalidInput.argument("edges", expected=f"ids below n_nodes = {n}", got=f"{int(pairs.max())}")
    w = np.ones(pairs.shape[0]) if weights is None else check.array(weights, "weights", ndim=1, shape=(pairs.shape[0],))
    i, j = pairs[:, 0], pairs[:, 1]
    loop = i == j
    rows, cols = np.concatenate([i, j[~loop]]), np.concatenate([j, i[~loop]])
    made = sp.coo_array((np.concatenate([w, w[~loop]]), (rows, cols)), shape=(n, n)).tocsr()
    made.sum_duplicates()
    return made


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
    uniform : float
        The common weight of all stored entries of a CSR, or 0.
    """

    W: Any
    d: np.ndarray
    tau: float
    space: FairSubspace
    trivial: np.ndarray | None
    uniform: float = 0.0

    @classmethod
    def build(cls, affinity: Affinity, groups: Any, constraint: str, tau: float = 0.0) -> Operator:
        """The operator of a checked affinity whose degrees are all positive."""
        full = affinity.d + tau
        space = FairSubspace(groups, full, constraint)
        root = np.sqrt(full)
        feasible = groups is None or constraint != "plain"
        trivial = root / np.linalg.norm(root) if feasible else None
        return cls(affinity.W, full, tau, space, trivial, affinity.uniform)

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

    def narrow(self) -> np.ndarray:
        """The column numbers of W in 16 or 32 bits, which `apply` then reads too.

        They are most of what a product of high degree reads; the copy costs less than half a product.
        """
        made: np.ndarray | None = self.__dict__.get("_columns")
        if made is None:
            made = self.W.indices.astype(np.uint16 if self.n <= 2**16 else np.int32, copy=False)
            self.__dict__["_columns"] = made
        return made

    def apply(self, X: np.ndarray) -> np.ndarray:
        """``A X`` for X of shape (n,) or (n, m), in the dtype of X."""
        s = self.scale.astype(X.dtype, copy=False)
        s = s[:, None] if X.ndim == 2 else s
        Z = s * X
        if sp.issparse(self.W) and self.n > SMALL and X.ndim == 2:
            from riemann_fair import products

            Y = products.block_product(self.W, self.uniform, Z, self.__dict__.get("_columns"))
        else:
            Y = (self.W @ Z).astype(X.dtype, copy=False)
        if self.tau:
            Y = Y + X.dtype.type(self.tau / self.n) * Z.sum(axis=0)
        return np.asarray(s * Y)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Projection on the fair subspace, without the trivial vector where that is known."""
        if self.n > SMALL and X.ndim == 2 and self.space.dense is None:
            from riemann_fair import products

            return products.projected(self.space, self.trivial, X)
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
