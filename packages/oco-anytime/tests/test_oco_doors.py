"""What may come through the doors: every kind of wrong input is refused by name, and nothing has changed by then."""

import copy
import json

import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import (
    AnytimeCOCO,
    DynamicCOCO,
    HindsightTracker,
    Hint,
    OptimisticCOCO,
    baselines,
    best_fixed,
    domains,
    environments,
    hints,
    play,
    play_linear,
)
from oco_anytime.state import from_json

BALL = domains.Ball(3)
DOMAINS = [
    BALL,
    domains.Box(3),
    domains.Simplex(3),
    domains.CappedSimplex(3, 1, 0.5),
    domains.L1Ball(3),
    domains.BudgetSet([1, 1, 1], 1.0),
    domains.Polytope(lower=np.zeros(3), upper=1.0),
    domains.FlowPolytope([(0, 1)] * 3, 0, 1),
    domains.Product(domains.Ball(1), domains.Simplex(2)),
    domains.Intersection(BALL, domains.Box(3)),
    domains.Custom(lambda y: np.clip(y, 0, 1), 2.0, 3),
]
WRONG = [
    [1, 2],
    [1, np.nan, 0],
    [np.inf, 0, 0],
    None,
    "abc",
    ["1", "2", "3"],
    [1j, 0, 0],
    np.array([1j, 0, 0]),
    [[1, 2, 3]],
    [None, 1, 2],
    [[1], 2, 3],
    {"a": 1},
    3.0,
    np.ma.masked_array([1.0, 2, 3], [0, 1, 0]),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: type(d).__name__)
def test_domains_refuse_what_is_no_vector(domain):
    for wrong in WRONG:
        for call, name in ((domain.project, "y"), (domain.support, "c"), (domain.tangent, "g")):
            with pytest.raises(InvalidInput, match=f"^{name}:"):
                call(wrong)
        with pytest.raises(InvalidInput, match=r"^Y:"):
            domain.project_batch([[1, 2]] if isinstance(wrong, list) and wrong == [[1, 2, 3]] else wrong)
    assert domain.contains([np.nan, 0, 0]) is False
    with pytest.raises(InvalidInput, match=r"^tol:"):
        domain.contains([0, 0, 0], -1.0)
    assert domain.project_batch(np.empty((0, 3))).shape == (0, 3)


def test_projections_share_no_memory():
    y = np.array([0.3, -0.2, 0.9])
    for domain in DOMAINS:
        first, inside = domain.project(y), domain.project(domain.center())
        kept = first.copy(), inside.copy()
        domain.project(5.0 * y)[:] = 7.0
        domain.center()[:] = 7.0
        np.testing.assert_array_equal(first, kept[0])
        np.testing.assert_array_equal(domain.project(domain.center()), kept[1])
        np.testing.assert_array_equal(y, [0.3, -0.2, 0.9])


