"""Weighted products equal e3nn's: every mode, weights, gradients, state_dict."""

import copy

import pytest
import torch
from cg_tensorproduct import (
    ElementwiseTensorProduct,
    FullyConnectedTensorProduct,
    InvalidInput,
    TensorProduct,
)
from e3nn import o3

MODES = {
    "uvw": ("3x1o+2x0e", "2x1o", "4x1e+2x0e+3x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
    "uvu": ("3x1o", "2x1o+1x2e", "3x1e+3x0e+3x2e+3x1o", [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 3)]),
    "uvv": ("3x1o", "2x1o", "2x1e+2x0e+2x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
    "uuw": ("3x1o", "3x1o", "2x1e+2x0e+4x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
    "uuu": ("3x1o+3x2e", "3x1o+3x1e", "3x1e+3x0e+3x2e+3x1o", [(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 0, 3), (1, 0, 3)]),
    "uvuv": ("3x1o", "2x1o", "6x1e+6x0e+6x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
    "uvu<v": ("4x1o", "4x1o", "6x1e+6x0e+6x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
    "u<vw": ("4x1o", "4x1o", "2x1e+3x0e+1x2e", [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
}
FC = ("4x0e+3x1o+2x2e", "2x0e+3x1o+1x2e", "3x0e+2x1o+2x1e+2x2e+1x3o")


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def assert_equal(ours, theirs, shared=True):
    """Values and gradients, with the weights of `theirs` loaded."""
    torch.manual_seed(0)
    ours.load_state_dict(theirs.state_dict())
    tensors = [torch.randn(5, irreps.dim, requires_grad=True) for irreps in (theirs.irreps_in1, theirs.irreps_in2)]
    if theirs.weight_numel and not theirs.internal_weights:
        tensors.append(torch.randn(*(() if shared else (5,)), theirs.weight_numel, requires_grad=True))
    found, expected = ours(*tensors), theirs(*tensors)
    assert torch.allclose(found, expected, atol=1e-12)
    g = torch.randn_like(found)
    mine, other = ([*tensors, *m.parameters()] for m in (ours, theirs))
    for a, b in zip(
        torch.autograd.grad(found, mine, g, allow_unused=True),
        torch.autograd.grad(expected, other, g, allow_unused=True),
    ):
        assert (a is None and (b is None or not b.any())) or torch.allclose(a, 0 * a if b is None else b, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_equals_e3nn(mode, weighted, shared):
    in1, in2, out, paths = MODES[mode]
    if not weighted:
        if mode in ("uvw", "u<vw"):
            pytest.skip("these modes have weights by definition")
        out = "1x1e+1x0e+1x2e" if mode == "uuw" else out
    instructions = [(*path, mode, weighted, 0.7) for path in paths]
    options = {"shared_weights": shared, "internal_weights": False}
    for algorithm in ("auto", "torch") if mode == "uvu" else ("auto",):
        ours = TensorProduct(in1, in2, out, instructions, algorithm=algorithm, **options)
        assert_equal(ours, o3.TensorProduct(in1, in2, out, instructions, **options), shared)


@pytest.mark.parametrize("irrep", ["component", "norm"])
@pytest.mark.parametrize("path", ["element", "path"])
def test_fully_connected_equals_e3nn(irrep, path):
    assert_equal(FullyConnectedTensorProduct(*FC, irrep, path), o3.FullyConnectedTensorProduct(*FC, irrep, path))
    options = {"shared_weights": False}
    theirs = o3.FullyConnectedTensorProduct(*FC, irrep, path, **options)
    assert_equal(FullyConnectedTensorProduct(*FC, irrep, path, **options), theirs, shared=False)


def test_elementwise_equals_e3nn():
    for args in (("5x1o+5x1e", "10x1e", ["0e", "0o"]), ("2x1o+3x0e", "1x2e+4x1o")):
        assert_equal(ElementwiseTensorProduct(*args), o3.ElementwiseTensorProduct(*args))


def test_variances_enter_as_in_e3nn():
    in1, in2, out, paths = MODES["uvw"]
    args = (in1, in2, out, [(*path, "uvw", True) for path in paths], [1.0, 2.0], [0.5], [1.0, 3.0, 1.0])
    assert_equal(TensorProduct(*args), o3.TensorProduct(*args))


@pytest.mark.parametrize("algorithm", ["torch", "kernel"])
def test_ir_mul_is_a_transposition(algorithm):
    instructions = [(0, 0, 0, "uvu", True), (0, 0, 1, "uvu", True), (1, 0, 2, "uvu", True)]
    args = ("3x1o+2x0e", "1x1o", "3x1e+3x2e+2x1o", instructions)
    plain, swapped = (TensorProduct(*args, layout=k, algorithm=algorithm) for k in ("mul_ir", "ir_mul"))
    swapped.load_state_dict(plain.state_dict())

    def turn(irreps, v):
        parts = [v[:, s].view(-1, t.mul, t.ir.dim).transpose(1, 2).flatten(1) for t, s in zip(irreps, irreps.slices())]
        return torch.cat(parts, 1)

    x, y = torch.randn(4, 11), torch.randn(4, 3)
    assert torch.allclose(swapped(turn(plain.irreps_in1, x), y), turn(plain.irreps_out, plain(x, y)), atol=1e-13)


@pytest.mark.parametrize("mode", ["uvw", "uvu", "uuu"])
@pytest.mark.parametrize("shared", [True, False])
def test_derivatives_of_every_order_and_transforms(mode, shared):
    in1, in2, out, paths = MODES[mode]
    instructions = [(*path, mode, True) for path in paths]
    product = TensorProduct(in1, in2, out, instructions, shared_weights=shared, internal_weights=False)
    x, y = torch.randn(2, product._dims[0], requires_grad=True), torch.randn(2, product._dims[1], requires_grad=True)
    w = torch.randn(*(() if shared else (2,)), product.weight_numel, requires_grad=True)
    assert torch.autograd.gradcheck(product, (x, y, w))
    assert torch.autograd.gradgradcheck(product, (x, y, w))

    def energy(x, y, w):
        return product(x, y, w).square().sum()

    first = torch.func.grad(energy, (0, 1, 2))(x, y, w)
    for a, b in zip(first, torch.autograd.grad(energy(x, y, w), (x, y, w))):
        assert torch.allclose(a, b)
    rows = torch.vmap(product, (0, 0, None if shared else 0))
    assert torch.allclose(rows(x, y, w), product(x, y, w), atol=1e-12)
    hessian = torch.func.hessian(lambda x: energy(x, y.detach(), w.detach()))(x.detach())
    assert torch.allclose(hessian, torch.autograd.functional.hessian(lambda x: energy(x, y, w), x), atol=1e-10)
    torch._dynamo.reset()
    compiled = torch.compile(product, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(x, y, w), product(x, y, w), atol=1e-12)


pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.* is deprecated")


@pytest.mark.parametrize("algorithm", ["torch", "kernel"])
@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_an_empty_batch_has_an_empty_product_and_gradients(mode, shared, layout, algorithm):
    first, second, out = {
        "uvw": ("4x1o", "3x1o", "2x1e"),
        "uvu": ("4x1o", "3x1o", "4x1e"),
        "uvv": ("4x1o", "3x1o", "3x1e"),
        "uuw": ("4x1o", "4x1o", "2x1e"),
        "uuu": ("4x1o", "4x1o", "4x1e"),
        "uvuv": ("4x1o", "3x1o", "12x1e"),
        "uvu<v": ("4x1o", "4x1o", "6x1e"),
        "u<vw": ("4x1o", "4x1o", "2x1e"),
    }[mode]
    options = {"shared_weights": shared, "internal_weights": False, "layout": layout, "algorithm": algorithm}
    product = TensorProduct(first, second, out, [(0, 0, 0, mode, True)], **options)
    x, y = (torch.zeros(0, irreps.dim, requires_grad=True) for irreps in (product.irreps_in1, product.irreps_in2))
    w = torch.zeros(product.weight_numel if shared else (0, product.weight_numel), requires_grad=True)
    z = product(x, y, w)
    assert z.shape == (0, product.irreps_out.dim)
    found = torch.autograd.grad(z.sum(), (x, y, w), create_graph=True)
    assert [g.shape for g in found] == [x.shape, y.shape, w.shape]
    assert not found[2].any()


def test_a_sample_that_is_not_finite_spoils_no_other(normal):
    instructions = [(0, 0, 0, "uvu", True), (1, 0, 1, "uvu", True)]
    options = {"shared_weights": False, "algorithm": "kernel"}
    product = TensorProduct("20x1o+3x2e", "1o", "20x1e+3x2o", instructions, **options)
    x, y, w = normal(0, 4, 75), normal(1, 4, 3), normal(2, 4, 23)
    clean = [t.clone().requires_grad_() for t in (x, y, w)]
    expected = torch.autograd.grad(product(*clean).sum(), clean)
    for spoilt in (0, 1, 2):
        inputs = [t.clone() for t in (x, y, w)]
        inputs[spoilt][1] = torch.nan
        inputs = [t.requires_grad_() for t in inputs]
        z = product(*inputs)
        assert z[[0, 2, 3]].isfinite().all()
        assert z[1].isnan().any()
        for a, b in zip(torch.autograd.grad(z.sum(), inputs), expected):
            assert torch.equal(a[[0, 2, 3]], b[[0, 2, 3]])


def test_terms_that_no_instruction_uses_have_gradient_zero(normal):
    product = TensorProduct("4x1o+3x2e", "1o+0e", "2x0e+4x1e", [(0, 0, 1, "uvu", False)], algorithm="kernel")
    x, y = normal(0, 5, 27).requires_grad_(), normal(1, 5, 4).requires_grad_()
    for _ in range(3):  # memory that was in use before
        z = product(x, y)
        gx, gy = torch.autograd.grad(z.sum(), (x, y))
        assert not z[:, :2].any()
        assert not gx[:, 12:].any()
        assert not gy[:, 3:].any()
        gx.fill_(7.0)


def test_weight_views_and_lists():
    ours, theirs = FullyConnectedTensorProduct(*FC), o3.FullyConnectedTensorProduct(*FC)
    assert [v.shape for v in ours.weight_views()] == [v.shape for v in theirs.weight_views()]
    views = list(ours.weight_views())
    x, y = torch.randn(3, ours.irreps_in1.dim), torch.randn(3, ours.irreps_in2.dim)
    assert torch.equal(ours(x, y, views), ours(x, y))
    assert torch.equal(ours.weight_view_for_instruction(2), views[2])
    assert torch.equal(ours.output_mask, theirs.output_mask)
    assert torch.equal(copy.deepcopy(ours)(x, y), ours(x, y))


def test_an_unreachable_output_is_zero_and_said_once():
    with pytest.warns(UserWarning, match="no path reaches 2x0o"):
        product = FullyConnectedTensorProduct("1o", "1o", "2x0o+1x0e")
    z = product(torch.randn(3, 3), torch.randn(3, 3))
    assert not z[:, :2].any()
    assert z[:, 2].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 1, "uvw", True)]), r"instructions\[0\]: expected a position"),
        (lambda: TensorProduct("1o", "1o", "1o", [(0, 0, 0, "uvw", True)]), "an output that 1o x 1o contains"),
        (lambda: TensorProduct("1o", "1o", "2x1e", [(0, 0, 0, "uvu", True)]), "multiplicities that fit mode 'uvu'"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uvx", True)]), r"instructions\[0\]: expected one of"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uvw", False)]), "has_weight=True"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0)]), "i_in1, i_in2, i_out"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uvw", True, -1.0)]), "a path weight >= 0"),
        (
            lambda: FullyConnectedTensorProduct("1o", "1o", "1e", internal_weights=True, shared_weights=False),
            "internal_w",
        ),
        (lambda: ElementwiseTensorProduct("2x1o", "1o"), "irreps_in2: expected as many irreps"),
        (
            lambda: FullyConnectedTensorProduct("1o", "1o", "1e", path_normalization="all"),
            "path_normalization: expected",
        ),
    ],
)
def test_bad_construction_is_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_one_sample_without_a_batch_axis_brings_its_own_weights():
    product = TensorProduct("2x1o", "1o", "2x1e", [(0, 0, 0, "uvu", True)], shared_weights=False)
    x, y, w = torch.randn(3, 6), torch.randn(3, 3), torch.randn(3, 2)
    assert torch.allclose(product(x[1], y[1], w[1]), product(x, y, w)[1])
    with pytest.raises(InvalidInput, match=r"weight: expected shape \(\.\.\., 2\)"):
        product(x, y, w[0])


def test_bad_weights_are_named():
    product = TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uvw", True)], internal_weights=False)
    x = torch.randn(2, 3)
    with pytest.raises(InvalidInput, match=r"weight: expected 1 weights, got nothing"):
        product(x, x)
    with pytest.raises(InvalidInput, match=r"weight: expected shape \(1,\)"):
        product(x, x, torch.ones(2))
    with pytest.raises(InvalidInput, match=r"weight: expected torch.float64"):
        product(x, x, torch.ones(1, dtype=torch.float32))
