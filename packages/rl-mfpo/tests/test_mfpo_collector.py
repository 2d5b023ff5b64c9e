import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from lemmata_core import InvalidInput
from rl_mfpo.collector import Collector, EnvironmentFault, episode_seed


class Counting(gym.Env):
    """Counts its steps: observation (seed mod 1000, steps), reward steps + action; every other one is only cut off."""

    def __init__(self, length=3, bad=None, alternate=True):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
        self.action_space = spaces.Box(0.0, 4.0, (1,))
        self.length, self.bad, self.alternate = length, bad, alternate
        self.episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = 0 if seed is None else seed % 1000
        self.steps = 0
        self.episodes += 1
        return np.array([self.seed, 0.0]), {}

    def step(self, action):
        self.steps += 1
        reward, obs = self.steps + float(action[0]), np.array([self.seed, self.steps], dtype=float)
        if self.bad == ("reward", self.steps):
            reward = np.nan
        if self.bad == ("obs", self.steps):
            obs[1] = np.inf
        over = self.steps >= self.length
        cut = self.alternate and self.episodes % 2 == 0
        return obs, reward, over and not cut, over and cut, {}


def vector(mode, *lengths, **options):
    return SyncVectorEnv([lambda n=n: Counting(n, **options) for n in lengths], autoreset_mode=mode)


def play(collector, steps, action=0.0):
    rows, episodes = [], []
    for _ in range(steps):
        collector.observe()
        new, over = collector.step(np.full((collector.n_envs, 1), action, dtype=np.float32))
        rows += list(zip(*new))
        episodes += over
    return rows, episodes


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_mode_gives_the_true_transitions(mode):
    collector = Collector(vector(mode, 3), seed=1)
    rows, episodes = play(collector, 9)
    for obs, action, reward, next_obs, _terminated in rows:
        assert next_obs[0] == obs[0], "a transition never crosses an episode"
        assert next_obs[1] == obs[1] + 1
        assert reward == next_obs[1] + 2.0, "action 0 is the middle of [0, 4]"
        assert action == 0.0
    ends = [(bool(t), float(n[1])) for _, _, _, n, t in rows if n[1] == 3]
    assert ends[:2] == [(True, 3.0), (False, 3.0)], "terminated, then only cut off"
    assert [(e.ret, e.length, e.terminated) for e in episodes[:2]] == [(12.0, 3, True), (12.0, 3, False)]
    reset_rows = 2 if mode is AutoresetMode.NEXT_STEP else 0
    assert len(rows) == 9 - reset_rows
    assert len(episodes) == (9 - reset_rows) // 3


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_end_their_episodes_apart(mode):
    collector = Collector(vector(mode, 2, 3), seed=1)
    rows, episodes = play(collector, 6)
    assert {e.length for e in episodes if e.env == 0} == {2}
    assert {e.length for e in episodes if e.env == 1} == {3}
    assert all(n[1] == o[1] + 1 for o, _, _, n, _ in rows)


def test_each_episode_has_the_seed_of_its_environment_and_its_number():
    collector = Collector(vector(AutoresetMode.DISABLED, 2, 3), seed=5)
    seen = {0: [], 1: []}
    for _ in range(7):
        obs = collector.observe().copy()
        for i in (0, 1):
            if obs[i, 1] == 0:
                seen[i].append(int(obs[i, 0]))
        collector.step(np.zeros((2, 1), dtype=np.float32))
    assert seen[0] == [episode_seed(5, 0, k) % 1000 for k in range(4)]
    assert seen[1] == [episode_seed(5, 1, k) % 1000 for k in range(3)]


def test_seeds_differ_between_episodes_environments_and_runs():
    made = {episode_seed(s, e, k) for s in range(5) for e in range(5) for k in range(5)}
    assert len(made) == 125
    assert episode_seed(3, 1, 2) == episode_seed(3, 1, 2)


