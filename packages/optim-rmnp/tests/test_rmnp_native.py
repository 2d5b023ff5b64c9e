"""The one-pass CPU kernel against the plain step."""

import pytest
import torch
from optim_rmnp import RMNP
from optim_rmnp.native import step_matrices
from optim_rmnp.step import Rule, step_rows

SHAPES = [(1, 1), (1, 7), (5, 1), (3, 64), (17, 33), (64, 128), (130, 257), (200, 70)]


def matrices(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("hold", [False, True])
def test_kernel_agrees_with_the_plain_step_to_two_ulp(shape, transposed, nesterov, hold):
    rule = Rule(0.01, 0.1, 0.95, nesterov, 1e-12, 1.2, hold=hold)
    w, g, m = matrices(shape)
    g[::2] *= 0 if hold else 1
    plain, native = [w.clone(), g, m.clone()], [w.clone(), g, m.clone()]
    step_rows(*plain, rule)
    if transposed:
        turned = [t.t().contiguous() for t in native]
        step_matrices([(*turned, rule, True)])
        native = [t.t() for t in turned]
    else:
        step_matrices([(*native, rule, False)])
    # An entry of the result is a difference: its error is counted in ulp of the larger term.
    size = torch.maximum(w.abs(), torch.full_like(w, 0.012))
    assert ((plain[0] - native[0]).abs() <= 2 * size * 2**-23).all()
    size = torch.maximum(m.abs(), g.abs())
    assert ((plain[2] - native[2]).abs() <= 2 * size * 2**-23).all()
    if hold:
        assert torch.equal(native[0][::2], w[::2])
        assert torch.equal(native[2][::2], m[::2])


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.5, 0.95])
def test_kernel_follows_torch_lerp_for_every_weight(momentum):
    rule = Rule(0.01, 0.0, momentum, True, 1e-12, 1.0)
    plain, native = matrices((4, 9)), matrices((4, 9))
    step_rows(*plain, rule)
    step_matrices([(*native, rule, False)])
    torch.testing.assert_close(native[0], plain[0], rtol=3e-7, atol=1e-8)
    torch.testing.assert_close(native[2], plain[2], rtol=3e-7, atol=1e-7)


def run(steps, fused, input_dim=-1, shape=(48, 96)):
    generator = torch.Generator().manual_seed(5)
    p = torch.nn.Parameter(torch.randn(shape, generator=generator))
    optimizer = RMNP([{"params": [p], "input_dim": input_dim}], lr=5e-3, fused=fused)
    for _ in range(steps):
        p.grad = p.detach() + torch.randn(shape, generator=generator)
        optimizer.step()
    return p.detach()


@pytest.mark.parametrize("input_dim", [-1, 0])
def test_fifty_steps_stay_within_a_millionth_of_the_plain_path(input_dim):
    assert (run(50, True, input_dim) - run(50, False, input_dim)).abs().max() <= 1e-6


def test_number_of_threads_changes_no_bit():
    before = torch.get_num_threads()
    rule = Rule(0.01, 0.1, 0.95, True, 1e-12, 1.0)
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for transposed in (False, True):
                tensors = matrices((1100, 500))
                step_matrices([(*tensors, rule, transposed)])
                results.append(tensors)
    finally:
        torch.set_num_threads(before)
    for one, three in zip(results[:2], results[2:]):
        assert torch.equal(one[0], three[0])
        assert torch.equal(one[2], three[2])


def test_parameters_are_stepped_on_several_threads_as_on_one():
    before = torch.get_num_threads()
    ends = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            ends.append(run(2, True, shape=(1100, 500)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*ends)


def test_many_matrices_of_all_kinds_are_stepped_as_each_alone():
    before = torch.get_num_threads()
    rules = [Rule(0.01, 0.1, 0.95, True, 1e-12, 1.0), Rule(0.02, 0.0, 0.5, False, 1e-12, 1.2, maximize=True, hold=True)]
    shapes = [(1, 1), (7, 3), (1100, 500), (5, 2000), (600, 600), (3, 1)]
    kinds = [(shape, rules[i % 2], i % 3 == 0) for i, shape in enumerate(shapes)]
    alone = [matrices(shape) for shape, _, _ in kinds]
    for tensors, (_, rule, transposed) in zip(alone, kinds):
        step_matrices([(*tensors, rule, transposed)])
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            together = [matrices(shape) for shape, _, _ in kinds]
            step_matrices([(*tensors, rule, turned) for tensors, (_, rule, turned) in zip(together, kinds)])
            for a, b in zip(alone, together):
                assert all(torch.equal(x, y) for x, y in zip(a, b))
    finally:
        torch.set_num_threads(before)


def test_a_gradient_of_another_shape_is_refused_before_the_kernel_trusts_it():
    p = torch.nn.Parameter(torch.zeros(4, 6))
    p.grad = torch.ones(4, 6)
    p.data = torch.zeros(8, 6)
    with pytest.raises(ValueError, match=r"shape \(8, 6\).*shape \(4, 6\)"):
        RMNP([p]).step()


def test_fused_false_never_touches_the_kernel(monkeypatch):
    import optim_rmnp.native

    monkeypatch.setattr(optim_rmnp.native, "step_matrices", None)
    run(1, False)


def test_without_numba_the_plain_path_is_taken_and_fused_true_is_refused(monkeypatch):
    import optim_rmnp.groups
    import optim_rmnp.optimizer
    from lemmata_core import InvalidInput

    for module in (optim_rmnp.groups, optim_rmnp.optimizer):
        monkeypatch.setattr(module, "native_available", lambda: False)
    assert torch.equal(run(2, None), run(2, False))
    with pytest.raises(InvalidInput, match=r"fused.*numba"):
        run(1, True)


def test_fused_true_is_refused_for_dtypes_without_a_kernel():
    from lemmata_core import InvalidInput

    with pytest.raises(InvalidInput, match="fused"):
        RMNP([torch.nn.Parameter(torch.ones(2, 2, dtype=torch.bfloat16))], fused=True)
