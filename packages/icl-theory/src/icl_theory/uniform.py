"""The uniform-attention transformer of arXiv 2510.10981 (Definition 2): mean pooling of features, then a readout."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator, torch_generator
from torch import Tensor, nn

from icl_theory.bayes.family import Family, Prompts
from icl_theory.training import Optimizer, TrainResult, checked_training

if TYPE_CHECKING:
    from lemmata_core.progress import Progress
    from lemmata_core.rng import RNGLike
    from numpy.typing import NDArray


class UniformAttention(nn.Module):
    """M(P^k) = clip(rho(mean over i <= k of phi(x_i, y_i), x_(k+1))): attention with Q = K = 0.

    Parameters
    ----------
    d : int
        Dimension of x.
    m : int
        Features in the pooled vector.
    hidden, depth : int
        Width and hidden layers of the networks phi and rho (ReLU).
    clip : float
        B_M, the bound of the output, > 0.
    cardinality : bool
        Whether rho is also told 1/k. Without it prompts with the same empirical measure and different k get one answer,
        however wide the model (see `bounds.collision_example`).
    spectral_norm : bool
        Whether every layer has spectral norm at most 1, so that phi and rho are 1-Lipschitz.
    rng : numpy.random.Generator, int or None
        Draws the initial weights.

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self,
        d: int,
        m: int,
        hidden: int = 64,
        depth: int = 2,
        clip: float = 5.0,
        cardinality: bool = False,
        spectral_norm: bool = False,
        rng: RNGLike = 0,
    ) -> None:
        super().__init__()
        self.d, self.m = positive_int(d, "d"), positive_int(m, "m")
        positive_int(hidden, "hidden")
        positive_int(depth, "depth", minimum=0)
        self.clip = in_range(clip, "clip", 0.0, low_open=True)
        self.cardinality = bool(cardinality)
        source = generator(rng)
        self.phi = _mlp(d + 1, m, hidden, depth, spectral_norm, source)
        self.rho = _mlp(m + d + self.cardinality, 1, hidden, depth, spectral_norm, source)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Predict f(x_(k+1)) from the first k pairs, for k = 1 .. p at once.

        Parameters
        ----------
        x : Tensor, shape (n, p + 1, d)
        y : Tensor, shape (n, p + 1)
            The last entry is not used.

        Returns
        -------
        Tensor, shape (n, p)
        """
        given: tuple[object, ...] = (x, y)
        if not all(isinstance(t, Tensor) and t.is_floating_point() for t in given):
            raise InvalidInput.argument(
                "x, y", expected="floating-point tensors", got=", ".join(type(t).__name__ for t in given)
            )
        if x.ndim != 3 or x.shape[-1] != self.d or y.shape != x.shape[:2] or x.shape[1] < 2:
            raise InvalidInput.argument(
                "x, y",
                expected=f"shapes (n, p + 1, {self.d}) and (n, p + 1), p >= 1",
                got=f"{tuple(x.shape)}, {tuple(y.shape)}",
            )
        features = self.phi(torch.cat([x[:, :-1], y[:, :-1, None]], -1))
        count = torch.arange(1, x.shape[1], device=x.device, dtype=x.dtype)[None, :, None]
        pooled = torch.cumsum(features, 1) / count
        parts = [pooled, x[:, 1:]]
        if self.cardinality:
            parts.append((1 / count).expand(x.shape[0], -1, 1))
        out: Tensor = self.rho(torch.cat(parts, -1))
        return out.squeeze(-1).clamp(-self.clip, self.clip)


def _mlp(
    inputs: int, outputs: int, hidden: int, depth: int, spectral: bool, source: np.random.Generator
) -> nn.Sequential:
    sizes = [inputs, *[hidden] * depth, outputs]
    layers: list[nn.Module] = []
    random = torch_generator(source)
    for i, (a, b) in enumerate(pairwise(sizes)):
        layer = nn.Linear(a, b)
        with torch.no_grad():
            bound = a**-0.5
            layer.weight.uniform_(-bound, bound, generator=random)
            layer.bias.uniform_(-bound, bound, generator=random)
        if spectral:
            nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=3)
        layers += [layer, nn.ReLU()] if i < len(sizes) - 2 else [layer]
    return nn.Sequential(*layers)


class SoftHistogram(nn.Module):
    """Hat functions on a grid: a partition of unity, so that their mean is a smoothed histogram.

    The feature map that the proof of Theorem 2 uses, in one dimension.

    Parameters
    ----------
    m : int
        Cells, >= 2.
    low, high : float
        Ends of the grid; values outside count at the ends.
    """

    centers: Tensor

    def __init__(self, m: int, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__()
        self.m = positive_int(m, "m", minimum=2)
        self.low, self.high = in_range(low, "low"), in_range(high, "high")
        if not self.low < self.high:
            raise InvalidInput.argument("low, high", expected="low < high", got=f"{low}, {high}")
        self.register_buffer("centers", torch.linspace(self.low, self.high, self.m, dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:
        """Return the hats' heights, shape (..., m); they sum to 1."""
        step = (self.high - self.low) / (self.m - 1)
        inside = values.clamp(self.low, self.high).unsqueeze(-1)
        return (1 - (inside - self.centers.to(values.dtype)).abs() / step).clamp(min=0)


