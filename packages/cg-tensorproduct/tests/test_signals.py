"""Signal products carry every path, with the factors they are said to have."""

import pytest
import torch
from cg_tensorproduct import (
    FullTensorProduct,
    InvalidInput,
    Irreps,
    SignalTensorProduct,
    coupling_coefficient,
    rotation_matrix,
    signal_product,
    wigner_3j,
)
from cg_tensorproduct.harmonics import nine_j, six_j, tensor_harmonic_factor, tensor_harmonic_product
from cg_tensorproduct.legendre import gauss_grid, harmonics

TRANSFORMS = ["dense", "separable", "fft", "fourier2d"]


def by_paths(x, y, lmax1, lmax2, lmax_out, weight=coupling_coefficient):
    """Both halves, path by path."""
    halves = [torch.zeros(*x.shape[:-1], (lmax_out + 1) ** 2, dtype=x.dtype) for _ in range(2)]
    for a in range(lmax1 + 1):
        for b in range(lmax2 + 1):
            for c in range(abs(a - b), min(a + b, lmax_out) + 1):
                w = wigner_3j(a, b, c, dtype=x.dtype) * weight(a, b, c)
                first, second = x[..., a * a : (a + 1) ** 2], y[..., b * b : (b + 1) ** 2]
                part = torch.einsum("abc,...a,...b->...c", w, first, second)
                halves[(a + b + c) % 2][..., c * c : (c + 1) ** 2] += part
    return halves


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("degrees", [(1, 1, 2), (2, 3, 4), (4, 4, 8), (3, 5, 0), (0, 2, 2), (0, 0, 0), (6, 5, 3)])
def test_mixing_product_is_the_sum_over_paths(degrees, transform, normal):
    lmax1, lmax2, _ = degrees
    product = SignalTensorProduct(*degrees, channels=2, normalization="integral", transform=transform)
    x, y = normal(0, 3, 2, (lmax1 + 1) ** 2), normal(1, 3, 2, (lmax2 + 1) ** 2)
    even, odd = by_paths(x, y, *degrees)
    z = product(x, y)
    assert torch.allclose(z.even, even, atol=1e-12)
    assert torch.allclose(z.odd, odd, atol=1e-12)


def test_one_grid_point_too_few_aliases(monkeypatch, normal):
    import cg_tensorproduct.fields as fields

    sizes = fields.grid_sizes
    monkeypatch.setattr(fields, "grid_sizes", lambda *d: (sizes(*d)[0], sizes(*d)[1] - 1))
    x, y = normal(0, 1, 25), normal(1, 1, 25)
    z = SignalTensorProduct(4, 4, 8, normalization="integral", transform="separable")(x, y)
    assert (z.even - by_paths(x, y, 4, 4, 8)[0]).abs().max() > 1e-3


@pytest.mark.parametrize(("lmax", "tolerance"), [(8, 1e-12), pytest.param(16, 1e-11, marks=pytest.mark.slow)])
def test_signal_algorithm_recovers_every_path(lmax, tolerance, normal):
    spec = Irreps.spherical_harmonics(lmax)
    x, y = normal(0, 2, spec.dim), normal(1, 2, spec.dim)
    signal, exact = (FullTensorProduct(spec, spec, algorithm=name)(x, y) for name in ("signal", "blocked"))
    assert (signal - exact).abs().max() <= tolerance


def test_harmonics_are_orthonormal_and_degree_one_is_xyz():
    grid = gauss_grid(7, 13)
    value, _, _ = harmonics(6, grid.theta, grid.phi)
    flat, weight = value.reshape(49, -1), (grid.weight[:, None] * (0 * grid.phi + 1)).ravel()
    assert abs((flat * weight) @ flat.T - torch.eye(49).numpy()).max() < 1e-13
    # x = sin theta sin phi, y = cos theta, z = sin theta cos phi
    import numpy as np

    theta, phi = np.meshgrid(grid.theta, grid.phi, indexing="ij")
    xyz = np.stack([np.sin(theta) * np.sin(phi), np.cos(theta), np.sin(theta) * np.cos(phi)])
    assert abs(value[1:4] - np.sqrt(3 / (4 * np.pi)) * xyz).max() < 1e-15


def test_bracket_obeys_jacobi(normal):
    a, b, c = (normal(k, 9) for k in range(3))

    def bracket(x, y):
        return signal_product(x, y, couplings="bracket").odd

    total = bracket(a, bracket(b, c)) + bracket(b, bracket(c, a)) + bracket(c, bracket(a, b))
    assert total.abs().max() < 1e-12
    assert torch.allclose(bracket(a, b), -bracket(b, a), atol=1e-13)


