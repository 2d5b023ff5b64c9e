"""Bad input is refused by name before anything moves; what is accepted is used as it was meant."""

import copy

import numpy as np
import pytest
import torch
from lemmata_core import InvalidInput
from optim_bas import BAS, bas_step, block_scale, decode, encode, pack_signs, state_bytes, unpack_signs
from optim_bas.conversion import convert_checkpoint

HYPER = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
ONE = torch.tensor(1.0)


def stepped(cls=BAS, shape=(2, 3), **keys):
    param = torch.nn.Parameter(torch.ones(shape))
    param.grad = torch.ones(shape)
    optimizer = cls([param], **keys)
    optimizer.step()
    return param, optimizer


def test_adamws_call_works_unchanged():
    param = torch.nn.Parameter(torch.ones(2, 3))
    BAS(
        [param], 1e-3, (0.9, 0.999), 1e-8, 1e-2, False,
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None,
    )  # fmt: skip
    assert {k: BAS([param]).defaults[k] for k in ("lr", "betas", "eps", "weight_decay")} == {
        k: torch.optim.AdamW([param]).defaults[k] for k in ("lr", "betas", "eps", "weight_decay")
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"amsgrad": True}, "amsgrad: expected False: a running maximum"),
        ({"foreach": True}, "foreach: expected None or False: lists"),
        ({"capturable": True}, "capturable: expected False: the step number"),
        ({"differentiable": True}, "differentiable: expected False: the sign"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"betas": (-0.1, 0.9)}, "betas"),
        ({"betas": 0.9}, "betas"),
        ({"eps": -1e-8}, "eps"),
        ({"lr": -1.0}, "lr"),
        ({"lr": torch.ones(2)}, "lr"),
        ({"weight_decay": float("nan")}, "weight_decay"),
        ({"block": "column"}, "block"),
        ({"block": 0}, "block"),
        ({"block": ("rows", 0)}, "block"),
        ({"block": ("columns", 2)}, "block"),
        ({"block": True}, "block"),
        ({"scale": "max"}, "scale"),
        ({"rounding": "up"}, "rounding"),
        ({"momentum_dtype": torch.float16}, "momentum_dtype"),
        ({"seed": -1}, "seed"),
        ({"nesterov": "yes"}, "nesterov"),
        ({"fused": True, "momentum_dtype": torch.float32}, "fused"),
        ({"params": [torch.nn.Parameter(torch.ones(3, 4))], "fused": True, "block_dim": 1}, "fused"),
        ({"params": [torch.nn.Parameter(torch.ones(3, 4).t())], "fused": True}, "fused"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_state_exists(keys, message):
    group = {"params": keys.get("params", [torch.nn.Parameter(torch.ones(2, 3))])}
    if "block_dim" in keys:
        group["block_dim"] = keys["block_dim"]
    with pytest.raises(InvalidInput, match=message):
        BAS([group], **{key: value for key, value in keys.items() if key not in ("params", "block_dim")})


def test_a_group_that_does_not_fit_leaves_the_optimizer_as_it_was():
    optimizer = BAS([torch.nn.Parameter(torch.ones(2, 3))])
    for group in (
        {"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]},
        {"params": [torch.nn.Parameter(torch.ones(2, 2))], "block_dim": 2},
        {"params": [torch.nn.Parameter(torch.ones(2, 2))], "algorithm": "lion"},
    ):
        with pytest.raises(InvalidInput):
            optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1


def test_a_sparse_gradient_is_refused_and_nothing_moves():
    table = torch.nn.Embedding(5, 3, sparse=True)
    other = torch.nn.Parameter(torch.ones(2))
    other.grad = torch.ones(2)
    optimizer = BAS([other, table.weight])
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(InvalidInput, match="sparse=False"):
        optimizer.step()
    assert other.tolist() == [1.0, 1.0]
    assert not optimizer.state


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"lr": "0.1"}, "lr"),
        ({"lr": None}, "lr"),
        ({"lr": float("inf")}, "lr"),
        ({"eps": "1e-8"}, "eps"),
        ({"betas": ("0.9", 0.95)}, "betas"),
        ({"betas": (0.9,)}, "betas"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"nesterov": 1}, "nesterov"),
        ({"maximize": None}, "maximize"),
        ({"exchange": "mean"}, "exchange"),
        ({"block": 2.0}, "block"),
    ],
)
def test_options_are_of_their_kind(keys, name):
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        BAS([torch.nn.Parameter(torch.ones(2, 3))], **keys)


