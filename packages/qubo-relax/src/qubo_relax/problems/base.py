"""What every problem of the library offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check

from qubo_relax.constraints import LinearConstraint
from qubo_relax.matrices import LARGEST, warn_wide
from qubo_relax.structure import structural_margin

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from qubo_relax.blocks import Block, Terms
    from qubo_relax.qubo import Qubo

DEFAULT_MARGIN = 1e-3
"""Margin of the penalties as a share of the value scale."""


class Problem(ABC):
    """A combinatorial problem with one or more formulations as a quadratic on the box.

    Class attributes
    ----------------
    formulations : mapping of str to str
        Name to what is known of it: "certified" (every local minimizer is feasible) or "classic" (not so).
    maximise : bool
        Whether a larger `objective` is better.
    solver_defaults : mapping
        Options that `qubo_relax.minimize` takes for this class unless told otherwise.
    """

    formulations: ClassVar[Mapping[str, str]]
    maximise: ClassVar[bool] = False
    solver_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"method": "graduated+anneal"})

    @property
    def default(self) -> str:
        """The formulation that is used when none is named; always certified."""
        return next(iter(self.formulations))

    @property
    @abstractmethod
    def value_scale(self) -> float:
        """The size of the objective's coefficients, of which `margin` is a share by default."""

    @abstractmethod
    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[Terms, Sequence[Block]]:
        """The terms and the provenance of a formulation."""

    @abstractmethod
    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """The rows on the variables of a formulation that make a point feasible."""

    @abstractmethod
    def decode(self, x: ArrayLike, formulation: str | None = None) -> Any:
        """The solution that a binary point of a formulation stands for."""

    @abstractmethod
    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """A binary point that stands for a feasible solution."""

    @abstractmethod
    def objective(self, solution: Any) -> float:
        """The value of a solution in the problem's own terms."""

    @abstractmethod
    def is_feasible(self, solution: Any) -> bool:
        """Whether a solution satisfies the problem."""

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> Any:
        """A feasible solution that is never worse than the feasible `solution`; the same one where no rule is known."""
        del rng, time_limit
        return solution

    def start(self) -> Any | None:
        """A trivially feasible solution from which `improve` may also start, or None."""
        return None

    def solve_exact(self, time_limit: float | None = None) -> Any:
        """An optimal solution by a classical method, or None when the time ran out before one was proved."""
        from qubo_relax.exact import solve_qubo, solve_rows

        formulation = self.default
        cost = self._linear_cost()
        if cost is not None:
            mask = solve_rows(cost, self.constraints(formulation), time_limit)
            return None if mask is None else self.decode(mask, formulation)
        x = solve_qubo(self.qubo(formulation), self.constraints(formulation), time_limit)
        return None if x is None else self.decode(x, formulation)

    def _linear_cost(self) -> NDArray[np.float64] | None:
        """The cost of each variable where the objective is linear in those of the default formulation."""
        return None

    def bound(self) -> float | None:
        """A proved bound of the optimum on the optimistic side, or None when none is known."""
        return None

    def plot(self, solution: Any, ax: Any = None) -> Any:
        """Draw a solution; needs the extra `plot`."""
        del solution, ax
        raise InvalidInput.argument("problem", expected="one with a picture", got=type(self).__name__)

    def qubo(
        self,
        formulation: str | None = None,
        *,
        margin: float | None = None,
        penalty: float | None = None,
        concavity: float | None = None,
    ) -> Qubo:
        """Write the problem as a quadratic on the box.

        Parameters
        ----------
        formulation : str, optional
            One of `formulations`; the certified default when left out.
        margin : float, optional
            How far the certified inequalities stay from equality, in the objective's unit; 1e-3 of `value_scale`.
        penalty : float, optional
            The multiplier of a classic formulation. Certified ones compute their weights from the data.
        concavity : float, optional
            ``eps``; a quarter of the proved margin when left out.

        Returns
        -------
        Qubo

        Raises
        ------
        InvalidInput
            On an unknown formulation, a penalty for a certified one, or a concavity at or above the proved margin.
        NotCertifiable
            When the problem has no such formulation; the message says why.
        """
        name = self._formulation(formulation)
        certified = self.formulations[name] == "certified"
        if penalty is not None and certified:
            raise InvalidInput.argument("penalty", expected=f"None with the certified formulation {name}", got=penalty)
        if penalty is not None:
            penalty = check.in_range(penalty, "penalty", 0.0, low_open=True)
        margin = self._margin(margin)
        if concavity is not None:
            concavity = check.in_range(concavity, "concavity", 0.0)
        terms, blocks = self._terms(name, margin, penalty)
        qubo = terms.build(blocks=blocks)
        if not certified:
            return qubo.with_concavity(margin / 4 if concavity is None else concavity)
        return qubo.with_concavity(_concavity(qubo, margin, concavity))

    def _margin(self, margin: float | None) -> float:
        return DEFAULT_MARGIN * (self.value_scale or 1.0) if margin is None else check.in_range(margin, "margin", 0.0)

    def _margins(self, margin: float | None, concavity: float | None) -> tuple[float, float]:
        """Margin and concavity of a factored form, whose margin is proved by hand."""
        proved = self._margin(margin)
        if proved == 0:
            raise InvalidInput.argument("margin", expected="a number > 0", got=margin)
        if concavity is None:
            return proved, proved / 4
        eps = check.in_range(concavity, "concavity", 0.0, low_open=True)
        if eps >= proved:
            expected = f"a number below the proved margin {proved:g}"
            raise InvalidInput.argument("concavity", expected=expected, got=concavity)
        return proved, eps

    def _formulation(self, name: str | None) -> str:
        if name is None:
            return self.default
        given: Any = name
        if not isinstance(given, str) or given not in self.formulations:
            raise InvalidInput.argument("formulation", expected=f"one of {', '.join(self.formulations)}", got=name)
        return name

    def _point(self, x: ArrayLike, size: int) -> NDArray[np.bool_]:
        p = check.array(x, "x", dtype=None)
        if p.shape != (size,) or not np.isin(p, (0, 1)).all():
            raise InvalidInput.argument("x", expected=f"a binary point of length {size}", got=f"shape {p.shape}")
        return p.astype(bool)


