"""Large batches: chunks, a second try where memory runs out, and float32 that stays float32."""

import pytest
import torch
from cg_tensorproduct import FullTensorProduct, InvalidInput, plan_blocked, plan_dense

PLANS = {"dense": plan_dense.DensePlan, "blocked": plan_blocked.BlockedPlan}


def grads(product, x, y):
    z = product(x, y)
    return (z, *torch.autograd.grad(z.square().sum(), (x, y)))


@pytest.fixture(params=list(PLANS))
def case(request, normal):
    product = FullTensorProduct("2x1o+0e", "1e+2o", algorithm=request.param)
    x, y = normal(0, 33, 7).requires_grad_(), normal(1, 33, 8).requires_grad_()
    return product, PLANS[request.param], x, y, grads(product, x, y)


def plan_of(product):
    (plan,) = [p for key, p in product._store._made.items() if key[1] == torch.float64]
    return plan


def test_chunks_change_nothing(case):
    product, _, x, y, expected = case
    plan_of(product).chunk = 5
    for a, b in zip(grads(product, x, y), expected):
        assert torch.allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("out"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_memory_that_runs_out_is_tried_again_with_half_the_rows(case, monkeypatch, error):
    product, kind, x, y, expected = case
    seen = []

    def failing(method):
        right = getattr(kind, method)

        def run(self, *tensors):
            seen.append(len(tensors[0]))
            if len(tensors[0]) > 16:
                raise error
            return right(self, *tensors)

        return run

    if kind is plan_dense.DensePlan:
        outer = plan_dense._outer

        def small(a, b):
            seen.append(len(a))
            if len(a) > 16:
                raise error
            return outer(a, b)

        monkeypatch.setattr(plan_dense, "_outer", small)
    else:
        monkeypatch.setattr(kind, "couple", failing("couple"))
    monkeypatch.setattr(kind, "_back", failing("_back"))
    for a, b in zip(grads(product, x, y), expected):
        assert torch.allclose(a, b, rtol=1e-13, atol=1e-13)
    assert seen == [33, 16, 16, 1, 33, 16, 16, 1]


def test_other_errors_and_a_second_shortage_are_not_hidden(case, monkeypatch):
    product, kind, x, y, _ = case
    calls = []

    def always(message):
        def run(self, *tensors):
            calls.append(1)
            raise RuntimeError(message)

        return run

    for message, count in (("can't allocate memory", 2), ("something else", 1)):
        calls.clear()
        monkeypatch.setattr(kind, "_back", always(message))
        z = product(x, y)
        with pytest.raises(RuntimeError, match=message):
            torch.autograd.grad(z.sum(), (x, y))
        assert len(calls) == count


@pytest.mark.parametrize(("allow", "inside"), [(False, "highest"), (True, "high"), (None, "medium")])
def test_float32_stays_float32_unless_allowed(allow, inside, monkeypatch):
    seen = []
    product = FullTensorProduct("1o", "1o", algorithm="blocked", allow_tf32=allow)
    right, back = plan_blocked.BlockedPlan.couple, plan_blocked.BlockedPlan._back

    def spy(function):
        def run(*args):
            seen.append(torch.get_float32_matmul_precision())
            return function(*args)

        return run

    monkeypatch.setattr(plan_blocked.BlockedPlan, "couple", spy(right))
    monkeypatch.setattr(plan_blocked.BlockedPlan, "_back", spy(back))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        x = torch.randn(4, 3, requires_grad=True)
        product(x, x.detach()).sum().backward()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [inside, inside]


def test_allow_tf32_is_a_flag():
    with pytest.raises(InvalidInput, match="allow_tf32: expected"):
        FullTensorProduct("1o", "1o", allow_tf32="yes")
