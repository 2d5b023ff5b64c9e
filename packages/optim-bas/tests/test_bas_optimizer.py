"""The class: AdamW's signature, groups, state that survives, and the traps that other optimizers fell into."""

import copy

import pytest
import torch
import torch.distributed.checkpoint as dcp
from lemmata_core import InvalidInput
from optim_bas import BAS, state_bytes
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

HALF = [torch.float32, torch.bfloat16, torch.float16]


def trained(dtype=torch.float32, steps=3, **keys):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).to(dtype)
    optimizer = BAS(model.named_parameters(), lr=0.01, **keys)
    for step in range(steps):
        feed(model, step)
        optimizer.step()
    return model, optimizer


def feed(model, step):
    generator = torch.Generator().manual_seed(step)
    for param in model.parameters():
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def same_state(a, b):
    assert list(a) == list(b)
    for key, state in a.items():
        assert list(state) == list(b[key])
        for name, value in state.items():
            assert value.dtype == b[key][name].dtype
            assert torch.equal(value, b[key][name]), name


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("momentum_dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float32])
def test_the_state_survives_every_way_of_saving_bit_for_bit(dtype, momentum_dtype, tmp_path):
    _, optimizer = trained(dtype, momentum_dtype=momentum_dtype)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    same_state(optimizer.state_dict()["state"], loaded["state"])
    _, other = trained(dtype, steps=0, momentum_dtype=momentum_dtype)
    other.load_state_dict(loaded)
    same_state(optimizer.state_dict()["state"], other.state_dict()["state"])
    copied = copy.deepcopy(optimizer)
    same_state(optimizer.state_dict()["state"], copied.state_dict()["state"])


# torch warns although no_dist=True says that this is meant.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("flat", [False, True])
def test_the_state_survives_a_distributed_checkpoint_bit_for_bit(dtype, flat, tmp_path):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = trained(dtype)
    other, loaded = trained(dtype, steps=0)
    before = [p.detach().clone() for p in other.parameters()]
    dcp.save(
        {"optim": get_optimizer_state_dict(model, optimizer, options=options)}, checkpoint_id=tmp_path, no_dist=True
    )
    state = {"optim": get_optimizer_state_dict(other, loaded, options=options)}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    set_optimizer_state_dict(other, loaded, state["optim"], options=options)
    same_state(optimizer.state_dict()["state"], loaded.state_dict()["state"])
    assert all(torch.equal(a, b) for a, b in zip(before, other.parameters()))


@pytest.mark.parametrize("cls", [BAS, torch.optim.AdamW])
def test_a_grad_scaler_skips_the_step_as_for_adamw(cls):
    param = torch.nn.Parameter(torch.ones(2, 4))
    optimizer = cls([param], lr=0.1, weight_decay=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for bad in (False, True, False):
        before, steps = param.detach().clone(), int(optimizer.state[param].get("step", 0))
        scaler.scale((param * (torch.inf if bad else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert torch.equal(before, param) is bad
        assert int(optimizer.state[param]["step"]) == steps + (not bad)
    assert scaler.get_scale() == 4.0
    torch.testing.assert_close(param.detach(), torch.full((2, 4), 0.8))


@pytest.mark.parametrize("dtype", HALF)
def test_a_resumed_run_repeats_the_run(dtype):
    keys = {"betas": (0.95, 0.999), "rounding": "stochastic"}
    model, optimizer = trained(dtype, steps=3, **keys)
    twin = copy.deepcopy(model)
    other = BAS(twin.named_parameters(), lr=0.5, **keys)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for step in (3, 4):
        for m, o in ((model, optimizer), (twin, other)):
            feed(m, step)
            o.step()
    for a, b in zip(model.parameters(), twin.parameters()):
        assert torch.equal(a, b)


def test_loading_leaves_the_callers_dict_alone_and_shares_nothing():
    _, optimizer = trained()
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    model, other = trained(steps=0)
    other.load_state_dict(saved)
    feed(model, 9)
    other.step()
    same_state(before["state"], saved["state"])


def test_a_checkpoint_of_adamw_is_refused_with_the_way_out():
    model, optimizer = trained()
    adamw = torch.optim.AdamW(model.parameters())
    adamw.step()
    with pytest.raises(InvalidInput, match="from_adamw"):
        optimizer.load_state_dict(adamw.state_dict())


@pytest.mark.parametrize("dtype", HALF)
def test_state_has_the_dtypes_and_sizes_that_are_promised(dtype):
    _, optimizer = trained(dtype)
    state = next(iter(optimizer.state.values()))
    assert {k: (v.dtype, tuple(v.shape)) for k, v in state.items()} == {
        "step": (torch.float32, ()),
        "exp_avg": (torch.uint8, (8, 12)),
        "exp_avg_scale": (torch.float32, (8,)),
        "exp_avg_sq": (torch.float32, (8,)),
    }


@pytest.mark.parametrize("fused", [None, False])
def test_the_second_moment_is_float32_whatever_the_gradient(fused):
    """3000 steps of bfloat16 gradients, deviation 1, then 0.1: a running mean in bfloat16 would say 0.67."""
    param = torch.nn.Parameter(torch.zeros(8, 64, dtype=torch.bfloat16))
    optimizer = BAS([param], lr=0.0, fused=fused)
    generator = torch.Generator().manual_seed(0)
    for step in range(3000):
        deviation = 1.0 if step < 1000 else 0.1
        param.grad = (torch.randn(8, 64, generator=generator) * deviation).bfloat16()
        optimizer.step()
    v = optimizer.state[param]["exp_avg_sq"]
    assert v.dtype == torch.float32
    torch.testing.assert_close(v, torch.full((8,), 0.0942), rtol=0.03, atol=0)


def test_half_precision_gradients_are_squared_in_float32():
    param = torch.nn.Parameter(torch.zeros(2, 8, dtype=torch.float16))
    param.grad = torch.full((2, 8), 1000.0, dtype=torch.float16)
    optimizer = BAS([param], lr=0.5)
    optimizer.step()
    assert optimizer.state[param]["exp_avg_sq"].tolist() == pytest.approx([1000.0] * 2, rel=1e-3)
    assert param.detach().float().unique().item() == pytest.approx(-0.5)


def test_small_gradients_meet_eps_as_in_adamw():
    moved = []
    for cls in (BAS, torch.optim.AdamW):
        param = torch.nn.Parameter(torch.zeros(2, 8))
        param.grad = torch.full((2, 8), 1e-9)
        cls([param], lr=0.01).step()
        moved.append(param.detach())
    torch.testing.assert_close(*moved, rtol=1e-5, atol=0)
    assert moved[0].abs().max() < 0.001


def test_a_row_that_was_never_seen_does_not_move():
    table = torch.nn.Embedding(6, 4)
    before = table.weight.detach().clone()
    optimizer = BAS(table.parameters(), lr=0.1, weight_decay=0.0, eps=0.0)
    for _ in range(3):
        table.zero_grad()
        table(torch.tensor([1, 4])).sum().backward()
        optimizer.step()
    moved = (table.weight.detach() != before).any(dim=1)
    assert moved.tolist() == [False, True, False, False, True, False]


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.randn(6, 4).t(), id="transposed"),
        pytest.param(lambda: torch.randn(3, 2, 4, 4).to(memory_format=torch.channels_last), id="channels_last"),
        pytest.param(lambda: torch.randn(8, 8)[::2, ::2], id="strided"),
        pytest.param(lambda: torch.randn(2, 3, 4).movedim(1, 2), id="permuted"),
    ],
)
@pytest.mark.parametrize("block", ["row", "tensor", 3, ("rows", 2)])
def test_strides_do_not_matter(make, block, fused):
    torch.manual_seed(0)
    odd = torch.nn.Parameter(make())
    plain = torch.nn.Parameter(odd.detach().contiguous().clone())
    for param in (odd, plain):
        optimizer = BAS([param], lr=0.1, block=block, fused=fused, nesterov=True)
        for step in range(4):
            param.grad = torch.randn(plain.shape, generator=torch.Generator().manual_seed(step))
            optimizer.step()
    torch.testing.assert_close(odd.detach(), plain.detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 2)])
