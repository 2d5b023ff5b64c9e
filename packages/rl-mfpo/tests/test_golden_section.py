import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from rl_mfpo import minimise
from rl_mfpo.functions import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimiser_lies_in_the_last_bracket(name):
    problem = PROBLEMS[name]
    solution = minimise(problem.function, problem.low, problem.high, tol=1e-6)
    assert solution.status == "converged"
    assert solution.low <= problem.minimiser <= solution.high
    assert solution.high - solution.low <= 1e-6
    assert solution.objective == problem.function(solution.x)


@given(minimiser=st.floats(-5, 5), low=st.floats(-10, -6), high=st.floats(6, 10))
def test_any_kink_inside_the_interval_is_found(minimiser, low, high):
    solution = minimise(lambda x: abs(x - minimiser), low, high, tol=1e-5)
    assert abs(solution.x - minimiser) <= 1e-5


def test_two_evaluations_make_one_step():
    # By hand: inner points 0.382 and 0.618; the left one is better, so [0, 0.618] is kept.
    solution = minimise(lambda x: x, 0.0, 1.0, max_iter=1)
    assert (solution.n_iter, solution.n_evaluations, solution.status) == (1, 2, "max_iter")
    assert solution.low == 0.0
    assert solution.high == pytest.approx(0.6180339887)
    assert solution.x == pytest.approx(0.3819660113)


def test_a_tolerance_below_rounding_is_said_not_to_be_reached():
    solution = minimise(lambda x: (x - 1e9) ** 2, 1e9 - 1, 1e9 + 1, tol=1e-300)
    assert solution.status == "rounding"
    assert solution.n_iter < 100


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"function": 3}, "function"),
        ({"function": lambda x: x * math.nan}, "function"),
        ({"function": lambda x: [x]}, "function"),
        ({"low": 1.0, "high": 1.0}, "low, high"),
        ({"low": math.nan}, "low"),
        ({"high": math.inf}, "high"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_input_is_named(change, named):
    arguments = {"function": abs, "low": -1.0, "high": 1.0} | change
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        minimise(**arguments)
