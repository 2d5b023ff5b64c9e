"""Quadratics whose pairs are never written down: low-rank, Kronecker and price terms, applied as products.

A tour of n cities couples about ``2 n^3`` pairs, a quadratic assignment ``n^4 / 2``; their fields are products with a
few matrices of n rows. The method ``factored`` of tours, assignments and knapsacks gives such a form, which
`qubo_relax.minimize` takes in place of a `Qubo`; `FactoredQubo.materialise` writes the pairs down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

from qubo_relax.matrices import canonical, number, vector
from qubo_relax.qubo import Qubo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from qubo_relax.blocks import Block

    Floats = NDArray[np.float64]
    Array = NDArray[Any]


class LowRankTerm:
    """The pairs ``sum_r w_r A_ri A_rj x_i x_j`` over ``i < j``: one-hot rows, occupancies, squared sums.

    Parameters
    ----------
    A : array_like or sparse array of shape (r, n)
    w : array_like of shape (r,)
    """

    def __init__(self, A: Any, w: ArrayLike) -> None:
        given = sparse.csr_array(A if sparse.issparse(A) else check.array(A, "A", ndim=2), dtype=np.float64, copy=True)
        if not np.isfinite(given.data).all():
            raise InvalidInput.argument("A", expected="finite numbers", got="NaN or infinity")
        self.A = canonical(given)
        self.w = vector(w, "w", self.A.shape[0])
        self.n = int(self.A.shape[1])
        self._columns = sparse.csc_array(self.A)
        self._tiled = _is_tiled(self.A)
        self._cast: dict[Any, tuple[Any, Any, Array, Array]] = {}

    def field(self, X: Array) -> Array:
        """``S X`` for lanes innermost, shape (n, B), in the precision of `X`."""
        out = np.zeros_like(X)
        self.add_to(out, X)
        return out

    def add_to(self, out: Array, X: Array) -> None:
        """Add ``S X`` to `out`, both of shape (n, B)."""
        A, At, w, own = self._as(X.dtype)
        if self._tiled:
            # Rows 0, 1, .., r-1 over and over: sums of slices, without an index.
            r, B = w.size, X.shape[1]
            Y, Z = X.reshape(-1, r, B), out.reshape(-1, r, B)
            Z += w[:, None] * Y.sum(axis=0)
            scratch = np.multiply(Y, w[:, None], out=_scratch(self, Y.shape, X.dtype))
            Z -= scratch
        else:
            out += At @ (w[:, None] * (A @ X))
            out -= own[:, None] * X

    def _as(self, dtype: Any) -> tuple[Any, Any, Array, Array]:
        if dtype not in self._cast:
            A = self.A.astype(dtype)
            own = np.asarray(self.A.multiply(self.A).T @ self.w)
            self._cast[dtype] = (A, sparse.csr_array(A.T), self.w.astype(dtype), own.astype(dtype))
        return self._cast[dtype]

    def column(self, i: int) -> Floats:
        """Column i of S."""
        span = slice(self._columns.indptr[i], self._columns.indptr[i + 1])
        out = np.zeros(self.n)
        for r, a in zip(self._columns.indices[span], self._columns.data[span]):
            row = slice(self.A.indptr[r], self.A.indptr[r + 1])
            out[self.A.indices[row]] += self.w[r] * a * self.A.data[row]
        out[i] = 0.0
        return out

    def matrix(self) -> sparse.csr_array:
        """S, written down."""
        return _without_diagonal(self.A.T @ sparse.diags_array(self.w) @ self.A)


class KroneckerTerm:
    """The pairs ``sum F_pq D_ab x_pa x_qb`` over ordered ``(p, a) != (q, b)``, variable ``p k + a``.

    Parameters
    ----------
    F : array_like or sparse array of shape (m, m)
    D : array_like of shape (k, k)
    """

    def __init__(self, F: Any, D: ArrayLike) -> None:
        self.F = check.square_sparse(F.copy() if sparse.issparse(F) else F, "F")
        self.D = check.array(D, "D", ndim=2, copy=True)
        if self.D.shape[0] != self.D.shape[1]:
            raise InvalidInput.argument("D", expected="a square matrix", got=f"shape {self.D.shape}")
        self.m, self.k = int(self.F.shape[0]), len(self.D)
        self.n = self.m * self.k
        self._columns = sparse.csc_array(self.F)
        self._own = 2.0 * np.outer(self.F.diagonal(), np.diag(self.D)).ravel()
        self._cast: dict[Any, list[tuple[Any, Array]]] = {}

    def field(self, X: Array) -> Array:
        """``S X`` for lanes innermost, shape (n, B), in the precision of `X`."""
        out = np.zeros_like(X)
        self.add_to(out, X)
        return out

    def add_to(self, out: Array, X: Array) -> None:
        """Add ``S X`` to `out`, both of shape (n, B)."""
        m, k, B = self.m, self.k, X.shape[1]
        if self._own.any():
            out -= self._own.astype(X.dtype)[:, None] * X
        scratch = _scratch(self, (m, k, B), X.dtype)
        for F, D in self._as(X.dtype):
            Y = X.reshape(m, k, B)
            if isinstance(F, list):
                Y = _shifted(F, Y, _scratch(self, (m, k, B), X.dtype, "_moved"))
            elif F is not None:
                Y = np.asarray(F @ X.reshape(m, k * B)).reshape(m, k, B)
            out += np.matmul(D, Y, out=scratch).reshape(m * k, B)

    def _as(self, dtype: Any) -> list[tuple[Any, Array]]:
        """``F X D' + F' X D``, as one product where either is symmetric; no product with F where it is the identity."""
        if dtype not in self._cast:
            F, D = self.F, self.D
            if not (F != F.T).nnz:
                parts = [(F, D + D.T)]
            elif np.array_equal(D, D.T):
                parts = [(F + F.T, D)]
            else:
                parts = [(F, D), (sparse.csr_array(F.T), D.T)]
            self._cast[dtype] = [_scaled_identity(G, E, dtype) for G, E in parts]
        return self._cast[dtype]

    def column(self, i: int) -> Floats:
        """Column i of S."""
        p, a = divmod(i, self.k)
        column = np.zeros((self.m, self.k))
        for G, factor in ((self._columns, self.D[:, a]), (self.F, self.D[a])):
            span = slice(G.indptr[p], G.indptr[p + 1])
            column[G.indices[span]] += G.data[span, None] * factor
        column[p, a] = 0.0
        return column.ravel()

    def matrix(self) -> sparse.csr_array:
        """S, written down."""
        K = sparse.csr_array(sparse.kron(self.F, sparse.csr_array(self.D), format="csr"))
        return _without_diagonal(K + K.T)


def _is_tiled(A: sparse.csr_array) -> bool:
    """Whether column c holds a single 1, in row ``c mod r``."""
    r, n = A.shape
    if not r or n % r or A.nnz != n or not (A.data == 1).all():
        return False
    column = sparse.csc_array(A)
    return bool((np.diff(column.indptr) == 1).all() and np.array_equal(column.indices, np.arange(n) % r))


def _scratch(owner: Any, shape: tuple[int, ...], dtype: Any, name: str = "_kept") -> Array:
    """A buffer that `owner` keeps between steps: fresh memory costs as much as the product written into it."""
    kept: Array | None = getattr(owner, name, None)
    if kept is None or kept.shape != shape or kept.dtype != dtype:
        kept = np.empty(shape, dtype=dtype)
        setattr(owner, name, kept)
    return kept


def _shifted(diagonals: list[tuple[int, float]], Y: Array, out: Array) -> Array:
    """A matrix of few constant diagonals times `Y`, by slices."""
    m = len(Y)
    out[:] = 0
    for offset, value in diagonals:
        into, source = out[max(0, -offset) : m - max(0, offset)], Y[max(0, offset) : m - max(0, -offset)]
        into += source if value == 1 else Y.dtype.type(value) * source
    return out


def _constant_diagonals(F: Any) -> list[tuple[int, float]] | None:
    """``(offset, value)`` of each diagonal of F where there are at most four and each is constant, else None."""
    entries = F.tocoo()
    offsets = np.asarray(entries.coords[1], dtype=np.int64) - entries.coords[0]
    found: list[tuple[int, float]] = []
    for offset in np.unique(offsets).tolist():
        values = entries.data[offsets == offset]
        if len(found) == 4 or values.size != F.shape[0] - abs(offset) or (values != values[0]).any():
            return None
        found.append((int(offset), float(values[0])))
    return found


def _scaled_identity(F: Any, D: Array, dtype: Any) -> tuple[Any, Array]:
    d = F.diagonal()
    if d.size and d[0] != 0 and F.nnz == d.size and (d == d[0]).all():
        return None, np.ascontiguousarray(d[0] * D, dtype=dtype)
    diagonals = _constant_diagonals(F)
    if diagonals is not None:
        return diagonals, np.ascontiguousarray(D, dtype=dtype)
    dense = F.nnz > 0.3 * max(d.size, 1) ** 2
    return (F.toarray() if dense else F).astype(dtype), np.ascontiguousarray(D, dtype=dtype)


class PriceTerm:
    """The pairs ``rate_l a_e x_l x_e`` of a LATER item l and an EARLIER item e (B5): one row in O(n), by running sums.

    Parameters
    ----------
    order : array_like of int of shape (n,)
        Items, first to last.
    rate, weight : array_like of shape (n,)
        0 where an item is not priced, or is not counted.
    """

    def __init__(self, order: ArrayLike, rate: ArrayLike, weight: ArrayLike) -> None:
        self.order = check.array(order, "order", ndim=1, dtype=np.int64, copy=True)
        self.n = int(self.order.size)
        if not np.array_equal(np.sort(self.order), np.arange(self.n)):
            raise InvalidInput.argument("order", expected=f"a permutation of 0..{self.n - 1}", got=order)
        self.rate, self.weight = vector(rate, "rate", self.n), vector(weight, "weight", self.n)
        self._place = np.argsort(self.order)

    def add_to(self, out: Array, X: Array) -> None:
        """Add ``S X`` to `out`, both of shape (n, B)."""
        out += self.field(X)

    def field(self, X: Array) -> Array:
        """``S X`` for lanes innermost, shape (n, B), in the precision of `X`."""
        rate = self.rate[self.order].astype(X.dtype)[:, None]
        weight = self.weight[self.order].astype(X.dtype)[:, None]
        Y = X[self.order]
        load, worth = weight * Y, rate * Y
        before = np.cumsum(load, axis=0) - load
        after = worth.sum(axis=0) - np.cumsum(worth, axis=0)
        out = np.empty_like(X)
        out[self.order] = rate * before + weight * after
        return out

    def column(self, i: int) -> Floats:
        """Column i of S."""
        later = self._place > self._place[i]
        out = np.where(later, self.rate * self.weight[i], self.rate[i] * self.weight)
        out[i] = 0.0
        return np.asarray(out)

    def matrix(self) -> sparse.csr_array:
        """S, written down."""
        lower = np.tril(np.outer(self.rate[self.order], self.weight[self.order]), -1)
        full = (lower + lower.T)[np.ix_(self._place, self._place)]
        return canonical(full)


def _without_diagonal(M: Any) -> sparse.csr_array:
    M = sparse.csr_array(M)
    return canonical(M - sparse.diags_array(M.diagonal()))


@dataclass(frozen=True, eq=False)
class FactoredQubo:
    """A quadratic on the box whose pairs are kept as terms; energies, gradients and gains are those of `materialise`.

    Parameters
    ----------
    linear : array_like of shape (n,)
    terms : sequence of LowRankTerm, KroneckerTerm or PriceTerm
        Each on n variables; their pairs add up.
    offset : float
    concavity : float
        ``eps > 0``: T1 is the only test of a local minimizer that needs no pairs.
    blocks : tuple of Block
        What `materialise` hands to the structural verifier.
    """

    linear: Any
    terms: Sequence[LowRankTerm | KroneckerTerm | PriceTerm]
    offset: float = 0.0
    concavity: float = 1e-9
    blocks: tuple[Block, ...] = ()

    diagonal = None

    def __post_init__(self) -> None:
        c = vector(self.linear, "linear")
        c.flags.writeable = False
        object.__setattr__(self, "linear", c)
        object.__setattr__(self, "terms", tuple(self.terms))
        object.__setattr__(self, "offset", number(self.offset, "offset"))
        eps = check.in_range(self.concavity, "concavity", 0.0, low_open=True)
        object.__setattr__(self, "concavity", eps)
        for term in self.terms:
            if term.n != c.size:
                raise InvalidInput.argument("terms", expected=f"terms on {c.size} variables", got=f"one on {term.n}")

    @property
    def n(self) -> int:
        """Number of variables."""
        return int(self.linear.size)

    def products(self, X: Array, out: Array | None = None) -> Array:
        """``S X`` for lanes innermost, shape (n, B), in the precision of `X`; in `out` where given."""
        out = np.empty_like(X) if out is None else out
        out[:] = 0
        for term in self.terms:
            term.add_to(out, X)
        return out

    def column(self, i: int) -> Floats:
        """Column i of S."""
        return np.asarray(sum((t.column(i) for t in self.terms), np.zeros(self.n)))

    def field(self, X: ArrayLike) -> Floats:
        """``g = c + S x`` at a point (n,) or a batch (B, n)."""
        P = self._points(X)
        g = self.linear + self.products(np.ascontiguousarray(P.T)).T
        return np.asarray(g if np.ndim(X) == 2 else g[0])

    def energy(self, X: ArrayLike) -> Any:
        """``f`` at a point (n,) or a batch (B, n)."""
        P = self._points(X)
        S = self.products(np.ascontiguousarray(P.T)).T
        value = self.offset + P @ self.linear + 0.5 * np.einsum("bi,bi->b", P, S)
        value += self.concavity * np.einsum("bi,bi->b", P, 1.0 - P)
        return value if np.ndim(X) == 2 else float(value[0])

    def gradient(self, X: ArrayLike) -> Floats:
        """The gradient of ``f``, of the shape of `X`."""
        return self.field(X) + self.concavity * (1 - 2 * np.asarray(X, dtype=np.float64))

    def flip_gains(self, x: ArrayLike) -> Floats:
        """The change of ``f`` by flipping each bit of a binary point (n,) or batch (B, n)."""
        P = check.array(x, "x", ndim=(1, 2))
        if not np.isin(P, (0.0, 1.0)).all():
            raise InvalidInput.argument("x", expected="a binary point", got="values other than 0 and 1")
        return np.asarray((1 - 2 * P) * self.field(P))

    def slopes(self, x: Floats) -> Floats:
        """Inward slopes at the bound coordinates of `x`, the gradient elsewhere."""
        g = self.gradient(x)
        return np.where(x == 1.0, -g, g)

    def materialise(self) -> Qubo:
        """The same quadratic with its pairs written down."""
        S = sparse.csr_array((self.n, self.n))
        for term in self.terms:
            S = S + term.matrix()
        return Qubo._trusted(
            self.linear.copy(), canonical(S), self.offset, concavity=self.concavity, blocks=tuple(self.blocks)
        )

    def _points(self, X: ArrayLike) -> Floats:
        P = check.array(X, "X", ndim=(1, 2))
        if P.shape[-1] != self.n:
            raise InvalidInput.argument("X", expected=f"shape ({self.n},) or (B, {self.n})", got=f"shape {P.shape}")
        return np.atleast_2d(P)
