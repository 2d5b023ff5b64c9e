"""The twelve traps of the design, each as a promise."""

import copy
import io

import pytest
import torch
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, describe, param_groups, row_normalize

PATHS = pytest.mark.parametrize("fused", [None, False], ids=["native", "plain"])


def parameter(shape, seed=0, dtype=torch.float32):
    return torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def gradients(shape, count, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(count)]


def train(p, grads, **options):
    optimizer = RMNP([p], **options)
    for g in grads:
        p.grad = g
        optimizer.step()
    return p.detach().clone()


# 1
def test_step_inside_a_compiled_function_breaks_the_graph_and_steps():
    p, q = parameter((4, 8)), parameter((4, 8))
    grads = gradients((4, 8), 2)
    optimizer = RMNP([p], lr=0.01)

    @torch.compile(backend="eager")
    def step():
        optimizer.step()

    for g in grads:
        p.grad = g
        step()
    assert torch.equal(p.detach(), train(q, grads, lr=0.01))


# 2
@PATHS
@pytest.mark.parametrize("k", [-20, -3, 1, 20])
def test_gradients_times_a_power_of_two_change_no_bit(fused, k):
    grads = gradients((24, 100), 5)
    reference = train(parameter((24, 100)), grads, fused=fused)
    assert torch.equal(train(parameter((24, 100)), [2.0**k * g for g in grads], fused=fused), reference)


def test_loss_scaling_does_not_change_the_step_and_clipping_only_the_weights_of_steps_in_the_momentum():
    grads = gradients((4, 16), 3)
    halved_once = [grads[0], 0.5 * grads[1], grads[2]]  # clipping of one step
    reference = train(parameter((4, 16)), grads)
    assert not torch.equal(train(parameter((4, 16)), halved_once), reference)
    halved_always = [0.5 * g for g in grads]
    assert torch.equal(train(parameter((4, 16)), halved_always), reference)


# 3
@PATHS
def test_half_precision_rows_whose_norm_overflows_are_normalised(fused):
    g = torch.full((2, 4096), 2000.0, dtype=torch.float16)  # norm 128000 > 65504
    torch.testing.assert_close(row_normalize(g), torch.full_like(g, 1 / 64))
    p = torch.nn.Parameter(torch.zeros(2, 4096, dtype=torch.float16))
    moved = train(p, [g], lr=1.0, weight_decay=0.0, fused=False if fused is False else None)
    torch.testing.assert_close(moved, torch.full_like(g, -1 / 64))


# 4
@PATHS
def test_zero_rows_move_by_decay_only_on_the_first_step(fused):
    p = parameter((3, 5))
    before = p.detach().clone()
    assert torch.equal(row_normalize(torch.zeros(3, 5)), torch.zeros(3, 5))
    after = train(p, [torch.zeros(3, 5)], lr=0.1, weight_decay=0.2, fused=fused)
    torch.testing.assert_close(after, before * (1 - 0.1 * 0.2))


@PATHS
def test_a_row_without_gradient_steps_on_at_full_length_until_its_momentum_falls_below_eps(fused):
    p = torch.nn.Parameter(torch.zeros(1, 4))
    optimizer = RMNP([p], lr=1.0, weight_decay=0.0, fused=fused, nesterov=False)
    p.grad = torch.tensor([[0.02, 0.0, 0.0, 0.0]])  # momentum 1e-3
    optimizer.step()
    lengths = []
    for _ in range(500):
        before = p.detach().clone()
        p.grad = torch.zeros(1, 4)
        optimizer.step()
        lengths.append((p.detach() - before).norm().item())
    assert lengths[350] == pytest.approx(1, abs=1e-4)
    # 1e-3 * 0.95^k < 1e-12 at k = 405
    assert lengths[400] == pytest.approx(1, abs=1e-3)
    assert lengths[420] < 0.6


@PATHS
def test_held_rows_keep_weight_momentum_and_decay(fused):
    p = parameter((4, 6))
    optimizer = RMNP([p], zero_rows="hold", fused=fused)
    for g in gradients((4, 6), 2):
        p.grad = g
        optimizer.step()
    weight, momentum = p.detach().clone(), optimizer.state[p]["momentum_buffer"].clone()
    p.grad = gradients((4, 6), 1, seed=9)[0]
    p.grad[1] = 0
    optimizer.step()
    assert torch.equal(p[1], weight[1])
    assert torch.equal(optimizer.state[p]["momentum_buffer"][1], momentum[1])
    assert (p[[0, 2, 3]] != weight[[0, 2, 3]]).all()


