"""A run that was cut anywhere and resumed equals the unbroken run: weights, curve, replay, to the bit."""

import csv
import multiprocessing
import signal
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from lemmata_core import InvalidInput
from rl_mfpo import checkpoint
from rl_mfpo.agent import MFPO
from rl_mfpo.callbacks import CheckpointCallback, EvalCallback

TINY = {
    "hidden_sizes": [16, 16],
    "batch_size": 16,
    "actor_batch_size": 8,
    "learning_starts": 100,
    "k_policy": 4,
    "k_gaussian": 4,
    "buffer_size": 1000,
    "train_freq": 2,
}
CASES = [("Pendulum-v1", 1), ("Pendulum-v1", 3), ("Hopper-v5", 1), ("Hopper-v5", 3)]


def make(env, n_envs=1):
    return MFPO(env, config="small", seed=4, n_envs=n_envs, device="cpu", **TINY)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b or (a != a and b != b)


def assert_same_run(a, b):
    """Everything that training depends on."""
    assert same(a.learner.state_dict(), b.learner.state_dict())
    assert same(a.random.numpy_states(), b.random.numpy_states())
    assert same(a.random.torch_states(), b.random.torch_states())
    assert a.num_timesteps == b.num_timesteps
    assert list(a.episodes) == list(b.episodes)
    assert np.array_equal(a.buffer._rows, b.buffer._rows)
    assert same(
        checkpoint.arrays_to_tensors(a.collector.state_dict()), checkpoint.arrays_to_tensors(b.collector.state_dict())
    )


def curve(path):
    with (path / "progress.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in csv.DictReader(file)]


@pytest.mark.parametrize(("env", "n_envs"), CASES)
def test_150_steps_a_checkpoint_and_150_more_are_300_steps(env, n_envs, tmp_path):
    straight, first = make(env, n_envs), make(env, n_envs)
    straight.learn(300, log_dir=tmp_path / "a", log_interval=40)
    first.learn(150, log_dir=tmp_path / "b", log_interval=40)
    first.save_checkpoint(tmp_path / "c")
    resumed = MFPO.resume(tmp_path / "c", device="cpu")
    assert resumed.resume_report.exact
    assert resumed.resume_report.reasons == ()
    assert resumed.resume_report.num_timesteps == 150
    if env == "Pendulum-v1":
        assert resumed.resume_report.replayed_steps == 150, "in the middle of an episode of 200"
    resumed.learn(until=300, log_dir=tmp_path / "b", log_interval=40)
    assert_same_run(straight, resumed)
    assert curve(tmp_path / "a") == curve(tmp_path / "b")
    assert len(curve(tmp_path / "a")) == 7


def callbacks(env, folder):
    return [CheckpointCallback(25, folder / "checkpoint"), EvalCallback(env, 70, 1, folder / "best.mfpo")]


def work(env, n_envs, target, folder):
    torch.set_num_threads(1)
    path = folder / "checkpoint"
    agent = MFPO.resume(path, device="cpu") if checkpoint.manifests(path) else make(env, n_envs)
    agent.learn(
        until=target, log_dir=folder, log_interval=40, callback=[*callbacks(env, folder), lambda: time.sleep(0.004)]
    )


def killed_and_resumed(env, n_envs, target, tmp_path, kills, rng):
    folder = tmp_path / "killed"
    for number in kills:
        process = multiprocessing.get_context("fork").Process(target=work, args=(env, n_envs, target, folder))
        process.start()
        deadline = time.monotonic() + 120
        found = 0
        while process.is_alive() and found < number and time.monotonic() < deadline:
            found = max(checkpoint.manifests(folder / "checkpoint"), default=0)
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.08)))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "it was killed in the middle"
    return folder


def unbroken(env, n_envs, target, folder):
    agent = make(env, n_envs)
    agent.learn(until=target, log_dir=folder, log_interval=40, callback=callbacks(env, folder))
    return agent


def finish(env, n_envs, target, folder):
    agent = MFPO.resume(folder / "checkpoint", device="cpu")
    assert agent.resume_report.exact, agent.resume_report
    return agent.learn(until=target, log_dir=folder, log_interval=40, callback=callbacks(env, folder))


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and kills")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_was_killed_is_resumed_as_if_it_had_not(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        folder = killed_and_resumed("Pendulum-v1", 1, 400, tmp_path, [5], np.random.default_rng())
        straight = unbroken("Pendulum-v1", 1, 210, tmp_path / "straight")
        assert_same_run(straight, finish("Pendulum-v1", 1, 210, folder))
        assert curve(tmp_path / "straight") == curve(folder)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and kills")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize(("env", "n_envs"), CASES)
