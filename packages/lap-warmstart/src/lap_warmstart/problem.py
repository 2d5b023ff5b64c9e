"""The door: what the caller gave becomes a minimisation problem, or an error that names what is wrong.

Nothing behind it checks again. A C- or F-ordered matrix of float64 or float32 is used in place. One copy is made to
maximise, and of a tall C-ordered or a wide F-ordered matrix that is small or is to be read row by row.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from lap_warmstart.errors import InvalidDtype
from lap_warmstart.result import AssignmentResult

EXACT = 2**53
# Entries up to which a matrix whose rows lie across the memory is turned: in cache that costs less than to read it so.
TURNED = 65_536


@dataclass(slots=True)
class Problem:
    """A dense minimisation problem in the orientation of the kernels.

    Attributes
    ----------
    c : ndarray (n, m)
        float64 or float32; n <= m unless there is a gate. C-ordered, or F-ordered: see `across`.
    shape : tuple of int
        As given.
    swap : bool
        Rows of `c` are columns of the problem as given.
    maximize : bool
        `c` is the negated matrix.
    integral : bool
        The entries came as integers, so that sums are exact.
    gate : float
        Cost of leaving a row of `c` unmatched, infinite where that is not allowed.
    """

    c: NDArray[Any]
    shape: tuple[int, int]
    swap: bool
    maximize: bool
    integral: bool
    gate: float

    @property
    def square(self) -> bool:
        """Whether every row and column must be matched."""
        return self.shape[0] == self.shape[1] and math.isinf(self.gate)

    def answer(
        self, x: NDArray[np.int64], costs: Any, v: Any, method: str, begin: float, stats: Any
    ) -> AssignmentResult:
        """Wrap up what the kernels found for `c`: the columns of its rows, the matched costs, the column duals."""
        return AssignmentResult(
            x, costs, v, self.shape, method, time.perf_counter() - begin,
            swap=self.swap, maximize=self.maximize, gate=self.gate, stats=stats,
        )  # fmt: skip

    @property
    def across(self) -> bool:
        """Whether the rows of `c` lie across the memory, so that only ``c.T`` may be handed to kernels on rows."""
        flags = self.c.flags
        return flags.f_contiguous and not flags.c_contiguous

    def turned(self) -> Problem:
        """Return the problem with rows along the memory, as a copy where they lie across it."""
        return replace(self, c=np.ascontiguousarray(self.c)) if self.across else self


class _Alias:
    """Lends out the memory of a read-only array as if it could be written, since kernels are typed by that flag."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._keep = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def for_kernels(c: NDArray[Any]) -> NDArray[Any]:
    """Return an array of the type that kernels are compiled for, which is writable though none of them writes."""
    return c if c.flags.writeable else np.asarray(_Alias(c))


