"""Random small instances of every problem, awkward ones included: what claims and tests enumerate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax import problems as P  # noqa: N812 - a table of problems reads better so

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Maker = Callable[[np.random.Generator], tuple[P.Problem, str]]


def graph_matrix(g: np.random.Generator, n: int, p: float, weights: Any = (1.0,)) -> NDArray[np.float64]:
    """A random symmetric weight matrix with an edge of a random weight with probability p."""
    A = np.triu((g.random((n, n)) < p) * g.choice(weights, (n, n)), 1)
    return np.asarray(A + A.T)


def small_pit(g: np.random.Generator, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values in -5..5 (zeros included) and a random DAG whose blocks are in no particular order."""
    turn = g.permutation(n)
    arcs = [(turn[i], turn[j]) for i in range(n) for j in range(i) if g.random() < 0.3]
    return g.integers(-5, 6, n), np.array(arcs, dtype=np.int64).reshape(-1, 2)


def _rows(g: np.random.Generator, d: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Weights with many zeros and items heavier than a whole capacity."""
    return g.integers(0, 8, (d, n)) * (g.random((d, n)) < 0.75), g.integers(1, 12, d)


def _pit(formulation: str, *, risk: bool = False, rows: bool = False, periods: int | None = None) -> Maker:
    def make(g: np.random.Generator) -> tuple[P.Problem, str]:
        n = int(g.integers(2, 6 if periods else 10))
        value, arcs = small_pit(g, n)
        C = g.integers(-2, 3, (n, n))
        resource, capacity = _rows(g, int(g.integers(1, 3)), n) if rows else (None, None)
        discount = 0.9 if periods else None
        return P.OpenPit(value, arcs, resource, capacity, periods, discount, C + C.T if risk else None), formulation

    return make


def _knapsack(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 12))
    a, b = _rows(g, 1, n)
    scale = float(g.choice([1.0, 0.25]))
    return P.Knapsack(g.integers(-2, 9, n), a[0] * scale, float(b[0]) * scale), "price"


def _multi(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 12))
    a, b = _rows(g, int(g.integers(2, 4)), n)
    return P.MultiKnapsack(g.integers(-2, 9, n), a, b), "price"


def _placement(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 5))
    return P.Knapsack(g.integers(-1, 5, n), g.integers(0, 4, n), int(g.integers(1, 5))), "placement"


def _tsp(g: np.random.Generator) -> tuple[P.Problem, str]:
    n, fixed = int(g.integers(1, 6)), bool(g.random() < 0.7)
    d = g.integers(0, 5, (n if fixed else min(n, 4),) * 2)
    return P.TSP(d + d.T if g.random() < 0.5 else d, fix_first=fixed), "permutation"


def _subset(kind: Any, formulation: str) -> Maker:
    def make(g: np.random.Generator) -> tuple[P.Problem, str]:
        n = int(g.integers(1, 11))
        return kind(graph_matrix(g, n, 0.4), g.integers(-1, 4, n)), formulation

    return make


def _set_packing(g: np.random.Generator) -> tuple[P.Problem, str]:
    sets = [g.integers(0, 8, g.integers(1, 4)).tolist() for _ in range(int(g.integers(1, 10)))]
    return P.SetPacking(sets, g.integers(0, 5, len(sets))), "conflict"


def _max_cut(g: np.random.Generator) -> tuple[P.Problem, str]:
    return P.MaxCut(graph_matrix(g, int(g.integers(1, 11)), 0.5, (-1.0, 1.0, 2.0))), "folded"


def _k_cut(g: np.random.Generator) -> tuple[P.Problem, str]:
    weights = (1.0,) if g.random() < 0.5 else (-2.0, -1.0, 1.0, 3.0)
    return P.MaxKCut(graph_matrix(g, int(g.integers(1, 5)), 0.7, weights), int(g.integers(1, 4))), "classes"


def _colouring(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 5))
    return P.Colouring(graph_matrix(g, n, 0.7), None if g.random() < 0.5 else int(g.integers(1, 4))), "maximal"


def _qap(g: np.random.Generator) -> tuple[P.Problem, str]:
    n, low = int(g.integers(1, 4)), int(g.choice([0, -2]))
    flow, distance = g.integers(low, 4, (2, n, n))
    return P.QAP(flow, distance, g.integers(-2, 3, (n, n))), "permutation"


def _assignment(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 5))
    return P.LinearAssignment(g.integers(-3, 4, (n, n))), "permutation"


def _matching(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 5))
    return P.GraphMatching(graph_matrix(g, n, 0.6), graph_matrix(g, n, 0.6)), "permutation"


def _facility(g: np.random.Generator) -> tuple[P.Problem, str]:
    c, m = g.integers(1, 4, 2)
    return P.FacilityLocation(g.integers(-1, 6, (c, m)), g.integers(-1, 5, m)), "assign_open"


def _cover(formulation: str) -> Maker:
    def make(g: np.random.Generator) -> tuple[P.Problem, str]:
        sets = [g.integers(0, 4, g.integers(1, 3)).tolist() for _ in range(int(g.integers(1, 7)))]
        return P.SetCover(sets, g.integers(0, 4, len(sets))), formulation

    return make


def _gap(formulation: str) -> Maker:
    def make(g: np.random.Generator) -> tuple[P.Problem, str]:
        small = formulation == "placement"
        n, m = int(g.integers(1, 4 if small else 7)), int(g.integers(1, 3))
        top = 4 if small else 7
        return P.GAP(
            g.integers(-1, 6, (n, m)), g.integers(0, top, (n, m)), g.integers(1, 4 if small else 7, m)
        ), formulation

    return make


def _bins(formulation: str) -> Maker:
    def make(g: np.random.Generator) -> tuple[P.Problem, str]:
        b = int(g.integers(2, 4 if formulation == "placement" else 6))
        return P.BinPacking(g.integers(0, b + 1, int(g.integers(1, 4))), b, int(g.integers(1, 3))), formulation

    return make


def _k_subset(g: np.random.Generator) -> tuple[P.Problem, str]:
    n = int(g.integers(1, 10))
    Q = g.integers(-3, 4, (n, n))
    return P.KSubset(g.integers(-3, 4, n), int(g.integers(0, n + 1)), Q + Q.T), "cardinality"


def _partition(g: np.random.Generator) -> tuple[P.Problem, str]:
    return P.Partition(graph_matrix(g, int(g.integers(1, 10)), 0.6, (-1.0, 1.0, 2.0))), "cardinality"


def _linear_program(g: np.random.Generator) -> tuple[P.Problem, str]:
    """Packing rows over randomly complemented variables, with precedences among equally turned ones."""
    n, m = int(g.integers(2, 10)), int(g.integers(1, 4))
    sign = g.choice([-1, 1], n)
    A = g.integers(0, 5, (m, n)) * sign
    b = np.array([g.integers(a[a < 0].sum(), max(int(a.sum()), 1) + 3) for a in A])
    arcs = [(i, j) for i in range(n) for j in range(i) if g.random() < 0.2 and sign[i] == sign[j]]
    R = np.zeros((len(arcs), n))
    for r, (i, j) in enumerate(arcs):
        R[r, i], R[r, j] = 1, -1
    return P.BinaryLP(g.integers(-4, 5, n), np.vstack([A, R]), np.concatenate([b, np.zeros(len(arcs))])), "price"


CERTIFIED: dict[str, Maker] = {
    "pit closure": _pit("closure"),
    "pit removal": _pit("removal"),
    "pit accumulated": _pit("accumulated"),
    "pit closure, risk": _pit("closure", risk=True),
    "pit removal, risk": _pit("removal", risk=True),
    "pit accumulated, risk": _pit("accumulated", risk=True),
    "pit with rows": _pit("price", rows=True),
    "pit with rows and risk": _pit("price", rows=True, risk=True),
    "pit, two periods": _pit("price", rows=True, periods=2),
    "knapsack price": _knapsack,
    "knapsack placement": _placement,
    "multi-knapsack price": _multi,
    "tsp": _tsp,
    "independent set": _subset(P.MIS, "conflict"),
    "clique": _subset(P.MaxClique, "conflict"),
    "vertex cover": _subset(P.VertexCover, "cover"),
    "set packing": _set_packing,
    "max-cut": _max_cut,
    "max-k-cut": _k_cut,
    "colouring": _colouring,
    "qap": _qap,
    "linear assignment": _assignment,
    "graph matching": _matching,
    "facility location": _facility,
    "set cover": _cover("assign_open"),
    "set cover price": _cover("price"),
    "gap placement": _gap("placement"),
    "gap price": _gap("price"),
    "bin packing placement": _bins("placement"),
    "bin packing price": _bins("price"),
    "k-subset": _k_subset,
    "bisection": _partition,
    "binary linear program": _linear_program,
}
"""Every certified formulation, by name, with what makes one random small instance of it."""


def instance(name: str, g: np.random.Generator, limit: int = 16) -> tuple[P.Problem, str]:
    """A random instance of `CERTIFIED` whose quadratic has at most `limit` variables."""
    while True:
        problem, formulation = CERTIFIED[name](g)
        if problem.qubo(formulation).n <= limit:
            return problem, formulation


def section_pit(
    g: np.random.Generator, width: int, depth: int, *, ore: float = 3.0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A 2-D section with two Gaussian ore bodies; block ``z * width + x`` needs the three above it.

    Returns
    -------
    value : ndarray of shape (width * depth,)
        Between about -2 and 8.
    arcs : ndarray of int of shape (m, 2)
    """
    x, z = np.meshgrid(np.arange(width), np.arange(depth))
    value = -1.0 - 0.5 * g.random((depth, width)) - 0.02 * z
    for _ in range(2):
        cx, cz = g.uniform(0.2, 0.8) * width, g.uniform(0.3, 0.7) * depth
        spread = ((x - cx) / (0.12 * width)) ** 2 + ((z - cz) / (0.2 * depth)) ** 2
        value += ore * (1.0 + g.random()) * np.exp(-spread)
    arcs = [
        (k * width + i, (k - 1) * width + j)
        for k in range(1, depth)
        for i in range(width)
        for j in range(max(0, i - 1), min(width, i + 2))
    ]
    return value.ravel(), np.array(arcs, dtype=np.int64).reshape(-1, 2)


def box_pit(g: np.random.Generator, width: int, depth: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A 3-D pit with one Gaussian ore body on a square grid; a block needs the five above it."""
    x, y, z = np.meshgrid(np.arange(width), np.arange(width), np.arange(depth), indexing="ij")
    centre = g.uniform(0.3, 0.7, 3) * (width, width, depth)
    spread = ((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (0.2 * width) ** 2 + (
        (z - centre[2]) / (0.25 * depth)
    ) ** 2
    value = -1.0 - 0.5 * g.random(x.shape) + 6.0 * np.exp(-spread)
    number = np.arange(x.size).reshape(x.shape)
    arcs = []
    for dx, dy in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
        i, j = np.clip(x + dx, 0, width - 1), np.clip(y + dy, 0, width - 1)
        inside = (i == x + dx) & (j == y + dy) & (z > 0)
        arcs.append(np.stack([number[inside], number[i, j, z - 1][inside]], axis=1))
    return value.ravel(), np.concatenate(arcs)
