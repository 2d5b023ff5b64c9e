"""Training and testing of in-context learners on prompts that are drawn as they go."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int
from lemmata_core.files import atomic_write
from lemmata_core.rng import generator
from torch import nn

from icl_theory.estimates import Estimate
from icl_theory.gated import GatedLinearICL
from icl_theory.modes import measuring
from icl_theory.pattern_engine import PatternEngine, Weights
from icl_theory.patterns import PatternBank
from icl_theory.prompts import PromptSpec, checked_setting, dense, draw_coefficients

if TYPE_CHECKING:
    from lemmata_core.progress import Progress
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Model = Callable[[torch.Tensor], torch.Tensor]
ENGINES = ("auto", "pattern", "torch")
CHECKPOINT_EVERY = 200
CHECKPOINT_SECONDS = 10.0
# Steps whose mean batch loss is compared with `stop_loss`: one batch alone is too noisy.
STOP_WINDOW = 10


@dataclass(frozen=True)
class TrainResult:
    """What `train` did; the model holds the weights.

    Attributes
    ----------
    losses : ndarray, shape (steps,)
        Mean loss of each batch before its step.
    steps : int
    status : str
        "finished", "stopped" (`stop_loss` was reached), "diverged" (the loss is not finite) or "interrupted".
    wall_time : float
        Seconds.
    prompts_per_second : float
    """

    losses: NDArray[Any]
    steps: int
    status: str
    wall_time: float
    prompts_per_second: float


def default_rate(model: nn.Module) -> float:
    """Return the step size used where none is given: linear attention diverges at Mamba's 0.5."""
    gate = getattr(model, "gate", None)
    return 0.5 if gate == "mamba" else 0.05


def has_kernel(model: object) -> bool:
    """Decide whether the compiled engine can evaluate a model."""
    return (
        isinstance(model, GatedLinearICL)
        and type(model).forward is GatedLinearICL.forward
        and model.gate in {"mamba", "none"}
        and model.W_B.device.type == "cpu"
    )


def uses_patterns(model: nn.Module, engine: str, optimizer: object = None) -> bool:
    """Decide whether the compiled engine serves: one-layer models, Mamba's gate or none, plain SGD, on the CPU.

    With weights held fixed (``requires_grad`` False) it does not.
    """
    fits = has_kernel(model) and optimizer is None and all(p.requires_grad for p in model.parameters())
    if engine == "pattern" and not fits:
        raise InvalidInput.argument(
            "engine",
            expected='"torch" for models other than one layer with gate "mamba" or "none", all weights trained by SGD',
            got=engine,
        )
    return fits and engine != "torch"


