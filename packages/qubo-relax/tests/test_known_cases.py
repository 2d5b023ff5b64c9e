"""Small cases whose minimizers are known, counted by hand or by enumeration."""

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax.constraints import Rows
from qubo_relax.problems import TSP, Knapsack, OpenPit

SQUARE = np.abs(np.array([[0, 0], [0, 1], [1, 1], [1, 0]])[:, None] - [[0, 0], [0, 1], [1, 1], [1, 0]]).sum(-1)


def counts(q, p):
    m = q.local_minima()
    return len(m), int((~Rows(p.constraints(), q.n).feasible(m)).sum())


def is_local_minimizer_by_hand(q, x):
    """Every single flip, one by one, without the code under test."""
    return all(q.energy(np.where(np.arange(q.n) == i, 1 - x, x)) >= q.energy(x) - 1e-9 for i in range(q.n))


def test_tours_of_the_unit_square():
    p = TSP(SQUARE, fix_first=False)
    assert counts(p.qubo("lucas", penalty=2.0), p) == (84, 60)
    assert counts(p.qubo(margin=0.1), p) == (24, 0)
    assert qr.verify_conditions(p.qubo(margin=0.1), p.constraints(), method="enumerate").margin == pytest.approx(0.1)


@pytest.mark.parametrize(("reward", "conflict", "expected"), [(4.5, 5.0, (24, 0)), (3.0, 3.5, (104, 80))])
def test_the_reward_must_exceed_the_two_largest_distances(reward, conflict, expected):
    from qubo_relax import blocks

    p = TSP(SQUARE, fix_first=False)
    terms = blocks.Terms(16)
    index = p.index()
    for k in range(4):
        for a in range(4):
            for b in range(4):
                terms.add_pairs([index[k, a]], [index[(k + 1) % 4, b]], SQUARE[a, b])
    terms.add_linear(np.arange(16), -reward)
    terms.add_pairs(*blocks.rook_pairs(index), conflict)
    assert counts(terms.build(), p) == expected


@pytest.mark.parametrize("lam", [6.0, 1e2, 1e6])
def test_the_direct_pit_fails_for_every_penalty(lam):
    p = OpenPit([5, 5, -1, -1], [(0, 1), (1, 2), (2, 3)])
    q = p.qubo("direct", penalty=lam)
    c = qr.verify_conditions(q, p.constraints())
    assert c.status == "refuted"
    x = np.array([1, 1, 0, 0])
    assert is_local_minimizer_by_hand(q, x)
    assert x[1] > x[2]
    assert is_local_minimizer_by_hand(q, c.counterexample)
    i, j = next((i, j) for i, j in p.arcs if c.counterexample[i] > c.counterexample[j])
    assert c.violated == f"{i} needs {j}"


def test_a_chain_that_pays_has_one_minimizer():
    p = OpenPit([10, -2, -2, -2], [(0, 1), (1, 2), (2, 3)])
    m = p.qubo().local_minima()
    assert m.tolist() == [[1, 1, 1, 1]]
    assert p.objective(p.decode(m[0])) == 4


def test_a_weightless_descendant_is_priced():
    # 2 needs 1 needs 0; block 2 weighs nothing, yet must leave before 1 can: rule (a).
    p = OpenPit([-1, 2, 5], [(2, 1), (1, 0)], resource=[3, 4, 0], capacity=5)
    assert p.qubo().local_minima().tolist() == [[0, 0, 0]]
    assert qr.verify_conditions(p, method="structural").status == "certified"


def test_prices_of_the_textbook_knapsack():
    p = Knapsack([60, 100, 120], [10, 20, 30], 50)
    q = p.qubo("price")
    expected = [[0, 32.7869, 58.5366], [32.7869, 0, 117.0732], [58.5366, 117.0732, 0]]
    np.testing.assert_allclose(q.quadratic.toarray(), expected, atol=5e-5)
    m = q.local_minima()
    assert len(m) == 2
    assert q.energy(m[0]) == pytest.approx(-127.2131, abs=5e-5)
    assert p.objective(p.decode(m[0])) == 160
    assert p.objective(p.improve(p.decode(m[0]))) == 220


def test_placements_are_exact():
    p = Knapsack([6, 10, 12], [1, 2, 3], 5)
    q = p.qubo("placement")
    assert counts_of(q, p, "placement") == (4, 0)
    assert -q.energy(q.local_minima()[0]) == 22 == p.objective(p.solve_exact())


def counts_of(q, p, formulation):
    m = q.local_minima()
    return len(m), int((~Rows(p.constraints(formulation), q.n).feasible(m)).sum())


def test_binary_slack_is_refuted_with_a_point_that_can_be_checked_by_hand():
    p = Knapsack([1, 1], [2, 2], 3)
    q = p.qubo("slack_binary", penalty=10.0)
    x = np.array([1, 1, 0, 0])  # residual 2 + 2 - 3 = 1: dropping an item leaves residual -1, no gain in the square
    assert is_local_minimizer_by_hand(q, x)
    c = qr.verify_conditions(p, formulation="slack_binary")
    assert c.status == "refuted"
    assert 2 * c.counterexample[0] + 2 * c.counterexample[1] > 3
    assert is_local_minimizer_by_hand(p.qubo("slack_binary"), c.counterexample)


def test_two_vertices_with_penalty_one_are_refuted():
    q = qr.Qubo([-1.0, -1.0], {(0, 1): 1.0})
    row = [qr.LinearConstraint([1, 1], "<=", 1)]
    for method in ("enumerate", "milp", "search"):
        c = qr.verify_conditions(q, row, method=method, rng=0)
        assert c.status == "refuted", method
        assert c.counterexample.tolist() == [1, 1]
    assert qr.verify_conditions(qr.Qubo([-1.0, -1.0], {(0, 1): 1.1}, concavity=0.01), row).status == "certified"


def test_a_concavity_at_the_margin_is_refused():
    p = TSP(SQUARE, fix_first=False)
    with pytest.raises(InvalidInput, match=r"^concavity:"):
        p.qubo(margin=0.1, concavity=0.11)
    assert p.qubo(margin=0.1, concavity=0.09).concavity == 0.09


def test_a_concavity_above_the_margin_lets_infeasible_vertices_in():
    p = TSP(SQUARE, fix_first=False)
    c = qr.verify_conditions(p.qubo(margin=0.1), p.constraints(), eps=0.2)
    assert c.status == "refuted"
