"""Solvers that lean on LAPACK and ARPACK: dense, lanczos (projected eigsh) and shift-invert.

All return a `Ritz`: the wanted feasible vectors without the trivial one, their Ritz values of A, and ``A X``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from lemmata_core import InvalidInput

from riemann_fair.laplacian import Operator


@dataclass
class Ritz:
    """What an eigensolver hands back.

    Attributes
    ----------
    X : ndarray of float64, shape (n, m)
        Orthonormal, feasible up to rounding, trivial vector excluded where it is known.
    AX : ndarray of float64, shape (n, m), or None
        ``A X`` when the solver has it; None: to be computed.
    status : str
    n_iter, n_products : int or float
    history : list of dict
    """

    X: np.ndarray
    AX: np.ndarray | None
    status: str
    n_iter: int
    n_products: float
    history: list[dict[str, Any]]


def dense(op: Operator, m: int) -> Ritz:
    """The m smallest eigenvectors of L on the fair subspace by LAPACK; exact, O(n^3)."""
    # Everything normal to the fair subspace, and the trivial vector, is lifted to 3, above the spectrum of L.
    N = op.space.basis()
    if op.trivial is not None:
        N = np.column_stack([N, op.trivial])
    L = op.dense_laplacian()
    LN = L @ N
    half = LN - N @ (N.T @ LN) / 2
    L -= half @ N.T + N @ half.T - 3 * N @ N.T
    _, Y = scipy.linalg.eigh((L + L.T) / 2, subset_by_index=(0, m - 1))
    return Ritz(Y, None, "converged", 1, 0, [])


def start_vector(op: Operator, rng: np.random.Generator, x0: np.ndarray | None) -> np.ndarray:
    """A unit feasible vector: random, or a random mixture of the columns of `x0`."""
    v = rng.standard_normal(op.n) if x0 is None else x0 @ (1 + rng.random(x0.shape[1]))
    v = op.project(op.project(v))
    norm = np.linalg.norm(v)
    if norm < 1e-12:
        return start_vector(op, rng, None)
    return np.asarray(v / norm)


def lanczos(
    op: Operator, m: int, tol: float, max_iter: int | None, rng: np.random.Generator, x0: np.ndarray | None = None
) -> Ritz:
    """ARPACK on ``x -> P (A + I) P x``: sFairSC (arXiv 2210.16435) done properly, and the peer to beat.

    The inner P matters when ARPACK restarts from a vector of its own after an invariant subspace.
    """
    products = 0

    def matvec(x: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        x = op.project(np.ravel(x))
        return np.asarray(op.project(op.apply(x)) + x)

    shifted = spla.LinearOperator((op.n, op.n), matvec=matvec, dtype=np.float64)
    status = "converged"
    try:
        values, X = spla.eigsh(shifted, k=m, which="LA", tol=tol, maxiter=max_iter, v0=start_vector(op, rng, x0))
        X = _second_look(op, shifted, values, X, tol, max_iter, rng)
    except spla.ArpackNoConvergence as err:
        status, X = "not_converged", _complete(op, err.eigenvectors, m, rng)
    return Ritz(X, None, status, products, products, [])


def _second_look(
    op: Operator,
    matrix: Any,
    values: np.ndarray,
    X: np.ndarray,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Copies of multiple eigenvalues that one Krylov space does not hold, found with X removed; ARPACK misses them."""
    m = X.shape[1]
    while X.shape[1] < min(2 * m + 1, op.n - 1):

        def outside(x: np.ndarray, found: np.ndarray = X) -> np.ndarray:
            x = np.ravel(x)
            x = x - found @ (found.T @ x)
            y = matrix.matvec(x)
            return np.asarray(y - found @ (found.T @ y))

        rest = spla.LinearOperator((op.n, op.n), matvec=outside, dtype=np.float64)
        v0 = outside(start_vector(op, rng, None))
        if np.linalg.norm(v0) < 1e-10:
            break
        more, V = spla.eigsh(rest, k=1, which="LA", tol=max(tol, 1e-4), maxiter=max_iter, v0=v0)
        if more[0] <= np.sort(values)[-m] + 1e-6 * abs(values).max():
            break
        more, V = spla.eigsh(rest, k=1, which="LA", tol=tol, maxiter=max_iter, v0=V[:, 0])
        values, X = np.concatenate([values, more]), np.linalg.qr(np.column_stack([X, V]))[0]
    return X


def _complete(op: Operator, X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Fill the columns that ARPACK did not find with random feasible ones, so that the shape is what was asked."""
    fill = op.project(rng.standard_normal((op.n, m - X.shape[1])))
    Q, _ = np.linalg.qr(np.column_stack([X, fill]))
    return np.asarray(op.project(Q))


def shift_invert(
    op: Operator,
    m: int,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    *,
    shift: float = 1e-2,
    x0: np.ndarray | None = None,
) -> Ritz:
    """ARPACK on the constrained inverse ``z -> K z - K C (C^T K C)^-1 C^T K z`` with ``K = (L + shift I)^-1``.

    Seconds where the factorisation fills in little (trees, planar and whiskered graphs) and gaps are tiny; hopeless on
    expanders. Regularisation adds a dense rank-one term and is refused.
    """
    if op.tau or not sp.issparse(op.W):
        raise InvalidInput.argument("solver", expected="a sparse affinity without regularization", got="shift-invert")
    s = op.scale
    A = sp.csc_array(op.W.multiply(s[:, None]).multiply(s[None, :]))
    factor = spla.splu(
        sp.csc_array(sp.eye_array(op.n) * (1 + shift) - A),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    # The trivial vector is an eigenvector, so removing it by projection is exact; C is not invariant and is bordered.
    C = op.space.basis()
    KC = factor.solve(C) if C.shape[1] else C
    small = scipy.linalg.cho_factor(C.T @ KC) if C.shape[1] else None
    solves = 0

    def inverse(z: np.ndarray) -> np.ndarray:
        nonlocal solves
        solves += 1
        y = factor.solve(op.project(np.ravel(z)))
        if small is not None:
            y = y - KC @ scipy.linalg.cho_solve(small, C.T @ y)
        return op.project(y)

    inverted = spla.LinearOperator((op.n, op.n), matvec=inverse, dtype=np.float64)
    status = "converged"
    try:
        values, X = spla.eigsh(inverted, k=m, which="LA", tol=tol, maxiter=max_iter, v0=start_vector(op, rng, x0))
        X = _second_look(op, inverted, values, X, tol, max_iter, rng)
    except spla.ArpackNoConvergence as err:
        status, X = "not_converged", _complete(op, err.eigenvectors, m, rng)
    return Ritz(X, None, status, solves, solves, [])
