"""The optimizer as a `torch.optim.Optimizer`: arguments, groups, checkpoints, and its agreement with torch's own."""

import copy
import math

import pytest
import torch
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, param_groups
from torch.optim import _muon


def parameter(shape, seed=0, dtype=torch.float32):
    return torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def gradient(shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -1.0},
        {"lr": float("nan")},
        {"lr": float("inf")},
        {"lr": "fast"},
        {"lr": torch.ones(2)},
        {"weight_decay": -0.1},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"eps": -1e-9},
        {"adjust_lr_fn": "muon"},
        {"zero_rows": "skip"},
        {"momentum_dtype": torch.int8},
        {"momentum_dtype": "float32"},
        {"nesterov": None},
        {"fused": "yes"},
        {"maximize": 2},
    ],
)
def test_arguments_out_of_range_are_refused_by_name(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        RMNP([parameter((2, 2))], **options)


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "muon"},
        {"input_dim": 2},
        {"stacked": 4},
        {"stacked": 0},
        {"stacked": True},
        {"kind": "matrix"},
        {"stochastic_rounding": 1},
        {"algorithm": "adamw", "betas": (0.9, 1.0)},
        {"algorithm": "adamw", "betas": 0.9},
        {"algorithm": "adamw", "stochastic_rounding": True},
    ],
)
def test_group_keys_that_do_not_fit_are_refused_by_name(keys):
    with pytest.raises(InvalidInput, match=list(keys)[-1]):
        RMNP([{"params": [parameter((6, 2))], **keys}])


@pytest.mark.parametrize("shape", [(), (5,)])
def test_vectors_are_refused_by_name_with_a_pointer_to_param_groups(shape):
    with pytest.raises(InvalidInput, match=r"(?s)param_groups.*layer\.bias"):
        RMNP([("layer.weight", parameter((2, 2))), ("layer.bias", parameter(shape))])


def test_a_refused_group_leaves_the_optimizer_as_it_was():
    optimizer = RMNP([parameter((2, 2))])
    group = {"params": [parameter((5,))]}
    with pytest.raises(InvalidInput):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    assert list(group) == ["params"]


def test_groups_given_are_not_changed():
    group = {"params": [parameter((2, 2))], "lr": 0.5}
    before = dict(group)
    RMNP([group])
    assert group.keys() == before.keys()
    assert group["params"] is before["params"]


def test_tensors_dicts_pairs_and_generators_are_accepted():
    p = parameter((2, 2))
    for params in ([p], (x for x in [p]), [{"params": p}], [("name", p)], [{"params": [("name", p)]}]):
        assert RMNP(params).param_groups[0]["params"][0] is p


def test_learning_rate_may_be_a_tensor_and_a_scheduler_drives_it():
    results = []
    for lr in (0.1, torch.tensor(0.1), torch.tensor([0.1])):
        p = parameter((3, 4))
        optimizer = RMNP([p], lr=lr)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        for seed in range(3):
            p.grad = gradient((3, 4), seed)
            optimizer.step()
            scheduler.step()
        results.append(p.detach())
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


def test_learning_rate_zero_changes_nothing_but_the_state():
    p = parameter((3, 4))
    before = p.detach().clone()
    optimizer = RMNP([p], lr=0.0)
    p.grad = gradient((3, 4))
    optimizer.step()
    assert torch.equal(p, before)
    assert optimizer.state[p]["momentum_buffer"].abs().sum() > 0


def test_closure_is_called_with_gradients_enabled_and_its_loss_returned():
    p = parameter((3, 4))
    optimizer = RMNP([p])

    def closure():
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    expected = p.detach().square().sum()
    assert torch.equal(optimizer.step(closure).detach(), expected)


def test_maximize_climbs():
    p, q = parameter((3, 4)), parameter((3, 4))
    p.grad, q.grad = gradient((3, 4)), -gradient((3, 4))
    RMNP([p], maximize=True).step()
    RMNP([q]).step()
    assert torch.equal(p, q)


