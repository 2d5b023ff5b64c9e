"""Signal algorithm: the paper's route to the full product, pair by pair, by pointwise products on a sphere.

Of each pair (l1, l2) the fields F and G are evaluated on a grid with their gradients. The product F G carries every
path with l1 + l2 + l3 even, the surface Poisson bracket F_theta G_phi - F_phi G_theta every odd one; analysis divides
each by its factor, which is never small. Product and bracket are analysed apart: the bracket is O(L^2) larger, and
their sum would lose digits.
"""

from __future__ import annotations

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.coupling import coupling_coefficient
from cg_tensorproduct.legendre import LARGEST_DEGREE, azimuth, by_order, gauss_grid, legendre
from cg_tensorproduct.ops import register
from cg_tensorproduct.paths import Pair, Problem

Tensor = torch.Tensor


class SignalPlan:
    """Grids and transforms of every pair. All methods are ordinary torch operations."""

    name = "signal"
    native = False

    def __init__(self, problem: Problem, dtype: torch.dtype, device: torch.device) -> None:
        self.dim1, self.dim2, self.dim_out = problem.dim1, problem.dim2, problem.dim_out
        largest = max(pair.l1 + pair.l2 for pair in problem.pairs)
        if largest > LARGEST_DEGREE:
            expected = f"'blocked' or 'kernel' for l1 + l2 > {LARGEST_DEGREE}, too large for a grid"
            raise InvalidInput.argument("algorithm", expected=expected, got=f"'signal' with l1 + l2 = {largest}")
        self._pairs = [_SignalPair(pair, dtype, device) for pair in problem.pairs]
        order = np.argsort(np.concatenate([made.columns for made in self._pairs]))
        self._order = torch.as_tensor(order, device=device)
        self.handle = register(self)

    def couple(self, x: Tensor, y: Tensor) -> Tensor:
        """Product of rows: [B, dim1], [B, dim2] -> [B, dim_out]."""
        return torch.cat([made.couple(x, y) for made in self._pairs], 1).index_select(1, self._order)

    def run_couple(self, x: Tensor, y: Tensor) -> Tensor:
        """`couple`."""
        return self.couple(x, y)

    def run_back(self, x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of ``(couple(x, y) * g).sum()``, by torch."""
        with torch.enable_grad():
            x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
            gx, gy = torch.autograd.grad(self.couple(x, y), (x, y), g)
        return gx, gy


class _SignalPair:
    """Transforms of one pair (l1, l2) on its own half-sphere grid."""

    def __init__(self, pair: Pair, dtype: torch.dtype, device: torch.device) -> None:
        total = pair.l1 + pair.l2
        self._n_phi = 2 * total + 1
        grid = gauss_grid(total + 1, self._n_phi, half=True)

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

        def index(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array.ravel(), device=device)

        self._rows1, self._rows2 = index(pair.rows1), index(pair.rows2)
        self._shape1, self._shape2 = pair.rows1.shape, pair.rows2.shape
        self._synthesis = []
        for degree in (pair.l1, pair.l2):
            # by_order pads to lmax, which is the degree itself here
            value, slope, ratio = (tensor(by_order(t)[degree]) for t in legendre(degree, grid.theta))
            self._synthesis.append((value, slope, ratio, *map(tensor, azimuth(degree, grid.phi))))
        P = by_order(legendre(total, grid.theta)[0]) * grid.weight
        self._azimuth = tensor(azimuth(total, grid.phi)[0].T)
        self._analysis: list[tuple[bool, int, Tensor]] = []
        self._odd = any((total + l3) % 2 for l3 in pair.l3)
        columns = []
        for l3, scale, out in zip(pair.l3, pair.scale, pair.out):
            factor = scale / coupling_coefficient(pair.l1, pair.l2, l3)
            self._analysis.append(((total + l3) % 2 == 1, l3, tensor(P[l3, total - l3 : total + l3 + 1] * factor)))
            columns.append(out.ravel())
        self.columns = np.concatenate(columns)
        self._total = total

    def couple(self, x: Tensor, y: Tensor) -> Tensor:
        """All paths of the pair, [B, columns]."""
        batch, copies = x.shape[0], self._shape1[0] * self._shape2[0]
        x = x.index_select(1, self._rows1).view(batch, self._shape1[0], 1, self._shape1[1], 1)
        y = y.index_select(1, self._rows2).view(batch, 1, self._shape2[0], self._shape2[1], 1)
        F, G = self._fields(x, self._synthesis[0]), self._fields(y, self._synthesis[1])
        orders = [self._orders(F[0] * G[0])]
        if self._odd:
            orders.append(self._orders(F[1] * G[2] - F[2] * G[1]))
        parts = []
        for odd, l3, matrix in self._analysis:
            kept = orders[odd][..., self._total - l3 : self._total + l3 + 1]
            parts.append(torch.einsum("buvtm,mt->buvm", kept, matrix).reshape(batch, copies * (2 * l3 + 1)))
        return torch.cat(parts, 1)

    def _fields(self, x: Tensor, tables: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """[..., m, 1] -> field, theta and phi derivative, each [..., theta, phi]."""
        value, slope, ratio, flat, turn = tables
        field = (x * value).transpose(-1, -2) @ flat
        if not self._odd:
            return (field,)
        return field, (x * slope).transpose(-1, -2) @ flat, (x * ratio).transpose(-1, -2) @ turn

    def _orders(self, field: Tensor) -> Tensor:
        return field @ self._azimuth


def signal_macs(l1: int, l2: int) -> int:
    """Multiply-adds of one pair and sample as `SignalPlan` performs them: every transform a matrix product."""
    total = l1 + l2
    n_theta, n_phi = total // 2 + 1, 2 * total + 1
    d1, d2 = 2 * l1 + 1, 2 * l2 + 1
    synthesis = 3 * n_theta * (d1 + d2) * (1 + n_phi)
    orders = 2 * n_theta * n_phi * (2 * total + 1)
    analysis = d1 * d2 * n_theta  # sum of 2 l3 + 1 over the outputs is d1 d2
    return synthesis + 3 * n_theta * n_phi + orders + analysis