def test_block_dim_makes_blocks_of_the_other_dimension(shape):
    torch.manual_seed(0)
    stored = torch.nn.Parameter(torch.randn(shape))
    turned = torch.nn.Parameter(stored.detach().movedim(1, 0).contiguous().clone())
    for param, dim in ((stored, 1), (turned, 0)):
        optimizer = BAS([{"params": [param], "block_dim": dim}], lr=0.1)
        for step in range(4):
            grad = torch.randn(turned.shape, generator=torch.Generator().manual_seed(step))
            param.grad = grad.movedim(0, 1) if dim else grad
            optimizer.step()
    torch.testing.assert_close(stored.detach().movedim(1, 0), turned.detach())
    assert optimizer.state[turned]["exp_avg_sq"].shape == (4,)


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (5, 0)])
@pytest.mark.parametrize("block", ["row", "tensor", 2, ("rows", 2)])
def test_scalars_and_empty_tensors_are_stepped(shape, block):
    param = torch.nn.Parameter(torch.ones(shape))
    optimizer = BAS([param], lr=0.1, block=block, weight_decay=0.0)
    param.grad = torch.ones(shape)
    optimizer.step()
    assert optimizer.state[param]["step"] == 1
    torch.testing.assert_close(param.detach(), torch.full(shape, 0.9))
    state_bytes(optimizer)


def test_a_parameter_without_gradient_is_left_alone():
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = BAS([a, b])
    a.grad = torch.ones(2)
    optimizer.step()
    assert b.tolist() == [1.0, 1.0]
    assert b not in optimizer.state


def test_the_callers_gradient_is_not_changed():
    param = torch.nn.Parameter(torch.ones(3, 4))
    param.grad = torch.arange(12.0).view(3, 4)
    BAS([param], maximize=True, nesterov=True).step()
    assert torch.equal(param.grad, torch.arange(12.0).view(3, 4))


