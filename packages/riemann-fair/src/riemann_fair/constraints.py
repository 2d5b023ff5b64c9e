r"""The fairness constraint ``C^T H = 0`` and the projection on the fair subspace.

``F[i, s] = 1[i in V_s] - p_s`` for all groups but the last, where ``p_s`` is the share of group ``s`` among the nodes
with a known label (arXiv 1901.08668, Lemma 1); the three constraints scale it to ``C = D^-1/2 F`` ("count"), ``C = F``
("plain") and ``C = D^1/2 F_vol`` ("volume").

Every row of ``C`` is a scale of its node times a row that depends on the node's cell alone, so the projection costs
O(n) however many groups there are: ``P x = x - s_i c[g_i]`` with ``c = K (sums of s x over each cell)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from lemmata_core import InvalidInput, check

from riemann_fair.groups import Groups, read_groups

CONSTRAINTS = ("count", "plain", "volume")
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True)
class ConstraintInfo:
    """A fairness constraint in explicit form.

    Attributes
    ----------
    F : ndarray of float64, shape (n, r0)
        Centred group indicators, one column for each group but the last of every attribute.
    names : tuple of str
        Names of all groups, the last ones too.
    proportions : ndarray of float64
        Share of each group of `names` in the population (by degree for "volume").
    rank : int
        Rank of the constraint: so many dimensions are lost.
    C : ndarray of float64, shape (n, r0), or None
        `F` scaled as the constraint says; None when the scaling needs degrees and none were given.
    """

    F: np.ndarray
    names: tuple[str, ...]
    proportions: np.ndarray
    rank: int
    C: np.ndarray | None = None


def constraint_matrix(
    groups: Any,
    *,
    degrees: np.ndarray | None = None,
    constraint: str = "count",
    combine: str = "concat",
    missing: str = "error",
) -> ConstraintInfo:
    """The centred group indicators of a fairness constraint.

    Parameters
    ----------
    groups : array-like of shape (n,), (n, a) or soft memberships (n, h)
        Protected attributes.
    degrees : array-like of shape (n,), optional
        Node degrees; needed by "volume", and by "count" for the scaled matrix `C`. Nodes of degree 0 get zero rows
        and do not count in the proportions.
    constraint : {"count", "plain", "volume"}
        Which proportions the clusters keep.
    combine : {"concat", "intersect"}
        Several attributes side by side, or crossed.
    missing : {"error", "ignore", "group"}
        What a missing label means.

    Returns
    -------
    ConstraintInfo

    Raises
    ------
    InvalidInput
        Unreadable groups, or "volume" without degrees.
    """
    check_constraint(constraint)
    table = read_groups(groups, combine=combine, missing=missing)
    d = None if degrees is None else check.array(degrees, "degrees", ndim=1, shape=(table.n,))
    if d is not None and (d < 0).any():
        raise InvalidInput.argument("degrees", expected="non-negative numbers", got=f"{d.min():g}")
    if d is None and constraint == "volume":
        raise InvalidInput.argument("degrees", expected='node degrees for constraint="volume"', got="None")
    active = np.ones(table.n, dtype=bool) if d is None else d > 0
    weight = d if d is not None and constraint == "volume" else active.astype(np.float64)
    F, proportions = _centred(table, weight, active)
    C = F if constraint == "plain" else None
    if d is not None and constraint != "plain":
        power = -0.5 if constraint == "count" else 0.5
        C = F * np.where(active, np.where(active, d, 1.0) ** power, 0.0)[:, None]
    rank = orthonormal_basis(F)[0].shape[1] if F.size else 0
    return ConstraintInfo(F, table.names, proportions, rank, C)


def check_constraint(constraint: str) -> None:
    """Raise `InvalidInput` unless `constraint` is known."""
    if constraint not in CONSTRAINTS:
        raise InvalidInput.argument("constraint", expected=f"one of {', '.join(CONSTRAINTS)}", got=constraint)


def _centred(groups: Groups, weight: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F (n, r0) and the proportions of all groups."""
    blocks, proportions = [], []
    if groups.soft is not None:
        p = weight @ groups.soft / weight.sum()
        return (groups.soft[:, :-1] - p[:-1]) * active[:, None], p
    for a, labels in enumerate(groups.labels):
        code = groups.codes[:, a]
        known = (code >= 0) & active
        mass = np.bincount(code[known], weights=weight[known], minlength=len(labels))
        p = mass / max(mass.sum(), np.finfo(float).tiny)
        block = np.zeros((groups.n, len(labels) - 1))
        block[known] = -p[:-1]
        inside = known & (code < len(labels) - 1)
        block[inside, code[inside]] += 1.0
        blocks.append(block)
        proportions.append(p)
    return np.concatenate(blocks, axis=1), np.concatenate(proportions)


