"""Coupling coefficients against exact arithmetic, sympy, e3nn and the design's table."""

import random
from fractions import Fraction
from math import factorial, isqrt, pi, sqrt

import numpy as np
import pytest
import torch
from cg_tensorproduct import (
    InvalidInput,
    bracket_coefficient,
    clebsch_gordan,
    coupling_coefficient,
    gaunt_coefficient,
    wigner_3j,
)
from cg_tensorproduct.coupling import block, first_m1, triangle
from e3nn import o3


def exact(l1, m1, l2, m2, l3, m3):
    """Racah's sum in rational arithmetic; the square root by integers to 60 digits."""
    f = factorial
    square = Fraction((2 * l3 + 1) * f(l3 + l1 - l2) * f(l3 - l1 + l2) * f(l1 + l2 - l3), f(l1 + l2 + l3 + 1))
    square *= f(l3 + m3) * f(l3 - m3) * f(l1 - m1) * f(l1 + m1) * f(l2 - m2) * f(l2 + m2)
    total = Fraction(0)
    for k in range(max(0, l2 - l3 - m1, l1 - l3 + m2), min(l1 + l2 - l3, l1 - m1, l2 + m2) + 1):
        low = f(k) * f(l1 + l2 - l3 - k) * f(l1 - m1 - k) * f(l2 + m2 - k) * f(l3 - l2 + m1 + k) * f(l3 - l1 - m2 + k)
        total += Fraction((-1) ** k, low)
    value = square * total * total
    digits = 10**60
    root = Fraction(isqrt(value.numerator * digits * digits // value.denominator), digits)
    return float(root) * (1 if total > 0 else -1)


@pytest.mark.parametrize(("low", "high"), [(0, 8), (6, 16), (16, 32), (48, 64)])
def test_blocks_are_exact_to_1e_14(low, high):
    pick = random.Random(low)
    for _ in range(25):
        l1, l2 = pick.randint(low, high), pick.randint(0, high)
        M = pick.randint(0, min(l1 + l2, 12))
        found = block(l1, l2, M)
        for _ in range(10):
            row, column = pick.randrange(len(found)), pick.randrange(len(found))
            m1, l3 = first_m1(l1, l2, M) + row, max(abs(l1 - l2), M) + column
            assert found[row, column] == pytest.approx(exact(l1, m1, l2, M - m1, l3, M), abs=1e-14)


@pytest.mark.parametrize(("l1", "l2"), [(64, 64), (64, 33), (63, 64), (128, 128)])
def test_blocks_are_orthogonal(l1, l2):
    for M in range(0, l1 + l2 + 1, 9):
        found = block(l1, l2, M)
        assert np.abs(found.T @ found - np.eye(len(found))).max() <= 1e-14


def test_sign_of_a_tiny_top_component():
    # lowering operators give the wrong sign and size here
    assert clebsch_gordan(64, 63, 1, basis="complex")[0, 126, 0] == pytest.approx(0.15249857033260467, abs=1e-15)
    assert clebsch_gordan(48, 48, 60, basis="complex")[48, 48, 60] == pytest.approx(0.1295816661707332, abs=1e-15)


def test_equals_sympy():
    from sympy.physics.quantum.cg import CG

    for l1, l2, l3 in [(1, 1, 0), (1, 1, 1), (2, 1, 2), (2, 2, 3), (3, 2, 4), (1, 3, 2)]:
        ours = clebsch_gordan(l1, l2, l3, basis="complex")
        for m1 in range(-l1, l1 + 1):
            for m2 in range(-l2, l2 + 1):
                if abs(m1 + m2) <= l3:
                    theirs = float(CG(l1, m1, l2, m2, l3, m1 + m2).doit())
                    assert ours[l1 + m1, l2 + m2, l3 + m1 + m2] == pytest.approx(theirs, abs=1e-15)


def test_equals_e3nn():
    for l1 in range(7):
        for l2 in range(7):
            for l3 in range(abs(l1 - l2), min(l1 + l2, 8) + 1):
                theirs = o3.wigner_3j(l1, l2, l3, dtype=torch.float64)
                assert torch.allclose(wigner_3j(l1, l2, l3), theirs, atol=2e-15, rtol=0)


def test_values_of_the_real_tensor():
    assert torch.allclose(wigner_3j(1, 1, 0)[:, :, 0], torch.eye(3, dtype=torch.float64) / sqrt(3), atol=1e-15)
    assert wigner_3j(1, 1, 1)[0, 1, 2].item() == pytest.approx(0.408248290463863, abs=1e-14)
    expected = [0, 0, -0.18257418583505539, 0, -0.31622776601683794]
    assert wigner_3j(1, 1, 2)[0, 0].tolist() == pytest.approx(expected, abs=1e-15)
    assert wigner_3j(1, 1, 2)[0, 1].tolist() == pytest.approx([0, 0.31622776601683794, 0, 0, 0], abs=1e-15)
    assert wigner_3j(1, 2, 3)[1, 2, 3].item() == pytest.approx(0.2927700218845601, abs=1e-15)
    assert wigner_3j(2, 2, 2)[2, 2, 2].item() == pytest.approx(0.23904572186687872, abs=1e-15)
    assert wigner_3j(2, 2, 3)[0, 1].tolist() == pytest.approx([0.188982, 0, 0.146385, 0, 0, 0, 0], abs=1e-6)
    assert wigner_3j(5, 7, 4, dtype=torch.float32).square().sum().item() == pytest.approx(1, abs=1e-6)
    assert not wigner_3j(1, 1, 3).any()


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        ((1, 1, 0), 0.4886025119029),
        ((1, 1, 2), 0.6909882989427),
        ((2, 2, 2), 0.7539300438651),
        ((2, 1, 3), 0.8462843753216),
        ((4, 4, 8), 1.566557513843),
        ((1, 1, 1), 1.196826841204),
        ((1, 2, 2), 2.676186174229),
        ((2, 2, 1), 2.676186174229),
        ((2, 2, 3), 5.352372348458),
        ((3, 3, 3), 9.673836185197),
        ((4, 4, 7), 24.26900464797),
        ((8, 8, 9), 96.6331542495),
    ],
)
def test_signal_factors(degrees, expected):
    assert coupling_coefficient(*degrees) == pytest.approx(expected, rel=1e-12)


