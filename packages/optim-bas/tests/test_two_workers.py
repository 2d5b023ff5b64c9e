"""Two gloo processes: the exchange of signs, and sharded parameters. All cases run in one pair of processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from optim_bas import BAS
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from sharded_cases import LAYOUTS, checkpoint_model, kept  # noqa: E402

HALF = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def found(folder):
    done = subprocess.run(
        [sys.executable, HERE / "two_workers.py", folder], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("case", ["mean", "mean-nesterov", "mean-heads"])
def test_the_mean_is_the_average_of_two_single_updates_bit_for_bit(found, case):
    assert [f[case] for f in found] == [{"bits": True, "replicas": True}] * 2


def test_the_vote_is_the_majority_times_the_mean_step_size(found):
    assert [f["vote"] for f in found] == [{"close": True, "replicas": True}] * 2


def test_a_worker_without_a_gradient_takes_part(found):
    assert [f["missing"] for f in found] == [{"replicas": True, "untouched": True, "steps": [4, 0, 4, 4]}] * 2


@pytest.mark.parametrize("case", ["different", "added"])
def test_weights_that_differ_are_noticed_on_every_worker(found, case):
    for f in found:
        assert "the same weights on every worker" in f[case]["raised"]
        assert f[case]["unchanged"]


def test_a_checkpoint_of_one_workers_own_momentum_is_refused_elsewhere(found):
    for f in found:
        assert f["averaged"]["workers"] == [2]
        assert "average_momentum" in f["averaged"]["refused"]
        assert f["averaged"]["same"]


def test_signs_take_a_28th_of_the_bytes_of_an_all_reduce(found):
    for f in found:
        assert f["wire"]["mean"] <= f["wire"]["all_reduce"] / 28
        assert f["wire"]["vote"] <= f["wire"]["all_reduce"] / 16 * 1.05  # ties are possible with two: a second plane


def test_ddp_leaves_gradients_local_and_replicas_stay_identical(found):
    assert [f["ddp"] for f in found] == [{"local": True, "replicas": True}] * 2


def test_groups_of_adamw_average_their_gradients(found):
    assert [f["adamw"] for f in found] == [{"replicas": True, "adamw": True}] * 2


def test_random_rounding_of_half_precision_weights_is_the_same_everywhere(found):
    assert [f["half"] for f in found] == [{"replicas": True}] * 2


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_sharded_tensor_steps_as_a_whole_one(found, name):
    for f in found:
        assert f[f"shard-{name}"]["distance"] <= 1e-6
        assert f[f"shard-{name}"]["codes"]
        assert f[f"shard-{name}"]["second"]


def test_fsdp_trains_as_one_process(found):
    assert all(f["fsdp"]["distance"] <= 1e-5 for f in found)


def test_runs_that_the_sharding_cuts_are_refused_with_the_nearest(found):
    assert all("nearest: 3" in f["runs-cut"]["raised"] for f in found)


def test_an_exchange_of_sharded_parameters_is_refused(found):
    assert all("FSDP2" in f["exchange-dtensor"]["raised"] for f in found)


def test_an_infinity_on_one_worker_makes_all_skip_the_step(found):
    """GradScaler skips as for AdamW; with local gradients one worker would else wait for the other's signs for ever."""
    expected = {"skipped": [False, True, False, False], "same": True, "replicas": True}
    assert [f["scaler"] for f in found] == [expected] * 2


def test_a_worker_that_dies_fails_the_others_step_and_leaves_their_weights(found):
    assert found[0]["dying"]["raised"]
    assert found[0]["dying"]["unchanged"]


def test_from_adamw_takes_a_sharded_state_over(found):
    for case in (case for f in found for case in f["from-adamw"]):
        assert case["distance"] <= 1e-5
        assert case["sharded"]


def test_a_mesh_of_two_dimensions(found):
    assert all(f["mesh"]["distance"] <= 1e-6 for f in found)


@pytest.mark.parametrize("dtype", HALF)
def test_a_sharded_state_survives_a_distributed_checkpoint_bit_for_bit(found, dtype):
    assert [f["checkpoints"][str(dtype).removeprefix("torch.")] for f in found] == [True, True]


# torch warns although no_dist=True says that this is meant.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("dtype", HALF)
def test_one_process_goes_on_from_the_checkpoint_of_two(found, folder, dtype):
    name = str(dtype).removeprefix("torch.")
    model = checkpoint_model(dtype)
    optimizer = BAS(model.parameters())
    state = {"optim": get_optimizer_state_dict(model, optimizer)}
    dcp.load(state, checkpoint_id=folder / f"dcp-{name}", no_dist=True)
    set_optimizer_state_dict(model, optimizer, state["optim"])
    expected = torch.load(folder / f"dcp-{name}.pt", weights_only=True)
    loaded = dict(kept(optimizer))
    assert list(loaded) == list(expected)
    for key, value in expected.items():
        assert loaded[key].dtype == value.dtype
        assert torch.equal(loaded[key], value), key
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.95)
