"""Sharded and replicated training on gloo processes, with the bytes that the kernel counts on their sockets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("sharding_worker.py")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bytes are read from Linux's TCP_INFO")


def run(world, folder, cases):
    command = [sys.executable, str(WORKER)]
    workers = [
        subprocess.Popen([*command, str(rank), str(world), str(folder), cases], stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    try:
        errors = [worker.communicate(timeout=240)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0] * world, "\n".join(errors)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run(2, tmp_path_factory.mktemp("two"), "two")


PLACEMENTS = [
    f"{shape} {dim} {hold}"
    for shape in ("(8, 6)", "(7, 5)", "(1, 9)", "(64, 48)")
    for dim in (0, 1)
    for hold in ("step", "hold")
]
OTHERS = [
    "replicate",
    "transposed 0",
    "transposed 1",
    "conv 0",
    "conv 1",
    "experts 0",
    "experts 2",
    "adamw 0",
    "adamw empty",
]
OTHERS += ["maximize plain 1", "stacked scale"]


@pytest.mark.parametrize("case", PLACEMENTS + OTHERS)
def test_shards_step_as_one_process_does(two, case):
    for rank in two:
        assert rank[case]["gap"] <= 1e-6


def test_uneven_and_empty_shards_were_among_them(two):
    assert {tuple(rank["(7, 5) 0 step"]["local"]) for rank in two} == {(4, 5), (3, 5)}
    assert {tuple(rank["(1, 9) 0 step"]["local"]) for rank in two} == {(1, 9), (0, 9)}


@pytest.mark.parametrize(
    "case", ["(8, 6) 0 step", "(7, 5) 0 hold", "(1, 9) 0 step", "(64, 48) 0 step", "conv 0", "experts 0", "adamw 0"]
)
def test_whole_rows_send_nothing(two, case):
    assert [rank[case]["sent"] for rank in two] == [0, 0]


def test_transposed_weights_cut_along_their_outputs_send_nothing(two):
    assert [rank["transposed 1"]["sent"] for rank in two] == [0, 0]
    assert all(rank["transposed 0"]["sent"] > 0 for rank in two)


@pytest.mark.parametrize(("hold", "bytes_a_row"), [("step", 4), ("hold", 8)])
def test_cut_rows_send_one_number_a_row_and_not_the_matrix(two, hold, bytes_a_row):
    overhead = 1024  # gloo's own headers, whatever the size
    for rank in two:
        assert 64 * bytes_a_row <= rank[f"(64, 48) 1 {hold}"]["sent"] <= 64 * bytes_a_row + overhead
        assert rank[f"(64, 48) 1 {hold}"]["sent"] < 4 * 64 * 48


def test_all_cut_matrices_of_a_group_go_in_one_collective(two):
    assert [rank["batched"] for rank in two] == [[54], [54]]


def test_norms_of_cut_rows_are_those_of_dtensor_itself(two):
    assert all(rank["reference"] <= 1e-6 for rank in two)


def test_a_fully_sharded_model_trains_as_on_one_process(two):
    assert all(rank["fsdp"]["gap"] <= 1e-6 for rank in two)
    assert two[0]["fsdp"]["parameters"] == 5


def test_ddp_replicas_stay_identical_and_follow_the_averaged_gradient(two):
    assert all(rank["ddp"]["identical"] and rank["ddp"]["gap"] <= 1e-6 for rank in two)


def test_partial_and_mismatched_gradients_are_refused_before_anything_moves(two):
    for rank in two:
        partial, plain = rank["refusals"]
        assert partial.startswith("InvalidInput: gradient of w")
        assert "summed" in partial
        assert "both DTensor or both plain tensors" in plain


def test_replicated_gradients_are_cut_as_the_parameter_is(two):
    assert all(rank["replicated gradient"] for rank in two)


def test_sharded_checkpoints_resume_bit_by_bit(two):
    assert all(rank["checkpoint"] for rank in two)


def test_the_monitor_gathers_cut_rows(two):
    assert all(rank["monitor"] <= 1e-5 for rank in two)


@pytest.mark.slow
def test_meshes_of_two_dimensions_reduce_over_every_dimension_that_cuts_rows(tmp_path):
    for rank in run(4, tmp_path, "four"):
        for case, result in rank.items():
            assert result["gap"] <= 1e-6, case
        assert rank["rows twice"]["sent"] == 0
        assert rank["columns twice"]["sent"] > rank["rows and columns"]["sent"] > 0
