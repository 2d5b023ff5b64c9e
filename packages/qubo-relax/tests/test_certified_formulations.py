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


@pytest.mark.parametrize("seed", range(5))
def test_new_names_for_the_blocks_change_nothing(seed):
    rng = np.random.default_rng(seed)
    from qubo_relax.instances import small_pit
    from qubo_relax.problems import OpenPit

    value, arcs = small_pit(rng, 9)
    weight, turn = rng.integers(0, 6, 9), rng.permutation(9)
    place = np.argsort(turn)
    one = OpenPit(value, arcs, weight, 9)
    other = OpenPit(value[turn], place[arcs], weight[turn], 9)
    # Ties in the order of the prices may be broken the other way, so the verdicts and the optima are compared.
    a, b = (qr.verify_conditions(p, method="enumerate") for p in (one, other))
    assert a.status == b.status == "certified"
    assert one.objective(one.solve_exact()) == other.objective(other.solve_exact())
    plain, renamed = OpenPit(value, arcs).qubo(), OpenPit(value[turn], place[arcs]).qubo()
    np.testing.assert_allclose(plain.quadratic.toarray()[np.ix_(turn, turn)], renamed.quadratic.toarray())
    assert len(plain.local_minima()) == len(renamed.local_minima())


def test_repaired_penalties_certify_and_keep_feasible_energies():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 9))
        pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4]
        rows = [qr.LinearConstraint({i: 1, j: 1}, "<=", 1) for i, j in pairs]
        q = qr.Qubo(-rng.integers(0, 5, n).astype(float), dict.fromkeys(pairs, float(rng.integers(0, 3))))
        fixed = qr.repair(q, rows)
        assert fixed.left == []
        assert qr.verify_conditions(fixed.qubo, rows, method="enumerate").status == "certified"
        assert qr.verify_conditions(fixed.qubo, rows, method="structural").status == "certified"
        X = rng.integers(0, 2, (40, n))
        good = [x for x in X if not any(x[i] and x[j] for i, j in pairs)]
        for x in good:
            assert fixed.model.energy(x) == pytest.approx(q.energy(x))


def test_the_integer_program_agrees_with_enumeration():
    rng = np.random.default_rng(1)
    verdicts = set()
    for _ in range(25):
        n = int(rng.integers(2, 8))
        M = np.triu(rng.integers(-2, 4, (n, n)), 1)
        q = qr.Qubo(rng.integers(-3, 3, n), M + M.T, concavity=0.25)
        rows = [qr.LinearConstraint(rng.integers(0, 4, n), "<=", float(rng.integers(1, 5)))]
        exact = qr.verify_conditions(q, rows, method="enumerate")
        found = qr.verify_conditions(q, rows, method="milp")
        assert exact.status == found.status
        verdicts.add(found.status)
        if found.status == "refuted":
            x = found.counterexample
            assert rows[0].value @ x[rows[0].index] > rows[0].b
            assert (found.gains > -0.25).all()
    assert verdicts == {"certified", "refuted"}


def test_a_coarse_placement_is_certified_and_always_fits():
    g = np.random.default_rng(5)
    for _ in range(40):
        n = int(g.integers(1, 5))
        units = int(g.integers(1, 5))
        p = qr.problems.Knapsack(g.integers(-2, 9, n), np.round(g.random(n) * 5, 2), 4.0, resolution=units)
        q = p.qubo("placement")
        if q.n <= 14:
            rows = p.constraints("placement")
            assert qr.verify_conditions(q, rows, method="enumerate").status == "certified"
            for x in q.local_minima():
                assert p.is_feasible(p.decode(x, "placement"))
        r = qr.minimize(p, restarts=4, steps=30, formulation="placement")
        assert r.feasible
        assert p.is_feasible(r.solution)
