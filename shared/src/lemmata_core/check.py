"""Input checks. Each returns the checked value or raises `InvalidInput` naming the argument."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lemmata_core.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

T = TypeVar("T")


def array(
    x: ArrayLike,
    name: str,
    *,
    ndim: int | Collection[int] | None = None,
    dtype: DTypeLike | None = np.float64,
    shape: tuple[int | None, ...] | None = None,
    finite: bool = True,
    copy: bool = False,
) -> NDArray[Any]:
    """Check an array.

    Parameters
    ----------
    x : array_like
        Not changed. A masked, ragged, object or string array is refused, and so is a complex one where `dtype` is real.
    name : str
        The argument's name in the message.
    ndim : int or collection of int, optional
        Accepted numbers of dimensions.
    dtype : dtype or None
        What the result has; None keeps the input's. Integers are refused where they would lose value: a float array
        with a fractional part or out of range for an integer `dtype`.
    shape : tuple of int or None, optional
        Accepted shape; None stands for any length.
    finite : bool
        Whether NaN and infinity are refused.
    copy : bool
        Whether the result never shares memory with `x`.

    Returns
    -------
    numpy.ndarray
        Shares memory with `x` where it can, unless `copy`.

    Raises
    ------
    InvalidInput
    """
    expected = _describe(ndim, dtype, shape, finite=finite)
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidInput.argument(name, expected=expected, got="a masked array: fill it first")
    try:
        raw = np.asarray(x)
    except (ValueError, TypeError, OverflowError, RuntimeError) as err:
        raise InvalidInput.argument(name, expected=expected, got=f"{type(x).__name__} ({err})") from err
    if raw.dtype.kind not in "biufc":
        raise InvalidInput.argument(name, expected=expected, got=f"dtype {raw.dtype}")
    allowed = None if ndim is None else ({ndim} if isinstance(ndim, int) else set(ndim))
    if allowed is not None and raw.ndim not in allowed:
        raise InvalidInput.argument(name, expected=expected, got=f"shape {raw.shape}")
    if shape is not None and not _fits(raw.shape, shape):
        raise InvalidInput.argument(name, expected=expected, got=f"shape {raw.shape}")
    if finite and raw.dtype.kind in "fc":
        _require_finite(raw, name, expected)
    return _cast(raw, name, expected, dtype, finite=finite, copy=copy)


def _fits(got: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(got) == len(wanted) and all(w is None or g == w for g, w in zip(got, wanted, strict=True))


def _require_finite(raw: NDArray[Any], name: str, expected: str) -> None:
    # One pass without a temporary: the sum is finite unless an entry is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        quick = bool(np.isfinite(raw.sum()))
    if quick:
        return
    bad = ~np.isfinite(raw)
    count = int(bad.sum())
    if count:
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = where[0] if len(where) == 1 else where
        at = f"{raw[where]} at {place}" if where else f"{raw[()]}"
        raise InvalidInput.argument(name, expected=expected, got=f"{count} not finite, first {at}")


def _cast(
    raw: NDArray[Any], name: str, expected: str, dtype: DTypeLike | None, *, finite: bool, copy: bool
) -> NDArray[Any]:
    target = raw.dtype if dtype is None else np.dtype(dtype)
    if raw.dtype.kind == "c" and target.kind != "c":
        raise InvalidInput.argument(name, expected=expected, got=f"dtype {raw.dtype}")
    if target.kind in "iu" and raw.dtype != target and raw.size:
        limits = np.iinfo(target)
        low, high = raw.min(), raw.max()
        if raw.dtype.kind == "f" and not bool((raw == np.floor(raw)).all()):
            raise InvalidInput.argument(name, expected=expected, got="numbers with a fractional part")
        if not limits.min <= low <= high <= limits.max or int(high) > limits.max:
            raise InvalidInput.argument(name, expected=expected, got=f"values from {low} to {high}")
    with np.errstate(over="ignore"):
        made = np.array(raw, dtype=target, copy=True) if copy else raw.astype(target, copy=False)
    if (
        finite
        and target.kind in "fc"
        and target != raw.dtype
        and target.itemsize <= raw.dtype.itemsize
        and not np.isfinite(made).all()
    ):
        got = f"an entry of size {np.abs(raw).max()}"
        raise InvalidInput.argument(name, expected=f"{expected} that {target} can hold", got=got)
    return made


def _describe(
    ndim: int | Collection[int] | None,
    dtype: DTypeLike | None,
    shape: tuple[int | None, ...] | None,
    *,
    finite: bool,
) -> str:
    dims = ""
    if ndim is not None:
        dims = " or ".join(f"{d}-D" for d in ([ndim] if isinstance(ndim, int) else sorted(ndim))) + " "
    kind = {"i": "integers", "u": "non-negative integers", "b": "truth values", "c": "complex numbers"}.get(
        "" if dtype is None else np.dtype(dtype).kind, "numbers"
    )
    article = f"a {dims}" if dims else "an "
    text = f"{article}array of {'finite ' if finite and kind.endswith('numbers') else ''}{kind}"
    if shape is not None:
        sizes = ", ".join("any" if s is None else str(s) for s in shape)
        text += f" of shape ({sizes}{',' if len(shape) == 1 else ''})"
    return text


def square_sparse(x: Any, name: str, *, symmetric: bool = False, nonnegative: bool = False, rtol: float = 1e-10) -> Any:
    """Check a square matrix and return it as CSR with float64 entries, duplicates summed.

    Parameters
    ----------
    x : scipy sparse matrix or array, or array_like
        Not changed.
    name : str
        The argument's name in the message.
    symmetric : bool
        Whether ``|x - x.T|`` must vanish, to `rtol` times the largest entry.
    nonnegative : bool
        Whether negative entries are refused.
    rtol : float
        See `symmetric`.

    Returns
    -------
    scipy.sparse.csr_array
        A new matrix where anything had to change.

    Raises
    ------
    InvalidInput
    """
    from scipy import sparse

    expected = "a square matrix of finite numbers"
    if sparse.issparse(x):
        if x.ndim != 2:
            raise InvalidInput.argument(name, expected=expected, got=f"shape {x.shape}")
        if x.dtype.kind not in "biuf":
            raise InvalidInput.argument(name, expected=expected, got=f"dtype {x.dtype}")
        matrix = sparse.csr_array(x, dtype=np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        matrix = sparse.csr_array(array(x, name, ndim=2))
    rows, columns = matrix.shape
    if rows != columns:
        raise InvalidInput.argument(name, expected=expected, got=f"shape {matrix.shape}")
    _require_finite(matrix.data, name, expected)
    if nonnegative and matrix.nnz and matrix.data.min() < 0:
        raise InvalidInput.argument(name, expected="entries >= 0", got=f"an entry {matrix.data.min()}")
    if symmetric and matrix.nnz:
        gap = abs(matrix - matrix.T)
        worst = gap.max() if gap.nnz else 0.0
        if worst > rtol * abs(matrix.data).max():
            raise InvalidInput.argument(name, expected="a symmetric matrix", got=f"entries that differ by {worst:.3g}")
    return matrix


def in_range(
    x: float,
    name: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Check a finite real number against an interval and return it as a float.

    Parameters
    ----------
    x : float
        A real number; truth values and strings are refused.
    name : str
    low, high : float
        The interval's ends; an infinite end is no bound (the number must be finite all the same).
    low_open, high_open : bool
        Whether the end itself is excluded.

    Raises
    ------
    InvalidInput
    """
    left = "(" if low_open or math.isinf(low) else "["
    right = ")" if high_open or math.isinf(high) else "]"
    expected = f"a finite number in {left}{low:g}, {high:g}{right}"
    given: Any = x
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, numbers.Real):
        raise InvalidInput.argument(name, expected=expected, got=x)
    try:
        value = float(given)
    except OverflowError as err:
        raise InvalidInput.argument(name, expected=expected, got="a number too large for a float") from err
    below = value < low or (low_open and value == low)
    above = value > high or (high_open and value == high)
    if not math.isfinite(value) or below or above:
        raise InvalidInput.argument(name, expected=expected, got=x)
    return value


