"""Improvers: never worse, never infeasible, and where they should get to."""

from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
import qubo_relax as qr
from qubo_relax.exact import max_closure, pit_milp
from qubo_relax.improve.pits import Cones, cone_moves, window_flow
from qubo_relax.improve.tours import improve_tour, tour_length
from qubo_relax.instances import box_pit, section_pit, small_pit
from qubo_relax.problems import TSP, Knapsack, MultiKnapsack, OpenPit


def test_max_flow_agrees_with_networkx():
    rng = np.random.default_rng(0)
    for _ in range(20):
        value, arcs = small_pit(rng, int(rng.integers(2, 12)))
        g = nx.DiGraph()
        g.add_nodes_from(["s", "t"])
        for i, v in enumerate(value.tolist()):
            g.add_edge(*(("s", i) if v > 0 else (i, "t")), capacity=abs(v))
        g.add_edges_from((int(i), int(j)) for i, j in arcs)
        cut = nx.maximum_flow_value(g, "s", "t")
        x = max_closure(value.astype(float), arcs)
        assert value[x].sum() == value[value > 0].sum() - cut
        assert not any(x[i] and not x[j] for i, j in arcs)


@pytest.mark.parametrize("make", [lambda r: section_pit(r, 30, 10, ore=6.0), lambda r: box_pit(r, 8, 6)])
def test_pits_are_improved_to_the_optimum_from_any_start(make):
    rng = np.random.default_rng(1)
    value, arcs = make(rng)
    p = OpenPit(value, arcs)
    best = p.objective(p.solve_exact())
    everything = np.ones(p.n, dtype=bool)
    for start in (everything, p.start()):
        assert p.objective(p.improve(start)) == pytest.approx(best)
    some = cone_moves(Cones.of(p.n, arcs), value, everything)
    assert p.is_feasible(some)
    assert p.objective(some) >= p.objective(everything)


def test_a_window_respects_what_is_outside():
    rng = np.random.default_rng(2)
    for _ in range(30):
        value, arcs = small_pit(rng, 10)
        x = max_closure(value + rng.normal(size=10), arcs)
        y = window_flow(value.astype(float), arcs, x, rng.random(10) < 0.5)
        assert not any(y[i] and not y[j] for i, j in arcs)
        assert value[y].sum() >= value[x].sum()


def test_capacity_rows_reach_the_integer_program():
    rng = np.random.default_rng(3)
    value, arcs = section_pit(rng, 24, 8, ore=6.0)
    weight = rng.uniform(1, 5, value.size)
    full = OpenPit(value, arcs).solve_exact()
    p = OpenPit(
        value, arcs, np.stack([weight, weight * (value > 0)]), [0.6 * weight[full].sum(), 0.3 * weight[full].sum()]
    )
    found = p.improve(p.start(), 0, 1.0)
    assert p.is_feasible(found)
    x, _, _ = pit_milp(p, 20.0)
    assert p.objective(found) >= 0.995 * p.objective(x)
    assert p.bound() >= p.objective(x) - 1e-6


def test_several_periods():
    rng = np.random.default_rng(4)
    value, arcs = section_pit(rng, 12, 5, ore=6.0)
    p = OpenPit(value, arcs, np.ones(value.size), [12], periods=3, discount=0.9)
    found = p.improve(p.start(), 0, 1.0)
    assert p.is_feasible(found)
    own = p.sequence(0, 1.0)
    for t in range(3):
        assert (own == t).sum() <= 12
    assert p.bound() >= p.objective(found) >= p.objective(own) > 0


def every_pit(p):
    """The best pit or schedule of a small problem, by trying all."""
    choices = (-1, *range(p.n_periods)) if p.periods else (False, True)
    solutions = (np.array(s) for s in product(choices, repeat=p.n))
    return max(p.objective(s) for s in solutions if p.is_feasible(s))


@pytest.mark.parametrize("kind", ["rows", "periods", "risk", "risk and rows"])
def test_small_pits_reach_the_best_of_all(kind):
    rng = np.random.default_rng(11)
    for _ in range(4):
        n = 4 if kind == "periods" else 7
        value, arcs = small_pit(rng, n)
        C = rng.integers(-2, 3, (n, n)) if "risk" in kind else None
        rows = (rng.integers(0, 5, (2, n)), [6, 7]) if kind != "risk" else (None, None)
        more = {"periods": 2, "discount": 0.8} if kind == "periods" else {}
        p = OpenPit(value, arcs, *rows, **more, risk=None if C is None else C + C.T)
        found = p.improve(p.start(), 0, 0.3)
        assert p.is_feasible(found)
        assert p.objective(found) == pytest.approx(every_pit(p))