def test_three_kills_at_random_moments_change_nothing(env, n_envs, tmp_path):
    rng = np.random.default_rng()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        folder = killed_and_resumed(
            env, n_envs, 2000, tmp_path, sorted(rng.choice(np.arange(2, 18), 3, replace=False)), rng
        )
        straight = unbroken(env, n_envs, 600, tmp_path / "straight")
        assert_same_run(straight, finish(env, n_envs, 600, folder))
        assert curve(tmp_path / "straight") == curve(folder)
    finally:
        torch.set_num_threads(threads)


def test_checkpoints_of_the_callback_are_exact_at_each_of_their_steps(tmp_path):
    straight = make("Pendulum-v1").learn(230)
    agent = make("Pendulum-v1")
    agent.learn(200, callback=CheckpointCallback(50, tmp_path, keep=3))
    assert len(checkpoint.manifests(tmp_path)) == 3
    newest = max(checkpoint.manifests(tmp_path))
    checkpoint.manifests(tmp_path)[newest].unlink()
    before = MFPO.resume(tmp_path, device="cpu")
    assert before.num_timesteps == 150
    assert_same_run(straight, before.learn(until=230))


def test_a_checkpoint_between_episodes_is_exact(tmp_path):
    straight, first = make("Pendulum-v1").learn(230), make("Pendulum-v1").learn(200)
    first.save_checkpoint(tmp_path)
    resumed = MFPO.resume(tmp_path, device="cpu")
    assert resumed.resume_report.exact
    assert resumed.resume_report.replayed_steps == 0
    assert_same_run(straight, resumed.learn(until=230))


def test_a_checkpoint_before_the_first_step_is_exact(tmp_path):
    make("Pendulum-v1").save_checkpoint(tmp_path)
    assert_same_run(make("Pendulum-v1").learn(120), MFPO.resume(tmp_path, device="cpu").learn(120))


class Shaky(gym.Wrapper):
    """Adds what no seed governs."""

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, reward + np.random.default_rng().random(), *rest


def test_an_environment_that_does_not_come_back_is_told(tmp_path):
    agent = MFPO(Shaky(gym.make("Pendulum-v1")), config="small", seed=4, device="cpu", **TINY).learn(50)
    agent.save_checkpoint(tmp_path)
    with pytest.raises(InvalidInput, match="env: expected the environment"):
        MFPO.resume(tmp_path, device="cpu")
    with pytest.warns(UserWarning, match="goes on, but not exactly: environment 0 did not come back"):
        resumed = MFPO.resume(tmp_path, env=Shaky(gym.make("Pendulum-v1")), device="cpu")
    assert not resumed.resume_report.exact
    assert resumed.learn(10).num_timesteps == 60


def test_a_vector_environment_that_resets_itself_is_told(tmp_path):
    def vector():
        return SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2, autoreset_mode=AutoresetMode.SAME_STEP)

    MFPO(vector(), config="small", seed=4, device="cpu", **TINY).learn(50).save_checkpoint(tmp_path)
    with pytest.warns(UserWarning, match="reset themselves"):
        resumed = MFPO.resume(tmp_path, env=vector(), device="cpu")
    assert resumed.num_timesteps == 50
    assert not resumed.resume_report.exact
    assert resumed.learn(10).num_timesteps == 60


def test_a_ready_made_environment_is_resumed_when_it_is_handed_over_again(tmp_path):
    class Slippery(gym.Wrapper):
        def step(self, action):
            return self.env.step(0.5 * action)

    def made():
        return MFPO(Slippery(gym.make("Pendulum-v1")), config="small", seed=4, device="cpu", **TINY)

    made().learn(130).save_checkpoint(tmp_path)
    resumed = MFPO.resume(tmp_path, env=Slippery(gym.make("Pendulum-v1")), device="cpu")
    assert resumed.resume_report.exact
    assert_same_run(made().learn(180), resumed.learn(until=180))


def test_another_number_of_threads_is_told(tmp_path):
    make("Pendulum-v1").learn(10).save_checkpoint(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.warns(UserWarning, match=f"torch_threads was {threads} and is {threads + 1}"):
            assert not MFPO.resume(tmp_path, device="cpu").resume_report.exact
    finally:
        torch.set_num_threads(threads)
