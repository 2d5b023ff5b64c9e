"""Eight bits: codes, scales, rounding, decay and the random stream."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from optim_bas import BAS, decode, encode
from optim_bas.fp8 import FORMATS, decay_limit, is_stochastic, noise_bits, scale_of, stream_key

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def test_the_published_example():
    x = torch.tensor([[0.3, -1, 0.01, 0, 1e-5, -2e-6]])
    scale = x.abs().amax(1, keepdim=True) / 448
    codes = encode(x, scale)
    assert codes.tolist() == [[112, 254, 73, 0, 2, 128]]
    expected = torch.tensor([[0.2857143, -1, 0.0100446, 0, 8.7193e-6, 0]])
    torch.testing.assert_close(decode(codes, scale), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_code_decodes_as_torch_says(dtype):
    codes = torch.arange(256, dtype=torch.uint8)
    torch.testing.assert_close(
        decode(codes, torch.tensor(1.0), dtype=dtype), codes.view(dtype).float(), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("dtype", FORMATS)
def test_rounding_to_nearest_is_torchs(dtype):
    largest = FORMATS[dtype].largest
    x = torch.randn(20_000) * torch.exp(4 * torch.randn(20_000))
    x = torch.cat([x, torch.arange(-512, 512) * 2.0**-10, torch.tensor([0.0, -0.0, largest, -largest])])
    expected = x.clamp(-largest, largest).to(dtype).view(torch.uint8)
    assert torch.equal(encode(x, torch.tensor(1.0), dtype=dtype), expected)


def test_what_is_too_large_saturates_and_nan_stays():
    codes = encode(torch.tensor([1e9, -torch.inf, torch.nan]), torch.tensor(1.0))
    values = decode(codes, torch.tensor(1.0))
    assert values[:2].tolist() == [448.0, -448.0]
    assert values[2].isnan()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_encoding_is_monotone_and_as_exact_as_the_format(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(500, generator=generator) * torch.exp(3 * torch.randn(500, generator=generator))
    x = x.sort().values
    amax = x.abs().amax()
    scale = amax / 448
    back = decode(encode(x, scale), scale)
    assert (back.diff() >= 0).all()
    normal = x.abs() >= scale * 2**-6
    error = (back - x).abs()
    assert (error[normal] <= x.abs()[normal] / 16 * (1 + 1e-5)).all()
    assert (error[~normal] <= scale * 2**-10 * (1 + 1e-5)).all()


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("value", [1.03, -1.03, 3e-3, 300.0])
def test_stochastic_rounding_is_right_on_average(dtype, value):
    n = 100_000
    codes = encode(
        torch.full((n,), value),
        torch.tensor(1.0),
        dtype=dtype,
        rounding="stochastic",
        generator=torch.Generator().manual_seed(0),
    )
    found = decode(codes, torch.tensor(1.0), dtype=dtype)
    assert len(found.unique()) == 2
    assert abs(found.mean() - value) <= 4 * found.std() / n**0.5


def test_exact_values_stay_under_stochastic_rounding():
    codes = torch.arange(127, dtype=torch.uint8)
    values = decode(codes, torch.tensor(1.0))
    assert torch.equal(encode(values, torch.tensor(1.0), rounding="stochastic"), codes)


def test_a_block_of_zeros_has_scale_zero_and_an_infinite_one_nan():
    scale = scale_of(torch.tensor([0.0, 1e-40, 448.0, torch.inf, torch.nan]), E4M3)
    assert scale[:3].tolist() == [0.0, 0.0, 1.0]
    assert scale[3:].isnan().all()
    assert encode(torch.tensor([[0.0, 1e-40]]), torch.tensor([[0.0]])).tolist() == [[0, 0]]


@pytest.mark.parametrize(("dtype", "limit"), [(E4M3, 17 / 18), (E5M2, 0.9), (torch.bfloat16, 257 / 258)])
def test_the_limit_of_decay(dtype, limit):
    assert decay_limit(dtype) == pytest.approx(limit)
    assert not is_stochastic("auto", dtype, limit - 1e-6)
    assert is_stochastic("auto", dtype, limit + 1e-6)
    assert not is_stochastic("nearest", dtype, 0.99)
    assert is_stochastic("stochastic", dtype, 0.5)
    assert not is_stochastic("stochastic", torch.float32, 0.99)


@pytest.mark.parametrize(("dtype", "smallest", "largest"), [(E4M3, 8, 126), (E5M2, 4, 123)])
def test_below_the_limit_all_decays_but_the_smallest_values(dtype, smallest, largest):
    codes = torch.arange(smallest, largest + 1, dtype=torch.uint8)
    values, beta1 = decode(codes, torch.tensor(1.0), dtype=dtype), decay_limit(dtype) - 1e-6
    after = decode(encode(beta1 * values, torch.tensor(1.0), dtype=dtype), torch.tensor(1.0), dtype=dtype)
    assert values[0] == FORMATS[dtype].smallest
    assert (after[1:] < values[1:]).all()
    assert after[0] == values[0]


@pytest.mark.parametrize(
    ("dtype", "beta1", "left"),
    [(E4M3, 0.944, 0.0156), (E4M3, 0.945, 72.0), (E4M3, 0.95, 80.0), (E4M3, 0.99, 96.0), (E5M2, 0.94, 96.0)],
)
def test_where_rounding_to_nearest_stops_the_decay(dtype, beta1, left):
    """200 steps of zero gradient from 100 at a scale of 1."""
    one, x = torch.tensor(1.0), torch.tensor([100.0])
    for _ in range(200):
        x = decode(encode(x * beta1, one, dtype=dtype), one, dtype=dtype)
    assert x.item() == pytest.approx(left, rel=0.01)


@pytest.mark.parametrize(("rounding", "decays"), [("auto", True), ("nearest", False)])
@pytest.mark.parametrize("fused", [None, False])
def test_no_stale_drift_unless_nearest_is_forced(rounding, decays, fused):
    """One entry keeps the block's scale up; the other had one pulse and must be forgotten (beta1 0.95)."""
    param = torch.nn.Parameter(torch.zeros(1, 2))
    optimizer = BAS([param], lr=1e-3, betas=(0.95, 0.999), rounding=rounding, fused=fused)
    for step in range(600):
        param.grad = torch.tensor([[1.0, 1.0 if step == 0 else 0.0]])
        optimizer.step()
    assert (int(optimizer.state[param]["exp_avg"][0, 1]) & 0x7F == 0) is decays


