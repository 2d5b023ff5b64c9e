"""To and from dimod, the sampler, exact solvers side by side."""

import numpy as np
import pytest
import qubo_relax as qr
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput

dimod = pytest.importorskip("dimod")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**31), st.sampled_from(["BINARY", "SPIN"]))
def test_a_model_comes_back_with_its_energies(n, seed, kind):
    rng = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(n)]
    model = dimod.BinaryQuadraticModel(kind)
    for v in names:
        model.add_variable(v, float(rng.integers(-3, 4)))
    for _ in range(n if n > 1 else 0):
        a, b = rng.choice(n, 2, replace=False)
        model.add_interaction(names[a], names[b], float(rng.integers(-3, 4)))
    model.offset = 0.5
    before = model.copy()
    q = qr.from_bqm(model)
    assert model == before
    assert list(q.labels) == names
    X = rng.integers(0, 2, (20, n))
    given_points = X if kind == "BINARY" else 2 * X - 1
    np.testing.assert_allclose(q.energy(X), model.energies((given_points, names)), atol=1e-9)
    back = qr.to_bqm(q)
    np.testing.assert_allclose(back.energies((X, names)), q.energy(X), atol=1e-9)
    assert qr.from_bqm(back).quadratic.toarray().tolist() == q.quadratic.toarray().tolist()


def test_the_sampler_finds_what_the_exact_solver_finds():
    rng = np.random.default_rng(0)
    for _ in range(5):
        model = dimod.generators.ran_r(3, 10, seed=int(rng.integers(1000)))
        exact = dimod.ExactSolver().sample(model).first.energy
        found = qr.RelaxSampler().sample(model, num_reads=16, num_sweeps=200, seed=1)
        assert found.first.energy == pytest.approx(exact)
        assert found.info["certificate"]["status"] == "local_min"
        again = qr.RelaxSampler().sample(model, num_reads=4, num_sweeps=200, seed=1)
        np.testing.assert_array_equal(again.record.sample, found.record.sample[:4])


def test_ising_and_qubo_forms():
    assert qr.RelaxSampler().sample_ising({"a": 1.0}, {("a", "b"): 1.0}, num_reads=4).first.energy == -2
    assert qr.RelaxSampler().sample_qubo({("a", "a"): -1.0, ("a", "b"): 2.0}, num_reads=4).first.energy == -1


def test_other_objects_are_refused():
    with pytest.raises(InvalidInput, match=r"^bqm:"):
        qr.from_bqm({"a": 1})


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: qr.from_bqm(dimod.BinaryQuadraticModel({"a": np.nan}, {}, 0.0, "BINARY")), "linear"),
        (lambda: qr.from_bqm(dimod.BinaryQuadraticModel({}, {("a", "b"): np.inf}, 0.0, "SPIN")), "v:"),
        (lambda: qr.from_bqm(dimod.BinaryQuadraticModel({"a": 1.0}, {}, np.nan, "BINARY")), "offset"),
        (lambda: qr.from_bqm(dimod.BinaryQuadraticModel({"a": 1.0}, {}, 0.0, "BINARY"), concavity=-1), "concavity"),
        (lambda: qr.from_bqm(dimod.ConstrainedQuadraticModel()), "bqm"),
        (lambda: qr.RelaxSampler().sample_qubo({("a", "a"): np.nan}), "linear"),
    ],
)
def test_what_no_model_may_hold(make, match):
    with pytest.raises(InvalidInput, match=match):
        make()


def test_an_empty_model():
    r = qr.minimize(qr.from_bqm(dimod.BinaryQuadraticModel({}, {}, 2.5, "BINARY")), restarts=2, steps=2)
    assert (r.x.size, r.energy, r.certificate.status) == (0, 2.5, "local_min")


def test_a_model_of_dimod_answers_with_value_feasibility_and_certificate():
    # Two of three may be taken; a penalty of 3 on the excess pairs is more than any value lost.
    model = dimod.BinaryQuadraticModel(
        {"a": -2.0, "b": -1.5, "c": -1.0}, {("a", "b"): 3.0, ("b", "c"): 3.0}, 0, "BINARY"
    )
    rows = [qr.LinearConstraint([1, 1, 0], "<=", 1), qr.LinearConstraint([0, 1, 1], "<=", 1)]
    q = qr.from_bqm(model, concavity=1e-3)
    r = qr.minimize(q, restarts=8, steps=50, constraints=rows)
    assert dict(zip(q.labels, r.x.tolist())) == {"a": 1, "b": 0, "c": 1}
    assert (r.objective, r.feasible, r.certificate.status) == (-3.0, True, "local_min")
    assert qr.verify_conditions(q, rows).status == "certified"


def test_the_example_of_the_readme():
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    rows = [qr.LinearConstraint({a: 1, b: 1}, "<=", 1) for a, b in ring]
    bqm = dimod.BinaryQuadraticModel(dict.fromkeys(range(5), -1.0), dict.fromkeys(ring, 1.0), 0.0, "BINARY")
    good = qr.repair(bqm, rows)
    assert good.raised == 5
    first = qr.RelaxSampler().sample(good.model, num_reads=16, seed=1).first
    assert first.energy == -2
    assert all(first.sample[a] + first.sample[b] <= 1 for a, b in ring)
