"""Paths of a tensor product, their normalisation, and where each stands in the caller's vectors.

The only place that knows e3nn's order: inputs simplified; paths by (i1, i2, l3); output terms sorted stably by (l, p),
odd before even, equal irreps not merged; copies of a path u-major.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from lemmata_core import InvalidInput
from numpy.typing import NDArray

from cg_tensorproduct.coupling import blocks, first_m1
from cg_tensorproduct.irreps import Irrep, Irreps, occupied_irreps

NORMALIZATIONS = ("component", "norm", "none")
LAYOUTS = ("mul_ir", "ir_mul")


class Path(NamedTuple):
    """One path: term `i1` of the first input with term `i2` of the second into term `i_out`, of degrees l1, l2, l3."""

    i1: int
    i2: int
    i_out: int
    l1: int
    l2: int
    l3: int


@dataclass(frozen=True)
class Pair:
    """Two input terms with every path between them that is asked for.

    Attributes
    ----------
    l1, l2 : int
        Degrees.
    rows1, rows2 : ndarray [mul, 2 l + 1] of int
        Columns of the inputs that hold the copies.
    l3 : tuple of int
        Output degrees, ascending.
    scale : tuple of float
        What multiplies ``w3j`` for each of them.
    out : tuple of ndarray [mul1 * mul2, 2 l3 + 1] of int
        Columns of the output, copies u-major.
    """

    l1: int
    l2: int
    rows1: NDArray[np.int64]
    rows2: NDArray[np.int64]
    l3: tuple[int, ...]
    scale: tuple[float, ...]
    out: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Problem:
    """A full tensor product: everything that an algorithm needs to know about it.

    Attributes
    ----------
    dim1, dim2, dim_out : int
        Columns of the inputs and the output.
    pairs : tuple of Pair
    allow_tf32 : bool or None
        Whether matrix products of float32 may have less than its precision; None leaves that to torch.
    """

    dim1: int
    dim2: int
    dim_out: int
    pairs: tuple[Pair, ...]
    allow_tf32: bool | None = False


@dataclass(frozen=True)
class FullPaths:
    """Enumeration of a full product."""

    irreps_in1: Irreps
    irreps_in2: Irreps
    irreps_out: Irreps
    paths: list[Path]
    normalization: str

    def problem(self, layout: str, allow_tf32: bool | None = False) -> Problem:
        """Index maps for a layout of the multiplicities."""
        columns1, columns2, columns_out = (
            term_columns(irreps, layout) for irreps in (self.irreps_in1, self.irreps_in2, self.irreps_out)
        )
        grouped: dict[tuple[int, int], list[Path]] = {}
        for path in self.paths:
            grouped.setdefault((path.i1, path.i2), []).append(path)
        pairs = tuple(
            Pair(
                paths[0].l1,
                paths[0].l2,
                columns1[i1],
                columns2[i2],
                tuple(path.l3 for path in paths),
                tuple(irrep_scale(path.l1, path.l2, path.l3, self.normalization) for path in paths),
                tuple(columns_out[path.i_out] for path in paths),
            )
            for (i1, i2), paths in grouped.items()
        )
        return Problem(self.irreps_in1.dim, self.irreps_in2.dim, self.irreps_out.dim, pairs, allow_tf32)


def irrep_scale(l1: int, l2: int, l3: int, normalization: str) -> float:
    """The factor of w3j: sqrt(2 l3 + 1) for "component", sqrt((2 l1 + 1)(2 l2 + 1)) for "norm", 1 for "none"."""
    if normalization == "component":
        return sqrt(2 * l3 + 1)
    if normalization == "norm":
        return sqrt((2 * l1 + 1) * (2 * l2 + 1))
    return 1.0


def term_columns(irreps: Irreps, layout: str) -> list[NDArray[np.int64]]:
    """Columns of each term's copies, [mul, 2 l + 1] a term."""
    columns, start = [], 0
    for mul, ir in irreps:
        index = np.arange(start, start + mul * ir.dim)
        columns.append(index.reshape(mul, ir.dim) if layout == "mul_ir" else index.reshape(ir.dim, mul).T)
        start += mul * ir.dim
    return columns


def full_paths(
    irreps_in1: object, irreps_in2: object, filter_ir_out: Iterable[object] | None, irrep_normalization: str | None
) -> FullPaths:
    """Enumerate every path between two sums of irreps in e3nn's order.

    Raises
    ------
    InvalidInput
        If irreps do not parse or are empty, the normalisation is unknown, or the filter names nothing or an irrep that
        no path reaches.
    """
    in1 = occupied_irreps("irreps_in1", irreps_in1).simplify()
    in2 = occupied_irreps("irreps_in2", irreps_in2).simplify()
    normalization = check_choice("irrep_normalization", irrep_normalization or "component", NORMALIZATIONS)
    found: list[tuple[int, int, Irrep]] = [
        (i1, i2, ir) for i1, (_, ir1) in enumerate(in1) for i2, (_, ir2) in enumerate(in2) for ir in ir1 * ir2
    ]
    if filter_ir_out is not None:
        wanted = wanted_irreps(filter_ir_out, (ir for _, _, ir in found))
        found = [entry for entry in found if entry[2] in wanted]
    unsorted = Irreps([(in1[i1].mul * in2[i2].mul, ir) for i1, i2, ir in found])
    out, place, _ = unsorted.sort()
    paths = [Path(i1, i2, place[k], in1[i1].ir.l, in2[i2].ir.l, ir.l) for k, (i1, i2, ir) in enumerate(found)]
    return FullPaths(in1, in2, out, paths, normalization)


