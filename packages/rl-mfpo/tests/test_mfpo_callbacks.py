import csv

import numpy as np
import pytest
from lemmata_core import InvalidInput
from rl_mfpo import (
    MFPO,
    CheckpointCallback,
    CSVLogger,
    EvalCallback,
    StopOnReturn,
    TensorBoardLogger,
    checkpoint,
    evaluate,
)
from rl_mfpo.callbacks import Callback, as_callbacks
from rl_mfpo.evaluation import EvaluationResult
from rl_mfpo.loggers import Logger, read_csv

TINY = {
    "config": "small",
    "hidden_sizes": (16, 16),
    "batch_size": 16,
    "actor_batch_size": 8,
    "learning_starts": 600,
    "k_policy": 4,
    "k_gaussian": 4,
    "buffer_size": 1000,
}


def make(**options):
    return MFPO("rl_mfpo/MultiGoal-v0", seed=0, device="cpu", **{**TINY, **options})


def test_callbacks_are_called_in_order_and_told_the_agent():
    calls = []

    class Mine(Callback):
        def on_training_start(self):
            calls.append(("start", self.agent.num_timesteps))

        def on_step(self):
            calls.append(("step", self.agent.num_timesteps))
            return True

        def on_training_end(self):
            calls.append(("end", self.agent.num_timesteps))

    make().learn(3, callback=Mine())
    assert calls == [("start", 0), ("step", 1), ("step", 2), ("step", 3), ("end", 3)]


def test_false_ends_the_training_and_nothing_does_not():
    agent = make()
    agent.learn(50, callback=lambda agent: agent.num_timesteps < 7)
    assert agent.num_timesteps == 7
    agent.learn(5, callback=lambda: None)
    assert agent.num_timesteps == 12


def test_functions_of_none_one_and_two_arguments_are_called_with_what_they_take():
    seen = []
    callbacks = [
        lambda: seen.append("nothing"),
        lambda agent: seen.append(agent),
        lambda locals_, globals_: seen.append(locals_["self"]),
        lambda *rest: seen.append(len(rest)),
    ]
    agent = make().learn(1, callback=callbacks)
    assert seen == ["nothing", agent, agent, 2]


@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
def test_a_callback_of_stable_baselines3_works():
    from stable_baselines3.common.callbacks import BaseCallback

    class Peer(BaseCallback):
        def _on_training_start(self):
            self.began = self.model.num_timesteps

        def _on_step(self):
            self.logger.record("peer", 2.0)
            return self.num_timesteps < 5

    peer = Peer()
    agent = make().learn(50, callback=peer, log_interval=5)
    assert agent.num_timesteps == 5
    assert peer.began == 0
    assert agent.logger.latest["peer"] == 2.0


def test_what_cannot_be_called_is_refused():
    with pytest.raises(InvalidInput, match="callback: expected a function"):
        make().learn(1, callback=3)


def test_checkpoints_are_written_last():
    assert isinstance(as_callbacks([CheckpointCallback(1, "c"), CSVLogger("a"), lambda: None])[-1], CheckpointCallback)


def test_the_end_is_told_after_an_error_too():
    ended = []

    class Ending(Callback):
        def on_step(self):
            raise RuntimeError("mine")

        def on_training_end(self):
            ended.append(True)

    with pytest.raises(RuntimeError, match="mine"):
        make().learn(5, callback=Ending())
    assert ended == [True]


def test_training_stops_when_the_last_episodes_are_good_enough():
    agent = make()
    agent.learn(400, callback=StopOnReturn(-1e9, n_episodes=12))
    assert agent.num_timesteps == 12, "episodes of one step: as soon as there are twelve"
    assert make().learn(40, callback=StopOnReturn(1e9, n_episodes=5)).num_timesteps == 40


def test_evaluation_keeps_the_best_policy_and_its_rows(tmp_path):
    agent = make()
    callback = EvalCallback("rl_mfpo/MultiGoal-v0", every=20, n_episodes=5, best_path=tmp_path / "sub" / "best.mfpo")
    agent.learn(60, callback=callback, log_dir=tmp_path)
    assert [step for step, _ in callback.history] == [20, 40, 60]
    assert callback.best_mean == max(result.mean for _, result in callback.history)
    assert MFPO.load(tmp_path / "sub" / "best.mfpo").num_timesteps in {20, 40, 60}
    rows = [row for row in read_csv(tmp_path / "progress.csv") if row["eval/return_mean"]]
    assert [float(row["eval/return_mean"]) for row in rows] == [result.mean for _, result in callback.history]


