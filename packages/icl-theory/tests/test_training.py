"""Training and measuring: both engines, how runs end, predictors of any kind."""

import math

import numpy as np
import pytest
import torch
from icl_theory import (
    LinearAttentionICL,
    MambaICL,
    PatternBank,
    PromptSpec,
    evaluate,
    probe_attention,
    probe_gates,
    tasks_all,
    train,
)

BANK = PatternBank()
TASKS = tasks_all(6)
SPEC = PromptSpec()


def test_a_model_of_nan_is_always_wrong():
    class Broken(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, tokens):
            return torch.full((len(tokens),), self.value)

    nan = evaluate(Broken(math.nan), BANK, TASKS, PromptSpec(), n=100)
    assert (nan.value, nan.n_nonfinite) == (1.0, 100)
    tie = evaluate(Broken(0.0), BANK, TASKS, PromptSpec(), n=100)
    assert (tie.value, tie.n_nonfinite) == (1.0, 0)
    poisoned = MambaICL(30)
    with torch.no_grad():
        poisoned.W_B[0, 0] = math.nan
    assert evaluate(poisoned, BANK, TASKS, PromptSpec(), n=100).value == 1.0


def test_a_diverging_run_says_so():
    result = train(LinearAttentionICL(30), BANK, TASKS, PromptSpec(), steps=500, lr=50.0, engine="torch")
    assert result.status == "diverged"
    assert not math.isfinite(result.losses[-1])


def test_training_learns_and_both_engines_agree():
    spec = PromptSpec()
    losses = {}
    for engine in ("pattern", "torch"):
        model = MambaICL(30)
        losses[engine] = train(model, BANK, TASKS, spec, steps=30, batch=64, engine=engine).losses
    np.testing.assert_allclose(losses["pattern"], losses["torch"], rtol=1e-3, atol=1e-6)
    model = MambaICL(30)
    assert train(model, BANK, TASKS, spec, steps=400).status == "finished"
    assert evaluate(model, BANK, TASKS, PromptSpec(outlier_fraction=0.5, labels="flip"), n=2000).value < 0.05
    rows = {row[0]: row[1] for row in probe_attention(model, BANK, TASKS, spec).rows}
    assert rows["same pattern"] > 1 > rows["other pattern"]
    probe = probe_gates(model, BANK, TASKS, spec)
    assert probe.ratio < 0.05
    assert probe.slope > -math.log(2)


def test_a_loss_to_stop_at():
    result = train(MambaICL(30), BANK, TASKS, PromptSpec(), steps=2000, stop_loss=0.3)
    assert result.status == "stopped"
    assert result.losses[-10:].mean() <= 0.3 < result.losses[-11:-1].mean()


@pytest.mark.parametrize("engine", ["pattern", "torch"])
def test_an_interrupted_run_goes_on_bit_for_bit(engine, tmp_path, monkeypatch):
    import icl_theory.training as training

    spec, whole = PromptSpec(length=5), MambaICL(30)
    right = train(whole, BANK, TASKS, spec, steps=450, batch=8, engine=engine).losses
    made = {"pattern": training._PatternTrainer, "torch": training._TorchTrainer}[engine]
    plain, calls = made.step, []

    def stops(self, found):
        calls.append(1)
        if len(calls) == 300:
            raise KeyboardInterrupt
        return plain(self, found)

    monkeypatch.setattr(made, "step", stops)
    model = MambaICL(30)
    options = {"steps": 450, "batch": 8, "engine": engine, "checkpoint": tmp_path / "run.pt"}
    first = train(model, BANK, TASKS, spec, **options)
    assert (first.status, first.steps) == ("interrupted", 299)
    again = MambaICL(30)
    second = train(again, BANK, TASKS, spec, **options)
    assert len(calls) == 300 + 250  # on from the checkpoint at step 200
    assert np.array_equal(second.losses, right)
    assert torch.equal(again.W_B, whole.W_B)


def test_a_run_that_ended_does_not_go_on(tmp_path):
    results = []
    for _ in range(2):
        model = MambaICL(30)
        results.append(
            train(model, BANK, TASKS, SPEC, steps=60, batch=32, stop_loss=10.0, checkpoint=tmp_path / "stopped.pt")
        )
        assert (results[-1].status, results[-1].steps) == ("stopped", 10)
    assert results[0].losses.tolist() == results[1].losses.tolist()
    for _ in range(2):
        wild = LinearAttentionICL(30)
        result = train(wild, BANK, TASKS, SPEC, steps=500, batch=32, lr=50.0, checkpoint=tmp_path / "diverged.pt")
        assert result.status == "diverged"
        assert np.isfinite(result.losses[:-1]).all()


def test_stress_on_a_function_of_tokens():
    from icl_theory import stress

    def oracle(tokens):
        # Labels of clean examples with the query's pattern, the other pattern's turned over.
        x, y = tokens[..., :-1], tokens[..., -1]
        scores = (x @ torch.tensor(BANK.relevant, dtype=torch.float32).T).argmax(-1)
        spoilt = (x @ torch.tensor(BANK.outlier, dtype=torch.float32).T).abs().amax(-1) > 0.1
        votes = torch.where(scores == scores[:, -1:], y, -y)
        return torch.where(spoilt, 0.0, votes)[:, :-1].sum(1)

    table = stress(oracle, BANK, TASKS, alphas=(0.3,), n=500)
    assert len(table.rows) == 6
    assert all(row[4] == 0 for row in table.rows)
    nan = stress(
        lambda t: t[:, 0, 0] * math.nan, BANK, TASKS, alphas=(0.3,), labels=("flip",), placements=("random",), n=50
    )
    assert nan.rows[0][4] == 1.0
    assert nan.rows[0][7] == 50
