"""What a user hands over as environment, made into a vector environment that the collector steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int

from rl_mfpo.evaluation import make_env

EnvLike = str | gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class Factory:
    """Makes one environment, in this process or in a worker."""

    make: Callable[[], gym.Env[Any, Any]]
    trainer: int  # the process that steps the environments

    def __call__(self) -> gym.Env[Any, Any]:
        """Make it."""
        if os.getpid() != self.trainer:
            # Ctrl-C reaches the whole process group: the trainer decides when its workers end.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self.make()


@dataclass(frozen=True)
class _ById:
    spec: Any

    def __call__(self) -> gym.Env[Any, Any]:
        return make_env(self.spec)


def vector_env(env: EnvLike, n_envs: int, vectorization: str) -> tuple[VectorEnv[Any, Any, Any], bool]:
    """Make a vector environment.

    Parameters
    ----------
    env : str, gymnasium.Env, callable or gymnasium.vector.VectorEnv
        A vector environment is used as it is.
    n_envs : int
        Copies, of an id or of what a callable makes.
    vectorization : {"sync", "async"}
        In this process, or a process each.

    Returns
    -------
    env : gymnasium.vector.VectorEnv
    ours : bool
        Whether it is ours to close.
    """
    n_envs = positive_int(n_envs, "n_envs")
    one_of(vectorization, "vectorization", ("sync", "async"))
    if isinstance(env, VectorEnv):
        if n_envs not in {1, env.num_envs}:
            raise InvalidInput.argument("n_envs", expected=f"the {env.num_envs} of the vector environment", got=n_envs)
        return env, False
    if isinstance(env, gym.Env):
        if n_envs != 1:
            expected = "1 with an environment that is made already (several need an id or a function that makes one)"
            raise InvalidInput.argument("n_envs", expected=expected, got=n_envs)
        return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.DISABLED), False
    if isinstance(env, str):
        make_env(env).close()  # errors of an id are told here, not by a worker
        make: Callable[[], gym.Env[Any, Any]] = _ById(gym.spec(env))
    elif callable(cast("object", env)):  # not narrowed: callers without a type checker give anything
        make = env
    else:
        expected = "an environment's id, a gymnasium.Env, a gymnasium.vector.VectorEnv or a function that makes an Env"
        raise InvalidInput.argument("env", expected=expected, got=f"{type(env).__module__}.{type(env).__qualname__}")
    makers = [Factory(make, os.getpid())] * n_envs
    if vectorization == "async" and n_envs > 1:
        return AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED), True
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED), True


def registered_id(env: Any) -> str | None:
    """The id from which `env` can be made again just as it is, or None."""
    if isinstance(env, str):
        return env
    spec = getattr(env, "spec", None)
    if not isinstance(env, gym.Env) or spec is None or spec.additional_wrappers or spec.id not in gym.registry:
        return None
    known = gym.registry[spec.id]
    now = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    same = now == {k: v for k, v in known.kwargs.items() if k != "render_mode"}
    return spec.id if same and spec.max_episode_steps == known.max_episode_steps else None