BAD_CALLS = [
    (lambda: domains.Box(2, "a", 1), "lower"),
    (lambda: domains.Box(2, [0, 0, 0], 1), "lower"),
    (lambda: domains.BudgetSet("ab", 1), "weights"),
    (lambda: domains.Polytope([["a", "b"]], [1]), "A_ub"),
    (lambda: domains.Polytope([[1, 2], [3]], [1, 2]), "A_ub"),
    (lambda: domains.Polytope([[1, 2]], ["a"], lower=[0, 0]), "b_ub"),
    (lambda: domains.Polytope(np.empty((0, 0)), np.empty(0)), "A_ub"),
    (lambda: domains.Polytope(lower=[np.inf, 0], upper=np.inf), "lower, upper"),
    (lambda: domains.FlowPolytope([(0, 1)], 0, 1, 1, "a"), "capacity"),
    (lambda: domains.FlowPolytope([([0], 1)], 0, 1), "arcs"),
    (lambda: domains.FlowPolytope([(0, 1)], [0], 1), "source"),
    (lambda: OptimisticCOCO(BALL).predict(Hint([1, 0, 0], [1, 0, 0], None)), "hint.b"),
    (lambda: OptimisticCOCO(BALL).predict([1, 0, 0]), "hint"),
    (lambda: play_linear(AnytimeCOCO(BALL), [[1, 2, 3]], [[1, 2, 3]], [1, 2]), "b"),
    (lambda: play_linear(AnytimeCOCO(BALL), [["a", 2, 3]]), "costs"),
    (lambda: play_linear(AnytimeCOCO(BALL), [[1, 2, 3]], None, [1.0]), "A"),
    (lambda: play_linear(AnytimeCOCO(BALL), [[1, 2, 3]], [[1, 2, np.nan]]), "A"),
    (lambda: play(AnytimeCOCO(BALL), environments.Stream("random", 10, 2), 5), "environment"),
    (lambda: play(AnytimeCOCO(BALL), 3, 5), "environment"),
    (lambda: play(3, environments.Stream("random", 10, 3), 5), "learner"),
    (lambda: play(AnytimeCOCO(BALL), environments.Stream("random", 10, 3), 11), "t"),
    (lambda: best_fixed(3, [1]), "domain"),
    (lambda: best_fixed(BALL, [1, 2, 3], None, [1]), "A"),
    (lambda: best_fixed(BALL, [1, 2, 3], "a", "b"), "A"),
    (lambda: best_fixed(BALL, [1, 2, 3], cost=4), "cost"),
    (lambda: HindsightTracker(3), "domain"),
    (lambda: HindsightTracker(BALL, [0, -1]), "checkpoints"),
    (lambda: HindsightTracker(BALL, 3.5), "checkpoints"),
    (lambda: environments.Stream("random", 10).round(-1, np.zeros(2)), "t"),
    (lambda: environments.PortfolioRisk("synthetic", 10).round(10, np.zeros(20)), "t"),
    (lambda: environments.SafeControl(10).round(10, np.zeros(5)), "t"),
    (lambda: environments.FairRegression(10).round(-1, np.zeros(10)), "t"),
    (lambda: from_json(None), "text"),
]


@pytest.mark.parametrize(("call", "name"), BAD_CALLS)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}:"):
        call()


