"""Layers on the selective scan: the one of arXiv 2510.00399, and the block of the Mamba paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator, torch_generator
from torch import Tensor, nn
from torch.nn import functional

from icl_theory.causal_conv import causal_conv
from icl_theory.scan import selective_scan

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike


def _check_width(hidden: Tensor, width: int, dtype: torch.dtype) -> None:
    given: object = hidden
    if not isinstance(given, Tensor) or hidden.ndim != 3 or hidden.shape[-1] != width:
        got = f"shape {tuple(hidden.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise InvalidInput.argument("input", expected=f"a tensor of shape (batch, length, {width})", got=got)
    # Under autocast the operations cast for themselves.
    cast = hidden.is_floating_point() and torch.is_autocast_enabled(hidden.device.type)
    if hidden.layout is not torch.strided or (hidden.dtype != dtype and not cast):
        got = f"{hidden.dtype}, {hidden.layout}"
        raise InvalidInput.argument("input", expected=f"a dense tensor of {dtype}, as the weights", got=got)


class MambaLayer(nn.Module):
    """Mamba with A = -1 and zero-order hold, every channel with a gate of its own (arXiv 2510.00399, section 3).

    layer(u)_t = sum over i <= t of G_(i,t) (C_t . B_i) u_i, a channel at a time, with G of `gate_weights`, a = W p.

    Parameters
    ----------
    d_model : int
        Channels of a token.
    d_state : int, optional
        States; d_model if not given.
    delta : float
        W_B and W_C start at zero but for `delta` on the diagonal.
    rng : numpy.random.Generator, int or None
        Draws the gates' weights from N(0, I / d_model).

    Raises
    ------
    InvalidInput
    """

    def __init__(self, d_model: int, d_state: int | None = None, delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__()
        self.d_model = positive_int(d_model, "d_model")
        self.d_state = self.d_model if d_state is None else positive_int(d_state, "d_state")
        start = in_range(delta, "delta", 0.0, low_open=True) * torch.eye(self.d_state, self.d_model)
        self.W_B, self.W_C = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        draw = generator(rng).normal(0, 1 / math.sqrt(self.d_model), (self.d_model, self.d_model))
        self.w = nn.Parameter(torch.from_numpy(draw).float())

    def forward(self, u: Tensor) -> Tensor:
        """From (batch, length, d_model) to the same."""
        _check_width(u, self.d_model, self.w.dtype)
        A = -u.new_ones(self.d_model, self.d_state)
        step = functional.softplus(u @ self.w.T)
        y = selective_scan(u, step, A, u @ self.W_B.T, u @ self.W_C.T, discretization="zoh")
        assert isinstance(y, Tensor)  # noqa: S101
        return y


class MambaBlock(nn.Module):
    """The Mamba block: projections, a causal convolution, the selective scan (Euler), a gate.

    Parameter names and shapes are those of the `mixer` of transformers' Mamba: ``load_state_dict`` takes its weights.

    Parameters
    ----------
    d_model : int
    d_state, d_conv, expand : int
        States, width of the convolution, channels of the scan over d_model.
    dt_rank : int, optional
        ceil(d_model / 16) if not given.
    bias, conv_bias : bool
    rng : numpy.random.Generator, int or None
        Draws the initial weights.

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        dt_rank: int | None = None,
        bias: bool = False,
        conv_bias: bool = True,
        rng: RNGLike = 0,
    ) -> None:
        super().__init__()
        self.d_model, self.d_state = positive_int(d_model, "d_model"), positive_int(d_state, "d_state")
        self.d_conv, inner = positive_int(d_conv, "d_conv"), positive_int(expand, "expand") * d_model
        self.d_inner = inner
        self.dt_rank = math.ceil(d_model / 16) if dt_rank is None else positive_int(dt_rank, "dt_rank")
        random = torch_generator(rng)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random.initial_seed())
            self.in_proj = nn.Linear(d_model, 2 * inner, bias=bias)
            self.conv1d = nn.Conv1d(inner, inner, d_conv, groups=inner, padding=d_conv - 1, bias=conv_bias)
            self.x_proj = nn.Linear(inner, self.dt_rank + 2 * d_state, bias=False)
            self.dt_proj = nn.Linear(self.dt_rank, inner, bias=True)
            self.out_proj = nn.Linear(inner, d_model, bias=bias)
            # Step sizes from 0.001 to 0.1, uniform in the logarithm; the bias is their inverse softplus.
            step = torch.exp(torch.rand(inner) * math.log(100.0) + math.log(0.001))
        with torch.no_grad():
            self.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, d_state + 1)).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))

    def forward(self, hidden: Tensor) -> Tensor:
        """From (batch, length, d_model) to the same."""
        _check_width(hidden, self.d_model, self.out_proj.weight.dtype)
        if not hidden.shape[1]:
            return hidden
        x, gate = self.in_proj(hidden).chunk(2, dim=-1)
        x = functional.silu(causal_conv(x, self.conv1d.weight, self.conv1d.bias))
        low, B, C = self.x_proj(x).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        step = functional.softplus(self.dt_proj(low))
        y = selective_scan(x, step, -torch.exp(self.A_log), B, C, self.D, z=gate)
        out: Tensor = self.out_proj(y)
        return out
