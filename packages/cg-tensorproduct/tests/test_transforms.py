"""Derivatives, functorch, the compiler: equal values through every front door, or an error; never a wrong number."""

import pytest
import torch
from cg_tensorproduct import FullTensorProduct

# torch's own forward mode scripts its decompositions at first use
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.* is deprecated")

ALGORITHMS = ["dense", "blocked", "kernel"]
OURS = ("2x1o+0e", "1o+2e")


@pytest.fixture(params=ALGORITHMS)
def product(request):
    return FullTensorProduct(*OURS, algorithm=request.param)


@pytest.fixture
def reference():
    return FullTensorProduct(*OURS, algorithm="sparse")


@pytest.fixture
def xy(normal):
    return normal(0, 4, 7), normal(1, 4, 8)


def close(a, b):
    return torch.allclose(a, b, atol=1e-12)


def energy(product):
    return lambda x, y: product(x, y).square().sum()


def test_vmap_over_either_or_both(product, reference, xy):
    x, y = xy
    assert close(torch.vmap(product)(x, y), reference(x, y))
    assert close(torch.vmap(product, (0, None))(x, y[0]), reference(x, y[:1]))
    assert close(torch.vmap(product, (None, 0))(x[0], y), reference(x[:1], y))
    assert close(torch.vmap(product, (1, 0))(x.T, y), reference(x, y))
    assert close(torch.vmap(torch.vmap(product, (None, 0)), (0, None))(x, y), reference(x[:, None], y[None]))


def test_func_grad_and_vmap_of_grad(product, reference, xy):
    x, y = xy
    for ours, theirs in zip(
        torch.vmap(torch.func.grad(energy(product), (0, 1)))(x, y), torch.func.grad(energy(reference), (0, 1))(x, y)
    ):
        assert close(ours, theirs)


def test_hessian_and_third_derivative(product, reference, xy):
    x, y = xy[0][0], xy[1][0]
    for ours, theirs in zip(
        torch.func.hessian(energy(product), (0, 1))(x, y), torch.func.hessian(energy(reference), (0, 1))(x, y)
    ):
        for a, b in zip(ours, theirs):
            assert close(a, b)

    def third(p):
        return torch.func.grad(lambda x: torch.func.grad(lambda x: energy(p)(x, y) ** 2)(x).square().sum())(x)

    assert torch.allclose(third(product), third(reference), rtol=1e-10)


def test_jvp(product, reference, xy):
    for ours, theirs in zip(*(torch.func.jvp(p, xy, (xy[0] ** 2, xy[1] * 3)) for p in (product, reference))):
        assert close(ours, theirs)
    x, y = xy
    with torch.autograd.forward_ad.dual_level():
        dual = product(torch.autograd.forward_ad.make_dual(x, x**2), y)
        assert close(torch.autograd.forward_ad.unpack_dual(dual).tangent, reference(x**2, y))


def test_double_backward_as_in_force_training(product, reference, xy):
    def parameter_gradient(p):
        x, y = (v.clone().requires_grad_() for v in xy)
        force = torch.autograd.grad(energy(p)(x, y), x, create_graph=True)[0]
        return torch.autograd.grad(force.square().sum(), (x, y))

    for ours, theirs in zip(parameter_gradient(product), parameter_gradient(reference)):
        assert torch.allclose(ours, theirs, rtol=1e-11)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_equals_eager(product, reference, xy, backend):
    torch._dynamo.reset()
    product.inference = True
    compiled = torch.compile(product, fullgraph=True, backend=backend)
    x, y = (v.clone().requires_grad_() for v in xy)
    z = compiled(x, y)
    assert close(z, reference(x, y))
    g = torch.ones_like(z)
    for ours, theirs in zip(torch.autograd.grad(z, (x, y), g), torch.autograd.grad(reference(x, y), (x, y), g)):
        assert close(ours, theirs)


