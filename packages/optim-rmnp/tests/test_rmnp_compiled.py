"""The form that torch.compile fuses on CUDA. Here it is checked without compiling; with a CUDA device, compiled."""

import pytest
import torch
from optim_rmnp import RMNP
from optim_rmnp.compiled import _step_all, functional_step
from optim_rmnp.step import Rule, step_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_functional_form_is_the_plain_step_and_writes_no_argument(dtype, hold, maximize, nesterov):
    rule = Rule(0.01, 0.1, 0.95, nesterov, 1e-12, 1.5, maximize=maximize, hold=hold)
    generator = torch.Generator().manual_seed(0)
    w, g, m = (torch.randn(6, 10, generator=generator).to(dtype) for _ in range(3))
    g[2] = 0
    before = [t.clone() for t in (w, g, m)]
    new_w, new_m = functional_step(w, g, m, torch.tensor(0.01, dtype=torch.float64), rule)
    assert all(torch.equal(a, b) for a, b in zip(before, (w, g, m)))
    step_rows(w, g, m, rule)
    torch.testing.assert_close(new_w, w)
    torch.testing.assert_close(new_m, m)


def test_lists_are_stepped_in_place():
    rule = Rule(0.01, 0.1, 0.95, True, 1e-12, 1.0)
    pairs = [[torch.randn(4, 6) for _ in range(2)] for _ in range(3)]
    expected = [[t.clone() for t in column] for column in pairs]
    _step_all(pairs[0], pairs[1], pairs[2], torch.tensor(0.01), [rule, rule])
    for w, g, m in zip(*expected):
        step_rows(w, g, m, rule)
    for a, b in zip(pairs[0] + pairs[2], expected[0] + expected[2]):
        torch.testing.assert_close(a, b)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_steps_on_cuda_agree_with_the_plain_path(dtype):
    ends = []
    for fused in (True, False):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(shape, device="cuda", dtype=dtype)) for shape in ((64, 48), (48, 96))]
        optimizer = RMNP(params, lr=0.01, fused=fused)
        for _ in range(3):
            for p in params:
                p.grad = torch.randn_like(p)
            optimizer.step()
        ends.append([p.detach() for p in params])
    for a, b in zip(*ends):
        torch.testing.assert_close(a, b)
