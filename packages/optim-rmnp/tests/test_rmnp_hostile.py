"""Inputs that once passed the door, or came through it changed."""

import copy

import pytest
import torch
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, describe, param_groups, rmnp_step, row_normalize
from torch import nn


def matrix(*shape):
    return nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    "group",
    [{"stacked": 1.0}, {"stacked": True}, {"lr": "1e-3"}, {"lr": b"1"}, {"weight_decay": "0.1"}, {"eps": 10**400}],
)
def test_a_value_that_only_looks_like_a_number_is_refused(group):
    RMNP([{"params": [matrix(3, 2)], "stacked": 1}])  # the right one was there before
    with pytest.raises(InvalidInput):
        RMNP([{"params": [matrix(3, 2)], **group}])


@pytest.mark.parametrize(
    ("options", "named"), [({"eps": 10**400}, "eps"), ({"eps": True}, "eps"), ({"dim": True}, "dim")]
)
def test_row_normalize_refuses_what_is_no_such_number(options, named):
    with pytest.raises(InvalidInput, match=f"^{named}: expected"):
        row_normalize(torch.ones(2, 3), **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", "3"), ("lr", 1j), ("eps", 10**400), ("eps", -1.0), ("momentum", 1.0), ("scale", float("nan"))],
)
def test_the_reference_step_refuses_numbers_that_are_none(name, value):
    numbers = {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "eps": 1e-12, "scale": 1.0} | {name: value}
    weights = torch.ones(2, 3)
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        rmnp_step(weights, torch.ones(2, 3), torch.zeros(2, 3), nesterov=True, **numbers)
    assert torch.equal(weights, torch.ones(2, 3))


@pytest.mark.parametrize("name", ["lr", "aux_lr", "weight_decay", "aux_weight_decay"])
@pytest.mark.parametrize("value", [float("nan"), -1.0, "1e-3", torch.zeros(2), torch.zeros(1).numpy()])
def test_param_groups_refuses_rates_that_are_no_numbers(name, value):
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        param_groups(nn.Linear(2, 2), **{name: value})


@pytest.mark.parametrize("fused", [None, False])
def test_a_row_of_zeros_stays_where_it_is_with_eps_zero(fused):
    w = matrix(3, 2)
    before = w.detach().clone()
    w.grad = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    RMNP([w], weight_decay=0.0, eps=0.0, fused=fused).step()
    assert torch.equal(w[[0, 2]], before[[0, 2]])
    assert torch.isfinite(w).all()
    assert torch.equal(row_normalize(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), eps=0.0)[0], torch.zeros(2))
    # a floor that float32 cannot hold
    assert row_normalize(torch.tensor([[3.0, 4.0]]), eps=1e300).abs().max() < 1e-30


@pytest.mark.parametrize("algorithm", ["rmnp", "adamw"])
def test_a_loaded_state_dict_is_left_unchanged_by_the_steps_that_follow(algorithm):
    w = matrix(3, 2)
    optimizer = RMNP([{"params": [w], "algorithm": algorithm}])
    w.grad = torch.ones(3, 2)
    optimizer.step()
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved["state"])
    other = matrix(3, 2)
    resumed = RMNP([{"params": [other], "algorithm": algorithm}])
    resumed.load_state_dict(saved)
    other.grad = torch.full((3, 2), -2.0)
    resumed.step()
    for key, value in before[0].items():
        assert torch.equal(saved["state"][0][key], value)


@pytest.mark.parametrize(
    ("saved", "own"),
    [
        ({"params": [matrix(3, 2)]}, {"params": [matrix(2, 30)]}),
        ({"params": [matrix(6, 2)], "stacked": 3}, {"params": [matrix(4, 2)]}),
        ({"params": [matrix(3, 2)]}, {"params": [matrix(3)], "algorithm": "adamw"}),
    ],
)
def test_a_checkpoint_of_other_tensors_is_refused_before_anything_changes(saved, own):
    source, target = RMNP([saved]), RMNP([own])
    for p in saved["params"]:
        p.grad = torch.ones_like(p)
    source.step()
    before = target.state_dict()
    with pytest.raises(InvalidInput):
        target.load_state_dict(source.state_dict())
    assert target.state_dict() == before


def test_a_muon_checkpoint_does_not_fit_an_adamw_group():
    w = matrix(3, 2)
    muon = torch.optim.Muon([w])
    w.grad = torch.ones(3, 2)
    muon.step()
    with pytest.raises(InvalidInput, match="exp_avg"):
        RMNP([{"params": [w], "algorithm": "adamw"}]).load_state_dict(muon.state_dict())


def test_a_key_that_was_changed_for_the_worse_stops_the_step_before_any_parameter_moves():
    first, second = matrix(2, 2), matrix(3, 2)
    optimizer = RMNP([{"params": [first]}, {"params": [second]}])
    first.grad, second.grad = torch.ones(2, 2), torch.ones(3, 2)
    optimizer.param_groups[1]["stacked"] = 2
    before = first.detach().clone()
    with pytest.raises(InvalidInput, match="stacked"):
        optimizer.step()
    assert torch.equal(first, before)


@pytest.mark.parametrize("what", [5, None, nn.Linear(2, 2), [{"params": [nn.Parameter(torch.ones(3))]}]])
def test_what_cannot_be_described_is_refused(what):
    with pytest.raises(InvalidInput):
        describe(what)


@pytest.mark.parametrize("stacked", [3, {"weight": [2]}, {"weight": 0}, {3: 2}])
def test_stacked_that_is_no_mapping_to_counts_is_refused(stacked):
    with pytest.raises(InvalidInput, match="stacked"):
        param_groups(nn.Linear(2, 2), stacked=stacked)


def test_a_lazy_module_is_refused_instead_of_being_taken_for_a_vector():
    with pytest.raises(InvalidInput, match="lazy"):
        param_groups(nn.LazyLinear(3))


def test_a_head_of_several_layers_goes_to_adamw_as_a_whole():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)))
    table = describe(param_groups(model, head="1"))
    assert (table["0.weight"].algorithm, table["1.1.weight"].algorithm) == ("rmnp", "adamw")


def test_the_reference_step_takes_floating_point_tensors_only():
    options = {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "nesterov": True, "eps": 1e-12, "scale": 1.0}
    ones = torch.ones(1, 1)
    for bad in ([[1.0]], torch.ones(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.complex64)):
        with pytest.raises(InvalidInput, match="floating-point"):
            rmnp_step(bad, ones, ones, **options)


def test_fused_is_refused_where_the_kernel_cannot_run():
    pytest.importorskip("numba")
    with pytest.raises(InvalidInput, match="fused"):
        RMNP([matrix(3, 2)], fused=True, momentum_dtype=torch.bfloat16)
    with pytest.raises(InvalidInput, match="fused"):
        RMNP([nn.Parameter(torch.randn(3, 4)[:, ::2])], fused=True)


def test_the_reference_step_refuses_sparse_tensors_and_expanded_views():
    rule = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True, "eps": 1e-12, "scale": 1.0}
    one = torch.ones(4, 3)
    with pytest.raises(InvalidInput, match="dense"):
        rmnp_step(one.clone(), one.to_sparse(), one.clone(), **rule)
    with pytest.raises(InvalidInput, match="momentum_buffer"):
        rmnp_step(one.clone(), one, torch.ones(4, 1).expand(4, 3), **rule)
    with pytest.raises(InvalidInput, match=r"^x:"):
        row_normalize(one.to_sparse())
