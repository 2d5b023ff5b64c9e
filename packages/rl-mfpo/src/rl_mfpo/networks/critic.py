"""Twin critics: two networks of (s, a), categorical (C51) or scalar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor, nn

from rl_mfpo.networks.mlp import CHUNK, MLP, Tail, plain_blocks, run_blocks

PAD_FROM = 256  # rows from which padding the atoms pays
NO_MASS = -1e30  # a logit whose softmax is exactly 0


class TwinCritic(nn.Module):
    """Two critics that share their support.

    Two separate linear calls a layer: one batched product is slower on a CPU (about half the rate).

    Parameters
    ----------
    obs_dim, act_dim : int
    hidden_sizes : sequence of int
    n_atoms : int
        1 for scalar critics.
    v_min, v_max : float
        Ends of the support.
    generator : torch.Generator, optional
        For the weights; on the CPU.
    """

    support: Tensor  # (n_atoms,), evenly spaced

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden_sizes: Sequence[int],
        *,
        n_atoms: int,
        v_min: float,
        v_max: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.obs_dim, self.n_atoms = obs_dim, n_atoms
        self._run = run_blocks
        self.critics = nn.ModuleList(
            MLP(obs_dim + act_dim, hidden_sizes, n_atoms, generator=generator) for _ in range(2)
        )
        self._pair = cast("tuple[MLP, MLP]", tuple(self.critics))  # found quicker than a list of submodules
        self.register_buffer("support", torch.zeros(n_atoms))
        self.set_support(v_min, v_max)

    def compile_values(self) -> None:
        """Let `torch.compile` build what `values` runs (a minute, at its first call)."""
        self._run = torch.compile(plain_blocks, dynamic=True)

    def set_support(self, v_min: float, v_max: float) -> None:
        """Move the ends of the support."""
        self.support.copy_(torch.linspace(v_min, v_max, self.n_atoms, dtype=torch.float64))

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (or values) of both critics, each (B, n_atoms), for training."""
        joined = torch.cat([obs, action], -1)
        return self._pair[0](joined), self._pair[1](joined)

    @torch.no_grad()
    def values(self, obs: Tensor, actions: Tensor, *, clipped: bool) -> Tensor:
        """Values of several actions a state, without gradient.

        Parameters
        ----------
        obs : Tensor, shape (B, O)
        actions : Tensor, shape (B, K, A)
        clipped : bool
            The lower of the two critics, or their mean.

        Returns
        -------
        Tensor, shape (B, K)
        """
        n, k, _ = actions.shape
        views = [critic.views() for critic in self._pair]
        states, inputs = [], []
        for view in views:
            of_state, of_action = view.first_weight.split_with_sizes([self.obs_dim, actions.shape[-1]])
            states.append(torch.addmm(view.first_bias, obs, of_state))
            inputs.append(of_action)
        heads = [self._head(v, padded=n * k >= PAD_FROM) for v in views]
        if n == 1:
            pair = [
                self._value(torch.addmm(state[0], actions[0], weight), *head)
                for weight, state, head in zip(inputs, states, heads)
            ]
            return (torch.minimum(*pair) if clipped else torch.add(*pair).mul_(0.5)).unsqueeze(0)
        size = max(1, CHUNK // k)
        parts = []
        for i in range(0, n, size):
            rows = actions[i : i + size]
            pair = [
                self._value(torch.matmul(rows, weight).add_(state[i : i + size].unsqueeze(1)).flatten(0, 1), *head)
                for weight, state, head in zip(inputs, states, heads)
            ]
            parts.append(torch.minimum(*pair) if clipped else torch.add(*pair).mul_(0.5))
        joined = parts[0] if len(parts) == 1 else torch.cat(parts)
        return joined.view(n, k)

    def _head(self, views: Tail, *, padded: bool) -> tuple[list[tuple[Tensor, Tensor, Tensor, Tensor]], Tensor]:
        """All blocks and the atoms, with atoms of no mass added up to a multiple of 8: 104 columns beat 101."""
        extra = -self.n_atoms % 8 if padded and self.n_atoms > 1 else 0
        if not extra:
            return views.blocks, self.support
        scale, shift, bias, weight = views.blocks[-1]
        wider = F.pad(weight.t(), (0, 0, 0, extra)).t()
        last = (scale, shift, F.pad(bias, (0, extra), value=NO_MASS), wider)
        return [*views.blocks[:-1], last], F.pad(self.support, (0, extra))

    def _value(self, h: Tensor, blocks: list[tuple[Tensor, Tensor, Tensor, Tensor]], atoms: Tensor) -> Tensor:
        logits = self._run(h, blocks)
        return torch.softmax(logits, -1) @ atoms if self.n_atoms > 1 else logits[:, 0]
