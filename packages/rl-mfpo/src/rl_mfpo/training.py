"""The training loop: collect a vector step, update, tell the callbacks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.progress import Progress

from rl_mfpo.callbacks import Callback, CheckpointCallback, type_name
from rl_mfpo.collector import EnvironmentFault
from rl_mfpo.interrupt import Interruption

if TYPE_CHECKING:
    from lemmata_core.progress import Task

    from rl_mfpo.agent import MFPO


class Training:
    """One `MFPO.learn`.

    Parameters
    ----------
    agent : MFPO
    callbacks : list of Callback
        Those that write checkpoints last.
    log_interval : int or None
        Transitions between two rows of metrics.
    rescue : pathlib.Path or None
        Where a checkpoint goes when training breaks off and no callback writes one.
    """

    def __init__(
        self, agent: MFPO, callbacks: list[Callback], log_interval: int | None, rescue: Path | None = None
    ) -> None:
        if agent.collector is None or agent.buffer is None:
            raise InvalidInput("learn: there is no environment; call set_env first, or load with env=...")
        self.agent, self.collector, self.buffer = agent, agent.collector, agent.buffer
        self.writers = [c for c in callbacks if isinstance(c, CheckpointCallback)]
        self.others = [c for c in callbacks if not isinstance(c, CheckpointCallback)]
        self.log_interval = log_interval
        self.rescue = rescue
        self._torn = self._ready = False

    def run(self, target: int, *, show: bool = False) -> None:
        """Train until the agent has seen `target` transitions or a callback ends it; raises what `MFPO.learn` does."""
        agent, callbacks = self.agent, [*self.others, *self.writers]
        for item in callbacks:
            item.init_callback(agent)
        self._give_states(callbacks)
        agent.callbacks = callbacks
        started: list[Callback] = []
        progress = Progress().task("training", target - agent.num_timesteps) if show else None
        try:
            with Interruption() as interruption:
                for item in callbacks:
                    started.append(item)
                    item.on_training_start()
                self._loop(target, interruption, progress)
        except (KeyboardInterrupt, EnvironmentFault):
            # Within an update the parameters are neither the old nor the new ones: the last checkpoint stands.
            if not self._torn:
                self._save_what_is_there()
            raise
        finally:
            agent.saved_callback_states, agent.callbacks = agent.callback_states(), []
            if progress is not None:
                progress.close()
            for item in started:
                item.on_training_end()

    def _loop(self, target: int, interruption: Interruption, progress: Task | None) -> None:
        agent, logger = self.agent, self.agent.logger
        go_on = True
        while go_on and agent.num_timesteps < target:
            begin = time.perf_counter()
            self._collect()
            middle = time.perf_counter()
            updates = self._update()
            self._torn = False
            end = time.perf_counter()
            agent.seconds += end - begin
            logger.record_mean("time/env_share", (middle - begin) / (end - begin))
            if updates:
                logger.record_mean("time/updates_per_second", updates / (end - middle))
            if progress is not None:
                self._show(progress)
            # First what may write metrics, then the row of metrics, then checkpoints: a checkpoint has all of its step.
            for item in self.others:
                go_on &= item.on_step()
            if self.log_interval is not None and agent.passed(self.log_interval):
                logger.record("time/seconds", agent.seconds)
                logger.dump(agent.num_timesteps)
            for item in self.writers:
                go_on &= item.on_step()
            if agent.agree is not None:
                # Whoever went on alone would wait for the others in its next update.
                go_on &= not agent.agree(interruption.asked or not go_on)
            interruption.check()

    def _collect(self) -> None:
        agent, collector = self.agent, self.collector
        obs = collector.observe()
        if agent.num_timesteps < agent.config.learning_starts:
            shape = (collector.n_envs, agent.spaces.scale.dim)
            action = agent.random.warm_up.uniform(-1.0, 1.0, size=shape).astype(np.float32)
        else:
            there = torch.from_numpy(obs).to(agent.device)
            action = agent.policy.sample(there, generator=agent.random.act).cpu().numpy()
        rows, episodes = collector.step(action)
        self._torn = True  # until the updates that belong to this step are done
        self.buffer.add(*rows)
        agent.count(len(rows.reward))
        for episode in episodes:
            agent.episodes.append((episode.ret, episode.length))
            agent.logger.record_mean("rollout/return_mean", episode.ret)
            agent.logger.record_mean("rollout/length_mean", episode.length)

    def _update(self) -> int:
        agent, config, buffer = self.agent, self.agent.config, self.buffer
        if self.collector.vector_steps % config.train_freq:
            return 0
        count = agent.since_update if config.gradient_steps == -1 else config.gradient_steps
        agent.since_update = 0
        if agent.num_timesteps <= config.learning_starts or not self._has_batch():
            return 0
        if config.v_range == "from_rewards" and agent.learner.n_updates == 0:
            v = max(buffer.largest_reward(), 1e-6) / (1.0 - config.gamma)
            agent.learner.set_value_range(-v, v)
        for _ in range(count):
            metrics = agent.learner.update(buffer.sample(config.batch_size, agent.random.replay, agent.device))
            for key, value in metrics.items():
                agent.logger.record_mean(f"train/{key}", value)
        return count

    def _has_batch(self) -> bool:
        if not self._ready:
            self._ready = len(self.buffer) >= self.agent.config.batch_size
            if self.agent.agree is not None:
                # An update waits for every rank: none begins before all can.
                self._ready = not self.agent.agree(not self._ready)
        return self._ready

    def _give_states(self, callbacks: list[Callback]) -> None:
        # What a checkpoint brought goes to the callbacks of the same class, in their order.
        waiting = list(self.agent.saved_callback_states)
        for item in callbacks:
            for saved in waiting:
                if saved["type"] == type_name(item):
                    item.load_state_dict(saved["state"])
                    waiting.remove(saved)
                    break

    def _save_what_is_there(self) -> None:
        for writer in self.writers:
            writer.save()
        if not self.writers and self.rescue is not None and self.agent.rank == 0:
            self.agent.save_checkpoint(self.rescue)

    def _show(self, progress: Task) -> None:
        agent = self.agent
        progress.advance(agent.last_transitions)
        if agent.episodes and agent.passed(50):
            last = [ret for ret, _ in list(agent.episodes)[-10:]]
            progress.note(f"return {np.mean(last):.1f} (last {len(last)} episodes)")
