"""Returns of a policy over whole episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

from rl_mfpo.collector import episode_seed

if TYPE_CHECKING:
    from lemmata_core.progress import Task
    from numpy.typing import NDArray


class Predictor(Protocol):
    """Whatever predicts as stable-baselines3 does."""

    def predict(self, observation: Any, *, deterministic: bool) -> tuple[NDArray[Any], Any]:
        """Return the action, and the state of a recurrent policy (None)."""


@dataclass(frozen=True)
class EvaluationResult:
    """Undiscounted returns of whole episodes.

    Parameters
    ----------
    mean, std : float
        Of the returns (population standard deviation).
    returns : tuple of float
    lengths : tuple of int
        Steps of each episode.
    n_episodes : int
    """

    mean: float
    std: float
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    n_episodes: int


def evaluate(
    agent: Predictor,
    env: str | gym.Env[Any, Any],
    n_episodes: int = 10,
    *,
    deterministic: bool = True,
    seed: int = 0,
    progress: Task | None = None,
    **options: Any,
) -> EvaluationResult:
    """Play episodes and sum their rewards.

    Parameters
    ----------
    agent : MFPO
        Or anything with the `predict` of stable-baselines3.
    env : str or gymnasium.Env
        An environment made from an id is closed afterwards.
    n_episodes : int
    deterministic : bool
        See `MFPO.predict`.
    seed : int
        Episode k is reset with a seed derived from this and k: two policies meet the same episodes.
    progress : lemmata_core.progress.Task, optional
        Advanced by one an episode.
    **options
        Handed to `predict`: ``steps``, ``n_candidates``.

    Returns
    -------
    EvaluationResult
    """
    count = positive_int(n_episodes, "n_episodes")
    seed = positive_int(seed, "seed", minimum=0)
    made = isinstance(env, str)
    world: gym.Env[Any, Any] = make_env(env) if isinstance(env, str) else env
    returns, lengths = [], []
    try:
        for k in range(count):
            obs, _ = world.reset(seed=episode_seed(seed, 0, k))
            total, length, done = 0.0, 0, False
            while not done:
                action, _ = agent.predict(np.asarray(obs), deterministic=deterministic, **options)
                obs, reward, terminated, truncated, _ = world.step(action)
                total, length, done = total + float(reward), length + 1, bool(terminated or truncated)
            returns.append(total)
            lengths.append(length)
            if progress is not None:
                progress.advance()
    finally:
        if made:
            world.close()
    return EvaluationResult(float(np.mean(returns)), float(np.std(returns)), tuple(returns), tuple(lengths), count)


def make_env(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make a registered environment.

    Raises
    ------
    InvalidInput
        For an unknown id, with gymnasium's suggestion, and where its dependencies are not installed.
    """
    try:
        made: gym.Env[Any, Any] = gym.make(env_id, **kwargs)
    except (gym.error.Error, ModuleNotFoundError) as err:
        hint = " (pip install 'rl-mfpo[mujoco]')" if "mujoco" in str(err).lower() else ""
        expected = "the id of a registered gymnasium environment"
        raise InvalidInput.argument("env", expected=expected, got=f"{env_id!r}: {err}{hint}") from err
    return made
