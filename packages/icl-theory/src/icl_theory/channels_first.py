"""The selective scan with the call signature and layout of mamba-ssm."""

from __future__ import annotations

from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor
from torch.nn import functional

from icl_theory.scan import selective_scan
from icl_theory.scan_checks import check_shapes, check_states, check_tensors


def selective_scan_fn(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the selective scan with the call signature and layout of mamba-ssm, on the CPU (Euler discretisation).

    Parameters
    ----------
    u, delta : Tensor, shape (batch, channels, length)
    A : Tensor, shape (channels, states)
        Real or complex.
    B, C : Tensor, shape (channels, states), (batch, states, length) or (batch, groups, states, length)
        Fixed, varying in time, or varying in time for groups of channels. With a complex `A`, real B and C that vary
        in time hold real and imaginary parts in turn: their last axis is twice as long.
    D : Tensor, shape (channels,), optional
    z : Tensor, shape (batch, channels, length), optional
    delta_bias : Tensor, shape (channels,), optional
        Added to `delta`.
    delta_softplus : bool
        Whether softplus is applied to ``delta + delta_bias``.
    return_last_state : bool

    Returns
    -------
    y : Tensor, shape (batch, channels, length)
        In u's dtype; with a complex `A`, twice the real part, as mamba-ssm has it.
    last_state : Tensor, shape (batch, channels, states)
        Only with `return_last_state`.

    Raises
    ------
    InvalidInput
    """
    _check_channels_first(u, delta, A, B, C, D, z, delta_bias)
    channels = u.shape[1]
    steps = delta if u.dtype == torch.float64 else delta.float()
    if delta_bias is not None:
        steps = steps + delta_bias.to(steps.dtype).unsqueeze(-1)
    if delta_softplus:
        steps = functional.softplus(steps)
    Bt, Ct = (_time_major(t, name, u.shape, A.is_complex()) for t, name in ((B, "B"), (C, "C")))
    groups = max(Bt.shape[1], Ct.shape[1])
    if not groups or channels % groups or any(t.shape[1] not in {1, groups} for t in (Bt, Ct)):
        raise InvalidInput.argument(
            "B, C",
            expected=f"one number of groups that divides {channels}, or one group",
            got=f"{Bt.shape[1]}, {Ct.shape[1]} groups",
        )
    width = channels // groups
    ys, lasts = [], []
    for g in range(groups):
        rows = slice(g * width, (g + 1) * width)
        y, last = selective_scan(
            u[:, rows].transpose(1, 2).to(steps.dtype),
            steps[:, rows].transpose(1, 2),
            A[rows],
            Bt[:, g % Bt.shape[1]],
            Ct[:, g % Ct.shape[1]],
            return_last_state=True,
        )
        ys.append(y)
        lasts.append(last)
    y, last = torch.cat(ys, 2).transpose(1, 2), torch.cat(lasts, 1)
    if y.is_complex():
        y = 2 * y.real
    if D is not None:
        y = y + u * D.unsqueeze(-1)
    if z is not None:
        y = y * functional.silu(z)
    y = y.to(u.dtype)
    return (y, last) if return_last_state else y


def _check_channels_first(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Any, z: Any, delta_bias: Any
) -> None:
    given = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z, "delta_bias": delta_bias}
    check_tensors(given, frozenset({"D", "z", "delta_bias"}))
    if u.ndim != 3 or u.is_complex():
        raise InvalidInput.argument(
            "u", expected="a real tensor of shape (batch, channels, length)", got=f"{u.dtype}, shape {tuple(u.shape)}"
        )
    channels = u.shape[1]
    check_states(A, channels)
    wanted = {"delta": tuple(u.shape), "D": (channels,), "z": tuple(u.shape), "delta_bias": (channels,)}
    check_shapes(given, wanted)


def _time_major(t: Tensor, name: str, shape: tuple[int, ...], complex_: bool) -> Tensor:
    """Return B or C as (batch, groups, length, states)."""
    batch, channels, length = shape
    if t.ndim == 2 and t.shape[0] in {1, channels}:
        # Fixed but different for every channel: a group a channel.
        return t[None, :, None, :].expand(batch, t.shape[0], length, t.shape[1])
    if t.ndim == 3:
        t = t.unsqueeze(1)
    if t.ndim != 4 or t.shape[0] != batch:
        raise InvalidInput.argument(
            name,
            expected="shape (channels, states), (batch, states, length) or (batch, groups, states, length)",
            got=f"{t.shape}",
        )
    if complex_ and not t.is_complex() and t.shape[-1] == 2 * length:
        t = torch.view_as_complex(t.reshape(*t.shape[:-1], length, 2).contiguous())
    if t.shape[-1] != length:
        raise InvalidInput.argument(name, expected=f"last axis of length {length}", got=f"shape {tuple(t.shape)}")
    return t.transpose(2, 3)
