"""Small training problems on which optimizers are compared, and the one loop that trains them.

Needs torch; the digits need scikit-learn (extra ``testbeds``). A problem takes seconds on one core, and is made of
matrices: a byte-level GPT on real English, and three nets on scikit-learn's digits, so that no finding rests on text.

``train(problem("kjv"), lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2), steps=400, seed=0).loss`` is in
nats a byte on the held-out text.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from lemmata_core.check import in_range, one_of, positive_int
from lemmata_core.errors import InvalidInput
from lemmata_core.testbed_data import CORPORA, corpus, digits, rows, shifted, windows
from lemmata_core.testbed_nets import GPT, ConvNet, PatchTransformer

if TYPE_CHECKING:
    from torch.optim import Optimizer

    Optimizers = Optimizer | Sequence[Optimizer]

PROBLEMS = (*CORPORA, "digits_pixels", "digits_vit", "digits_conv")
HELD_OUT = 0.05
_EVALUATION_BATCH = 64


@dataclass(frozen=True)
class Scores:
    """What a model reaches on held-out data: cross-entropy in nats a target, and the share of targets hit."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Problem:
    """A net to be trained and the data it is trained on. Made by `problem`, `text` and the ``digits_`` functions.

    Attributes
    ----------
    name : str
    unit : str
        Of the loss: "nats a byte".
    steps : int
        Length of a run on which the published figures rest.
    sample : callable
        From a `torch.Generator` to one batch ``(inputs, targets)``.
    held_out : tuple of torch.Tensor
        Inputs and targets.
    build : callable
        Makes the net, its weights drawn from torch's global generator; `model` fixes that.
    """

    name: str
    unit: str
    steps: int
    sample: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    held_out: tuple[Tensor, Tensor]
    build: Callable[[], nn.Module]

    def model(self, seed: int = 0) -> nn.Module:
        """The net with the weights of `seed`. Its output has one logit a class in the last dimension."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build()

    def evaluate(self, model: nn.Module) -> Scores:
        """Loss and accuracy of `model` on the held-out data."""
        inputs, targets = self.held_out
        was_training = model.training
        model.eval()
        loss, hits = 0.0, 0
        with torch.no_grad():
            for x, y in zip(inputs.split(_EVALUATION_BATCH), targets.split(_EVALUATION_BATCH)):
                logits = model(x)
                loss += float(_cross_entropy(logits, y, reduction="sum"))
                hits += int((logits.argmax(dim=-1) == y).sum())
        model.train(was_training)
        return Scores(loss / targets.numel(), hits / targets.numel())


@dataclass(frozen=True)
class History:
    """What a training run left.

    Attributes
    ----------
    problem : str
    seed, steps : int
    train_loss : tuple of float
        One a step, on that step's batch, before the step.
    evaluated : tuple of int
        The steps after which the held-out data was scored; the last step is always among them.
    held_out_loss, held_out_accuracy : tuple of float
        One an evaluation.
    wall_time : float
        Seconds, evaluations included.
    model : torch.nn.Module
        Trained; not part of equality.
    """

    problem: str
    seed: int
    steps: int
    train_loss: tuple[float, ...]
    evaluated: tuple[int, ...]
    held_out_loss: tuple[float, ...]
    held_out_accuracy: tuple[float, ...]
    wall_time: float = field(compare=False)
    model: nn.Module = field(compare=False, repr=False)

    @property
    def loss(self) -> float:
        """Held-out loss at the end."""
        return self.held_out_loss[-1]

    @property
    def accuracy(self) -> float:
        """Held-out accuracy at the end."""
        return self.held_out_accuracy[-1]


def train(
    problem: Problem,
    optimizer_factory: Callable[[nn.Module], Optimizers],
    steps: int | None = None,
    seed: int = 0,
    *,
    model: nn.Module | None = None,
    clip: float = 1.0,
    warmup: float = 0.1,
    floor: float = 0.1,
    evaluate_every: int | None = None,
    after_step: Callable[[int, nn.Module, tuple[Optimizer, ...]], Optimizers | None] | None = None,
) -> History:
    """Train a problem's net.

    The learning rate of every group rises linearly over the first steps and then falls as a cosine. Batches depend on
    `seed` alone, so that runs with different optimizers see the same ones.

    Parameters
    ----------
    problem : Problem
    optimizer_factory : callable
        From the net to an optimizer, or to several that share its parameters (a matrix optimizer and AdamW).
    steps : int, optional
        ``problem.steps`` unless told otherwise.
    seed : int
        Of weights and batches.
    model : torch.nn.Module, optional
        To be trained further, in place; a new net of this seed unless given.
    clip : float
        Global gradient norm; ``math.inf`` for none.
    warmup : float
        Share of the steps on which the learning rate rises.
    floor : float
        Share of the learning rate that is left at the end.
    evaluate_every : int, optional
        Score the held-out data every so many steps; at the end only unless given.
    after_step : callable
        Told ``(steps done, net, optimizers)`` after each step. What it returns, if not None, is the optimizer to go
        on with: its groups' ``initial_lr`` (else their ``lr``) is what the schedule multiplies.

    Returns
    -------
    History

    Raises
    ------
    InvalidInput
    """
    steps = positive_int(problem.steps if steps is None else steps, "steps")
    every = steps if evaluate_every is None else positive_int(evaluate_every, "evaluate_every")
    positive_int(seed, "seed", minimum=0)
    in_range(warmup, "warmup", 0, 1)
    in_range(floor, "floor", 0, 1)
    if not clip > 0:
        raise InvalidInput.argument("clip", expected="a number > 0", got=clip)
    start = time.perf_counter()
    net = problem.model(seed) if model is None else model
    optimizers = _as_tuple(optimizer_factory(net))
    batches = torch.Generator().manual_seed(seed)
    losses: list[float] = []
    scored: list[tuple[int, Scores]] = []
    for done in range(1, steps + 1):
        _set_learning_rate(optimizers, schedule(done - 1, steps, warmup, floor))
        inputs, targets = problem.sample(batches)
        loss = _cross_entropy(net(inputs), targets)
        _descend(loss, net, optimizers, clip)
        losses.append(loss.item())
        replaced = after_step(done, net, optimizers) if after_step is not None else None
        optimizers = optimizers if replaced is None else _as_tuple(replaced)
        if done % every == 0 or done == steps:
            scored.append((done, problem.evaluate(net)))
    return History(
        problem=problem.name,
        seed=seed,
        steps=steps,
        train_loss=tuple(losses),
        evaluated=tuple(step for step, _ in scored),
        held_out_loss=tuple(score.loss for _, score in scored),
        held_out_accuracy=tuple(score.accuracy for _, score in scored),
        wall_time=time.perf_counter() - start,
        model=net,
    )


def schedule(step: int, steps: int, warmup: float = 0.1, floor: float = 0.1) -> float:
    """The factor on the learning rate at `step` (from 0) of `steps`: a linear rise, then a cosine down to `floor`."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def _set_learning_rate(optimizers: tuple[Optimizer, ...], factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor


