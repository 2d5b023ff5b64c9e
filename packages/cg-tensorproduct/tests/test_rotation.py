"""Real Wigner matrices of any degree."""

import pytest
import torch
from cg_tensorproduct import InvalidInput, Irreps, clebsch_gordan, rotation_matrix
from e3nn import o3


def test_degree_one_is_the_rotation_itself(rotation):
    R = rotation(0)
    assert torch.allclose(rotation_matrix(1, R), R, atol=1e-14)


@pytest.mark.parametrize("degree", [0, 2, 5, 8, 11])
def test_equals_e3nn(degree, rotation):
    R = rotation(1)
    theirs = o3.Irrep(degree, 1).D_from_matrix(R)
    assert torch.allclose(rotation_matrix(degree, R), theirs, atol=1e-5)


@pytest.mark.parametrize("degree", [3, 8, 24, 64])
def test_turns_harmonics(degree, rotation):
    """D^l moves the harmonics of a rotated point: here through coupling, (l-1) x 1 -> l, which knows no rotation."""
    R = rotation(2)
    lower, upper = rotation_matrix(degree - 1, R), rotation_matrix(degree, R)
    C = torch.as_tensor(clebsch_gordan(degree - 1, 1, degree))
    turned = torch.einsum("abc,ax,by->xyc", C, lower, R)
    assert torch.allclose(turned, torch.einsum("xyc,dc->xyd", C, upper), atol=1e-12)


@pytest.mark.parametrize("degree", [1, 4, 12])
def test_is_a_representation_and_survives_the_poles(degree, rotation):
    about_pole = torch.eye(3, dtype=torch.float64)
    about_pole[0, 0] = about_pole[2, 2] = -1.0  # half a turn about y, the polar axis
    flip = torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64))
    tiny = torch.linalg.matrix_exp(1e-9 * torch.tensor([[0, 1, 2], [-1, 0, 3], [-2, -3, 0]], dtype=torch.float64))
    for a in (rotation(3), about_pole, flip, tiny, torch.eye(3, dtype=torch.float64)):
        for b in (rotation(4), about_pole, tiny):
            both = rotation_matrix(degree, a) @ rotation_matrix(degree, b)
            assert torch.allclose(rotation_matrix(degree, a @ b), both, atol=1e-13)


def test_parity_enters_through_irreps():
    irreps = Irreps("2x1o+1e+0o+2e")
    expected = torch.diag(torch.tensor([-1.0] * 6 + [1.0] * 3 + [-1.0] + [1.0] * 5, dtype=torch.float64))
    assert torch.allclose(irreps.D_from_matrix(-torch.eye(3, dtype=torch.float64)), expected, atol=1e-15)


@pytest.mark.parametrize("bad", [torch.eye(4), torch.ones(3, 3), torch.eye(3, dtype=torch.long), "R"])
def test_bad_matrices_are_refused(bad):
    with pytest.raises(InvalidInput, match="R: expected"):
        rotation_matrix(1, bad)