def test_a_pit_on_which_the_closure_form_goes_astray():
    from qubo_relax.claims_work import risk_case

    case = risk_case(106, 45, 9, 1000, 20.0)
    assert case["closure_ratio"] < 0.9
    assert case["improved"] >= 0.99


def test_tours_of_random_cities_reach_the_exact_optimum():
    rng = np.random.default_rng(5)
    for n in (5, 9, 14, 20):
        points = rng.random((n, 2))
        d = np.linalg.norm(points[:, None] - points, axis=-1)
        p = TSP(d)
        tour = p.improve(rng.permutation(n), 0)
        assert p.objective(tour) <= 1.01 * p.objective(p.solve_exact())


def test_asymmetric_tours():
    rng = np.random.default_rng(6)
    for n in (2, 3, 6, 12):
        d = rng.random((n, n))
        np.fill_diagonal(d, 0)
        tour = improve_tour(d, rng.permutation(n), 0)
        assert sorted(tour.tolist()) == list(range(n))
        assert tour_length(d, tour) <= 1.1 * TSP(d).objective(TSP(d).solve_exact())


@pytest.mark.parametrize("rows", [1, 5])
def test_knapsacks_reach_0_995(rows):
    rng = np.random.default_rng(7)
    a = rng.integers(10, 1000, (rows, 60))
    v = rng.integers(10, 1000, 60)
    p = Knapsack(v, a[0], 15_000) if rows == 1 else MultiKnapsack(v, a, np.full(rows, 15_000))
    found = p.improve(p.start())
    assert p.is_feasible(found)
    assert p.objective(found) >= 0.995 * p.objective(p.solve_exact(20.0))


def test_multi_knapsacks_reach_0_998_whatever_the_tightness():
    for seed in range(6):
        g = np.random.default_rng([40, seed])
        a = g.integers(1, 1001, (5, 40))
        v = a.mean(axis=0) + g.integers(0, 501, 40)
        p = MultiKnapsack(v, a, (0.25, 0.5, 0.75)[seed % 3] * a.sum(axis=1))
        found = p.improve(p.start(), seed)
        assert p.is_feasible(found)
        assert p.objective(found) >= 0.998 * p.objective(p.solve_exact(20.0))


def test_fixed_items_never_cost_a_knapsack_its_start():
    # Weightless items, worthless ones, rows filled exactly, and starts that the fixed items contradict.
    for seed in range(30):
        g = np.random.default_rng(seed)
        n, d = int(g.integers(1, 12)), int(g.integers(1, 4))
        a = g.integers(0, 6, (d, n)) * (g.random((d, n)) < 0.7)
        v = g.integers(-3, 9, n)
        p = MultiKnapsack(v, a, np.maximum(a.sum(axis=1) * g.choice([0.3, 0.5, 1.0]), 1))
        best = max(v @ s for s in np.array(list(product((0, 1), repeat=n))) if p.is_feasible(s.astype(bool)))
        start = p.start()
        for i in g.permutation(n):
            start[i] = True
            start[i] = p.is_feasible(start)
        found = p.improve(start, seed)
        assert p.is_feasible(found)
        assert p.objective(found) == best
        assert p.objective(p.improve(found, seed)) == best


def test_a_risk_beyond_max_flow():
    rng = np.random.default_rng(8)
    value, arcs = section_pit(rng, 14, 5, ore=8.0)
    C = np.zeros((value.size, value.size))
    ore = np.flatnonzero(value > 0)
    for i, j in pairwise(ore):
        C[i, j] = C[j, i] = 0.3
    p = OpenPit(value, arcs, risk=C)
    x, proved, _ = pit_milp(p, 20.0)
    assert proved
    r = qr.minimize(p, "anneal", restarts=8, steps=500)
    assert r.feasible_fraction == 1.0
    assert r.objective >= 0.99 * p.objective(x)
    assert p.bound() >= p.objective(x) - 1e-9
