"""Twin critics: two networks of (s, a), categorical (C51) or scalar."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor, nn

from rl_mfpo.networks.mlp import CHUNK, MLP

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
        self.critics = nn.ModuleList(
            MLP(obs_dim + act_dim, hidden_sizes, n_atoms, generator=generator) for _ in range(2)
        )
        self.register_buffer("support", torch.zeros(n_atoms))
        self.set_support(v_min, v_max)

    def set_support(self, v_min: float, v_max: float) -> None:
        """Move the ends of the support."""
        self.support.copy_(torch.linspace(v_min, v_max, self.n_atoms, dtype=torch.float64))

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (or values) of both critics, each (B, n_atoms), for training."""
        joined = torch.cat([obs, action], -1)
        return self.critics[0](joined), self.critics[1](joined)

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
        outs = [self._padded_out(critic) for critic in self.critics]
        firsts = [(c.first.weight.t(), c.first.bias) for c in self.critics]
        states = [torch.addmm(bias, obs, weight[: self.obs_dim]) for weight, bias in firsts]
        size = max(1, CHUNK // k)
        parts = []
        for i in range(0, n, size):
            rows = actions[i : i + size]
            pair = [
                self._value(
                    critic, out, torch.matmul(rows, weight[self.obs_dim :]).add_(state[i : i + size].unsqueeze(1))
                )
                for critic, out, (weight, _), state in zip(self.critics, outs, firsts, states)
            ]
            parts.append(torch.minimum(*pair) if clipped else torch.add(*pair).mul_(0.5))
        joined = parts[0] if len(parts) == 1 else torch.cat(parts)
        return joined.view(n, k)

    def _padded_out(self, critic: MLP) -> tuple[Tensor, Tensor, Tensor]:
        """The last layer with atoms of no mass added, up to a multiple of 8: 104 columns are faster than 101."""
        weight, bias = critic.out.weight, critic.out.bias
        extra = -self.n_atoms % 8 if self.n_atoms > 1 else 0
        if not extra:
            return weight.t(), bias, self.support
        return (
            F.pad(weight, (0, 0, 0, extra)).t(),
            F.pad(bias, (0, extra), value=NO_MASS),
            F.pad(self.support, (0, extra)),
        )

    def _value(self, critic: MLP, out: tuple[Tensor, Tensor, Tensor], h: Tensor) -> Tensor:
        weight, bias, atoms = out
        logits = critic.infer_tail(h.flatten(0, 1), (weight, bias))
        return torch.softmax(logits, -1) @ atoms if self.n_atoms > 1 else logits[:, 0]