def _descend(loss: Tensor, net: nn.Module, optimizers: tuple[Optimizer, ...], clip: float) -> None:
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), clip)
    for optimizer in optimizers:
        optimizer.step()
    net.zero_grad(set_to_none=True)


def _as_tuple(optimizers: Optimizers) -> tuple[Optimizer, ...]:
    return tuple(optimizers) if isinstance(optimizers, Sequence) else (optimizers,)


def _cross_entropy(logits: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction=reduction)


@lru_cache(maxsize=8)
def problem(name: str) -> Problem:
    """One of the problems with its published settings.

    Parameters
    ----------
    name : {"kjv", "pydoc", "digits_pixels", "digits_vit", "digits_conv"}
        Byte-level English (two texts), or one of the three nets on digits.

    Raises
    ------
    InvalidInput
    """
    one_of(name, "name", PROBLEMS)
    made: dict[str, Callable[[], Problem]] = {
        "digits_pixels": digits_pixels,
        "digits_vit": digits_vit,
        "digits_conv": digits_conv,
    }
    return made[name]() if name in made else text(name)


def text(
    data: str | bytes = "kjv",
    *,
    vocabulary: bytes | None = None,
    width: int = 64,
    layers: int = 2,
    heads: int = 2,
    context: int = 64,
    batch: int = 12,
    steps: int = 400,
) -> Problem:
    """A byte-level GPT on a text; the first 95 % of it trains, the last 5 % are held out.

    Parameters
    ----------
    data : str or bytes
        The name of a `corpus`, or the text itself.
    vocabulary : bytes, optional
        The byte values that are tokens, at least those of the text; those unless given. Give the union of two texts
        to train one net on both.
    width, layers, heads, context : int
        Of the net.
    batch : int
        Windows a step.
    steps : int

    Raises
    ------
    InvalidInput
        If the text is shorter than 20 windows or has bytes outside `vocabulary`.
    """
    name, raw = (data, corpus(data)) if isinstance(data, str) else ("text", data)
    positive_int(heads, "heads")
    if positive_int(width, "width") % heads:
        raise InvalidInput.argument("width", expected=f"a multiple of {heads} heads", got=width)
    if len(raw) < 20 * (positive_int(context, "context") + 1):
        raise InvalidInput.argument("data", expected=f"{20 * (context + 1)} bytes or more", got=f"{len(raw)} bytes")
    symbols = sorted(set(raw if vocabulary is None else vocabulary))
    unknown = set(raw) - set(symbols)
    if unknown:
        raise InvalidInput.argument("vocabulary", expected="every byte of the text", got=f"none of {sorted(unknown)}")
    index = torch.zeros(256, dtype=torch.long)
    index[torch.tensor(symbols)] = torch.arange(len(symbols))
    tokens = index[torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()]
    cut = int(len(tokens) * (1 - HELD_OUT))
    training, rest = tokens[:cut], tokens[cut:]
    count = (len(rest) - 1) // context
    inputs, targets = (rest[i : i + count * context].view(count, context) for i in (0, 1))
    return Problem(
        name=name,
        unit="nats a byte",
        steps=steps,
        sample=partial(windows, training, context, positive_int(batch, "batch")),
        held_out=(inputs, targets),
        build=partial(GPT, len(symbols), width=width, layers=layers, heads=heads, context=context),
    )