@pytest.mark.parametrize("lr", [np.float32(0.5), np.array(0.5), torch.tensor(0.5), torch.tensor([0.5])])
def test_numbers_of_any_library_are_numbers(lr):
    param, _ = stepped(lr=lr, weight_decay=0.0)
    assert param.unique().tolist() == [0.5]


def test_an_exchange_is_not_an_option_of_one_group():
    with pytest.raises(InvalidInput, match="exchange: expected given to the optimizer"):
        BAS([{"params": [torch.nn.Parameter(torch.ones(2))], "exchange": object()}])


def test_parameters_in_eight_bits_are_refused():
    with pytest.raises(InvalidInput, match="params: expected floating-point tensors of 16 bits"):
        BAS([torch.nn.Parameter(torch.ones(2).to(torch.float8_e4m3fn))])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"betas": (1.0, 0.9)}, "betas"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"betas": 0.9}, "betas"),
        ({"eps": -1.0}, "eps"),
        ({"lr": float("nan")}, "lr"),
        ({"weight_decay": "0.1"}, "weight_decay"),
        ({"step": True}, "step"),
        ({"step": 1.0}, "step"),
        ({"nesterov": "yes"}, "nesterov"),
        ({"param": torch.ones(2, 4, dtype=torch.int64)}, "param"),
        ({"param": np.ones((2, 4), np.float32)}, "param"),
        ({"grad": None}, "grad"),
        ({"grad": torch.eye(2).to_sparse()}, "grad"),
        ({"momentum": torch.zeros(2, 4, dtype=torch.uint8)}, "momentum"),
        ({"v": torch.zeros(2, dtype=torch.int32)}, "v"),
    ],
)
def test_the_reference_step_refuses_and_changes_nothing(change, name):
    given = {"param": torch.ones(2, 4), "grad": torch.ones(2, 4), "momentum": torch.zeros(2, 4), "v": torch.zeros(2)}
    given = {**given, "step": 1, **HYPER, **change}
    before = copy.deepcopy(given)
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        bas_step(**given)
    for key in ("param", "momentum", "v"):
        assert np.array_equal(given[key], before[key])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"step": 0}, "step"),
        ({"step": 1.5}, "step"),
        ({"betas": (1, 0.9)}, "betas"),
        ({"eps": -1}, "eps"),
        ({"scale": "max"}, "scale"),
        ({"direction": torch.ones(2, 4, dtype=torch.int64)}, "direction"),
        ({"v": [1.0, 2.0]}, "v"),
    ],
)
def test_block_scale_refuses(change, name):
    given = {"direction": torch.ones(2, 4), "v": torch.ones(2), "step": 1, "betas": (0.9, 0.95), "eps": 0.0, **change}
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        block_scale(**given)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_block_scale_of_nothing_is_zero(shape):
    a = block_scale(torch.ones(shape), torch.ones(shape[0]), 1, betas=(0.9, 0.95), eps=0.0)
    assert torch.equal(a, torch.zeros(shape[0]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: encode(torch.ones(2, 3), torch.ones(3, 1)), "scale"),
        (lambda: encode(torch.ones(2, 3), "one"), "scale"),
        (lambda: encode([1.0], ONE), "x"),
        (lambda: encode(torch.ones(3), ONE, rounding="stochastic", generator=3), "generator"),
        (lambda: decode(torch.zeros(2, 3, dtype=torch.uint8), torch.ones(3, 1)), "scale"),
        (lambda: decode(np.zeros(3, np.uint8), ONE), "code"),
        (lambda: pack_signs([1.0, -1.0]), "x"),
        (lambda: pack_signs(torch.ones(2, dtype=torch.complex64)), "x"),
        (lambda: unpack_signs(torch.zeros(1, dtype=torch.uint8), -1), "numel"),
        (lambda: unpack_signs(torch.zeros(1, dtype=torch.uint8), 2.0), "numel"),
        (lambda: unpack_signs(b"\x00", 3), "packed"),
        (lambda: state_bytes({}), "optimizer"),
        (lambda: BAS([torch.nn.Parameter(torch.ones(2))], eps=10**400), "eps"),
    ],
)
def test_the_small_functions_refuse(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        call()


@pytest.mark.parametrize(
    ("key", "value"), [("block", "tensor"), ("momentum_dtype", torch.float32), ("momentum_dtype", torch.bfloat16)]
)
def test_an_option_that_shapes_the_state_cannot_be_changed_under_way(key, value):
    param, optimizer = stepped()
    before = param.detach().clone()
    optimizer.param_groups[0][key] = value
    with pytest.raises(InvalidInput, match=r"^state: expected parameter 0"):
        optimizer.step()
    assert torch.equal(param, before)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: stepped(shape=(5, 7))[1], id="shape"),
        pytest.param(lambda: stepped(block="tensor")[1], id="blocks"),
        pytest.param(lambda: stepped(torch.optim.AdamW)[1], id="adamw"),
    ],
)
@pytest.mark.parametrize("momentum_dtype", [torch.float8_e4m3fn, torch.float32])
def test_a_checkpoint_of_other_shapes_is_refused_and_nothing_changes(make, momentum_dtype):
    _, optimizer = stepped(momentum_dtype=momentum_dtype)
    saved = make().state_dict()
    for group in saved["param_groups"]:
        group.pop("block", None)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(InvalidInput, match=r"^state: expected parameter 0"):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert all(torch.equal(v, after["state"][0][k]) for k, v in before["state"][0].items())


