"""Manifolds of fair embeddings for pymanopt: any smooth objective, any of its optimisers.

``{H : H^T H = I, C^T H = 0}`` is the Stiefel manifold of the linear space null(C^T): the projection on it commutes with
everything a Stiefel manifold does, and a retraction of ``H + V`` stays inside because ``P (H + V) = H + V``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymanopt
from lemmata_core import InvalidInput, check
from lemmata_core.rng import generator
from pymanopt.manifolds import Grassmann, Stiefel

from riemann_fair.constraints import orthonormal_basis
from riemann_fair.laplacian import Operator
from riemann_fair.retraction import polar, qr_retraction, symmetric_part
from riemann_fair.spectral import Ritz

Projector = Callable[[np.ndarray], np.ndarray]


def _projector(C: Any, n: int, k: int) -> tuple[Projector, int]:
    """The projection on null(C^T), and the rank of C."""
    if isinstance(C, Operator):
        return C.project, C.space.rank + (C.trivial is not None)
    Q, _ = orthonormal_basis(check.array(C, "C", ndim=2, shape=(n, None)))
    if k > n - Q.shape[1]:
        raise InvalidInput.argument("k", expected=f"at most n - rank(C) = {n - Q.shape[1]}", got=k)

    def project(X: np.ndarray) -> np.ndarray:
        return np.asarray(X - Q @ (Q.T @ X))

    return project, int(Q.shape[1])


class FairStiefel(Stiefel):
    """Orthonormal n x k blocks H with ``C^T H = 0``, with the Euclidean metric, for pymanopt.

    Parameters
    ----------
    n, k : int
        Shape of a point.
    C : array-like of float64, shape (n, r)
        Constraint matrix, as `constraint_matrix(...).C`; its rank is found.
    retraction : {"polar", "qr"}
    rng : numpy.random.Generator, int or None
        Draws random points and tangent vectors.

    Raises
    ------
    InvalidInput
        C of another height, k above n - rank(C).
    """

    def __init__(self, n: int, k: int, C: Any, *, retraction: str = "polar", rng: Any = None) -> None:
        check.one_of(retraction, "retraction", ("polar", "qr"))
        check.positive_int(k, "k", maximum=check.positive_int(n, "n"))
        super().__init__(n, k, retraction=retraction)
        self._project, rank = _projector(C, n, k)
        self._rng = generator(rng)
        self._kind = retraction
        self._name = f"Fair Stiefel manifold St({n},{k}) with {rank} constraints"
        self._dimension = (n - rank) * k - k * (k + 1) // 2

    def projection(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Projection on the tangent space: P, then ``Z - H sym(H^T Z)``."""
        inside = self._project(vector)
        return np.asarray(inside - point @ symmetric_part(point.T @ inside))

    to_tangent_space = projection

    def weingarten(self, point: np.ndarray, tangent_vector: np.ndarray, normal_vector: np.ndarray) -> np.ndarray:
        """``-Proj(U sym(H^T N))``; the part of N in col(C) adds nothing because that space is flat."""
        return -self.projection(point, tangent_vector @ symmetric_part(point.T @ normal_vector))

    def retraction(self, point: np.ndarray, tangent_vector: np.ndarray) -> np.ndarray:
        """Polar or QR retraction of H + V, with rounding outside null(C^T) projected away."""
        moved = self._project(point + tangent_vector)
        return polar(moved) if self._kind == "polar" else qr_retraction(moved)

    def random_point(self) -> np.ndarray:
        """Uniform on the manifold."""
        return polar(self._project(self._rng.standard_normal((self._n, self._p))))

    def random_tangent_vector(self, point: np.ndarray) -> np.ndarray:
        """A random unit tangent vector."""
        vector = self.projection(point, self._rng.standard_normal(point.shape))
        return np.asarray(vector / np.linalg.norm(vector))

    def exp(self, point: np.ndarray, tangent_vector: np.ndarray) -> np.ndarray:
        """The exponential map of the Stiefel manifold, which keeps null(C^T)."""
        return self._project(super().exp(point, tangent_vector))


class FairGrassmann(Grassmann):
    """Subspaces of dimension k of null(C^T), as orthonormal n x k blocks, for pymanopt.

    Parameters
    ----------
    n, k : int
    C : array-like of float64, shape (n, r)
    rng : numpy.random.Generator, int or None

    Raises
    ------
    InvalidInput
        C of another height, k above n - rank(C).
    """

    def __init__(self, n: int, k: int, C: Any, *, rng: Any = None) -> None:
        check.positive_int(k, "k", maximum=check.positive_int(n, "n"))
        super().__init__(n, k)
        self._project, rank = _projector(C, n, k)
        self._rng = generator(rng)
        self._name = f"Fair Grassmann manifold Gr({n},{k}) with {rank} constraints"
        self._dimension = (n - rank) * k - k * k

    def projection(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Projection on the horizontal space: P, then ``Z - H H^T Z``."""
        inside = self._project(vector)
        return np.asarray(inside - point @ (point.T @ inside))

    def retraction(self, point: np.ndarray, tangent_vector: np.ndarray) -> np.ndarray:
        """Polar retraction of H + V, with rounding outside null(C^T) projected away."""
        return polar(self._project(point + tangent_vector))

    def random_point(self) -> np.ndarray:
        """Uniform on the manifold."""
        return polar(self._project(self._rng.standard_normal((self._n, self._p))))

    def random_tangent_vector(self, point: np.ndarray) -> np.ndarray:
        """A random unit tangent vector."""
        vector = self.projection(point, self._rng.standard_normal(point.shape))
        return np.asarray(vector / np.linalg.norm(vector))


def minimise_trace(
    op: Operator,
    m: int,
    optimizer: Any,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    x0: np.ndarray | None = None,
) -> Ritz:
    """``min tr(H^T L H)`` on the fair Grassmannian by a pymanopt optimizer (None: TrustRegions).

    Parameters
    ----------
    op : Operator
    m : int
        Columns, trivial one excluded.
    optimizer : pymanopt.optimizers.optimizer.Optimizer or None
        Stops as it was told to; `tol` and `max_iter` are for the default.
    tol : float
        Norm of the gradient to reach, 1e-5 at most.
    max_iter : int or None
        Iterations; None: 200.
    rng : numpy.random.Generator
    x0 : ndarray of shape (n, k), optional

    Returns
    -------
    Ritz
    """
    from pymanopt.optimizers import TrustRegions

    manifold = FairGrassmann(op.n, m, op, rng=rng)
    products = 0

    def times_laplacian(X: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return op.laplacian(np.ascontiguousarray(X))

    @pymanopt.function.numpy(manifold)
    def cost(H: np.ndarray) -> float:
        return float(np.sum(H * times_laplacian(H)))

    @pymanopt.function.numpy(manifold)
    def gradient(H: np.ndarray) -> np.ndarray:
        return 2 * times_laplacian(H)

    @pymanopt.function.numpy(manifold)
    def hessian(_: np.ndarray, V: np.ndarray) -> np.ndarray:
        return 2 * times_laplacian(V)

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    run = optimizer
    if run is None:
        run = TrustRegions(verbosity=0, max_iterations=max_iter or 200, min_gradient_norm=min(1e-5, tol))
    start = manifold.random_point() if x0 is None else polar(op.project(x0[:, -m:]))
    found = run.run(problem, initial_point=start)
    reached = "min grad norm" in found.stopping_criterion
    return Ritz(
        found.point, None, "converged" if reached else "not_converged", int(found.iterations), products,
        [{"products": products, "objective": float(found.cost)}],
    )  # fmt: skip
