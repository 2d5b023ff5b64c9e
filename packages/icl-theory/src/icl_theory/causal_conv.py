"""The depthwise causal convolution of Mamba's block on (batch, length, channels), the layout of the scan.

torch's own convolution wants (batch, channels, length): what stands around it is then copied or read with strides;
the convolution with its gradient would take three times as long on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve every channel with its own taps, looking back only; on any device, with derivatives of any order.

    Parameters
    ----------
    x : Tensor, shape (batch, length, channels)
    weight : Tensor, shape (channels, 1, taps)
        As ``nn.Conv1d(channels, channels, taps, groups=channels)`` holds it; the last tap meets the present.
    bias : Tensor, shape (channels,), optional

    Returns
    -------
    Tensor, shape (batch, length, channels)
    """
    # Row k meets the input k steps back. Rows are contiguous, or no loop over channels would vectorise.
    taps = weight[:, 0].flip(1).T.contiguous()
    y: Tensor = _CausalConv.apply(x, taps)
    return y if bias is None else y + bias


class _CausalConv(torch.autograd.Function):
    """y_t = sum over k of taps_k x_(t-k): as many passes over whole rows as there are taps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        y = x * taps[0]
        for k, tap in enumerate(taps[1 : x.shape[1]], 1):
            y[:, k:].addcmul_(x[:, :-k], tap)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, taps = ctx.saved_tensors
        length = x.shape[1]
        gx = g * taps[0]
        for k, tap in enumerate(taps[1:length], 1):
            gx[:, :-k].addcmul_(g[:, k:], tap)
        gtaps = [(g[:, k:] * x[:, : max(0, length - k)]).sum((0, 1)) for k in range(len(taps))]
        return gx, torch.stack(gtaps)
