"""A binary linear program as it comes, certified where its rows allow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from lemmata_core import InvalidInput, check
from scipy import sparse
from scipy.sparse import csgraph

from qubo_relax import blocks as bl
from qubo_relax.constraints import LinearConstraint, Rows
from qubo_relax.errors import NotCertifiable
from qubo_relax.precedence import check_arcs
from qubo_relax.problems.base import Problem, mask, numbers, readable, wide_range_warning
from qubo_relax.problems.pit import PitModel, closure_terms, price_terms

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BinaryLP(Problem):
    """Minimise ``c.x`` over binary x with ``A x (sense) b``.

    Parameters
    ----------
    c : array_like of shape (n,)
    A : array_like or sparse array of shape (m, n)
    b : array_like of shape (m,)
    sense : str or sequence of str
        "<=", ">=" or "==", one for all rows or one a row.

    Notes
    -----
    "price" is certified when, after complementing some variables, every row is a packing row (no negative
    coefficient) or a precedence ``x_i <= x_j``; its variables are then ``1 - x`` where `complemented`. Any other row
    raises `NotCertifiable`, naming it: an equality in general, a difference that is not a precedence, or two rows
    that need opposite complements. "slack_binary" always exists and is never certified.
    """

    c: ArrayLike
    A: Any
    b: ArrayLike
    sense: str | Sequence[str] = "<="

    formulations: ClassVar[Mapping[str, str]] = MappingProxyType({"price": "certified", "slack_binary": "classic"})

    def __post_init__(self) -> None:
        c = numbers(self.c, "c")
        wide_range_warning("c", c)
        b = numbers(np.atleast_1d(check.array(self.b, "b", ndim=(0, 1))), "b")
        try:
            A = sparse.csr_array(self.A, dtype=np.float64, copy=True) if b.size else sparse.csr_array((0, c.size))
        except (OverflowError, TypeError, ValueError):
            raise InvalidInput.argument("A", expected=f"shape ({b.size}, {c.size})", got=self.A) from None
        if A.shape != (b.size, c.size):
            raise InvalidInput.argument("A", expected=f"shape ({b.size}, {c.size})", got=f"shape {A.shape}")
        if not np.isfinite(A.data).all():
            raise InvalidInput.argument("A", expected="finite numbers", got="NaN or infinity")
        A.sum_duplicates()
        A.eliminate_zeros()
        given: Any = self.sense
        senses = [given] * b.size if isinstance(given, str) else list(given) if isinstance(given, Iterable) else []
        if len(senses) != b.size:
            raise InvalidInput.argument("sense", expected=f"one for all or {b.size}", got=f"{len(senses)}")
        for name, value in (("c", c), ("A", A), ("b", b), ("sense", tuple(senses))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_constraints", self._build_rows())

    @property
    def n(self) -> int:
        """Number of variables."""
        return int(np.size(self.c))

    @property
    def value_scale(self) -> float:
        """The largest absolute cost."""
        return float(np.max(np.abs(self.c), initial=0.0))

    def _build_rows(self) -> list[LinearConstraint]:
        rows = []
        for k, (sense, b) in enumerate(zip(self.sense, np.asarray(self.b))):
            span = slice(self.A.indptr[k], self.A.indptr[k + 1])
            terms = dict(zip(self.A.indices[span].tolist(), self.A.data[span].tolist()))
            rows.append(LinearConstraint(terms, sense, float(b), f"row {k}"))
        return rows

    def _rows(self) -> list[LinearConstraint]:
        rows: list[LinearConstraint] = self._constraints  # type: ignore[attr-defined]
        return rows

    def _model(self) -> tuple[PitModel, NDArray[np.bool_]]:
        """The rows as packing rows and arcs over complemented variables, and which those are."""
        packing: list[tuple[int, Ints, Floats, float]] = []
        arcs: list[tuple[int, int]] = []
        for k, row in enumerate(self._rows()):
            if row.sense == "==":
                raise NotCertifiable(f"row {k}: an equality has no structural proof here: {row!r}")
            flip = -1.0 if row.sense == ">=" else 1.0
            a, b = flip * row.value, flip * row.b
            if a.size == 2 and b == 0 and a[0] == -a[1]:
                child, parent = (0, 1) if a[0] > 0 else (1, 0)
                arcs.append((int(row.index[child]), int(row.index[parent])))
            elif a.size:
                packing.append((k, row.index, a, b))
            elif b < 0:
                raise InvalidInput.argument("b", expected="a row that can be satisfied", got=f"row {k}: {row!r}")
        packing, arcs = _opposed(packing, arcs)
        flipped = self._complement(packing, arcs)
        weights, capacity = np.zeros((len(packing), self.n)), np.zeros(len(packing))
        for r, (k, index, a, b) in enumerate(packing):
            turn = flipped[index]
            weights[r, index] = np.abs(a)
            capacity[r] = b - a[turn].sum()
            if capacity[r] < -1e-12 * (1 + abs(b)):
                raise InvalidInput.argument("b", expected="a row that can be satisfied", got=f"row {k} cannot")
        pairs = np.array([(j, i) if flipped[i] else (i, j) for i, j in arcs], dtype=np.int64).reshape(-1, 2)
        try:
            pairs = check_arcs(pairs, self.n)
        except InvalidInput as err:
            raise NotCertifiable(f"the precedence rows form a cycle: {err}") from err
        cost = np.where(flipped, -np.asarray(self.c), np.asarray(self.c))
        return PitModel(-cost, pairs, weights, np.maximum(capacity, 0.0)), flipped

    def _complement(
        self, packing: list[tuple[int, Ints, Floats, float]], arcs: list[tuple[int, int]]
    ) -> NDArray[np.bool_]:
        """A complement that makes every packing row non-negative; variables joined by arcs turn together."""
        e = np.array(arcs, dtype=np.int64).reshape(-1, 2)
        graph = sparse.csr_array((np.ones(len(e)), (e[:, 0], e[:, 1])), shape=(self.n, self.n))
        count, part = csgraph.connected_components(graph, directed=False)
        sign, row_of = np.zeros(count), np.full(count, -1)
        for k, index, a, _ in packing:
            for i, v in zip(index.tolist(), np.sign(a).tolist()):
                p = part[i]
                if sign[p] and sign[p] != v:
                    raise NotCertifiable(
                        f"row {k}: variable {i} would have to be complemented for it and kept for row {row_of[p]}; "
                        "a difference of two variables has no structural proof"
                    )
                sign[p], row_of[p] = v, k
        return np.asarray(sign[part] < 0)

    @property
    def complemented(self) -> NDArray[np.bool_]:
        """Which variables stand as ``1 - x`` in "price"."""
        return self._model()[1]

    def _terms(self, formulation: str, margin: float, penalty: float | None) -> tuple[bl.Terms, Sequence[bl.Block]]:
        if formulation == "slack_binary":
            return self._classic(margin, penalty), ()
        m, flipped = self._model()
        terms = bl.Terms(self.n)
        terms.offset += float(np.asarray(self.c)[flipped].sum())
        nothing = np.zeros(self.n)
        if len(m.weights):
            return price_terms(terms, m, margin, -m.value, nothing)
        terms.add_linear(np.arange(self.n), -m.value)
        cost, value = np.maximum(-m.value, 0.0), np.maximum(m.value, 0.0)
        if not len(m.arcs):
            return terms, (bl.Fixed(np.zeros(self.n, dtype=bool), np.arange(self.n)),)
        return closure_terms(terms, "closure", m.arcs, margin, cost, value)

    def _classic(self, margin: float, penalty: float | None) -> bl.Terms:
        lam = (self.value_scale or 1.0) + margin if penalty is None else penalty
        plans: list[tuple[LinearConstraint, float, list[int]]] = []
        for row in self._rows():
            flip = -1.0 if row.sense == ">=" else 1.0
            low = float(np.minimum(flip * row.value, 0).sum())
            plans.append((row, flip, [] if row.sense == "==" else bl.slack_widths(max(flip * row.b - low, 0.0))))
        terms = bl.Terms(self.n + sum(len(w) for _, _, w in plans))
        terms.add_linear(np.arange(self.n), np.asarray(self.c))
        first = self.n
        for row, flip, width in plans:
            index = np.concatenate([row.index, first + np.arange(len(width))])
            terms.add_square(index, np.concatenate([flip * row.value, width]), flip * row.b, lam)
            first += len(width)
        return terms

    def constraints(self, formulation: str | None = None) -> list[LinearConstraint]:
        """The rows over the formulation's variables (complemented ones in "price")."""
        if self._formulation(formulation) != "price":
            return list(self._rows())
        flipped = self._model()[1]
        rows = []
        for row in self._rows():
            turn = flipped[row.index]
            a = np.where(turn, -row.value, row.value)
            shift = float(row.value[turn].sum())
            rows.append(LinearConstraint(dict(zip(row.index.tolist(), a.tolist())), row.sense, row.b - shift, row.name))
        return rows

    def decode(self, x: ArrayLike, formulation: str | None = None) -> NDArray[np.bool_]:
        """X itself, bool of shape (n,)."""
        z = self._point(np.asarray(x)[: self.n], self.n)
        return z ^ self._model()[1] if self._formulation(formulation) == "price" else z

    def encode(self, solution: Any, formulation: str | None = None) -> NDArray[np.int8]:
        """The point of x in "price"."""
        if self._formulation(formulation) != "price":
            raise InvalidInput.argument("formulation", expected='"price"', got=formulation)
        return (self._point(np.asarray(solution), self.n) ^ self._model()[1]).astype(np.int8)

    def objective(self, solution: Any) -> float:
        """``c.x``."""
        return float(np.asarray(self.c)[mask(solution, self.n)].sum())

    def is_feasible(self, solution: Any) -> bool:
        """Whether every row holds."""
        s = readable(lambda x: mask(x, self.n), solution)
        return s is not None and bool(Rows(self._rows(), self.n).feasible(s[None])[0])

    def _linear_cost(self) -> Floats:
        return np.asarray(self.c)

    def solve_exact(self, time_limit: float | None = None) -> NDArray[np.bool_] | None:
        """HiGHS; None when not proved in time."""
        from qubo_relax.exact import solve_rows

        return solve_rows(np.asarray(self.c), self._rows(), time_limit)

    def improve(self, solution: Any, rng: Any = 0, time_limit: float | None = None) -> NDArray[np.bool_]:
        """Flip single variables, and exchange pairs, while that is feasible and lowers the cost."""
        x = mask(solution, self.n)
        rows = Rows(self._rows(), self.n)
        c = np.asarray(self.c)
        for _ in range(10 * max(1, self.n)):
            change = np.where(x, -c, c)
            good = np.flatnonzero(change < 0)
            moves = np.repeat(x[None], good.size, axis=0)
            moves[np.arange(good.size), good] ^= True
            if self.n <= 300:
                i, j = np.triu_indices(self.n, 1)
                keep = change[i] + change[j] < -1e-12 * (self.value_scale or 1.0)
                i, j = i[keep][:20_000], j[keep][:20_000]
                pairs = np.repeat(x[None], i.size, axis=0)
                pairs[np.arange(i.size), i] ^= True
                pairs[np.arange(i.size), j] ^= True
                moves = np.concatenate([moves, pairs])
            moves = moves[rows.feasible(moves)] if len(moves) else moves
            if not len(moves):
                break
            x = moves[int(np.argmin(moves @ c))]
        return x


def _opposed(
    packing: list[tuple[int, Ints, Floats, float]], arcs: list[tuple[int, int]]
) -> tuple[list[tuple[int, Ints, Floats, float]], list[tuple[int, int]]]:
    """Turn ``x_i <= x_j`` into the conflict ``x_i + (1 - x_j) <= 1`` where the other rows complement j and not i."""
    sign: dict[int, float] = {}
    for _, index, a, _ in packing:
        sign |= dict(zip(index.tolist(), np.sign(a).tolist()))
    rows, left = list(packing), []
    for i, j in arcs:
        if sign.get(i) == 1.0 and sign.get(j) == -1.0:
            rows.append((-1, np.array([i, j]), np.array([1.0, -1.0]), 0.0))
        else:
            left.append((i, j))
    return rows, left