def fit_least_squares(
    model: nn.Module,
    prompts: Prompts | Family,
    *,
    steps: int = 1500,
    batch: int = 256,
    lr: float = 3e-3,
    length: int = 17,
    rng: RNGLike = 0,
    optimizer: Optimizer | None = None,
    progress: Progress | None = None,
) -> TrainResult:
    """Fit a predictor to the noisy responses by least squares over all prefixes.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(x, y)``; predictions at k = 1 .. length - 1, as in `decompose`. Changed in place.
    prompts : Prompts or Family
        A fixed training set, from which batches are drawn; or a family, from which every batch is fresh.
    steps, batch : int
    lr : float
        Peak step size of AdamW (weight decay 1e-4), falling to zero along a cosine.
    length : int
        Pairs in a prompt drawn from a family.
    rng : numpy.random.Generator, int or None
    optimizer : callable, optional
        From parameters to a `torch.optim.Optimizer`, in place of AdamW.
    progress : lemmata_core.progress.Progress, optional

    Returns
    -------
    TrainResult
        Status "finished", "diverged" or "interrupted".

    Raises
    ------
    InvalidInput
    """
    given: object = prompts
    if not isinstance(given, (Prompts, Family)) or (isinstance(given, Prompts) and not len(given.y)):
        raise InvalidInput.argument("prompts", expected="Prompts, one at least, or a Family", got=given)
    checked_training(model, optimizer)
    positive_int(length, "length", minimum=2)
    positive_int(steps, "steps")
    positive_int(batch, "batch")
    in_range(lr, "lr", 0.0, low_open=True)
    source = generator(rng)
    place = next(model.parameters())
    made = optimizer(model.parameters()) if optimizer else _adamw(model, place.device, lr)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(made, steps)
    losses: list[float] = []
    status, start = "finished", time.perf_counter()
    task = progress.task("least squares", steps) if progress else None
    try:
        for _ in range(steps):
            x, y = (torch.from_numpy(a).to(place) for a in _drawn(prompts, batch, length, source))
            made.zero_grad(set_to_none=True)
            loss = _squared_error(model, x, y)
            torch.autograd.backward(loss)
            made.step()
            plan.step()
            losses.append(float(loss.detach()))
            if task:
                task.advance()
            if not np.isfinite(losses[-1]):
                status = "diverged"
                break
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        if task:
            task.close()
    wall = time.perf_counter() - start
    return TrainResult(np.array(losses), len(losses), status, wall, len(losses) * batch / max(wall, 1e-9))


def _adamw(model: nn.Module, device: torch.device, lr: float) -> torch.optim.Optimizer:
    # The plain form spends a fifth of a step in Python.
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4, fused=device.type in {"cpu", "cuda"})


def _drawn(
    prompts: Prompts | Family, batch: int, length: int, source: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    if isinstance(prompts, Family):
        fresh = prompts.sample(batch, length, source)
        return fresh.x, fresh.y
    rows = source.integers(len(prompts.y), size=min(batch, len(prompts.y)))
    return prompts.x[rows], prompts.y[rows]


def _squared_error(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    wanted = y[:, 1:]
    out: Tensor = model(x, y)
    if out.shape != wanted.shape:
        raise InvalidInput.argument(
            "model(x, y)", expected=f"shape {tuple(wanted.shape)}", got=f"shape {tuple(out.shape)}"
        )
    return (out - wanted).square().mean()
