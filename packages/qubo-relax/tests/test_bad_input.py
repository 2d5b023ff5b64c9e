"""What cannot be used raises before any work, naming the argument."""

import subprocess
import sys

import numpy as np
import pytest
import qubo_relax as qr
from lemmata_core import InvalidInput
from qubo_relax import problems as P  # noqa: N812


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: P.OpenPit([1, np.nan], []), "value"),
        (lambda: P.OpenPit([1, 2], [(0, 2)]), "arcs"),
        (lambda: P.OpenPit([1, 2, 3], [(0, 1), (1, 2), (2, 0)]), r"arcs: .*cycle 0 -> 1 -> 2 -> 0"),
        (lambda: P.OpenPit([1, 2], [(0, 0)]), "cycle"),
        (lambda: P.OpenPit([1, 2], [(0, 1)], resource=[1, -1], capacity=[1]), "resource"),
        (lambda: P.OpenPit([1, 2], [(0, 1)], resource=[1, 1], capacity=[0]), "capacity"),
        (lambda: P.OpenPit([1, 2], [(0, 1)], resource=[1, 1]), "capacity"),
        (lambda: P.OpenPit([1, 2], [(0, 1)], risk=[[0, 1], [2, 0]]), "risk"),
        (lambda: P.OpenPit([1, 2], [(0, 1)], periods=2, discount=[0.5, 0.9]), "discount"),
        (lambda: P.Knapsack([1], [1], 0), "capacity"),
        (lambda: P.Knapsack([1], [1], -3), "capacity"),
        (lambda: P.Knapsack([1], [-1], 3), "weights"),
        (lambda: P.Knapsack([1], [1], []), "capacity"),
        (lambda: P.Knapsack([1], [1], 10**400), "capacity"),
        (lambda: P.Knapsack([1, 2], [1, 1e31], 3), r"weights: .*rescale"),
        (lambda: P.Knapsack([1, 2], [1], 3), "weights"),
        (lambda: P.Knapsack([1], [0.5], 3).qubo("placement"), "weights"),
        (lambda: P.MultiKnapsack([1], [[1]], [1, 2]), "capacities"),
        (lambda: P.TSP([[0, -1], [1, 0]]), "distances"),
        (lambda: P.TSP([[0, 1, 2], [1, 0, 2]]), "distances"),
        (lambda: P.MIS([[0, 1], [0, 0]]), "graph"),
        (lambda: P.MIS((2, [(0, 0)])), "graph"),
        (lambda: P.MIS((2, [(0, 5)])), "graph"),
        (lambda: P.MIS((2, [(0, 1)]), [1.0]), "weights"),
        (lambda: P.MaxKCut((2, [(0, 1)]), 0), "k"),
        (lambda: P.KSubset([1, 2], 3), "k"),
        (lambda: P.SetCover([[1]], [-1]), "costs"),
        (lambda: P.GAP([[1]], [[1]], [0]), "capacities"),
        (lambda: P.GAP([[1]], "text", [1]), "weights"),
        (lambda: P.BinaryLP([1], [[1]], [[1.0], [1.0, 2.0]]), "b:"),
        (lambda: P.BinaryLP([1], [[1]], [1], None), "sense"),
        (lambda: P.BinPacking([5], 3), "weights"),
        (lambda: P.FacilityLocation([[1, 2]], [1]), "opening"),
        (lambda: P.QAP(np.zeros((2, 2)), np.zeros((3, 3))), "distance"),
        (lambda: P.BinaryLP([1], [[1, 2]], [1]), "A"),
        (lambda: P.BinaryLP([1], [[1]], [1], "<"), "sense"),
        (lambda: P.BinaryLP([1], [[1]], [-1]).qubo(), "b:"),
        (lambda: P.Knapsack([1], [1], 3).qubo("prize"), "formulation"),
        (lambda: P.Knapsack([1], [1], 3).qubo("price", penalty=3.0), "penalty"),
        (lambda: P.Knapsack([1], [1], 3).qubo(margin=-1.0), "margin"),
        (lambda: P.Knapsack([1], [1], 3).qubo(concavity=-1.0), "concavity"),
        (lambda: P.Knapsack([1], [1], "3"), "capacity"),
        (lambda: qr.LinearConstraint([1], "<", 1), "sense"),
        (lambda: qr.LinearConstraint([np.nan], "<=", 1), "a:"),
        (lambda: qr.verify_conditions(qr.Qubo([1.0], [[0.0]])), "constraints"),
        (lambda: qr.verify_conditions(3, []), "target"),
        (lambda: qr.verify_conditions(qr.Qubo([1.0], [[0.0]]), ["x"]), "constraints"),
        (lambda: qr.verify_conditions(qr.Qubo([1.0], [[0.0]]), [], time_limit=-1), "time_limit"),
        (lambda: qr.certify_point(qr.Qubo([1.0], [[0.0]]), "abc"), "x:"),
        (lambda: qr.certify_point("abc", [0]), "qubo"),
        (lambda: qr.Qubo([1e31], [[0.0]]), r"quadratic: .*rescale"),
        (lambda: qr.Qubo.from_matrix([[0.0, 1e308], [1e308, 0.0]]), r"Q: .*rescale"),
        (lambda: qr.Qubo.from_coo(3, [[0], [1, 2]], [1], [1.0]), "i:"),
        (lambda: qr.Qubo([1.0, 1.0], [[0, 1.0], [1.0, 0]]).energy([1e308, -1e308]), "X:"),
        (lambda: qr.Qubo([1.0, 1.0], [[0, 9.0], [9.0, 0]]).field([1e308, 1e308]), "X:"),
        (lambda: qr.round_point(qr.Qubo.from_matrix([[1.0]], fold=False), [0.5]), "qubo"),
        (lambda: qr.suggest_weights(qr.Qubo([1.0], [[0.0]])), "problem"),
        (lambda: qr.LinearConstraint("abc", "<=", 1), "a:"),
        (lambda: qr.LinearConstraint({0.5: 1.0}, "<=", 1), "a:"),
        (lambda: qr.LinearConstraint([1.0], "<=", "1"), "b:"),
        (lambda: qr.Qubo([1.0], {(0,): 1.0}), "quadratic"),
        (lambda: qr.Qubo([1.0], {(0.5, 0): 1.0}), "quadratic"),
        (lambda: qr.Qubo.from_matrix(np.array([[1j]])), "Q:"),
        (lambda: qr.Qubo([1.0], [[0.0]]).energy([np.nan]), "X:"),
        (lambda: P.OpenPit([1, 2], [(0, 1), (1,)]), "arcs"),
        (lambda: P.OpenPit([1, 2], [], periods=2, discount="a"), "discount"),
        (lambda: P.OpenPit([1, 2], [], "ab", [1]), "resource"),
        (lambda: P.TSP([[0, 1], [1, 0]], fix_first="no"), "fix_first"),
        (lambda: P.MIS(("a", [])), "graph"),
        (lambda: P.MIS((2, [])).qubo(margin="x"), "margin"),
    ],
)
def test_the_argument_is_named(make, match):
    with pytest.raises(InvalidInput, match=match):
        make()