def test_equivariance(rotation, normal):
    product = SignalTensorProduct(3, 2, 4, channels=2, weights="degree", dtype=torch.float64)
    x, y = normal(0, 5, 2, 16), normal(1, 5, 2, 9)
    for R in (rotation(1), -rotation(2)):
        # inputs are ordinary signals: parity (-1)^l
        D1, D2 = (Irreps.spherical_harmonics(n).D_from_matrix(R) for n in (3, 2))
        turned, plain = product(x @ D1.T, y @ D2.T), product(x, y)
        assert torch.allclose(turned.even, plain.even @ product.irreps_even.D_from_matrix(R).T, atol=1e-12)
        assert torch.allclose(turned.odd, plain.odd @ product.irreps_odd.D_from_matrix(R).T, atol=1e-12)
    assert str(product.irreps_even) == "1x0e+1x1o+1x2e+1x3o+1x4e"
    assert str(product.irreps_odd) == "1x0o+1x1e+1x2o+1x3e+1x4o"


def test_component_normalization_gives_unit_variance():
    product = SignalTensorProduct(3, 3, 3)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(20000, 1, 16, generator=generator) for _ in range(2))
    for half in product(x, y):
        for degree in range(4):
            part = half[..., degree**2 : (degree + 1) ** 2]
            if part.abs().max() > 1e-3:  # no odd path arrives at degree 0
                assert part.var().item() == pytest.approx(1, abs=0.1)


def test_any_path_weights_can_be_loaded(normal):
    product = SignalTensorProduct(3, 2, 4, weights="path", dtype=torch.float64)
    W = normal(0, 4, 3, 5)
    assert product.load_path_weights(W) < 1e-12
    found = product.path_weights()
    paths = torch.tensor([[[abs(a - b) <= c <= a + b for c in range(5)] for b in range(3)] for a in range(4)])
    assert torch.allclose(found, torch.where(paths, W, 0), atol=1e-12)
    x, y = normal(1, 2, 1, 16), normal(2, 2, 1, 9)
    even, odd = by_paths(x, y, 3, 2, 4, weight=lambda a, b, c: W[a, b, c])
    z = product(x, y)
    assert torch.allclose(z.even, even, atol=1e-12)
    assert torch.allclose(z.odd, odd, atol=1e-12)


def test_entries_without_a_path_lower_the_rank(normal):
    product = SignalTensorProduct(2, 2, 2, weights="path", dtype=torch.float64)
    W = normal(0, 3, 3, 3)
    residuals = [product.load_path_weights(W, rank=r) for r in (1, 2, 4, 9)]
    assert residuals[0] > 1e-2
    assert residuals[2] < 1e-6
    assert residuals[3] < 1e-12
    with pytest.raises(InvalidInput, match="W: expected"):
        product.load_path_weights(W[:2])
    with pytest.raises(InvalidInput, match="'path'"):
        SignalTensorProduct(1, 1).load_path_weights(W)


@pytest.mark.parametrize("scale", [1e-300, 1e99])
def test_path_weights_of_any_size_are_fitted_alike(normal, scale):
    product = SignalTensorProduct(2, 2, 2, weights="path", dtype=torch.float64)
    W = normal(0, 3, 3, 3)
    assert product.load_path_weights(scale * W, rank=2) == pytest.approx(product.load_path_weights(W, rank=2), rel=1e-6)
    product.load_path_weights((scale * W).requires_grad_())
    assert torch.allclose(product.path_weights() / scale, product.path_weights().sign() * W.abs(), atol=1e-9)


