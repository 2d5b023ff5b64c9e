import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_theory import scan, selective_scan, selective_scan_fn
from lemmata_core import InvalidInput

NAMES = ("u", "delta", "A", "B", "C", "h0")


def loop(u, delta, A, B, C, h0, zoh):
    """The recurrence written out, in the inputs' precision."""
    h, ys = h0, []
    for t in range(u.shape[1]):
        x = delta[:, t, :, None] * A
        gain = torch.expm1(x) / A if zoh else delta[:, t, :, None]
        h = torch.exp(x) * h + gain * B[:, t, None, :] * u[:, t, :, None]
        ys.append((h * C[:, t, None, :]).sum(-1))
    return torch.stack(ys, 1), h


def inputs(batch, length, channels, states, *, dtype=torch.float64, seed=0, grad=True):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=dtype)

    u, B, C = normal(batch, length, channels), normal(batch, length, states), normal(batch, length, states)
    delta = torch.rand((batch, length, channels), generator=g, dtype=torch.float64).to(dtype)
    A = -torch.rand((channels, states), generator=g, dtype=torch.float64).to(dtype) - 0.1
    if dtype.is_complex:
        A = A + 1j * normal(channels, states).real
    h0 = normal(batch, channels, states)
    return [t.requires_grad_(grad) for t in (u, delta, A, B, C, h0)]


def both(args, zoh, backend):
    y, last = selective_scan(*args[:5], h0=args[5], discretization="zoh" if zoh else "euler",
                             return_last_state=True, backend=backend)  # fmt: skip
    y2, last2 = loop(*args, zoh)
    g = torch.Generator().manual_seed(9)
    w = torch.randn(y.shape, generator=g, dtype=y.dtype)
    v = torch.randn(last.shape, generator=g, dtype=y.dtype)

    def grads(a, b):
        total = ((a * w).sum() + (b * v).sum()).real if a.is_complex() else (a * w).sum() + (b * v).sum()
        return torch.autograd.grad(total, args)

    return [(y, y2), (last, last2), *zip(grads(y, last), grads(y2, last2))]