def test_the_stream_depends_on_seed_step_tensor_and_entry_alone():
    index = torch.arange(1000)
    found = {
        (seed, step, tensor): noise_bits(index, stream_key(seed, step, tensor))
        for seed in (0, 1, 1 << 40)
        for step in (1, 2)
        for tensor in (0, 1)
    }
    assert len({tuple(bits.tolist()) for bits in found.values()}) == len(found)
    bits = found[0, 1, 0]
    assert torch.equal(bits[index % 7 == 3], noise_bits(index[index % 7 == 3], stream_key(0, 1, 0)))
    assert bits.min() >= 0
    assert bits.max() < 1 << 32


def test_the_stream_is_uniform():
    bits = torch.cat([noise_bits(torch.arange(4096), stream_key(0, step, 0)) for step in range(64)])
    share = torch.stack([(bits >> k & 1).double().mean() for k in range(32)])
    assert (share - 0.5).abs().max() < 5 * 0.5 / len(bits) ** 0.5
    # Neighbouring steps and entries are not correlated.
    table = bits.view(64, 4096).double() / 2**32 - 0.5
    for product in (table[1:] * table[:-1], table[:, 1:] * table[:, :-1]):
        assert abs(product.mean()) < 5 / 12 / product.numel() ** 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode(torch.zeros(3, dtype=torch.int32), torch.tensor(1.0)), "x: expected a dense floating-point"),
        (lambda: encode(torch.zeros(3), torch.tensor(1.0), dtype=torch.bfloat16), "dtype"),
        (lambda: encode(torch.zeros(3), torch.tensor(1.0), rounding="auto"), "rounding"),
        (lambda: decode(torch.zeros(3), torch.tensor(1.0)), "code: expected a tensor of uint8"),
    ],
)
def test_what_cannot_be_coded_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
