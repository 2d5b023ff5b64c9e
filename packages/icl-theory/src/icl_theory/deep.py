"""Stacks of gated layers, and attention baselines, that read prompts as the one-layer models do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from lemmata_core.check import in_range, one_of, positive_int
from lemmata_core.rng import generator
from torch import Tensor, nn
from torch.nn import functional

from icl_theory.gated import GATES, RETNET_DECAY, check_tokens
from icl_theory.ssm import MambaLayer

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike

DEEP_GATES = (*GATES, "softmax")


class MixingLayer(nn.Module):
    """out_t = sum over i <= t of G_(i,t) (C_t . B_i) u_i, with a gate shared by channels, or softmax attention.

    Written out over pairs of positions, for prompts of tens of tokens.

    Parameters
    ----------
    d_model : int
    gate : str
        One of `DEEP_GATES` but "mamba", which is `MambaLayer`.
    delta : float
        W_B and W_C start at zero but for `delta` on the diagonal.
    rng : numpy.random.Generator, int or None
    """

    def __init__(self, d_model: int, gate: str, delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__()
        self.gate = one_of(gate, "gate", tuple(g for g in DEEP_GATES if g != "mamba"))
        start = delta * torch.eye(d_model)
        self.W_B, self.W_C = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        shape: tuple[int, ...] = (d_model, d_model) if gate == "gla" else (1, d_model)
        if gate in {"mamba2", "gated_retention", "gla"}:
            draw = generator(rng).normal(0, 1 / math.sqrt(d_model), shape)
            self.w = nn.Parameter(torch.from_numpy(draw).float())
        else:
            self.register_parameter("w", None)

    def forward(self, u: Tensor) -> Tensor:
        """From (batch, length, d_model) to the same."""
        B, C = u @ self.W_B.T, u @ self.W_C.T
        length = u.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=u.device).tril()
        if self.gate == "gla":
            assert self.w is not None  # noqa: S101
            keep = torch.cumsum(functional.logsigmoid(u @ self.w.T), 1)
            # Clamped before the exponential: pairs with i > t are masked, and must not overflow.
            decay = torch.exp((keep[:, :, None] - keep[:, None]).clamp(max=0))
            scores = torch.einsum("btn,btin,bin->bti", C, decay, B)
        else:
            scores = C @ B.transpose(1, 2)
        if self.gate == "softmax":
            weights = torch.softmax((scores / math.sqrt(B.shape[-1])).masked_fill(~later, -math.inf), -1)
        else:
            weights = (scores * self._gates(u)).masked_fill(~later, 0.0)
        return weights @ u

    def _gates(self, u: Tensor) -> Tensor:
        """G_(i,t) as (batch or 1, t, i)."""
        length = u.shape[1]
        if self.gate == "retnet":
            place = torch.arange(length, device=u.device, dtype=u.dtype)
            return RETNET_DECAY ** (place[:, None] - place).clamp(min=0)
        gate: Tensor | None = self.w
        if gate is None or self.gate == "gla":
            return u.new_ones(1)
        a = (u @ gate.T)[..., 0]
        step = functional.softplus(a) if self.gate == "mamba2" else -functional.logsigmoid(a)
        total = torch.cumsum(step, 1)
        decay = torch.exp(-(total[:, :, None] - total[:, None]).clamp(min=0))
        return decay * step[:, None] if self.gate == "mamba2" else decay


class DeepICL(nn.Module):
    """Layers on (x; y) tokens: hidden ones are residual, the last is read at the query's label.

    Parameters
    ----------
    d : int
        Dimension of x.
    n_layers : int
    gate : {"mamba", "none", "mamba2", "retnet", "gated_retention", "gla", "softmax"}
    delta : float
        Start of the diagonals of W_B and W_C, > 0.
    rng : numpy.random.Generator, int or None
        Draws the gates.

    Raises
    ------
    InvalidInput
    """

    def __init__(self, d: int, n_layers: int = 3, gate: str = "mamba", delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__()
        self.d = positive_int(d, "d")
        self.gate = one_of(gate, "gate", DEEP_GATES)
        in_range(delta, "delta", 0.0, low_open=True)
        source = generator(rng)
        self.layers = nn.ModuleList(
            MambaLayer(d + 1, delta=delta, rng=source) if gate == "mamba" else MixingLayer(d + 1, gate, delta, source)
            for _ in range(positive_int(n_layers, "n_layers"))
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """From tokens (n, length + 1, d + 1) to F (n,), whose sign is the prediction."""
        check_tokens(tokens, self.d, next(self.parameters()).dtype)
        u = tokens
        for layer in self.layers[:-1]:
            u = u + layer(u)
        return torch.as_tensor(self.layers[-1](u)[:, -1, -1])


class AttentionICL(nn.Module):
    """One attention layer with several heads, read at the query's label: the paper's appendix baselines.

    F = sum over heads h of o_h sum over i of A^h_i y_i, A^h the softmax (or, for linear attention, the plain value) of
    (W_B^h p_i) . (W_C^h p_q).

    Parameters
    ----------
    d : int
    n_heads : int
        Every head sees the whole token.
    softmax : bool
    delta : float
        W_B starts as `delta` on the diagonal, W_C too; heads beyond the first get noise of 0.1 delta to differ.
    rng : numpy.random.Generator, int or None

    Raises
    ------
    InvalidInput
    """

    def __init__(self, d: int, n_heads: int = 1, softmax: bool = True, delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__()
        self.d, heads = positive_int(d, "d"), positive_int(n_heads, "n_heads")
        delta = in_range(delta, "delta", 0.0, low_open=True)
        self.softmax = bool(softmax)
        start = torch.zeros(heads, d + 1, d + 1)
        start[:, range(d), range(d)] = delta
        noise = torch.from_numpy(generator(rng).normal(0, 0.1 * delta, (2, heads, d + 1, d + 1))).float()
        noise[:, 0] = 0
        self.W_B, self.W_C = nn.Parameter(start + noise[0]), nn.Parameter(start + noise[1])
        self.out = nn.Parameter(torch.full((heads,), 1 / heads))

    def forward(self, tokens: Tensor) -> Tensor:
        """From tokens (n, length + 1, d + 1) to F (n,)."""
        check_tokens(tokens, self.d, self.W_B.dtype)
        query = torch.einsum("nd,hmd->nhm", tokens[:, -1], self.W_C)
        # The query itself is left out: its label is not known, and softmax would spend most of its weight on it.
        scores = torch.einsum("nid,hmd,nhm->nhi", tokens[:, :-1], self.W_B, query)
        weights = torch.softmax(scores, -1) if self.softmax else scores
        return torch.einsum("nhi,ni,h->n", weights, tokens[:, :-1, -1], self.out)
