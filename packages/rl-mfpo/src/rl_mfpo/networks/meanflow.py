"""The network of the average velocity u(s, x, r, t), and of the average divergence: one class, another output width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor, nn

from rl_mfpo.networks.mlp import MLP, gelu_dual, make_linear

FREQUENCIES, FREQUENCY_STD, EMBEDDING = 64, 0.2, 64


class TimeEmbedder(nn.Module):
    """Learnable Fourier features of a time, then two linear layers."""

    def __init__(self, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(FREQUENCY_STD * torch.randn(FREQUENCIES, generator=generator))
        self.inner = make_linear(2 * FREQUENCIES, EMBEDDING, generator)
        self.outer = make_linear(EMBEDDING, EMBEDDING, generator)

    def forward(self, t: Tensor) -> Tensor:
        """Embedding of times (B, 1) -> (B, 64)."""
        phase = (2 * math.pi * t) * self.frequencies
        features = torch.cat([torch.cos(phase), torch.sin(phase)], -1)
        out: Tensor = self.outer(F.gelu(self.inner(features), approximate="tanh"))
        return out

    def dual(self, t: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        """Embedding and its derivative along dt, both (B, 64)."""
        phase = (2 * math.pi * t) * self.frequencies
        cos, sin = torch.cos(phase), torch.sin(phase)
        d_phase = (2 * math.pi * dt) * self.frequencies
        h, dh = (
            self.inner(torch.cat([cos, sin], -1)),
            F.linear(torch.cat([-sin * d_phase, cos * d_phase], -1), self.inner.weight),
        )
        h, dh = gelu_dual(h, dh)
        return self.outer(h), F.linear(dh, self.outer.weight)


class StepConstants(NamedTuple):
    """Parts of the first layer that do not depend on a sample: see `MeanFlowNet.constants`."""

    versions: list[int]  # of the weights that the constants come from
    bias: Tensor  # a copy of the first layer's bias
    times: Tensor  # (T, H): embedding and bias of each sampling step, from t = 1 down
    x_weight: Tensor  # (A, H)
    obs_weight: Tensor  # (O, H)
    blocks: list[tuple[Tensor, Tensor, Tensor, Tensor]]  # views of the other layers


class MeanFlowNet(nn.Module):
    """A network of (x, s, t, h) with h = t - r.

    Parameters
    ----------
    obs_dim, act_dim : int
    out_dim : int
        The number of action dimensions for the velocity, 1 for the divergence.
    hidden_sizes : sequence of int
    generator : torch.Generator, optional
        For the weights; on the CPU.
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        out_dim: int,
        hidden_sizes: Sequence[int],
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.obs_dim, self.act_dim = obs_dim, act_dim
        self.embed_t = TimeEmbedder(generator=generator)
        self.embed_h = TimeEmbedder(generator=generator)
        self.mlp = MLP(act_dim + obs_dim + EMBEDDING, hidden_sizes, out_dim, generator=generator)
        self._constants: dict[tuple[int, bool], StepConstants] = {}
        self._watched: list[Tensor] = []
        self.register_load_state_dict_post_hook(_forget_constants)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, obs: Tensor, t: Tensor, h: Tensor) -> Tensor:
        """Output (B, out_dim) of x (B, A), obs (B, O), t and h (B, 1), for training."""
        out: Tensor = self.mlp(torch.cat([x, obs, self.embed_t(t) + self.embed_h(h)], -1))
        return out

    def dual(
        self, x: Tensor, obs: Tensor, t: Tensor, h: Tensor, dx: Tensor, dt: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Output and its derivative along (dx, dt) at fixed r, so that dh = dt.

        Parameters
        ----------
        x, obs, t, h : Tensor
            As for `forward`.
        dx : Tensor, shape (..., B, A)
            Several tangents share one primal pass.
        dt : Tensor, shape (B, 1), optional
            None: time stands still.
        """
        first = self.mlp.first
        dh_ = F.linear(dx, first.weight[:, : self.act_dim])
        if dt is None:
            embedding = self.embed_t(t) + self.embed_h(h)
        else:
            (et, det), (eh, deh) = self.embed_t.dual(t, dt), self.embed_h.dual(h, dt)
            embedding = et + eh
            dh_ = dh_ + F.linear(det + deh, first.weight[:, -EMBEDDING:])
        return self.mlp.dual_tail(first(torch.cat([x, obs, embedding], -1)), dh_)

    def constants(self, steps: int, *, instantaneous: bool = False) -> StepConstants:
        """What the sampler of `steps` steps needs of the first layer, kept until a weight changes.

        `instantaneous`: h = 0 at each step, the velocity instead of the average velocity.
        """
        kept = self._constants.get((steps, instantaneous))
        # A tensor's version counts its changes in place. torch's fused optimisers do not count as such, so the bias
        # itself is compared too.
        if (
            kept is not None
            and kept.versions == [p._version for p in self._watched]
            and torch.equal(kept.bias, self._watched[0])
        ):
            return kept
        first = self.mlp.first
        if not self._watched:
            self._watched = [first.bias, first.weight, *self.embed_t.parameters(), *self.embed_h.parameters()]
        # What is kept must be of use outside a caller's inference mode too.
        with torch.inference_mode(mode=False), torch.no_grad():
            t = torch.arange(steps, 0, -1, device=first.weight.device, dtype=first.weight.dtype).unsqueeze(1) / steps
            h = torch.full_like(t, 0.0 if instantaneous else 1 / steps)
            weight = first.weight.detach().t().contiguous()
            times = torch.addmm(first.bias, self.embed_t(t) + self.embed_h(h), weight[-EMBEDDING:])
            made = StepConstants(
                [p._version for p in self._watched],
                first.bias.detach().clone(),
                times,
                weight[: self.act_dim],
                weight[self.act_dim : -EMBEDDING],
                self.mlp.views().blocks,
            )
        self._constants[steps, instantaneous] = made
        return made

    def _forget(self, *_: object) -> None:
        self._constants, self._watched = {}, []

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # Weights that move to a device or dtype lie elsewhere.
        self._forget()
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, object]:
        # Copies and pickles start without the kept constants.
        return {**self.__dict__, "_constants": {}, "_watched": []}


def _forget_constants(module: nn.Module, _keys: object) -> None:
    # A state loaded with assign=True brings new tensors.
    if isinstance(module, MeanFlowNet):
        module._forget()