@pytest.mark.parametrize("bad", ["reward", "obs"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_what_is_not_finite_stops_the_step_and_names_it(bad, mode):
    env = SyncVectorEnv([Counting, lambda: Counting(5, bad=(bad, 2))], autoreset_mode=mode)
    collector = Collector(env, seed=0)
    rows, _ = play(collector, 1)
    assert len(rows) == 2
    with pytest.raises(EnvironmentFault, match=r"environment 1 at step 2 of its episode 0, vector step 2 .* nothing"):
        play(collector, 1)
    # All begin anew; nothing of the broken episode is mixed into the next one.
    assert collector.observe()[:, 1].tolist() == [0.0, 0.0]


def test_a_number_beyond_float32_is_not_finite():
    class Huge(Counting):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs * 1e300, reward, *rest

    collector = Collector(SyncVectorEnv([Huge], autoreset_mode=AutoresetMode.DISABLED), seed=0)
    with pytest.raises(EnvironmentFault, match="an observation of inf in dimension"):
        play(collector, 1)


def test_an_observation_that_is_not_finite_at_the_reset_is_named_too():
    class Broken(Counting):
        def reset(self, **options):
            super().reset(**options)
            return np.array([np.nan, 0.0]), {}

    collector = Collector(SyncVectorEnv([Broken], autoreset_mode=AutoresetMode.DISABLED), seed=0)
    with pytest.raises(EnvironmentFault, match="nan in dimension 0 from environment 0 at the reset of its episode 0"):
        collector.observe()


def test_a_vector_environment_that_does_not_tell_its_mode_is_refused():
    env = vector(AutoresetMode.DISABLED, 3)
    env.metadata = {"autoreset_mode": "sometimes"}
    with pytest.raises(InvalidInput, match=r"SAME_STEP, NEXT_STEP or DISABLED\), got 'sometimes'"):
        Collector(env, seed=0)
    env.metadata = {}
    with pytest.raises(InvalidInput, match="got None"):
        Collector(env, seed=0)


def test_same_step_without_the_last_observation_is_refused():
    class Forgetful(SyncVectorEnv):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, {}

    collector = Collector(Forgetful([Counting], autoreset_mode=AutoresetMode.SAME_STEP), seed=0)
    with pytest.raises(EnvironmentFault, match="final_obs"):
        play(collector, 3)


@pytest.mark.parametrize("lengths", [(9,), (9, 4, 7), (2, 3, 5)])
@pytest.mark.parametrize("steps", [0, 1, 4, 5, 6, 11])
def test_running_episodes_are_brought_back_bit_for_bit(lengths, steps):
    # What an environment does must follow from its seed: none of these counts its episodes.
    first = Collector(vector(AutoresetMode.DISABLED, *lengths, alternate=False), seed=2)
    first.observe()
    play(first, steps, action=0.25)
    second = Collector(vector(AutoresetMode.DISABLED, *lengths, alternate=False), seed=99)
    reasons, _ = second.restore(first.state_dict())
    assert reasons == []
    for a, b in zip(play(first, 8, -0.5)[0], play(second, 8, -0.5)[0]):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_an_environment_that_does_not_come_back_begins_a_new_episode():
    first = Collector(vector(AutoresetMode.DISABLED, 9, 9), seed=2)
    play(first, 4)
    second = Collector(SyncVectorEnv([Counting, lambda: Counting(3)], autoreset_mode=AutoresetMode.DISABLED), seed=2)
    saved = first.state_dict()
    reasons, steps = second.restore(saved)
    assert len(reasons) == 2, "both end after 3 steps, the saved ones were at 4"
    assert "new episode" in reasons[0]
    assert steps == 0
    assert second.observe()[:, 1].tolist() == [0.0, 0.0]


def test_noise_that_no_seed_governs_is_noticed():
    noise = np.random.default_rng(0)

    class Noisy(Counting):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, reward + noise.random(), *rest

    first, second = (Collector(SyncVectorEnv([Noisy], autoreset_mode=AutoresetMode.DISABLED), seed=2) for _ in "ab")
    play(first, 2)
    assert "not deterministic" in second.restore(first.state_dict())[0][0]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_environments_that_reset_themselves_cannot_be_brought_back(mode):
    first, second = (Collector(vector(mode, 9), seed=2) for _ in "ab")
    play(first, 2)
    reasons, _ = second.restore(first.state_dict())
    assert "reset themselves" in reasons[0]
    assert second.observe()[0, 1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_an_environment_gives_the_same_transitions():
    sync = vector(AutoresetMode.DISABLED, 2, 3)
    apart = AsyncVectorEnv([lambda n=n: Counting(n) for n in (2, 3)], autoreset_mode=AutoresetMode.DISABLED)
    try:
        a, b = (play(Collector(env, seed=4), 8, 0.5) for env in (sync, apart))
        assert a[1] == b[1]
        assert all(np.array_equal(x, y) for r, s in zip(a[0], b[0]) for x, y in zip(r, s))
    finally:
        apart.close()