def test_a_learning_rate_of_zero_changes_nothing_but_state():
    param = torch.nn.Parameter(torch.ones(3, 4))
    optimizer = BAS([param], lr=0.0)
    param.grad = torch.ones(3, 4)
    optimizer.step()
    assert torch.equal(param, torch.ones(3, 4))
    assert optimizer.state[param]["step"] == 1


@pytest.mark.parametrize("fused", [None, False])
def test_a_tensor_learning_rate_and_a_scheduler(fused):
    params = [torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2)]
    for param, lr in zip(params, (0.1, torch.tensor(0.1))):
        optimizer = BAS([param], lr=lr, fused=fused)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (t + 1))
        for _ in range(3):
            param.grad = torch.ones(3, 4)
            optimizer.step()
            scheduler.step()
    torch.testing.assert_close(*params)
    assert params[0][0, 0].item() == pytest.approx(1 - 0.1 - 0.05 - 0.1 / 3, abs=3e-3)


def test_a_closure_is_evaluated_with_gradients_enabled():
    param = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = BAS([param], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (param**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert param.item() < 2.0


def test_changing_nesterov_between_steps_is_legal_and_changes_no_state():
    states = []
    for switch in (False, True):
        param = torch.nn.Parameter(torch.zeros(4, 6))
        optimizer = BAS([param], lr=0.1)
        for step in range(4):
            optimizer.param_groups[0]["nesterov"] = switch and step % 2 == 1
            param.grad = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
            optimizer.step()
        states.append(optimizer.state_dict()["state"])
    same_state(*states)


def test_rounding_of_bfloat16_weights_at_random_lets_small_steps_add_up():
    weights = []
    for stochastic in (False, True):
        param = torch.nn.Parameter(torch.ones(64, 64, dtype=torch.bfloat16))
        group = {"params": [param], "stochastic_rounding": stochastic}
        optimizer = BAS([group], lr=1e-4, weight_decay=0.0)
        for _ in range(100):
            param.grad = torch.ones_like(param)
            optimizer.step()
        weights.append(param.detach().float().mean().item())
    assert weights[0] == 1.0
    assert weights[1] == pytest.approx(0.99, abs=1e-3)


def test_a_group_of_adamw_is_torchs():
    ours, theirs = (torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2))
    other = torch.nn.Parameter(torch.ones(3, 4))
    optimizer = BAS([{"params": [ours], "algorithm": "adamw"}, {"params": [other]}], lr=0.01)
    adamw = torch.optim.AdamW([theirs], lr=0.01)
    for step in range(5):
        for param in (ours, theirs, other):
            param.grad = torch.randn(3, 4, generator=torch.Generator().manual_seed(step))
        optimizer.step()
        adamw.step()
    torch.testing.assert_close(ours, theirs)
    assert set(optimizer.state[ours]) == {"step", "exp_avg", "exp_avg_sq"}


def test_an_interruption_between_tensors_leaves_a_state_that_goes_on(monkeypatch):
    model, optimizer = trained(steps=1)
    from optim_bas import paths as module

    real, calls = module.step_whole, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)

    monkeypatch.setattr(module, "step_whole", interrupted)
    feed(model, 1)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    monkeypatch.undo()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert [int(s["step"]) for s in optimizer.state.values()] == [3, 3, 2, 2, 2, 2]


@pytest.mark.parametrize(("row", "most"), [(64, 0.1407), (512, 0.127), (768, 0.1264)])
def test_the_state_is_an_eighth_of_adamws(row, most):
    param = torch.nn.Parameter(torch.zeros(16, row))
    param.grad = torch.ones(16, row)
    optimizer, adamw = BAS([param]), torch.optim.AdamW([param])
    optimizer.step()
    adamw.step()
    found = state_bytes(optimizer)
    assert found.of_adamw <= most
    assert found.bytes == 16 * row + 8 * 16
    assert state_bytes(adamw).of_adamw == 1.0


@pytest.mark.parametrize(
    ("dtype", "keys"),
    [
        (torch.float32, {}),
        (torch.float32, {"nesterov": True, "rounding": "stochastic"}),
        (torch.float32, {"block": "tensor", "rounding": "stochastic"}),
        (torch.float32, {"block": 1}),
        (torch.float32, {"block_dim": 1}),
        (torch.bfloat16, {"nesterov": True, "rounding": "stochastic", "stochastic_rounding": True}),
    ],
)
def test_a_plain_step_needs_no_more_than_eight_tiles_of_scratch(dtype, keys):
    """8 x 262144 float32, however large the tensor: its momentum is never decoded as a whole."""
    param = torch.nn.Parameter(torch.ones(2048, 1024, dtype=dtype))
    param.grad = torch.ones_like(param)
    optimizer = BAS([{"params": [param], **keys}], fused=False)
    optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        optimizer.step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    assert 0 < most <= 8 * 262_144 * 4
