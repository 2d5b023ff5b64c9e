"""Every certified formulation on random small instances: all vertices are enumerated."""

import numpy as np
import pytest
import qubo_relax as qr
from qubo_relax.instances import CERTIFIED, instance

COUNT = 50


@pytest.mark.parametrize("name", list(CERTIFIED))
def test_no_local_minimizer_is_infeasible(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    margins = []
    for _ in range(COUNT):
        problem, formulation = instance(name, rng, limit=14)
        exact = qr.verify_conditions(problem, method="enumerate", formulation=formulation)
        assert exact.status == "certified", (problem, exact)
        proof = qr.verify_conditions(problem, method="structural", formulation=formulation)
        assert proof.status == "certified", (problem, proof)
        # The structural slack is a lower bound of the exact margin, and the concavity lies below it.
        assert proof.margin <= exact.margin * (1 + 1e-9) + 1e-12
        qubo = problem.qubo(formulation)
        assert 0 < qubo.concavity < proof.margin
        # The blocks stand for the problem's constraints, not for some others.
        own = qr.verify_conditions(qubo, problem.constraints(formulation), method="structural")
        assert own.status == "certified", own.reasons
        margins.append(exact.margin)
    assert name == "max-cut" or np.isfinite(margins).any()


@pytest.mark.parametrize("name", list(CERTIFIED))
def test_solutions_and_points_go_back_and_forth(name):
    rng = np.random.default_rng(7)
    for _ in range(10):
        problem, formulation = instance(name, rng)
        qubo = problem.qubo(formulation)
        for x in qubo.local_minima()[:20]:
            solution = problem.decode(x, formulation)
            assert problem.is_feasible(solution)
            again = problem.decode(problem.encode(solution, formulation), formulation)
            np.testing.assert_array_equal(again, solution)
            better = problem.improve(solution, 0, 0.05)
            assert problem.is_feasible(better)
            gain = problem.objective(better) - problem.objective(solution)
            assert (gain if problem.maximise else -gain) >= -1e-9
        assert qubo.quadratic.nnz == 0 or abs(qubo.quadratic).max() < 1e3 * (problem.value_scale + 1)


EXACT = [
    k for k in CERTIFIED if not any(w in k for w in ("price", "rows", "periods", "linear program", "multi", "bin"))
]


@pytest.mark.parametrize("name", EXACT)
def test_the_global_minimum_of_an_exact_formulation_is_the_optimum(name):
    rng = np.random.default_rng(11)
    for _ in range(8):
        problem, formulation = instance(name, rng, limit=12)
        qubo = problem.qubo(formulation)
        m = qubo.local_minima()
        values = [problem.objective(problem.decode(x, formulation)) for x in m]
        best = max(values) if problem.maximise else min(values)
        assert values[0] == pytest.approx(best)
        exact = problem.solve_exact(10.0)
        if exact is not None:
            assert problem.objective(exact) == pytest.approx(best)
