"""Tensor harmonics and the generalised Gaunt formula, the paper's general form, as a float64 reference.

A signal with values in the irrep s has the harmonics ``Y[l, s; j, c](r) = sum C(l, s, j)[a, b, c] S[l, a](r) e[b]``, |l
- s| <= j <= l + s. Multiply two of them pointwise, couple the values s1 x s2 -> s3 and project on ``Y[l3, s3; j3]``:
what is left is the plain coupling of x and y times a number, which for vectors (s <= 1) is non-zero for odd j1 + j2 +
j3 too, where scalar signals give none.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import factorial, isqrt, sqrt

import numpy as np
import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.coupling import check_degrees, clebsch_gordan, gaunt_coefficient, triangle
from cg_tensorproduct.inputs import check_tensor
from cg_tensorproduct.legendre import gauss_grid, harmonics

Triple = tuple[int, int, int]


def tensor_harmonic_factor(j: Triple, s: Triple, offsets: Triple) -> float:
    """By what a product of tensor harmonics multiplies the coupling ``C(j1, j2, j3)``.

    Parameters
    ----------
    j : tuple of int
        Total degrees (j1, j2, j3).
    s : tuple of int
        Value irreps (s1, s2, s3).
    offsets : tuple of int
        l - j for each.

    Returns
    -------
    float
        ``g(l1, l2, l3) sqrt((2 s3 + 1)(2 j1 + 1)(2 j2 + 1)) 9j{l1 l2 l3; s1 s2 s3; j1 j2 j3}`` in e3nn's basis; zero
        where a triangle is broken.
    """
    degrees = tuple(a + b for a, b in zip(j, offsets))
    if min(degrees) < 0:
        return 0.0
    recoupling = nine_j((degrees, s, j))  # type: ignore[arg-type]
    if recoupling == 0.0:
        return 0.0
    weight = sqrt((2 * s[2] + 1) * (2 * j[0] + 1) * (2 * j[1] + 1))
    return gaunt_coefficient(*degrees) * weight * recoupling


def tensor_harmonic_product(
    x: torch.Tensor,
    y: torch.Tensor,
    j1: int,
    j2: int,
    j3: int,
    *,
    s: Triple = (1, 1, 1),
    offsets: Triple = (1, 0, 0),
) -> torch.Tensor:
    """Product of two tensor-harmonic signals of total degrees j1, j2, analysed at j3, evaluated on a grid in float64.

    Parameters
    ----------
    x : Tensor [..., 2 j1 + 1]
    y : Tensor [..., 2 j2 + 1]
        Coefficients; the batch axes broadcast.
    j1, j2, j3 : int
    s : tuple of int
        Value irreps of the inputs and the output: 0 for scalar, 1 for vector signals; any degree is accepted.
    offsets : tuple of int
        l - j of the inputs and the output, each within -s .. s.

    Returns
    -------
    Tensor [..., 2 j3 + 1], float64
        `tensor_harmonic_factor` times ``clebsch_gordan(j1, j2, j3)`` applied to x and y.

    Raises
    ------
    InvalidInput
        If a degree is negative, an offset breaks a triangle |l - s| <= j <= l + s, or a last axis does not fit.
    """
    j = check_degrees(j1, j2, j3)
    if not isinstance(s, (tuple, list)) or len(s) != 3 or not isinstance(offsets, (tuple, list)) or len(offsets) != 3:
        raise InvalidInput.argument("s, offsets", expected="three integers each", got=(s, offsets))
    values = check_degrees(*s)
    degrees = tuple(a + b for a, b in zip(j, offsets))
    if any(d < 0 or not triangle(d, v, k) for d, v, k in zip(degrees, values, j)):
        raise InvalidInput.argument(
            "offsets", expected=f"l = j + offset with |l - s| <= j <= l + s for j = {j}", got=offsets
        )
    for name, tensor, degree in (("x", x, j[0]), ("y", y, j[1])):
        check_tensor(name, tensor)
        if tensor.dim() == 0 or tensor.shape[-1] != 2 * degree + 1:
            raise InvalidInput.argument(name, expected=f"{2 * degree + 1} columns", got=f"shape {tuple(tensor.shape)}")
    total = sum(degrees)
    grid = gauss_grid(total // 2 + 1, total + 1)
    fields = []
    for degree, value, k in zip(degrees, values, j):
        packed = harmonics(degree, grid.theta, grid.phi)[0][degree * degree :].reshape(2 * degree + 1, -1)
        fields.append(torch.as_tensor(np.einsum("abc,ag->cbg", clebsch_gordan(degree, value, k), packed)))
    weight = torch.as_tensor(np.repeat(grid.weight, len(grid.phi)))
    first = torch.einsum("...c,cbg->...bg", x.double(), fields[0])
    second = torch.einsum("...c,cbg->...bg", y.double(), fields[1])
    coupling = torch.as_tensor(clebsch_gordan(*values))
    signal = torch.einsum("...ag,...bg,abd->...dg", first, second, coupling) * weight
    return torch.einsum("...dg,cdg->...c", signal, fields[2])


def nine_j(rows: tuple[Triple, Triple, Triple]) -> float:
    """Wigner's 9j symbol of integer degrees, as a sum over products of three 6j symbols; zero where a triangle is
    broken.
    """
    (a, b, c), (d, e, f), (g, h, i) = rows
    if not all(triangle(*t) for t in (*rows, *zip(*rows))):
        return 0.0
    low, high = max(abs(a - i), abs(d - h), abs(b - f)), min(a + i, d + h, b + f)
    return sum(
        (2 * k + 1) * six_j(a, b, c, f, i, k) * six_j(d, e, f, b, k, h) * six_j(g, h, i, k, a, d)
        for k in range(low, high + 1)
    )


@lru_cache(maxsize=65536)
def six_j(a: int, b: int, c: int, d: int, e: int, f: int) -> float:
    """Wigner's 6j symbol {a b c; d e f} by Racah's sum in exact arithmetic; zero where a triangle is broken."""
    triads = ((a, b, c), (a, e, f), (d, b, f), (d, e, c))
    if not all(triangle(*t) for t in triads):
        return 0.0
    square = Fraction(1)
    for p, q, r in triads:
        top = factorial(p + q - r) * factorial(p - q + r) * factorial(q + r - p)
        square *= Fraction(top, factorial(p + q + r + 1))
    sums = [sum(t) for t in triads]
    pairs = (a + b + d + e, b + c + e + f, a + c + d + f)
    total = Fraction(0)
    for k in range(max(sums), min(pairs) + 1):
        low = 1
        for t in sums:
            low *= factorial(k - t)
        for t in pairs:
            low *= factorial(t - k)
        total += Fraction((-1) ** k * factorial(k + 1), low)
    value = square * total * total
    digits = 10**40
    root = isqrt(value.numerator * digits * digits // value.denominator)
    return float(Fraction(root, digits)) * (1 if total >= 0 else -1)