def is_sparse(cost: object) -> bool:
    """Whether `cost` is a scipy.sparse matrix or array."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(cost))


def from_torch(cost: Any) -> NDArray[Any]:
    """Copy a tensor to the host; half precision becomes float32."""
    tensor = cost.detach().cpu()
    if str(tensor.dtype) in ("torch.bfloat16", "torch.float16"):
        tensor = tensor.float()
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError as err:
        raise InvalidDtype.argument("cost", expected="a tensor of real numbers", got=str(tensor.dtype)) from err


def numeric(cost: object) -> tuple[NDArray[Any], bool]:
    """Return `cost` as a 2-D float64 or float32 array and whether its entries came as integers.

    Raises
    ------
    InvalidInput
        Not 2-D; integers beyond 2**53; strings, objects or complex numbers (`InvalidDtype`).
    """
    if type(cost).__module__.partition(".")[0] == "torch" and hasattr(cost, "detach"):
        cost = from_torch(cost)
    if isinstance(cost, np.ma.MaskedArray):
        raise InvalidInput.argument("cost", expected="a plain array", got="a masked array: fill it first (inf forbids)")
    try:
        a = np.asarray(cost)
    except ValueError as err:
        raise InvalidInput.argument("cost", expected="a 2-D array", got=f"rows of unequal length ({err})") from err
    if a.ndim != 2:
        raise InvalidInput.argument(
            "cost", expected="a matrix (2-D array)", got=f"a {a.ndim}-D array of shape {a.shape}"
        )
    kind = a.dtype.kind
    if kind == "f":
        if a.dtype.itemsize == 2:
            return a.astype(np.float32), False
        if a.dtype.itemsize > 8:
            wide = a
            a = wide.astype(np.float64)
            if not np.array_equal(wide, a, equal_nan=True):
                raise InvalidInput.argument(
                    "cost", expected="numbers that float64 holds exactly", got=f"dtype {wide.dtype}"
                )
        return (a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))), False
    if kind == "b":
        return a.astype(np.float64), True
    if kind in "iu":
        if a.dtype.itemsize == 8 and a.size and (int(a.max()) > EXACT or int(a.min()) < -EXACT):
            raise InvalidInput.argument(
                "cost",
                expected="integers of at most 2**53 in absolute value",
                got=f"values from {a.min()} to {a.max()}",
            )
        return a.astype(np.float64), True
    if a.size == 0 and kind == "O":
        return a.astype(np.float64), True
    raise InvalidDtype.argument(
        "cost", expected="real numbers (bool, integer or float)", got=f"dtype {a.dtype} (Cannot cast array data)"
    )


def gate_of(unmatched_cost: float | None, *, maximize: bool) -> float:
    """Check `unmatched_cost` and return the gate of the minimisation problem (infinite for None)."""
    if unmatched_cost is None:
        return math.inf
    try:
        value = float("not a number" if isinstance(unmatched_cost, (str, bytes, bool)) else unmatched_cost)
    except (OverflowError, TypeError, ValueError) as err:
        raise InvalidInput.argument("unmatched_cost", expected="a number or None", got=unmatched_cost) from err
    if maximize:
        value = -value
    if math.isnan(value) or value == -math.inf:
        worst = "inf when maximising" if maximize else "-inf"
        raise InvalidInput.argument("unmatched_cost", expected=f"a number, not NaN or {worst}", got=unmatched_cost)
    return value


def prepare(cost: object, *, maximize: bool, gate: float) -> Problem:
    """Build the problem of the kernels from what the caller gave.

    Parameters
    ----------
    cost : array-like (n, m)
    maximize : bool
    gate : float
        As `gate_of` returns it.

    Raises
    ------
    InvalidInput
    """
    a, integral = numeric(cost)
    shape = (int(a.shape[0]), int(a.shape[1]))
    swap = not a.flags.c_contiguous and a.flags.f_contiguous
    c = a.T if swap else a
    if math.isinf(gate) and c.shape[0] > c.shape[1]:
        c, swap = c.T, not swap
    if maximize:
        c = np.negative(c)
    if not c.T.flags.c_contiguous or c.size <= TURNED:
        c = np.ascontiguousarray(c)
    c = for_kernels(c)
    return Problem(c, shape, swap, maximize, integral, gate)


def refuse(problem: Problem, status: int) -> InvalidInput:
    """Return the error for a status of the survey that is not about feasibility."""
    from lap_warmstart.dense import NAN, UNBOUNDED

    c = problem.c

    def first(bad: Any) -> tuple[int, int]:
        if problem.swap:
            where = np.argwhere(bad(c.T))[0]
        else:
            where = next(np.array([i, np.flatnonzero(bad(row))[0]]) for i, row in enumerate(c) if bad(row).any())
        return int(where[0]), int(where[1])

    if status == NAN:
        return InvalidInput.argument(
            "cost", expected="no NaN", got=f"NaN at {first(np.isnan)}: matrix contains invalid numeric entries"
        )
    if status == UNBOUNDED:
        name = "inf" if problem.maximize else "-inf"
        return InvalidInput.argument(
            "cost",
            expected=f"no {name} when {'maximising' if problem.maximize else 'minimising'}",
            got=f"{name} at {first(np.isneginf)}: matrix contains invalid numeric entries",
        )
    return InvalidInput.argument(
        "cost",
        expected="a range (max - min) of at most half the largest float; rescale the costs",
        got="costs whose differences overflow",
    )
