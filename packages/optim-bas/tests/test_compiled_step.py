"""The step that torch.compile is given for CUDA, run here uncompiled on the CPU, against the plain step."""

import pytest
import torch
from optim_bas import BAS, compiled, paths

HYPER = {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1}


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda step, **options: step)
    compiled._compiled.cache_clear()
    yield lambda chosen: monkeypatch.setattr(paths, "_is_compiled", lambda item: chosen)
    compiled._compiled.cache_clear()


def after_steps(make, keys, steps=4):
    param = torch.nn.Parameter(make(0))
    optimizer = BAS([param], **{**HYPER, **keys}, fused=False)
    for step in range(steps):
        param.grad = make(step + 1)
        optimizer.step()
    return param.detach(), optimizer.state[param]


def normal(*shape, dtype=torch.float32):
    return lambda seed: torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        (normal(8, 30), {}),
        (normal(8, 30), {"nesterov": True, "maximize": True, "scale": "mean"}),
        (normal(8, 30), {"block": 8, "rounding": "stochastic"}),
        (normal(8, 30), {"block": "tensor", "momentum_dtype": torch.float8_e5m2}),
        (normal(8, 30), {"momentum_dtype": torch.bfloat16, "rounding": "nearest"}),
        (normal(8, 30), {"momentum_dtype": torch.bfloat16, "rounding": "stochastic"}),
        (normal(8, 30), {"momentum_dtype": torch.float32}),
        (normal(8, 30, dtype=torch.float64), {}),
        (normal(8, 30), {"lr": torch.tensor(0.01)}),
        # No view of these strides is the matrix of the blocks: what is stepped is a copy.
        (lambda seed: normal(4, 3, 5, 2)(seed).to(memory_format=torch.channels_last), {}),
    ],
)
def test_momenta_are_equal_and_weights_to_the_last_bits(uncompiled, make, keys):
    uncompiled(True)
    weight, state = after_steps(make, keys)
    uncompiled(False)
    expected, plain = after_steps(make, keys)
    assert not torch.equal(expected, make(0))
    for name in ("exp_avg", "exp_avg_scale"):
        if name in plain:
            assert torch.equal(state[name], plain[name]), name
    torch.testing.assert_close(state["exp_avg_sq"], plain["exp_avg_sq"], rtol=1e-6, atol=0)
    torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-6)