NO_STATE_DICTS = [
    None,
    {},
    {"state": {}},
    [],
    {"state": 3, "param_groups": []},
    {"state": {}, "param_groups": 3},
    {"state": {}, "param_groups": [3]},
    {"state": {}, "param_groups": [{"lr": 0.1}]},
]


@pytest.mark.parametrize("value", NO_STATE_DICTS)
def test_what_is_no_state_dict_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^state_dict: expected"):
        stepped()[1].load_state_dict(value)


@pytest.mark.parametrize(
    ("saved", "name"),
    [
        ({"block": 0}, "block"),
        ({"betas": (2, 0.9)}, "betas"),
        ({"scale": "max"}, "scale"),
        ({"amsgrad": True}, "amsgrad"),
    ],
)
def test_a_checkpoint_cannot_bring_options_that_the_constructor_refuses(saved, name):
    param, optimizer = stepped()
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(InvalidInput, match=f"^{name}: expected"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0], **saved}]})
    assert optimizer.state_dict()["param_groups"] == before["param_groups"]
    assert torch.equal(optimizer.state[param]["exp_avg"], before["state"][0]["exp_avg"])


def test_a_checkpoint_may_bring_a_rate_that_its_schedule_took_below_zero_and_a_path_that_is_not_here():
    param = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = BAS([param])
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0], "lr": -1e-20, "fused": True}]})
    assert optimizer.param_groups[0]["lr"] == -1e-20
    param.grad = torch.ones_like(param)
    optimizer.step()


@pytest.mark.parametrize("params", [None, 3, [{"lr": 0.1}], [{"params": None}]])
def test_what_holds_no_parameters_is_refused(params):
    with pytest.raises(InvalidInput, match=r"^params: expected"):
        BAS(params)


def _without(key):
    return lambda state: state.pop(key)


@pytest.mark.parametrize(
    "spoil",
    [
        *(pytest.param(_without(key), id=f"no {key}") for key in ("step", "exp_avg", "exp_avg_sq")),
        pytest.param(lambda state: state.update(exp_avg=torch.zeros(3, 2)), id="momentum of another shape"),
        pytest.param(lambda state: state.update(exp_avg=torch.zeros(2, 3, dtype=torch.int)), id="momentum of ints"),
        pytest.param(lambda state: state.update(step="5"), id="step in words"),
        pytest.param(lambda state: state.update(step=torch.ones(2)), id="two steps"),
    ],
)
def test_an_incomplete_state_of_adamw_is_refused(spoil):
    param, adamw = stepped(torch.optim.AdamW)
    spoil(adamw.state[param])
    with pytest.raises(InvalidInput, match=r"^optimizer: expected AdamW's state .* of shape \(2, 3\), got parameter 0"):
        BAS.from_adamw(adamw)
    with pytest.raises(InvalidInput, match=r"^checkpoint: expected AdamW's state"):
        convert_checkpoint(adamw.state_dict())