def wanted_irreps(filter_ir_out: Iterable[object], reachable: Iterable[Irrep]) -> set[Irrep]:
    """The irreps that a filter names.

    Raises
    ------
    InvalidInput
        If it is no collection of irreps, is empty, or names one that is not `reachable`.
    """
    if isinstance(filter_ir_out, (str, Irrep)) or not isinstance(filter_ir_out, Iterable):
        expected = "a list of irreps such as ['0e', '1o']"
        raise InvalidInput.argument("filter_ir_out", expected=expected, got=repr(filter_ir_out))
    if type(filter_ir_out).__name__ == "Irreps":
        wanted = {ir for mul, ir in Irreps(filter_ir_out) if mul > 0}
    else:
        wanted = {Irrep(ir) for ir in filter_ir_out}  # type: ignore[arg-type]
    if not wanted:
        raise InvalidInput.argument("filter_ir_out", expected="at least one irrep, or None for all", got="none")
    possible = set(reachable)
    for ir in wanted - possible:
        listed = ", ".join(map(str, sorted(possible))) or "none"
        raise InvalidInput.argument("filter_ir_out", expected=f"irreps that a path reaches ({listed})", got=str(ir))
    return wanted


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, else raise `InvalidInput`."""
    if value not in choices:
        raise InvalidInput.argument(name, expected="one of " + ", ".join(map(repr, choices)), got=repr(value))
    return str(value)


class BlockRows(NamedTuple):
    """The coupling of one pair at one M >= 0: ``O = A z`` with ``z[k] = X[m1] Y[M - m1]`` in the complex basis.

    Attributes
    ----------
    first : int
        m1 of the first column.
    matrix : ndarray [rows, n]
        A, first the paths with even, then those with odd l1 + l2 - l3. Even: out[+M] = Re O, out[-M] = Im O. Odd:
        out[+M] = Im O, out[-M] = -Re O.
    even : int
        How many rows are even.
    places : ndarray [rows] of int
        Index into ``pair.l3`` of each row.
    """

    first: int
    matrix: NDArray[np.float64]
    even: int
    places: NDArray[np.int64]


def block_rows(pair: Pair, dtype: type[np.floating[Any]] = np.float64) -> list[BlockRows]:
    """Fold phases and normalisation into the Clebsch-Gordan blocks of `pair`, for M = 0, 1, .., max(l3).

    Couplings far below the precision of `dtype` become zero: they round away, and denormal arithmetic is slow.
    """
    l3 = np.array(pair.l3)
    t = pair.l1 + pair.l2 - l3
    factor = (1 - (t // 2 % 2) * 2) * np.array(pair.scale) / np.sqrt(2 * l3 + 1)
    order = np.argsort(t % 2, kind="stable")
    even = int((t % 2 == 0).sum())
    made, rows = blocks(pair.l1, pair.l2), []
    for M in range(int(l3[-1]) + 1):
        if l3[0] < M:
            order = order[l3[order] >= M]
            even = int((t[order] % 2 == 0).sum())
        lowest = max(abs(pair.l1 - pair.l2), M)
        matrix = made[M].T[l3[order] - lowest]
        rows.append(BlockRows(first_m1(pair.l1, pair.l2, M), matrix, even, order))
    flat = np.concatenate([entry.matrix.ravel() for entry in rows])
    flat[np.abs(flat) < np.finfo(dtype).eps * 1e-3] = 0
    start, folded = 0, []
    for M, entry in enumerate(rows):
        part = flat[start : start + entry.matrix.size].reshape(entry.matrix.shape)
        part *= (factor * (sqrt(2) * (-1) ** M) if M else factor)[entry.places][:, None]
        start += part.size
        folded.append(entry._replace(matrix=part))
    return folded


def complex_rows(dim: int, terms: Iterable[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How real columns become complex components: ``Re X[c] = a x[i]``, ``Im X[c] = b x[j]``.

    Component m > 0 is ``(-1)^m (x[m] + i x[-m]) / sqrt 2``, component -m is ``(x[m] - i x[-m]) / sqrt 2``. The phase
    ``(-i)^l`` of the full change of basis is part of `block_rows`.

    Parameters
    ----------
    dim : int
        Number of columns.
    terms : iterable of ndarray [mul, 2 l + 1]
        Columns of the copies of each term.

    Returns
    -------
    index : ndarray [dim, 2]
        i and j of each column c.
    factor : ndarray [dim, 2]
        a and b.
    """
    index = np.repeat(np.arange(dim)[:, None], 2, axis=1)
    factor = np.tile([1.0, 0.0], (dim, 1))
    half = np.sqrt(0.5)
    for columns in terms:
        degree = (columns.shape[1] - 1) // 2
        m = np.arange(1, degree + 1)
        plus, minus = columns[:, degree + m], columns[:, degree - m]
        for target, sign in ((plus, (-1.0) ** m * half), (minus, half)):
            index[target, 0], index[target, 1] = plus, minus
            factor[target, 0] = sign
            factor[target, 1] = sign if target is plus else -half
    return index, factor
