"""The step as torch.compile fuses it for CUDA: float8 is converted by the hardware, and a row stays in cache.

Not for CPUs, where the one-pass kernel is faster and needs no compiler. The rounding of weights at random is left to
plain torch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from optim_bas.fp8 import FORMATS, encode_with, noise_bits, round_at_random, scale_of
from optim_bas.step import average, direction, move, size_of, step_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from optim_bas.step import Rule
    from optim_bas.tiles import Work


def functional_step(
    w: Tensor,
    g: Tensor,
    code: Tensor,
    scale: Tensor | None,
    v: Tensor,
    numbers: Tensor,
    rule: Rule,
    dtype: torch.dtype,
    noise: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """New weight, momentum, scale and second moment of one run of blocks: no argument is written.

    Parameters
    ----------
    w, g, code : torch.Tensor
        Views (rows, blocks, entries).
    scale, v : torch.Tensor
        (rows, blocks, 1); `scale` is None for a momentum in a plain float.
    numbers : torch.Tensor
        lr and the two corrections, float32, on the device: they stand in for the rule's, so that neither a schedule
        nor the step number recompiles.
    rule : Rule
    dtype : torch.dtype
        Of the momentum.
    noise : torch.Tensor or None
        Of `noise_bits`.

    Returns
    -------
    tuple of torch.Tensor
    """
    lr, correction1, correction2 = numbers.unbind()
    wide = torch.float64 if w.dtype == torch.float64 else torch.float32
    signed = g.to(wide) * (-1 if rule.maximize else 1)
    m = code.to(wide) if scale is None else code.view(dtype).to(torch.float32).mul(scale).to(wide)
    m = average(m, signed, rule)
    x = direction(m, signed, rule)
    second = rule.beta2 * v + (1 - rule.beta2) * signed.square().mean(dim=-1, keepdim=True)
    a = step_size(size_of(x, rule) / x.shape[-1], second, rule, correction1, correction2)
    moved = move(w.to(wide), x, a, rule, lr)
    if scale is None or dtype not in FORMATS:
        stored = m.to(code.dtype)
        if noise is not None and code.dtype == torch.bfloat16:
            stored = round_at_random(m.float(), code.dtype, noise)
        return moved.to(w.dtype), stored, None, second.to(v.dtype)
    new_scale = scale_of(m.abs().amax(dim=-1, keepdim=True).float(), dtype)
    return moved.to(w.dtype), encode_with(m.float(), new_scale, dtype, noise), new_scale, second.to(v.dtype)


def step_compiled(works: list[Work]) -> None:
    """One step on every run of one tensor, in place.

    Parameters
    ----------
    works : list of Work
        On one CUDA device, weights rounded to nearest.
    """
    for work in works:
        rule = work.rule
        lr = torch.as_tensor(rule.lr, dtype=torch.float32, device=work.param.device).reshape(())
        corrections = torch.tensor([rule.correction1, rule.correction2], device=work.param.device)
        numbers = torch.cat([lr.view(1), corrections])
        noise = None
        if work.key is not None:
            at = (slice(0, work.param.shape[0]), slice(0, work.param.shape[1]), slice(0, work.param.shape[2]))
            noise = noise_bits(work.place.index(at, work.param.device), work.key)
        steady = (rule.beta1, rule.beta2, rule.eps, rule.weight_decay, rule.scale, rule.nesterov, rule.maximize)
        _compiled(steady)(work.param, work.grad, work.code, work.scale, work.v, numbers, work.dtype, noise)


@cache
def _compiled(steady: tuple[float, float, float, float, str, bool, bool]) -> Callable[..., None]:
    from optim_bas.step import Rule

    beta1, beta2, eps, weight_decay, scale_name, nesterov, maximize = steady
    rule = Rule(1, 0.0, beta1, beta2, eps, weight_decay, scale_name, nesterov, maximize)

    def step(
        w: Tensor,
        g: Tensor,
        code: Tensor,
        scale: Tensor | None,
        v: Tensor,
        numbers: Tensor,
        dtype: torch.dtype,
        noise: Tensor | None,
    ) -> None:
        new_w, new_code, new_scale, new_v = functional_step(w, g, code, scale, v, numbers, rule, dtype, noise)
        w.copy_(new_w)
        code.copy_(new_code)
        v.copy_(new_v)
        if scale is not None and new_scale is not None:
            scale.copy_(new_scale)

    return torch.compile(step, dynamic=False)
