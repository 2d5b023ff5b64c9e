"""What an embedding comes back as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class EmbeddingResult:
    """A fair spectral embedding and how it was found.

    Attributes
    ----------
    embedding : ndarray, shape (n, k)
        H: orthonormal columns, Ritz vectors of L on the fair subspace in ascending order; zero rows for isolated nodes.
    eigenvalues : ndarray of float64, shape (k,)
        Ritz values of L, ascending.
    objective : float
        ``tr(H^T L H)``, recomputed from the H handed back.
    fairness_violation : float
        ``||Q^T H||_F``.
    residuals : ndarray of float64, shape (k,)
        ``||P L h - lambda h||`` of every column, from products with H, not estimates of a recurrence. For a relaxed
        problem the residual of the penalised operator at the multiplier found.
    status : str
        "converged", "max_iter", "time_limit", "not_converged" or "stopped".
    solver : str
        The one that ran ("auto" resolved).
    n_iter : int
    n_products : float
        Products with A: n x k blocks for radmm, rcg, chebyshev and block-krylov (sampled steps counted as 1/8), single
        vectors for lanczos and fast-lanczos, solves for shift-invert.
    history : list of dict
    lower_bound : float or None
        For ``tolerance > 0``: no feasible H has a smaller objective (weak duality).
    wall_time : float
        Seconds.
    scale : ndarray of float64, shape (n,)
        ``D^-1/2``, 0 for isolated nodes.
    """

    embedding: np.ndarray
    eigenvalues: np.ndarray
    objective: float
    fairness_violation: float
    residuals: np.ndarray
    status: str
    solver: str
    n_iter: int
    n_products: float
    history: list[dict[str, Any]]
    lower_bound: float | None
    wall_time: float
    scale: np.ndarray = field(repr=False)

    @property
    def scaled(self) -> np.ndarray:
        """``D^-1/2 H``, whose rows k-means clusters."""
        return np.asarray(self.embedding * self.scale[:, None].astype(self.embedding.dtype))

    @property
    def row_normalized(self) -> np.ndarray:
        """H with rows of unit length; zero rows stay."""
        norm = np.linalg.norm(self.embedding, axis=1, keepdims=True)
        return np.asarray(self.embedding / np.where(norm > 0, norm, 1))
