"""Stepping environments: autoreset modes, action scaling, a seed an episode, and what an exact resume needs."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from lemmata_core import InvalidInput

from rl_mfpo.spaces import Spaces

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCHEMA_KEYS = ("episode", "seed", "length", "ret", "trace", "pending", "skip")


class EnvironmentFault(InvalidInput):
    """An environment returned what cannot be learned from (NaN, infinity). Nothing of that step was stored."""


class Transitions(NamedTuple):
    """Rows of one vector step, reset rows left out. n <= number of environments."""

    obs: NDArray[np.float32]  #: (n, O)
    action: NDArray[np.float32]  #: (n, A), in [-1, 1]
    reward: NDArray[np.float32]  #: (n,)
    next_obs: NDArray[np.float32]  #: (n, O); at the end of an episode the true last observation
    terminated: NDArray[np.bool_]  #: (n,); False where the episode was only cut off


@dataclass(frozen=True)
class Episode:
    """A finished episode."""

    env: int
    index: int
    ret: float
    length: int
    terminated: bool


@dataclass(frozen=True)
class ResumeReport:
    """How a resumed run compares with the one that was saved.

    Parameters
    ----------
    exact : bool
        Whether the run goes on as if it had never stopped: parameters, generators, replay and running episodes.
    reasons : tuple of str
        Why not.
    num_timesteps : int
        Where it goes on.
    replayed_steps : int
        Environment steps taken again to bring the running episodes back.
    """

    exact: bool
    reasons: tuple[str, ...]
    num_timesteps: int
    replayed_steps: int


def episode_seed(seed: int, env: int, episode: int) -> int:
    """The seed with which an episode is reset: a hash of the run's seed and of the two indices."""
    return int(np.random.SeedSequence([seed, env, episode]).generate_state(1)[0] & 0x7FFFFFFF)


class _Running:
    """The running episode of one environment: its seed, what was done since, a checksum of what came back."""

    def __init__(self, action_dim: int, dtype: np.dtype[Any]) -> None:
        self.episode = -1  # the first reset makes it 0
        self.seed = 0
        self.length = 0
        self.ret = 0.0
        self.trace = 0
        self.pending = True  # to be reset before its next step
        self.skip = False  # the next row is a reset row (NEXT_STEP)
        self._actions = np.empty((64, action_dim), dtype=dtype)

    @property
    def actions(self) -> NDArray[Any]:
        return self._actions[: self.length]

    def begin(self, seed: int, obs: NDArray[np.float32]) -> None:
        self.episode += 1
        self.seed, self.length, self.ret = seed, 0, 0.0
        self.trace = zlib.crc32(obs.tobytes())
        self.pending = self.skip = False

    def step(self, action: NDArray[Any], obs: NDArray[np.float32], reward: float) -> None:
        if self.length == len(self._actions):
            self._actions = np.concatenate([self._actions, np.empty_like(self._actions)])
        self._actions[self.length] = action
        self.length += 1
        self.ret += reward
        self.trace = _trace(self.trace, obs, reward)

    def state(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in _SCHEMA_KEYS}

    def load(self, state: dict[str, Any], actions: NDArray[Any]) -> None:
        for key in _SCHEMA_KEYS:
            setattr(self, key, state[key])
        size = max(64, 2 ** math.ceil(math.log2(max(len(actions), 1))))
        self._actions = np.empty((size, self._actions.shape[1]), dtype=self._actions.dtype)
        self._actions[: self.length] = actions


def _trace(trace: int, obs: NDArray[np.float32], reward: float) -> int:
    return zlib.crc32(np.float32(reward).tobytes(), zlib.crc32(obs.tobytes(), trace))


