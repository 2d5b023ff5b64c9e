"""Properties of the learner under adversaries that see its every move."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from oco_anytime import AnytimeCOCO, baselines, domains, play, play_linear
from oco_anytime.certificate import ccv_bound
from oco_anytime.environments import Stream
from oco_anytime.schedules import summable_schedule
from oco_anytime.state import from_json, to_json

BALL = domains.Ball(3)
MODES = {
    "budgeted": {},
    "w0 = 4": {"regret_budget": 4.0, "pace": 1.0},
    "paper": {"penalty": "lyapunov"},
    "summable": {"penalty": "lyapunov", "schedule": "summable", "clock": "violations"},
    "each": {"aggregate": "each"},
    "sum": {"aggregate": "sum"},
}


class Adversary:
    """Cost away from u, constraints with normal x - u, sizes that jump; everything may depend on x."""

    def __init__(self, rng, u, m, jumpy):
        self.rng, self.u, self.m, self.jumpy = rng, u, m, jumpy

    def _size(self):
        return 10 ** self.rng.uniform(-2, 1.2) if self.jumpy and self.rng.random() < 0.1 else 1.0

    def __call__(self, x):
        rng, u = self.rng, self.u
        away = x - u
        c = (-away if rng.random() < 0.7 else away) / max(np.linalg.norm(away), 1e-9) * self._size()
        if rng.random() < 0.2:
            c = rng.standard_normal(u.size)
            c /= np.linalg.norm(c)
        rows = away + 0.3 * rng.standard_normal((self.m, u.size)) * np.linalg.norm(away)
        rows *= self._size() / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        values = rows @ away - (rng.random(self.m) < 0.5) * rng.random(self.m) * 0.1
        if self.m == 1:
            return c, float(values[0]), rows[0]
        return c, values, rows


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(MODES)), st.integers(1, 4), st.booleans(), st.integers(0, 2**31))
def test_regret_certificate_and_bounds_under_an_adaptive_adversary(mode, m, known, seed):
    rng = np.random.default_rng(seed)
    options = dict(MODES[mode])
    budgeted = options.get("penalty", "budgeted") == "budgeted"
    u = BALL.project(rng.standard_normal(3))
    learner = AnytimeCOCO(BALL, lipschitz=1.0 if known else None, **options)
    adversary = Adversary(rng, u, m, jumpy=not known)
    regret = size = 0.0
    for _ in range(150):
        x = learner.predict()
        c, v, a = adversary(x)
        if known:
            c = c / max(1.0, np.linalg.norm(c))
        regret += c @ (x - u)
        size += abs(c @ (x - u))
        learner.update(c, v, a)
        certificate = learner.certificate()
        assert regret <= certificate.regret_upper + 1e-12 * size
        if certificate.regret_budget is not None:
            assert certificate.regret_upper <= certificate.regret_budget * (1 + 1e-12)
        s = learner.state_dict()["scalars"]
        if budgeted:
            M = s["VE"] + 2 * BALL.diameter * s["GF"] * options.get("regret_budget", 2.0) * np.sqrt(s["T"])
            assert np.sqrt(2) * BALL.diameter * s["ROOT_S"] <= M * (1 + 1e-14)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**31))
def test_each_keeps_every_constraints_violation_below_its_bound(m, seed):
    rng = np.random.default_rng(seed)
    u = BALL.project(rng.standard_normal(3))
    learner = AnytimeCOCO(BALL, lipschitz=1.0, aggregate="each")
    adversary = Adversary(rng, u, m, jumpy=False)
    for t in range(150):
        c, v, a = adversary(learner.predict())
        learner.update(c / max(1.0, np.linalg.norm(c)), v, a)
        state = learner.state_dict()
        for ccv, n in zip(state["ccv"], state["n"]):
            if n:
                assert ccv <= ccv_bound(t + 1, 2.0, 1.0, summable_schedule(n, m, 0.3), m, True)


@settings(max_examples=30, deadline=None)
@given(st.integers(-5, 5), st.integers(-6, 6), st.integers(0, 2**31))
def test_units_do_not_matter_when_scales_are_learned(k, j, seed):
    env = Stream("random", 120, 3, seed)
    plain = play_linear(AnytimeCOCO(env.domain), env.costs, env.A, env.b)
    f, beta = 10.0**k, 10.0 ** (k + j)
    scaled = play_linear(AnytimeCOCO(env.domain), f * env.costs, beta * env.A, beta * env.b)
    np.testing.assert_allclose(scaled.x, plain.x, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-200, 1e-160, 1e150])
def test_extreme_units_neither_vanish_nor_overflow(factor):
    env = Stream("opposed", 60, 3, 1)
    plain = play_linear(AnytimeCOCO(env.domain), env.costs, env.A, env.b)
    scaled = play_linear(AnytimeCOCO(env.domain), factor * env.costs, env.A, env.b)
    np.testing.assert_allclose(scaled.x, plain.x, atol=1e-9)


COMPILED = [
    domains.Ball(4),
    domains.Box(4, -1, 0.5),
    domains.Simplex(4),
    domains.L1Ball(4),
    domains.CappedSimplex(4, 1, 0.5),
    domains.BudgetSet([1, 2, 3, 4], 2.0),
]


@pytest.mark.parametrize("domain", COMPILED, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("m", [1, 3])
def test_the_compiled_loop_equals_the_plain_one(domain, tangent, m):
    rng = np.random.default_rng(5)
    costs, A = rng.standard_normal((200, 4)), rng.standard_normal((200, m, 4))
    b = A @ domain.center() + 0.05
    first = AnytimeCOCO(domain, tangent=tangent)
    second = AnytimeCOCO(domain, tangent=tangent)
    run = play_linear(first, costs, A if m > 1 else A[:, 0], b if m > 1 else b[:, 0])
    for t in range(200):
        x = second.predict()
        np.testing.assert_allclose(run.x[t], x, atol=1e-12)
        second.update(costs[t], A[t] @ x - b[t], A[t])
        assert run.certificate[t] == pytest.approx(second.certificate().regret_upper, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(
        run.ccv[-1], second.certificate().ccv_per_constraint if m > 1 else second.certificate().ccv
    )
    light = play_linear(AnytimeCOCO(domain, tangent=tangent), costs, A, b, record="light")
    assert light.x is None
    np.testing.assert_allclose(light.cumulative_cost[-1], run.cumulative_cost[-1], rtol=1e-12)
    np.testing.assert_allclose(light.certificate[-1], run.certificate[-1], rtol=1e-12)


def test_a_permutation_of_the_coordinates_permutes_the_decisions():
    env = Stream("random", 80, 4, 3)
    order = np.array([2, 0, 3, 1])
    plain = play_linear(AnytimeCOCO(domains.Simplex(4)), env.costs, env.A, env.b)
    other = play_linear(AnytimeCOCO(domains.Simplex(4)), env.costs[:, order], env.A[:, order], env.b)
    np.testing.assert_allclose(other.x, plain.x[:, order], atol=1e-10)


LEARNERS = {
    "anytime": lambda: AnytimeCOCO(BALL),
    "each": lambda: AnytimeCOCO(BALL, aggregate="each"),
    "paper": lambda: AnytimeCOCO.paper(BALL, lipschitz=2.0),
    "ogd": lambda: baselines.ProjectedOGD(BALL),
    "fixed": lambda: baselines.FixedHorizonCOCO(BALL, horizon=1000),
    "doubling": lambda: baselines.DoublingCOCO(BALL),
    "dpp": lambda: baselines.DriftPlusPenalty(BALL),
    "clipped": lambda: baselines.ClippedPrimalDual(BALL),
    "recoo": lambda: baselines.RectifiedCOCO(BALL),
    "latest": lambda: baselines.LatestConstraintProjection(BALL),
}


@pytest.mark.parametrize("name", sorted(LEARNERS))
@pytest.mark.parametrize("way", ["dict", "json", "pickle"])
def test_a_resumed_learner_continues_bit_for_bit(name, way):
    env = Stream("random", 90, 3, 11)
    whole, half = LEARNERS[name](), LEARNERS[name]()
    unbroken = play(whole, env, 90)
    play(half, env, 37)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(half))  # noqa: S301
    else:
        state = half.state_dict()
        again = LEARNERS[name]().load_state_dict(from_json(to_json(state)) if way == "json" else state)
    for t in range(37, 90):
        x = again.predict()
        np.testing.assert_array_equal(x, unbroken.x[t])
        outcome = env.round(t, x)
        again.update(outcome.cost_grad, outcome.violation, outcome.violation_grad)
    np.testing.assert_array_equal(again.predict(), whole.predict())


def test_a_pickle_is_small():
    d = 1000
    learner = AnytimeCOCO(domains.Simplex(d))
    learner.update(np.ones(d))
    assert len(pickle.dumps(learner.state_dict())) <= 16 * d + 2048
    assert len(pickle.dumps(learner)) <= 16 * d + 2048


BAD_UPDATES = [
    ((np.array([np.nan, 0, 0]),), "cost_grad"),
    (([1, 2],), "cost_grad"),
    (("x",), "cost_grad"),
    (([0.1, 1e308, 0.2],), "cost_grad"),
    (([1, 0, 0], 10**400, [1, 0, 0]), "violation"),
    (([1, 0, 0], np.inf, [1, 0, 0]), "violation"),
    (([1, 0, 0], [np.nan], [1, 0, 0]), "violation"),
    (([1, 0, 0], 0.5), "violation_grad"),
    (([1, 0, 0], 0.5, [1, 0]), "violation_grad"),
    (([1, 0, 0], 0.5, [np.inf, 0, 0]), "violation_grad"),
    (([1, 0, 0], [0.5, 0.1], [[1, 0, 0], [np.nan, 0, 0]]), "violation_grad"),
]


@pytest.mark.parametrize(("arguments", "name"), BAD_UPDATES)
@pytest.mark.parametrize("aggregate", ["max", "each"])
def test_a_rejected_update_changes_nothing(arguments, name, aggregate):
    learner = AnytimeCOCO(BALL, aggregate=aggregate)
    before = to_json(learner.state_dict())
    with pytest.raises(InvalidInput, match=f"^{name}:"):
        learner.update(*arguments)
    assert to_json(learner.state_dict()) == before


BAD_OPTIONS = [
    {"lipschitz": -1},
    {"lipschitz": (1, 2, 3)},
    {"penalty": "other"},
    {"schedule": "fixed"},
    {"clock": "wall"},
    {"regret_budget": 0},
    {"pace": np.nan},
    {"eps": -1},
    {"aggregate": "mean"},
    {"x0": [5, 0, 0]},
    {"diameter": 0},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options_name_the_argument(options):
    with pytest.raises(InvalidInput, match=f"^{next(iter(options))}:"):
        AnytimeCOCO(BALL, **options)


def test_decisions_are_read_only_and_never_move_later():
    learner = AnytimeCOCO(BALL)
    x = learner.predict()
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 3.0
    kept = x.copy()
    learner.update([1, 0, 0])
    play_linear(learner, np.ones((5, 3)))
    np.testing.assert_array_equal(x, kept)
    assert not np.array_equal(learner.predict(), kept)


def test_a_violation_without_a_gradient_is_an_infeasible_round():
    learner = AnytimeCOCO(BALL)
    learner.update([1, 0, 0], 0.5, [0, 0, 0])
    c = learner.certificate()
    assert (c.status, c.ccv, c.penalty) == ("infeasible-round", 0.5, 0.0)


def test_a_diameter_that_is_too_small_is_reported():
    learner = AnytimeCOCO(domains.Ball(1), diameter=0.1)
    for _ in range(50):
        x = learner.predict()
        learner.update([-1.0], x[0] - -0.5, [1.0])
    assert learner.certificate().status == "diameter-suspect"


@pytest.mark.parametrize(("make", "status"), [(AnytimeCOCO.paper, "saturated"), (AnytimeCOCO, "diameter-suspect")])
def test_without_a_feasible_point_the_penalty_stays_finite(make, status):
    """g = 4 + x, never satisfied on [-1, 1]: lambda Q passes 600 in paper mode within 3e6 rounds."""
    learner = make(domains.Ball(1), lipschitz=1)
    n = 3_000_000
    play_linear(learner, np.ones((n, 1)), np.ones((n, 1)), np.full(n, -4.0), record="light")
    state = learner.state_dict()
    assert all(np.isfinite(v) for v in state["scalars"].values())
    assert np.isfinite(state["x"]).all()
    assert learner.certificate().status == status


def test_zero_gradients_then_tiny_ones():
    learner = AnytimeCOCO(BALL)
    for _ in range(3):
        learner.update(np.zeros(3))
    np.testing.assert_array_equal(learner.predict(), 0)
    learner.update(np.full(3, 1e-200))
    np.testing.assert_allclose(learner.predict(), -np.sqrt(1 / 3) * np.ones(3))
    learner.update(np.full(3, 5e-324))
    assert np.isfinite(learner.predict()).all()


def test_no_rounds_no_constraints_and_no_cost():
    learner = AnytimeCOCO(BALL)
    run = play_linear(learner, np.empty((0, 3)))
    assert (run.rounds, learner.certificate().t) == (0, 0)
    learner.update([1, 0, 0], np.empty(0), np.empty((0, 3)))
    learner.update([0, 0, 0], 0.1, [0, 1, 0])
    assert learner.certificate().ccv == 0.1


def test_two_updates_without_a_decision_between_them_are_allowed():
    one, two = AnytimeCOCO(BALL), AnytimeCOCO(BALL)
    for _ in range(2):
        one.update([1, 0, 0])
        two.predict()
        two.update([1, 0, 0])
    np.testing.assert_array_equal(one.predict(), two.predict())


def test_a_fixed_horizon_is_refused_more_rounds():
    learner = baselines.FixedHorizonCOCO(BALL, horizon=3)
    with pytest.raises(baselines.HorizonExceeded):
        play_linear(learner, np.ones((4, 3)))
    play_linear(learner, np.ones((3, 3)))
    with pytest.raises(baselines.HorizonExceeded):
        learner.update(np.ones(3))
    longer = baselines.FixedHorizonCOCO(BALL, horizon=3, on_overrun="continue")
    assert play_linear(longer, np.ones((9, 3))).rounds == 9


def test_doubling_restarts_on_powers_of_two_and_certifies():
    learner = baselines.DoublingCOCO(BALL)
    env = Stream("random", 100, 3, 2)
    run = play_linear(learner, *env.linear(100))
    assert learner.certificate().epochs == 7  # 1 + 2 + 4 + .. + 32 = 63 < 100
    regret = run.cumulative_cost - np.cumsum(env.costs @ env.comparator)
    assert (regret <= run.certificate + 1e-12).all()


@pytest.mark.parametrize(
    "domain", [domains.FlowPolytope([(0, 1), (0, 1)], 0, 1), domains.Polytope(lower=np.zeros(2), upper=1.0)]
)
def test_a_constraint_that_the_domain_cannot_meet_leaves_the_nearest_face(domain):
    learner = baselines.LatestConstraintProjection(domain)
    for _ in range(5):
        x = learner.predict()
        learner.update([1.0, -1.0], float(np.sum(x)) + 3.0, [1.0, 1.0])
    assert domain.contains(learner.predict(), 1e-9)
    assert learner.predict().sum() == pytest.approx(domain.support([1.0, 1.0]).sum(), abs=1e-6)


def test_projected_ogd_is_the_adagrad_norm_step():
    learner = baselines.ProjectedOGD(BALL)
    rng = np.random.default_rng(0)
    x, h = np.zeros(3), 0.0
    for _ in range(40):
        c = rng.standard_normal(3)
        learner.update(c, 1.0, [1, 0, 0])
        h += c @ c
        x = BALL.project(x - 2.0 / np.sqrt(2 * h) * c)
        np.testing.assert_allclose(learner.predict(), x, atol=1e-13)
    assert learner.certificate().ccv == 40


@pytest.mark.parametrize("kind", ["ball", "simplex"])
def test_projected_ogd_is_pyols_mirror_descent(kind):
    oco = pytest.importorskip("pyol.oco")
    from pyol.learning_rates import LearningRateSqrtSumSquareGrads
    from pyol.projections import ProjL2Ball, ProjSimplex

    domain = domains.Ball(4) if kind == "ball" else domains.Simplex(4)
    peer = oco.L2OptimisticOMD(
        4,
        x0=domain.center(),
        lr_handler=LearningRateSqrtSumSquareGrads(eta0=domain.diameter / np.sqrt(2.0), eps=0.0),
        proj_handler=ProjL2Ball() if kind == "ball" else ProjSimplex(),
    )
    learner = baselines.ProjectedOGD(domain)
    rng = np.random.default_rng(8)
    for _ in range(60):
        np.testing.assert_allclose(learner.predict(), peer.predict(), atol=1e-13)
        c = rng.standard_normal(4)
        learner.update(c)
        peer.update(c)


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, oco_anytime, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"numba", "osqp", "cvxpy", "daqp", "matplotlib", "sklearn", "torch", "skfolio", "typer", "rich"}
    assert not heavy & set(json.loads(out))
