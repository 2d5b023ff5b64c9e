"""The multilayer perceptron of every network, with a forward-mode derivative written by hand.

Each hidden layer is Linear -> LayerNorm (eps 1e-6) -> GELU in its tanh form, as in the paper's code; torch's defaults
are 1e-5 and the erf form. x sigmoid(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3), is the same function as the tanh form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor, nn

NORM_EPS = 1e-6
GELU_SLOPE = 2 * math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715
# Rows whose activations stay in the cache: 512 to 2048 are equal within 3 %, all rows at once a quarter slower.
CHUNK = 1024
# Entries up to which the library's GELU, one call, beats four calls in place.
FEW = 8192


@cache
def keep_freed_memory() -> None:
    """Let the allocator keep what a chunk frees for the next one.

    glibc hands blocks of a megabyte straight back to the system, and the page faults of getting them again cost more
    than the operations in between (a GELU of 1024 x 256: 1.0 ms against 0.2). It raises that limit by itself, to the
    largest block that was freed: one of just under its maximum, 32 MiB, never touched, is enough for the process.
    """
    torch.empty(8_000_000, dtype=torch.float32)


@cache
def _slope(device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.full((1,), GELU_SLOPE, device=device, dtype=dtype)


def gelu_(x: Tensor) -> Tensor:
    """GELU in its tanh form, in place; only where no gradient is wanted."""
    gate = torch.addcmul(_slope(x.device, x.dtype), x, x, value=GELU_SLOPE * GELU_CUBIC)
    return x.mul_(gate.mul_(x).sigmoid_())


class Tail(NamedTuple):
    """Views of the weights of an `MLP`; see `MLP.views`."""

    place: tuple[int, int]
    first_weight: Tensor  # (in_dim, H)
    first_bias: Tensor
    blocks: list[
        tuple[Tensor, Tensor, Tensor, Tensor]
    ]  # norm's weight and bias, next layer's bias and weight (in, out)


def run_blocks(h: Tensor, blocks: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> Tensor:
    """What follows the first linear layer, without gradient; h (n, H) is its output, and is not changed."""
    for scale, shift, bias, weight in blocks:
        h = torch.layer_norm(h, scale.shape, scale, shift, NORM_EPS)
        h = F.gelu(h, approximate="tanh") if h.numel() <= FEW else gelu_(h)
        h = torch.addmm(bias, h, weight)
    return h


def plain_blocks(h: Tensor, blocks: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> Tensor:
    """`run_blocks` as a compiler likes it: no choice by size, nothing in place."""
    for scale, shift, bias, weight in blocks:
        h = F.gelu(torch.layer_norm(h, scale.shape, scale, shift, NORM_EPS), approximate="tanh")
        h = torch.addmm(bias, h, weight)
    return h


def gelu_dual(x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
    """GELU and its derivative along dx; dx may have further axes in front."""
    square = torch.mul(x, x)
    gate = torch.sigmoid(x * (GELU_SLOPE + GELU_SLOPE * GELU_CUBIC * square))
    y = x * gate
    # d/dx x s(z) = s + x s (1 - s) z' = s + (y - y s) z'
    slope = gate + (y - y * gate) * square.mul_(3 * GELU_SLOPE * GELU_CUBIC).add_(GELU_SLOPE)
    return y, slope * dx


def norm_dual(x: Tensor, dx: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Layer normalisation and its derivative along dx; dx may have further axes in front."""
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + norm.eps)
    hat = centred.mul_(scale)
    d_centred = dx - dx.mean(-1, keepdim=True)
    d_hat = (d_centred - hat * (hat * dx).mean(-1, keepdim=True)) * scale
    return torch.addcmul(norm.bias, hat, norm.weight), d_hat.mul_(norm.weight)


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        # Nothing: the usual start draws from the global generator, and nn.utils.skip_init imports sympy (seconds).
        pass


def make_linear(in_dim: int, out_dim: int, generator: torch.Generator | None) -> nn.Linear:
    """Make a linear layer with Xavier-uniform weights and zero biases."""
    linear = _Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(linear.weight, generator=generator)
    nn.init.zeros_(linear.bias)
    return linear


class MLP(nn.Module):
    """Multilayer perceptron.

    Parameters
    ----------
    in_dim, out_dim : int
    hidden_sizes : sequence of int
    generator : torch.Generator, optional
        For the weights; on the CPU.
    """

    def __init__(
        self, in_dim: int, hidden_sizes: Sequence[int], out_dim: int, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        sizes = [in_dim, *hidden_sizes]
        self.hidden = nn.ModuleList(make_linear(a, b, generator) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(b, eps=NORM_EPS) for b in hidden_sizes)
        self.out = make_linear(sizes[-1], out_dim, generator)
        # In a tuple, which is no submodule: a module finds those by a search that costs as much as a small product.
        self._ends = (self._hidden()[0], self.out)
        self._views: Tail | None = None

    @property
    def first(self) -> nn.Linear:
        """The first linear layer: callers that know its input's structure compute its output themselves."""
        return self._ends[0]

    def _hidden(self) -> list[nn.Linear]:
        return cast("list[nn.Linear]", list(self.hidden))

    def _norms(self) -> list[nn.LayerNorm]:
        return cast("list[nn.LayerNorm]", list(self.norms))

    def forward(self, x: Tensor) -> Tensor:
        """Output of x, (..., in_dim) -> (..., out_dim), for training."""
        return self.tail(self.first(x))

    def tail(self, h: Tensor) -> Tensor:
        """What follows the first linear layer, for training; h is its output."""
        for i, norm in enumerate(self.norms):
            if i:
                h = self.hidden[i](h)
            h = F.gelu(norm(h), approximate="tanh")
        out: Tensor = self.out(h)
        return out

    def views(self) -> Tail:
        """The weights as the paths without gradient read them, kept while the weights stay where they are in memory.

        They are views: a change in place shows in them.
        """
        first, out = self._ends
        place = (first.weight.data_ptr(), out.weight.data_ptr())
        if self._views is None or self._views.place != place:
            with torch.inference_mode(mode=False), torch.no_grad():
                blocks = [
                    (norm.weight.detach(), norm.bias.detach(), layer.bias.detach(), layer.weight.detach().t())
                    for norm, layer in zip(self._norms(), [*self._hidden()[1:], self.out])
                ]
                self._views = Tail(place, self.first.weight.detach().t(), self.first.bias.detach(), blocks)
        return self._views

    def __getstate__(self) -> dict[str, object]:
        # Copies and pickles make views of their own.
        return {**self.__dict__, "_views": None}

    def dual(self, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        """Output and its derivative along dx (forward mode).

        Parameters
        ----------
        x : Tensor, shape (B, in_dim)
        dx : Tensor, shape (..., B, in_dim)
            Several tangents share one primal pass.

        Returns
        -------
        y : Tensor, shape (B, out_dim)
        dy : Tensor, shape (..., B, out_dim)
            Equal to `torch.func.jvp`.
        """
        return self.dual_tail(self.first(x), F.linear(dx, self.first.weight))

    def dual_tail(self, h: Tensor, dh: Tensor) -> tuple[Tensor, Tensor]:
        """`dual` of what follows the first linear layer."""
        for i, (layer, norm) in enumerate(zip(self._hidden(), self._norms())):
            if i:
                h, dh = layer(h), F.linear(dh, layer.weight)
            h, dh = norm_dual(h, dh, norm)
            h, dh = gelu_dual(h, dh)
        return self.out(h), F.linear(dh, self.out.weight)
