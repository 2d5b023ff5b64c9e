"""Linear constraints on binary variables, as the verifier reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SENSES = ("<=", ">=", "==")


@dataclass(frozen=True, eq=False, init=False)
class LinearConstraint:
    """``a . x <= b`` (or ``>=``, ``==``) on binary ``x``.

    Parameters
    ----------
    a : array_like of shape (n,), or mapping of int to float
        The coefficients; a mapping names only the non-zero ones.
    sense : {"<=", ">=", "=="}
    b : float
    name : str
        What reports call the row.

    Attributes
    ----------
    index : ndarray of int64
        Variables with a non-zero coefficient, increasing.
    value : ndarray of float64
        Their coefficients.
    sense : str
    b : float
    name : str

    Raises
    ------
    InvalidInput
        On another sense, NaN or infinity, negative indices.
    """

    index: NDArray[np.int64]
    value: NDArray[np.float64]
    sense: str
    b: float
    name: str

    def __init__(self, a: ArrayLike | Mapping[int, float], sense: str, b: float, name: str = "") -> None:
        if sense not in SENSES:
            raise InvalidInput.argument("sense", expected=f"one of {', '.join(SENSES)}", got=sense)
        if isinstance(a, Mapping):
            index = check.array(list(a.keys()), "a", ndim=1, dtype=np.int64)
            value = check.array(list(a.values()), "a", ndim=1)
        else:
            given: Any = a
            value = check.array(given.toarray().ravel() if sparse.issparse(given) else given, "a", ndim=1)
            index = np.arange(value.size)
        if index.size and index.min() < 0:
            raise InvalidInput.argument("a", expected="indices >= 0", got=int(index.min()))
        b = check.in_range(b, "b", -np.inf, np.inf, low_open=True, high_open=True)
        keep = value != 0
        order = np.argsort(index[keep], kind="stable")
        object.__setattr__(self, "index", index[keep][order])
        object.__setattr__(self, "value", value[keep][order])
        object.__setattr__(self, "sense", sense)
        object.__setattr__(self, "b", float(b))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        terms = " + ".join(f"{v:g} x{i}" for i, v in zip(self.index[:6], self.value[:6]))
        return f"LinearConstraint({terms}{' + ...' if self.index.size > 6 else ''} {self.sense} {self.b:g})"

    @property
    def unit(self) -> float:
        """The least amount by which a binary point can violate the row (exact for integers and short decimals)."""
        return resolution(np.append(self.value, self.b))

    def key(self) -> tuple[Any, ...]:
        """A hashable form in which equal rows are equal: ``>=`` turned into ``<=``."""
        flip = -1.0 if self.sense == ">=" else 1.0
        sense = "==" if self.sense == "==" else "<="
        return (tuple(self.index.tolist()), tuple((flip * self.value).tolist()), sense, flip * self.b)


def resolution(values: NDArray[np.float64]) -> float:
    """A step ``h`` of which every value is a multiple: 1 for integers, 10^-k for decimals with k <= 9 places.

    Numbers with more places get ``1e-9`` of the largest value, which is then the smallest violation looked at.
    """
    scale = float(np.max(np.abs(values), initial=0.0))
    for k in range(10):
        scaled = values * 10.0**k
        if np.all(np.abs(scaled - np.rint(scaled)) <= 1e-9 * max(1.0, 10.0**k * scale * 1e-6)):
            return 10.0**-k
    return 1e-9 * max(scale, 1e-300)


class Rows:
    """Several constraints as one sparse matrix with bounds, for feasibility of many points at once."""

    def __init__(self, constraints: Sequence[LinearConstraint], n: int) -> None:
        self.n = n
        sizes = [c.index.size for c in constraints]
        index = np.concatenate([c.index for c in constraints]) if constraints else np.zeros(0, dtype=np.int64)
        value = np.concatenate([c.value for c in constraints]) if constraints else np.zeros(0)
        if index.size and index.max() >= n:
            raise InvalidInput.argument("constraints", expected=f"variables below {n}", got=int(index.max()))
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.matrix = sparse.csr_array((value, index, indptr), shape=(len(constraints), n))
        b = np.array([c.b for c in constraints], dtype=np.float64)
        senses = np.array([c.sense for c in constraints], dtype=object)
        self.low = np.where(senses == "<=", -np.inf, b) if len(b) else b
        self.high = np.where(senses == ">=", np.inf, b) if len(b) else b
        self.tol = 1e-9 * (1.0 + np.abs(b))

    def violated(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows each of the points (B, n) violates: shape (B, rows)."""
        value = (self.matrix @ X.T.astype(np.float64)).T
        return np.asarray((value < self.low - self.tol) | (value > self.high + self.tol))

    def feasible(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the points (B, n) satisfy every row."""
        return np.asarray(~self.violated(X).any(axis=1))