@pytest.mark.parametrize("backend", ["compiled", "torch"])
@pytest.mark.parametrize("zoh", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_values_and_gradients_equal_the_loop(backend, zoh, dtype):
    for ours, right in both(inputs(2, 37, 5, 3, dtype=dtype), zoh, backend):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, right, rtol=1e-10, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, 3), length=st.integers(1, 40), channels=st.integers(1, 7), states=st.integers(1, 5),
    zoh=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_shape_equals_the_loop(batch, length, channels, states, zoh, seed):
    for ours, right in both(inputs(batch, length, channels, states, seed=seed), zoh, "compiled"):
        torch.testing.assert_close(ours, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("zoh", [False, True])
def test_float32_has_float32_accuracy(zoh):
    exact = inputs(2, 50, 33, 16)
    single = [t.detach().float().requires_grad_() for t in exact]
    method = "zoh" if zoh else "euler"
    y = selective_scan(*single[:5], h0=single[5], discretization=method)
    right, _ = loop(*exact, zoh)
    for ours, theirs in [
        (y, right),
        *zip(torch.autograd.grad(y.sum(), single), torch.autograd.grad(right.sum(), exact)),
    ]:
        scale = theirs.abs().max()
        assert ((ours - theirs).abs().max() / scale) < 3e-6


@pytest.mark.parametrize("backend", ["compiled", "torch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradcheck(backend, dtype):
    args = inputs(1, 5, 2, 2, dtype=dtype)
    for method in ("euler", "zoh"):
        assert torch.autograd.gradcheck(
            lambda *a, m=method: selective_scan(
                *a[:5], h0=a[5], discretization=m, return_last_state=True, backend=backend
            ),
            args,
        )


def test_a_zero_decay_rate_has_the_limit_of_the_hold():
    # phi = delta, d phi / dA = delta^2 / 2: one step with u = B = C = 1.
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    A = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    for backend in ("compiled", "torch"):
        y = selective_scan(one, 0.3 * one, A, one, one, discretization="zoh", backend=backend)
        assert y.item() == pytest.approx(0.3, rel=1e-12)
        assert torch.autograd.grad(y.sum(), A)[0].item() == pytest.approx(0.045, rel=1e-9)


@pytest.mark.parametrize("tiny", [1e-2, 1e-6, 1e-12])
def test_the_hold_does_not_cancel_for_small_rates(tiny):
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    A = torch.full((1, 1), -tiny, dtype=torch.float64, requires_grad=True)
    y = selective_scan(one, one, A, one, one, discretization="zoh")
    # By series: (1 - e^-x)/x and its derivative in A = -x.
    assert y.item() == pytest.approx(-math.expm1(-tiny) / tiny, rel=1e-13)
    series = sum((k + 1) / math.factorial(k + 2) * (-tiny) ** k for k in range(8))
    assert torch.autograd.grad(y.sum(), A)[0].item() == pytest.approx(series, rel=1e-11)


def test_strong_decay_over_a_long_sequence_stays_finite():
    # exp-of-cumsum scans are NaN here from step 60 on.
    args = [t.detach() for t in inputs(1, 4096, 2, 2)]
    args[1] = torch.full_like(args[1], 5.0)
    args[2] = torch.full_like(args[2], -1.0)
    right, _ = loop(*args, False)
    for dtype, tol in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        for backend in ("compiled", "torch"):
            y = selective_scan(*[t.to(dtype) for t in args[:5]], h0=args[5].to(dtype), backend=backend)
            torch.testing.assert_close(y.double(), right, rtol=tol, atol=tol)


def test_nan_propagates_from_its_step_on_and_nowhere_else():
    for which in range(5):
        args = [t.detach().float() for t in inputs(2, 20, 3, 4)]
        at = (1, 7, 1) if which != 2 else (1, 1)
        args[which][at] = math.nan
        y = selective_scan(*args[:5])
        if which == 2:
            assert torch.isnan(y[:, :, 1]).all()
            continue
        assert torch.isnan(y[1, 7]).any()
        assert torch.isfinite(y[0]).all()
        assert torch.isfinite(y[1, :7]).all()


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("backend", ["compiled", "torch"])
def test_empty_and_single_sequences(length, batch, backend):
    args = inputs(batch, length, 3, 2)
    y, last = selective_scan(*args[:5], h0=args[5], return_last_state=True, backend=backend)
    assert y.shape == (batch, length, 3)
    if length == 0:
        assert torch.equal(last, args[5])
    (y.sum() + last.sum()).backward()
    assert all(t.grad is None or torch.isfinite(t.grad).all() for t in args)


def test_chunks_with_the_last_state_equal_one_run():
    args = [t.detach() for t in inputs(2, 30, 3, 4)]
    u, delta, A, B, C, h0 = args
    whole = selective_scan(u, delta, A, B, C, h0=h0)
    first, state = selective_scan(u[:, :13], delta[:, :13], A, B[:, :13], C[:, :13], h0=h0, return_last_state=True)
    second = selective_scan(u[:, 13:], delta[:, 13:], A, B[:, 13:], C[:, 13:], h0=state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-13, atol=1e-13)


def test_views_and_a_gradient_for_one_input_only():
    args = [t.detach() for t in inputs(2, 9, 4, 3)]
    wide = torch.randn(2, 4, 9, dtype=torch.float64)
    u = wide.transpose(1, 2)
    B = args[3].clone().requires_grad_()
    y = selective_scan(u, args[1], args[2], B, args[4])
    (grad,) = torch.autograd.grad(y.sum(), B)
    B2 = args[3].clone().requires_grad_()
    right, _ = loop(u, args[1], args[2], B2, args[4], torch.zeros(2, 4, 3, dtype=torch.float64), False)
    torch.testing.assert_close(grad, torch.autograd.grad(right.sum(), B2)[0])


def test_threads_are_taken_where_they_pay(monkeypatch):
    for threads, cores, work, parts in [
        (1, 8, 1 << 30, 1),
        (4, 8, 1 << 20, 1),
        (4, 8, 1 << 22, 4),
        # Torch's waiting workers and ours outnumber the cores.
        (2, 2, 1 << 22, 1),
        (2, 2, 1 << 27, 2),
        (8, 8, 1 << 27, 6),
    ]:
        monkeypatch.setattr(scan.torch, "get_num_threads", lambda n=threads: n)
        monkeypatch.setattr(scan.os, "cpu_count", lambda n=cores: n)
        assert scan._parts(6, work) == parts


def test_threads_change_nothing(monkeypatch):
    for name in ("_THREAD_WORK", "_CROWDED_WORK"):
        monkeypatch.setattr(scan, name, 0)
    args = [t.detach().float().requires_grad_() for t in inputs(5, 64, 32, 16)]
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            y = selective_scan(*args[:5], h0=args[5])
            results.append((y, *torch.autograd.grad(y.square().sum(), args)))
    finally:
        torch.set_num_threads(before)
    for one, many in zip(*results):
        assert torch.equal(one, many)


@pytest.mark.parametrize("shape", [(4, 256, 128, 16), (2, 1024, 64, 16)])
def test_nothing_of_the_size_of_all_states_is_stored(shape):
    batch, length, channels, states = shape
    args = [t.detach().float().requires_grad_() for t in inputs(*shape)[:5]]
    torch.autograd.grad(selective_scan(*args).sum(), args)  # compiles
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tracemalloc.start()
    try:
        torch.autograd.grad(selective_scan(*args).sum(), args)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        torch.set_num_threads(threads)
    # What is handed back: y, the gradients of delta, x, B, C, A (a row each), and the state's gradient.
    handed = 4 * (3 * batch * length * channels + 2 * batch * length * states + 3 * batch * channels * states)
    assert peak - handed <= 1.02 * (batch * length / 16 + 34) * channels * states * 4
    assert peak < batch * length * channels * states * 4 / 2


@pytest.mark.parametrize("allow_unused", [False, True])
def test_second_derivatives_say_that_they_are_missing(allow_unused):
    args = inputs(1, 3, 2, 2)
    y = selective_scan(*args[:5])
    (grad,) = torch.autograd.grad(y.square().sum(), args[0], create_graph=True)
    with pytest.raises(RuntimeError, match='need backend="torch"'):
        grad.sum().backward(retain_graph=True)
    # Not None, which a gradient penalty would take for zero.
    with pytest.raises(RuntimeError, match='need backend="torch"'):
        torch.autograd.grad(grad.sum(), args[0], allow_unused=allow_unused)


@pytest.mark.parametrize("groups", [None, 1, 2])
def test_the_drop_in_layout(groups):
    u, delta, A, B, C, _ = (t.detach() for t in inputs(2, 11, 4, 3))
    D, z, bias = (
        torch.randn(3, 4, dtype=torch.float64)[0],
        torch.randn(2, 4, 11, dtype=torch.float64),
        torch.rand(4).double(),
    )
    shape = (
        (lambda t: t.transpose(1, 2))
        if groups is None
        else (lambda t: t.transpose(1, 2)[:, None].expand(-1, groups, -1, -1))
    )
    y, last = selective_scan_fn(u.transpose(1, 2), delta.transpose(1, 2), A, shape(B), shape(C), D, z, bias, True, True)
    steps = torch.nn.functional.softplus(delta + bias)
    right, state = loop(u, steps, A, B, C, torch.zeros(2, 4, 3, dtype=torch.float64), False)
    right = (right + D * u) * torch.nn.functional.silu(z.transpose(1, 2))
    torch.testing.assert_close(y, right.transpose(1, 2))
    torch.testing.assert_close(last, state)


def test_the_drop_in_takes_a_complex_A_as_mamba_ssm_does():
    u, delta, A, B, C, _ = (t.detach() for t in inputs(2, 6, 4, 3, dtype=torch.complex128))
    pack = lambda t: torch.view_as_real(t.transpose(1, 2).contiguous()).flatten(-2)  # noqa: E731
    y = selective_scan_fn(u.real.transpose(1, 2), delta.real.transpose(1, 2), A, pack(B), pack(C))
    right, _ = loop(u.real, delta.real, A, B, C, torch.zeros(2, 4, 3, dtype=torch.complex128), False)
    assert not y.is_complex()
    torch.testing.assert_close(y, 2 * right.real.transpose(1, 2))


def test_fixed_B_and_C_a_channel():
    u, delta, A, _, _, _ = (t.detach() for t in inputs(2, 6, 4, 3))
    B, C = torch.randn(2, 4, 3, dtype=torch.float64)
    y = selective_scan_fn(u.transpose(1, 2), delta.transpose(1, 2), A, B, C)
    h = torch.zeros(2, 4, 3, dtype=torch.float64)
    for t in range(6):
        h = torch.exp(delta[:, t, :, None] * A) * h + delta[:, t, :, None] * B * u[:, t, :, None]
    torch.testing.assert_close(y[:, :, -1], (h * C).sum(-1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"u": torch.zeros(2, 3)}, "u"),
        ({"u": np.zeros((2, 5, 3))}, "u"),
        ({"delta": torch.zeros(2, 5, 4)}, "delta"),
        ({"A": torch.zeros(4, 2)}, "A"),
        ({"B": torch.zeros(2, 5, 3)}, "B"),
        ({"C": torch.zeros(2, 5, 2, dtype=torch.int64)}, "C"),
        ({"h0": torch.zeros(2, 2, 3)}, "h0"),
        ({"discretization": "eulr"}, "discretization"),
        ({"backend": "gpu"}, "backend"),
    ],
)
def test_bad_input_is_named(change, named):
    good = {name: t.detach() for name, t in zip(NAMES, inputs(2, 5, 3, 2))}
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        selective_scan(**(good | change))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"u": [[1.0]]}, "u"),
        ({"u": torch.ones(2, 6, 5, dtype=torch.int64)}, "u"),
        ({"delta": torch.zeros(2, 5, 6)}, "delta"),
        ({"A": torch.zeros(5, 4)}, "A"),
        ({"B": torch.zeros(3, 4)}, "B"),
        ({"B": torch.zeros(2, 4, 4, 5)}, "B, C"),
        ({"B": torch.zeros(2, 3, 4, 5), "C": torch.zeros(2, 2, 4, 5)}, "B, C"),
        ({"C": torch.zeros(2, 4, 6)}, "C"),
        ({"D": torch.zeros(5)}, "D"),
        ({"z": torch.zeros(2, 5, 6)}, "z"),
        ({"delta_bias": [0.5]}, "delta_bias"),
        ({"delta_bias": torch.zeros(3)}, "delta_bias"),
    ],
)
def test_bad_input_of_the_drop_in_is_named(change, named):
    good = {"u": torch.zeros(2, 6, 5), "delta": torch.zeros(2, 6, 5), "A": -torch.ones(6, 4)}
    good |= {"B": torch.zeros(2, 4, 5), "C": torch.zeros(2, 4, 5)}
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        selective_scan_fn(**(good | change))
