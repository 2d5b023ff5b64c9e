"""The methods compared with, as they were published: plain spectral clustering, FairSC and sFairSC.

They are for comparison. Each solves the count-constrained problem (plain: the unconstrained one) and returns an
orthonormal H; none is fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from riemann_fair.groups import read_groups
from riemann_fair.laplacian import Operator, read_affinity


def _centred_indicators(groups: Any, n: int) -> np.ndarray:
    """F (n, h - 1) of one attribute, as the papers write it."""
    codes = read_groups(groups, n).codes[:, 0]
    h = int(codes.max()) + 1
    F = (codes[:, None] == np.arange(h - 1)).astype(np.float64)
    return np.asarray(F - F.mean(axis=0))


def plain_spectral(affinity: Any, k: int) -> np.ndarray:
    """Normalised spectral clustering (Shi and Malik 2000): the k smallest eigenvectors of L, dense.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
        Without isolated nodes.
    k : int

    Returns
    -------
    ndarray of float64, shape (n, k)
    """
    checked = read_affinity(affinity)
    W, s = checked.W, 1 / np.sqrt(checked.d)
    A = s[:, None] * (W.toarray() if sp.issparse(W) else W) * s
    return np.asarray(scipy.linalg.eigh(np.eye(s.size) - A, subset_by_index=(0, k - 1))[1])


def fairsc(affinity: Any, groups: Any, k: int) -> np.ndarray:
    """FairSC (Kleindessner, Samadi, Awasthi, Morgenstern; arXiv 1901.08668, algorithm 3), dense.

    Z is a basis of null(F^T) and Q the square root of ``Z^T D Z``; eigenvectors Y of ``Q^-1 Z^T (D - W) Z Q^-1`` give
    ``Z Q^-1 Y``, here times ``D^1/2`` so that the columns are orthonormal.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
    groups : array-like, shape (n,)
    k : int

    Returns
    -------
    ndarray of float64, shape (n, k)
    """
    checked = read_affinity(affinity)
    W, d = checked.W, checked.d
    dense = W.toarray() if sp.issparse(W) else W
    Z = scipy.linalg.null_space(_centred_indicators(groups, d.size).T)
    root = scipy.linalg.sqrtm(Z.T @ (d[:, None] * Z)).real
    inverse = np.linalg.inv(root)
    M = inverse @ (Z.T @ (d[:, None] * Z - dense @ Z)) @ inverse
    Y = scipy.linalg.eigh((M + M.T) / 2, subset_by_index=(0, k - 1))[1]
    return np.asarray(np.sqrt(d)[:, None] * (Z @ (inverse @ Y)))


def sfairsc(
    affinity: Any, groups: Any, k: int, *, tol: float = 0.0, rng: np.random.Generator | None = None
) -> np.ndarray:
    """SFairSC (Wang, Lu, Davidson, Bai; arXiv 2210.16435, algorithm 3), as published.

    Eigenvectors of ``P L P + sigma (I - P)`` nearest to 0, where sigma is the 1-norm of the dense L and P is applied by
    a least-squares solve with ``C = D^-1/2 F`` in every product; ``which="SR"`` becomes "SA" for a symmetric matrix.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
    groups : array-like, shape (n,)
    k : int
    tol : float
        Of ARPACK; 0 is machine precision, as published.
    rng : numpy.random.Generator, optional
        Draws the start vector.

    Returns
    -------
    ndarray of float64, shape (n, k)
    """
    checked = read_affinity(affinity)
    W, d = checked.W, checked.d
    s = 1 / np.sqrt(d)
    n = d.size
    L = sp.eye_array(n, format="csr") - sp.csr_array(sp.csr_array(W).multiply(s[:, None]).multiply(s[None, :]))
    sigma = np.linalg.norm(L.toarray(), 1)
    C = s[:, None] * _centred_indicators(groups, n)

    def outside(x: np.ndarray) -> np.ndarray:
        return np.asarray(x - C @ np.linalg.lstsq(C, x, rcond=None)[0])

    def matvec(x: np.ndarray) -> np.ndarray:
        x = np.ravel(x)
        inside = outside(x)
        return np.asarray(outside(L @ inside) + sigma * (x - inside))

    operator = spla.LinearOperator((n, n), matvec=matvec, dtype=np.float64)
    v0 = (rng or np.random.default_rng(0)).standard_normal(n)
    return np.asarray(spla.eigsh(operator, k=k, which="SA", tol=tol, v0=v0)[1])


def projected_eigsh(op: Operator, m: int, tol: float, v0: np.ndarray) -> tuple[np.ndarray, int]:
    """The honest peer: ARPACK on ``x -> P (A + I) x`` with O(n) projections and scaling on the fly.

    A feasible start keeps ARPACK's vectors feasible, so one projection a product is enough; nothing is checked after.

    Parameters
    ----------
    op : Operator
        Checked before, at no cost to this peer.
    m : int
        Wanted pairs, trivial one excluded.
    tol : float
        ARPACK's, relative.
    v0 : ndarray of shape (n,)
        Feasible.

    Returns
    -------
    ndarray of shape (n, m), int
        Eigenvectors and products made.
    """
    products = 0

    def matvec(x: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        x = np.ravel(x)
        return np.asarray(op.project(op.apply(x)) + x)

    operator = spla.LinearOperator((op.n, op.n), matvec=matvec, dtype=np.float64)
    return np.asarray(spla.eigsh(operator, k=m, which="LA", tol=tol, v0=v0)[1]), products
