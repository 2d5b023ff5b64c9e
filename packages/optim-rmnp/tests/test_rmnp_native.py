"""The one-pass CPU kernel against the plain step."""

import copy

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
    import optim_rmnp.paths
    from lemmata_core import InvalidInput

    for module in (optim_rmnp.groups, optim_rmnp.optimizer, optim_rmnp.paths):
        monkeypatch.setattr(module, "native_available", lambda: False)
    assert torch.equal(run(2, None), run(2, False))
    with pytest.raises(InvalidInput, match=r"fused.*numba"):
        run(1, True)


def test_fused_true_is_refused_for_dtypes_without_a_kernel():
    from lemmata_core import InvalidInput

    with pytest.raises(InvalidInput, match="fused"):
        RMNP([torch.nn.Parameter(torch.ones(2, 2, dtype=torch.bfloat16))], fused=True)


def _grads(optimizer, step):
    generator = torch.Generator().manual_seed(step)
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.randn(p.shape, generator=generator)


def _pair(**options):
    made = []
    for fused in (True, False):
        generator = torch.Generator().manual_seed(1)
        shapes = [(6, 9), (12, 4), (6, 9)]
        params = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]
        turned = [torch.nn.Parameter(torch.randn(5, 7, generator=generator))]
        groups = [{"params": params}, {"params": turned, "input_dim": 0, "lr": 0.02}]
        made.append(RMNP(groups, lr=0.01, fused=fused, **options))
    return made


def _same(native, plain):
    for a, b in zip(native.param_groups, plain.param_groups):
        for p, q in zip(a["params"], b["params"]):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def _change_rates(optimizer):
    for group in optimizer.param_groups:
        group.update(lr=0.3, momentum=0.5, nesterov=False, zero_rows="hold", weight_decay=0.0, maximize=True)


def _change_way(optimizer):
    optimizer.param_groups[0]["input_dim"] = 0


def _change_stack(optimizer):
    optimizer.param_groups[0]["stacked"] = 2


def _change_data(optimizer):
    with torch.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.data = p.data * 2
        optimizer.param_groups[0]["params"][0].data = optimizer.param_groups[0]["params"][0].data.t().contiguous().t()


def _load(optimizer):
    optimizer.load_state_dict(optimizer.state_dict())


def _drop_momentum(optimizer):
    optimizer.state.clear()


def _freeze(optimizer):
    del optimizer.param_groups[0]["params"][1]


def _add(optimizer):
    added = torch.nn.Parameter(torch.ones(3, 3))
    optimizer.add_param_group({"params": [added]})


CHANGES = [_change_rates, _change_way, _change_stack, _change_data, _load, _drop_momentum, _freeze, _add]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_kept_between_steps_follows_every_change(change):
    native, plain = _pair()
    for step in range(7):
        if step == 3:
            change(native)
            change(plain)
        _grads(native, step)
        _grads(plain, step)
        native.step()
        plain.step()
        _same(native, plain)
        assert len(native._plans) == len(native.param_groups) or change is _change_data


def test_missing_and_strided_gradients_are_seen_after_a_plan_is_kept():
    native, plain = _pair()
    for step in range(8):
        for optimizer in (native, plain):
            _grads(optimizer, step)
            params = optimizer.param_groups[0]["params"]
            if step == 3:
                params[1].grad = None
            if step == 5:
                params[0].grad = params[0].grad.t().contiguous().t()
            if step == 6:
                params[2].grad = torch.zeros_like(params[2])
            optimizer.step()
        _same(native, plain)


def test_a_copy_of_an_optimizer_keeps_nothing_of_the_first():
    native, plain = _pair()
    for step in range(2):
        for optimizer in (native, plain):
            _grads(optimizer, step)
            optimizer.step()
    twin = copy.deepcopy(native)
    before = [p.detach().clone() for p in native.param_groups[0]["params"]]
    for optimizer in (twin, plain):
        _grads(optimizer, 2)
        optimizer.step()
    _same(twin, plain)
    assert all(torch.equal(p, q) for p, q in zip(before, native.param_groups[0]["params"]))
