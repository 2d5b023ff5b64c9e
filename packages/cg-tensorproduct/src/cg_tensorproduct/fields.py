"""From harmonic coefficients to fields on a grid and back: the transforms of the mixing signal product.

A transform takes packed coefficients [..., (L + 1)^2] to a field and its gradient, each [..., points], and a field to
packed coefficients. All of them are ordinary torch operations.
"""

from __future__ import annotations

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.legendre import LARGEST_DEGREE, azimuth, by_order, gauss_grid, harmonics, legendre

Tensor = torch.Tensor
LARGEST_TABLES = 1 << 29  # 4 GiB in float64


def grid_sizes(lmax1: int, lmax2: int, lmax_out: int) -> tuple[int, int]:
    """The fewest nodes in theta and phi that keep everything up to `lmax_out` exact."""
    total = lmax1 + lmax2 + lmax_out
    return total // 2 + 1, total + 1


def automatic(lmax: tuple[int, int, int]) -> str:
    """The transform that "auto" stands for: dense while its matrices stay small."""
    return "dense" if max(lmax) <= 8 else "separable"


def check_grid(name: str, lmax: tuple[int, int, int]) -> None:
    """Raise if the tables of a transform would not fit, or if its Legendre functions would underflow."""
    theta, phi = grid_sizes(*lmax)
    if name == "auto":
        name = automatic(lmax)
    if name == "dense":
        entries = theta * phi * (3 * (lmax[0] + 1) ** 2 + 3 * (lmax[1] + 1) ** 2 + (lmax[2] + 1) ** 2)
    else:
        nodes = 2 * (sum(lmax) + 2) if name == "fourier2d" else theta
        entries = nodes * sum(weight * (2 * k + 1) * (k + 1) for weight, k in zip((3, 3, 1), lmax))
    if entries > LARGEST_TABLES or max(lmax) > LARGEST_DEGREE:
        expected = f"degrees whose grid fits ({LARGEST_DEGREE} at most, and {LARGEST_TABLES:.3g} entries of its tables)"
        got = f"degrees {lmax} with transform={name!r}: {entries:.3g} entries"
        raise InvalidInput.argument("lmax1, lmax2, lmax_out", expected=expected, got=got)