def test_even_factor_is_the_textbook_gaunt_formula():
    # sqrt((2l1+1)(2l2+1)(2l3+1)/4pi) |3j(l1 l2 l3; 0 0 0)|, with the 3j symbol from the complex coefficients
    for l1, l2, l3 in [(2, 2, 2), (5, 3, 4), (8, 8, 16), (20, 30, 40)]:
        threej = abs(clebsch_gordan(l1, l2, l3, basis="complex")[l1, l2, l3]) / sqrt(2 * l3 + 1)
        expected = sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1) / (4 * pi)) * threej
        assert gaunt_coefficient(l1, l2, l3) == pytest.approx(expected, rel=1e-11)


def test_odd_factor_is_the_gradient_formula():
    # sqrt(l1(l1+1) l2(l2+1)) |3j(l1 l2 l3; 1 -1 0)| N
    for l1, l2, l3 in [(1, 1, 1), (2, 2, 3), (5, 4, 4), (20, 30, 41)]:
        threej = abs(clebsch_gordan(l1, l2, l3, basis="complex")[l1 + 1, l2 - 1, l3]) / sqrt(2 * l3 + 1)
        norm = sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1) / (4 * pi))
        expected = sqrt(l1 * (l1 + 1) * l2 * (l2 + 1)) * norm * threej
        assert bracket_coefficient(l1, l2, l3) == pytest.approx(expected, rel=1e-11)


def test_each_path_has_exactly_one_factor_and_it_is_not_small():
    for l1 in range(13):
        for l2 in range(13):
            for l3 in range(26):
                even, odd = gaunt_coefficient(l1, l2, l3), bracket_coefficient(l1, l2, l3)
                if not triangle(l1, l2, l3):
                    assert even == odd == 0
                elif (l1 + l2 + l3) % 2:
                    assert even == 0
                    assert odd >= 1.19682684
                else:
                    assert odd == 0
                    assert even >= 0.28209479 * (1 - 1e-8)
    assert np.isfinite(gaunt_coefficient(64, 64, 64))


def test_a_3j_symbol_that_defeats_naive_sums():
    # 3j(100, 300, 285; 2, -2, 0)
    threej = clebsch_gordan_entry(100, 300, 285, 2, -2) * (-1) ** (100 - 300) / sqrt(2 * 285 + 1)
    assert threej == pytest.approx(0.0019791657, rel=1e-7)


def clebsch_gordan_entry(l1, l2, l3, m1, m2):
    M = m1 + m2
    return block(l1, l2, M)[m1 - first_m1(l1, l2, M), l3 - max(abs(l1 - l2), abs(M))]


@pytest.mark.parametrize(
    "call", [wigner_3j, clebsch_gordan, gaunt_coefficient, bracket_coefficient, coupling_coefficient]
)
@pytest.mark.parametrize("bad", [(-1, 0, 0), (1, 1.5, 0), (True, 1, 1), ("1", 1, 1)])
def test_bad_degrees_are_refused(call, bad):
    with pytest.raises(InvalidInput, match="l: expected"):
        call(*bad)


def test_unknown_basis_is_refused():
    with pytest.raises(InvalidInput, match="basis"):
        clebsch_gordan(1, 1, 1, basis="cartesian")