# 5
@PATHS
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_poison_their_own_rows_and_no_other(fused, poison):
    grads = gradients((4, 6), 3)
    clean = train(parameter((4, 6)), grads, fused=fused)
    grads[1] = grads[1].clone()
    grads[1][2, 3] = poison
    dirty = train(parameter((4, 6)), grads, fused=fused)
    assert dirty[2].isnan().all()
    assert torch.equal(dirty[[0, 1, 3]], clean[[0, 1, 3]])


def test_grad_scaler_skips_a_step_with_infinite_gradients():
    p = parameter((3, 4))
    before = p.detach().clone()
    optimizer = RMNP([p])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    loss = scaler.scale((p * torch.tensor(float("inf"))).sum())
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach(), before)
    assert scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(p.square().sum()).backward()
    scaler.step(optimizer)
    assert not torch.equal(p.detach(), before)


# 6
@PATHS
def test_decay_is_multiplied_by_lr_and_not_by_the_scale(fused):
    p = parameter((16, 4))  # s = 2
    before = p.detach().clone()
    after = train(p, [torch.zeros(16, 4)], lr=0.1, weight_decay=0.5, fused=fused)
    torch.testing.assert_close(after, before * 0.95)


# 7
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_float32_momentum_of_a_half_precision_model_survives_a_checkpoint_bit_by_bit(dtype):
    p = parameter((8, 32), dtype=dtype)
    optimizer = RMNP([p], momentum_dtype=torch.float32)
    for g in gradients((8, 32), 3, dtype=dtype):
        p.grad = g
        optimizer.step()
    stored = optimizer.state[p]["momentum_buffer"]
    assert stored.dtype == torch.float32
    assert not torch.equal(stored, stored.to(dtype).float())  # rounding would show
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    q = parameter((8, 32), dtype=dtype)
    other = RMNP([q], momentum_dtype=torch.float32)
    other.load_state_dict(torch.load(file, weights_only=True))
    loaded = other.state[q]["momentum_buffer"]
    assert loaded.dtype == torch.float32
    assert torch.equal(loaded, stored)
    assert loaded.data_ptr() != stored.data_ptr()


# 8
@PATHS
def test_missing_gradients_frozen_and_empty_parameters_are_left_alone(fused):
    empty_rows, empty_columns = torch.nn.Parameter(torch.zeros(0, 4)), torch.nn.Parameter(torch.zeros(4, 0))
    frozen, unused, used = parameter((2, 3)), parameter((2, 3)), parameter((2, 3))
    frozen.requires_grad_(False)
    before = unused.detach().clone()
    optimizer = RMNP([{"params": [unused, frozen]}, {"params": [empty_rows, empty_columns, used]}], fused=fused)
    optimizer.step()  # no gradient anywhere
    for p in (empty_rows, empty_columns, used):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert torch.equal(unused, before)
    assert torch.equal(frozen, before)
    assert unused not in optimizer.state


@PATHS
@pytest.mark.parametrize(("gradient", "sign"), [(0.3, 1), (-7.0, -1)])
def test_a_matrix_of_one_entry_moves_by_plus_or_minus_lr(fused, gradient, sign):
    assert row_normalize(torch.tensor([[gradient]])).item() == sign
    p = torch.nn.Parameter(torch.zeros(1, 1))
    moved = train(p, [torch.tensor([[gradient]])], lr=0.25, weight_decay=0.0, fused=fused)
    torch.testing.assert_close(moved, torch.tensor([[-0.25 * sign]]))


# 8b
def test_a_muon_checkpoint_lacks_our_keys_and_gets_them_from_our_groups():
    p, q = parameter((6, 4)), parameter((6, 4))
    muon = torch.optim.Muon([p], lr=0.02)
    p.grad = gradients((6, 4), 1)[0]
    muon.step()
    saved = muon.state_dict()
    optimizer = RMNP([{"params": [q], "stacked": 3}], zero_rows="hold", eps=1e-10)
    optimizer.load_state_dict(saved)
    group = optimizer.param_groups[0]
    expected = {
        "algorithm": "rmnp",
        "stacked": 3,
        "input_dim": -1,
        "kind": None,
        "zero_rows": "hold",
        "maximize": False,
    }
    assert {key: group[key] for key in expected} == expected
    assert group["lr"] == 0.02
    assert group["ns_steps"] == 5  # unknown to us, and kept
    assert group["eps"] == 1e-10  # Muon's eps guards another iteration
    assert torch.equal(optimizer.state[q]["momentum_buffer"], muon.state[p]["momentum_buffer"])
    q.grad = gradients((6, 4), 1)[0]
    optimizer.step()


def test_pickles_of_groups_without_our_keys_get_the_defaults():
    optimizer = RMNP([parameter((2, 2))])
    state = optimizer.__getstate__()
    state = {"defaults": state["defaults"], "state": state["state"], "param_groups": copy.copy(state["param_groups"])}
    state["param_groups"] = [{"params": g["params"], "lr": 0.5, "mine": 1} for g in state["param_groups"]]
    optimizer.__setstate__(state)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["mine"], group["algorithm"], group["momentum"]) == (0.5, 1, "rmnp", 0.95)


