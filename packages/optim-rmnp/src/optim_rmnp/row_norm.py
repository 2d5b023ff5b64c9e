"""Row normalisation and the scale of its update: pure functions of tensors and shapes."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor

# The least floor of a norm: with eps 0 a row of zeros would be 0/0.
LEAST_EPS = 1e-30
ADJUST_LR_FNS = ("original", "match_rms_adamw", "spectral_unclamped", "none")


def row_normalize(x: Tensor, *, eps: float = 1e-12, dim: int = -1) -> Tensor:
    """Divide every row by its Euclidean norm: the preconditioner ``diag(M M^T)^(-1/2) M`` of RMNP.

    Parameters
    ----------
    x : torch.Tensor
        Floating point, at least one dimension. Half precision is normalised in float32, since a row of 4096
        entries of 2000 has a norm that float16 cannot hold.
    eps : float
        Floor of the norm, so that a row of zeros stays zero.
    dim : int
        The dimension a norm runs over; for a weight of shape (out_features, in_features) the last.

    Returns
    -------
    torch.Tensor
        Shape and dtype of `x`; every row has norm 1, or its norm over `eps` if that is below 1. A row that holds
        a NaN or an infinity, or whose squares overflow (a norm above 1.8e19 in float32), is NaN throughout.

    Raises
    ------
    InvalidInput
        If `x` is not a floating-point tensor with a dimension `dim`, or `eps` is negative or not finite.

    Notes
    -----
    arXiv 2603.20527, algorithm RMNP; the official code has `eps` as a floor, its printed algorithm as an addend.
    """
    given: Any = x
    if not isinstance(given, Tensor) or not given.is_floating_point() or given.ndim == 0:
        got = f"{given.dtype} of shape {tuple(given.shape)}" if isinstance(given, Tensor) else given
        raise InvalidInput.argument("x", expected="a floating-point tensor of one or more dimensions", got=got)
    axis: Any = dim
    if isinstance(axis, bool) or not isinstance(axis, int) or not -x.ndim <= dim < x.ndim:
        raise InvalidInput.argument("dim", expected=f"an int from {-x.ndim} to {x.ndim - 1}", got=dim)
    floor: Any = eps
    if isinstance(floor, bool) or not isinstance(floor, (int, float)) or not 0 <= eps <= sys.float_info.max:
        raise InvalidInput.argument("eps", expected="a finite number >= 0", got=eps)
    wide = x.to(compute_dtype(x.dtype))
    return (wide / floored_norm(wide, eps, dim)).to(x.dtype)


def floored_norm(x: Tensor, eps: float, dim: int = -1) -> Tensor:
    """Norms along `dim` (kept), at least `eps`; NaN where a norm is not finite, so that no such row passes as 0."""
    # what the dtype cannot hold is as good a floor as the largest that it can
    eps = min(max(eps, LEAST_EPS), torch.finfo(x.dtype).max)
    norm: Tensor = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    if x.requires_grad:
        return (norm + (norm - norm)).clamp_min(eps)
    return norm.add_(norm - norm).clamp_min_(eps)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of all arithmetic on tensors of `dtype`: float64 for float64, float32 for the rest."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def update_scale(rows: int, fan_in: int, adjust_lr_fn: str | None = None) -> float:
    """The factor s on a row-normalised update of `rows` x `fan_in` entries.

    Parameters
    ----------
    rows : int
        Output neurons of one matrix, m.
    fan_in : int
        Entries a row, n.
    adjust_lr_fn : {None, "original", "match_rms_adamw", "spectral_unclamped", "none"}
        As in `torch.optim.Muon`: sqrt(max(1, m/n)), 0.2 sqrt(n), sqrt(m/n), or 1 (the printed algorithm).

    Returns
    -------
    float
        s. An entry of the row-normalised matrix has the root mean square 1/sqrt(n) whatever m is, so
        "match_rms_adamw" gives exactly 0.2; Muon's own 0.2 sqrt(max(m, n)) would not.
    """
    if rows == 0 or fan_in == 0:
        return 1.0
    if adjust_lr_fn in (None, "original"):
        return math.sqrt(max(1.0, rows / fan_in))
    if adjust_lr_fn == "match_rms_adamw":
        return 0.2 * math.sqrt(fan_in)
    if adjust_lr_fn == "spectral_unclamped":
        return math.sqrt(rows / fan_in)
    if adjust_lr_fn == "none":
        return 1.0
    raise InvalidInput.argument("adjust_lr_fn", expected=f"None or one of {', '.join(ADJUST_LR_FNS)}", got=adjust_lr_fn)
