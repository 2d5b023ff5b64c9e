import json
import subprocess
import sys

import pytest
import torch
from rl_mfpo.cli import app, parse_settings
from rl_mfpo.plots import text_plot
from typer.testing import CliRunner

SMALL = ["--preset", "small", "--device", "cpu"]
for setting in (
    "hidden_sizes=[16,16]",
    "batch_size=16",
    "actor_batch_size=8",
    "learning_starts=64",
    "buffer_size=2000",
):
    SMALL += ["--set", setting]
ENV = "rl_mfpo/MultiGoal-v0"


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "logs"
    done = invoke("train", ENV, "--steps", 120, *SMALL, "--log-dir", folder, "--eval-every", 60, "--episodes", 3)
    assert done.exit_code == 0, done.output
    return folder, done.output


def test_train_leaves_policy_curve_picture_and_checkpoint(trained):
    folder, output = trained
    assert {"policy.mfpo", "best.mfpo", "progress.csv", "checkpoint", "run.json"} <= {p.name for p in folder.iterdir()}
    assert "transitions: 120" in output
    assert "* training   o evaluation" in output, "a plot at the end"
    if pytest.importorskip("matplotlib"):
        assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_with_a_run_is_not_overwritten(trained):
    folder, _ = trained
    done = invoke("train", ENV, "--steps", 10, *SMALL, "--log-dir", folder)
    assert done.exit_code == 2
    assert "--resume" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_resumed_from_the_command_line_equals_one_that_was_not_cut(tmp_path):
    for name, steps in (("a", [140]), ("b", [100, 140])):
        for i, n in enumerate(steps):
            more = ["--resume", tmp_path / name] if i else ["--log-dir", tmp_path / name, *SMALL]
            done = invoke("train", ENV, "--steps", n, *more, "--eval-every", 0, "--episodes", 1, "--log-interval", 10)
            assert done.exit_code == 0, done.output
    from rl_mfpo import MFPO

    a, b = (MFPO.load(tmp_path / name / "policy.mfpo", device="cpu") for name in "ab")
    assert all(torch.equal(x, y) for x, y in zip(a.policy.state_dict().values(), b.policy.state_dict().values()))
    curves = [
        [line.split(",")[0] for line in (tmp_path / name / "progress.csv").read_text().splitlines()] for name in "ab"
    ]
    assert curves[0] == curves[1]


def test_eval_prints_returns(trained):
    done = invoke("eval", trained[0] / "policy.mfpo", "--episodes", 3, "--steps", 4, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["n_episodes"] == len(result["returns"]) == 3
    assert result["lengths"] == [1, 1, 1]


def test_export_writes_by_the_ending(trained, tmp_path):
    done = invoke("export", trained[0] / "policy.mfpo", "--out", tmp_path / "p.pt2", "--steps", 1)
    assert done.exit_code == 0, done.output
    assert "noise (n, 2)" in done.output
    action = torch.export.load(tmp_path / "p.pt2").module()(torch.zeros(2, 1), torch.zeros(2, 2))
    assert action.shape == (2, 2)


def test_info_tells_what_a_policy_and_a_run_are(trained):
    policy = json.loads(invoke("info", trained[0] / "policy.mfpo", "--json").stdout)
    run = json.loads(invoke("info", trained[0], "--json").stdout)
    assert policy["kind"] == "policy"
    assert run["kind"].startswith("checkpoint")
    for told in (policy, run):
        assert told["env"] == ENV
        assert told["transitions"] == 120
        assert told["config"]["hidden_sizes"] == [16, 16]
    assert run["replay_rows"] == 120


def test_bench_prints_latencies():
    words = ["bench", "--obs-dim", 3, "--action-dim", 1, "--preset", "small", "--repeats", 1, "--json"]
    result = json.loads(invoke(*words).stdout)
    assert 0 < result["predict_2_steps_ms"] < result["predict_20_steps_ms"] < result["update_ms"] * 100


def test_zero_steps_are_no_error(tmp_path):
    done = invoke("train", ENV, "--steps", 0, *SMALL, "--log-dir", tmp_path / "z", "--episodes", 1)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "NoSuch-v0"], "NoSuch"),
        (["train", "CartPole-v1"], "action_space"),
        (["train", ENV, "--preset", "smal"], "did you mean 'small'?"),
        (["train", ENV, "--set", "k_polcy=3"], "k_policy"),
        (["train", ENV, "--set", "nothing"], "name=value"),
        (["train", ENV, "--set", "gamma=2"], "gamma"),
        (["train", ENV, "--resume", "nowhere"], "nowhere"),
        (["eval", "nowhere.mfpo"], "which is not there"),
        (["export", "nowhere.mfpo", "--out", "a.onnx"], "which is not there"),
        (["info", "nowhere.mfpo"], "which is not there"),
    ],
)
def test_what_is_wrong_is_one_line(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke(*words)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_settings_are_numbers_lists_truths_or_words():
    given = ["a=1", "b=0.5", "c=true", "d=[64, 64]", "e=auto", "f = 1e-3"]
    assert parse_settings(given) == {"a": 1, "b": 0.5, "c": True, "d": [64, 64], "e": "auto", "f": 1e-3}


def test_a_plot_of_characters_has_its_ends_where_they_belong():
    drawn = text_plot({"one": ([0.0, 50.0, 100.0], [0.0, 1.0, 4.0])}, width=11, height=5).splitlines()
    assert drawn[0] == "4 |          *"
    assert drawn[4] == "0 |*"
    assert drawn[3].endswith("|     *")
    assert drawn[6].split() == ["0", "100", "transitions"]
    assert text_plot({"one": ([], [])}) == "nothing to plot"
    assert "*" in text_plot({"one": ([1.0], [2.0])})


def test_the_import_loads_no_torch_and_the_help_neither():
    code = "import sys, rl_mfpo, rl_mfpo.cli; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "cvxpy",
        "matplotlib",
        "mujoco",
        "numba",
        "onnx",
        "onnxruntime",
        "scipy",
        "sklearn",
        "tensorboard",
        "torch",
    }
    assert not heavy & set(done.stdout.split())


def test_every_public_name_is_there():
    import rl_mfpo

    for name in rl_mfpo.__all__:
        assert getattr(rl_mfpo, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        rl_mfpo.Nothing  # noqa: B018
