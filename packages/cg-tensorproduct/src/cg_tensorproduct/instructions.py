"""Instructions of a weighted tensor product: which paths, how multiplicities connect, and e3nn's normalisation of
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, prod, sqrt
from typing import Any, NamedTuple, cast

from lemmata_core import InvalidInput
from lemmata_core.check import array

from cg_tensorproduct.coupling import triangle
from cg_tensorproduct.irreps import Irreps, occupied_irreps
from cg_tensorproduct.paths import check_choice, irrep_scale, wanted_irreps

MODES = ("uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw")
PATH_NORMALIZATIONS = ("element", "path", "none")


class Instruction(NamedTuple):
    """One path of a weighted product, fields as in e3nn: `path_weight` is the factor of w3j, normalisation included."""

    i_in1: int
    i_in2: int
    i_out: int
    connection_mode: str
    has_weight: bool
    path_weight: float
    path_shape: tuple[int, ...]

    @property
    def terms(self) -> tuple[int, int, int]:
        """Positions of the three terms."""
        return self.i_in1, self.i_in2, self.i_out

    @property
    def numel(self) -> int:
        """Number of weights."""
        return prod(self.path_shape) if self.has_weight else 0


def occupied_terms(irreps_in1: object, irreps_in2: object, irreps_out: object) -> tuple[Irreps, Irreps, Irreps]:
    """Inputs and output of a product, none of them empty."""
    return (
        occupied_irreps("irreps_in1", irreps_in1),
        occupied_irreps("irreps_in2", irreps_in2),
        occupied_irreps("irreps_out", irreps_out),
    )


def normalised_instructions(
    terms: tuple[Irreps, Irreps, Irreps],
    instructions: Iterable[Sequence[object]],
    variances: tuple[Sequence[float] | None, Sequence[float] | None, Sequence[float] | None],
    irrep_normalization: str | None,
    path_normalization: str | None,
) -> list[Instruction]:
    """Check instructions and fold e3nn's normalisation into their path weights.

    ``path_weight = sqrt(alpha * out_var * given / x)`` with alpha = 2 l3 + 1 ("component"), (2 l1 + 1)(2 l2 + 1)
    ("norm") or 1, and x the number of products that the path adds up ("path": times the number of paths into its
    output; "element": summed over them).
    """
    irrep_norm = check_choice("irrep_normalization", irrep_normalization or "component", ("component", "norm", "none"))
    path_norm = check_choice("path_normalization", path_normalization or "element", PATH_NORMALIZATIONS)
    if isinstance(instructions, str) or not isinstance(instructions, Iterable) or getattr(instructions, "ndim", 1) == 0:
        raise InvalidInput.argument("instructions", expected="a list of instructions", got=repr(instructions))
    checked = [_checked(k, entry, terms) for k, entry in enumerate(instructions)]
    var1, var2, var_out = (
        _variance(name, v, t) for name, v, t in zip(("in1_var", "in2_var", "out_var"), variances, terms)
    )

    def elements(ins: Instruction) -> float:
        return var1[ins.i_in1] * var2[ins.i_in2] * _summed(ins, terms)

    out = []
    for ins in checked:
        l1, l2, l3 = (term[i].ir.l for term, i in zip(terms, ins.terms))
        alpha = irrep_scale(l1, l2, l3, irrep_norm) ** 2
        same = [other for other in checked if other.i_out == ins.i_out]
        x = {"element": sum(map(elements, same)), "path": elements(ins) * len(same), "none": 1.0}[path_norm]
        alpha = (alpha / x if x > 0 else alpha) * var_out[ins.i_out] * ins.path_weight
        out.append(ins._replace(path_weight=sqrt(alpha)))
    return out


def _checked(position: int, entry: Sequence[object], terms: tuple[Irreps, Irreps, Irreps]) -> Instruction:
    name = f"instructions[{position}]"
    if not isinstance(entry, Sequence) or len(entry) not in (5, 6):
        raise InvalidInput.argument(name, expected="(i_in1, i_in2, i_out, mode, has_weight[, path_weight])", got=entry)
    i1, i2, i_out, mode, has_weight = (cast(Any, value) for value in entry[:5])
    given = entry[5] if len(entry) == 6 else 1.0
    for index, term, which in zip((i1, i2, i_out), terms, ("irreps_in1", "irreps_in2", "irreps_out")):
        if not isinstance(index, int) or not 0 <= index < len(term):
            raise InvalidInput.argument(name, expected=f"a position in {which} (0 .. {len(term) - 1})", got=index)
    check_choice(name, mode, MODES)
    (mul1, ir1), (mul2, ir2), (mul3, ir3) = (term[i] for term, i in zip(terms, (i1, i2, i_out)))
    if ir1.p * ir2.p != ir3.p or not triangle(ir1.l, ir2.l, ir3.l):
        raise InvalidInput.argument(name, expected=f"an output that {ir1} x {ir2} contains", got=str(ir3))
    fits = {
        "uvw": True,
        "uvu": mul1 == mul3,
        "uvv": mul2 == mul3,
        "uuw": mul1 == mul2 and (bool(has_weight) or mul3 == 1),
        "uuu": mul1 == mul2 == mul3,
        "uvuv": mul1 * mul2 == mul3,
        "uvu<v": mul1 == mul2 and mul1 * (mul1 - 1) // 2 == mul3,
        "u<vw": mul1 == mul2,
    }[str(mode)]
    if not fits:
        raise InvalidInput.argument(name, expected=f"multiplicities that fit mode {mode!r}", got=(mul1, mul2, mul3))
    if mode in ("uvw", "u<vw") and not has_weight:
        raise InvalidInput.argument(name, expected=f"has_weight=True for mode {mode!r}", got=has_weight)
    if not isinstance(given, (int, float)) or not 0 <= given < inf:
        raise InvalidInput.argument(name, expected="a path weight >= 0", got=given)
    half = mul1 * (mul2 - 1) // 2
    shape: tuple[int, ...] = {
        "uvw": (mul1, mul2, mul3),
        "uvu": (mul1, mul2),
        "uvv": (mul1, mul2),
        "uuw": (mul1, mul3),
        "uuu": (mul1,),
        "uvuv": (mul1, mul2),
        "uvu<v": (half,),
        "u<vw": (half, mul3),
    }[str(mode)]
    return Instruction(i1, i2, i_out, str(mode), bool(has_weight), float(given), shape)


def _summed(ins: Instruction, terms: tuple[Irreps, Irreps, Irreps]) -> int:
    mul1, mul2 = terms[0][ins.i_in1].mul, terms[1][ins.i_in2].mul
    return {
        "uvw": mul1 * mul2,
        "uvu": mul2,
        "uvv": mul1,
        "uuw": mul1,
        "uuu": 1,
        "uvuv": 1,
        "uvu<v": 1,
        "u<vw": mul1 * (mul2 - 1) // 2,
    }[ins.connection_mode]


def _variance(name: str, values: Sequence[float] | None, irreps: Irreps) -> list[float]:
    if values is None:
        return [1.0] * len(irreps)
    found: list[float] = array(values, name, ndim=1, shape=(len(irreps),)).tolist()
    if min(found, default=0.0) < 0:
        raise InvalidInput.argument(name, expected="variances >= 0", got=found)
    return found


def fully_connected(irreps_in1: Irreps, irreps_in2: Irreps, irreps_out: Irreps) -> list[tuple[object, ...]]:
    """Every path between three sums of irreps in mode uvw, in e3nn's order."""
    return [
        (i1, i2, i_out, "uvw", True, 1.0)
        for i1, (_, ir1) in enumerate(irreps_in1)
        for i2, (_, ir2) in enumerate(irreps_in2)
        for i_out, (_, ir_out) in enumerate(irreps_out)
        if ir1.p * ir2.p == ir_out.p and triangle(ir1.l, ir2.l, ir_out.l)
    ]