@pytest.mark.parametrize("value", NO_STATE_DICTS[4:])
def test_a_malformed_checkpoint_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^checkpoint: expected"):
        convert_checkpoint({"optimizer": value})
    with pytest.raises(InvalidInput, match=r"^checkpoint: expected AdamW's groups, got a group with .*'eps'"):
        convert_checkpoint({"state": {}, "param_groups": [{"params": [0], "betas": (0.9, 0.9), "eps": 1e-8}]})


@pytest.mark.parametrize("key", ["blok", "params", "workers"])
def test_a_misspelt_override_is_refused(key):
    _, adamw = stepped(torch.optim.AdamW)
    for call in (BAS.from_adamw, lambda a, **keys: convert_checkpoint(a.state_dict(), **keys)):
        with pytest.raises(InvalidInput, match=f"^{key}: expected one of"):
            call(adamw, **{key: 3})


def test_a_tensor_learning_rate_is_not_shared_with_the_adamw_it_came_from():
    _, adamw = stepped(torch.optim.AdamW, lr=torch.tensor(0.5))
    bas = BAS.from_adamw(adamw)
    bas.param_groups[0]["lr"].fill_(0.25)  # what a scheduler does
    assert adamw.param_groups[0]["lr"].item() == 0.5


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: stepped()[1], id="BAS"),
        pytest.param(lambda: stepped(momentum_dtype=torch.float32, block=1)[1], id="BAS like AdamW"),
        pytest.param(lambda: stepped(torch.optim.NAdam)[1], id="NAdam"),
        pytest.param(lambda: stepped(torch.optim.Adam, weight_decay=0.1)[1], id="Adam with coupled decay"),
        pytest.param(lambda: stepped(torch.optim.RMSprop)[1], id="RMSprop"),
        pytest.param(lambda: stepped(torch.optim.Adamax)[1], id="Adamax"),
        pytest.param(lambda: torch.optim.SGD([torch.nn.Parameter(torch.ones(2))]), id="SGD without state"),
    ],
)
def test_checkpoints_of_other_optimizers_are_not_converted(make):
    with pytest.raises(InvalidInput, match=r"^checkpoint: expected AdamW's (state|groups)"):
        convert_checkpoint({"optimizer": make().state_dict()})


def test_a_checkpoint_is_converted_at_any_depth_and_the_rest_handed_on():
    _, adamw = stepped(torch.optim.AdamW)
    model = {"w": torch.ones(3)}
    states = [adamw.state_dict(), (adamw.state_dict(), 1)]
    found = convert_checkpoint({"model": model, "optimizer_states": states, "loops": {"epoch": [1, 2]}})
    assert found["model"] is model
    assert found["loops"] == {"epoch": [1, 2]}
    assert found["optimizer_states"][0]["state"][0]["exp_avg"].dtype == torch.uint8
    inner, one = found["optimizer_states"][1]
    assert one == 1
    assert inner["param_groups"][0]["algorithm"] == "bas"


def test_allocate_makes_the_state_of_every_group():
    bas, adamw = (torch.nn.Parameter(torch.ones(2, 8)) for _ in range(2))
    optimizer = BAS([{"params": [bas]}, {"params": [adamw], "algorithm": "adamw"}])
    optimizer.allocate()
    assert state_bytes(optimizer).by_tensor == {"group 0, tensor 0": 16 + 8 * 2, "group 1, tensor 0": 8 * 16}
    kept = {key: value.clone() for key, value in optimizer.state[adamw].items()}
    assert kept["step"] == 0
    adamw.grad = torch.ones_like(adamw)
    optimizer.step()
    optimizer.allocate()
    assert optimizer.state[adamw]["step"] == 1


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("scale", ["rms", "mean"])
def test_with_eps_zero_a_block_whose_second_moment_vanished_stays(fused, scale):
    """beta2 = 0 forgets at once, and squares of 1e-30 are below float32: a_b must be finite, never inf or NaN."""
    param = torch.nn.Parameter(torch.ones(2, 20))
    optimizer = BAS([param], betas=(0.5, 0.0), eps=0.0, weight_decay=0.0, scale=scale, fused=fused)
    for value in (1.0, 0.0, 1e-30):
        param.grad = torch.full((2, 20), value)
        optimizer.step()
        assert param.isfinite().all()
        assert param.detach().unique().item() == pytest.approx(1 - 1e-3)
