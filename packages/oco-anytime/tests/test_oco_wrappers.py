"""The river and scikit-learn faces."""

import numpy as np
import pytest
from lemmata_core import InvalidInput
from oco_anytime import AnytimeCOCO, domains, play
from oco_anytime.environments import Stream
from oco_anytime.plots import ccv_and_regret
from oco_anytime.wrappers import ConstrainedLinear


def _data(n=1500):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, X @ [1.0, -2.0, 0.5] + 0.3


def test_both_interfaces_learn_the_same_regression():
    X, y = _data()
    batch = ConstrainedLinear(radius=5).partial_fit(X, y)
    river = ConstrainedLinear(radius=5)
    for row, target in zip(X, y):
        river.learn_one({"a": row[0], "b": row[1], "c": row[2]}, target)
    np.testing.assert_array_equal(batch.coef_, river.coef_)
    np.testing.assert_allclose(batch.coef_, [1.0, -2.0, 0.5], atol=0.05)
    np.testing.assert_allclose(batch.predict(X[:3]), y[:3], atol=0.2)
    assert river.predict_one({"a": 1.0}) == pytest.approx(1.3, abs=0.1)
    assert river.predict_one({"unknown": 5.0}) == pytest.approx(0.3, abs=0.1)


def test_a_constraint_on_the_coefficients_is_kept():
    X, y = _data()
    limit = lambda coef, row, target: (abs(coef[1]) - 0.5, np.sign(coef[1]) * np.eye(4)[1])  # noqa: E731
    model = ConstrainedLinear(limit, radius=5).partial_fit(X, y)
    assert abs(model.coef_[1]) <= 0.6
    assert model.learner_.certificate().ccv < 60


def test_classification():
    X, y = _data()
    labels = (y > 0).astype(float)
    model = ConstrainedLinear(loss="logistic").partial_fit(X, labels)
    assert ((model.predict(X) > 0.5) == labels).mean() > 0.95


def test_wrappers_refuse_bad_input():
    with pytest.raises(InvalidInput, match=r"^loss:"):
        ConstrainedLinear(loss="hinge")
    with pytest.raises(InvalidInput, match=r"^y:"):
        ConstrainedLinear(loss="logistic").learn_one({"a": 1.0}, 0.5)
    with pytest.raises(InvalidInput, match=r"^x:"):
        ConstrainedLinear(n_features=1).learn_one({"a": 1.0, "b": 2.0}, 0.5)
    with pytest.raises(InvalidInput, match=r"^X:"):
        ConstrainedLinear().partial_fit([[np.nan]], [1.0])
    with pytest.raises(InvalidInput, match=r"^predict:"):
        ConstrainedLinear().predict([[1.0]])


def test_a_picture_of_runs():
    pytest.importorskip("matplotlib")
    env = Stream("random", 100)
    run = play(AnytimeCOCO(env.domain), env, 100)
    figure = ccv_and_regret({"ours": run}, env.costs @ env.comparator)
    assert len(figure.axes) == 2
    with pytest.raises(InvalidInput, match=r"^runs:"):
        ccv_and_regret({})
    with pytest.raises(InvalidInput, match=r"^comparator_cost:"):
        ccv_and_regret({"ours": run}, [1.0])
    assert domains.Ball(2).dim == 2
