"""The optimizers that the claims are held against and torch does not have, in their shortest form."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from optim_bas.blocks import as_matrix, block_mean, block_runs, read_layout, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn


class _Simple(torch.optim.Optimizer):
    """One tensor at a time, contiguous float32."""

    def __init__(self, params: Sequence[Tensor], lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.mul_(1 - group["lr"] * group["weight_decay"])
                    self._move(param, param.grad, self.state[param], group)
        return loss

    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError


class Lion(_Simple):
    """Lion (arXiv 2302.06675, program 1): the sign of a look-ahead, every entry moved as far."""

    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        m = state.setdefault("exp_avg", torch.zeros_like(param))
        param.sub_(group["lr"] * (beta1 * m + (1 - beta1) * grad).sign())
        m.lerp_(grad, 1 - beta2)


class AdamMini(_Simple):
    """The rule of Adam-mini (arXiv 2406.16793) on rows: AdamW with one second moment a row, momentum kept as it is."""

    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        layout = read_layout(param.shape, "row")
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros(layout.state_shape))
        state["step"] += 1
        m, v, t = state["exp_avg"].lerp_(grad, 1 - beta1), state["exp_avg_sq"], state["step"]
        v.lerp_(block_mean(grad.square(), layout), 1 - beta2)
        root = (v / (1 - beta2**t)).sqrt() + 1e-8
        rate = group["lr"] / (1 - beta1**t)
        (w, _), (momentum, _) = as_matrix(param, layout), as_matrix(m, layout)
        for w3, m3, r3 in zip(runs(w, layout), runs(momentum, layout), block_runs(root, layout)):
            w3.sub_(rate * m3 / r3)


def gefen(
    model: nn.Module, lr: float, betas: tuple[float, float], weight_decay: float
) -> tuple[torch.optim.Optimizer, ...]:
    """Gefen itself, the nearest optimizer with a shared second moment, where it is installed."""
    # By name: a peer of the benchmarks, which no package depends on.
    peer = import_module("gefen")
    with contextlib.redirect_stdout(io.StringIO()):  # it announces itself
        return (peer.Gefen(list(model.parameters()), lr=lr, betas=betas, weight_decay=weight_decay),)


def muon(
    model: nn.Module, lr: float, betas: tuple[float, float], weight_decay: float
) -> tuple[torch.optim.Optimizer, ...]:
    """Torch's Muon for the matrices between embedding and head, AdamW at 3e-3 for the rest."""
    hidden: list[Tensor] = []
    rest: list[Tensor] = []
    for name, param in model.named_parameters():
        outer = name.partition(".")[0] in ("tokens", "positions", "head", "patches")
        (hidden if param.ndim == 2 and not outer else rest).append(param)
    return (
        torch.optim.Muon(hidden, lr=lr, weight_decay=weight_decay),
        torch.optim.AdamW(rest, lr=3e-3, betas=betas, weight_decay=weight_decay, fused=True),
    )
