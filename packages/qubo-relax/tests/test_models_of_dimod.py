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