def _concavity(qubo: Qubo, margin: float, concavity: float | None) -> float:
    proved, _ = structural_margin(qubo)
    if proved <= 0:
        raise InvalidInput.argument("margin", expected="a margin that keeps every inequality strict", got=margin)
    if concavity is None:
        # Without anything to violate the margin itself is the only scale at hand.
        return (proved if np.isfinite(proved) else margin) / 4
    if concavity >= proved:
        raise InvalidInput.argument("concavity", expected=f"a number below the proved margin {proved:g}", got=concavity)
    return concavity


def numbers(x: Any, name: str, *, ndim: int = 1, shape: tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """A read-only float64 copy of an array of the given shape, its entries finite and at most `LARGEST`."""
    a: NDArray[np.float64] = check.array(x.toarray() if hasattr(x, "toarray") else x, name, copy=True)
    if a.size == 0 and ndim == 1:
        a = a.reshape(-1)
    if a.ndim != ndim:
        raise InvalidInput.argument(name, expected=f"a {ndim}-D array", got=f"shape {a.shape}")
    if shape is not None and a.shape != shape:
        raise InvalidInput.argument(name, expected=f"shape {shape}", got=f"shape {a.shape}")
    if a.size and max(a.max(), -a.min()) > LARGEST:
        got = f"{max(a.max(), -a.min()):g}"
        raise InvalidInput.argument(name, expected=f"numbers up to {LARGEST:g} in magnitude: rescale", got=got)
    a.flags.writeable = False
    return a


def entries(solution: Any) -> NDArray[Any]:
    """A solution as an array of numbers, copied only if need be."""
    return check.array(solution, "solution", dtype=None)


def mask(solution: Any, n: int) -> NDArray[np.bool_]:
    """A solution that names a subset: a copy as bool of shape (n,), from bools or from zeros and ones."""
    s = entries(solution)
    if s.shape != (n,) or s.dtype.kind not in "biuf" or not np.isin(s, (0, 1)).all():
        raise InvalidInput.argument("solution", expected=f"{n} zeros and ones", got=solution)
    return s.astype(bool)


def choices(solution: Any, n: int, low: int, high: int) -> NDArray[np.int64]:
    """A solution that names one of ``low..high`` for each of n things, as int of shape (n,)."""
    s = entries(solution)
    whole = s.shape == (n,) and s.dtype.kind in "biuf" and bool((s == np.rint(s)).all())
    if not whole or (n and (s.min() < low or s.max() > high)):
        raise InvalidInput.argument("solution", expected=f"{n} whole numbers in {low}..{high}", got=solution)
    return s.astype(np.int64)


def readable(check: Callable[[Any], NDArray[Any]], solution: Any) -> NDArray[Any] | None:
    """What `check` makes of a solution, None where it refuses it."""
    try:
        return check(solution)
    except InvalidInput:
        return None


def wide_range_warning(name: str, values: NDArray[np.float64]) -> None:
    """Warn when the non-zero coefficients span more than twelve orders of magnitude."""
    warn_wide(name, values.ravel())


def pair_rows(i: NDArray[Any], j: NDArray[Any], sense: str = "<=", name: str = "pair") -> list[LinearConstraint]:
    """``x_i + x_j <= 1`` (or ``>= 1``) for each pair."""
    return [
        LinearConstraint({int(a): 1.0, int(b): 1.0}, sense, 1.0, f"{name} ({int(a)}, {int(b)})") for a, b in zip(i, j)
    ]


def implication_rows(child: NDArray[Any], parent: NDArray[Any], name: str = "needs") -> list[LinearConstraint]:
    """``x_child - x_parent <= 0`` for each pair."""
    return [
        LinearConstraint({int(a): 1.0, int(b): -1.0}, "<=", 0.0, f"{int(a)} {name} {int(b)}")
        for a, b in zip(child, parent)
    ]