def train(
    model: nn.Module,
    bank: PatternBank,
    tasks: ArrayLike,
    spec: PromptSpec,
    *,
    steps: int = 2000,
    batch: int = 256,
    lr: float | None = None,
    engine: str = "auto",
    rng: RNGLike = 0,
    optimizer: Optimizer | None = None,
    stop_loss: float | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> TrainResult:
    """Train on fresh prompts with the hinge loss max(0, 1 - z F), by SGD with a constant step.

    Parameters
    ----------
    model : nn.Module
        From tokens (n, length + 1, d + 1) to F (n,). Changed in place.
    bank, tasks, spec
        As in `sample_prompts`.
    steps, batch : int
    lr : float, optional
        0.5 for Mamba's gate and 0.05 otherwise if not given (the paper does not state it).
    engine : {"auto", "pattern", "torch"}
        "pattern": compiled, in the basis of patterns (exact); one-layer models with gate "mamba" or "none" only.
    rng : numpy.random.Generator, int or None
        Draws the prompts: the same for either engine.
    optimizer : callable, optional
        From parameters to a `torch.optim.Optimizer`; implies the torch engine.
    stop_loss : float, optional
        Stop when the mean of the last ten batch losses is not above it.
    progress : lemmata_core.progress.Progress, optional
    checkpoint : path, optional
        File for weights, optimizer, generator and step: written every 200 steps or ten seconds, and at the end. If it
        exists, training goes on from it, with the losses that an uninterrupted run would have had.

    Returns
    -------
    TrainResult
        Ctrl-C returns what is done, with status "interrupted".

    Raises
    ------
    InvalidInput
    """
    # One loop to read from top to bottom, so a few lines longer than most.
    pairs = checked_setting(bank, tasks, spec)
    checked_training(model, optimizer)
    _checked_width(model, bank)
    rate = _checked_plan(model, steps, batch, lr, engine, stop_loss)
    source = generator(rng)
    made = _PatternTrainer if uses_patterns(model, engine, optimizer) else _TorchTrainer
    trainer = made(model, bank, spec, rate, optimizer)
    losses = _restore(checkpoint, trainer, source)
    done, start = len(losses), time.perf_counter()
    saved, status = start, _ended(losses, stop_loss)
    task = progress.task("training", steps) if progress else None
    if task:
        # The first step compiles, for a second or two, unless a process before has.
        task.note("compiling")
    try:
        while status == "finished" and len(losses) < steps:
            found = draw_coefficients(bank, pairs, spec, batch, source)
            # A run that diverges says so in its status.
            with np.errstate(over="ignore", invalid="ignore"):
                losses.append(trainer.step(found))
            if task:
                task.note("")
                task.advance()
            status = _ended(losses, stop_loss)
            due = len(losses) % CHECKPOINT_EVERY == 0 or time.perf_counter() - saved > CHECKPOINT_SECONDS
            if checkpoint is not None and due and status == "finished":
                _save(checkpoint, trainer, source, losses)
                saved = time.perf_counter()
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        if task:
            task.close()
    trainer.finish()
    if checkpoint is not None and status != "interrupted":
        _save(checkpoint, trainer, source, losses)
    wall = time.perf_counter() - start
    return TrainResult(np.array(losses), len(losses), status, wall, (len(losses) - done) * batch / max(wall, 1e-9))


def _ended(losses: list[float], stop_loss: float | None) -> str:
    """The status by the losses so far; "finished" where nothing speaks against more steps."""
    if losses and not np.isfinite(losses[-1]):
        return "diverged"
    window = losses[-STOP_WINDOW:]
    low = stop_loss is not None and len(window) == STOP_WINDOW and np.mean(window) <= stop_loss
    return "stopped" if low else "finished"


def uninterrupted(result: TrainResult) -> TrainResult:
    """Hand a result on; raise KeyboardInterrupt where nothing may be measured, since the training was broken off."""
    if result.status == "interrupted":
        raise KeyboardInterrupt
    return result


def checked_training(model: object, optimizer: object) -> None:
    """Check that there is something to train, and something to make the optimizer."""
    if not isinstance(model, nn.Module) or not any(p.requires_grad for p in model.parameters()):
        raise InvalidInput.argument("model", expected="an nn.Module with weights to train", got=type(model).__name__)
    if optimizer is not None and not callable(optimizer):
        raise InvalidInput.argument("optimizer", expected="a callable from parameters to an optimizer", got=optimizer)


def _checked_width(model: object, bank: PatternBank) -> None:
    d = getattr(model, "d", bank.d)
    if d != bank.d:
        raise InvalidInput.argument("model", expected=f"a model with d = {bank.d}, as the bank", got=f"d = {d}")


def _checked_plan(
    model: nn.Module, steps: int, batch: int, lr: float | None, engine: str, stop_loss: float | None
) -> float:
    """Check what a training is asked to do; return the step size."""
    positive_int(steps, "steps", minimum=0)
    positive_int(batch, "batch")
    if stop_loss is not None:
        in_range(stop_loss, "stop_loss", 0.0)
    rate = default_rate(model) if lr is None else in_range(lr, "lr", 0.0, low_open=True)
    one_of(engine, "engine", ENGINES)
    return rate


def checked_output(out: object, n: int) -> torch.Tensor:
    """Check that a model gives one number a prompt: (n, 1) would broadcast against the labels."""
    if not isinstance(out, torch.Tensor) or out.shape != (n,):
        got = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else type(out).__name__
        raise InvalidInput.argument("model(tokens)", expected=f"a tensor of shape ({n},)", got=got)
    return out


class _PatternTrainer:
    """SGD in float64 on the weights in the basis of patterns; the model is written at the end."""

    def __init__(self, model: Any, bank: PatternBank, spec: PromptSpec, rate: float, _: Any) -> None:
        self.model, self.rate = model, rate
        self.engine = PatternEngine(bank, spec)
        self.weights = weights_of(model)

    def step(self, found: Any) -> float:
        _, loss, gradient = self.engine.run(self.weights, found, True)
        assert gradient is not None  # noqa: S101
        self.weights.W_B -= self.rate * gradient.W_B
        self.weights.W_C -= self.rate * gradient.W_C
        if self.weights.w is not None and gradient.w is not None:
            self.weights.w -= self.rate * gradient.w
        return loss

    def finish(self) -> None:
        with torch.no_grad():
            self.model.W_B.copy_(torch.from_numpy(self.weights.W_B))
            self.model.W_C.copy_(torch.from_numpy(self.weights.W_C))
            if self.weights.w is not None:
                self.model.w.copy_(torch.from_numpy(self.weights.w))

    def state(self) -> dict[str, Any]:
        return {k: torch.from_numpy(v) for k, v in vars(self.weights).items() if v is not None}

    def load(self, state: dict[str, Any]) -> None:
        self.weights = Weights(**({"w": None} | {k: v.numpy().copy() for k, v in state.items()}))


class _TorchTrainer:
    """Any module and optimizer, on dense tokens."""

    def __init__(
        self, model: nn.Module, bank: PatternBank, spec: PromptSpec, rate: float, optimizer: Optimizer | None
    ) -> None:
        self.model, self.bank, self.spec = model, bank, spec
        self.place = next(p for p in model.parameters() if p.is_floating_point())
        self.optimizer = optimizer(model.parameters()) if optimizer else torch.optim.SGD(model.parameters(), lr=rate)

    def step(self, found: Any) -> float:
        tokens = torch.from_numpy(dense(self.bank, self.spec, found)).to(self.place)
        z = torch.from_numpy(found.labels).to(self.place)
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.clamp(1 - z * checked_output(self.model(tokens), len(z)), min=0).mean()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return float(loss.detach())

    def finish(self) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def weights_of(model: GatedLinearICL) -> Weights:
    """The model's weights as float64 arrays of their own."""
    B, C = (p.detach().double().numpy().copy() for p in (model.W_B, model.W_C))
    gate: torch.Tensor | None = model.w
    return Weights(B, C, None if gate is None else gate.detach().double().numpy().copy())


def _save(path: str | Path, trainer: Any, source: np.random.Generator, losses: list[float]) -> None:
    kept = {
        "state": trainer.state(),
        "generator": json.dumps(source.bit_generator.state),
        "losses": torch.tensor(losses, dtype=torch.float64),
    }
    with atomic_write(path, "wb") as file:
        torch.save(kept, file)


def _restore(path: str | Path | None, trainer: Any, source: np.random.Generator) -> list[float]:
    if path is None or not Path(path).exists():
        return []
    try:
        kept = torch.load(path, weights_only=True)
        trainer.load(kept["state"])
        source.bit_generator.state = json.loads(kept["generator"])
        losses: list[float] = kept["losses"].tolist()
    except Exception as err:
        raise InvalidInput.argument(
            "checkpoint", expected="a file that train() wrote for this model", got=f"{path} ({err})"
        ) from err
    return losses


def predictions(
    model: Model, bank: PatternBank, tasks: NDArray[np.int64], spec: PromptSpec, n: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """F and the labels of `n` fresh prompts, in chunks; each of shape (n,)."""
    weights = weights_of(model) if isinstance(model, GatedLinearICL) and has_kernel(model) else None
    engine = None if weights is None else PatternEngine(bank, spec)
    place = next(iter(model.parameters()), torch.zeros(1)) if isinstance(model, nn.Module) else torch.zeros(1)
    F, z = [np.empty(0)], [np.empty(0)]
    for start in range(0, n, 2000):
        found = draw_coefficients(bank, tasks, spec, min(2000, n - start), rng)
        if engine is not None and weights is not None:
            F.append(engine.run(weights, found, False)[0])
        else:
            tokens = torch.from_numpy(dense(bank, spec, found)).to(place)
            with measuring(model):
                out = model(tokens)
            if not isinstance(model, nn.Module):
                out = torch.as_tensor(out)
            F.append(checked_output(out, len(tokens)).double().cpu().numpy())
        z.append(found.labels)
    return np.concatenate(F), np.concatenate(z)


def evaluate(
    model: Model,
    bank: PatternBank,
    tasks: ArrayLike,
    spec: PromptSpec,
    *,
    n: int = 8000,
    rng: RNGLike = 1,
) -> Estimate:
    """Estimate the 0-1 error, the share of prompts on which sign F is not the label.

    Parameters
    ----------
    model : nn.Module or callable
        From tokens, a float tensor of shape (n, length + 1, d + 1), to F of shape (n,). A module is measured in
        evaluation mode, and left in the mode it was in.
    bank, tasks, spec
        As in `train`.
    n : int
        Fresh prompts.
    rng : numpy.random.Generator, int or None
        An int is a stream of its own: never that of `train` with the same int.

    Returns
    -------
    Estimate
        With Wilson's interval. F = 0, NaN and infinity count as errors; the last two also in `n_nonfinite`.

    Raises
    ------
    InvalidInput
    """
    pairs = checked_setting(bank, tasks, spec)
    positive_int(n, "n")
    if not callable(model):
        raise InvalidInput.argument("model", expected="a callable from tokens to F", got=model)
    _checked_width(model, bank)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        generator(rng)  # refuses negative numbers
        rng = np.random.SeedSequence(int(rng), spawn_key=(1,))
    F, z = predictions(model, bank, pairs, spec, n, generator(rng))
    finite = np.isfinite(F)
    return Estimate.share(int(n - (finite & (z * F > 0)).sum()), n, int(n - finite.sum()))
