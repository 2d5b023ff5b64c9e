"""Projections and hindsight against PyOL, OSQP (direct), cvxpy (DPP) and HiGHS."""

from importlib.metadata import version

import cvxpy as cp
import numpy as np
import osqp
from lemmata_core.executor import one_thread
from lemmata_core.timing import Benchmark, Ratio, paired
from oco_anytime import best_fixed, domains
from pyol.projections import ProjSimplex
from scipy import sparse
from scipy.optimize import linprog

REPEATS = 9
STEP = 0.02


def _sequence(domain, n, step=STEP):
    """Points as projected gradient steps ask for them."""
    rng = np.random.default_rng(0)
    x, points = domain.center(), []
    for _ in range(n):
        y = x + step * rng.standard_normal(domain.dim)
        points.append(y)
        x = domain.project(y)
    return points


def _all(project, points):
    def run():
        for y in points:
            project(y)

    return run


@one_thread()
def simplex(progress):
    """The simplex against PyOL's sorting projection."""
    out = []
    for d in progress.track((10, 100, 1000, 100_000), "simplex"):
        domain = domains.Simplex(d)
        rng = np.random.default_rng(d)
        points = list(rng.standard_normal((200 if d <= 1000 else 5, d)))
        timing = paired(_all(domain.project, points), _all(ProjSimplex().proj, points), repeats=REPEATS)
        aim = 0.1 if d <= 1000 else 0.02
        out.append(Ratio.of(f"simplex, d={d}", "PyOL ProjSimplex", version("pyol"), timing, None, aim))
    return out


def _osqp(domain):
    """OSQP as its documentation advises for a sequence: set up once, update q, warm start, polish."""
    A_ub, b_ub, A_eq, b_eq, lower, upper = domain.polyhedron()
    A = sparse.csc_matrix(np.vstack([np.eye(domain.dim), A_ub, A_eq]))
    low = np.concatenate([lower, np.full(b_ub.size, -np.inf), b_eq])
    solver = osqp.OSQP()
    solver.setup(
        sparse.csc_matrix(np.eye(domain.dim)), np.zeros(domain.dim), A, low, np.concatenate([upper, b_ub, b_eq]),
        eps_abs=1e-6, eps_rel=1e-6, polishing=True, verbose=False, max_iter=20000,
    )  # fmt: skip

    def project(y):
        solver.update(q=-y)
        return solver.solve(raise_error=False).x

    return project


def _grid(rows, columns):
    arcs = []
    for i in range(rows):
        for j in range(columns):
            for a, b in ((i + 1, j), (i, j + 1)):
                if a < rows and b < columns:
                    arcs += [((i, j), (a, b)), ((a, b), (i, j))]
    return domains.FlowPolytope(arcs, (0, 0), (rows - 1, columns - 1))


def _random_graph(nodes, m):
    rng = np.random.default_rng(0)
    arcs = [(i, i + 1) for i in range(nodes - 1)]
    while len(arcs) < m:
        a, b = (int(v) for v in rng.integers(0, nodes, 2))
        if a != b:
            arcs.append((a, b))
    return domains.FlowPolytope(arcs, 0, nodes - 1)


@one_thread()
def flows(progress):
    """Flows, cold, against OSQP warm-started; and against a cvxpy problem with a parameter."""
    out = []
    cases = [
        ("grid, 48 arcs", _grid(4, 4), 0.3, 200),
        ("grid, 224 arcs", _grid(8, 8), 0.3, 100),
        ("grid, 960 arcs", _grid(16, 16), 0.3, 30),
        ("random, 1000 arcs, 250 nodes", _random_graph(250, 1000), 0.6, 10),
    ]
    for name, domain, bar, n in progress.track(cases, "flows"):
        points = _sequence(domain, n)
        timing = paired(_all(domain.project, points), _all(_osqp(domain), points), repeats=REPEATS)
        out.append(Ratio.of(f"flow, {name}", "OSQP direct", version("osqp"), timing, bar, bar))
    domain = _grid(7, 7)
    points = _sequence(domain, 20)
    y, x = cp.Parameter(domain.dim), cp.Variable(domain.dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), domain.cvxpy(x))

    def by_cvxpy(point):
        y.value = point
        problem.solve(solver=cp.OSQP)

    timing = paired(_all(domain.project, points), _all(by_cvxpy, points), repeats=REPEATS)
    out.append(Ratio.of("flow, grid, 168 arcs", "cvxpy DPP (OSQP)", version("cvxpy"), timing, None, 1 / 15))
    return out


@one_thread()
def polytopes(progress):
    """General polytopes: 2n rows (1.5n at 300), bounds, points as gradient steps ask for them."""
    out = []
    for n, m in progress.track(((10, 20), (30, 60), (100, 150), (300, 450)), "polytopes"):
        rng = np.random.default_rng(n)
        A = rng.standard_normal((m, n))
        domain = domains.Polytope(A, 0.3 * np.sqrt(n) * rng.random(m), lower=-np.ones(n), upper=1.0)
        points = _sequence(domain, 20 if n < 300 else 5, 0.1)
        timing = paired(_all(domain.project, points), _all(_osqp(domain), points), repeats=REPEATS)
        out.append(Ratio.of(f"polytope, n={n}, {m} rows", "OSQP direct", version("osqp"), timing, 0.3, 0.3))
    return out


@one_thread()
def hindsight(progress):
    """best_fixed by constraint generation against one linear program with all rows."""
    out = []
    for rounds, d in progress.track(((20_000, 20),), "hindsight"):
        rng = np.random.default_rng(d)
        domain = domains.Box(d, -1, 1)
        A = rng.standard_normal((rounds, d))
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        b = A @ domain.project(0.3 * rng.standard_normal(d)) + 0.3 * rng.random(rounds) * (rng.random(rounds) < 0.5)
        c = rng.standard_normal(d)
        timing = paired(
            lambda: best_fixed(domain, c, A, b),  # noqa: B023 - called at once
            lambda: linprog(c, A, b, bounds=(-1, 1), method="highs"),  # noqa: B023
            repeats=7,
        )
        name = f"best_fixed, T={rounds}, d={d}"
        out.append(Ratio.of(name, "HiGHS, one LP (scipy)", version("scipy"), timing, 0.2, 0.2))
    return out


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark("oco-anytime/simplex", simplex),
    Benchmark("oco-anytime/flow", flows),
    Benchmark("oco-anytime/polytope", polytopes),
    Benchmark("oco-anytime/hindsight", hindsight),
)
