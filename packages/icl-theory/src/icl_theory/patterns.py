"""The patterns that prompts are made of, and the tasks on them (arXiv 2510.00399, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int
from lemmata_core.rng import generator

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class PatternBank:
    """Orthogonal patterns of one norm: relevant mu, irrelevant nu and outliers v.

    Banks are equal when their patterns are.

    Parameters
    ----------
    d : int
        Dimension of x; ``n_relevant + n_irrelevant + n_outlier <= d``.
    n_relevant, n_irrelevant, n_outlier : int
        M1 >= 2, M2 >= 1 and V >= 0 of the paper.
    beta : float
        Norm of the relevant and irrelevant patterns, >= 1.
    outlier_norm : float, optional
        Norm of the outlier patterns; beta if not given (the paper does not state it).
    rng : numpy.random.Generator, int or None
        Draws the orthogonal basis.

    Attributes
    ----------
    relevant, irrelevant, outlier : ndarray, shape (count, d)
    spare : ndarray, shape (d - used, d)
        Unit vectors orthogonal to every pattern.

    Raises
    ------
    InvalidInput
    """

    d: int = 30
    n_relevant: int = 6
    n_irrelevant: int = 10
    n_outlier: int = 3
    beta: float = 3.0
    outlier_norm: float | None = None
    rng: RNGLike = field(default=0, repr=False)
    relevant: NDArray[Any] = field(init=False, repr=False)
    irrelevant: NDArray[Any] = field(init=False, repr=False)
    outlier: NDArray[Any] = field(init=False, repr=False)
    spare: NDArray[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        positive_int(self.d, "d")
        sizes = [
            positive_int(self.n_relevant, "n_relevant", minimum=2),
            positive_int(self.n_irrelevant, "n_irrelevant"),
            positive_int(self.n_outlier, "n_outlier", minimum=0),
        ]
        in_range(self.beta, "beta", 1.0)
        norm = (
            self.beta if self.outlier_norm is None else in_range(self.outlier_norm, "outlier_norm", 0.0, low_open=True)
        )
        if sum(sizes) > self.d:
            raise InvalidInput.argument(
                "d",
                expected="n_relevant + n_irrelevant + n_outlier <= d (orthogonal patterns)",
                got=f"{sum(sizes)} > {self.d}",
            )
        basis, upper = np.linalg.qr(generator(self.rng).standard_normal((self.d, self.d)))
        rows = (basis * np.sign(np.diag(upper))).T
        edges = np.cumsum(sizes)
        parts = {
            "relevant": self.beta * rows[: edges[0]],
            "irrelevant": self.beta * rows[edges[0] : edges[1]],
            "outlier": norm * rows[edges[1] : edges[2]],
            "spare": rows[edges[2] :],
        }
        for name, rows_ in parts.items():
            rows_.setflags(write=False)
            object.__setattr__(self, name, rows_)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PatternBank):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _PARTS)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name).tobytes() for name in _PARTS))


_PARTS = ("relevant", "irrelevant", "outlier", "spare")


def checked_bank(bank: PatternBank) -> PatternBank:
    """Check that patterns are patterns."""
    given: object = bank
    if not isinstance(given, PatternBank):
        raise InvalidInput.argument("bank", expected="a PatternBank", got=given)
    return bank


def tasks_ring(m: int) -> NDArray[np.int64]:
    """The m tasks (i, i + 1 mod m): the smallest set in which every pattern is labelled +1 and -1 equally often.

    Returns
    -------
    ndarray of int, shape (m, 2)
        Row (a, b): label +1 for pattern a, -1 for pattern b.
    """
    first = np.arange(positive_int(m, "m", minimum=2))
    return np.stack([first, (first + 1) % m], 1)


def tasks_all(m: int) -> NDArray[np.int64]:
    """All m (m - 1) ordered pairs of different patterns, shape (m (m - 1), 2)."""
    positive_int(m, "m", minimum=2)
    return np.array([(a, b) for a in range(m) for b in range(m) if a != b], np.int64)


@dataclass(frozen=True)
class Coverage:
    """Whether a training set of tasks meets Condition 1 of arXiv 2510.00399, and which pairs it leaves out.

    Attributes
    ----------
    balanced : bool
        Every pattern occurs equally often with +1 and with -1, and occurs at all.
    unseen : ndarray of int, shape (n, 2)
        The ordered pairs that are not in the set.
    """

    balanced: bool
    unseen: NDArray[np.int64]


def checked_tasks(tasks: ArrayLike, m: int) -> NDArray[np.int64]:
    """Check ordered pairs of different patterns 0 .. m - 1."""
    pairs: NDArray[np.int64] = array(tasks, "tasks", ndim=2, dtype=np.int64, shape=(None, 2))
    if not len(pairs):
        raise InvalidInput.argument("tasks", expected="one task at least", got="none")
    if pairs.min() < 0 or pairs.max() >= m:
        raise InvalidInput.argument("tasks", expected=f"patterns 0 to {m - 1}", got=f"{pairs.min()} to {pairs.max()}")
    if (pairs[:, 0] == pairs[:, 1]).any():
        same = pairs[pairs[:, 0] == pairs[:, 1]][0].tolist()
        raise InvalidInput.argument("tasks", expected="pairs of two different patterns", got=f"{same}")
    return pairs


def check_coverage(tasks: ArrayLike, m: int) -> Coverage:
    """Check a set of tasks on `m` relevant patterns.

    Parameters
    ----------
    tasks : array_like of int, shape (n, 2)
    m : int

    Returns
    -------
    Coverage

    Raises
    ------
    InvalidInput
    """
    pairs = checked_tasks(tasks, positive_int(m, "m", minimum=2))
    plus, minus = (np.bincount(pairs[:, c], minlength=m) for c in (0, 1))
    seen = {tuple(row) for row in pairs.tolist()}
    unseen = [row for row in tasks_all(m).tolist() if tuple(row) not in seen]
    return Coverage(bool((plus == minus).all() and (plus > 0).all()), np.array(unseen, np.int64).reshape(-1, 2))
