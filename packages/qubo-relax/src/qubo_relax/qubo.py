"""The quadratic over the unit box that everything else in this package reads."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

from qubo_relax.matrices import (
    canonical,
    indices,
    number,
    pair_matrix,
    square_matrix,
    symmetric_matrix,
    vector,
    warn_wide,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from qubo_relax.blocks import Block

ENUMERATION_LIMIT = 22
"""Largest number of variables whose vertices are enumerated unless the caller asks for more."""


@dataclass(frozen=True, eq=False, init=False)
class Qubo:
    """A quadratic ``f`` on the box ``[0, 1]^n``, multilinear up to a kept diagonal and a concavity.

    ``f(x) = offset + sum_i c_i x_i + sum_{i<j} S_ij x_i x_j + sum_i d_i x_i^2 + eps sum_i x_i (1 - x_i)``.
    On binary points the concavity term vanishes, so it changes no energy; inside the box it makes every coordinate
    slice strictly concave, so that every local minimizer is a vertex (see `qubo_relax.theory`).

    Parameters
    ----------
    linear : array_like of shape (n,)
        The ``c_i``.
    quadratic : array_like, scipy.sparse array, or mapping of (i, j) to float
        The ``S_ij``: symmetric with a zero diagonal, or strictly triangular (then mirrored). Entries of a mapping are
        summed over ``(i, j)`` and ``(j, i)``. A matrix with a diagonal belongs in `Qubo.from_matrix`.
    offset : float
    concavity : float
        ``eps >= 0``.
    labels : sequence of hashable, optional
        One name a variable; ``0..n-1`` when left out.

    Attributes
    ----------
    n : int
    linear : ndarray of shape (n,), float64, read-only
    quadratic : scipy.sparse.csr_array of shape (n, n), float64
        Symmetric, zero diagonal, sorted indices.
    diagonal : ndarray of shape (n,) or None
        The ``d_i`` of an unfolded quadratic, else None.
    offset, concavity : float
    labels : tuple
    blocks : tuple of Block
        Where the terms came from, for the structural verifier; empty for a quadratic given by hand.

    Raises
    ------
    InvalidInput
        On NaN or infinity, a matrix that is not square, a diagonal, labels of the wrong number, negative concavity.

    Warns
    -----
    UserWarning
        When the coefficients span more than twelve orders of magnitude.
    """

    linear: NDArray[np.float64]
    quadratic: sparse.csr_array
    offset: float
    concavity: float
    labels: Sequence[Hashable]
    diagonal: NDArray[np.float64] | None
    blocks: tuple[Block, ...]

    def __init__(
        self,
        linear: ArrayLike,
        quadratic: Any,
        offset: float = 0.0,
        *,
        concavity: float = 0.0,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        c = vector(linear, "linear")
        S = symmetric_matrix(quadratic, c.size)
        warn_wide("quadratic", c, S.data)
        self._fill(c, S, number(offset, "offset"), concavity, labels, None, ())

    def _fill(  # every constructor ends here, so that there is one place that freezes arrays
        self,
        linear: NDArray[np.float64],
        quadratic: sparse.csr_array,
        offset: float,
        concavity: float,
        labels: Sequence[Hashable] | None,
        diagonal: NDArray[np.float64] | None,
        blocks: tuple[Block, ...],
    ) -> None:
        eps = number(concavity, "concavity")
        if eps < 0:
            raise InvalidInput.argument("concavity", expected="a number >= 0", got=concavity)
        names: Sequence[Hashable] = range(linear.size) if labels is None else tuple(labels)
        if len(names) != linear.size:
            raise InvalidInput.argument("labels", expected=f"{linear.size} labels", got=f"{len(names)}")
        if labels is not None and len(set(names)) != len(names):
            raise InvalidInput.argument("labels", expected="distinct labels", got="a label that occurs twice")
        arrays = (linear, diagonal, quadratic.data, quadratic.indices, quadratic.indptr)
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
        for name, value in (
            ("linear", linear),
            ("quadratic", quadratic),
            ("offset", offset),
            ("concavity", eps),
            ("labels", names),
            ("diagonal", diagonal),
            ("blocks", blocks),
        ):
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come back writeable from a pickle, and kernels are compiled for read-only ones.
        self._fill(**{k: state[k] for k in state if k != "labels"}, labels=_given(state["labels"]))

    @classmethod
    def _trusted(
        cls,
        linear: NDArray[np.float64],
        quadratic: sparse.csr_array,
        offset: float = 0.0,
        *,
        concavity: float = 0.0,
        labels: Sequence[Hashable] | None = None,
        diagonal: NDArray[np.float64] | None = None,
        blocks: tuple[Block, ...] = (),
    ) -> Qubo:
        """Build from arrays that are known to be right: symmetric canonical CSR, float64, owned by the result."""
        self = cls.__new__(cls)
        self._fill(linear, quadratic, float(offset), concavity, labels, diagonal, blocks)
        return self

    @classmethod
    def from_matrix(
        cls,
        Q: Any,
        linear: ArrayLike | None = None,
        offset: float = 0.0,
        *,
        fold: bool = True,
        concavity: float = 0.0,
        labels: Sequence[Hashable] | None = None,
    ) -> Qubo:
        """The quadratic ``x'Qx + linear'x + offset``.

        Parameters
        ----------
        Q : array_like, scipy.sparse array or torch.Tensor of shape (n, n)
            Upper triangular, full or anything between: ``S_ij = Q_ij + Q_ji``.
        linear : array_like of shape (n,), optional
        offset : float
        fold : bool
            Whether ``Q_ii x_i^2`` becomes ``Q_ii x_i``, which is equal on binary points and removes convexity inside
            the box. With False the diagonal is kept, and fractional local minimizers can appear.
        concavity : float
        labels : sequence of hashable, optional

        Returns
        -------
        Qubo
        """
        M = square_matrix(Q, "Q")
        n = M.shape[0]
        c = np.zeros(n) if linear is None else vector(linear, "linear", n)
        warn_wide("Q", c, M.data)
        d = np.asarray(M.diagonal(), dtype=np.float64)
        S = M + M.T
        S = canonical(S - sparse.diags_array(2 * d) if d.any() else S)
        if fold:
            return cls._trusted(c + d, S, number(offset, "offset"), concavity=concavity, labels=labels)
        return cls._trusted(c, S, number(offset, "offset"), concavity=concavity, labels=labels, diagonal=d)

    @classmethod
    def from_coo(
        cls,
        n: int,
        i: ArrayLike,
        j: ArrayLike,
        v: ArrayLike,
        linear: ArrayLike | None = None,
        offset: float = 0.0,
        *,
        concavity: float = 0.0,
    ) -> Qubo:
        """The sum of ``v_k x_{i_k} x_{j_k}``, built without a Python loop and with little memory.

        Parameters
        ----------
        n : int
            Number of variables.
        i, j : array_like of int of shape (m,)
            Ends of each pair, in any order; pairs that occur again are summed and ``i == j`` goes to the linear term.
        v : array_like of float of shape (m,)
        linear : array_like of shape (n,), optional
        offset, concavity : float

        Returns
        -------
        Qubo
        """
        n = check.positive_int(n, "n", minimum=0)
        rows, cols = indices(i, n, "i"), indices(j, n, "j")
        vals = vector(v, "v", copy=False)
        if not rows.size == cols.size == vals.size:
            raise InvalidInput.argument("v", expected="as many values as pairs", got=f"{vals.size} for {rows.size}")
        c = np.zeros(n) if linear is None else vector(linear, "linear", n)
        warn_wide("v", c, vals)
        return cls._trusted(*pair_matrix(n, rows, cols, vals, c), number(offset, "offset"), concavity=concavity)

    @classmethod
    def from_bqm(cls, bqm: Any, *, concavity: float = 0.0) -> Qubo:
        """See `qubo_relax.from_bqm`."""
        from qubo_relax.interop import from_bqm

        return from_bqm(bqm, concavity=concavity)

    @property
    def n(self) -> int:
        """Number of variables."""
        return int(self.linear.size)

    @property
    def shape(self) -> tuple[int]:
        """``(n,)``."""
        return (self.n,)

    def __repr__(self) -> str:
        pairs = self.quadratic.nnz // 2
        return f"Qubo(n={self.n}, pairs={pairs}, offset={self.offset:g}, concavity={self.concavity:g})"

    def with_concavity(self, concavity: float) -> Qubo:
        """The same quadratic with another ``eps``; arrays are shared."""
        return Qubo._trusted(
            self.linear,
            self.quadratic,
            self.offset,
            concavity=concavity,
            labels=_given(self.labels),
            diagonal=self.diagonal,
            blocks=self.blocks,
        )

    def energy(self, X: ArrayLike) -> Any:
        """``f`` at one point or at a batch.

        Parameters
        ----------
        X : array_like of shape (n,) or (B, n)
            Points of the box.

        Returns
        -------
        float or ndarray of shape (B,)
        """
        P = self._points(X)
        SX = self._times(P)
        value = self.offset + P @ self.linear + 0.5 * np.einsum("bi,bi->b", P, SX)
        if self.diagonal is not None:
            value += (P * P) @ self.diagonal
        if self.concavity:
            value += self.concavity * np.einsum("bi,bi->b", P, 1.0 - P)
        self._finite(value)
        return value if np.ndim(X) == 2 else float(value[0])

    def field(self, X: ArrayLike) -> NDArray[np.float64]:
        """``g = c + S x``, the gradient of the multilinear part, of the shape of `X`."""
        P = self._points(X)
        g = self.linear + self._times(P)
        self._finite(g)
        return g if np.ndim(X) == 2 else g[0]

    def gradient(self, X: ArrayLike) -> NDArray[np.float64]:
        """The gradient of ``f``, concavity and kept diagonal included, of the shape of `X`."""
        g = self.field(X)
        x = np.asarray(X, dtype=np.float64)
        if self.diagonal is not None:
            g = g + 2 * self.diagonal * x
        return g + self.concavity * (1 - 2 * x) if self.concavity else g

    def flip_gains(self, x: ArrayLike) -> NDArray[np.float64]:
        """``D_i = f(x with bit i flipped) - f(x)`` for a binary `x` of shape (n,) or a batch (B, n)."""
        P = check.array(x, "x", ndim=(1, 2))
        if not np.isin(P, (0.0, 1.0)).all():
            raise InvalidInput.argument("x", expected="a binary point", got="values other than 0 and 1")
        g = self.field(P)
        if self.diagonal is not None:
            g = g + self.diagonal
        return (1 - 2 * P) * g

    def local_minima(self, limit: int = ENUMERATION_LIMIT) -> NDArray[np.int8]:
        """Every vertex that no single flip improves, by enumeration.

        With ``concavity > 0`` these are exactly the local minimizers of ``f`` on the box, those with every
        ``D_i > -eps`` (theorem T1 in `qubo_relax.theory`). With ``concavity == 0`` ties (``D_i = 0``) are counted in.

        Parameters
        ----------
        limit : int
            Refuse more variables than this: ``2^n`` vertices are visited.

        Returns
        -------
        ndarray of int8 of shape (m, n)
            Sorted by energy, then lexicographically.
        """
        if self.n > limit:
            raise InvalidInput.argument("limit", expected=f"at least n = {self.n} to enumerate 2^n points", got=limit)
        if self.diagonal is not None and (self.diagonal - self.concavity > 0).any():
            raise InvalidInput.argument(
                "quadratic", expected="no convex diagonal (fold it)", got="a kept diagonal above the concavity"
            )
        from qubo_relax.vertices import vertex_minima

        found = [X[keep] for X, keep in vertex_minima(self)]
        out = np.concatenate(found) if found else np.zeros((0, self.n), dtype=np.int8)
        return out[np.argsort(self.energy(out), kind="stable")] if len(out) else out

    def to_bqm(self) -> Any:
        """See `qubo_relax.to_bqm`."""
        from qubo_relax.interop import to_bqm

        return to_bqm(self)

    def write(self, path: str | Path) -> None:
        """Write to `path`; the ending chooses the format. See `qubo_relax.write`."""
        from qubo_relax.io import write

        write(self, path)

    def slopes(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inward slopes at the bound coordinates of `x` (minus the gradient at ones), the gradient elsewhere."""
        g = self.gradient(x)
        return np.where(x == 1.0, -g, g)

    def _times(self, P: NDArray[np.float64]) -> NDArray[np.float64]:
        # scipy refuses products with matrices of no rows.
        return np.asarray((self.quadratic @ P.T).T) if self.n else np.zeros(P.shape)

    def _finite(self, value: NDArray[np.float64]) -> None:
        # Points far outside the box only: no coefficient is that large.
        if not np.isfinite(value).all():
            raise InvalidInput.argument("X", expected="points of the box [0, 1]^n", got="points whose value overflows")

    def _points(self, X: ArrayLike) -> NDArray[np.float64]:
        P = check.array(X, "X", ndim=(1, 2))
        if P.shape[-1] != self.n:
            raise InvalidInput.argument("X", expected=f"shape ({self.n},) or (B, {self.n})", got=f"shape {P.shape}")
        return np.atleast_2d(P)


def _given(labels: Sequence[Hashable]) -> Sequence[Hashable] | None:
    """The labels that a caller gave, None for plain numbers."""
    return None if isinstance(labels, range) else labels


def minimum_threshold(qubo: Qubo) -> float:
    """The bound ``-eps`` that every flip gain of a local minimizer exceeds, with room for rounding at ``eps = 0``."""
    if qubo.concavity > 0:
        return -qubo.concavity
    return -1e-12 * max(scale_of(qubo), 1e-300)


def scale_of(qubo: Qubo) -> float:
    """The largest ``|c_i| + sum_j |S_ij|``: no flip gain exceeds it."""
    if qubo.n == 0:
        return 0.0
    rows = np.asarray(abs(qubo.quadratic).sum(axis=1)).ravel()
    kept = 0.0 if qubo.diagonal is None else np.abs(qubo.diagonal)
    return float(np.max(np.abs(qubo.linear) + rows + kept))