def orthonormal_basis(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal basis Q of the columns of `C`, and the map B with ``Q = C B``; rank by relative threshold 1e-12.

    The eigendecomposition of ``C^T C`` is that of the method's reference implementation; columns are scaled to unit
    length before it, which leaves their span alone and keeps a small group from being taken for rounding.
    """
    norm = np.sqrt(np.einsum("ij,ij->j", C, C))
    scale = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1.0), 0.0)
    w, V = np.linalg.eigh((C * scale).T @ (C * scale)) if C.shape[1] else (np.zeros(0), np.zeros((0, 0)))
    keep = w > RANK_TOLERANCE * w.max(initial=0.0)
    if not w.size or w.max() <= 0:
        return np.zeros((C.shape[0], 0)), np.zeros((C.shape[1], 0))
    B = scale[:, None] * (V[:, keep] / np.sqrt(w[keep]))
    return C @ B, B


class FairSubspace:
    """The subspace ``{x : C^T x = 0}`` and the orthogonal projection on it.

    ``K = diag(kd) + sign * Z Z^T`` on the cells: for one attribute it has the closed form
    ``S^-1 - S^-1 m m^T S^-1 / (m^T S^-1 m)`` with cell sums ``S`` of squared scales and masses ``m``; for several it is
    ``T G^+ T^T`` with the table ``T`` of F's rows a cell. Soft memberships keep a dense basis `Q` instead.

    Parameters
    ----------
    groups : Groups or None
        None: no constraint.
    degrees : ndarray of float64, shape (n,)
        Positive node degrees.
    constraint : {"count", "plain", "volume"}
    """

    def __init__(self, groups: Groups | None, degrees: np.ndarray, constraint: str = "count") -> None:
        n = degrees.shape[0]
        power = {"count": -0.5, "plain": 0.0, "volume": 0.5}[constraint]
        self.n = n
        self.scale = np.zeros(n) if groups is None else degrees**power
        self.codes = np.zeros(n, dtype=np.int32)
        self.kd = np.zeros(1)
        self.Z = np.zeros((1, 0))
        self.sign = 1.0
        self.dense: np.ndarray | None = None
        self.rank = 0
        if groups is None:
            return
        weight = degrees if constraint == "volume" else np.ones(n)
        if groups.soft is not None:
            F, _ = _centred(groups, weight, np.ones(n, dtype=bool))
            self.dense, _ = orthonormal_basis(F * self.scale[:, None])
            self.scale = np.zeros(n)
            self.rank = self.dense.shape[1]
            return
        self.codes, present = groups.cells()
        S = np.bincount(self.codes, weights=self.scale**2, minlength=len(present))
        mass = np.bincount(self.codes, weights=weight, minlength=len(present))
        if len(groups.labels) == 1:
            self._one_attribute(present[:, 0] >= 0, S, mass)
        else:
            self._several_attributes(groups, present, S, mass)

    def _one_attribute(self, known: np.ndarray, S: np.ndarray, mass: np.ndarray) -> None:
        self.rank = max(int(known.sum()) - 1, 0)
        self.kd = np.zeros(S.size)
        self.Z = np.zeros((S.size, 1))
        self.sign = -1.0
        if self.rank:
            self.kd[known] = 1 / S[known]
            z = np.where(known, mass / S, 0.0)
            self.Z = (z / np.sqrt(z @ np.where(known, mass, 0.0)))[:, None]

    def _several_attributes(self, groups: Groups, present: np.ndarray, S: np.ndarray, mass: np.ndarray) -> None:
        cells = Groups(present.astype(np.int32), groups.labels, groups.attributes)
        T, _ = _centred(cells, mass, np.ones(len(present), dtype=bool))
        _, B = orthonormal_basis(T * np.sqrt(S)[:, None])
        self.kd = np.zeros(S.size)
        self.Z = T @ B
        self.rank = B.shape[1]

    def coefficients(self, X: np.ndarray) -> np.ndarray:
        """``c = K (cell sums of s X)``, shape (cells,) or (cells, m)."""
        if X.ndim == 1:
            sums = np.bincount(self.codes, weights=self.scale * X, minlength=self.kd.size)
            return np.asarray(self.kd * sums + self.sign * (self.Z @ (self.Z.T @ sums)))
        sums = self._indicator.T @ X
        return np.asarray(self.kd[:, None] * sums + self.sign * (self.Z @ (self.Z.T @ sums)))

    @property
    def _indicator(self) -> sp.csr_array:
        """The n x cells matrix with the node's scale in the column of its cell, built when first asked for."""
        made: sp.csr_array | None = self.__dict__.get("_made")
        if made is None:
            cells = self.kd.size
            made = sp.csr_array((self.scale, self.codes, np.arange(self.n + 1, dtype=np.int32)), shape=(self.n, cells))
            self.__dict__["_made"] = made
        return made

    def normal_part(self, X: np.ndarray) -> np.ndarray:
        """``Q Q^T X``: what the projection removes."""
        if self.dense is not None:
            return np.asarray(self.dense @ (self.dense.T @ X))
        if X.ndim == 1:
            return np.asarray(self.scale * self.coefficients(X)[self.codes])
        return np.asarray(self._indicator @ self.coefficients(X))

    def project(self, X: np.ndarray) -> np.ndarray:
        """``P X``, a new array of the dtype of `X`."""
        if self.rank == 0:
            return X.copy()
        return np.asarray(X - self.normal_part(X).astype(X.dtype, copy=False))

    def violation(self, X: np.ndarray) -> float:
        """``||Q^T X||_F``."""
        return 0.0 if self.rank == 0 else float(np.linalg.norm(self.normal_part(X)))

    def basis(self) -> np.ndarray:
        """Q, an explicit orthonormal basis (n, r) of the columns of C."""
        if self.dense is not None:
            return self.dense
        if self.sign > 0:
            return np.asarray(self._indicator @ self.Z)
        # One attribute: S^1/2 K S^1/2 is an orthogonal projection on the cells, its range is the basis.
        S = np.asarray(self._indicator.multiply(self._indicator).sum(axis=0)).ravel()
        root = np.sqrt(S)
        w, V = np.linalg.eigh(np.diag(self.kd * S) - (root[:, None] * self.Z) @ (root[:, None] * self.Z).T)
        kept = V[:, w > 0.5]
        inverse = np.where(root > 0, 1 / np.where(root > 0, root, 1.0), 0.0)
        return np.asarray(self._indicator @ (inverse[:, None] * kept))

    def complement(self) -> np.ndarray:
        """Orthonormal basis (n, n - r) of the fair subspace; dense, for small n."""
        if self.rank == 0:
            return np.eye(self.n)
        full, _ = scipy.linalg.qr(self.basis())
        return np.asarray(full[:, self.rank :])
