"""Malformed input for `test_fuzz.py`: a good call, some arguments of which are spoilt, and what may come of it."""

from __future__ import annotations

import copy
import dataclasses
import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from scipy import sparse

# Of computing, for one call. What a first call takes longer, for it compiles, a good call has taken before.
SECONDS = 20.0

NUMBERS = (
    *(0, -1, -3, 2**31, 2**63, 10**400, True, 0.5, -0.0, 1e300, -1e300, 5e-324, 1e-310, math.nan, math.inf, -math.inf),
    *("3", "", b"1", None, [], [1, 2], {}, 1j, np.float32(2), np.array(3), np.array([3]), np.int8(-128), object()),
)
# Where a number is a size, a large one is a wish, and granting it takes as long as it takes.
SIZES = tuple(
    n for n in NUMBERS if not (isinstance(n, int | float) and not isinstance(n, bool) and 100 < abs(n) < math.inf)
)
WORDS = ("", "no such", "AUTO", b"auto", 0, None, 3.5, ["auto"], object())
WRECKS = (
    *(
        None,
        "text",
        b"bytes",
        3,
        math.nan,
        object(),
        {},
        {"a": 1},
        [],
        [[]],
        [[1.0], [1.0, 2.0]],
        ["a", "b"],
        [None, 1.0],
    ),
    *(np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((0, 0)), np.zeros((2, 3, 4)), np.array(1.0)),
    *(np.array(["a", "b"]), np.array([object(), 1.0]), np.array([1j, 2j]), np.array(["2020-01-01"], "M8[D]")),
    *(np.ma.masked_array([1.0, 2.0], [True, False]), range(3), iter([1.0]), sparse.eye_array(3).tocsr()),
)
VALUES = (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e200, 1e-200, 5e-324, -1.0, 0.0, -0.0, 0.5, 2.0**53 + 2, 7e18)


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


def tensor(*shape: int) -> Any:
    import torch

    return torch.from_numpy(normal(*shape)).float()


def positive(*shape: int) -> Any:
    return np.abs(normal(*shape)) + 0.1


