"""An agent from its making to its files: learning, predicting, bad input, faults and interruptions.

Longer than the other files on purpose: all of it is tried on one small world, whose hook spoils a step.
"""

import inspect
import signal
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from lemmata_core import InvalidInput
from rl_mfpo.agent import MFPO
from rl_mfpo.callbacks import CheckpointCallback
from rl_mfpo.collector import EnvironmentFault
from rl_mfpo.config import MFPOConfig
from rl_mfpo.errors import TrainingDiverged

TINY = {
    "config": "small",
    "hidden_sizes": (16, 16),
    "batch_size": 16,
    "actor_batch_size": 8,
    "learning_starts": 32,
    "k_policy": 4,
    "k_gaussian": 4,
    "buffer_size": 1000,
}


class World(gym.Env):
    """A point that is pushed along a line for `length` steps; `hook` may spoil a step."""

    def __init__(self, length=10, hook=None, low=-2.0, high=2.0):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
        self.action_space = spaces.Box(low, high, (1,))
        self.length, self.hook = length, hook
        self.total = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = self.np_random.normal(), 0
        return np.array([self.x, 0.0]), {}

    def step(self, action):
        self.steps += 1
        self.total += 1
        self.x += 0.1 * float(action[0])
        out = [np.array([self.x, self.steps / 10]), -abs(self.x), False, self.steps >= self.length, {}]
        if self.hook is not None:
            self.hook(self, out)
        return tuple(out)


def weights(agent):
    return [t.clone() for t in [*agent.policy.state_dict().values(), *agent.learner.critic.state_dict().values()]]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_learning_counts_transitions_over_all_environments_and_calls_add_up():
    agent = MFPO(World, n_envs=3, seed=0, **TINY)
    assert agent.learn(30) is agent
    assert agent.num_timesteps == 30
    assert agent.learner.n_updates == 0, "the first learning_starts transitions train nothing"
    agent.learn(31)
    assert agent.num_timesteps == 63, "a vector step is finished: 21 of three"
    agent.learn(until=63)
    assert agent.num_timesteps == 63
    assert agent.learner.n_updates == 11, "one a vector step from transition 33 on"
    assert len(agent.episodes) == 6


def test_two_calls_are_one_long_one():
    a, b = (MFPO(World, seed=3, **TINY) for _ in "ab")
    a.learn(60)
    b.learn(45).learn(until=60)
    assert equal(weights(a), weights(b))


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    a, b, c = (MFPO(World, seed=s, **TINY).learn(50) for s in (1, 1, 2))
    assert equal(weights(a), weights(b))
    assert not equal(weights(a), weights(c))


def test_predictions_in_between_change_nothing():
    a, b = (MFPO(World, seed=1, **TINY).learn(40) for _ in "ab")
    for _ in range(5):
        b.predict(np.zeros(2))
    assert equal(weights(a.learn(20)), weights(b.learn(20)))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_an_environment_gives_the_same_run():
    a, b = (MFPO("Pendulum-v1", seed=1, n_envs=3, vectorization=v, **TINY) for v in ("sync", "async"))
    try:
        assert equal(weights(a.learn(60)), weights(b.learn(60)))
    finally:
        b.close()


@pytest.mark.parametrize(("train_freq", "gradient_steps", "updates"), [(1, 1, 10), (1, 3, 30), (2, 1, 5), (2, -1, 20)])
def test_updates_follow_train_freq_and_gradient_steps(train_freq, gradient_steps, updates):
    # Two environments: 32 transitions in the first 16 vector steps, then ten vector steps with updates.
    agent = MFPO(World, n_envs=2, seed=0, **TINY, train_freq=train_freq, gradient_steps=gradient_steps)
    agent.learn(32).learn(20)
    assert agent.learner.n_updates == updates


def test_nothing_to_learn_is_a_no_op(tmp_path):
    agent = MFPO(World, seed=0, **TINY)
    before = weights(agent)
    called = []
    agent.learn(0, callback=lambda: called.append(1), log_dir=tmp_path / "logs")
    agent.learn(until=0)
    assert equal(before, weights(agent))
    assert not called
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("given", [{}, {"total_timesteps": 5, "until": 5}, {"total_timesteps": -1}, {"until": 1.5}])
def test_how_long_to_learn_must_be_told_once(given):
    with pytest.raises(InvalidInput):
        MFPO(World, **TINY).learn(**given)


