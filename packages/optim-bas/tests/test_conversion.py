"""From AdamW in the middle of a run: the optimizer, and its checkpoints."""

import copy

import pytest
import torch
from lemmata_core import InvalidInput
from optim_bas import BAS, decode
from optim_bas.conversion import convert_checkpoint


def adamw_run(steps=5, **keys):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(
        [{"params": model[0].parameters(), "lr": 0.02}, {"params": model[2].parameters(), "weight_decay": 0.3}],
        lr=0.01,
        betas=(0.9, 0.95),
        **keys,
    )
    data = torch.randn(64, 12)
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    return model, optimizer


def test_momentum_second_moment_step_and_groups_are_taken_over():
    model, adamw = adamw_run()
    before = copy.deepcopy(adamw.state_dict())
    bas = BAS.from_adamw(adamw)
    assert [(g["lr"], g["weight_decay"], g["betas"]) for g in bas.param_groups] == [
        (0.02, 0.01, (0.9, 0.95)),
        (0.01, 0.3, (0.9, 0.95)),
    ]
    for param in model.parameters():
        old, new = adamw.state[param], bas.state[param]
        assert new["step"] == 5
        rows = old["exp_avg_sq"].reshape(len(new["exp_avg_sq"]), -1)
        torch.testing.assert_close(new["exp_avg_sq"], rows.mean(1))
        m = old["exp_avg"].reshape(rows.shape)
        back = decode(new["exp_avg"].reshape(rows.shape), new["exp_avg_scale"].unsqueeze(1))
        torch.testing.assert_close(back, m, rtol=1 / 16, atol=float(m.abs().max()) * 2**-18)
    for a, b in zip(before["state"].values(), adamw.state_dict()["state"].values()):
        assert all(torch.equal(a[k], b[k]) for k in a)


def test_blocks_of_one_go_on_exactly_as_adamw_would():
    model, adamw = adamw_run()
    bas = BAS.from_adamw(adamw, block=1, momentum_dtype=torch.float32)
    twin = copy.deepcopy(model)
    for step in range(5):
        for p, q in zip(model.parameters(), twin.parameters()):
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(step))
            q.grad = p.grad.clone()
        bas.step()
    twin_adamw = torch.optim.AdamW(
        [{"params": twin[0].parameters()}, {"params": twin[2].parameters()}], lr=0.01, betas=(0.9, 0.95)
    )
    twin_adamw.load_state_dict(adamw.state_dict())
    for step in range(5):
        for q in twin.parameters():
            q.grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(step))
        twin_adamw.step()
    for p, q in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keys", [{}, {"block": "tensor"}, {"momentum_dtype": torch.bfloat16}, {"nesterov": True}])
def test_a_converted_checkpoint_is_what_from_adamw_makes(keys, tmp_path):
    model, adamw = adamw_run()
    torch.save({"model": model.state_dict(), "optimizer": adamw.state_dict(), "epoch": 3}, tmp_path / "a.pt")
    converted = convert_checkpoint(torch.load(tmp_path / "a.pt", weights_only=True), **keys)
    assert converted["epoch"] == 3
    direct = BAS.from_adamw(adamw, **keys)
    groups = [{"params": g["params"]} for g in direct.param_groups]
    loaded = BAS(groups)
    loaded.load_state_dict(converted["optimizer"])
    for param in model.parameters():
        assert list(direct.state[param]) == list(loaded.state[param])
        for name, value in direct.state[param].items():
            assert torch.equal(value, loaded.state[param][name]), name
    for a, b in zip(direct.param_groups, loaded.param_groups):
        assert {k: v for k, v in a.items() if k != "params"} == {k: v for k, v in b.items() if k in a and k != "params"}


def test_amsgrad_and_other_optimizers_are_refused():
    _, adamw = adamw_run(amsgrad=True)
    with pytest.raises(InvalidInput, match="amsgrad"):
        BAS.from_adamw(adamw)
    with pytest.raises(InvalidInput, match="amsgrad"):
        convert_checkpoint(adamw.state_dict())
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], momentum=0.9)
    with pytest.raises(InvalidInput, match=r"torch\.optim\.AdamW"):
        BAS.from_adamw(sgd)
    with pytest.raises(InvalidInput, match="checkpoint"):
        convert_checkpoint({"weights": {}})


def test_an_optimizer_that_has_not_stepped_is_converted_too():
    param = torch.nn.Parameter(torch.ones(2, 3))
    bas = BAS.from_adamw(torch.optim.AdamW([("w", param)], lr=0.25))
    assert not bas.state
    assert bas.param_groups[0]["param_names"] == ["w"]