_TRAINING_DIGITS = 1347
_START = 17  # the token before the first pixel


def digits_pixels(*, batch: int = 12, steps: int = 400) -> Problem:
    """The byte GPT on digits read as 64 pixels of 17 levels, in raster order; the pixels' marginals give 1.682 nats."""
    images, _ = digits()
    pixels = images.flatten(1).long()
    inputs = torch.cat([torch.full((len(pixels), 1), _START), pixels[:, :-1]], dim=1)
    cut = _TRAINING_DIGITS
    return Problem(
        name="digits_pixels",
        unit="nats a pixel",
        steps=steps,
        sample=partial(rows, inputs[:cut], pixels[:cut], positive_int(batch, "batch")),
        held_out=(inputs[cut:], pixels[cut:]),
        build=partial(GPT, _START + 1, width=64, layers=2, heads=2, context=64),
    )


def digits_vit(*, batch: int = 32, steps: int = 400) -> Problem:
    """A transformer on 16 patches of a digit. It tests optimizers, not classifiers: 1500 steps would be a start."""
    return _classify("digits_vit", PatchTransformer, batch, steps)


def digits_conv(*, batch: int = 32, steps: int = 300) -> Problem:
    """Three convolutions on digits, their weights kept as matrices. Nearly solved: seeds differ by a third."""
    return _classify("digits_conv", ConvNet, batch, steps)


def _classify(name: str, build: Callable[[], nn.Module], batch: int, steps: int) -> Problem:
    levels, labels = digits()
    images, cut = levels / 8 - 1, _TRAINING_DIGITS
    return Problem(
        name=name,
        unit="nats an image",
        steps=steps,
        sample=partial(shifted, images[:cut], labels[:cut], positive_int(batch, "batch")),
        held_out=(images[cut:], labels[cut:]),
        build=build,
    )
