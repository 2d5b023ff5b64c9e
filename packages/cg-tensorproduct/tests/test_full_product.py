"""FullTensorProduct is e3nn's, path by path, for every algorithm."""

import copy
import pickle
from functools import cache

import pytest
import torch
from cg_tensorproduct import FullTensorProduct, InvalidInput, Irreps
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

ALGORITHMS = ["auto", "dense", "blocked", "signal", "sparse", "kernel"]
PAIRS = [
    ("2x1o+0e", "3x1e+2o"),
    ("0e+1o+2e+3o", "0e+1o+2e"),
    ("4x0e+2x3o+1e", "2x2e+1o"),
    ("1e+1e+0x2o", "2x0o"),
]


@cache
def peer(pair, normalization):
    """e3nn's product, made once: it compiles at construction. Its constants take the default dtype of that moment."""
    torch.set_default_dtype(torch.float64)
    try:
        return o3.FullTensorProduct(*pair, irrep_normalization=normalization)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("normalization", ["component", "norm", "none"])
def test_equals_e3nn(pair, normalization, algorithm, normal):
    theirs = peer(pair, normalization)
    ours = FullTensorProduct(*pair, irrep_normalization=normalization, algorithm=algorithm)
    ours.load_state_dict(theirs.state_dict())
    assert str(ours.irreps_out) == str(theirs.irreps_out)
    x, y = normal(0, 5, theirs.irreps_in1.dim).requires_grad_(), normal(1, 5, theirs.irreps_in2.dim).requires_grad_()
    z, expected = ours(x, y), theirs(x, y)
    assert torch.allclose(z, expected, atol=1e-13)
    g = normal(2, *z.shape)
    for a, b in zip(torch.autograd.grad(z, (x, y), g), torch.autograd.grad(expected, (x, y), g)):
        assert torch.allclose(a, b, atol=1e-12)


irrep = st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 4), st.sampled_from([1, -1])))
irreps = st.lists(irrep, max_size=3).filter(lambda terms: any(mul for mul, _ in terms))


@settings(max_examples=15, deadline=None)
@given(irreps, irreps, st.integers(0, 2**32 - 1))
def test_float32_equals_e3nn_on_random_irreps(a, b, seed):
    theirs, ours = o3.FullTensorProduct(a, b), FullTensorProduct(a, b)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, ours.irreps_in1.dim, generator=generator)
    y = torch.randn(3, ours.irreps_in2.dim, generator=generator)
    expected = theirs(x, y)
    assert torch.allclose(
        ours(x, y), expected, atol=1e-6 * max(1.0, expected.abs().max().item() if expected.numel() else 0)
    )


def test_known_numbers():
    product = FullTensorProduct("1o", "1o")
    assert str(product.irreps_out) == "1x0e+1x1e+1x2e"
    x, y = torch.tensor([1.0, 0, 0], dtype=torch.float64), torch.tensor([0.0, 1, 0], dtype=torch.float64)
    expected = [0, 0, 0, 0.7071067811865475, 0, 0.7071067811865476, 0, 0, 0]
    assert product(x, y).tolist() == pytest.approx(expected, abs=1e-15)
    x, y = torch.tensor([1.0, 2, 3], dtype=torch.float64), torch.tensor([1, -1, 2, 0.5, 3], dtype=torch.float64)
    z = FullTensorProduct("1o", "2e")(x, y).tolist()
    assert z[:3] == pytest.approx([-1.72790065, 2.80368341, 4.12758154], abs=1e-8)
    assert z[3:8] == pytest.approx([3.87835876, -7.9168753, -2.47487373, 2.23071014, -2.65361389], abs=1e-8)
    expected = [4.24264069, -0.28867513, -0.19568242, 2.87477988, 2.69928808, 4.90747729, 5.65685425]
    assert z[8:] == pytest.approx(expected, abs=1e-8)
    z = FullTensorProduct("1o", "2e", irrep_normalization="norm")(x, y)
    assert z[:4].tolist() == pytest.approx([-3.86370331, 6.26922669, 9.2295529, 6.71751442], abs=1e-8)
    assert z[8].item() == pytest.approx(6.21059003, abs=1e-8)


