"""Values that were worked out with a dense eigensolver on graphs small enough to draw."""

import numpy as np
import pytest
from riemann_fair.embedding import fair_embedding

PATH = [(0, 1), (1, 2), (2, 3)]
CYCLE = [*PATH, (3, 0)]
GRID = [(2 * i, 2 * i + 1) for i in range(4)] + [(2 * i + c, 2 * i + 2 + c) for i in range(3) for c in range(2)]
CLIQUE = [(a, b) for a in range(4) for b in range(a)]
CLIQUES = [*CLIQUE, *((a + 4, b + 4) for a, b in CLIQUE), (3, 4)]
STAR = [(0, i) for i in range(1, 5)]


def adjacency(edges, n):
    W = np.zeros((n, n))
    for i, j in edges:
        W[i, j] = W[j, i] = 1
    return W


CASES = [
    ("path alternating", PATH, (0, 1, 0, 1), "count", [0, 2 / 3, 3 / 2]),
    ("path halves", PATH, (0, 0, 1, 1), "count", [0, 3 / 2, 2]),
    ("cycle halves", CYCLE, (0, 0, 1, 1), "count", [0, 1, 2]),
    ("cycle alternating", CYCLE, (0, 1, 0, 1), "count", [0, 1, 1]),
    ("grid columns", GRID, (0, 1) * 4, "count", [0, 0.271286446, 0.833333333]),
    ("grid halves", GRID, (0,) * 4 + (1,) * 4, "count", [0, 0.771286446, 0.833333333]),
    ("cliques across", CLIQUES, (0, 0, 1, 1) * 2, "count", [0, 0.124202615, 1.083333333]),
    ("cliques across, plain", CLIQUES, (0, 0, 1, 1) * 2, "plain", [0, 0.118376385, 1.083333333]),
    ("cliques, no groups", CLIQUES, None, "count", [0, 0.113382475, 1.083333333]),
    ("cliques as groups", CLIQUES, (0,) * 4 + (1,) * 4, "count", [0, 1.083333333, 1.333333333]),
    ("star", STAR, (0, 0, 0, 1, 1), "count", [0, 1, 1, 1.92592593]),
    ("star, plain", STAR, (0, 0, 0, 1, 1), "plain", [0.01803132, 1, 1, 1.84863535]),
]


@pytest.mark.parametrize("solver", ["dense", "lanczos", "fast-lanczos", "block-krylov", "rcg", "chebyshev"])
@pytest.mark.parametrize(("name", "edges", "groups", "constraint", "values"), CASES, ids=[c[0] for c in CASES])
def test_eigenvalues_of_small_graphs(name, edges, groups, constraint, values, solver):
    n = 1 + max(max(e) for e in edges)
    found = fair_embedding(
        adjacency(edges, n), groups, len(values), constraint=constraint, solver=solver, tol=1e-10, rng=0
    )
    assert found.eigenvalues == pytest.approx(values, abs=1e-8)
    assert found.fairness_violation < 1e-10
    assert found.embedding.T @ found.embedding == pytest.approx(np.eye(len(values)), abs=1e-10)
    assert found.objective == pytest.approx(sum(values), abs=1e-8)