LEARNERS = {
    "anytime": lambda: AnytimeCOCO(BALL),
    "each": lambda: AnytimeCOCO(BALL, aggregate="each"),
    "dynamic": lambda: DynamicCOCO(BALL),
    "observed": lambda: DynamicCOCO(BALL, path="observed"),
    "optimistic": lambda: OptimisticCOCO(BALL, hints=hints.Last()),
    "fixed": lambda: baselines.FixedHorizonCOCO(BALL, horizon=9),
    "doubling": lambda: baselines.DoublingCOCO(BALL),
    "drift": lambda: baselines.DriftPlusPenalty(BALL),
    "clipped": lambda: baselines.ClippedPrimalDual(BALL),
    "rectified": lambda: baselines.RectifiedCOCO(BALL),
    "latest": lambda: baselines.LatestConstraintProjection(BALL),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_damaged_state_is_refused_and_changes_nothing(name):
    learner = LEARNERS[name]()
    learner.predict()
    learner.update([1, 0, 0], 0.5, [0, 1, 0], **({"comparator": [0, 0, 0]} if name == "observed" else {}))
    text = learner.to_json()
    good = json.loads(text)
    assert LEARNERS[name]().load_state_dict(json.loads(text)).to_json() == text
    damaged = [{k: v for k, v in good.items() if k != key} for key in good]
    damaged += [{**good, key: wrong} for key in good for wrong in ("zz", {"a": 1}) if key != "warned"]
    for part in ("scalars", "numbers", "settings"):
        if part in good:
            for key in good[part]:
                other = copy.deepcopy(good)
                other[part][key] = "x"
                damaged.append(other)
    for state in damaged:
        with pytest.raises(InvalidInput, match=r"^(state|numbers|hints)"):
            learner.load_state_dict(state)
        assert learner.to_json() == text


def test_a_state_of_other_settings_is_refused():
    state = AnytimeCOCO(BALL, aggregate="each").update([1, 0, 0], [0.1, 0.2], np.ones((2, 3))).state_dict()
    for other, name in [
        (AnytimeCOCO(BALL), "aggregate"),
        (AnytimeCOCO.paper(BALL), "penalty"),
        (AnytimeCOCO(BALL, aggregate="each", tangent=True), "tangent"),
        (AnytimeCOCO(BALL, aggregate="each", regret_budget=4), "regret_budget"),
    ]:
        with pytest.raises(InvalidInput, match=rf"^state\['settings'\]\['{name}'\]:"):
            other.load_state_dict(state)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_gradient_of_the_wrong_shape_is_refused_even_where_nothing_is_violated(name):
    learner = LEARNERS[name]()
    learner.predict()
    with pytest.raises(InvalidInput, match=r"^violation_grad:"):
        learner.update([1, 0, 0], -0.1, [1, 0], **({"path_increment": 0.0} if name == "observed" else {}))


def test_check_false_skips_the_search_for_nan_only():
    a, b = AnytimeCOCO(BALL), AnytimeCOCO(BALL, check=False)
    rng = np.random.default_rng(0)
    for _ in range(20):
        c, row = rng.standard_normal((2, 3))
        v = float(row @ a.predict()) - 0.1
        a.update(c, v, row)
        b.update(c, v, row)
        np.testing.assert_array_equal(a.predict(), b.predict())
    with pytest.raises(InvalidInput, match=r"^cost_grad:"):
        b.update([1, 0])
    b.update([np.nan, 0, 0])  # not looked at


def test_an_environment_needs_no_more_than_a_round():
    class Plain:
        def round(self, t, x):
            return environments.Outcome(float(x[0]), np.array([1.0, 0, 0]), float(x[1]) - 0.1 * (t % 2))

    run = play(AnytimeCOCO(BALL), Plain(), 10)
    assert run.rounds == 10
    assert run.status == "complete"


@pytest.mark.parametrize("kind", [AnytimeCOCO, DynamicCOCO, OptimisticCOCO])
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200])
def test_gradients_too_small_to_step_by_are_none(kind, size):
    learner = kind(BALL)
    for _ in range(3):
        learner.predict()
        learner.update(np.full(3, size), 1.0, [0.0, 0.0, 1.0])
    assert np.isfinite(learner.predict()).all()
    assert np.isfinite(learner.certificate().regret_upper)


@pytest.mark.parametrize("kind", [AnytimeCOCO, DynamicCOCO, OptimisticCOCO])
def test_a_text_is_no_violation(kind):
    learner = kind(BALL)
    learner.predict()
    with pytest.raises(InvalidInput, match="violation: expected"):
        learner.update([0.0, 0.0, 1.0], "3", [0.0, 0.0, 1.0])


def test_the_optimistic_learner_refuses_what_its_products_cannot_hold():
    learner = OptimisticCOCO(BALL)
    for name, call in {
        "cost_grad": lambda: learner.update([0.0, 0.0, 1e61]),
        "violation": lambda: learner.update([0.0, 0.0, 1.0], 1e61, [0.0, 0.0, 1.0]),
        "violation_grad": lambda: learner.update([0.0, 0.0, 1.0], 1.0, [0.0, 0.0, 1e61]),
        "hint.a": lambda: learner.predict(Hint(a=[0.0, 0.0, 1e61])),
        "lipschitz": lambda: OptimisticCOCO(BALL, lipschitz=1e61),
    }.items():
        learner.predict()
        with pytest.raises(InvalidInput, match=f"^{name}: expected"):
            call()


@pytest.mark.parametrize("size", [1e-59, 1.0, 1e59])
def test_the_optimistic_learner_stays_finite_where_no_point_is_feasible(size):
    learner = OptimisticCOCO(BALL, hints=hints.Last())
    for t in range(60):
        x = learner.predict()
        assert np.isfinite(x).all()
        a = size * np.eye(3)[t % 3]
        learner.update(-a, size * 10.0, a)
    assert not np.isnan(learner.certificate().regret_upper)


def test_no_constraints_are_met():
    learner = OptimisticCOCO(BALL)
    learner.predict()
    learner.update([0.0, 0.0, 1.0], [])
    assert np.isfinite(learner.certificate().regret_upper)
