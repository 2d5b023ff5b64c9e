"""Real Wigner matrices of any degree: how a rotation acts on an irrep in e3nn's basis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.coupling import check_degrees, real_basis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cg_tensorproduct.irreps import Irreps

# e3nn's (x, y, z) are the (y, z, x) of the textbook frame whose polar axis is z.
_TEXTBOOK = [2, 0, 1]


def rotation_matrix(l: int, R: torch.Tensor) -> torch.Tensor:  # noqa: E741
    """The matrix D^l with which a rotation acts on an irrep of degree `l`.

    Parameters
    ----------
    l : int
        Degree, any size.
    R : Tensor [3, 3], floating
        Orthogonal matrix acting on ``(x, y, z)``. Of an improper one (determinant -1) the proper part ``-R`` acts here;
        parity enters through `Irreps.D_from_matrix`.

    Returns
    -------
    Tensor [2 l + 1, 2 l + 1]
        In the dtype and on the device of `R`, computed in float64. ``rotation_matrix(1, R)`` is `R` itself if proper.

    Raises
    ------
    InvalidInput
        If `l` is no integer >= 0, or `R` is not a floating 3 x 3 matrix, orthogonal to 1e-4.
    """
    (degree,) = check_degrees(l)
    return torch.as_tensor(_real(degree, *_angles(_proper(R)[0])), dtype=R.dtype, device=R.device)


def representation(irreps: Irreps, R: torch.Tensor) -> torch.Tensor:
    """`Irreps.D_from_matrix`: block diagonal, ``p`` times D^l where the determinant is -1."""
    rotation, sign = _proper(R)
    angles = _angles(rotation)
    out = torch.zeros(irreps.dim, irreps.dim, dtype=R.dtype, device=R.device)
    start = 0
    for mul, ir in irreps:
        matrix = torch.as_tensor(_real(ir.l, *angles) * (ir.p if sign < 0 else 1), dtype=R.dtype, device=R.device)
        for _ in range(mul):
            out[start : start + ir.dim, start : start + ir.dim] = matrix
            start += ir.dim
    return out


def _proper(R: torch.Tensor) -> tuple[NDArray[np.float64], int]:
    if not isinstance(R, torch.Tensor) or R.shape != (3, 3) or not R.is_floating_point():
        got = f"a tensor of shape {tuple(R.shape)}, {R.dtype}" if isinstance(R, torch.Tensor) else repr(R)
        raise InvalidInput.argument("R", expected="a floating tensor of shape (3, 3)", got=got)
    matrix = R.detach().cpu().double().numpy()
    if not np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-4):
        raise InvalidInput.argument("R", expected="an orthogonal matrix", got=matrix.tolist())
    sign = 1 if np.linalg.det(matrix) > 0 else -1
    return sign * matrix, sign


def _angles(rotation: NDArray[np.float64]) -> tuple[float, float, float]:
    """Euler angles (z, y, z) in the textbook frame; the sum and difference of the outer two are each well conditioned
    where they matter, so nothing is lost near the poles.
    """
    r = rotation[np.ix_(_TEXTBOOK, _TEXTBOOK)]
    beta = np.arctan2(np.hypot(r[0, 2], r[1, 2]), r[2, 2])
    total = np.arctan2(r[1, 0] - r[0, 1], r[0, 0] + r[1, 1])
    difference = np.arctan2(-(r[1, 0] + r[0, 1]), r[1, 1] - r[0, 0])
    alpha, gamma = (total + difference) / 2, (total - difference) / 2
    if r[0, 2] * np.cos(alpha) + r[1, 2] * np.sin(alpha) < 0:
        alpha, gamma = alpha + np.pi, gamma + np.pi
    return float(alpha), float(beta), float(gamma)


@lru_cache(maxsize=256)
def _jy_vectors(l: int) -> NDArray[np.complex128]:  # noqa: E741
    """Eigenvectors of J_y for the eigenvalues -l .. l: those of J_x (real, tridiagonal) with phases (-i)^m."""
    from scipy.linalg import eigh_tridiagonal

    m = np.arange(-l, l)
    off = 0.5 * np.sqrt((l - m) * (l + m + 1.0))
    vectors = eigh_tridiagonal(np.zeros(2 * l + 1), off)[1] if l else np.ones((1, 1))
    phases = (-1j) ** (np.arange(2 * l + 1) % 4)
    return np.asarray(phases[:, None] * vectors)


def _real(l: int, alpha: float, beta: float, gamma: float) -> NDArray[np.float64]:  # noqa: E741
    m = np.arange(-l, l + 1)
    vectors = _jy_vectors(l)
    small = (vectors * np.exp(-1j * beta * m)) @ vectors.conj().T
    # Components of a vector turn with the conjugate of the matrix that turns states: e^{+i m alpha} about the polar
    # axis.
    turned = np.exp(1j * alpha * m)[:, None] * small.conj() * np.exp(1j * gamma * m)
    q = real_basis(l)
    return np.asarray((q.conj().T @ turned @ q).real)