@pytest.mark.parametrize("weights", ["none", "degree", "path"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_empty_batch_has_an_empty_product(weights, transform):
    product = SignalTensorProduct(2, 1, channels=2, weights=weights, transform=transform)
    x = torch.zeros(0, 2, 9, requires_grad=True)
    found = product(x, torch.zeros(0, 2, 4))
    assert found.even.shape == found.odd.shape == (0, 2, 16)
    (found.even.sum() + found.odd.sum()).backward()
    assert x.grad.shape == x.shape
    assert signal_product(torch.zeros(0, 9), torch.zeros(0, 4)).odd.shape == (0, 16)


@pytest.mark.parametrize("weights", ["none", "degree", "path"])
@pytest.mark.parametrize("transform", ["dense", "separable", "fft"])
def test_derivatives_and_transforms(weights, transform, normal):
    product = SignalTensorProduct(2, 1, 2, weights=weights, rank=2, transform=transform, dtype=torch.float64)
    x, y = normal(0, 2, 1, 9).requires_grad_(), normal(1, 2, 1, 4).requires_grad_()
    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(product, (x, y))
    both = torch.vmap(product)(x, y)
    assert torch.allclose(both.even, product(x, y).even)
    grad = torch.func.grad(lambda x: product(x, y).odd.square().sum())(x.detach())
    assert torch.allclose(grad, torch.autograd.grad(product(x, y).odd.square().sum(), x)[0])


@pytest.mark.parametrize("transform", ["dense", "separable"])
def test_half_precision_and_autocast_compute_in_float32(transform, normal):
    product = SignalTensorProduct(3, 2, 3, weights="degree", transform=transform)
    x, y = normal(0, 6, 1, 16).bfloat16(), normal(1, 6, 1, 9).bfloat16()
    expected = product(x.float(), y.float())
    for half, wanted in zip(product(x, y), expected):
        assert torch.equal(half, wanted.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = product(x.float(), y)
    for half, wanted in zip(found, expected):
        assert half.dtype == torch.float32
        assert torch.allclose(half, wanted, atol=1e-5)


def test_compiled_mixing_product(normal):
    torch._dynamo.reset()
    product = SignalTensorProduct(2, 2, 2, transform="separable")
    x, y = normal(0, 2, 1, 9), normal(1, 2, 1, 9)
    assert torch.allclose(torch.compile(product, backend="aot_eager")(x, y).odd, product(x, y).odd)


def test_tensor_harmonics_follow_the_9j_formula(normal):
    from sympy.physics.wigner import wigner_6j, wigner_9j

    assert six_j(1, 2, 3, 2, 1, 2) == pytest.approx(float(wigner_6j(1, 2, 3, 2, 1, 2)), abs=1e-15)
    expected = float(wigner_9j(1, 2, 3, 1, 1, 1, 2, 2, 2))
    assert nine_j(((1, 2, 3), (1, 1, 1), (2, 2, 2))) == pytest.approx(expected, abs=1e-15)
    for j, s, offsets in [
        ((1, 1, 1), (1, 1, 1), (1, 0, 0)),
        ((2, 3, 4), (0, 1, 1), (0, 0, -1)),
        ((2, 2, 2), (1, 0, 1), (0, 0, 0)),
    ]:
        x, y = normal(0, 3, 2 * j[0] + 1), normal(1, 3, 2 * j[1] + 1)
        C = wigner_3j(*j) * (2 * j[2] + 1) ** 0.5
        expected = tensor_harmonic_factor(j, s, offsets) * torch.einsum("abc,na,nb->nc", C, x, y)
        assert expected.abs().max() > 1e-3 or sum(a + b for a, b in zip(j, offsets)) % 2
        assert torch.allclose(tensor_harmonic_product(x, y, *j, s=s, offsets=offsets), expected, atol=1e-13)


def test_rotated_signal_is_the_signal_at_the_rotated_point(rotation, normal):
    """D^l x evaluated at R r is x evaluated at r: an independent check of rotation_matrix against harmonics."""
    import numpy as np

    R = rotation(3)
    point = normal(4, 3)
    point = point / point.norm()

    def at(r, degree):
        theta, phi = np.arccos(r[1].item()), np.arctan2(r[0].item(), r[2].item())
        value = harmonics(degree, np.array([theta]), np.array([phi]))[0]
        return torch.as_tensor(value[degree**2 :, 0, 0])

    for degree in (1, 4, 9, 20):
        assert torch.allclose(at(R @ point, degree), rotation_matrix(degree, R) @ at(point, degree), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SignalTensorProduct(-1, 1), "lmax1: expected"),
        (lambda: SignalTensorProduct(1, 1.5), "lmax2: expected"),
        (lambda: SignalTensorProduct(1, 1, 3), "lmax_out: expected at most"),
        (lambda: SignalTensorProduct(1, 1, channels=0), "channels: expected"),
        (lambda: SignalTensorProduct(1, 1, couplings="all"), "couplings: expected"),
        (lambda: SignalTensorProduct(1, 1, transform="slow"), "transform: expected"),
        (lambda: signal_product(torch.zeros(5), torch.zeros(4)), r"x: expected \(L \+ 1\)\^2 columns"),
        (lambda: signal_product(torch.zeros(4), torch.zeros(4).double()), "y: expected torch.float32"),
        (lambda: SignalTensorProduct(1, 1)(torch.zeros(3, 1, 5), torch.zeros(3, 1, 4)), "x has 5 columns"),
        (lambda: SignalTensorProduct(1, 1, channels=2)(torch.zeros(3, 3, 4), torch.zeros(3, 3, 4)), "channels = 2"),
        (
            lambda: tensor_harmonic_product(torch.zeros(3), torch.zeros(3), 1, 1, 1, offsets=(3, 0, 0)),
            "offsets: expected",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
