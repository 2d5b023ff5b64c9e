"""All random streams of a run, from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core.check import positive_int
from lemmata_core.rng import torch_generator

if TYPE_CHECKING:
    import torch


def checked_seed(seed: int | None) -> int:
    """`seed`, or a fresh one.

    Raises
    ------
    InvalidInput
    """
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return positive_int(seed, "seed", minimum=0)


@dataclass
class Streams:
    """Independent generators, one a purpose: what one of them draws never moves another.

    Attributes
    ----------
    learner, envs : int
        Seeds of the learner and of the episodes.
    warm_up, replay : numpy.random.Generator
        Random first actions; the rows that the replay draws.
    act, predict : torch.Generator
        Actions in training; actions of `MFPO.predict`.
    """

    learner: int
    envs: int
    warm_up: np.random.Generator
    replay: np.random.Generator
    act: torch.Generator
    predict: torch.Generator

    @classmethod
    def from_seed(cls, seed: int, device: torch.device) -> Self:
        """The streams of a run."""
        learner, envs, warm_up, replay, act, predict = np.random.SeedSequence(seed).spawn(6)
        return cls(
            learner=int(learner.generate_state(1, np.uint64)[0] >> np.uint64(1)),
            envs=int(envs.generate_state(1)[0]),
            warm_up=np.random.default_rng(warm_up),
            replay=np.random.default_rng(replay),
            act=torch_generator(np.random.default_rng(act), device),
            predict=torch_generator(np.random.default_rng(predict), device),
        )

    def numpy_states(self) -> dict[str, Any]:
        """States that JSON holds."""
        return {"warm_up": self.warm_up.bit_generator.state, "replay": self.replay.bit_generator.state}

    def torch_states(self) -> dict[str, torch.Tensor]:
        """States that are tensors."""
        return {"act": self.act.get_state(), "predict": self.predict.get_state()}

    def load(self, numpy_states: dict[str, Any], torch_states: dict[str, torch.Tensor] | None) -> None:
        """Go on from saved states; None: the torch streams stay (they were another device's)."""
        self.warm_up.bit_generator.state = numpy_states["warm_up"]
        self.replay.bit_generator.state = numpy_states["replay"]
        if torch_states is not None:
            self.act.set_state(torch_states["act"])
            self.predict.set_state(torch_states["predict"])
