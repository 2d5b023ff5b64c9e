"""Adam, one fused call a step.

`torch.optim.Adam` imports torch's compiler when it is made (seconds, also for a policy that is only loaded to act), and
spends as much time around its fused kernel as in it where networks are small. This is that kernel and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

BETAS, EPS = (0.9, 0.999), 1e-8


class Adam:
    """Adam without weight decay, for parameters that have a gradient at every step.

    Parameters
    ----------
    parameters : iterable of torch.nn.Parameter
    lr : float
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr
        self._mean: list[Tensor] = []
        self._square: list[Tensor] = []
        self._steps = torch.zeros((), device=self.parameters[0].device)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the gradients."""
        if not self._mean:
            self._mean = [torch.zeros_like(p) for p in self.parameters]
            self._square = [torch.zeros_like(p) for p in self.parameters]
        self._steps += 1
        parameters: list[Tensor] = list(self.parameters)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        torch._fused_adam_(
            parameters, gradients, self._mean, self._square, [], [self._steps] * len(parameters),
            lr=self.lr, beta1=BETAS[0], beta2=BETAS[1], weight_decay=0.0, eps=EPS, amsgrad=False, maximize=False,
        )  # fmt: skip
        # The kernel does not count as a change in place; the policy's kept constants go by that count.
        torch.autograd.graph.increment_version(parameters)

    def state(self) -> list[list[Tensor]]:
        """Copies of the moments and the number of steps."""
        return [[t.clone() for t in part] for part in (self._mean, self._square, [self._steps])]

    def load(self, state: Sequence[Sequence[Tensor]]) -> None:
        """Continue from a `state`, on this optimiser's device."""
        device = self._steps.device
        self._mean, self._square, (self._steps,) = ([t.clone().to(device) for t in part] for part in state)