# 9
def test_sparse_gradients_are_refused_before_anything_moves():
    table = torch.nn.Embedding(5, 3, sparse=True)
    other = parameter((3, 3))
    other.grad = torch.ones(3, 3)
    before = other.detach().clone()
    table(torch.tensor([1, 2])).sum().backward()
    optimizer = RMNP([("linear", other), ("table", table.weight)])
    with pytest.raises(InvalidInput, match=r"table.*sparse=False"):
        optimizer.step()
    assert torch.equal(other, before)
    assert not optimizer.state


@pytest.mark.parametrize("algorithm", ["rmnp", "adamw"])
def test_complex_parameters_are_refused(algorithm):
    p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(InvalidInput, match="complex64"):
        RMNP([{"params": [p], "algorithm": algorithm}])


# 10
def test_names_that_torch_compile_has_prefixed_are_read_without_the_prefix():
    model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 12), torch.nn.Linear(12, 7))
    compiled = torch.compile(model)
    assert "_orig_mod.1.weight" in dict(compiled.named_parameters())
    groups = param_groups(compiled, stacked={"1.weight": 3}, head="2")
    assert describe(groups)["1.weight"].stacked == 3
    assert describe(groups)["2.weight"].algorithm == "adamw"
    named = RMNP([(name, p) for name, p in compiled.named_parameters() if p.ndim > 1])
    assert [row.name for row in describe(named)] == ["0.weight", "1.weight", "2.weight"]


# 11
def test_float64_parameters_are_stepped_in_float64():
    p = parameter((5, 7), dtype=torch.float64)
    w, g = p.detach().clone(), gradients((5, 7), 1, dtype=torch.float64)[0]
    after = train(p, [g], lr=0.1, weight_decay=0.0)
    torch.testing.assert_close(after, w - 0.1 * g / g.norm(dim=1, keepdim=True), rtol=1e-14, atol=1e-15)


# 12
@PATHS
def test_strided_gradients_give_the_bits_of_contiguous_ones(fused):
    g = gradients((6, 10), 1)[0]
    reference = train(parameter((6, 10)), [g], fused=fused)
    strided = g.t().contiguous().t()
    assert not strided.is_contiguous()
    assert torch.equal(train(parameter((6, 10)), [strided], fused=fused), reference)


@PATHS
def test_gradients_of_another_dtype_give_the_answer_of_float32(fused):
    p, q = parameter((6, 10)), parameter((6, 10))
    g = gradients((6, 10), 1, dtype=torch.bfloat16)[0]
    reference = train(q, [g.float()], fused=fused)
    optimizer = RMNP([p], fused=fused)
    p.grad_dtype = torch.bfloat16
    p.grad = g
    optimizer.step()
    assert torch.equal(p.detach(), reference)


@PATHS
def test_channels_last_convolutions_step_as_contiguous_ones(fused):
    kernels = parameter((8, 3, 5, 5)).detach()
    g = gradients((8, 3, 5, 5), 1)[0]
    results = []
    for form in (torch.contiguous_format, torch.channels_last):
        p = torch.nn.Parameter(kernels.clone().contiguous(memory_format=form))
        results.append(train(p, [g.contiguous(memory_format=form)] * 3, fused=fused))
    assert torch.equal(results[0], results[1])


# interrupted runs
@PATHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_run_ends_in_the_bits_of_an_unbroken_one(fused, dtype):
    grads = gradients((12, 20), 9, dtype=dtype)

    def build(weights):
        p, bias = torch.nn.Parameter(weights[0].clone()), torch.nn.Parameter(weights[1].clone())
        groups = [{"params": [p], "stochastic_rounding": True}, {"params": [bias], "algorithm": "adamw"}]
        return p, bias, RMNP(groups, fused=fused)

    def go(p, bias, optimizer, some):
        for g in some:
            p.grad, bias.grad = g, g[0].clone()
            optimizer.step()

    start = parameter((12, 20), dtype=dtype).detach(), parameter((20,), dtype=dtype).detach()
    p, bias, optimizer = build(start)
    go(p, bias, optimizer, grads[:4])
    file = io.BytesIO()
    torch.save((optimizer.state_dict(), p.detach().clone(), bias.detach().clone()), file)
    go(p, bias, optimizer, grads[4:])
    file.seek(0)
    state, *weights = torch.load(file, weights_only=True)
    q, other_bias, resumed = build(weights)
    resumed.load_state_dict(state)
    go(q, other_bias, resumed, grads[4:])
    assert torch.equal(p, q)
    assert torch.equal(bias, other_bias)
