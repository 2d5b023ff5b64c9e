import subprocess
import sys

import pytest
from lemmata_core import InvalidInput
from rl_mfpo import MFPOConfig


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(InvalidInput, match=r"k_polcy.*k_policy"):
        MFPOConfig().override(k_polcy=3)
    with pytest.raises(InvalidInput, match=r"batchsize.*batch_size"):
        MFPOConfig.preset("small", batchsize=3)
    with pytest.raises(InvalidInput, match=r"preset.*'small'"):
        MFPOConfig.preset("smal")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_policy": 0}, "k_policy"),
        ({"n_sample_steps": 0}, "n_sample_steps"),
        ({"gamma": 1.5}, "gamma"),
        ({"v_min": 3.0, "v_max": 1.0}, "v_min"),
        ({"buffer_size": 10}, r"buffer_size.*batch_size"),
        ({"learning_starts": 10}, r"learning_starts.*batch_size"),
        ({"actor_batch_size": 1000}, "actor_batch_size"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": "automatic"}, "temperature"),
        ({"velocity": "gausian"}, "did you mean 'gaussian'"),
        ({"hidden_sizes": ()}, "hidden_sizes"),
        ({"hidden_sizes": (64, 0)}, r"hidden_sizes\[1\]"),
        ({"min_ess": 40.0}, "min_ess"),
        ({"clipped_double_q": 1}, "clipped_double_q"),
        ({"v_range": "from_rewards", "gamma": 1.0}, "gamma"),
        ({"learning_rate": float("nan")}, "learning_rate"),
    ],
)
def test_bad_values_are_refused_by_name(change, message):
    with pytest.raises(InvalidInput, match=message):
        MFPOConfig(**change)


@pytest.mark.parametrize("name", ["paper", "small", "cpu"])
def test_presets_survive_a_round_trip(name):
    config = MFPOConfig.preset(name, gamma=0.9)
    assert MFPOConfig.from_dict(config.to_dict()) == config
    assert isinstance(config.to_dict()["hidden_sizes"], list)


def test_the_paper_preset_has_the_papers_values():
    config = MFPOConfig.preset("paper")
    assert (config.k_policy, config.k_gaussian, config.n_atoms, config.v_max) == (16, 32, 101, 1600.0)
    assert (config.time_dist, config.data_proportion, config.init_temperature) == ("logit_normal", 0.75, 0.01)
    assert config.rate("actor") == 3e-4
    assert MFPOConfig.preset("small").rate("temperature") == 3e-4
    assert MFPOConfig.preset("small").rate("critic") == 1e-3


def test_the_import_loads_nothing_heavy():
    code = "import sys, rl_mfpo; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"matplotlib", "rich", "scipy", "tensorboard", "torch", "typer", "mujoco"} & set(done.stdout.split())
