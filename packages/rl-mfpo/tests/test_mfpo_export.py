import numpy as np
import pytest
import torch
from lemmata_core import InvalidInput
from rl_mfpo import MFPO
from rl_mfpo.spaces import ActionScale, Spaces

LOW, HIGH = np.float32([-2, 0, 10]), np.float32([2, 1, 30])


@pytest.fixture(scope="module")
def agent():
    made = MFPO(Spaces(4, ActionScale(LOW, HIGH)), config="small", seed=0, device="cpu")
    with torch.no_grad():
        for parameter in made.policy.velocity_net.parameters():
            parameter.mul_(1.5)  # so far from the start that the clip works
    return made


def inputs(n):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)


def expected(agent, obs, noise, steps):
    unit = agent.policy.sample(torch.from_numpy(obs), steps=steps, noise=torch.from_numpy(noise))
    return agent.spaces.scale.to_env(unit.numpy())


@pytest.mark.parametrize("steps", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_the_onnx_policy_is_the_policy(agent, tmp_path, steps):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = agent.export(tmp_path / "p.onnx", format="onnx", steps=steps)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["observation", "noise"]
    for n in (1, 2, 257):
        obs, noise = inputs(n)
        (action,) = session.run(["action"], {"observation": obs, "noise": noise})
        wanted = expected(agent, obs, noise, steps)
        np.testing.assert_allclose(action, wanted, rtol=1e-5, atol=1e-5)
        assert (action >= LOW).all()
        assert (action <= HIGH).all()
    assert (np.isclose(wanted, HIGH) | np.isclose(wanted, LOW)).any(), "some were clipped"


@pytest.mark.parametrize("steps", [None, pytest.param(4, marks=pytest.mark.slow)])
def test_the_exported_program_is_the_policy(agent, tmp_path, steps):
    path = agent.export(tmp_path / "p.pt2", format="torch_export", steps=steps)
    module = torch.export.load(path).module()
    for n in (1, 5):
        obs, noise = inputs(n)
        action = module(torch.from_numpy(obs), torch.from_numpy(noise)).detach().numpy()
        np.testing.assert_allclose(action, expected(agent, obs, noise, steps), rtol=1e-5, atol=1e-5)


def test_exporting_leaves_the_policy_as_it_was(agent, tmp_path):
    before = {k: v.clone() for k, v in agent.policy.state_dict().items()}
    agent.export(tmp_path / "p.pt2", format="torch_export")
    assert all(torch.equal(v, before[k]) for k, v in agent.policy.state_dict().items())
    assert all(p.requires_grad for p in agent.policy.velocity_net.parameters())


def test_what_cannot_be_exported_is_told(agent, tmp_path):
    with pytest.raises(InvalidInput, match="format: expected one of 'onnx', 'torch_export'"):
        agent.export(tmp_path / "p", format="onxx")
    with pytest.raises(InvalidInput, match="steps"):
        agent.export(tmp_path / "p", format="onnx", steps=0)
    with pytest.raises(InvalidInput, match="a folder that exists"):
        agent.export(tmp_path / "no" / "p.onnx")
    assert not list(tmp_path.iterdir())