class Collector:
    """Steps a vector environment and hands back transitions that are right at the ends of episodes.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        Its autoreset mode is read from ``metadata["autoreset_mode"]``: SAME_STEP, NEXT_STEP or DISABLED.
    seed : int
        Root of the episodes' seeds. With DISABLED every episode is reset with `episode_seed`; with the other two only
        the first one can be, the environment resets itself later.

    Raises
    ------
    InvalidInput
        For spaces that a continuous policy cannot use, and for an unknown autoreset mode.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], *, seed: int) -> None:
        self.env = env
        self.seed = seed
        self.n_envs = int(env.num_envs)
        self.spaces = Spaces.of(env)
        self.obs_dim, self.scale = self.spaces.obs_dim, self.spaces.scale
        self.mode = autoreset_mode(env)
        self.obs: NDArray[np.float32] = np.zeros((self.n_envs, self.obs_dim), dtype=np.float32)
        self.vector_steps = 0
        self._running = [_Running(self.scale.dim, self.scale.low.dtype) for _ in range(self.n_envs)]
        self._fresh = True

    def observe(self) -> NDArray[np.float32]:
        """The current observations, shape (N, O), after resetting the environments whose episode is over."""
        pending = [i for i, run in enumerate(self._running) if run.pending]
        if not pending:
            return self.obs
        mask = None
        if self._fresh or self.mode is not AutoresetMode.DISABLED:
            pending = list(range(self.n_envs))
        else:
            mask = np.zeros(self.n_envs, dtype=bool)
            mask[pending] = True
        seeds = [episode_seed(self.seed, i, run.episode + 1) for i, run in enumerate(self._running)]
        obs = self._reset(seeds, mask)
        self._check_observations(obs, pending, "the reset")
        self._fresh = False
        for i in pending:
            self.obs[i] = obs[i]
            self._running[i].begin(seeds[i], self.obs[i])
        return self.obs

    def step(self, action: NDArray[np.float32]) -> tuple[Transitions, list[Episode]]:
        """Take one step in every environment. `observe` must have been called since the last one.

        Parameters
        ----------
        action : numpy.ndarray
            Shape (N, A), in [-1, 1].

        Raises
        ------
        EnvironmentFault
            At NaN or infinity; the environment begins a new episode at the next `observe`.
        """
        env_action = self.scale.to_env(action)
        try:
            raw, reward, terminated, truncated, info = self.env.step(env_action)
            with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinite, which the check below names
                obs = np.array(raw, dtype=np.float32).reshape(self.n_envs, self.obs_dim)
            reward = np.asarray(reward, dtype=np.float64)
            done = np.asarray(terminated | truncated, dtype=bool)
            last = self._final_observations(obs, done, info) if self.mode is AutoresetMode.SAME_STEP else obs
            self._check(obs, last, reward)
        except BaseException:
            # The environments went on, the record did not: their episodes cannot be continued or brought back.
            self.interrupt()
            raise
        keep = np.array([not run.skip for run in self._running])
        rows = Transitions(
            self.obs[keep], action[keep], reward[keep].astype(np.float32), last[keep], np.asarray(terminated)[keep]
        )
        episodes = []
        for i, run in enumerate(self._running):
            if run.skip:
                run.begin(0, obs[i])
                continue
            run.step(env_action[i], last[i], float(reward[i]))
            if done[i]:
                episodes.append(Episode(i, run.episode, run.ret, run.length, bool(terminated[i])))
                self._end(run, obs[i])
        self.obs = obs
        self.vector_steps += 1
        return rows, episodes

    def _end(self, run: _Running, obs: NDArray[np.float32]) -> None:
        if self.mode is AutoresetMode.DISABLED:
            run.pending = True
        elif self.mode is AutoresetMode.NEXT_STEP:
            run.skip = True
        else:
            run.begin(0, obs)

    def _reset(self, seeds: list[int], mask: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        if self.mode is not AutoresetMode.DISABLED:
            raw, _ = self.env.reset(seed=seeds[0])  # some vector environments take one seed only
        elif mask is None:
            raw, _ = self.env.reset(seed=seeds)  # type: ignore[arg-type]  # the base class knows one seed only
        else:
            chosen = [seed if m else None for seed, m in zip(seeds, mask)]
            raw, _ = self.env.reset(seed=chosen, options={"reset_mask": mask})  # type: ignore[arg-type]
        with np.errstate(over="ignore"):
            return np.array(raw, dtype=np.float32).reshape(self.n_envs, self.obs_dim)

    def _final_observations(
        self, obs: NDArray[np.float32], done: NDArray[np.bool_], info: dict[str, Any]
    ) -> NDArray[np.float32]:
        if not done.any():
            return obs
        if "final_obs" not in info:
            expected = 'info["final_obs"] at the end of an episode (autoreset mode SAME_STEP)'
            raise EnvironmentFault.argument("env", expected=expected, got=f"the keys {sorted(info)}")
        last = obs.copy()
        for i in np.flatnonzero(done).tolist():
            last[i] = np.asarray(info["final_obs"][i], dtype=np.float32)
        return last

    def _check(self, obs: NDArray[np.float32], last: NDArray[np.float32], reward: NDArray[np.float64]) -> None:
        # float32 overflows where float64 did not: what is stored is what is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(float(obs.sum()) + float(np.float32(reward).sum()) + float(last.sum())):
                return
        bad = ~np.isfinite(np.float32(reward))
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            self._fault(i, f"a reward of {reward[i]}", f"step {self._running[i].length + 1}")
        for array in (last, obs):
            self._check_observations(array, range(self.n_envs), "")

    def _check_observations(self, obs: NDArray[np.float32], which: Any, where: str) -> None:
        for i in which:
            bad = np.flatnonzero(~np.isfinite(obs[i]))
            if len(bad):
                got = f"an observation of {obs[i, bad[0]]} in dimension {bad[0]}"
                self._fault(i, got, where or f"step {self._running[i].length + 1}")

    def _fault(self, i: int, what: str, where: str) -> None:
        episode = self._running[i].episode + (where == "the reset")
        raise EnvironmentFault(
            f"env: expected finite observations and rewards (float32), got {what} from environment {i} at {where} "
            f"of its episode {episode}, vector step {self.vector_steps + 1} of the run; nothing of this step was stored"
        )

    def continue_after(self, previous: Collector) -> None:
        """Number episodes and steps on from another collector, so that no seed of its episodes comes again."""
        self.vector_steps = previous.vector_steps
        first = max(run.episode for run in previous._running)
        for run in self._running:
            run.episode = first

    def interrupt(self) -> None:
        """Give the running episodes up: each environment begins a new one at the next `observe`."""
        for run in self._running:
            run.pending, run.skip = True, False

    def state_dict(self) -> dict[str, Any]:
        """Everything that `restore` needs, as numbers and arrays."""
        return {
            "seed": self.seed,
            "mode": self.mode.value,
            "vector_steps": self.vector_steps,
            "obs": self.obs.copy(),
            "running": [run.state() for run in self._running],
            "actions": [run.actions.copy() for run in self._running],
        }

    def restore(self, state: dict[str, Any]) -> tuple[list[str], int]:
        """Bring the running episodes back: reset with their seeds, take their actions again, compare what comes back.

        Parameters
        ----------
        state : dict
            From `state_dict`.

        Returns
        -------
        reasons : list of str
            Why the environments are not where they were; empty where they are, bit for bit.
        steps : int
            Environment steps taken again.
        """
        if len(state["running"]) != self.n_envs:
            for run in self._running:
                run.episode = max(saved["episode"] for saved in state["running"])
            return [f"{len(state['running'])} environments were saved, {self.n_envs} are given: new episodes"], 0
        self.seed = int(state["seed"])
        self.vector_steps = int(state["vector_steps"])
        for run, saved, actions in zip(self._running, state["running"], state["actions"]):
            run.load(saved, actions)
        if self.mode is not AutoresetMode.DISABLED or state["mode"] != self.mode.value:
            self.interrupt()
            self._fresh = True
            reason = (
                f"environments that reset themselves ({self.mode.value}) cannot be brought back into their episodes"
            )
            return [reason], 0
        if all(run.pending for run in self._running):
            return [], 0  # between episodes: nothing to bring back
        return self._replay(np.asarray(state["obs"], dtype=np.float32))

    def _replay(self, expected: NDArray[np.float32]) -> tuple[list[str], int]:
        # All environments of a vector step together. Each is reset so late that all take their last action at once;
        # before that it idles, and is reset where idling ends an episode.
        runs = self._running
        longest = max(0 if run.pending else run.length for run in runs)
        starts = [longest - (0 if run.pending else run.length) for run in runs]
        seeds = [run.seed for run in runs]
        obs = self._reset(seeds, None)
        traces = [zlib.crc32(row.tobytes()) for row in obs]
        done = np.zeros(self.n_envs, dtype=bool)
        early: set[int] = set()
        idle = self.scale.to_env(np.zeros((self.n_envs, self.scale.dim), dtype=np.float32))
        for k in range(longest):
            now = np.array([0 < k == start for start in starts]) | done
            if now.any():
                obs = self._reset(seeds, now)
                for i in np.flatnonzero(now).tolist():
                    traces[i] = zlib.crc32(obs[i].tobytes())
            action = idle.copy()
            for i, run in enumerate(runs):
                if k >= starts[i]:
                    action[i] = run.actions[k - starts[i]]
            raw, reward, terminated, truncated, _ = self.env.step(action)
            obs = np.array(raw, dtype=np.float32).reshape(self.n_envs, self.obs_dim)
            done = np.asarray(terminated | truncated, dtype=bool)
            for i in range(self.n_envs):
                if k >= starts[i]:
                    traces[i] = _trace(traces[i], obs[i], float(reward[i]))
                    if done[i]:
                        early.add(i)
        if longest and any(starts[i] == longest and not runs[i].pending for i in range(self.n_envs)):
            # An episode saved right after its reset: it has no action to take, so it is reset last.
            mask = np.array([starts[i] == longest and not runs[i].pending for i in range(self.n_envs)])
            obs = self._reset(seeds, mask)
            for i in np.flatnonzero(mask).tolist():
                traces[i] = zlib.crc32(obs[i].tobytes())
        self._fresh = False
        self.obs = expected.copy()
        reasons = []
        for i, run in enumerate(runs):
            if run.pending:
                continue
            if i in early or traces[i] != run.trace or obs[i].tobytes() != expected[i].tobytes():
                run.pending = True
                reasons.append(
                    f"environment {i} did not come back to where it was after {run.length} steps of its episode "
                    f"{run.episode} (it is not deterministic, or not the same): a new episode"
                )
        return reasons, sum(0 if run.pending else run.length for run in runs)


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """The autoreset mode of a vector environment.

    Raises
    ------
    InvalidInput
        Where its metadata do not tell.
    """
    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        expected = 'metadata["autoreset_mode"] of gymnasium.vector.AutoresetMode (SAME_STEP, NEXT_STEP or DISABLED)'
        raise InvalidInput.argument("env", expected=expected, got=repr(mode)) from None