@pytest.mark.parametrize("fused", [True, False])
def test_adamw_groups_equal_torch_adamw_bit_for_bit(fused):
    ours = [parameter((5, 7)), parameter((7,), 1)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    one = RMNP([{"params": ours, "algorithm": "adamw", "lr": 0.01, "weight_decay": 0.05}], fused=fused)
    two = torch.optim.AdamW(theirs, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.05, fused=fused)
    for step in range(5):
        for p, q in zip(ours, theirs):
            p.grad = gradient(p.shape, step)
            q.grad = p.grad.clone()
        one.step()
        two.step()
    for p, q in zip(ours, theirs):
        assert torch.equal(p, q)
        for key in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.equal(one.state[p][key], two.state[q][key])


def test_adamw_groups_are_fused_unless_told_otherwise():
    p, q = parameter((50, 7)), parameter((50, 7))
    one = RMNP([{"params": [p], "algorithm": "adamw"}], lr=0.01, weight_decay=0.0)
    two = torch.optim.AdamW([q], lr=0.01, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    for step in range(3):
        p.grad, q.grad = gradient((50, 7), step), gradient((50, 7), step)
        one.step()
        two.step()
    assert torch.equal(p, q)


@pytest.mark.parametrize("shape", [(24, 16), (16, 24)])
def test_with_newton_schulz_in_its_place_the_same_loop_is_muon(shape, monkeypatch):
    """Momentum, Nesterov term, scale and decay are Muon's; only the preconditioner differs."""
    import optim_rmnp.step

    def newton_schulz(param, u, norm, rule, moving, rounding):
        d = _muon._zeropower_via_newtonschulz(u, (3.4445, -4.7750, 2.0315), 5, 1e-7)
        param.mul_(1 - rule.lr * rule.weight_decay).add_(d, alpha=-rule.lr * rule.scale)

    monkeypatch.setattr(optim_rmnp.step, "apply", newton_schulz)
    p, q = parameter(shape), parameter(shape)
    ours = RMNP([p], lr=0.02, weight_decay=0.1, fused=False)
    muon = torch.optim.Muon([q], lr=0.02, weight_decay=0.1)
    for step in range(5):
        p.grad, q.grad = gradient(shape, step), gradient(shape, step)
        ours.step()
        muon.step()
    torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6)


def test_a_run_goes_from_muon_to_rmnp_and_back():
    p = parameter((6, 4))

    def run(optimizer, seeds):
        for seed in seeds:
            p.grad = gradient((6, 4), seed)
            optimizer.step()

    muon = torch.optim.Muon([p], lr=0.02)
    run(muon, range(2))
    rmnp = RMNP([p])
    rmnp.load_state_dict(muon.state_dict())
    run(rmnp, range(2, 4))
    back = torch.optim.Muon([p], lr=0.02)
    back.load_state_dict(rmnp.state_dict())
    expected = torch.zeros(6, 4)
    for seed in range(4):
        expected.lerp_(gradient((6, 4), seed), 0.05)
    torch.testing.assert_close(back.state[p]["momentum_buffer"], expected)
    run(back, range(4, 5))


def test_a_fresh_rmnp_checkpoint_continues_under_muon():
    p = parameter((6, 4))
    rmnp = RMNP([p])
    p.grad = gradient((6, 4))
    rmnp.step()
    muon = torch.optim.Muon([p])
    muon.load_state_dict(rmnp.state_dict())
    muon.step()
    assert p.isfinite().all()


def test_loading_leaves_the_state_dict_given_as_it_was():
    p = parameter((6, 4), dtype=torch.bfloat16)
    optimizer = RMNP([p], momentum_dtype=torch.float32)
    p.grad = gradient((6, 4), dtype=torch.bfloat16)
    optimizer.step()
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert saved["param_groups"] == before["param_groups"]


def test_a_state_dict_with_other_groups_is_refused_and_changes_nothing():
    one, two = RMNP([parameter((2, 2))]), RMNP([{"params": [parameter((2, 2))]}, {"params": [parameter((2, 2))]}])
    with pytest.raises(ValueError, match="groups"):
        one.load_state_dict(two.state_dict())
    assert len(one.param_groups) == 1


def test_a_float32_momentum_keeps_small_gradients_of_a_bfloat16_model():
    p = torch.nn.Parameter(torch.zeros(1, 2, dtype=torch.bfloat16))
    optimizer = RMNP([p], momentum_dtype=torch.float32, momentum=0.999)
    for _ in range(50):
        p.grad = torch.tensor([[1.0, 1e-3]], dtype=torch.bfloat16)
        optimizer.step()
    m = optimizer.state[p]["momentum_buffer"]
    assert m.dtype == torch.float32
    torch.testing.assert_close(m[0, 0].item(), 1 - 0.999**50, rtol=1e-4, atol=0)


def test_a_bfloat16_weight_moves_on_average_with_stochastic_rounding_and_never_without():
    def end(**keys):
        p = torch.nn.Parameter(torch.ones(64, 64, dtype=torch.bfloat16))
        optimizer = RMNP([{"params": [p], **keys}], lr=1e-3 * 8, weight_decay=0.0)  # an entry moves by 1e-3
        for _ in range(20):
            p.grad = torch.ones(64, 64, dtype=torch.bfloat16)
            optimizer.step()
        return p.detach().float()

    assert torch.equal(end(), torch.ones(64, 64))
    moved = end(stochastic_rounding=True)
    # 20 steps of 1e-3; a rounding's deviation is at most 2^-9, over 4096 entries and 20 steps
    assert moved.mean().item() == pytest.approx(0.98, abs=5 * 2**-9 * math.sqrt(20 / 4096))


def test_stochastic_rounding_is_the_same_in_every_replica():
    ends = []
    for _ in range(2):
        torch.rand(3)  # the global generator has no part in it
        p = parameter((8, 8), dtype=torch.bfloat16)
        optimizer = RMNP([{"params": [p], "stochastic_rounding": True}])
        for seed in range(4):
            p.grad = gradient((8, 8), seed, torch.bfloat16)
            optimizer.step()
        ends.append(p.detach())
    assert torch.equal(*ends)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_stochastic_rounding_lands_on_a_neighbour_and_is_right_on_average(dtype):
    from optim_rmnp.step import round_stochastically

    generator = torch.Generator().manual_seed(0)
    for value in (1.2345, -3.3e-3, 7.7e-6, 123.4):
        x = torch.full((20000,), value)
        rounded = round_stochastically(x, dtype, generator).double()
        near = x[:1].to(dtype).double().item()
        levels = rounded.unique()
        assert len(levels) == 2
        assert near in levels
        width = (levels[1] - levels[0]).item()
        assert abs(rounded.mean().item() - value) < 4 * width / 2 / math.sqrt(20000) + 1e-7 * abs(value)
    special = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0])
    torch.testing.assert_close(
        round_stochastically(special, dtype, generator).float()[[0, 1, 2]], special[[0, 1, 2]], equal_nan=True
    )


