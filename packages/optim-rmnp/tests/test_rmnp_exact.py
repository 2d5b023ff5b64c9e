"""The step on cases computed by hand, and the properties that define it."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, rmnp_step, row_normalize
from optim_rmnp.row_norm import update_scale
from optim_rmnp.step import Rule, step_blocked, step_rows

W0 = [[1.0, 2.0], [3.0, -1.0], [0.0, 0.5]]
G1 = [[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]]
G2 = [[-4.0, 3.0], [1.0, 0.0], [1e-3, 0.0]]
AFTER_1 = [[0.91651531, 1.88202041], [2.97, -0.86752551], [0.0, 0.495]]
M_1 = [[0.15, 0.2], [0.0, -0.1], [0.0, 0.0]]
AFTER_2 = [[0.96540339, 1.75535855], [2.85042027, -0.77565390], [-0.12247449, 0.49005]]
AFTER_2_PLAIN = [[0.92777276, 1.74244046], [2.88325794, -0.75047035], [-0.12247449, 0.49005]]


def close(actual, expected, tolerance=5e-9):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=actual.dtype), rtol=0, atol=tolerance)


def two_steps(dtype, nesterov, fused):
    p = torch.nn.Parameter(torch.tensor(W0, dtype=dtype))
    optimizer = RMNP([p], lr=0.1, weight_decay=0.1, nesterov=nesterov, fused=fused)
    for gradient in (G1, G2):
        p.grad = torch.tensor(gradient, dtype=dtype)
        optimizer.step()
        yield p.detach().clone(), optimizer.state[p]["momentum_buffer"].clone()


def test_two_steps_give_the_weights_computed_by_hand():
    (w1, m1), (w2, _) = two_steps(torch.float64, True, None)
    close(w1, AFTER_1)
    close(m1, M_1)
    close(w2, AFTER_2)


@pytest.mark.parametrize("fused", [None, False])
def test_two_steps_in_float32_give_them_too(fused):
    (w1, _), (w2, _) = two_steps(torch.float32, True, fused)
    close(w1, AFTER_1, 5e-7)
    close(w2, AFTER_2, 5e-7)


def test_without_nesterov_the_second_step_differs_as_computed_by_hand():
    (w1, _), (w2, _) = two_steps(torch.float64, False, None)
    close(w1, AFTER_1)
    close(w2, AFTER_2_PLAIN)


def test_rmnp_step_is_the_same_step_on_one_matrix():
    w, m = torch.tensor(W0, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64)
    rule = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "eps": 1e-12, "scale": 1.5**0.5}
    g = torch.tensor(G1, dtype=torch.float64)
    assert rmnp_step(w, g, m, **rule) is None
    close(w, AFTER_1)
    close(m, M_1)
    assert torch.equal(g, torch.tensor(G1, dtype=torch.float64))  # the gradient is the caller's


def test_rmnp_step_refuses_what_is_not_three_matrices_of_one_shape():
    rule = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "eps": 1e-12, "scale": 1.0}
    with pytest.raises(InvalidInput, match="one shape"):
        rmnp_step(torch.ones(2, 3), torch.ones(3, 2), torch.ones(2, 3), **rule)
    with pytest.raises(InvalidInput, match="matrices"):
        rmnp_step(torch.ones(3), torch.ones(3), torch.ones(3), **rule)


@pytest.mark.parametrize(
    ("rows", "fan_in", "name", "expected"),
    [
        (3, 2, None, 1.5**0.5),
        (2, 3, "original", 1.0),
        (7, 64, "match_rms_adamw", 1.6),
        (64, 16, "match_rms_adamw", 0.8),
        (2, 8, "spectral_unclamped", 0.5),
        (9, 2, "none", 1.0),
        (0, 5, None, 1.0),
    ],
)
def test_scale_is_that_of_the_table(rows, fan_in, name, expected):
    assert update_scale(rows, fan_in, name) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("shape", [(8, 32), (32, 8), (16, 16)])
def test_match_rms_adamw_makes_the_update_rms_exactly_a_fifth(shape):
    p = torch.nn.Parameter(torch.zeros(shape))
    p.grad = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    RMNP([p], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw").step()
    assert p.square().mean().sqrt().item() == pytest.approx(0.2, rel=1e-6)


def test_squared_norm_of_the_direction_is_the_number_of_rows_and_of_the_polar_factor_the_short_side():
    x = torch.randn(128, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    assert row_normalize(x).square().sum().item() == pytest.approx(128, rel=1e-12)
    assert (u @ vh).square().sum().item() == pytest.approx(32, rel=1e-12)


def test_orthogonal_rows_are_their_own_polar_factor():
    x = 3.0 * torch.eye(5, dtype=torch.float64)[[2, 0, 1, 4, 3]]
    u, _, vh = torch.linalg.svd(x)
    torch.testing.assert_close(row_normalize(x), u @ vh)


sizes = st.tuples(st.integers(1, 9), st.integers(1, 40))
seeds = st.integers(0, 2**31)


def gaussian(shape, seed, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@given(sizes, seeds)
@settings(max_examples=40, deadline=None)
def test_rows_have_norm_one_and_normalising_twice_changes_nothing(shape, seed):
    d = row_normalize(gaussian(shape, seed))
    torch.testing.assert_close(d.norm(dim=1), torch.ones(shape[0], dtype=torch.float64))
    torch.testing.assert_close(row_normalize(d), d, rtol=1e-14, atol=0)


@given(sizes, seeds)
@settings(max_examples=40, deadline=None)
def test_positive_row_scales_do_not_matter_and_rows_and_columns_may_be_turned(shape, seed):
    x = gaussian(shape, seed)
    scales = gaussian((shape[0], 1), seed + 1).exp()
    torch.testing.assert_close(row_normalize(scales * x), row_normalize(x))
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(seed))
    assert torch.equal(row_normalize(x[order]), row_normalize(x)[order])
    q, _ = torch.linalg.qr(gaussian((shape[1], shape[1]), seed + 2))
    torch.testing.assert_close(row_normalize(x @ q), row_normalize(x) @ q, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_row_normalize_runs_over_the_dimension_named(dim):
    d = row_normalize(gaussian((3, 4, 5), 0), dim=dim)
    torch.testing.assert_close(d.norm(dim=dim), torch.ones_like(d.norm(dim=dim)))


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (torch.ones(2, 2, dtype=torch.int64), {}),
        (torch.tensor(1.0), {}),
        ([[1.0]], {}),
        (torch.ones(2, 2, dtype=torch.complex64), {}),
        (torch.ones(2, 2), {"dim": 2}),
        (torch.ones(2, 2), {"eps": -1.0}),
        (torch.ones(2, 2), {"eps": float("nan")}),
    ],
)
def test_row_normalize_refuses_what_it_cannot_normalise(x, options):
    with pytest.raises(InvalidInput):
        row_normalize(x, **options)


@given(st.integers(1, 4), st.tuples(st.integers(1, 6), st.integers(1, 24)), seeds)
@settings(max_examples=25, deadline=None)
def test_fused_and_split_weights_step_to_the_same_bits_with_stacked(count, shape, seed):
    m, n = shape
    fused = torch.nn.Parameter(gaussian((count * m, n), seed, torch.float32))
    split = [torch.nn.Parameter(part.clone()) for part in fused.detach().split(m)]
    one = RMNP([{"params": [fused], "stacked": count}])
    many = RMNP(split)
    for step in range(3):
        fused.grad = gaussian((count * m, n), seed + step, torch.float32)
        for part, gradient in zip(split, fused.grad.split(m)):
            part.grad = gradient.clone()
        one.step()
        many.step()
    assert torch.equal(fused, torch.cat([p.detach() for p in split]))


@given(st.tuples(st.integers(1, 30), st.integers(1, 40)), st.integers(1, 100), seeds, st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_blocks_of_rows_give_the_bits_of_the_whole(shape, entries, seed, nesterov, hold):
    rule = Rule(0.01, 0.1, 0.95, nesterov, 1e-12, 1.3, hold=hold)
    g = gaussian(shape, seed, torch.float32)
    g[:: 1 + seed % 3] *= seed % 2
    whole = [gaussian(shape, seed + 1, torch.float32), g, gaussian(shape, seed + 2, torch.float32)]
    blocks = [t.clone() for t in whole]
    step_rows(*whole, rule)
    step_blocked(*blocks, rule, block_entries=entries)
    for a, b in zip(whole, blocks):
        assert torch.equal(a, b)


def test_every_option_of_the_step_agrees_with_the_formula_written_out():
    x, w0 = gaussian((4, 6, 7), 3), gaussian((6, 7), 4)
    for nesterov, maximize, hold in itertools.product((True, False), repeat=3):
        p = torch.nn.Parameter(w0.clone())
        options = {"nesterov": nesterov, "maximize": maximize, "zero_rows": "hold" if hold else "step"}
        optimizer = RMNP([p], lr=0.02, weight_decay=0.3, **options)
        w, m = w0.clone(), torch.zeros(6, 7, dtype=torch.float64)
        for g in x.clone():
            g[2] = 0
            p.grad = g.clone()
            optimizer.step()
            g = -g if maximize else g
            keep = (g == 0).all(1, keepdim=True) & hold
            m = torch.where(keep, m, 0.95 * m + 0.05 * g)
            u = 0.05 * g + 0.95 * m if nesterov else m
            d = u / u.norm(dim=1, keepdim=True).clamp_min(1e-12)
            w = torch.where(keep, w, w * (1 - 0.02 * 0.3) - 0.02 * d)
        torch.testing.assert_close(p.detach(), w, rtol=1e-12, atol=1e-14)
