"""One BAS step in plain torch: the readable reference, and the pieces of its mathematics that every path shares."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.blocks import Block, as_matrix, block_runs, read_layout, runs, write_back
from optim_bas.checks import check_betas, check_flag, check_number, check_scale, check_step, check_tensor


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of one step of one tensor.

    Attributes
    ----------
    step : int
        t, from 1.
    lr, beta1, beta2, eps, weight_decay : float
    scale : {"rms", "mean"}
    nesterov, maximize : bool
    """

    step: int
    lr: float | Tensor
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    scale: str = "rms"
    nesterov: bool = False
    maximize: bool = False

    @property
    def correction1(self) -> float:
        """The sum of the weights that the direction gives to the gradients so far."""
        return 1 - self.beta1 ** (self.step + self.nesterov)

    @property
    def correction2(self) -> float:
        """The same for the second moment."""
        return 1 - self.beta2**self.step


def bas_step(
    param: Tensor,
    grad: Tensor,
    momentum: Tensor,
    v: Tensor,
    step: int,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    block: Block = "row",
    scale: str = "rms",
    nesterov: bool = False,
) -> Tensor:
    """Apply one BAS update to one tensor, in place: the readable reference of the package, nothing in eight bits.

    Parameters
    ----------
    param, grad, momentum : torch.Tensor
        Of one shape. `param` and `momentum` are overwritten, `grad` is not. Arithmetic is float32 (float64 if `param`
        is).
    v : torch.Tensor
        Second moments, one a block, any shape with that many entries; overwritten.
    step : int
        t, the number of this step: 1 for the first.
    lr, eps, weight_decay : float
        As in `torch.optim.AdamW`.
    betas : tuple of float
        Both in [0, 1).
    block : {"row", "tensor"}, int, or ("rows", int)
        See `optim_bas.blocks.read_layout`.
    scale : {"rms", "mean"}
        What stands for the size of a block's direction.
    nesterov : bool
        Take sign and size of ``beta1 m + (1 - beta1) g`` instead of m.

    Returns
    -------
    torch.Tensor
        The step sizes a_b in units of `lr`, shape of `v`.

    Raises
    ------
    InvalidInput
        If shapes do not agree, a tensor is not of floating point, or another argument is out of range.

    Notes
    -----
    Our reconstruction of Block Adaptive Signum from its abstract::

        m <- beta1 m + (1 - beta1) g
        v_b <- beta2 v_b + (1 - beta2) mean_b(g^2)
        a_b = (rms_b(m) / (1 - beta1^t)) / (sqrt(v_b / (1 - beta2^t)) + eps)
        theta <- theta (1 - lr weight_decay) - lr a_b sign(m)
    """
    for name, tensor in {"param": param, "grad": grad, "momentum": momentum, "v": v}.items():
        check_tensor(name, tensor)
    _check_numbers(step, betas, eps, scale, nesterov)
    for name, value in {"lr": lr, "weight_decay": weight_decay}.items():
        check_number(name, value)
    layout = read_layout(param.shape, block)
    if grad.shape != param.shape or momentum.shape != param.shape:
        got = f"{tuple(param.shape)}, {tuple(grad.shape)} and {tuple(momentum.shape)}"
        raise InvalidInput.argument("param, grad, momentum", expected="three tensors of one shape", got=got)
    if v.numel() != layout.count:
        raise InvalidInput.argument("v", expected=f"{layout.count} entries, one a block", got=f"shape {tuple(v.shape)}")
    rule = Rule(step, lr, *betas, eps, weight_decay, scale, nesterov)
    with torch.no_grad():
        if param.numel() == 0:
            return torch.zeros_like(v)
        (w, copied), (g, _), (m, m_copied) = (as_matrix(t, layout) for t in (param, grad, momentum))
        table = v.reshape(layout.rows, layout.per_row)
        sizes = []
        for w3, g3, m3, v3 in zip(runs(w, layout), runs(g, layout), runs(m, layout), block_runs(table, layout)):
            wide = w3.dtype if w3.dtype == torch.float64 else torch.float32
            signed = g3.to(wide)
            new = average(m3.to(wide), signed, rule)
            x = direction(new, signed, rule)
            v3.copy_(rule.beta2 * v3 + (1 - rule.beta2) * signed.square().mean(-1, keepdim=True))
            a = step_size(size_of(x, rule) / x.shape[-1], v3, rule)
            w3.copy_(move(w3.to(wide), x, a, rule))
            m3.copy_(new)
            sizes.append(a)
        if v.data_ptr() != table.data_ptr():
            v.copy_(table.view(v.shape))
        for tensor, matrix, was_copied in ((param, w, copied), (momentum, m, m_copied)):
            if was_copied:
                write_back(tensor, matrix, layout)
        return torch.cat(sizes, dim=1).reshape(v.shape)


