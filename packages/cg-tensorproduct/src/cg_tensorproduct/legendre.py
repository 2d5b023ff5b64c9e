"""Orthonormal associated Legendre functions, their derivatives, and quadrature on the sphere. numpy only.

The real harmonic of degree l and index m is ``P[l, |m|](theta)`` times 1 (m = 0), sqrt 2 cos(m phi) (m > 0) or
sqrt 2 sin(|m| phi) (m < 0), without the Condon-Shortley phase. Polar axis and azimuth are those of e3nn: y is the axis,
and phi turns from z to x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


LARGEST_DEGREE = 1024  # from about 1500 on, sin(theta)^m underflows where P does not


def legendre(lmax: int, theta: Array) -> tuple[Array, Array, Array]:
    """P, dP/dtheta and m P / sin(theta) for all 0 <= m <= l <= lmax.

    Parameters
    ----------
    lmax : int
    theta : ndarray [n]
        Polar angles, none of them a pole.

    Returns
    -------
    three ndarrays [lmax + 1, lmax + 1, n]
        Indexed l, m; zero for m > l.
    """
    cos, sin = np.cos(theta), np.sin(theta)
    P = np.zeros((lmax + 1, lmax + 2, len(theta)))
    P[0, 0] = np.sqrt(1 / (4 * np.pi))
    for m in range(lmax + 1):
        if m:
            P[m, m] = np.sqrt((2 * m + 1) / (2 * m)) * sin * P[m - 1, m - 1]
        for degree in range(m + 1, lmax + 1):
            a = np.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = np.sqrt(((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1)) if degree - 1 > m else 0.0
            lower = P[degree - 2, m] if degree - 1 > m else 0.0
            P[degree, m] = a * (cos * P[degree - 1, m] - b * lower)
    l_all, m_all = np.arange(lmax + 1)[:, None, None], np.arange(lmax + 1)[None, :, None]
    ratio = m_all * P[:, :-1] / sin
    slope = ratio * cos - np.sqrt(np.maximum((l_all - m_all) * (l_all + m_all + 1), 0)) * P[:, 1:]
    return P[:, :-1], slope, ratio


@dataclass(frozen=True)
class Grid:
    """Gauss-Legendre nodes in cos(theta) times equispaced azimuths.

    Attributes
    ----------
    theta, weight : ndarray [n_theta]
        Weights include the 2 pi / n_phi of the azimuth.
    phi : ndarray [n_phi]
    """

    theta: Array
    weight: Array
    phi: Array


def gauss_grid(n_theta: int, n_phi: int, *, half: bool = False) -> Grid:
    """A grid that integrates exactly degree 2 n_theta - 1 in cos(theta) and frequency n_phi - 1 in phi.

    With `half` only the nodes of the upper hemisphere and the equator are kept and the others' weights added to them:
    enough for integrands that inversion maps to themselves.
    """
    node, weight = np.polynomial.legendre.leggauss(n_theta)
    if half:
        upper = node > -1e-12
        weight = np.where(np.abs(node) < 1e-12, weight, 2 * weight)[upper]
        node = node[upper]
    return Grid(np.arccos(node), weight * (2 * np.pi / n_phi), 2 * np.pi * np.arange(n_phi) / n_phi)


def azimuth(mmax: int, phi: Array) -> tuple[Array, Array]:
    """The azimuthal factors of m = -mmax .. mmax and what multiplies m P / sin(theta) in the azimuthal derivative.

    Returns
    -------
    two ndarrays [2 mmax + 1, len(phi)]
        sqrt 2 sin(|m| phi), 1, sqrt 2 cos(m phi); and their derivatives divided by |m|.
    """
    m = np.arange(1, mmax + 1)[:, None]
    cos, sin = np.sqrt(2) * np.cos(m * phi), np.sqrt(2) * np.sin(m * phi)
    ones, none = np.ones((1, len(phi))), np.zeros((1, len(phi)))
    return np.concatenate([sin[::-1], ones, cos]), np.concatenate([cos[::-1], none, -sin])


def by_order(table: Array) -> Array:
    """[l, |m|, n] -> [l, m = -lmax .. lmax, n]."""
    return np.concatenate([table[:, :0:-1], table], axis=1)


def harmonics(lmax: int, theta: Array, phi: Array) -> tuple[Array, Array, Array]:
    """All real harmonics up to `lmax` with their derivatives, at the points of a product grid.

    Returns
    -------
    three ndarrays [(lmax + 1)^2, n_theta, n_phi]
        S, dS/dtheta and (1 / sin theta) dS/dphi, packed l = 0 .. lmax, m = -l .. l.
    """
    P, slope, ratio = (by_order(table) for table in legendre(lmax, theta))
    value, turn = azimuth(lmax, phi)
    rows = [(degree, m + lmax) for degree in range(lmax + 1) for m in range(-degree, degree + 1)]
    degree, m = (np.array(column) for column in zip(*rows))
    P, slope, ratio = (table[degree, m][:, :, None] for table in (P, slope, ratio))
    return P * value[m][:, None], slope * value[m][:, None], ratio * turn[m][:, None]