def elementwise(
    irreps_in1: Irreps, irreps_in2: Irreps, filter_ir_out: Iterable[object] | None
) -> tuple[Irreps, Irreps, Irreps, list[tuple[object, ...]]]:
    """Copies paired one by one (mode uuu, no weights); terms are cut so that multiplicities agree."""
    first, second = list(irreps_in1), list(irreps_in2)
    k = 0
    while k < len(first):
        (mul1, ir1), (mul2, ir2) = first[k], second[k]
        mul = min(mul1, mul2)
        if mul1 > mul:
            first[k : k + 1] = Irreps([(mul, ir1), (mul1 - mul, ir1)])
        if mul2 > mul:
            second[k : k + 1] = Irreps([(mul, ir2), (mul2 - mul, ir2)])
        k += 1
    pairs = [(ir1, ir2) for (_, ir1), (_, ir2) in zip(first, second)]
    wanted = None
    if filter_ir_out is not None:
        wanted = wanted_irreps(filter_ir_out, (ir for ir1, ir2 in pairs for ir in ir1 * ir2))
    out: list[tuple[int, object]] = []
    instructions: list[tuple[object, ...]] = []
    for i, ((mul, ir1), (_, ir2)) in enumerate(zip(first, second)):
        for ir in ir1 * ir2:
            if wanted is None or ir in wanted:
                instructions.append((i, i, len(out), "uuu", False))
                out.append((mul, ir))
    return Irreps(first), Irreps(second), Irreps(out), instructions
