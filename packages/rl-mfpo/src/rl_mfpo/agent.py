"""`MFPO`: learn, predict, save and resume, with the names of stable-baselines3."""

from __future__ import annotations

import math
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int

from rl_mfpo import saving
from rl_mfpo.buffer import ReplayBuffer
from rl_mfpo.callbacks import Callback, CallbackLike, as_callbacks, type_name
from rl_mfpo.collector import Collector, ResumeReport
from rl_mfpo.config import MFPOConfig
from rl_mfpo.environments import EnvLike, registered_id, vector_env
from rl_mfpo.learner import MFPOLearner
from rl_mfpo.loggers import CSVLogger, Logger
from rl_mfpo.spaces import Spaces
from rl_mfpo.streams import Streams, checked_seed
from rl_mfpo.training import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

    from rl_mfpo.checkpoint import CheckpointStore
    from rl_mfpo.policy import MeanFlowPolicy


class MFPO:
    """Mean flow policy optimisation (arXiv 2604.14698) on a gymnasium environment.

    Parameters
    ----------
    env : str, gymnasium.Env, gymnasium.vector.VectorEnv, or function that makes an Env
        Observations: a one-dimensional Box. Actions: a one-dimensional Box, bounded. A bare `Spaces` makes an agent
        that only predicts until `set_env`.
    config : MFPOConfig or {"paper", "small", "cpu"}, optional
        The defaults are the paper's.
    seed : int >= 0, optional
        Of everything random here, the environments included. None: drawn; `seed` tells it.
    device : str or torch.device
        "auto": a CUDA device where there is one.
    n_envs : int
        Copies of the environment, of an id or of what a function makes.
    vectorization : {"sync", "async"}
        Copies in this process, or a process each; the run is the same.
    replay_path : path-like, optional
        Keep the replay in this file instead of in memory.
    replay_bytes : int, optional
        Budget of the replay; by default 80 % of the memory (of the disk, with `replay_path`) that is free.
    **overrides
        Fields of `MFPOConfig`.

    Attributes
    ----------
    config : MFPOConfig
    learner : MFPOLearner
    policy : MeanFlowPolicy
    num_timesteps : int
        Transitions so far, over all environments.
    logger : Logger
    episodes : collections.deque of (float, int)
        Return and length of the last 100 episodes.
    resume_report : ResumeReport or None
        After `resume`.

    Raises
    ------
    InvalidInput
        Before anything is made: an unknown override (the nearest names are listed), spaces that cannot be used, a
        replay beyond its budget.
    """

    def __init__(
        self,
        env: EnvLike | Spaces,
        *,
        config: MFPOConfig | str | None = None,
        seed: int | None = None,
        device: str | torch.device = "auto",
        n_envs: int = 1,
        vectorization: str = "sync",
        replay_path: str | os.PathLike[str] | None = None,
        replay_bytes: int | None = None,
        **overrides: Any,
    ) -> None:
        base = MFPOConfig.preset(config) if isinstance(config, str) else config or MFPOConfig()
        if not isinstance(base, MFPOConfig):
            raise InvalidInput.argument("config", expected="an MFPOConfig or the name of a preset", got=config)
        self.config = base.override(**overrides) if overrides else base
        self.device = _device(device)
        self.seed = checked_seed(seed)
        self.vectorization = one_of(vectorization, "vectorization", ("sync", "async"))
        self._replay_path, self._replay_bytes = replay_path, replay_bytes
        self.collector: Collector | None = None
        self._env: VectorEnv[Any, Any, Any] | None = None
        self._env_is_ours = False
        self.env_id: str | None = None
        self.buffer: ReplayBuffer | None = None
        self.random = Streams.from_seed(self.seed, self.device)
        if isinstance(env, Spaces):
            self.spaces = env
        else:
            self._attach(env, n_envs, None)
        self.learner = MFPOLearner(
            self.spaces.obs_dim, self.spaces.scale.dim, self.config, device=self.device, seed=self.random.learner
        )
        self.num_timesteps = self.last_transitions = self.since_update = 0
        self.seconds = 0.0
        self.rank = 0
        self.agree: Callable[[bool], bool] | None = None
        self.logger = Logger()
        self.episodes: deque[tuple[float, int]] = deque(maxlen=100)
        self.resume_report: ResumeReport | None = None
        self.callbacks: list[Callback] = []
        self.saved_callback_states: list[dict[str, Any]] = []
        self.stores: dict[Path, CheckpointStore] = {}

    @property
    def policy(self) -> MeanFlowPolicy:
        """The policy: `sample`, `log_prob_of_samples`, `act`."""
        return self.learner.policy

    @property
    def n_envs(self) -> int:
        """Environments that are stepped together; 0 without one."""
        return 0 if self.collector is None else self.collector.n_envs

    def get_env(self) -> VectorEnv[Any, Any, Any] | None:
        """The vector environment, or None."""
        return self._env

    def set_env(self, env: EnvLike, n_envs: int = 1) -> None:
        """Go on with another environment, of the same spaces; replay and counters stay, new episodes begin.

        Raises
        ------
        InvalidInput
            Where observation or action dimensions or action bounds differ.
        """
        self._attach(env, n_envs, self.spaces)

    def _attach(self, env: EnvLike, n_envs: int, known: Spaces | None) -> None:
        made, ours = vector_env(env, n_envs, self.vectorization)
        try:
            collector = Collector(made, seed=self.random.envs)
            spaces = collector.spaces
            if known is not None:
                known.require_same(spaces)
            if self.buffer is None:
                self.buffer = ReplayBuffer(
                    self.config.buffer_size,
                    spaces.obs_dim,
                    spaces.scale.dim,
                    max_bytes=self._replay_bytes,
                    path=self._replay_path,
                )
        except BaseException:
            if ours:
                made.close()
            raise
        previous = self.collector
        self.close()
        if previous is not None:
            collector.continue_after(previous)
        self._env, self._env_is_ours, self.collector = made, ours, collector
        self.env_id = registered_id(env)
        self.spaces = spaces

    def close(self) -> None:
        """Close the environments that were made here. The agent still predicts."""
        if self._env is not None and self._env_is_ours:
            self._env.close()
        self._env, self.collector = None, None

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: CallbackLike | Sequence[CallbackLike] | None = None,
        log_interval: int | None = 1000,
        *,
        until: int | None = None,
        progress_bar: bool = False,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Collect transitions and train on them.

        Parameters
        ----------
        total_timesteps : int >= 0
            Transitions more, over all environments; `num_timesteps` is never reset. Several environments finish their
            step.
        callback : Callback, function, or a list of them
            `on_training_start`, `on_step` (False ends), `on_training_end`.
        log_interval : int or None
            Transitions between two rows of metrics.
        until : int
            Instead of `total_timesteps`: train until `num_timesteps` is this.
        progress_bar : bool
            Show how far it is (rich on a terminal, else a line every 30 s).
        log_dir : path-like, optional
            Metrics go to ``progress.csv`` there. After an interruption or a faulty environment the state goes to
            ``checkpoint`` there, unless there is a `CheckpointCallback`.

        Returns
        -------
        MFPO
            Itself.

        Raises
        ------
        InvalidInput
        EnvironmentFault
            NaN or infinity from the environment. Nothing of that step was stored; a checkpoint was written.
        TrainingDiverged
            A loss that is not finite. Earlier checkpoints stay as they are.
        KeyboardInterrupt
            Ctrl-C: after the vector step has ended and a checkpoint was written. `learn` can be called again.
        """
        if (total_timesteps is None) == (until is None):
            expected = "either total_timesteps or until"
            raise InvalidInput.argument("total_timesteps", expected=expected, got=f"{total_timesteps}, until={until}")
        if total_timesteps is None:
            target = positive_int(until or 0, "until", minimum=0)
        else:
            target = self.num_timesteps + positive_int(total_timesteps, "total_timesteps", minimum=0)
        every = None if log_interval is None else positive_int(log_interval, "log_interval")
        callbacks = as_callbacks(callback)
        folder = None if log_dir is None else Path(log_dir)
        if folder is not None and self.rank == 0:
            callbacks.insert(0, CSVLogger(folder / "progress.csv"))
        if target > self.num_timesteps:
            training = Training(self, callbacks, every, None if folder is None else folder / "checkpoint")
            training.run(target, show=progress_bar and self.rank == 0)
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 - part of the signature that callers of stable-baselines3 know
        deterministic: bool = False,
        *,
        steps: int | None = None,
        n_candidates: int | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Choose actions. Never changes what training does.

        Parameters
        ----------
        observation : array_like
            Shape (O,) or (n, O).
        state, episode_start
            As in stable-baselines3; this policy has no memory, `state` comes back.
        deterministic : bool
            The best by the target critics of `n_candidates` actions from fixed noise: the same observation gives the
            same action. Otherwise one sample (or the best of `n_candidates`, where given).
        steps : int, optional
            Network evaluations an action; 1, 2 and 4 all work on one trained policy.
        n_candidates : int, optional

        Returns
        -------
        action : numpy.ndarray
            Shape (A,) or (n, A), in the environment's bounds and dtype.
        state : object
            As given.
        """
        obs = self.spaces.observations(observation)
        single = obs.ndim == 1
        rows = torch.from_numpy(obs[None] if single else obs).to(self.device)
        policy, draw = self.learner.policy, self.random.predict
        # The result leaves as an array: nothing of what is computed may be wanted for a gradient.
        with torch.inference_mode():
            if deterministic or n_candidates is not None:
                action = policy.act(
                    rows, deterministic=deterministic, generator=draw, steps=steps, n_candidates=n_candidates
                )
            else:
                # `policy.sample` without its checks, which were made above.
                count = self.config.n_sample_steps if steps is None else positive_int(steps, "steps")
                noise = torch.randn((len(rows), policy.act_dim), generator=draw, device=self.device)
                if len(rows) == 1:
                    action = policy.flow_one(rows, noise, count).clamp_(-1, 1)
                else:
                    action = policy.flow(rows, noise.unsqueeze(1), count, log_prob=False).unclipped[:, 0].clamp_(-1, 1)
        scaled = self.spaces.scale.to_env(action.cpu().numpy())
        # A number that is not finite spoils every entry of its row; to look at one entry is the quickest check.
        first = scaled[:, 0]
        if not math.isfinite(first[0] if single else first.sum()):
            expected = "numbers that the policy's networks can take"
            if not np.isfinite(obs).all():
                expected = "finite numbers"
            raise InvalidInput.argument("observation", expected=expected, got=f"{observation!r}")
        return (scaled[0] if single else scaled), state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but replay and running episodes into one file (see `save_checkpoint` for those)."""
        saving.save_agent(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: EnvLike | None = None, device: str | torch.device = "auto"
    ) -> Self:
        """Read what `save` wrote; with `env`, training can go on, with an empty replay."""
        return saving.load_agent(cls, path, env, device)

    def save_checkpoint(self, path: str | os.PathLike[str], *, keep: int = 1) -> None:
        """Write a checkpoint into a folder, from which `resume` goes on exactly; the newest `keep` stay.

        It holds parameters, optimisers, generators, counters, the replay (only its new rows are written) and the
        running episodes. At any moment, also after a kill, the folder holds a complete checkpoint.
        """
        saving.save_checkpoint(self, path, keep)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        env: EnvLike | None = None,
        device: str | torch.device = "auto",
        *,
        replay_path: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Go on from the newest checkpoint of a folder; `resume_report` says whether exactly.

        Parameters
        ----------
        path : path-like
        env : as in `MFPO`, optional
            By default made from the id that the checkpoint names.
        device : str or torch.device
        replay_path : path-like, optional
            See `MFPO`.

        Raises
        ------
        InvalidInput
            Without a checkpoint, or where it names no environment and none is given.
        """
        return saving.resume(cls, path, env, device, replay_path)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "onnx",  # noqa: A002 - the word that everybody uses
        steps: int | None = None,
    ) -> Path:
        """Write the policy for deployment; see `rl_mfpo.export.export_policy`.

        Inputs ``observation`` (n, O) and ``noise`` (n, A), output the environment's action (n, A).
        """
        from rl_mfpo.export import export_policy

        return export_policy(self.policy, self.spaces.obs_dim, self.spaces.scale, path, format=format, steps=steps)

    def count(self, transitions: int) -> None:
        """Note that so many transitions were collected."""
        self.last_transitions = transitions
        self.num_timesteps += transitions
        self.since_update += transitions

    def passed(self, every: int) -> bool:
        """Whether the last vector step reached or passed a multiple of `every` transitions."""
        return self.num_timesteps // every > (self.num_timesteps - self.last_transitions) // every

    def callback_states(self) -> list[dict[str, Any]]:
        """What the callbacks of the running `learn` (else of the last one) want a checkpoint to keep."""
        if not self.callbacks:
            return self.saved_callback_states
        return [{"type": type_name(c), "state": c.state_dict()} for c in self.callbacks]


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        made = torch.device(device)
        torch.empty(0, device=made)
    except (RuntimeError, TypeError, AssertionError) as err:
        raise InvalidInput.argument(
            "device", expected='"auto" or a device that torch has here', got=f"{device!r}"
        ) from err
    return made