def graph(n: int = 12) -> Any:
    """Two cliques and a bridge."""
    A = np.kron(np.eye(2), np.ones((n // 2, n // 2))) - np.eye(n)
    A[0, n - 1] = A[n - 1, 0] = 1.0
    return A


class Size(int):
    """A good argument on which time or memory depend."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public entry point and one good call of it.

    Attributes
    ----------
    call : callable
        Takes the arguments by name. What it returns is searched for NaN.
    good : callable
        Makes a new set of good arguments; all of them may be spoilt.
    refuses : tuple of exception types
        Documented, besides `InvalidInput`.
    carries : bool
        NaN in gives NaN out, as everywhere in torch: an answer that is not finite is right where an argument is not, or
        is so large that the arithmetic of its type overflows.
    writes : tuple of str
        The arguments that the call is there to change.
    """

    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    refuses: tuple[type[BaseException], ...] = ()
    carries: bool = False
    writes: tuple[str, ...] = ()


def malformed(good: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Good arguments with one of them, or two, spoilt. The same object may come twice: as a caller would alias it."""

    def spoil(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: hostile(good[name]) for name in names})

    names = st.lists(st.sampled_from(sorted(good)), min_size=1, max_size=2, unique=True)
    return names.flatmap(spoil)


def hostile(value: Any) -> st.SearchStrategy[Any]:
    """What a careless caller might hand over instead of a value."""
    if is_tensor(value):
        arrays = array_like(value.detach().float().numpy() if value.is_floating_point() else value.numpy())
        return st.one_of(arrays.map(as_tensor), arrays, st.sampled_from(WRECKS))
    if isinstance(value, np.ndarray) and value.ndim:
        return st.one_of(array_like(value), array_like(value), st.sampled_from(WRECKS))
    if sparse.issparse(value):
        return st.one_of(array_like(value.toarray()).map(as_sparse), st.sampled_from(WRECKS))
    if isinstance(value, str):
        return st.sampled_from(WORDS)
    if isinstance(value, bool | int | float | np.number):
        return st.sampled_from(SIZES if isinstance(value, Size) else NUMBERS)
    return st.sampled_from(WRECKS)


@st.composite
def array_like(draw: st.DrawFn, value: np.ndarray) -> Any:
    """An array near a good one: wrong in shape, in type, in an entry or in its memory."""
    kind = draw(st.sampled_from(["entry", "entries", "shape", "type", "memory", "list"]))
    array = np.array(value)
    if array.dtype.kind not in "iufb" and kind != "list":
        kind = "shape"
    if kind in {"entry", "entries"}:
        # Where the good one is of integers both ways matter: a bad integer, and floats where integers belong.
        array = array.astype(np.float64) if array.dtype.kind != "i" or draw(st.booleans()) else array
        allowed = [v for v in VALUES if array.dtype.kind == "f" or (math.isfinite(v) and abs(v) < 2**63)]
        for _ in range(1 if kind == "entry" else draw(st.integers(2, 6))):
            where = tuple(draw(st.integers(0, n - 1)) for n in array.shape)
            array[where] = draw(st.sampled_from(allowed))
        return array
    if kind == "shape":
        changes: list[Callable[[np.ndarray], np.ndarray]] = [
            *(lambda a: a[:0], lambda a: a[:1], lambda a: a[:-1], lambda a: a[..., :0], lambda a: a[..., :-1]),
            *(lambda a: a[None], lambda a: a[..., None], np.ravel, np.transpose, lambda a: np.concatenate([a, a])),
        ]
        return draw(st.sampled_from(changes))(array)
    if kind == "type":
        types = ["i1", "u1", "u8", "f2", "f4", ">f8", "g", "?", "O", "c16", "U8", "S8"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(draw(st.sampled_from(types)))
    if kind == "list":
        return array.tolist()
    array = draw(st.sampled_from([np.asfortranarray, np.flip, lambda a: np.repeat(a, 2, axis=0)[::2]]))(array)
    array.flags.writeable = draw(st.booleans())
    return array


def as_tensor(value: Any) -> Any:
    import torch

    try:
        return torch.from_numpy(np.array(value))
    except (TypeError, ValueError):
        return value


def as_sparse(value: Any) -> Any:
    try:
        return sparse.csr_array(value)
    except (TypeError, ValueError):
        return value


def is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "detach")


class Hang(BaseException):
    """No Exception, so that no door takes it for an error of its own and goes on."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt what computes for longer than this; where the system has no such clock, the test's own limit stands.

    Sleep is not counted, nor is what other processes of the machine take.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, interrupt)
    # Again and again: what is raised inside a destructor or a callback of C gets lost.
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)
    try:
        yield
    except Hang as hang:
        raise AssertionError(f"no answer after {seconds:g} s of computing") from hang
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check(entry: Entry, spoilt: Mapping[str, Any]) -> None:
    """Call with spoilt arguments: a refusal or an answer, in time, the caller's data as they were."""
    arguments = {**entry.good(), **spoilt}
    before = {name: duplicate(value) for name, value in arguments.items() if is_data(value)}
    with warnings.catch_warnings(), np.errstate(all="ignore"), limited(SECONDS):
        warnings.simplefilter("ignore")
        answer, refusal = None, "none"
        try:
            answer = entry.call(**arguments)
        except (InvalidInput, *entry.refuses) as error:
            refusal = str(error).strip()
    assert refusal
    for name, value in before.items():
        assert name in entry.writes or equal(arguments[name], value), f"{name} was changed"
    if not (entry.carries and any(map(extreme, arguments.values()))):
        assert not list(nans(answer)), f"NaN in {list(nans(answer))}"


def is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray | list) or sparse.issparse(value) or is_tensor(value)


def duplicate(value: Any) -> Any:
    # A copy in depth would make new objects of those that an array of objects holds.
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def equal(left: Any, right: Any) -> bool:
    if sparse.issparse(left):
        parts = [name for name in ("data", "indices", "indptr", "row", "col") if hasattr(left, name)]
        return left.shape == right.shape and all(equal(getattr(left, p), getattr(right, p)) for p in parts)
    if is_tensor(left):
        left, right = left.detach(), right.detach()
        return left.shape == right.shape and repr(left) == repr(right)
    if isinstance(left, np.ndarray) and left.dtype.kind in "fciub":
        return left.shape == right.shape and left.tobytes() == right.tobytes()
    return repr(left) == repr(right)


def extreme(value: Any) -> bool:
    """Whether arithmetic on it in single precision may leave the finite numbers."""
    if isinstance(value, list | tuple):
        return any(map(extreme, value))
    if is_tensor(value):
        value = value.detach().to_dense().float().numpy() if value.is_floating_point() else value.numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
        with np.errstate(all="ignore"):
            return bool((~(np.abs(value.astype(np.complex128)) < 1e9)).any())
    if isinstance(value, int | float | complex | np.number):
        return not abs(value if isinstance(value, int) else complex(value)) < 1e9
    return False


def nans(answer: Any, place: str = "answer") -> Any:
    """The places of an answer that hold NaN."""
    if is_tensor(answer):
        if answer.is_floating_point() and bool(answer.detach().float().isnan().any()):
            yield place
    elif isinstance(answer, np.ndarray):
        if answer.dtype.kind in "fc" and bool(np.isnan(answer).any()):
            yield place
    elif isinstance(answer, float | complex | np.inexact):
        if answer != answer:
            yield place
    elif sparse.issparse(answer):
        yield from nans(answer.data, place)
    elif isinstance(answer, Mapping):
        for key, value in answer.items():
            yield from nans(value, f"{place}[{key!r}]")
    elif isinstance(answer, tuple | list):
        for k, value in enumerate(answer):
            yield from nans(value, f"{place}[{k}]")
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from nans(getattr(answer, field.name), f"{place}.{field.name}")