def test_enumeration():
    expected = "6x0o+6x1o+2x1e+3x1e+6x2o+1x2o+2x2e+2x3e"
    assert str(FullTensorProduct("2x1o+0e", "3x1e+2o").irreps_out) == expected
    square = FullTensorProduct("0e+1o+2e", "0e+1o+2e")
    assert len(square.irreps_out) == 19
    assert square.irreps_out.dim == 81
    path = square.paths[0]
    assert (path.i1, path.i2, path.i_out, path.l1, path.l2, path.l3) == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_equivariance_under_rotation_and_inversion(algorithm, rotation, normal):
    product = FullTensorProduct("2x0o+1e+2x2o+4e", "1o+3e+2x2e", algorithm=algorithm)
    x, y = normal(0, 4, product.irreps_in1.dim), normal(1, 4, product.irreps_in2.dim)
    for R in (rotation(5), -rotation(6), -torch.eye(3, dtype=torch.float64)):
        D1, D2, D = (i.D_from_matrix(R) for i in (product.irreps_in1, product.irreps_in2, product.irreps_out))
        assert torch.allclose(product(x @ D1.T, y @ D2.T), product(x, y) @ D.T, atol=1e-12)


def test_one_pair_preserves_the_norm_and_exchange_symmetry_holds(normal):
    x, y = normal(0, 3, 7), normal(1, 3, 5)
    z = FullTensorProduct("3o", "2e")(x, y)
    assert torch.allclose(z.square().sum(1), x.square().sum(1) * y.square().sum(1))
    swapped = FullTensorProduct("2e", "3o")(y, x)
    signs = torch.cat([torch.full((2 * l3 + 1,), (-1.0) ** (5 + l3), dtype=torch.float64) for l3 in range(1, 6)])
    assert torch.allclose(swapped, z * signs)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_filter_is_a_slice_of_the_whole(algorithm, normal):
    whole, part = (FullTensorProduct("2x1o+2e", "1o+0e", keep, algorithm=algorithm) for keep in (None, ["1o", "2e"]))
    x, y = normal(0, 4, 11), normal(1, 4, 4)
    columns = [c for term, c in zip(whole.irreps_out, whole.irreps_out.slices()) if term.ir in ("1o", "2e")]
    assert torch.allclose(part(x, y), torch.cat([whole(x, y)[:, c] for c in columns], 1), atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ir_mul_is_a_transposition(algorithm, normal):
    ordinary, swapped = (
        FullTensorProduct("3x1o+2x0e", "2x2e", layout=k, algorithm=algorithm) for k in ("mul_ir", "ir_mul")
    )

    def turn(irreps, v):
        parts = [v[:, s].view(-1, t.mul, t.ir.dim).transpose(1, 2).flatten(1) for t, s in zip(irreps, irreps.slices())]
        return torch.cat(parts, 1)

    x, y = normal(0, 4, ordinary.irreps_in1.dim), normal(1, 4, ordinary.irreps_in2.dim)
    z = swapped(turn(ordinary.irreps_in1, x), turn(ordinary.irreps_in2, y))
    assert torch.allclose(z, turn(ordinary.irreps_out, ordinary(x, y)), atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_first_and_second_derivatives(algorithm, normal):
    product = FullTensorProduct("2x1o+0e", "1o+2e", algorithm=algorithm)
    x, y = normal(0, 2, 7).requires_grad_(), normal(1, 2, 8).requires_grad_()
    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(product, (x, y))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_batches_broadcast_and_stride(algorithm, normal):
    product = FullTensorProduct("1o+2e", "0e+1o", algorithm=algorithm)
    x, y = normal(0, 3, 1, 8), normal(1, 5, 4)
    z = product(x, y)
    assert z.shape == (3, 5, 32)
    assert torch.allclose(z[2, 4], product(x[2, 0], y[4]))
    strided = normal(2, 8, 6).T
    assert torch.allclose(product(strided, normal(3, 6, 4)), product(strided.contiguous(), normal(3, 6, 4)))
    big = normal(4, 2000, 8), normal(5, 2000, 4)
    assert torch.allclose(product(*big)[1234], product(big[0][1234], big[1][1234]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("a", "b"), [("0x1o+2x2e", "1o"), ("1o", "2x0e")])
def test_an_empty_batch_has_an_empty_product_and_gradients(a, b, algorithm):
    product = FullTensorProduct(a, b, algorithm=algorithm)
    for batch in ((0,), (0, 3)):
        x = torch.zeros(*batch, product.irreps_in1.dim, requires_grad=True)
        y = torch.zeros(*batch, product.irreps_in2.dim, requires_grad=True)
        z = product(x, y)
        assert z.shape == (*batch, product.irreps_out.dim)
        gx, gy = torch.autograd.grad(z.sum(), (x, y))
        assert gx.shape == x.shape
        assert gy.shape == y.shape


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_half_precision_accumulates_in_float32(algorithm, normal):
    product = FullTensorProduct("0e+1o+2e", "0e+1o+2e", algorithm=algorithm)
    x, y = normal(0, 16, 9).bfloat16(), normal(1, 16, 9).bfloat16()
    z = product(x, y)
    assert z.dtype == torch.bfloat16
    assert torch.equal(z, product(x.float(), y.float()).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = product(x.float(), y)
        undone = product.inverse(mixed)
    assert mixed.dtype == torch.float32
    assert torch.allclose(mixed, product(x.float(), y.float()), atol=1e-5)
    assert torch.allclose(undone, product.inverse(mixed), atol=1e-5)


def test_float32_error_is_rounding():
    s = Irreps.spherical_harmonics(10)
    product = FullTensorProduct(s, s, algorithm="blocked")
    x, y = torch.randn(8, 121), torch.randn(8, 121)
    assert (product(x, y) - product(x.double(), y.double())).abs().max() < 1e-5


def test_code_that_asks_a_product_of_e3nn_finds_the_same():
    ours, theirs = (kind("2x1o+0e", "1e+2o") for kind in (FullTensorProduct, o3.FullTensorProduct))
    for a, b in zip(ours.instructions, theirs.instructions, strict=True):
        assert a[:5] == (b.i_in1, b.i_in2, b.i_out, b.connection_mode, b.has_weight)
        assert a.path_weight == pytest.approx(b.path_weight)
        assert a.path_shape == tuple(b.path_shape)
    names = "weight_numel", "internal_weights", "shared_weights"
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]


def test_inverse_and_change_of_basis(normal):
    product = FullTensorProduct("2x1o+0e", "1o+2e", irrep_normalization="norm")
    x, y = normal(0, 3, 7), normal(1, 3, 8)
    outer = x[:, :, None] * y[:, None, :]
    assert torch.allclose(product.inverse(product(x, y)), outer, atol=1e-13)
    assert torch.allclose(torch.einsum("kij,bij->bk", product.change_of_basis(), outer), product(x, y), atol=1e-13)


def test_copies_and_state(normal):
    product = FullTensorProduct("1o+2e", "1o")
    x, y = normal(0, 2, 8), normal(1, 2, 3)
    z = product(x, y)
    for other in (copy.deepcopy(product), pickle.loads(pickle.dumps(product)), product.double()):  # noqa: S301
        assert torch.equal(other(x, y), z)
    assert torch.allclose(product.float()(x.float(), y.float()), z.float(), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FullTensorProduct("1z", "1o"), "irreps_in1: expected"),
        (lambda: FullTensorProduct("1o", "1o", ["3e"]), r"filter_ir_out: expected .*0e, 1e, 2e"),
        (lambda: FullTensorProduct("1o", "1o", "0e"), "filter_ir_out: expected a list"),
        (lambda: FullTensorProduct("1o", "1o", irrep_normalization="integral"), "irrep_normalization: expected"),
        (lambda: FullTensorProduct("1o", "1o", algorithm="fast"), "algorithm: expected"),
        (lambda: FullTensorProduct("1o", "1o", layout="mul"), "layout: expected"),
    ],
)
def test_bad_construction_is_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_bad_inputs_are_named():
    product = FullTensorProduct("2x1o+0e", "1o")
    good = torch.zeros(2, 3)
    with pytest.raises(InvalidInput, match=r"x1 has 24 columns, irreps_in1 '2x1o\+1x0e' needs 7"):
        product(torch.zeros(2, 24), good)
    with pytest.raises(InvalidInput, match=r"x2: expected torch.float32"):
        product(torch.zeros(2, 7), good.double())
    with pytest.raises(InvalidInput, match="x1: expected a floating dtype"):
        product(torch.zeros(2, 7, dtype=torch.long), good)
    with pytest.raises(InvalidInput, match="batch shapes that broadcast"):
        product(torch.zeros(5, 7), good)
    with pytest.raises(InvalidInput, match="x2: expected a tensor on cpu"):
        product(torch.zeros(2, 7), good.to("meta"))
    with pytest.raises(InvalidInput, match="no columns"):
        product(torch.tensor(1.0), good)
    strict = FullTensorProduct("1o", "1o", validate=True)
    with pytest.raises(InvalidInput, match="NaN"):
        strict(torch.full((1, 3), torch.nan), torch.zeros(1, 3))
    assert FullTensorProduct("1o", "1o")(torch.full((1, 3), torch.nan), torch.zeros(1, 3)).isnan().all()
