"""Which pairs of times the losses are evaluated at, and the grid of the sampler."""

from __future__ import annotations

import torch
from lemmata_core.check import in_range, one_of, positive_int
from torch import Tensor

LOGIT_MEAN, LOGIT_STD = -0.4, 1.0
CLAMP = 1e-3  # t stays this far from 0 and 1


def sample_time_pairs(
    n: int,
    *,
    dist: str = "logit_normal",
    data_proportion: float = 0.75,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw pairs of times r <= t.

    Parameters
    ----------
    n : int
        Pairs.
    dist : {"logit_normal", "uniform", "split"}
        "logit_normal" (the paper): the larger and the smaller of two draws of sigmoid(-0.4 + N(0, 1)); it hardly ever
        draws t > 0.95, where sampling starts. "uniform": of two draws of U(0, 1). "split": of two draws of U(0, 1)
        in the rows with r < t, and ONE draw of the logit-normal in the rows with r = t.
    data_proportion : float
        The first ``int(data_proportion * n)`` rows have r = t, the others stand at the end.
    generator : torch.Generator, optional
    device : torch.device or str, optional
        The generator's where there is one.

    Returns
    -------
    t, r : Tensor, shape (n, 1), float32
        ``1e-3 <= t <= 1 - 1e-3`` and ``r <= t``.

    Raises
    ------
    InvalidInput

    Notes
    -----
    arXiv 2604.14698, training details; "uniform" and "split" are additions.
    """
    positive_int(n, "n")
    one_of(dist, "dist", ("logit_normal", "split", "uniform"))
    in_range(data_proportion, "data_proportion", 0.0, 1.0)
    if device is None:
        device = generator.device if generator is not None else "cpu"
    return draw_time_pairs(n, dist, data_proportion, generator, device)


def draw_time_pairs(
    n: int, dist: str, data_proportion: float, generator: torch.Generator | None, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """`sample_time_pairs` behind its checks."""
    same = int(data_proportion * n)
    if dist == "logit_normal":
        pair = torch.sigmoid(LOGIT_MEAN + LOGIT_STD * torch.randn(2, n, 1, generator=generator, device=device))
    else:
        pair = torch.rand(2, n, 1, generator=generator, device=device)
        if dist == "split":
            normal = torch.randn(same, 1, generator=generator, device=device)
            pair[:, :same] = torch.sigmoid(LOGIT_MEAN + LOGIT_STD * normal)
    t = pair.amax(0).clamp_(CLAMP, 1 - CLAMP)
    r = torch.minimum(pair.amin(0), t)
    r[:same] = t[:same]
    return t, r


def time_grid(steps: int) -> list[float]:
    """The sampler's times 0, 1/T, ..., 1."""
    return [i / steps for i in range(steps + 1)]