def block_scale(
    direction: Tensor,
    v: Tensor,
    step: int,
    *,
    betas: tuple[float, float],
    eps: float,
    scale: str = "rms",
    nesterov: bool = False,
) -> Tensor:
    """The step sizes a_b in units of the learning rate.

    Parameters
    ----------
    direction : torch.Tensor
        The momentum m after this step's gradient, or with `nesterov` the look-ahead.
    v : torch.Tensor
        Second moments after this step's gradient: shape ``direction.shape[:k]`` for some k, blocks being the
        remaining dimensions, or the same with dimensions of length 1 in their place.
    step : int
        t, from 1.
    betas : tuple of float
    eps : float
    scale : {"rms", "mean"}
    nesterov : bool

    Returns
    -------
    torch.Tensor
        Shape of `v`. 0 where the direction is 0.

    Raises
    ------
    InvalidInput

    Notes
    -----
    By the Cauchy-Schwarz inequality a_b is at most sqrt(sum_k w1_k^2 / w2_k), where w1 and w2 are the weights that
    direction and second moment give to the gradient of step k: 1.165 in the long run for betas (0.9, 0.95).
    """
    check_tensor("direction", direction)
    check_tensor("v", v)
    _check_numbers(step, betas, eps, scale, nesterov)
    lead = len(v.shape)
    while lead and v.shape[lead - 1] == 1 and not (lead <= direction.ndim and tuple(v.shape) == direction.shape[:lead]):
        lead -= 1
    if direction.shape[:lead] != v.shape[:lead] or any(n != 1 for n in v.shape[lead:]):
        expected = f"the shape {tuple(direction.shape)} of the direction without the dimensions of a block"
        raise InvalidInput.argument("v", expected=expected, got=f"shape {tuple(v.shape)}")
    rule = Rule(step, 1.0, *betas, eps, 0.0, scale, nesterov)
    if direction.numel() == 0:
        return torch.zeros_like(v)
    x = direction.reshape(*direction.shape[:lead], -1)
    size = size_of(x, rule).squeeze(-1) / x.shape[-1]
    return step_size(size, v.reshape(size.shape), rule).reshape(v.shape)


def _check_numbers(step: object, betas: object, eps: object, scale: object, nesterov: object) -> None:
    check_step(step)
    check_betas(betas)
    check_number("eps", eps)
    check_scale(scale)
    check_flag("nesterov", nesterov)


def average(m: Tensor, g: Tensor, rule: Rule) -> Tensor:
    """``beta1 m + (1 - beta1) g``: two products and a sum, each rounded, so that every path gives the same bits."""
    return m * rule.beta1 + g * (1 - rule.beta1)


def direction(m: Tensor, g: Tensor, rule: Rule) -> Tensor:
    """What sign and size are taken of: the momentum, or the look-ahead."""
    return average(m, g, rule) if rule.nesterov else m


def size_of(x: Tensor, rule: Rule) -> Tensor:
    """A block's sum of squares, or of magnitudes; `step_size` takes it divided by the block's entries."""
    # x * x, since square() is pow() to torch, ten times slower on a CPU.
    return (x * x if rule.scale == "rms" else x.abs()).sum(dim=-1, keepdim=True)


def step_size(
    mean: Tensor,
    v: Tensor,
    rule: Rule,
    correction1: float | Tensor | None = None,
    correction2: float | Tensor | None = None,
) -> Tensor:
    """a_b from a block's mean square (or mean magnitude) and second moment; the rule's own corrections unless given."""
    size = mean.sqrt() if rule.scale == "rms" else mean
    c1 = rule.correction1 if correction1 is None else correction1
    c2 = rule.correction2 if correction2 is None else correction2
    root = (v / c2).sqrt() + rule.eps
    # With eps = 0 a block without history is 0/0, and one whose squares were below float32 may be more than 0 over 0.
    return torch.where((size == 0) | (root == 0), 0.0, (size / c1) / root)


def move(w: Tensor, x: Tensor, a: Tensor, rule: Rule, lr: float | Tensor | None = None) -> Tensor:
    """``w (1 - lr weight_decay) - lr a sign(x)``; the rule's own `lr` unless given."""
    rate = rule.lr if lr is None else lr
    return w * (1 - rate * rule.weight_decay) - x.sign() * (a * rate)