def test_predict_has_the_signature_of_stable_baselines3():
    from stable_baselines3.common.base_class import BaseAlgorithm

    ours = list(inspect.signature(MFPO.predict).parameters.items())
    theirs = list(inspect.signature(BaseAlgorithm.predict).parameters.items())
    for (name, mine), (other, peer) in zip(ours, theirs):
        assert (name, mine.default) == (other, peer.default)


@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
def test_evaluate_policy_of_stable_baselines3_works_unchanged():
    from stable_baselines3.common.evaluation import evaluate_policy

    agent = MFPO("Pendulum-v1", seed=0, **TINY)
    mean, std = evaluate_policy(agent, gym.make("Pendulum-v1"), n_eval_episodes=2, deterministic=True)
    assert mean < 0 <= std
    vector = SyncVectorEnv([lambda: gym.make("Pendulum-v1")])
    assert agent.predict(vector.reset(seed=0)[0])[0].shape == (1, 1)


def test_predictions_have_the_shape_dtype_and_bounds_of_the_action_space():
    agent = MFPO(lambda: World(low=3.0, high=5.0), seed=0, **TINY)
    one, state = agent.predict(np.zeros(2), state=("kept",), episode_start=np.array([True]))
    many, _ = agent.predict(np.random.default_rng(0).normal(size=(50, 2)), deterministic=True)
    assert state == ("kept",)
    assert one.shape == (1,)
    assert many.shape == (50, 1)
    assert one.dtype == many.dtype == np.float32
    assert many.min() >= 3.0
    assert many.max() <= 5.0
    assert agent.predict([0, 1])[0].shape == (1,), "integers and lists are cast"


def test_deterministic_predictions_repeat_and_others_do_not():
    agent = MFPO(World, seed=0, **TINY)
    obs = np.array([0.3, 0.1])
    assert agent.predict(obs, deterministic=True)[0] == agent.predict(obs, deterministic=True)[0]
    drawn = {float(agent.predict(obs)[0][0]) for _ in range(10)}
    assert len(drawn) > 3


def test_steps_and_candidates_can_be_chosen_at_inference():
    agent = MFPO(World, seed=0, **TINY)
    obs = np.array([0.3, 0.1])
    by_steps = {float(agent.predict(obs, deterministic=True, steps=n, n_candidates=1)[0][0]) for n in (1, 2, 4)}
    assert len(by_steps) == 3
    with pytest.raises(InvalidInput, match="steps"):
        agent.predict(obs, steps=0)
    with pytest.raises(InvalidInput, match="n_candidates"):
        agent.predict(obs, n_candidates=0)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (np.zeros(3), r"shape \(2,\) or \(n, 2\), got shape \(3,\)"),
        (np.zeros((1, 1, 2)), r"got shape \(1, 1, 2\)"),
        (np.float64(1.0), "shape"),
        (np.array([0.0, np.nan]), "finite"),
        (np.array([np.inf, 0.0]), "finite"),
        (np.array([1e300, 0.0]), "finite"),
        ({"a": 1}, "real numbers"),
        (["x", "y"], "real numbers"),
    ],
)
def test_observations_that_are_none_are_refused(observation, words):
    with pytest.raises(InvalidInput, match=words):
        MFPO(World, seed=0, **TINY).predict(observation)


def test_observations_that_overflow_in_the_network_are_told():
    agent = MFPO(World, seed=0, **TINY)
    assert np.isfinite(agent.predict(np.array([1e15, -1e15]))[0]).all()
    with pytest.raises(InvalidInput, match="networks can take"):
        agent.predict(np.array([1e30, -1e38]))


def test_the_callers_observation_is_left_alone():
    obs = np.array([0.3, 0.1], dtype=np.float32)
    obs.flags.writeable = False
    MFPO(World, seed=0, **TINY).predict(obs)
    assert obs.tolist() == np.float32([0.3, 0.1]).tolist()