def positive_int(x: int, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Check an integer (a NumPy integer too; not a truth value, not 3.0) and return it as an int.

    Parameters
    ----------
    x : int
    name : str
    minimum : int
        1 unless told otherwise.
    maximum : int, optional

    Raises
    ------
    InvalidInput
    """
    expected = f"an integer >= {minimum}" + ("" if maximum is None else f" and <= {maximum}")
    if isinstance(x, (bool, np.bool_)):
        raise InvalidInput.argument(name, expected=expected, got=x)
    try:
        value = operator.index(x)
    except TypeError as err:
        raise InvalidInput.argument(name, expected=expected, got=x) from err
    if value < minimum or (maximum is not None and value > maximum):
        raise InvalidInput.argument(name, expected=expected, got=x)
    return value


def one_of(x: T, name: str, choices: Collection[T]) -> T:
    """Check that `x` is one of `choices`, and return it.

    Raises
    ------
    InvalidInput
        Listing the choices, and the nearest one where `x` looks like a slip of the pen.
    """
    try:
        known = x in choices
    except (TypeError, ValueError, RuntimeError):  # what has no hash, or whose comparison is an array or a tensor
        known = False
    if known:
        return x
    listed = ", ".join(repr(c) for c in choices)
    got = repr(x)
    if isinstance(x, str):
        from difflib import get_close_matches

        near = get_close_matches(x, [c for c in choices if isinstance(c, str)], n=1)
        if near:
            got += f" (did you mean {near[0]!r}?)"
    raise InvalidInput.argument(name, expected=f"one of {listed}", got=got)