def test_half_precision_weights_are_rounded_once():
    p = parameter((4, 32), dtype=torch.bfloat16)
    exact = p.detach().float()
    g = gradient((4, 32), dtype=torch.bfloat16)
    p.grad = g
    RMNP([p], lr=0.01, weight_decay=0.1).step()
    u = g.float() / g.float().norm(dim=1, keepdim=True)
    expected = (exact * (1 - 0.001) - 0.01 * u).to(torch.bfloat16)
    same = (p == expected).float().mean()
    assert same > 0.98  # the float32 sums differ by an ulp, which may cross a rounding boundary
    torch.testing.assert_close(p.detach(), expected, rtol=2**-7, atol=0)


def test_one_scheduler_and_one_state_dict_serve_matrices_and_the_rest():
    model = torch.nn.Sequential(torch.nn.Embedding(9, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 9))
    optimizer = RMNP(param_groups(model, head="2"))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model(torch.tensor([1, 2])).sum().backward()
    optimizer.step()
    scheduler.step()
    assert sorted({g["lr"] for g in optimizer.param_groups}) == [1.5e-3, 2e-3]
    twin = copy.deepcopy(model)
    other = RMNP(param_groups(twin, head="2"))
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # torch's loading may share tensors
    for m, o in ((model, optimizer), (twin, other)):
        m.zero_grad()
        m(torch.tensor([3, 4])).sum().backward()
        o.step()
    for a, b in zip(model.parameters(), twin.parameters()):
        assert torch.equal(a, b)


def test_deepcopy_and_pickle_keep_the_optimizer_usable():
    import pickle

    p = parameter((3, 4))
    optimizer = RMNP([p])
    p.grad = gradient((3, 4))
    optimizer.step()
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):  # noqa: S301 - our own bytes
        q = twin.param_groups[0]["params"][0]
        q.grad = gradient((3, 4), 2)
        twin.step()
        twin.load_state_dict(twin.state_dict())
    p.grad = gradient((3, 4), 2)
    optimizer.step()
    assert torch.equal(p, q)


def test_state_is_one_tensor_a_matrix():
    p = parameter((30, 40))
    p.grad = gradient((30, 40))
    optimizer = RMNP([p])
    optimizer.step()
    assert {k: v.numel() for k, v in optimizer.state[p].items()} == {"momentum_buffer": 1200}