def test_compiled_function_transform(product, reference, xy):
    torch._dynamo.reset()
    compiled = torch.compile(torch.func.grad(energy(product)), fullgraph=True, backend="aot_eager")
    assert close(compiled(*xy), torch.func.grad(energy(reference))(*xy))


@pytest.mark.parametrize("inference", [False, True])
def test_compiled_first_and_automatic(xy, reference, inference):
    torch._dynamo.reset()
    fresh = FullTensorProduct(*OURS, inference=inference)  # nothing prepared before the compiler sees it
    compiled = torch.compile(fresh, fullgraph=True, backend="aot_eager")
    assert close(compiled(*xy), reference(*xy))
    x, y = xy[0].clone().requires_grad_(), xy[1]
    assert close(torch.autograd.grad(compiled(x, y).sum(), x)[0], torch.autograd.grad(reference(x, y).sum(), x)[0])


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
def test_one_compiled_graph_serves_batches_of_any_size(algorithm, reference, normal):
    torch._dynamo.reset()
    product = FullTensorProduct(*OURS, algorithm=algorithm)
    compiled = torch.compile(product, fullgraph=True, backend="aot_eager", dynamic=True)
    for size in ((2,), (7,), (33,), (2, 3)):
        x, y = normal(0, *size, 7).requires_grad_(), normal(1, *size, 8)
        z = compiled(x, y)
        assert close(z, reference(x, y))
        assert close(torch.autograd.grad(z.sum(), x)[0], torch.autograd.grad(reference(x, y).sum(), x)[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_gradients_taken_under_autocast_are_those_of_float32(algorithm, normal):
    product = FullTensorProduct(*OURS, algorithm=algorithm)
    x, y = normal(0, 4, 7).float().requires_grad_(), normal(1, 4, 8).float()
    expected = torch.autograd.grad(energy(product)(x, y), x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for create_graph in (False, True):
            found = torch.autograd.grad(energy(product)(x, y), x, create_graph=create_graph)[0]
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)


def force_training(p, weight, x, y):
    return torch.func.grad(lambda x: energy(p)(x * weight, y))(x).square().sum()


@pytest.mark.parametrize("algorithm", ["auto", "dense", "blocked", "kernel"])
def test_compiled_force_training_is_right(algorithm, xy, reference):
    x, y = xy
    weight = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(force_training(reference, weight, x, y), weight)[0]
    torch._dynamo.reset()
    product = FullTensorProduct(*OURS, algorithm=algorithm, inference=algorithm == "kernel")
    compiled = torch.compile(lambda w: force_training(product, w, x, y), fullgraph=True, backend="aot_eager")
    assert torch.allclose(torch.autograd.grad(compiled(weight), weight)[0], expected, rtol=1e-12)


def test_a_plan_built_inside_a_transform_outlives_it(xy, reference):
    x, y = xy
    for algorithm in ALGORITHMS:
        product = FullTensorProduct(*OURS, algorithm=algorithm)
        torch.func.grad(energy(product))(x.float(), y.float())
        with torch.inference_mode():
            product(x, y)
        assert torch.allclose(product(x.float(), y.float()), reference(x, y).float(), atol=1e-5)
        x2 = x.clone().requires_grad_()
        assert close(
            torch.autograd.grad(product(x2, y).sum(), x2)[0], torch.func.grad(lambda x: reference(x, y).sum())(x)
        )


def test_double_backward_of_a_compiled_region_is_refused_by_torch(product, xy):
    torch._dynamo.reset()
    compiled = torch.compile(product, fullgraph=True, backend="aot_eager")
    x, y = xy[0].clone().requires_grad_(), xy[1]
    force = torch.autograd.grad(compiled(x, y).square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match=r"double backward|does not"):
        torch.autograd.grad(force.square().sum(), x)


def test_export(xy, reference):
    product = FullTensorProduct(*OURS, algorithm="dense", dtype=torch.float64)
    exported = torch.export.export(product, xy)
    assert close(exported.module()(*xy), reference(*xy))
