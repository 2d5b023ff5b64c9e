"""The one-pass kernel against the plain step."""

import pytest
import torch
from optim_bas import BAS
from optim_bas import native as native_module

HYPER = {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1}


def both(shape, steps=8, sparse=False, **keys):
    params = [torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(0))) for _ in range(2)]
    optimizers = [BAS([p], **{**HYPER, **keys}, fused=fused) for p, fused in zip(params, (True, False))]
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        grad = torch.randn(shape, generator=generator) * torch.exp(3 * torch.randn(shape, generator=generator))
        if sparse:
            grad *= torch.rand(shape, generator=generator) < 0.2
        for param, optimizer in zip(params, optimizers):
            param.grad = grad.clone()
            optimizer.step()
    return params, [o.state[p] for o, p in zip(optimizers, params)]


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        ((64, 96), {}),
        ((64, 96), {"nesterov": True}),
        ((64, 96), {"scale": "mean", "rounding": "stochastic"}),
        ((64, 96), {"scale": "mean", "nesterov": True, "maximize": True}),
        ((7, 100), {"block": 32, "rounding": "stochastic"}),
        ((300, 130), {"block": "tensor", "rounding": "stochastic"}),
        ((301, 130), {"block": ("rows", 7), "nesterov": True, "rounding": "stochastic"}),
        ((3, 4, 5, 2), {}),
        ((50,), {}),
        ((), {}),
        ((5, 9), {"block": 1}),
        ((2, 40_000), {"betas": (0.95, 0.99)}),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_codes_are_equal_and_weights_to_the_last_bits(shape, keys, sparse):
    params, states = both(shape, sparse=sparse, **keys)
    for name in ("exp_avg", "exp_avg_scale", "step"):
        assert torch.equal(states[0][name], states[1][name]), name
    torch.testing.assert_close(states[0]["exp_avg_sq"], states[1]["exp_avg_sq"], rtol=1e-6, atol=0)
    torch.testing.assert_close(params[0], params[1], rtol=3e-7, atol=1e-7)


def test_one_step_is_within_one_unit_in_the_last_place():
    """Of the weight, or where that is next to nothing of the step: sums over a block are taken in another order."""
    params, _ = both((128, 256), steps=1)
    weights = params[1].detach().abs().clamp_min(4 * HYPER["lr"])
    ulp = torch.nextafter(weights, torch.tensor(torch.inf)) - weights
    assert ((params[0] - params[1]).abs() <= ulp).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
def test_a_bad_gradient_turns_its_block_and_no_other_to_nan(bad, fused, nesterov):
    param = torch.nn.Parameter(torch.ones(3, 20))
    optimizer = BAS([param], fused=fused, nesterov=nesterov)
    for step in range(2):
        param.grad = torch.ones(3, 20)
        if step == 0:
            param.grad[1, 4] = bad
        optimizer.step()
    assert param[1].isnan().all()
    assert param[[0, 2]].isfinite().all()


@pytest.mark.parametrize("fused", [True, False])
def test_gradients_whose_squares_underflow_move_nothing_and_break_nothing(fused):
    param = torch.nn.Parameter(torch.ones(2, 20))
    optimizer = BAS([param], fused=fused, weight_decay=0.0)
    for _ in range(3):
        param.grad = torch.full((2, 20), 1e-30)
        optimizer.step()
    assert param.isfinite().all()
    assert (param - 1).abs().max() <= 1e-3


def test_results_do_not_depend_on_flushed_subnormals_or_threads():
    reference, _ = both((600, 512), steps=3, sparse=True)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        torch.set_flush_denormal(True)
        again, _ = both((600, 512), steps=3, sparse=True)
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
    assert torch.equal(reference[0], again[0])


def test_no_more_than_a_megabyte_of_scratch():
    assert 2 * 4 * native_module.CHUNK <= 1 << 20
