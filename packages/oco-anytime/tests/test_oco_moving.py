"""Dynamic and optimistic learners: certificates under adversaries that see every move."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from oco_anytime import (
    AnytimeCOCO,
    DynamicCOCO,
    HindsightTracker,
    Hint,
    OptimisticCOCO,
    domains,
    hints,
    play,
    play_linear,
)
from oco_anytime.environments import Stream
from oco_anytime.state import from_json, to_json

BALL = domains.Ball(3)


def _attack(rng, x, u, size=1.0):
    """Cost and constraint that both push away from u (or, now and then, at random)."""
    away = x - u
    r = max(float(np.linalg.norm(away)), 1e-9)
    c = away / r if rng.random() < 0.8 else rng.standard_normal(x.size) / np.sqrt(x.size)
    a = away / r + 0.2 * rng.standard_normal(x.size)
    a /= np.linalg.norm(a)
    return size * c, float(a @ away) - (rng.random() < 0.3) * rng.random(), a


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([None, "observed"]),
    st.booleans(),
    st.sampled_from(["budgeted", "lyapunov"]),
    st.integers(1, 40),
    st.integers(0, 2**31),
)
def test_the_dynamic_certificate_holds_for_the_path_that_occurred(path, known, penalty, segment, seed):
    rng = np.random.default_rng(seed)
    learner = DynamicCOCO(BALL, path=path, lipschitz=1.5 if known else None, penalty=penalty)
    u = BALL.project(rng.standard_normal(3))
    regret = total = size = 0.0
    for t in range(150):
        x = learner.predict()
        assert BALL.contains(x)
        if t % segment == 0 and t:
            new = -u if rng.random() < 0.5 else BALL.project(rng.standard_normal(3))
            total += np.linalg.norm(new - u)
            u = new
        scale = 1.0 if known or rng.random() > 0.1 else 10 ** rng.uniform(-2, 1.2)
        c, v, a = _attack(rng, x, u, scale)
        c = c / max(1.0, np.linalg.norm(c) / 1.5) if known else c
        regret += c @ (x - u)
        size += abs(c @ (x - u))
        learner.update(c, v, a, comparator=u)
        certificate = learner.certificate(total if path is None else None)
        assert regret <= certificate.regret_upper + 1e-11 * (1 + size)
        if path == "observed" and certificate.regret_budget is not None:
            assert certificate.regret_upper <= certificate.regret_budget * (1 + 1e-12)
    assert certificate.epochs >= 1


def test_an_observed_path_restarts_at_most_logarithmically_often():
    learner = DynamicCOCO(BALL, path="observed")
    rng = np.random.default_rng(0)
    for t in range(600):
        u = BALL.project(rng.standard_normal(3))
        learner.update(u, 0.0, path_increment=0.0 if t == 0 else 1.0)
    c = learner.certificate()
    # s reaches the power of two above sqrt(1 + 599) = 24.5
    assert 2 <= c.epochs <= 6


def test_one_step_size_is_the_static_learner():
    env = Stream("random", 60, 3, 4)
    dynamic = DynamicCOCO(env.domain, n_experts=2, penalty="lyapunov", lipschitz=2.0)
    static = AnytimeCOCO.paper(env.domain, lipschitz=2.0)
    # as long as H = 0 nothing has moved; after the first round expert 0 stands where the static learner does
    for learner in (dynamic, static):
        learner.update(env.costs[0])
    np.testing.assert_allclose(dynamic._Y[0], static.predict(), atol=1e-15)


@pytest.mark.parametrize("path", [None, "observed"])
@pytest.mark.parametrize(
    "domain", [BALL, domains.Polytope([[1, 1, 1]], [1.0], lower=-1, upper=1)], ids=["ball", "polytope"]
)
def test_a_resumed_dynamic_learner_continues_bit_for_bit(path, domain):
    rng = np.random.default_rng(5)
    rounds = [
        (*rng.standard_normal((2, 3)), rng.random() - 0.5, domain.project(rng.standard_normal(3))) for _ in range(60)
    ]

    def feed(learner, part):
        xs = []
        for c, a, v, u in part:
            xs.append(learner.predict())
            learner.update(c, v, a, comparator=u)
        return xs

    whole = feed(DynamicCOCO(domain, path=path), rounds)
    half = DynamicCOCO(domain, path=path)
    feed(half, rounds[:25])
    again = DynamicCOCO(domain, path=path).load_state_dict(from_json(to_json(half.state_dict())))
    np.testing.assert_array_equal(feed(again, rounds[25:]), whole[25:])


def test_dynamic_input_is_checked_and_changes_nothing():
    learner = DynamicCOCO(BALL, path="observed")
    before = to_json(learner.state_dict())
    bad = [
        (([1, 0, 0],), {}, "comparator"),
        (([1, 0, 0],), {"comparator": [1, 0]}, "comparator"),
        (([1, 0, 0],), {"path_increment": -1.0}, "path_increment"),
        (([np.nan, 0, 0],), {"path_increment": 0.0}, "cost_grad"),
        (([1, 0, 0], 1.0), {"path_increment": 0.0}, "violation_grad"),
    ]
    for arguments, options, name in bad:
        with pytest.raises(InvalidInput, match=f"^{name}:"):
            learner.update(*arguments, **options)
        assert to_json(learner.state_dict()) == before
    with pytest.raises(InvalidInput, match=r"^path:"):
        DynamicCOCO(BALL, path="other")
    with pytest.raises(InvalidInput, match=r"^n_experts:"):
        DynamicCOCO(BALL, n_experts=1)
    with pytest.raises(InvalidInput, match=r"^learner:"):
        play_linear(DynamicCOCO(BALL), np.ones((3, 3)))


def test_the_greedy_path_is_feasible_and_lazy():
    tracker = HindsightTracker(domains.Ball(2))
    tracker.push([1, 0], [1, 0], 0.5).push([1, 0], [-1, 0], -0.2).push([1, 0], [0, 1], 0.9).push([0, 0], [1, 0], -0.4)
    np.testing.assert_allclose(tracker.greedy_path(), [[0, 0], [0.2, 0], [0.2, 0], [-0.4, 0]], atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.booleans(), st.sampled_from([0.0, 0.1, 2.0, None]), st.integers(0, 2**31))
def test_the_optimistic_certificate_holds_whatever_the_hints(known, noise, seed):
    rng = np.random.default_rng(seed)
    learner = OptimisticCOCO(BALL, lipschitz=1.5 if known else None)
    u = BALL.project(rng.standard_normal(3))
    regret = size = 0.0
    for _ in range(80):
        c = rng.standard_normal(3) / 2
        a = rng.standard_normal(3)
        a /= np.linalg.norm(a)
        b = float(a @ u) + (rng.random() < 0.4) * rng.random()
        hint = (
            None if noise is None else Hint(c + noise * rng.standard_normal(3), a + noise * rng.standard_normal(3), b)
        )
        x = learner.predict(hint)
        assert BALL.contains(x)
        if noise is None or rng.random() < 0.3:
            c = (x - u) / max(float(np.linalg.norm(x - u)), 1e-9)
        if known:
            c = c / max(1.0, np.linalg.norm(c) / 1.5)
        regret += c @ (x - u)
        size += 1.0
        learner.update(c, float(a @ x - b), a)
        assert regret <= learner.certificate().regret_upper + 1e-11 * size


def test_perfect_hints_leave_no_violation():
    env = Stream("opposed", 300, 3, 2)
    learner = OptimisticCOCO(env.domain)
    for c, a, b in zip(env.costs, env.A, env.b):
        x = learner.predict(Hint(c, a, b))
        learner.update(c, float(a @ x - b), a)
    assert learner.certificate().ccv < 1e-6


@pytest.mark.parametrize(
    "source", [hints.Last, lambda: hints.Mean(5), lambda: hints.Periodic(7)], ids=["last", "mean", "periodic"]
)
def test_hints_from_the_past_and_resume(source):
    env = Stream("flip", 80, 3, 3)
    whole = OptimisticCOCO(env.domain, hints=source())
    run = play(whole, env, 80)
    half = OptimisticCOCO(env.domain, hints=source())
    play(half, env, 33)
    again = OptimisticCOCO(env.domain, hints=source()).load_state_dict(from_json(to_json(half.state_dict())))
    for t in range(33, 80):
        x = again.predict()
        np.testing.assert_array_equal(x, run.x[t])
        o = env.round(t, x)
        again.update(o.cost_grad, o.violation, o.violation_grad)
    blind = OptimisticCOCO(env.domain)
    play(blind, env, 80)
    assert whole.certificate().ccv <= blind.certificate().ccv + 1.0


def test_callable_hints_are_asked_by_round():
    asked = []
    learner = OptimisticCOCO(BALL, hints=hints.Callable(lambda t: asked.append(t)))
    for _ in range(3):
        learner.predict()
        learner.predict()
        learner.update([1, 0, 0])
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("domain", [domains.Simplex(4), domains.CappedSimplex(4, 1, 0.6)])
def test_optimistic_steps_along_the_domain_ignore_what_cannot_move_it(domain):
    rng = np.random.default_rng(4)
    plain, along, shifted = (OptimisticCOCO(domain, lipschitz=1.0, tangent=t) for t in (False, True, True))
    u = domain.center()
    regret = 0.0
    for _ in range(60):
        c, a = rng.standard_normal((2, 4)) / 8.0
        b = float(a @ u)
        x = along.predict(Hint(c + 0.01, a, b))
        # constants added to gradients, and to both sides of a constraint, change nothing on the simplex
        np.testing.assert_allclose(shifted.predict(Hint(c + 0.06, a + 0.02, b + 0.02)), x, atol=1e-9)
        v = float(a @ x) - b
        regret += float(c @ (x - u))
        along.update(c, v, a)
        shifted.update(c + 0.05, v, a + 0.02)
        assert regret <= along.certificate().regret_upper + 1e-9
        x = plain.predict(Hint(c + 0.01, a, b))
        plain.update(c, float(a @ x) - b, a)
    assert along.certificate().lipschitz[0] <= 1.0
    assert along.state_dict()["numbers"]["hm"] < plain.state_dict()["numbers"]["hm"]
    resumed = OptimisticCOCO(domain, lipschitz=1.0, tangent=True).load_state_dict(along.state_dict())
    np.testing.assert_array_equal(resumed.predict(), along.predict())


def test_an_optimistic_learner_counts_given_constants_that_were_too_small():
    learner = OptimisticCOCO(BALL, lipschitz=1.0)
    learner.predict()
    with pytest.warns(UserWarning, match="exceeded the given Lipschitz"):
        learner.update([2, 0, 0])
    learner.predict()
    learner.update([3, 0, 0])
    assert learner.certificate().lipschitz_exceeded == 2
    assert learner.certificate().lipschitz == (3.0, 1.0)


def test_optimistic_input_is_checked_and_changes_nothing():
    learner = OptimisticCOCO(BALL)
    with pytest.raises(InvalidInput, match=r"^update:"):
        learner.update([1, 0, 0])
    with pytest.raises(InvalidInput, match=r"^hint.cost_grad:"):
        learner.predict(Hint([np.nan, 0, 0]))
    with pytest.raises(InvalidInput, match=r"^hint.a:"):
        learner.predict(Hint([1, 0, 0], [1, 0]))
    learner.predict()
    before = to_json(learner.state_dict())
    for arguments, name in [
        (([1, 0],), "cost_grad"),
        (([1, 0, 0], 1.0), "violation_grad"),
        (([1, 0, 0], np.nan), "violation"),
    ]:
        with pytest.raises(InvalidInput, match=f"^{name}:"):
            learner.update(*arguments)
        assert to_json(learner.state_dict()) == before
    with pytest.raises(ValueError, match="read-only"):
        learner.predict()[0] = 1.0