class DenseTransform:
    """One matrix product each way. Least overhead for small degrees."""

    def __init__(self, lmax1: int, lmax2: int, lmax_out: int, dtype: torch.dtype, device: torch.device) -> None:
        grid = gauss_grid(*grid_sizes(lmax1, lmax2, lmax_out))

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array.reshape(len(array), -1)), dtype=dtype, device=device)

        self._synthesis = [tuple(map(tensor, harmonics(lmax, grid.theta, grid.phi))) for lmax in (lmax1, lmax2)]
        values = harmonics(lmax_out, grid.theta, grid.phi)[0] * grid.weight[:, None]
        self._analysis = tensor(values).t().contiguous()

    def value(self, side: int, x: Tensor) -> Tensor:
        """The field of input `side` (0 or 1)."""
        return x @ self._synthesis[side][0]

    def gradient(self, side: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Its derivatives along theta and phi (the latter over sin theta)."""
        return x @ self._synthesis[side][1], x @ self._synthesis[side][2]

    def analyse(self, field: Tensor) -> Tensor:
        """Packed coefficients up to lmax_out."""
        return field @ self._analysis


class SeparableTransform:
    """Degrees to theta for each order m, then m to phi: O(L^3) a signal, both steps matrix products.

    With `fourier` the nodes in theta are equispaced on the whole circle, where harmonics are double Fourier series (as
    in the Gaunt tensor product's paper: columns of odd m are odd about the pole), and the step in phi is an FFT.
    With `fft` the nodes are Gauss's and the step in phi is an FFT.
    """

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        fft: bool = False,
        fourier: bool = False,
    ) -> None:
        n_theta, n_phi = grid_sizes(lmax1, lmax2, lmax_out)
        if fourier:
            n_theta, theta, weight = _circle(lmax1 + lmax2 + lmax_out + 1)
        else:
            grid = gauss_grid(n_theta, n_phi)
            theta, weight = grid.theta, grid.weight * (n_phi / (2 * np.pi))
        phi = 2 * np.pi * np.arange(n_phi) / n_phi
        self._n_phi, self._fft = n_phi, fft or fourier
        self._lmax = lmax1, lmax2, lmax_out

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

        self._theta, self._phi, self._gather = [], [], []
        for lmax in (lmax1, lmax2):
            tables = [by_order(table).transpose(1, 0, 2) for table in _legendre_anywhere(lmax, theta)]
            self._theta.append(tuple(map(tensor, tables)))  # [m, l, theta]
            self._phi.append(tuple(map(tensor, azimuth(lmax, phi))))
            self._gather.append(torch.as_tensor(_padded(lmax), device=device))
        P = by_order(_legendre_anywhere(lmax_out, theta)[0]).transpose(1, 2, 0)  # [m, theta, l]
        self._back_theta = tensor(P * weight[:, None])
        self._back_phi = tensor(azimuth(lmax_out, phi)[0].T * (2 * np.pi / n_phi))
        self._packed = torch.as_tensor(_packed(lmax_out), device=device)

    def value(self, side: int, x: Tensor) -> Tensor:
        """The field of input `side` (0 or 1), [N, theta, phi]."""
        return self._to_phi(side, self._degrees(side, x) @ self._theta[side][0], turn=False)

    def gradient(self, side: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Its derivatives along theta and phi (the latter over sin theta)."""
        rows = self._degrees(side, x)
        _, slope, ratio = self._theta[side]
        return self._to_phi(side, rows @ slope, turn=False), self._to_phi(side, rows @ ratio, turn=True)

    def analyse(self, field: Tensor) -> Tensor:
        """Packed coefficients up to lmax_out."""
        orders = self._from_phi(field) if self._fft else field @ self._back_phi  # [N, theta, m]
        by_m = torch.bmm(orders.permute(2, 0, 1), self._back_theta)  # [m, N, l]
        return by_m.transpose(0, 1).flatten(1).index_select(1, self._packed)

    def _degrees(self, side: int, x: Tensor) -> Tensor:
        """[N, (L + 1)^2] -> [m, N, l], zero where l < |m|."""
        size = self._lmax[side] + 1
        padded = torch.nn.functional.pad(x, (0, 1)).index_select(1, self._gather[side])
        return padded.view(x.shape[0], 2 * size - 1, size).transpose(0, 1)

    def _to_phi(self, side: int, rows: Tensor, *, turn: bool) -> Tensor:
        rows = rows.permute(1, 2, 0)  # [N, theta, m]
        if not self._fft:
            return rows @ self._phi[side][turn]
        lmax = self._lmax[side]
        sine, cosine = rows[..., :lmax].flip(-1), rows[..., lmax + 1 :]
        if turn:  # sqrt 2 |m| sin -> cos, cos -> -sin
            sine, cosine = -cosine, sine
        half = self._n_phi / np.sqrt(2)
        first = torch.zeros_like(rows[..., :1]) if turn else rows[..., lmax : lmax + 1] * self._n_phi
        spectrum = torch.complex(torch.cat([first, half * cosine], -1), torch.cat([0 * first, -half * sine], -1))
        return torch.fft.irfft(spectrum, n=self._n_phi, dim=-1)

    def _from_phi(self, field: Tensor) -> Tensor:
        lmax = self._lmax[2]
        spectrum = torch.fft.rfft(field, dim=-1)[..., : lmax + 1] * (2 * np.pi / self._n_phi)
        cosine, sine = spectrum.real[..., 1:] * np.sqrt(2), -spectrum.imag[..., 1:] * np.sqrt(2)
        return torch.cat([sine.flip(-1), spectrum.real[..., :1], cosine], -1)


def _legendre_anywhere(lmax: int, theta: np.ndarray) -> tuple[np.ndarray, ...]:
    """`legendre` continued analytically to the whole circle: 2 pi - theta is theta with the sign (-1)^m.

    P and its slope are trigonometric polynomials in theta; the slope also changes sign by the chain rule, m P / sin by
    the sine.
    """
    folded = np.where(theta > np.pi, 2 * np.pi - theta, theta)
    P, slope, ratio = legendre(lmax, folded)
    sign = np.where(theta > np.pi, -1.0, 1.0)
    parity = np.where(theta > np.pi, (-1.0) ** np.arange(lmax + 1)[:, None], 1.0)[None]
    return P * parity, slope * parity * sign, ratio * parity * sign


def _circle(frequency: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Equispaced angles off the poles, with weights that integrate f(theta) sin(theta) over 0 .. pi exactly.

    f is a trigonometric polynomial of degree < `frequency`; its integral against |sin| over the circle is twice the one
    wanted when f is even about the pole, which products of fields of one order m are after analysis.
    """
    n = 2 * frequency + 2
    theta = 2 * np.pi * (np.arange(n) + 0.5) / n
    k = np.arange(0, frequency + 1)
    # integral over 0 .. pi of cos(k theta) sin(theta): 2 / (1 - k^2) for even k, 0 for odd
    integral = np.where(k % 2 == 0, 2.0 / (1.0 - np.where(k == 1, 0, k) ** 2.0), 0.0)
    weight = (integral[0] + 2 * np.cos(np.outer(theta, k[1:])) @ integral[1:]) / n
    return n, theta, weight


def _padded(lmax: int) -> np.ndarray:
    """Packed index of (l, m) for [m, l], and one past the end where l < |m|."""
    index = np.full((2 * lmax + 1, lmax + 1), (lmax + 1) ** 2)
    for degree in range(lmax + 1):
        m = np.arange(-degree, degree + 1)
        index[lmax + m, degree] = degree * degree + degree + m
    return index.ravel()


def _packed(lmax: int) -> np.ndarray:
    """Position in [m, l] of each packed (l, m)."""
    return np.array([(m + lmax) * (lmax + 1) + k for k in range(lmax + 1) for m in range(-k, k + 1)])
