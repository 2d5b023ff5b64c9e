"""The command line."""

import json

import pytest
import torch
from optim_rmnp import RMNP, dominance
from optim_rmnp.cli import main
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setenv("LEMMATA_PROGRESS", "0")
    yield
    torch.set_num_threads(threads)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_cost_prints_ratios_and_exponents():
    done = run("cost", "--sizes", "16,24,32", "--repeats", 2, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [row["size"] for row in result["seconds"]] == [16, 24, 32]
    assert result["exponents"].keys() == {"row_normalisation", "newton_schulz_bfloat16", "newton_schulz_float32"}
    table = run("cost", "--sizes", "16", "--repeats", 2)
    assert "16 x 16" in table.stdout


@pytest.mark.parametrize("sizes", ["a", "", "4,-1", "0"])
def test_cost_refuses_sizes_that_are_none(sizes):
    done = run("cost", "--sizes", sizes)
    assert done.exit_code == 2
    assert "--sizes" in done.stderr


def checkpoint(path, wrap=lambda state: state, optimizer=None):
    p = torch.nn.Parameter(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)))
    q = torch.nn.Parameter(torch.ones(4))
    made = optimizer([p]) if optimizer else RMNP([{"params": [("w", p)], "stacked": 2}])
    p.grad = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    made.step()
    torch.save(wrap(made.state_dict()), path)
    return next(iter(made.state[p].values())), q, made.state[p]


def test_dominance_reads_a_saved_state_dict_one_row_a_matrix(tmp_path):
    momentum, _, _ = checkpoint(tmp_path / "a.pt")
    done = run("dominance", tmp_path / "a.pt", "--json", "--alignment")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == ["w[0]", "w[1]"]
    assert rows[0]["dominance"]["r_avg"] == pytest.approx(dominance(momentum[:3]).r_avg)
    assert 0 < rows[0]["alignment"] <= 1
    assert "w[1]" in run("dominance", tmp_path / "a.pt").stdout


@pytest.mark.parametrize("optimizer", [torch.optim.Muon, torch.optim.AdamW])
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"optimizer": s}, lambda s: {"optimizer_states": [s]}])
def test_dominance_reads_checkpoints_of_other_optimizers_and_trainers(tmp_path, optimizer, wrap):
    _, _, state = checkpoint(tmp_path / "a.pt", wrap, optimizer)
    momentum = state.get("momentum_buffer", state.get("exp_avg"))
    rows = json.loads(run("dominance", tmp_path / "a.pt", "--json").stdout)
    assert rows[0]["dominance"]["r_min"] == pytest.approx(dominance(momentum).r_min)


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


def test_dominance_does_not_run_what_a_file_contains_and_says_what_is_wrong(tmp_path):
    torch.save({"state": Evil(), "param_groups": []}, tmp_path / "evil.pt")
    torch.save([1, 2], tmp_path / "other.pt")
    torch.save({"state": {}, "param_groups": []}, tmp_path / "empty.pt")
    (tmp_path / "noise.pt").write_bytes(b"noise")
    for name in ("evil.pt", "other.pt", "empty.pt", "noise.pt"):
        done = run("dominance", tmp_path / name)
        assert done.exit_code == 2, name
        assert "CHECKPOINT" in done.stderr
        assert "executed" not in done.stdout
    assert run("dominance", tmp_path / "none.pt").exit_code == 2


@pytest.mark.parametrize("optimizer", ["rmnp", "muon", "adamw"])
def test_train_learns_a_text_and_its_checkpoint_can_be_measured(tmp_path, optimizer):
    (tmp_path / "text.txt").write_bytes(b"the quick brown fox jumps over the lazy dog. " * 60)
    words = ["train", "--optimizer", optimizer, "--steps", 4, "--text", tmp_path / "text.txt"]
    done = run(*words, "--json", "--save", tmp_path / "o.pt")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["held_out_loss"][-1] < result["held_out_loss"][0]
    assert (result["optimizer"], result["steps"]) == (optimizer, 4)
    assert run("dominance", tmp_path / "o.pt").exit_code == 0
    assert "nats a byte" in run(*words).stdout


@pytest.mark.parametrize("words", [("--optimizer", "sgd"), ("--steps", 0), ("--text", "no-such-file"), ("--seed", -1)])
def test_train_refuses_what_it_cannot_do_in_one_line(words):
    done = run("train", *words)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_place_that_cannot_be_written_to_is_refused_before_training(tmp_path):
    done = run("train", "--steps", "100000", "--save", tmp_path / "none" / "o.pt")
    assert done.exit_code != 0
    assert "step" not in done.stdout
