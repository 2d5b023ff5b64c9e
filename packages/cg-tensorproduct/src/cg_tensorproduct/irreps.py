"""Irreducible representations of O(3) and direct sums of them. Strings and order are e3nn's; no torch here."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from functools import total_ordering
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, overload

from lemmata_core import InvalidInput
from lemmata_core.check import positive_int

if TYPE_CHECKING:
    import torch

_IRREP = re.compile(r"\s*(\d+)\s*([eoy])\s*")
_TERM = re.compile(r"\s*(?:(\d+)\s*[x*]\s*)?(\d+)\s*([eoy])\s*")
_IRREP_EXPECTED = "an irrep such as '1o' or (1, -1): degree l >= 0 and parity e or o"
_IRREPS_EXPECTED = "irreps such as '8x0e + 4x1o': multiplicity, degree and parity of each term, joined by +"


@total_ordering
class Irrep:
    """An irreducible representation of O(3).

    Parameters
    ----------
    l : int, str, tuple or Irrep
        Degree, or something that says both: ``"1o"``, ``(1, -1)``, another irrep (e3nn's too).
    p : {1, -1}, optional
        Parity under inversion.

    Attributes
    ----------
    l, p, dim : int
        Degree, parity and dimension ``2 l + 1``.

    Raises
    ------
    InvalidInput
        If it is none of these.
    """

    __slots__ = ("l", "p")
    l: int  # noqa: E741
    p: int

    def __init__(self, l: int | str | tuple[int, int] | Irrep, p: int | None = None) -> None:  # noqa: E741
        degree, parity = _irrep_numbers(l, p)
        object.__setattr__(self, "l", degree)
        object.__setattr__(self, "p", parity)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an Irrep cannot be changed")

    def __reduce__(self) -> tuple[type[Irrep], tuple[int, int]]:
        return Irrep, (self.l, self.p)

    @property
    def dim(self) -> int:
        """The dimension, ``2 l + 1``."""
        return 2 * self.l + 1

    def is_scalar(self) -> bool:
        """Whether this is ``0e``."""
        return self.l == 0 and self.p == 1

    def __mul__(self, other: object) -> Iterator[Irrep]:
        if not isinstance(other, Irrep):
            return NotImplemented
        p = self.p * other.p
        return (Irrep(degree, p) for degree in range(abs(self.l - other.l), self.l + other.l + 1))

    def __rmul__(self, mul: object) -> Irreps:
        if not isinstance(mul, int):
            return NotImplemented
        return Irreps([(mul, self)])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Irrep(other)
            except InvalidInput:
                return False
        return isinstance(other, Irrep) and (self.l, self.p) == (other.l, other.p)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Irrep):
            return NotImplemented
        return (self.l, self.p) < (other.l, other.p)

    def __hash__(self) -> int:
        return hash((self.l, self.p))

    def __repr__(self) -> str:
        return f"{self.l}{'e' if self.p == 1 else 'o'}"


def _irrep_numbers(l: object, p: object) -> tuple[int, int]:  # noqa: E741
    if p is None:
        if isinstance(l, Irrep):
            return l.l, l.p
        if type(l).__name__ == "Irrep":  # e3nn's is a tuple that refuses len()
            l, p = getattr(l, "l", None), getattr(l, "p", None)  # noqa: E741
        elif isinstance(l, tuple) and len(l) == 2:
            l, p = l  # noqa: E741
        else:
            match = _IRREP.fullmatch(str(l))
            if match is None:
                raise InvalidInput.argument("irrep", expected=_IRREP_EXPECTED, got=l)
            degree = int(match[1])
            return degree, _parity(degree, match[2])
    found, parity = _index(l), _index(p)
    if found is None or found < 0 or parity is None or abs(parity) != 1:
        raise InvalidInput.argument("irrep", expected=_IRREP_EXPECTED, got=f"l={l!r}, p={p!r}")
    return found, parity


def _index(value: object) -> int | None:
    """The integer that `value` is, or None: an array of one entry says it can be an index, and then raises."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _parity(degree: int, letter: str) -> int:
    return {"e": 1, "o": -1, "y": (-1) ** degree}[letter]


class MulIrrep(NamedTuple):
    """A multiplicity and an irrep: one term of `Irreps`."""

    mul: int
    ir: Irrep

    @property
    def dim(self) -> int:
        """``mul * (2 l + 1)``."""
        return self.mul * self.ir.dim

    def __repr__(self) -> str:
        return f"{self.mul}x{self.ir}"


class Irreps(tuple[MulIrrep, ...]):
    """A direct sum of irreps of O(3), in the order in which their components stand in a feature vector.

    Parameters
    ----------
    irreps : str, Irreps, Irrep, or iterable
        ``"8x0e + 4x1o"``, or pairs ``(mul, irrep)`` and bare irreps, or any object whose ``str`` parses (e3nn's and
        cuequivariance's classes do). The letter ``y`` stands for the parity of spherical harmonics.

    Raises
    ------
    InvalidInput
        If it does not parse, or a multiplicity or degree is negative.
    """

    __slots__ = ()

    def __new__(cls, irreps: object = "") -> Irreps:
        """Parse `irreps`."""
        if isinstance(irreps, Irreps):
            return irreps
        if isinstance(irreps, Irrep):
            return super().__new__(cls, (MulIrrep(1, irreps),))
        return super().__new__(cls, _parse(irreps))

    @staticmethod
    def spherical_harmonics(lmax: int, p: int = -1) -> Irreps:
        """Harmonics of degree 0 to `lmax`, once each; their parity is ``p**l``."""
        lmax = positive_int(lmax, "lmax", minimum=-1)
        if _index(p) not in (1, -1):
            raise InvalidInput.argument("p", expected="1 or -1", got=p)
        return Irreps([(1, (degree, p**degree)) for degree in range(lmax + 1)])

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        return sum(term.dim for term in self)

    @property
    def num_irreps(self) -> int:
        """Sum of the multiplicities."""
        return sum(mul for mul, _ in self)

    @property
    def ls(self) -> list[int]:
        """The degree of each copy."""
        return [ir.l for mul, ir in self for _ in range(mul)]

    @property
    def lmax(self) -> int:
        """The largest degree that occurs.

        Raises
        ------
        InvalidInput
            If nothing occurs.
        """
        if self.num_irreps == 0:
            raise InvalidInput("lmax: empty irreps have no largest degree")
        return max(self.ls)

    def slices(self) -> list[slice]:
        """Where each term stands in a feature vector."""
        ends, start = [], 0
        for term in self:
            ends.append(slice(start, start + term.dim))
            start += term.dim
        return ends

    def simplify(self) -> Irreps:
        """Merge neighbours of the same irrep and drop terms of multiplicity zero."""
        out: list[tuple[int, Irrep]] = []
        for mul, ir in self:
            if out and out[-1][1] == ir:
                out[-1] = (out[-1][0] + mul, ir)
            elif mul > 0:
                out.append((mul, ir))
        return Irreps(out)

    def remove_zero_multiplicities(self) -> Irreps:
        """Drop terms of multiplicity zero, merging nothing."""
        return Irreps([term for term in self if term.mul > 0])

    def sort(self) -> tuple[Irreps, tuple[int, ...], tuple[int, ...]]:
        """Sort stably by degree, odd before even.

        Returns
        -------
        irreps : Irreps
            The sorted sum; equal irreps stay apart.
        p : tuple of int
            New position of each old term.
        inv : tuple of int
            Old position of each new term.
        """
        inv = tuple(sorted(range(len(self)), key=lambda i: self[i].ir))
        p = [0] * len(inv)
        for new, old in enumerate(inv):
            p[old] = new
        return Irreps([self[i] for i in inv]), tuple(p), inv

    def regroup(self) -> Irreps:
        """Sort and simplify."""
        return self.sort()[0].simplify()

    def filter(self, keep: object) -> Irreps:
        """Keep the terms whose irrep occurs in `keep`."""
        kept = {ir for _, ir in Irreps(keep)}
        return Irreps([term for term in self if term.ir in kept])

    def count(self, ir: object) -> int:
        """How many copies of `ir` there are."""
        wanted = Irrep(ir)  # type: ignore[arg-type]
        return sum(mul for mul, other in self if other == wanted)

    def randn(self, *size: int, generator: torch.Generator | None = None, **options: object) -> torch.Tensor:
        """Standard normal features of shape `size`, in which the one ``-1`` stands for `dim`."""
        import torch

        shape = [self.dim if k == -1 else k for k in (positive_int(n, "size", minimum=-1) for n in size)]
        return torch.randn(shape, generator=generator, **options)  # type: ignore[call-overload]

    def D_from_matrix(self, R: torch.Tensor) -> torch.Tensor:  # noqa: N802 - e3nn's name
        """The matrix with which an orthogonal 3 x 3 matrix acts on feature vectors.

        Parameters
        ----------
        R : Tensor [3, 3]
            Rotation, or rotation with inversion (determinant -1), of ``(x, y, z)``.

        Returns
        -------
        Tensor [dim, dim]
        """
        from cg_tensorproduct.rotation import representation

        return representation(self, R)

    def __contains__(self, ir: object) -> bool:
        try:
            return self.count(ir) > 0
        except InvalidInput:
            return False

    @overload
    def __getitem__(self, i: SupportsIndex) -> MulIrrep: ...
    @overload
    def __getitem__(self, i: slice) -> Irreps: ...
    def __getitem__(self, i: SupportsIndex | slice) -> MulIrrep | Irreps:
        found = super().__getitem__(i)
        return Irreps(found) if isinstance(i, slice) else found  # type: ignore[return-value]

    def __add__(self, other: object) -> Irreps:
        return Irreps(tuple.__add__(self, Irreps(other)))

    def __mul__(self, n: object) -> Irreps:
        if not isinstance(n, int):
            return NotImplemented
        return Irreps(tuple(self) * n)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or (type(other).__name__ == "Irreps" and not isinstance(other, Irreps)):
            try:
                other = Irreps(other)
            except InvalidInput:
                return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __reduce__(self) -> tuple[type[Irreps], tuple[str]]:
        return Irreps, (str(self),)

    def __repr__(self) -> str:
        return "+".join(repr(term) for term in self)


def occupied_irreps(name: str, irreps: object) -> Irreps:
    """The argument `name` of a product as `Irreps`.

    Raises
    ------
    InvalidInput
        If it does not parse, or stands for vectors without components: a product of nothing is a mistake upstream.
    """
    try:
        parsed = Irreps(irreps)
    except InvalidInput as err:
        raise InvalidInput(f"{name}: {str(err).partition(': ')[2]}") from None
    if parsed.dim == 0:
        raise InvalidInput.argument(name, expected="at least one irrep with a multiplicity > 0", got=f"'{parsed}'")
    return parsed


def _parse(irreps: object) -> list[MulIrrep]:
    # other libraries' classes are iterable too, but only their text is sure to mean the same
    foreign = type(irreps).__name__ in ("Irreps", "Irrep")
    if isinstance(irreps, Iterable) and not isinstance(irreps, (str, bytes)) and not foreign:
        return [_term(item) for item in irreps]
    text = str(irreps)
    if not text.strip():
        return []
    out = []
    for part in text.split("+"):
        match = _TERM.fullmatch(part)
        if match is None:
            raise InvalidInput.argument("irreps", expected=_IRREPS_EXPECTED, got=f"{part.strip()!r} in {text!r}")
        degree = int(match[2])
        out.append(MulIrrep(int(match[1] or 1), Irrep(degree, _parity(degree, match[3]))))
    return out


def _term(item: object) -> MulIrrep:
    if isinstance(item, MulIrrep):
        return item
    if isinstance(item, tuple) and type(item).__name__ != "Irrep" and len(item) == 2:
        mul, ir = item
        # int first: instances of a protocol are slow to tell
        if isinstance(mul, bool) or not isinstance(mul, (int, SupportsIndex)) or int(mul) < 0:
            raise InvalidInput.argument("irreps", expected="multiplicities that are integers >= 0", got=item)
        return MulIrrep(int(mul), ir if isinstance(ir, Irrep) else Irrep(ir))
    if isinstance(item, str) and "x" in item:
        terms = _parse(item)
        if len(terms) == 1:
            return terms[0]
    return MulIrrep(1, Irrep(item))  # type: ignore[arg-type]
