import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from rl_mfpo.spaces import ActionScale, Spaces, as_float32, check_action_space, check_observation_space

finite = st.floats(-1e6, 1e6, width=32)


def test_the_ends_and_the_middle_of_the_box_are_hit_exactly():
    scale = ActionScale(np.float32([-2, 0, 10]), np.float32([2, 1, 30]))
    unit = np.float32([[-1, -1, -1], [0, 0, 0], [1, 1, 1]])
    assert scale.to_env(unit).tolist() == [[-2, 0, 10], [0, 0.5, 20], [2, 1, 30]]


@given(finite, st.floats(2**-10, 1e6, width=32), st.floats(-1, 1, width=32))
def test_scaling_is_a_bijection_that_never_leaves_the_bounds(low, span, unit):
    high = np.float32(low) + np.float32(span)
    if not high > np.float32(low):
        return
    scale = ActionScale(np.float32([low]), np.float32([high]))
    there = scale.to_env(np.float32([unit]))
    assert there.dtype == np.float32
    assert scale.low <= there <= scale.high
    # float32 keeps 2^-24 of the larger bound, which is so much of the span.
    error = 2.0**-22 * (1 + max(abs(low), abs(high)) / (float(high) - float(np.float32(low))))
    assert abs(scale.to_unit(there)[0] - np.float32(unit)) <= error


def test_a_float64_space_gets_float64_actions_within_its_bounds():
    scale = ActionScale(np.array([-0.1]), np.array([0.1]))
    action = scale.to_env(np.float32([[1.0], [-1.0]]))
    assert action.dtype == np.float64
    assert action.max() <= 0.1
    assert action.min() >= -0.1


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(4), ["Discrete(4)", "discrete"]),
        (spaces.MultiDiscrete([2, 3]), ["MultiDiscrete", "discrete"]),
        (spaces.MultiBinary(3), ["MultiBinary(3)"]),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,))}), ["Dict", "TransformAction"]),
        (spaces.Tuple([spaces.Box(-1, 1, (2,))]), ["Tuple", "TransformAction"]),
        (spaces.Box(-1, 1, ()), ["Box", "one-dimensional"]),
        (spaces.Box(-1, 1, (0,)), ["Box"]),
        (spaces.Box(-1, 1, (2, 2)), ["(2, 2)", "TransformAction"]),
        (spaces.Box(0, 5, (2,), dtype=np.int64), ["int64"]),
        (spaces.Box(-1, np.inf, (1,)), ["dimension 0", "RescaleAction", "ClipAction"]),
        (spaces.Box(np.float32([-1, -np.inf, -1, 0]), np.float32([1, 1, np.inf, 1])), ["dimensions 1, 2"]),
        (spaces.Box(-3e38, 3e38, (2,)), ["dimensions 0, 1"]),
        (spaces.Box(np.float32([0, 1]), np.float32([1, 1])), ["dimension 1", "low >= high"]),
    ],
)
def test_action_spaces_that_cannot_be_used_are_named_with_what_helps(space, words):
    with pytest.raises(InvalidInput, match=r"^action_space: expected") as error:
        check_action_space(space)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(4), ["Discrete(4)", "FlattenObservation"]),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,))}), ["Dict", "FlattenObservation"]),
        (spaces.Tuple([spaces.Box(-1, 1, (2,))]), ["Tuple", "FlattenObservation"]),
        (spaces.MultiBinary(3), ["MultiBinary(3)", "FlattenObservation"]),
        (spaces.Box(0, 255, (64, 64, 3), dtype=np.uint8), ["images", "FlattenObservation"]),
        (spaces.Box(-1, 1, (3, 4)), ["(3, 4)", "FlattenObservation"]),
        (spaces.Box(-1, 1, ()), ["at least one dimension"]),
        (spaces.Box(-1, 1, (0,)), ["at least one dimension"]),
    ],
)
def test_observation_spaces_that_cannot_be_used_are_named_with_what_helps(space, words):
    with pytest.raises(InvalidInput, match=r"^observation_space: expected") as error:
        check_observation_space(space)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_vectors_of_any_number_are_observations(dtype):
    assert check_observation_space(spaces.Box(0, 100, (5,), dtype=dtype)) == 5


def test_what_flatten_observation_makes_is_accepted():
    class World(gym.Env):
        observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
        action_space = spaces.Box(-1, 1, (1,))

    assert check_observation_space(gym.wrappers.FlattenObservation(World()).observation_space) == 5


def test_other_dimensions_and_other_bounds_are_told_apart():
    box = ActionScale(np.float32([-1]), np.float32([1]))
    with pytest.raises(InvalidInput, match="observations of 3 dimensions, got 4 dimensions"):
        Spaces(3, box).require_same(Spaces(4, box))
    with pytest.raises(InvalidInput, match="actions from"):
        Spaces(3, box).require_same(Spaces(3, ActionScale(np.float32([-1]), np.float32([2]))))


def test_words_are_no_observations():
    with pytest.raises(InvalidInput, match="observation: expected an array of real numbers"):
        as_float32(np.array(["a"]))
