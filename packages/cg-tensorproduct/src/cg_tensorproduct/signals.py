"""The mixing signal product: all degrees of two signals in, all degrees of two signals out, in one pointwise product.

F G carries the paths with l1 + l2 + l3 even, the surface Poisson bracket {F, G} = F_theta G_phi - F_phi G_theta the odd
ones:
    (F G)[l3] = sum over even paths of g(l1, l2, l3) w3j(x[l1], y[l2]),   {F, G}[l3] = the same over odd paths,
with the factors of `gaunt_coefficient` and `bracket_coefficient`. Together they lose nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range
from torch import nn

from cg_tensorproduct import inputs
from cg_tensorproduct.coupling import bracket_coefficient, gaunt_coefficient
from cg_tensorproduct.fields import DenseTransform, SeparableTransform, automatic, check_grid
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.lowrank import exact_factors, expand, truncated_factors
from cg_tensorproduct.paths import check_choice
from cg_tensorproduct.store import Store

Tensor = torch.Tensor
COUPLINGS = ("both", "scalar", "bracket")
TRANSFORMS = ("auto", "dense", "separable", "fft", "fourier2d")


class SignalOutput(NamedTuple):
    """The two halves of a signal product, packed l = 0 .. lmax_out.

    Attributes
    ----------
    even : Tensor [..., (lmax_out + 1)^2] or None
        From the product F G: transforms with parity (-1)^l, as harmonics do. None for couplings="bracket".
    odd : Tensor [..., (lmax_out + 1)^2] or None
        From the bracket {F, G}: parity -(-1)^l. None for couplings="scalar".
    """

    even: Tensor | None
    odd: Tensor | None


class SignalTensorProduct(nn.Module):
    """Mixing product of two signals on the sphere, channel by channel.

    Parameters
    ----------
    lmax1, lmax2 : int
        Degrees of the inputs, packed l = 0 .. lmax.
    lmax_out : int, optional
        Degree of the outputs; lmax1 + lmax2 if left out.
    channels : int
        Channels, which share nothing.
    couplings : {"both", "scalar", "bracket"}
        Which halves: "scalar" is the incomplete Gaunt tensor product.
    weights : {"none", "degree", "path"}
        Nothing to learn; a factor for each degree of the inputs and of each output (one set a channel); or `rank` such
        sets added, which can stand for any weight a path.
    rank : int, optional
        Terms of weights="path" (the others have one); enough for every weight if left out.
    normalization : {"component", "integral"}
        Scale each output degree to unit variance for unit-variance input (at weights one), or leave the factors g as
        they are.
    transform : {"auto", "dense", "separable", "fft", "fourier2d"}
        How fields are evaluated; the results agree to rounding.
    dtype, device : optional
        Of the weights and tables; default dtype and CPU if left out. The tables follow the inputs.

    Raises
    ------
    InvalidInput
        If a degree is no integer >= 0, `lmax_out` exceeds lmax1 + lmax2 (nothing could reach it), or an option is
        unknown.
    """

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int | None = None,
        *,
        channels: int = 1,
        couplings: str = "both",
        weights: str = "none",
        rank: int | None = None,
        normalization: str = "component",
        transform: str = "auto",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        dtype, device = inputs.check_options(dtype, device)
        self.lmax1, self.lmax2 = _degree("lmax1", lmax1), _degree("lmax2", lmax2)
        self.lmax_out = _output_degree(self.lmax1, self.lmax2, lmax_out)
        self.channels = _positive("channels", channels)
        self.couplings = check_choice("couplings", couplings, COUPLINGS)
        self.weights = check_choice("weights", weights, ("none", "degree", "path"))
        self.normalization = check_choice("normalization", normalization, ("component", "integral"))
        self.transform = check_choice("transform", transform, TRANSFORMS)
        degrees = self.lmax1 + 1, self.lmax2 + 1, self.lmax_out + 1
        full = degrees[0] * min(degrees[1], degrees[2])
        terms = full if rank is None else _positive("rank", rank)
        self.rank = terms if weights == "path" else 1
        check_grid(self.transform, (self.lmax1, self.lmax2, self.lmax_out))
        self.irreps_even = Irreps.spherical_harmonics(self.lmax_out)
        self.irreps_odd = Irreps([(1, (k, -((-1) ** k))) for k in range(self.lmax_out + 1)])
        self.halves = {"both": ("even", "odd"), "scalar": ("even",), "bracket": ("odd",)}[couplings]
        self._scale: dict[str, np.ndarray] = {}
        for half in self.halves:
            g = factors_g(self.lmax1, self.lmax2, self.lmax_out, half)
            self._scale[half] = _unit_variance(g) if normalization == "component" else np.ones(degrees[2])
            if weights != "none":
                for name, size in zip("abc", degrees):
                    start = torch.ones(self.channels, self.rank, size, dtype=dtype, device=device)
                    if weights == "path":
                        start = torch.randn(self.channels, self.rank, size, dtype=dtype, device=device) / self.rank ** (
                            1 / 6
                        )
                    self.register_parameter(f"{name}_{half}", nn.Parameter(start))
        lmax = self.lmax1, self.lmax2, self.lmax_out
        self._store = Store(_Tables, (lmax, self._scale))

    def forward(self, x: Tensor, y: Tensor) -> SignalOutput:
        """The product of two batches of signals.

        Parameters
        ----------
        x : Tensor [..., channels, (lmax1 + 1)^2]
        y : Tensor [..., channels, (lmax2 + 1)^2]
            Same dtype and device; the other axes broadcast. Half precision computes in float32.

        Returns
        -------
        SignalOutput
            Each half [..., channels, (lmax_out + 1)^2].
        """
        inputs.check_last_axis("x", x, "lmax1", self.lmax1, (self.lmax1 + 1) ** 2)
        inputs.check_last_axis("y", y, "lmax2", self.lmax2, (self.lmax2 + 1) ** 2)
        inputs.check_same("x", x, "y", y)
        for name, value in (("x", x), ("y", y)):
            if value.dim() < 2 or value.shape[-2] not in (1, self.channels):
                expected = f"channels = {self.channels} on the last axis but one"
                raise InvalidInput.argument(name, expected=expected, got=f"shape {tuple(value.shape)}")
        x, y = inputs.broadcast("x", x, "y", y)
        work, out = inputs.working_dtype(x, y)
        x, y = x.to(work), y.to(work)
        batch = torch.broadcast_shapes(x.shape[:-1], (self.channels,))
        x, y = x.expand(*batch, x.shape[-1]), y.expand(*batch, y.shape[-1])
        tables = self._store.get(self.transform, work, x.device)
        found = inputs.in_full_precision(x, lambda: {h: self._half(h, tables, x, y).to(out) for h in self.halves})
        return SignalOutput(found.get("even"), found.get("odd"))

    def _half(self, half: str, tables: _Tables, x: Tensor, y: Tensor) -> Tensor:
        batch = x.shape[:-1]
        if self.weights != "none":
            a, b, c = (getattr(self, f"{name}_{half}").to(x.dtype) for name in "abc")
            x = x.unsqueeze(-2) * a[..., tables.degree[0]]
            y = y.unsqueeze(-2) * b[..., tables.degree[1]]
        z = tables.product(half, x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])) * tables.scale[half]
        if self.weights == "none":
            return z.view(*batch, z.shape[-1])
        return (z.view(*batch, self.rank, z.shape[-1]) * c[..., tables.degree[2]]).sum(-2)

    def path_weights(self) -> Tensor:
        """What multiplies ``w3j(l1, l2, l3)`` of each path, factors g and normalisation included.

        Returns
        -------
        Tensor [lmax1 + 1, lmax2 + 1, lmax_out + 1], float64
            With a leading axis of channels if the module has weights and more than one channel. Zero where there is no
            path.
        """
        total: Tensor | None = None
        for half in self.halves:
            g = factors_g(self.lmax1, self.lmax2, self.lmax_out, half) * self._scale[half]
            term = torch.as_tensor(g)
            if self.weights != "none":
                a, b, c = (getattr(self, f"{name}_{half}").double().cpu() for name in "abc")
                term = torch.einsum("nri,nrj,nrk->nijk", a, b, c) * term
                term = term[0] if self.channels == 1 else term
            total = term if total is None else total + term
        assert total is not None  # noqa: S101 - halves is never empty
        return total

    def load_path_weights(self, W: Tensor, rank: int | None = None, tol: float = 1e-10) -> float:
        """Choose the factors of weights="path" so that `path_weights` becomes `W`.

        Parameters
        ----------
        W : Tensor [lmax1 + 1, lmax2 + 1, lmax_out + 1]
            What shall multiply w3j, up to 1e100; entries that are no path of this module's couplings are ignored. The
            same for all channels.
        rank : int, optional
            Use at most so many terms (the module's rank if left out).
        tol : float
            Singular values below this, relative to the largest, are dropped.

        Returns
        -------
        float
            Norm of what is missed over the norm of `W`, on the paths.

        Raises
        ------
        InvalidInput
            For weights of another shape, not finite or beyond 1e100, and for a `rank` or `tol` outside the above.
        """
        if self.weights != "path":
            raise InvalidInput.argument("weights", expected="'path' for load_path_weights", got=repr(self.weights))
        shape = self.lmax1 + 1, self.lmax2 + 1, self.lmax_out + 1
        if not isinstance(W, torch.Tensor) or tuple(W.shape) != shape:
            got = f"shape {tuple(W.shape)}" if isinstance(W, torch.Tensor) else type(W).__name__
            raise InvalidInput.argument("W", expected=f"a tensor of shape {shape}", got=got)
        inputs.check_tensor("W", W)
        W = W.detach()
        inputs.check_finite("W", W, largest=1e100)
        tol = in_range(tol, "tol", 0.0, 1.0, high_open=True)
        wanted = W.cpu().double().numpy()
        # the fit squares entries, and regularises at size 1
        size = float(np.abs(wanted).max()) or 1.0
        wanted = wanted / size
        limit = min(self.rank, _positive("rank", rank)) if rank is not None else self.rank
        missed = norm = 0.0
        for half in self.halves:
            g = factors_g(self.lmax1, self.lmax2, self.lmax_out, half) * self._scale[half]
            paths = g > 0
            K = np.where(paths, wanted / np.where(paths, g, 1), 0)
            factors = exact_factors(K, tol)
            if len(factors[0]) > limit:
                factors = truncated_factors(K, paths, limit, tol)
            missed += float(np.square((expand(factors) - K) * g).sum())
            norm += float(np.square(K * g).sum())
            for name, factor in zip("abc", factors):
                parameter = getattr(self, f"{name}_{half}")
                with torch.no_grad():
                    parameter.zero_()
                    parameter[:, : len(factor)] = torch.as_tensor(
                        factor * np.cbrt(size), dtype=parameter.dtype, device=parameter.device
                    )
        return float(np.sqrt(missed / norm)) if norm > 0 else 0.0

    def extra_repr(self) -> str:
        """Degrees, channels, couplings and weights."""
        return (
            f"l <= {self.lmax1} x l <= {self.lmax2} -> l <= {self.lmax_out}, channels={self.channels}, "
            f"couplings={self.couplings!r}, weights={self.weights!r}"
        )


class _Tables:
    """Transform and index tables of one dtype and device."""

    def __init__(
        self,
        name: str,
        subject: tuple[tuple[int, int, int], dict[str, np.ndarray]],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        lmax, scales = subject
        self.transform = build_transform(name, lmax, dtype, device)
        self.degree = [
            torch.as_tensor(np.repeat(np.arange(n + 1), 2 * np.arange(n + 1) + 1), device=device) for n in lmax
        ]
        self.scale = {
            half: torch.as_tensor(scale, dtype=dtype, device=device)[self.degree[2]] for half, scale in scales.items()
        }

    def product(self, half: str, x: Tensor, y: Tensor) -> Tensor:
        """Packed coefficients of F G or {F, G} for rows of coefficients."""
        transform = self.transform
        if half == "even":
            return transform.analyse(transform.value(0, x) * transform.value(1, y))
        (x_theta, x_phi), (y_theta, y_phi) = transform.gradient(0, x), transform.gradient(1, y)
        return transform.analyse(x_theta * y_phi - x_phi * y_theta)


def build_transform(
    name: str, lmax: tuple[int, int, int], dtype: torch.dtype, device: torch.device
) -> DenseTransform | SeparableTransform:
    """The transform called `name`; "auto" is dense while its matrices stay small."""
    if name == "auto":
        name = automatic(lmax)
    if name == "dense":
        return DenseTransform(*lmax, dtype, device)
    return SeparableTransform(*lmax, dtype, device, fft=name == "fft", fourier=name == "fourier2d")


def signal_product(x: Tensor, y: Tensor, lmax_out: int | None = None, *, couplings: str = "both") -> SignalOutput:
    """The mixing product with the factors g as they are (normalization "integral").

    Parameters
    ----------
    x, y : Tensor [..., (L + 1)^2]
        Packed coefficients; the degrees follow from the last axes, the others broadcast.
    lmax_out : int, optional
        The sum of the input degrees if left out.
    couplings : {"both", "scalar", "bracket"}

    Returns
    -------
    SignalOutput
        ``even[l3] = sum gaunt_coefficient(l1, l2, l3) w3j(x[l1], y[l2])``, `odd` the same with `bracket_coefficient`.

    Raises
    ------
    InvalidInput
        If a last axis is no square, or dtypes, devices or batch shapes do not fit.
    """
    lmax1, lmax2 = _packed_degree("x", x), _packed_degree("y", y)
    inputs.check_same("x", x, "y", y)
    x, y = inputs.broadcast("x", x, "y", y)
    options = {"couplings": couplings, "normalization": "integral"}
    product = SignalTensorProduct(lmax1, lmax2, lmax_out, **options)  # type: ignore[arg-type]
    return SignalOutput(*(None if z is None else z.squeeze(-2) for z in product(x.unsqueeze(-2), y.unsqueeze(-2))))


@lru_cache(maxsize=64)
def factors_g(lmax1: int, lmax2: int, lmax_out: int, half: str) -> np.ndarray:
    """The factor g for every path of one half, [lmax1 + 1, lmax2 + 1, lmax_out + 1], read-only."""
    factor = gaunt_coefficient if half == "even" else bracket_coefficient
    g = np.zeros((lmax1 + 1, lmax2 + 1, lmax_out + 1))
    for a in range(lmax1 + 1):
        for b in range(lmax2 + 1):
            first = abs(a - b) + (half == "odd")
            for c in range(first, min(a + b, lmax_out) + 1, 2):
                g[a, b, c] = factor(a, b, c)
    g.flags.writeable = False
    return g


def _unit_variance(g: np.ndarray) -> np.ndarray:
    """1 / sqrt(sum g^2 / (2 l3 + 1)), and 1 where nothing arrives."""
    variance = np.square(g).sum(axis=(0, 1)) / (2 * np.arange(g.shape[2]) + 1)
    return np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1)), 1.0)


def _degree(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InvalidInput.argument(name, expected="an integer >= 0", got=value)
    return int(value)


def _positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInput.argument(name, expected="an integer >= 1", got=value)
    return int(value)


def _output_degree(lmax1: int, lmax2: int, lmax_out: object) -> int:
    if lmax_out is None:
        return lmax1 + lmax2
    value = _degree("lmax_out", lmax_out)
    if value > lmax1 + lmax2:
        raise InvalidInput.argument("lmax_out", expected=f"at most lmax1 + lmax2 = {lmax1 + lmax2}", got=value)
    return value


def _packed_degree(name: str, x: Tensor) -> int:
    inputs.check_tensor(name, x)
    if x.dim() == 0:
        raise InvalidInput.argument(name, expected="(L + 1)^2 columns", got="no columns")
    size = round(x.shape[-1] ** 0.5)
    if size < 1 or size * size != x.shape[-1]:
        raise InvalidInput.argument(name, expected="(L + 1)^2 columns", got=f"{x.shape[-1]} columns")
    return size - 1