def test_an_unknown_hyper_parameter_lists_the_nearest():
    with pytest.raises(InvalidInput, match=r"k_polcy.*k_policy"):
        MFPO(World, k_polcy=3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch_size": 64, "buffer_size": 32}, "buffer_size"),
        ({"learning_starts": 3, "batch_size": 64}, "learning_starts"),
        ({"k_policy": 0}, "k_policy"),
        ({"k_gaussian": 0}, "k_gaussian"),
        ({"n_sample_steps": 0}, "n_sample_steps"),
        ({"v_min": 5.0, "v_max": 5.0}, "v_min"),
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": -0.1}, "gamma"),
        ({"seed": -1}, "seed"),
        ({"device": "abacus"}, "device"),
        ({"n_envs": 0}, "n_envs"),
        ({"vectorization": "threads"}, "vectorization"),
        ({"config": "huge"}, "huge"),
        ({"replay_bytes": 10}, "buffer_size"),
    ],
)
def test_what_cannot_be_is_told_before_any_work(given, words):
    with pytest.raises(InvalidInput, match=words):
        MFPO(World, **given)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Pendulum-v7", "Pendulum"),
        ("NoSuchThing-v0", "NoSuchThing"),
        (3, "builtins.int"),
        ("CartPole-v1", "action_space.*Discrete"),
        ("FrozenLake-v1", "observation_space.*Discrete"),
        ("Blackjack-v1", "observation_space.*Tuple"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_environments_that_cannot_be_used_are_told_at_once(env, words):
    with pytest.raises(InvalidInput, match=words):
        MFPO(env, **TINY)


def test_one_ready_made_environment_is_one():
    with pytest.raises(InvalidInput, match="n_envs"):
        MFPO(World(), n_envs=2, **TINY)
    vector = SyncVectorEnv([World, World], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(InvalidInput, match="n_envs"):
        MFPO(vector, n_envs=3, **TINY)
    assert MFPO(vector, seed=0, **TINY).learn(40).num_timesteps == 40


def spoil(kind, at):
    def hook(world, out):
        if world.total == at:
            if kind == "reward":
                out[1] = np.nan
            else:
                out[0] = np.array([np.inf, 0.0])

    return hook


@pytest.mark.parametrize("kind", ["reward", "obs"])
def test_a_step_that_is_not_finite_stops_and_saves_what_was_there(kind, tmp_path):
    agent = MFPO(World(hook=spoil(kind, 45)), seed=0, **TINY)
    with pytest.raises(EnvironmentFault, match="environment 0 at step 5 of its episode 4, vector step 45"):
        agent.learn(100, callback=CheckpointCallback(1000, tmp_path / "c"))
    assert agent.num_timesteps == len(agent.buffer) == 44
    assert np.isfinite(agent.buffer.read_rows(0, 44)).all()
    resumed = MFPO.resume(tmp_path / "c", env=World())
    assert resumed.num_timesteps == 44
    assert equal(weights(resumed), weights(agent))
    # Both go on with a new episode, and in the same way.
    assert equal(weights(agent.learn(20)), weights(resumed.learn(20)))


def test_without_a_checkpoint_callback_it_is_saved_in_the_log_folder(tmp_path):
    agent = MFPO(World(hook=spoil("obs", 40)), seed=0, **TINY)
    with pytest.raises(EnvironmentFault):
        agent.learn(100, log_dir=tmp_path)
    assert MFPO.resume(tmp_path / "checkpoint", env=World()).num_timesteps == 39


def test_a_loss_that_is_not_finite_stops_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    agent = MFPO(World(), seed=0, **TINY)
    callback = CheckpointCallback(40, tmp_path / "c")
    agent.learn(40, callback=callback)
    kept = {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir()}
    with torch.no_grad():
        next(agent.learner.critic.parameters()).fill_(torch.nan)
    with pytest.raises(TrainingDiverged) as error:
        agent.learn(40, callback=callback)
    assert not np.isfinite(error.value.metrics["critic_loss"])
    assert {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir()} == kept


def test_an_environment_that_raises_leaves_an_agent_that_goes_on():
    def hook(world, out):
        if world.total == 40:
            raise RuntimeError("the simulator broke")

    agent = MFPO(World(hook=hook), seed=0, **TINY)
    with pytest.raises(RuntimeError, match="simulator"):
        agent.learn(100)
    assert agent.num_timesteps == 39
    assert agent.learn(10).num_timesteps == 49


class Recorder:
    def __init__(self):
        self.calls = []

    def on_training_start(self):
        self.calls.append("start")

    def on_step(self):
        self.calls.append("step")
        return True

    def on_training_end(self):
        self.calls.append("end")


def test_control_c_ends_the_vector_step_saves_and_is_raised(tmp_path):
    def hook(world, out):
        if world.total == 40:
            signal.raise_signal(signal.SIGINT)

    agent, recorder = MFPO(World(hook=hook), seed=0, **TINY), Recorder()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(100, callback=[recorder, CheckpointCallback(1000, tmp_path / "c")])
    assert signal.getsignal(signal.SIGINT) is before
    assert recorder.calls == ["start", *["step"] * 40, "end"]
    assert agent.num_timesteps == 40
    resumed = MFPO.resume(tmp_path / "c", env=World())
    assert resumed.resume_report.exact
    straight = MFPO(World(), seed=0, **TINY).learn(70)
    assert equal(weights(resumed.learn(until=70)), weights(straight))
    assert equal(weights(agent.learn(until=70)), weights(straight))


def test_a_second_control_c_does_not_wait():
    def hook(world, out):
        if world.total == 40:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    agent = MFPO(World(hook=hook), seed=0, **TINY)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(100)
    assert agent.num_timesteps == 39
    assert agent.learn(5).num_timesteps == 44


def test_training_works_outside_the_main_thread():
    agent = MFPO(World, seed=0, **TINY)
    thread = threading.Thread(target=agent.learn, args=(20,))
    thread.start()
    thread.join()
    assert agent.num_timesteps == 20


def test_another_environment_must_have_the_same_spaces():
    agent = MFPO(World, seed=0, **TINY).learn(40)
    with pytest.raises(InvalidInput, match="actions from"):
        agent.set_env(World(high=3.0))
    with pytest.raises(InvalidInput, match="observations of 2 dimensions"):
        agent.set_env("Pendulum-v1")
    assert agent.learn(1).num_timesteps == 41, "the old one is still there"
    agent.set_env(World, n_envs=2)
    assert agent.get_env().num_envs == agent.n_envs == 2
    assert agent.learn(10).num_timesteps == 51
    assert len(agent.buffer) == 51


def test_a_saved_agent_predicts_the_same(tmp_path):
    agent = MFPO(World, seed=0, **TINY).learn(50)
    obs = np.random.default_rng(0).normal(size=(20, 2))
    agent.save(tmp_path / "a.mfpo")
    loaded = MFPO.load(tmp_path / "a.mfpo")
    assert loaded.config == agent.config
    assert loaded.num_timesteps == 50
    for deterministic in (True, False):
        expected = agent.predict(obs, deterministic=deterministic)[0]
        assert np.array_equal(expected, loaded.predict(obs, deterministic=deterministic)[0])
    with pytest.raises(InvalidInput, match="no environment"):
        loaded.learn(5)
    loaded.set_env(World)
    assert loaded.learn(30).num_timesteps == 80
    assert MFPO.load(tmp_path / "a.mfpo", env=World).learn(1).num_timesteps == 51


@pytest.mark.parametrize("content", [b"", b"nonsense", b"junk\n", b"\x80\x62(]}.", None])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    path = tmp_path / "a.mfpo"
    if content is None:
        torch.save({"a": 1}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"a file that MFPO.save wrote"):
        MFPO.load(path)


def test_places_that_are_none_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="which is not there"):
        MFPO.load(tmp_path / "none.mfpo")
    with pytest.raises(InvalidInput, match=r"MFPO.resume reads checkpoints"):
        MFPO.load(tmp_path)
    with pytest.raises(InvalidInput, match="a folder that exists"):
        MFPO(World, **TINY).save(tmp_path / "no" / "a.mfpo")


def test_the_range_of_values_can_come_from_the_rewards():
    agent = MFPO(World, seed=0, **TINY, v_range="from_rewards", gamma=0.9).learn(40)
    largest = np.abs(agent.buffer.read_rows(0, 33)[:, 3]).max()
    assert agent.learner.v_max == pytest.approx(10 * largest, rel=1e-6)
    assert agent.learner.v_min == -agent.learner.v_max


def test_a_fresh_seed_is_told_and_gives_the_same_run_again():
    a = MFPO(World, **TINY).learn(40)
    assert equal(weights(a), weights(MFPO(World, seed=a.seed, **TINY).learn(40)))


def test_configurations_come_as_object_name_or_fields():
    assert MFPO(World, config=MFPOConfig(buffer_size=1000, gamma=0.5)).config.gamma == 0.5
    with pytest.raises(InvalidInput, match="config"):
        MFPO(World, config=3)


def test_replay_in_a_file_gives_the_same_run(tmp_path):
    a = MFPO(World, seed=0, **TINY).learn(50)
    b = MFPO(World, seed=0, **TINY, replay_path=tmp_path / "replay").learn(50)
    assert equal(weights(a), weights(b))


def test_nothing_warns_in_a_plain_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MFPO("Pendulum-v1", seed=0, **TINY).learn(50)
