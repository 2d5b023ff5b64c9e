import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lemmata_core import InvalidInput, check
from scipy import sparse


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ([1.0, 2.0], {"ndim": 2}, r"cost: expected a 2-D array of finite numbers, got shape \(2,\)"),
        ([[1.0], [math.nan]], {}, r"cost: .* got 1 not finite, first nan at \(1, 0\)"),
        ([1.0, math.inf, -math.inf], {}, r"got 2 not finite, first inf at 1"),
        (math.nan, {}, r"got 1 not finite, first nan"),
        ([[1, 2], [3]], {}, r"cost: expected an? .*array.*got list"),
        (["a"], {}, r"got dtype <U1"),
        ([None], {}, r"got dtype object"),
        ([1 + 2j], {}, r"got dtype complex128"),
        ([1.5], {"dtype": np.int64}, r"an array of integers, got numbers with a fractional part"),
        ([300], {"dtype": np.int8}, r"got values from 300 to 300"),
        ([-1], {"dtype": np.uint8}, r"non-negative integers, got values from -1 to -1"),
        (np.zeros((2, 3)), {"shape": (2, None, 1)}, r"of shape \(2, any, 1\), got shape \(2, 3\)"),
        (np.zeros(3), {"shape": (2,)}, r"of shape \(2,\), got shape \(3,\)"),
        (np.zeros((1, 1, 1)), {"ndim": (1, 2)}, r"a 1-D or 2-D array"),
        (np.ma.masked_array([1.0], mask=[True]), {}, r"a masked array"),
        ([math.nan], {"dtype": np.complex128}, r"finite complex numbers"),
    ],
)
def test_an_unusable_array_is_refused_by_name(value, options, message):
    with pytest.raises(InvalidInput, match=message):
        check.array(value, "cost", **options)


def test_a_usable_array_is_shared_not_copied_unless_asked():
    x = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(check.array(x, "x", ndim=2, shape=(None, 3)), x)
    assert not np.shares_memory(check.array(x, "x", copy=True), x)
    fortran = np.asfortranarray(x)
    assert check.array(fortran, "x").flags.f_contiguous


def test_the_dtype_follows_the_request():
    assert check.array([1, 2], "x").dtype == np.float64
    assert check.array([1, 2], "x", dtype=None).dtype.kind == "i"
    assert check.array([1.0, 2.0], "x", dtype=np.int32).tolist() == [1, 2]
    assert check.array([], "x", dtype=np.int32).size == 0
    assert check.array([math.nan], "x", finite=False).shape == (1,)


def test_numbers_whose_sum_overflows_are_still_finite():
    assert check.array([1e308, 1e308], "x").tolist() == [1e308, 1e308]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_an_array_is_accepted_exactly_when_it_is_finite(values):
    if all(math.isfinite(v) for v in values):
        assert check.array(values, "x").tolist() == values
    else:
        with pytest.raises(InvalidInput):
            check.array(values, "x")


@pytest.mark.parametrize("x", [0.5, 1, np.float32(0.25), np.int64(1), np.array(0.5)])
def test_a_real_number_in_range_comes_back_as_float(x):
    assert type(check.in_range(x, "lr", 0, 1)) is float


@pytest.mark.parametrize("x", [-0.1, 1.1, math.nan, math.inf, True, "0.5", None, 1j, np.array([0.5]), np.bool_(True)])
def test_anything_else_is_refused(x):
    with pytest.raises(InvalidInput, match=r"lr: expected a finite number in \[0, 1\], got"):
        check.in_range(x, "lr", 0, 1)


def test_open_ends_are_excluded():
    assert check.in_range(1, "x", 0, 1, low_open=True) == 1
    with pytest.raises(InvalidInput, match=r"\(0, 1\]"):
        check.in_range(0, "x", 0, 1, low_open=True)
    with pytest.raises(InvalidInput, match=r"\[0, 1\)"):
        check.in_range(1, "x", 0, 1, high_open=True)
    assert check.in_range(-1e300, "x") == -1e300


@pytest.mark.parametrize("x", [0, -1, 1.0, True, "1", None, np.float64(2)])
def test_what_is_no_positive_integer_is_refused(x):
    with pytest.raises(InvalidInput, match="n: expected an integer >= 1"):
        check.positive_int(x, "n")


def test_integers_have_bounds():
    assert type(check.positive_int(np.int32(7), "n")) is int
    assert check.positive_int(0, "n", minimum=0) == 0
    with pytest.raises(InvalidInput, match="an integer >= 1 and <= 3, got 4"):
        check.positive_int(4, "n", maximum=3)


def test_a_slip_of_the_pen_is_answered_with_the_right_word():
    assert check.one_of("rows", "mode", ["rows", "columns"]) == "rows"
    with pytest.raises(
        InvalidInput, match=r"mode: expected one of 'rows', 'columns', got 'row' \(did you mean 'rows'\?\)"
    ):
        check.one_of("row", "mode", ["rows", "columns"])
    with pytest.raises(InvalidInput, match="got 3"):
        check.one_of(3, "mode", ["rows"])
    with pytest.raises(InvalidInput, match=r"got \[\]"):
        check.one_of([], "mode", {"rows"})


def test_a_square_sparse_matrix_is_made_canonical_without_touching_the_input():
    given_matrix = sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)).tocsr()
    parts = sparse.csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    before = parts.data.copy()
    made = check.square_sparse(parts, "w")
    assert made.toarray().tolist() == [[0, 3], [3, 0]] == given_matrix.toarray().tolist()
    assert parts.data.tolist() == before.tolist()
    assert check.square_sparse([[0, 1], [1, 0]], "w", symmetric=True).nnz == 2
    assert check.square_sparse(sparse.csr_array((3, 3)), "w", symmetric=True, nonnegative=True).nnz == 0


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (np.zeros((2, 3)), {}, r"a square matrix of finite numbers, got shape \(2, 3\)"),
        (sparse.csr_array([[0, math.nan], [0, 0]]), {}, "not finite"),
        (sparse.csr_array([[0, 1j], [0, 0]]), {}, "dtype complex128"),
        (sparse.csr_array([[0, -1.0], [0, 0]]), {"nonnegative": True}, "entries >= 0, got an entry -1"),
        (sparse.csr_array([[0, 1.0], [0, 0]]), {"symmetric": True}, "a symmetric matrix, got entries that differ by 1"),
    ],
)
def test_an_unusable_matrix_is_refused(value, options, message):
    with pytest.raises(InvalidInput, match=message):
        check.square_sparse(value, "w", **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda: check.array([np.inf], "x", dtype=int, finite=False),
        lambda: check.array([1e300], "x", dtype=np.float32),
        lambda: check.array([70000], "x", dtype=np.float16),
        lambda: check.in_range(10**400, "x"),
        lambda: check.one_of(np.array([1, 2]), "x", ["a", "b"]),
        lambda: check.square_sparse(sparse.coo_array([1.0, 2.0]), "x"),
    ],
)
def test_what_python_or_numpy_would_choke_on_is_refused_by_name(call):
    with pytest.raises(InvalidInput, match="x: expected"):
        call()
