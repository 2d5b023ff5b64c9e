"""The torch backend gives the same certified kind of answer."""

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax.instances import graph_matrix
from qubo_relax.theory import is_vertex_minimum

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("method", ["pgd", "adam", "graduated"])
@pytest.mark.parametrize("density", [0.1, 0.6])
def test_every_sample_is_a_local_minimizer(method, density):
    p = qr.problems.MIS(graph_matrix(np.random.default_rng(0), 40, density))
    r = qr.minimize(p, method, restarts=8, steps=200, backend="torch", device="cpu", improve=False)
    assert r.feasible_fraction == 1.0
    assert is_vertex_minimum(p.qubo(), r.samples).all()
    other = qr.minimize(p, method, restarts=8, steps=200, improve=False)
    assert r.objective == pytest.approx(other.objective, abs=3)


def test_one_step_of_pgd_equals_the_compiled_one():
    from qubo_relax.solvers.lanes import Stop
    from qubo_relax.solvers.pgd import pgd
    from qubo_relax.solvers.prepared import Prepared
    from qubo_relax.solvers.torch_backend import run

    q = qr.problems.MIS(graph_matrix(np.random.default_rng(1), 30, 0.3)).qubo()
    X0 = np.random.default_rng(2).random((4, 30), dtype=np.float32)
    prep = Prepared.of(q)
    ours = pgd(prep, X0, 3, {}, Stop()).X
    theirs = run("pgd", prep, X0, 3, {}, Stop(), "cpu").X
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_what_torch_cannot_do_is_said():
    q = qr.Qubo([-1.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InvalidInput, match=r"^method:"):
        qr.minimize(q, "anneal", backend="torch")
    with pytest.raises(InvalidInput, match=r"^device:"):
        qr.minimize(q, "pgd", backend="torch", device="tpu9")


@pytest.mark.cuda
def test_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    p = qr.problems.MaxCut(graph_matrix(np.random.default_rng(0), 200, 0.1))
    r = qr.minimize(p, "graduated", restarts=64, steps=200, backend="torch", device="cuda")
    assert is_vertex_minimum(p.qubo(), r.samples).all()