def test_the_best_so_far_survives_a_resume(tmp_path):
    def callback():
        return EvalCallback("rl_mfpo/MultiGoal-v0", every=10, n_episodes=2, best_path=tmp_path / "best.mfpo")

    agent, first = make(), callback()
    agent.learn(10, callback=[first, CheckpointCallback(10, tmp_path / "c")])
    resumed, second = MFPO.resume(tmp_path / "c", device="cpu"), callback()
    resumed.learn(5, callback=[second])
    assert second.best_mean == first.best_mean > -np.inf


def test_evaluation_plays_the_same_episodes_whatever_happened_before():
    agent = make()
    a, b = (evaluate(agent, "Pendulum-v1" if False else "rl_mfpo/MultiGoal-v0", 4, seed=3) for _ in "ab")
    assert a == b
    assert isinstance(a, EvaluationResult)
    assert a.n_episodes == len(a.returns) == len(a.lengths) == 4
    assert a.mean == pytest.approx(np.mean(a.returns))
    assert a.std == pytest.approx(np.std(a.returns))
    with pytest.raises(AttributeError):
        a.mean = 3


def test_evaluation_needs_an_episode():
    with pytest.raises(InvalidInput, match="n_episodes"):
        evaluate(make(), "rl_mfpo/MultiGoal-v0", 0)


def test_the_log_holds_metrics_by_name(tmp_path):
    agent = make(learning_starts=16)
    agent.learn(60, log_dir=tmp_path, log_interval=20)
    rows = read_csv(tmp_path / "progress.csv")
    assert [row["step"] for row in rows] == ["20", "40", "60"]
    names = {
        "rollout/return_mean",
        "rollout/length_mean",
        "train/critic_loss",
        "train/actor_loss",
        "train/divergence_loss",
        "train/entropy",
        "train/entropy_target",
        "train/alpha",
        "train/ess_policy",
        "train/ess_gaussian",
        "train/outside_box",
        "time/updates_per_second",
        "time/env_share",
        "time/seconds",
    }
    assert names <= set(rows[-1])
    assert 0 < float(rows[-1]["time/env_share"]) < 1
    assert float(rows[-1]["rollout/length_mean"]) == 1.0


def test_no_log_interval_means_no_rows(tmp_path):
    make().learn(30, log_dir=tmp_path, log_interval=None)
    assert read_csv(tmp_path / "progress.csv") == []


def test_a_run_that_goes_on_keeps_its_rows_and_drops_those_it_makes_again(tmp_path):
    agent = make()
    agent.learn(30, log_dir=tmp_path, log_interval=10)
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("70,1.0\r\n80,")
    agent.learn(20, log_dir=tmp_path, log_interval=10)
    assert [row["step"] for row in read_csv(tmp_path / "progress.csv")] == ["10", "20", "30", "40", "50"]
    make().learn(10, log_dir=tmp_path, log_interval=10)
    assert [row["step"] for row in read_csv(tmp_path / "progress.csv")] == ["10"], "a new run, a new file"


def test_csv_keeps_every_digit_and_grows_columns(tmp_path):
    class Numbers(Callback):
        def on_step(self):
            n = self.agent.num_timesteps
            self.agent.logger.record("a" if n < 3 else "b", 0.1 + n)
            return True

    make().learn(4, callback=[CSVLogger(tmp_path / "x.csv"), Numbers()], log_interval=1)
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["a"]) for row in rows[:2]] == [1.1, 2.1]
    assert [row["a"] for row in rows[2:]] == ["", ""]
    assert float(rows[3]["b"]) == 4.1


def test_means_are_over_the_interval():
    logger = Logger()
    for value in (1.0, 2.0, 6.0):
        logger.record_mean("x", value)
    logger.record("y", 5)
    assert logger.dump(1) == {"x": 3.0, "y": 5.0}
    assert logger.dump(2) == {}


def test_tensorboard_gets_every_row(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    agent = make()
    for _ in range(2):
        agent.learn(20, callback=TensorBoardLogger(tmp_path), log_interval=10)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [e.step for e in events.Scalars("rollout/return_mean")] == [10, 20, 30, 40]


def test_progress_is_shown_when_asked(capsys, monkeypatch):
    monkeypatch.delenv("LEMMATA_PROGRESS", raising=False)
    monkeypatch.setattr("lemmata_core.progress.LOG_SECONDS", 0.0)
    make().learn(60, progress_bar=True)
    err = capsys.readouterr().err
    assert "training: 60/60 (100%)" in err
    assert "return" in err


def test_old_checkpoints_go(tmp_path):
    make().learn(50, callback=CheckpointCallback(10, tmp_path, keep=2))
    assert len(checkpoint.manifests(tmp_path)) == 2