@pytest.mark.parametrize(
    ("rows", "b", "sense", "match"),
    [
        ([[1, 1]], [1], "==", "row 0: an equality"),
        ([[1, 0], [1, 1], [1, -1]], [1, 1, 1], "<=", "row 2: variable 1"),
        ([[1, -1], [-1, 1]], [0, 0], "<=", "cycle"),
    ],
)
def test_a_row_without_a_proof_is_named(rows, b, sense, match):
    p = P.BinaryLP([1, 1], rows, b, sense)
    with pytest.raises(qr.NotCertifiable, match=match):
        p.qubo()
    assert p.qubo("slack_binary").n >= 2


@pytest.mark.parametrize(
    "problem",
    [
        P.OpenPit([1, 2], []),
        P.OpenPit([1, 2], [], periods=3),
        P.Knapsack([1, 2], [1, 1], 1),
        P.MIS((2, [(0, 1)])),
        P.VertexCover((2, [(0, 1)])),
        P.SetPacking([[0], [0]]),
        P.SetCover([[0], [0]]),
        P.MaxCut((2, [(0, 1)])),
        P.MaxKCut((2, [(0, 1)]), 2),
        P.Colouring((2, [(0, 1)]), 2),
        P.GAP([[1, 2], [1, 2]], [[1, 1], [1, 1]], [1, 1]),
        P.BinPacking([1, 1], 2),
        P.BinaryLP([1, 2], [[1, 1]], [1]),
        P.FacilityLocation([[1, 2], [1, 2]], [1, 1]),
        P.KSubset([1, 2], 1),
        P.Partition((2, [(0, 1)])),
        P.TSP([[0, 1], [1, 0]]),
        P.QAP(np.eye(2), np.eye(2)),
    ],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("nonsense", ["abc", None, [9] * 7, [[0]], [0.5, 0.5], [7, 7]], ids=repr)
def test_a_solution_that_cannot_be_read(problem, nonsense):
    assert not problem.is_feasible(nonsense)
    for verb in (problem.objective, problem.encode, problem.improve):
        with pytest.raises(InvalidInput):
            verb(nonsense)


def test_the_diagonal_of_distances_is_ignored():
    assert P.TSP([[np.inf, 1], [1, np.nan]]).objective([0, 1]) == 2


def test_a_closure_that_is_too_large_is_refused_with_its_size():
    from qubo_relax.precedence import closure_pairs

    chain = np.stack([np.arange(1, 100), np.arange(99)], axis=1)
    assert closure_pairs(100, chain)[0].size == 99 * 100 // 2
    with pytest.raises(InvalidInput, match="more than"):
        closure_pairs(100, chain, max_pairs=1000)


def test_a_coefficient_range_beyond_float64_warns():
    with pytest.warns(UserWarning, match="1e12"):
        P.Knapsack([1e13, 1e-3], [1, 1], 1)


def test_trivial_sizes():
    for problem in (P.OpenPit([], []), P.Knapsack([], [], 1), P.TSP(np.zeros((0, 0))), P.TSP([[0]]), P.MaxCut((0, []))):
        r = qr.minimize(problem, restarts=3, steps=3)
        assert r.x.size == 0
        assert r.feasible
    heavy = P.Knapsack([5, 6], [9, 8], 7)
    r = qr.minimize(heavy, restarts=3, steps=3)
    assert r.objective == 0
    full = P.Knapsack([5, 6], [3, 4], 7)
    assert qr.minimize(full, restarts=3, steps=3).objective == 11
    twins = P.TSP(np.zeros((5, 5)))
    assert qr.minimize(twins, restarts=3, steps=30).objective == 0


def test_huge_and_tiny_values_in_one_pit():
    # 1e9 and 1e-3: whole-number capacities cannot hold both at one scale, so another route must.
    p = P.OpenPit([1e9, -1e-3, 1e-3, -2e-3, 3e-3], [(0, 1), (2, 3), (4, 3)])
    assert p.solve_exact().tolist() == [True, True, True, True, True]


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, qubo_relax; "
        "heavy = ('torch', 'numba', 'matplotlib', 'dimod', 'networkx', 'ortools', 'highspy'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "make",
    [
        lambda: qr.Qubo([1e13, 1.0], np.zeros((2, 2))),
        lambda: qr.Qubo.from_matrix([[1e13, 1.0], [0, 0]]),
        lambda: qr.Qubo.from_coo(2, [0, 0], [0, 1], [1e13, 1.0]),
    ],
)
def test_a_quadratic_of_a_range_beyond_float64_warns(make):
    with pytest.warns(UserWarning, match="1e12"):
        make()


def test_numbers_that_the_solver_of_the_bound_takes_for_infinite():
    result = qr.minimize(P.Knapsack([1.0, 2.0, 3.0], [1.0, 2.0, 1e25], 4.0), restarts=2, steps=10)
    assert result.objective == 3.0
