"""One-layer recurrences that learn in context: gates, scores and the sum of their products (arXiv 2510.00399)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int
from lemmata_core.rng import generator
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike

GATES = ("mamba", "none", "mamba2", "retnet", "gated_retention", "gla")
RETNET_DECAY = 0.9


def log_gates(a: Tensor) -> Tensor:
    """Log of Mamba's gate weights, log G_i = log s_i + sum of log(1 - s_j) over later j, s = sigmoid(a).

    Parameters
    ----------
    a : Tensor, shape (..., length)
        Pre-activations w . p, the query's last.

    Returns
    -------
    Tensor, shape (..., length)
        In log space: no product of sigmoids underflows, and no cumulative decay is divided by.
    """
    return functional.logsigmoid(a) + _later(functional.logsigmoid(-a))


def gate_weights(a: Tensor) -> Tensor:
    """Mamba's gate weights G; they sum to 1 - prod (1 - s_i). See `log_gates`."""
    given: object = a
    if not isinstance(given, Tensor) or not a.is_floating_point() or a.layout is not torch.strided or a.ndim == 0:
        got = f"{a.dtype}, {a.layout}, shape {tuple(a.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise InvalidInput.argument("a", expected="a dense floating-point tensor of shape (..., length)", got=got)
    return torch.exp(log_gates(a)) if a.shape[-1] else a.clone()


def _later(x: Tensor, dim: int = -1) -> Tensor:
    """Sum over later entries, the entry itself left out."""
    total = torch.flip(torch.cumsum(torch.flip(x, [dim]), dim), [dim])
    # A shift rather than total - x, which would cancel.
    return torch.cat([total.narrow(dim, 1, total.shape[dim] - 1), torch.zeros_like(x.narrow(dim, 0, 1))], dim)


@dataclass(frozen=True)
class Parts:
    """What a one-layer model adds up: F = contributions.sum(1).

    Attributes
    ----------
    scores : Tensor, shape (n, length + 1)
        (W_B p_i) . (W_C p_q), without gate and label.
    gates : Tensor, shape (n, length + 1), or (n, length + 1, states) for "gla"
    contributions : Tensor, shape (n, length + 1)
        gate * label * score.
    """

    scores: Tensor
    gates: Tensor
    contributions: Tensor


class GatedLinearICL(nn.Module):
    """F(P) = sum over i of G_i y_i (W_B p_i) . (W_C p_q): one gated linear layer, read at the query's label.

    Parameters
    ----------
    d : int
        Dimension of x; tokens (x; y) have d + 1 entries.
    d_state : int, optional
        States m >= d; d + 1 if not given.
    gate : {"mamba", "none", "mamba2", "retnet", "gated_retention", "gla"}
        Which G_i: zero-order-hold Mamba with A = -1, s_i prod (1 - s_j); 1 (linear attention); Mamba-2,
        Delta_i prod exp(-Delta_j); 0.9^(t - i); products of a data-dependent scalar; products of a vector gate on keys.
    delta : float
        W_B and W_C start at zero but for `delta` on their first d diagonal entries. In (0, 0.2] in the paper.
    rng : numpy.random.Generator, int or None
        Draws the gate's weights from N(0, I / (d + 1)).

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self, d: int, d_state: int | None = None, gate: str = "mamba", delta: float = 0.2, rng: RNGLike = 0
    ) -> None:
        super().__init__()
        self.d = positive_int(d, "d")
        self.d_state = self.d + 1 if d_state is None else positive_int(d_state, "d_state", minimum=self.d)
        self.gate = one_of(gate, "gate", GATES)
        self.delta = in_range(delta, "delta", 0.0, low_open=True)
        if self.delta > 0.2:
            import warnings

            warnings.warn(f"delta: the theorems want (0, 0.2], got {delta}", UserWarning, stacklevel=2)
        start = torch.zeros(self.d_state, self.d + 1)
        start[range(self.d), range(self.d)] = self.delta
        self.W_B, self.W_C = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        source = generator(rng)
        shape: tuple[int, ...] = (self.d_state, self.d + 1) if gate == "gla" else (self.d + 1,)
        if gate in {"mamba", "mamba2", "gated_retention", "gla"}:
            self.w = nn.Parameter(torch.from_numpy(source.normal(0, 1 / math.sqrt(self.d + 1), shape)).float())
        else:
            self.register_parameter("w", None)

    def _gates(self, tokens: Tensor) -> Tensor:
        n, width = tokens.shape[:2]
        if self.gate == "none":
            return tokens.new_ones(n, width)
        if self.gate == "retnet":
            age = torch.arange(width - 1, -1, -1, device=tokens.device, dtype=tokens.dtype)
            return (RETNET_DECAY**age).expand(n, width)
        assert self.w is not None  # noqa: S101
        a = tokens @ self.w.T if self.gate == "gla" else tokens @ self.w
        if self.gate == "mamba":
            return gate_weights(a)
        if self.gate == "mamba2":
            step = functional.softplus(a)
            return step * torch.exp(-_later(step))
        return torch.exp(_later(functional.logsigmoid(a), dim=1))

    def parts(self, tokens: Tensor) -> Parts:
        """Return scores, gates and contributions of every token.

        Parameters
        ----------
        tokens : Tensor, shape (n, length + 1, d + 1)

        Raises
        ------
        InvalidInput
        """
        check_tokens(tokens, self.d, self.W_B.dtype)
        query = tokens[:, -1] @ self.W_C.T
        keys = tokens @ self.W_B.T
        scores = torch.einsum("nlm,nm->nl", keys, query)
        gates = self._gates(tokens)
        weighed = torch.einsum("nlm,nlm,nm->nl", gates, keys, query) if gates.ndim == 3 else gates * scores
        return Parts(scores, gates, weighed * tokens[..., -1])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return F of shape (n,); its sign is the prediction. `tokens` as in `parts`."""
        return self.parts(tokens).contributions.sum(1)


class MambaICL(GatedLinearICL):
    """`GatedLinearICL` with Mamba's gate."""

    def __init__(self, d: int, d_state: int | None = None, delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__(d, d_state, "mamba", delta, rng)


class LinearAttentionICL(GatedLinearICL):
    """`GatedLinearICL` without a gate: linear attention."""

    def __init__(self, d: int, d_state: int | None = None, delta: float = 0.2, rng: RNGLike = 0) -> None:
        super().__init__(d, d_state, "none", delta, rng)


def check_tokens(tokens: Tensor, d: int, dtype: torch.dtype) -> None:
    """Check the shape of prompts, and that their dtype is the weights'."""
    given: object = tokens
    if not isinstance(given, Tensor) or tokens.ndim != 3 or tokens.shape[-1] != d + 1 or tokens.shape[1] == 0:
        got = f"shape {tuple(tokens.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise InvalidInput.argument("tokens", expected=f"a tensor of shape (n, length + 1, {d + 1})", got=got)
    if tokens.layout is not torch.strided:
        raise InvalidInput.argument("tokens", expected="a dense tensor", got=f"{tokens.layout}")
    # Under autocast the operations cast for themselves.
    if tokens.dtype != dtype and not (tokens.is_floating_point() and torch.is_autocast_enabled(tokens.device.type)):
        raise InvalidInput.argument("tokens", expected=f"{dtype}, as the weights", got=f"{tokens.dtype}")


__all__ = ["GatedLinearICL", "LinearAttentionICL", "MambaICL", "Parts", "gate_weights", "log_gates"]
