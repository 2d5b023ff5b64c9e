"""Runs: interruption, checkpoints, many seeds at once, environments."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import (
    AnytimeCOCO,
    DynamicCOCO,
    OptimisticCOCO,
    baselines,
    domains,
    environments,
    hints,
    play,
    play_many,
)
from oco_anytime.environments import Environment, Outcome, SafeControl, Stream
from oco_anytime.runner import Run

LEARNERS = {
    "anytime": lambda env: AnytimeCOCO(env.domain),
    "dynamic": lambda env: DynamicCOCO(env.domain),
    "optimistic": lambda env: OptimisticCOCO(env.domain, hints=hints.Last()),
    "recoo": lambda env: baselines.RectifiedCOCO(env.domain),
}


class Interrupted(Environment):
    """Another environment, with a Ctrl-C in the middle: raised by the environment, or sent as a signal."""

    def __init__(self, inner, at, way):
        self.inner, self.at, self.way, self.domain = inner, at, way, inner.domain

    def round(self, t, x):
        if t == self.at:
            if self.way == "raise":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)
        return self.inner.round(t, x)


@pytest.mark.parametrize("name", sorted(LEARNERS))
@pytest.mark.parametrize("way", ["raise", "signal"])
@pytest.mark.parametrize("record", ["all", "light"])
def test_an_interrupted_run_goes_on_to_the_same_result(tmp_path, name, way, record):
    env = SafeControl(120, rng=1)
    whole = play(LEARNERS[name](env), env, 120, record=record)
    path = tmp_path / "run.checkpoint"
    broken = Interrupted(env, 47, way)
    first = play(LEARNERS[name](env), broken, 120, record=record, checkpoint=path)
    assert first.status == "interrupted"
    assert first.rounds in (47, 48)
    broken.at = -1
    second = play(LEARNERS[name](env), broken, 120, record=record, checkpoint=path)
    assert second.status == "complete"
    for key in ("x", "cost", "violation", "certificate", "t"):
        np.testing.assert_array_equal(getattr(second, key), getattr(whole, key))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    env = Stream("opposed", 20)
    path = tmp_path / "c"
    play(AnytimeCOCO(env.domain), env, 20, checkpoint=path)
    with pytest.raises(InvalidInput, match=r"^checkpoint:"):
        play(AnytimeCOCO(env.domain), env, 10, checkpoint=path)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(InvalidInput, match=r"^checkpoint:"):
        play(AnytimeCOCO(env.domain), env, 20, checkpoint=path)


def test_a_run_survives_the_disk(tmp_path):
    env = Stream("random", 50)
    run = play(AnytimeCOCO(env.domain), env, 50)
    run.to_npz(tmp_path / "r.npz")
    again = Run.from_npz(tmp_path / "r.npz")
    for key in ("x", "cost", "violation", "certificate", "t"):
        np.testing.assert_array_equal(getattr(again, key), getattr(run, key))


def _learner(env):
    return AnytimeCOCO(env.domain)


def test_many_runs_do_not_depend_on_the_executor():
    make = partial(Stream, "random", 200, 2)
    plain = play_many(_learner, make, [3, 1, 4], 200)
    with ThreadPoolExecutor(2) as pool:
        pooled = play_many(_learner, make, [3, 1, 4], 200, executor=pool)
    for a, b in zip(plain, pooled):
        np.testing.assert_array_equal(a.certificate, b.certificate)
        assert a.x is None
    assert not np.array_equal(plain[0].certificate, plain[1].certificate)
    assert len(play_many(lambda: AnytimeCOCO(domains.Ball(2)), make, 2, 100)) == 2


def test_light_records_add_up_to_full_ones():
    env = SafeControl(300, rng=2)
    full, light = (play(AnytimeCOCO(env.domain), env, 300, record=r) for r in ("all", "light"))
    np.testing.assert_allclose(light.ccv, full.ccv[light.t - 1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(light.cumulative_cost, full.cumulative_cost[light.t - 1], rtol=1e-12)
    with pytest.raises(InvalidInput, match=r"^record:"):
        play(AnytimeCOCO(env.domain), env, 3, record="some")


@pytest.mark.parametrize("name", sorted(environments.BY_NAME))
def test_environments_have_right_gradients_and_repeat_themselves(name):
    if name in ("portfolio", "fairness"):
        pytest.importorskip("skfolio" if name == "portfolio" else "sklearn")
    make = environments.BY_NAME[name]
    options = {} if name == "portfolio" else {"rng": 7}
    env, twin = make(rounds=40, **options), make(rounds=40, **options)
    rng = np.random.default_rng(0)
    x = env.domain.project(env.domain.center() + 0.1 * rng.standard_normal(env.domain.dim))
    for t in range(40):
        o, again = env.round(t, x), twin.round(t, x)
        assert o.cost == again.cost
        y = env.domain.project(x + 0.1 * rng.standard_normal(x.size))
        other = env.round(t, y)
        # convex: the gradient at x supports the function from below
        assert other.cost >= o.cost + o.cost_grad @ (y - x) - 1e-9
        if o.violation_grad is not None:
            rise = np.asarray(o.violation_grad) @ (y - x)
            assert (np.asarray(other.violation) >= np.asarray(o.violation) + rise - 1e-9).all()
    u = getattr(env, "comparator", None)
    if u is not None:
        assert env.domain.contains(u)
        assert max(np.max(env.round(t, u).violation) for t in range(40)) <= 1e-12


@pytest.mark.parametrize("risk", ["volatility", "cvar", "turnover"])
def test_portfolio_constraints_are_convex_and_turnover_covers_the_trades(risk):
    env = environments.PortfolioRisk("synthetic", 30, risk=risk, limit=1.0, rng=3)
    rng = np.random.default_rng(1)
    for t in range(30):
        x, y = rng.dirichlet(np.ones(env.domain.dim), 2)
        here, there = env.round(t, x), env.round(t, y)
        assert there.violation >= here.violation + here.violation_grad @ (y - x) - 1e-9
        if risk == "turnover":
            moves = env.returns[t + env.window]
            assert here.violation + 1.0 >= 100.0 * np.abs(x * (moves - moves @ x)).sum() - 1e-12


def test_environments_refuse_bad_input():
    with pytest.raises(InvalidInput, match=r"^network:"):
        environments.OnlineShortestPath("arpanet")
    with pytest.raises(InvalidInput, match=r"^name:"):
        Stream("other", 3)
    with pytest.raises(InvalidInput, match=r"^rounds:"):
        Stream("random", -1)
    with pytest.raises(InvalidInput, match=r"^source:"):
        environments.PortfolioRisk("elsewhere")
    assert Outcome(1.0, np.zeros(1)).violation == 0.0
