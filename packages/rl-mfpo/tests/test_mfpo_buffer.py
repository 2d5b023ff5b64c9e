from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from rl_mfpo.buffer import ReplayBuffer


def transitions(first, n):
    """Transitions whose every number tells which one it is."""
    k = np.arange(first, first + n, dtype=np.float32)
    return np.stack([k, k + 0.1], 1), np.stack([k + 0.2], 1), k + 0.3, np.stack([k + 0.4, k + 0.5], 1), k % 2 == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.lists(st.integers(0, 30), max_size=8))
def test_it_equals_a_list_of_tuples_that_forgets_its_oldest(capacity, sizes):
    buffer, model, first = ReplayBuffer(capacity, 2, 1), deque(maxlen=capacity), 0
    for n in sizes:
        buffer.add(*transitions(first, n))
        for row in zip(*transitions(first, n)):
            model.append(np.concatenate([np.atleast_1d(x) for x in row]).astype(np.float32))
        first += n
        assert len(buffer) == len(model)
        assert buffer.total == first
        held = buffer.read_rows(buffer.total - len(buffer), buffer.total)
        assert held.tolist() == [row.tolist() for row in model]


def test_samples_are_whole_transitions_of_the_right_shape():
    buffer = ReplayBuffer(7, 2, 1)
    buffer.add(*transitions(0, 20))
    batch = buffer.sample(500, np.random.default_rng(0))
    assert [tuple(t.shape) for t in batch] == [(500, 2), (500, 1), (500,), (500, 2), (500,)]
    assert all(t.is_contiguous() and t.dtype.is_floating_point and t.element_size() == 4 for t in batch)
    k = batch.obs[:, 0]
    assert set(k.tolist()) == set(range(13, 20))
    np.testing.assert_array_equal(batch.reward, k + 0.3)
    np.testing.assert_array_equal(batch.next_obs[:, 1], k + 0.5)
    np.testing.assert_array_equal(batch.terminated, 1 - k % 2)


def test_every_row_is_as_likely():
    buffer = ReplayBuffer(10, 2, 1)
    buffer.add(*transitions(0, 10))
    counts = np.bincount(buffer.sample(20_000, np.random.default_rng(1)).obs[:, 0].numpy().astype(int))
    # Binomial(20 000, 0.1): standard deviation 42.
    assert abs(counts - 2000).max() < 5 * 42


def test_a_sample_does_not_change_when_its_row_is_overwritten():
    buffer = ReplayBuffer(2, 2, 1)
    buffer.add(*transitions(0, 2))
    batch = buffer.sample(4, np.random.default_rng(0))
    before = batch.obs.clone()
    buffer.add(*transitions(10, 2))
    assert (batch.obs == before).all()


def test_a_buffer_beyond_its_budget_is_refused_before_it_is_allocated():
    with pytest.raises(InvalidInput, match=r"buffer_size: expected at most 1.0 MiB .* got 26702880.9 MiB") as error:
        ReplayBuffer(10**12, 2, 1, max_bytes=2**20)
    assert "replay_path" in str(error.value)


def test_by_default_the_free_memory_is_the_budget():
    with pytest.raises(InvalidInput, match="buffer_size"):
        ReplayBuffer(10**13, 2, 1)


def test_rows_in_a_file_are_the_same_rows(tmp_path):
    memory, file = ReplayBuffer(7, 2, 1), ReplayBuffer(7, 2, 1, path=tmp_path / "replay.f32")
    for buffer in (memory, file):
        buffer.add(*transitions(0, 11))
    assert (tmp_path / "replay.f32").stat().st_size == memory.nbytes == 7 * 7 * 4
    a, b = (buffer.sample(64, np.random.default_rng(0)) for buffer in (memory, file))
    assert all((x == y).all() for x, y in zip(a, b))


def test_rows_that_are_gone_cannot_be_read():
    buffer = ReplayBuffer(4, 2, 1)
    buffer.add(*transitions(0, 6))
    with pytest.raises(InvalidInput, match="from 2 to 6, got 1, 3"):
        buffer.read_rows(1, 3)


def test_nothing_is_sampled_from_nothing():
    with pytest.raises(InvalidInput, match="no transition yet"):
        ReplayBuffer(4, 2, 1).sample(1, np.random.default_rng(0))


def test_the_largest_reward_is_one_of_those_held():
    buffer = ReplayBuffer(3, 2, 1)
    assert buffer.largest_reward() == 0.0
    buffer.add(*transitions(0, 2))
    assert buffer.largest_reward() == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (0, None, "obs"),
        (0, np.zeros((3, 2)), "obs"),
        (1, [[1.0], [1.0, 2.0]], "action"),
        (2, None, "reward"),
        (2, [0.0, np.nan], "reward"),
        (3, np.full((2, 2), np.inf), "next_obs"),
        (4, ["no", "yes"], "terminated"),
    ],
)
def test_bad_transitions_are_refused_and_none_is_stored(place, value, named):
    buffer, rows = ReplayBuffer(8, 2, 1), list(transitions(0, 2))
    rows[place] = value
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        buffer.add(*rows)
    assert len(buffer) == 0
