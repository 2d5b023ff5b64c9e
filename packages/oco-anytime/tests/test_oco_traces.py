"""Golden traces: values computed independently of this package, given with ten digits."""

import numpy as np
import pytest
from oco_anytime import AnytimeCOCO
from oco_anytime.domains import Ball


def _on_the_line(learner, rounds, beta=1.0):
    """Ball(1), cost gradient -1, constraint beta x <= 0."""
    xs, certificates, weights, z, h = [], [], [], [], []
    for _ in range(rounds):
        x = learner.predict()
        xs.append(x[0])
        learner.update([-1.0], beta * x[0], [beta])
        c = learner.certificate()
        certificates.append(c.regret_upper)
        weights.append(c.penalty)
        state = learner.state_dict()
        z.append(state["z"][0])
        h.append(state["scalars"]["H"])
    return np.array(xs), np.array(certificates), np.array(weights), np.array(z), np.array(h)


def test_paper_mode():
    x, certificate, w, z, _ = _on_the_line(AnytimeCOCO.paper(Ball(1), lipschitz=1), 6)
    np.testing.assert_allclose(x, [0, 1, 1, 1, 1, 1], atol=1e-15)
    np.testing.assert_allclose(
        z[1:], [0.0883883476, 0.1605571313, 0.2230571313, 0.2789588307, 0.3299898670], atol=5e-11
    )
    np.testing.assert_allclose(
        w[1:], [0.3862260639, 0.3389521969, 0.3124729949, 0.2955529395, 0.2839273032], atol=5e-11
    )
    expected = [2.1213203436, 2.2072569966, 2.3429705356, 2.4853805993, 2.6208592941, 2.7448335516]
    np.testing.assert_allclose(certificate, expected, atol=6e-11)


def test_summable_schedule_on_the_clock_of_violations():
    learner = AnytimeCOCO(Ball(1), penalty="lyapunov", schedule="summable", clock="violations", lipschitz=1)
    _, _, _, z, h = _on_the_line(learner, 6)
    np.testing.assert_allclose(
        z[1:], [0.0600480577, 0.0902011879, 0.1116144287, 0.1286732240, 0.1430697741], atol=6e-11
    )
    assert h[-1] == pytest.approx(4.8483451415, abs=6e-11)


@pytest.mark.parametrize("lipschitz", [1, None, (1, 1)])
def test_budgeted_mode(lipschitz):
    x, certificate, w, _, _ = _on_the_line(AnytimeCOCO(Ball(1), lipschitz=lipschitz), 7)
    expected = [0, 1, 0.2134179344, -0.6094987982, 0.1824122962, -0.6614721225, -0.0818307920]
    np.testing.assert_allclose(x, expected, atol=6e-11)
    np.testing.assert_allclose(w[[1, 2, 4]], [1.6692707083, 1.8609546061, 2.3279672517], atol=6e-11)
    np.testing.assert_allclose(certificate[[1, 5]], [1.0027729492, 3.5300015057], atol=6e-11)


@pytest.mark.parametrize("beta", [0.1, 1e-6, 1e6])
def test_units_of_the_constraint_do_not_matter(beta):
    x, *_ = _on_the_line(AnytimeCOCO(Ball(1)), 7, beta)
    expected = [0, 1, 0.2134179344, -0.6094987982, 0.1824122962, -0.6614721225, -0.0818307920]
    np.testing.assert_allclose(x, expected, atol=1.5e-10)


def test_a_start_without_costs():
    learner = AnytimeCOCO(Ball(2), x0=(1, 0))
    xs, certificates = [], []
    for c in [(0, 0)] * 3 + [(-1, 0)] * 2:
        learner.update(c, learner.predict()[0], (1, 0))
        xs.append(learner.predict().copy())
        certificates.append(learner.certificate().regret_upper)
    np.testing.assert_allclose(np.array(xs)[:, 0], [-0.41421356] * 3 + [1, -0.17454142], atol=6e-9)
    np.testing.assert_array_equal(np.array(xs)[:, 1], 0)
    np.testing.assert_allclose(certificates[3:], [2.1213203436, 1.6307520326], atol=6e-11)


def test_four_rounds_in_the_plane():
    rounds = [((1, 0), (0, 1), 0), ((0, -2), (0, 1), 0.25), ((-1, -1), (1, 0), -0.1), ((3, 0), (-1, 0), 0.5)]
    learner = AnytimeCOCO(Ball(2))
    xs, certificates = [learner.predict()], []
    for c, a, b in rounds:
        learner.update(c, np.dot(a, learner.predict()) - b, a)
        xs.append(learner.predict())
        certificates.append(learner.certificate().regret_upper)
    expected = [(0, 0), (-1, 0), (-0.62017367, 0.78446454), (-0.06480061, 0.99789823), (-0.74823779, 0.66343064)]
    np.testing.assert_allclose(xs, expected, atol=6e-9)
    np.testing.assert_allclose(certificates, [2.1213203436, 5.1342955054, 6.2481977159, 9.7543848362], atol=6e-11)


def test_given_constants_that_are_exceeded_are_counted_and_warned_of_once():
    learner = AnytimeCOCO(Ball(1), lipschitz=1)
    with pytest.warns(UserWarning, match="exceeded"):
        learner.update([2.0])
    learner.update([3.0])
    c = learner.certificate()
    assert c.lipschitz_exceeded == 2
    assert c.lipschitz[0] == 3.0
