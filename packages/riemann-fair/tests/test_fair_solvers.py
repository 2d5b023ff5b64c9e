"""Every solver against the dense eigensolution, and the traps that were met on the way."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import NotConvergedWarning
from riemann_fair import RADMMParams, baselines, fair_embedding, modified_sbm
from riemann_fair.groups import read_groups
from riemann_fair.laplacian import Operator, read_affinity

EXACT = ["lanczos", "fast-lanczos", "block-krylov", "shift-invert", "rcg", "chebyshev"]


@pytest.fixture(scope="module")
def dominant():
    """The model in which groups are stronger than clusters, where fairness changes the answer."""
    return modified_sbm(2000, 2, 4, rng=0)


@pytest.fixture(scope="module")
def optimum(dominant):
    return fair_embedding(dominant.affinity, dominant.groups, 4, solver="dense")


def subspace_gap(X, Y):
    return np.linalg.norm(X - Y @ (Y.T @ X))


def test_the_models_constrained_and_plain_optimum(dominant, optimum):
    assert optimum.objective == pytest.approx(1.6623, abs=0.02)
    assert fair_embedding(dominant.affinity, None, 4, solver="dense").objective == pytest.approx(1.4730, abs=0.02)


@pytest.mark.parametrize("solver", EXACT)
def test_exact_solvers_reach_the_dense_optimum(dominant, optimum, solver):
    found = fair_embedding(dominant.affinity, dominant.groups, 4, solver=solver, tol=1e-10, rng=1)
    assert found.status == "converged"
    assert found.objective == pytest.approx(optimum.objective, abs=1e-8)
    assert found.fairness_violation < 1e-10
    assert found.residuals.max() < 2e-10
    assert subspace_gap(found.embedding, optimum.embedding) < 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_radmm_reaches_the_optimum_from_every_start(dominant, optimum, seed):
    found = fair_embedding(dominant.affinity, dominant.groups, 4, solver="radmm", rng=seed)
    assert found.status == "converged"
    assert found.objective == pytest.approx(optimum.objective, rel=1e-3)
    assert found.fairness_violation < 1e-4
    assert found.history[-1]["r"] < 1e-4
    assert found.history[-1]["f"] < 1e-4


@pytest.mark.parametrize("constraint", ["count", "plain", "volume"])
@pytest.mark.parametrize("solver", ["lanczos", "fast-lanczos", "block-krylov", "rcg", "radmm"])
def test_every_constraint_by_every_kind_of_solver(constraint, solver):
    graph = modified_sbm(300, 2, 3, rng=2)
    exact = fair_embedding(graph.affinity, graph.groups, 3, solver="dense", constraint=constraint)
    found = fair_embedding(graph.affinity, graph.groups, 3, solver=solver, constraint=constraint, tol=1e-8, rng=0)
    assert found.objective == pytest.approx(exact.objective, rel=1e-3 if solver == "radmm" else 1e-9)


def test_published_baselines_solve_the_same_problem():
    graph = modified_sbm(200, 2, 4, rng=3)
    ours = fair_embedding(graph.affinity, graph.groups, 4, solver="dense")
    for H in (baselines.fairsc(graph.affinity, graph.groups, 4), baselines.sfairsc(graph.affinity, graph.groups, 4)):
        assert subspace_gap(H, ours.embedding) < 1e-6
    plain = fair_embedding(graph.affinity, None, 4, solver="dense")
    assert subspace_gap(baselines.plain_spectral(graph.affinity, 4), plain.embedding) < 1e-6


def test_spurious_zero_eigenvalues_of_the_constraint_are_not_found():
    graph = modified_sbm(1200, 10, 3, rng=0)
    for solver in ("lanczos", "fast-lanczos", "rcg"):
        found = fair_embedding(graph.affinity, graph.groups, 6, solver=solver, tol=1e-8, rng=0)
        assert found.fairness_violation < 1e-8


def test_fast_lanczos_does_not_stop_inside_a_cluster_of_eigenvalues():
    graph = modified_sbm(2400, 2, 4, rng=0)
    exact = fair_embedding(graph.affinity, graph.groups, 4, solver="lanczos", tol=1e-9, rng=0).objective
    for seed in range(20):
        for solver in ("fast-lanczos", "block-krylov"):
            found = fair_embedding(graph.affinity, graph.groups, 4, solver=solver, rng=seed)
            assert found.objective == pytest.approx(exact, abs=1e-5)
            assert found.residuals.max() <= 2e-3


def test_converged_pairs_do_not_come_back_as_ghosts():
    """Two clear communities and a bulk without gap: the first pairs converge far below the others' tolerance."""
    rng = np.random.default_rng(0)
    n = 1500
    graph = modified_sbm(n, 1, 2, probs=(0.05, 0.05, 0.0005, 0.0005), rng=rng)
    exact = fair_embedding(graph.affinity, None, 6, solver="dense")
    found = fair_embedding(graph.affinity, None, 6, solver="fast-lanczos", tol=1e-5, rng=1)
    assert found.eigenvalues == pytest.approx(exact.eigenvalues, abs=1e-6)


def test_a_full_history_restarts_and_still_converges(monkeypatch):
    from riemann_fair import fast_lanczos

    graph = modified_sbm(1500, 2, 4, scale=20.0, rng=0)
    op = Operator.build(read_affinity(graph.affinity), read_groups(graph.groups), "count")
    exact = fair_embedding(graph.affinity, graph.groups, 4, solver="dense").eigenvalues
    whole = fast_lanczos._Run.__init__
    monkeypatch.setattr(
        fast_lanczos._Run,
        "__init__",
        lambda self, op, tiles, full, capacity, *found: whole(self, op, tiles, full, 24, *found),
    )
    for tol in (1e-4, 1e-8):
        found = fast_lanczos.fast_lanczos(op, 3, tol, None, np.random.default_rng(0))
        X = np.linalg.qr(found.X)[0]
        theta = np.linalg.eigvalsh(X.T @ op.apply(X))[::-1]
        assert found.status == "converged"
        assert 1 - theta == pytest.approx(exact[1:], abs=1e-6)


def test_the_published_constants_run_as_published():
    """Where they end is a claim; here only that every outer iteration is recorded and nothing is polished."""
    graph = modified_sbm(400, 5, 4, rng=0)
    found = fair_embedding(graph.affinity, graph.groups, 4, solver="radmm", params=RADMMParams.paper(), rng=1)
    assert len(found.history) == found.n_iter <= 30
    assert found.fairness_violation == pytest.approx(found.history[-1]["f"], rel=1e-6)


def test_float32_stops_at_what_it_can_reach():
    graph = modified_sbm(600, 5, 4, rng=0)
    exact = fair_embedding(graph.affinity, graph.groups, 4, solver="dense").objective
    for solver in ("radmm", "chebyshev"):
        found = fair_embedding(graph.affinity, graph.groups, 4, solver=solver, dtype="float32", rng=0)
        assert found.embedding.dtype == np.float32
        assert found.objective == pytest.approx(exact, rel=1e-3)


def test_the_recurrence_of_the_inner_loop_does_not_drift():
    """400 steps: the objective handed back is that of the block, and the block is orthonormal."""
    graph = modified_sbm(600, 2, 4, rng=0)
    params = RADMMParams(inner=200, max_outer=2, grad_tol=0.0, polish=False)
    with pytest.warns(NotConvergedWarning):
        found = fair_embedding(graph.affinity, graph.groups, 4, solver="radmm", params=params, rng=0)
    H = found.embedding
    op = Operator.build(read_affinity(graph.affinity), None, "count")
    assert found.objective == pytest.approx(float(np.sum(H * op.laplacian(H))), abs=1e-8)
    assert pytest.approx(np.eye(4), abs=1e-10) == H.T @ H


@st.composite
def graphs(draw):
    n = draw(st.integers(6, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < draw(st.floats(0.2, 0.9))), 1)
    W = W + W.T + np.diag(rng.random(n) < 0.2)
    W[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    W[(np.arange(n) + 1) % n, np.arange(n)] += 0.1
    groups = rng.integers(0, draw(st.integers(1, 3)), (n, draw(st.integers(1, 3)))).astype(str)
    return W, groups, rng


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_random_weighted_graphs(case):
    W, groups, rng = case
    d = W.sum(axis=1)
    table = read_groups(groups, combine="concat")
    rank = Operator.build(read_affinity(W), table, "count").space.rank
    k = min(3, W.shape[0] - rank)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a single group is drawn now and then
        exact = fair_embedding(W, table, k, solver="dense")
        for solver in ("lanczos", "fast-lanczos", "block-krylov", "rcg"):
            found = fair_embedding(W, table, k, solver=solver, tol=1e-9, rng=0)
            assert found.eigenvalues == pytest.approx(exact.eigenvalues, abs=1e-6)
            for a in range(table.codes.shape[1]):
                onehot = (table.codes[:, a, None] == np.arange(table.codes[:, a].max() + 1)).astype(float)
                F = onehot - onehot.mean(axis=0)
                assert np.abs(F.T @ found.scaled).max() < 1e-8
        plain = np.sort(np.linalg.eigvalsh(np.eye(len(d)) - W / np.sqrt(np.outer(d, d))))
        assert (plain[:k] <= exact.eigenvalues + 1e-9).all()
        assert (exact.eigenvalues <= plain[rank : rank + k] + 1e-9).all()
        # Invariance: order of nodes, scale of weights, names of groups.
        order = rng.permutation(W.shape[0])
        moved = fair_embedding(W[np.ix_(order, order)] * 7.5, groups[order][:, ::-1], k, solver="dense")
        assert moved.eigenvalues == pytest.approx(exact.eigenvalues, abs=1e-9)


def test_multiple_eigenvalues_are_found_with_their_multiplicity():
    """A torus: every eigenvalue but the first is repeated, and one Krylov vector sees one copy of each."""
    side = 36
    ring = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[1, -1, side - 1, 1 - side], shape=(side, side))
    torus = sp.csr_array(sp.kron(ring, sp.eye_array(side)) + sp.kron(sp.eye_array(side), ring))
    exact = fair_embedding(torus, None, 5, solver="dense").eigenvalues
    for solver in ("fast-lanczos", "block-krylov", "lanczos"):
        found = fair_embedding(torus, None, 5, solver=solver, tol=1e-6, rng=0)
        assert found.eigenvalues == pytest.approx(exact, abs=1e-6), solver


def test_components_of_a_disconnected_graph_are_all_found():
    part = modified_sbm(400, 1, 1, scale=12.0, rng=0).affinity
    five = sp.csr_array(sp.block_diag([part] * 5))
    for solver in ("fast-lanczos", "block-krylov", "lanczos"):
        found = fair_embedding(five, None, 6, solver=solver, rng=0)
        assert found.eigenvalues[:5] == pytest.approx(np.zeros(5), abs=1e-5), solver
        assert found.eigenvalues[5] > 0.01


def weighted(n, degree, rng):
    graph = modified_sbm(n, 2, 3, scale=degree, rng=rng)
    upper = sp.triu(graph.affinity, 1).tocsr()
    upper.data = rng.uniform(0.5, 2.0, upper.nnz)
    return sp.csr_array(upper + upper.T), graph.groups


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["fast-lanczos", "block-krylov", "rcg"])
def test_weighted_regularised_and_soft(dtype, solver):
    rng = np.random.default_rng(0)
    W, groups = weighted(1100, 80.0, rng)
    W = W.astype(dtype)
    soft = rng.dirichlet([1, 2, 3], 1100)
    for attributes, tau in (
        (groups, 0.0),
        (groups, "auto"),
        (soft, 0.0),
        (np.column_stack([groups, rng.integers(0, 3, 1100)]), 0.0),
    ):
        exact = fair_embedding(W.astype(np.float64), attributes, 4, solver="dense", regularization=tau)
        found = fair_embedding(W, attributes, 4, solver=solver, regularization=tau, tol=1e-6, rng=0)
        assert found.eigenvalues == pytest.approx(exact.eigenvalues, abs=1e-7 if dtype == np.float64 else 1e-5)
        assert found.fairness_violation < 1e-10


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    ("n", "degree", "tile"), [(1, 1, 33), (60, 5, 33), (300, 30, 33), (301, 60, 70), (70_000, 3, 33)]
)
def test_the_tiled_product_is_the_product(n, degree, tile, weights, monkeypatch):
    """One tile and many, rows without entries, columns beyond 16 bits (70,000 nodes of short rows stay one tile)."""
    from riemann_fair import tiles

    monkeypatch.setattr(tiles, "TILE", tile)
    rng = np.random.default_rng(n)
    W = sp.random_array((n, n), density=min(1.0, degree / n), format="lil" if n < 1000 else "csr", rng=rng)
    if n < 1000:
        # One row of all columns.
        W[n // 2, :] = 1.0
    W = sp.csr_array(W)
    W.sum_duplicates()
    if not weights:
        W.data[:] = 0.5
    made = tiles.Tiles.build(W, 0.0 if weights else 0.5)
    assert (made.first.size > 2) == (n in (300, 301))
    u = rng.standard_normal(n)
    assert made.times(u) == pytest.approx(W @ u, rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("weights", [False, True])
def test_many_tiles_give_the_embedding_of_one(weights, monkeypatch):
    from riemann_fair import tiles

    rng = np.random.default_rng(1)
    W, groups = weighted(1500, 40.0, rng)
    if not weights:
        W.data[:] = 1.0
    keep = np.asarray(W.sum(axis=1)) > 0
    W, groups = W[keep][:, keep], groups[keep]
    exact = fair_embedding(W, groups, 4, solver="dense")
    for width in (400, 10**6):
        monkeypatch.setattr(tiles, "TILE", width)
        found = fair_embedding(W, groups, 4, solver="fast-lanczos", tol=1e-8, rng=0)
        assert found.eigenvalues == pytest.approx(exact.eigenvalues, abs=1e-8)
        assert subspace_gap(found.embedding, exact.embedding) < 1e-4


@pytest.mark.parametrize(
    "change", [{"alpha0": 0.0}, {"tau": 1.0}, {"mu": 0.5}, {"inner": 0}, {"beta": "HS"}, {"line_search": "wolfe"}]
)
def test_constants_that_cannot_be_used_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        RADMMParams(**change)


def test_radmm_keeps_a_limit_of_iterations(dominant):
    with pytest.warns(UserWarning, match="max_iter"):
        found = fair_embedding(dominant.affinity, dominant.groups, 4, solver="radmm", max_iter=3, rng=0)
    assert (found.status, found.n_iter) == ("max_iter", 3)


def test_radmm_is_patient_with_small_graphs():
    # Gaps of a few per cent: full fairness needs more outer iterations than a large graph is given.
    graph = modified_sbm(45, 3, 3, probs=(0.5, 0.4, 0.4, 0.3), rng=0)
    exact = fair_embedding(graph.affinity, graph.groups, 4, solver="dense")
    for seed in range(5):
        found = fair_embedding(graph.affinity, graph.groups, 4, solver="radmm", rng=seed)
        assert found.status == "converged"
        assert found.objective == pytest.approx(exact.objective, rel=1e-3)


def test_pymanopt_goes_as_far_as_it_is_asked():
    graph = modified_sbm(90, 3, 3, rng=0)
    found = fair_embedding(graph.affinity, graph.groups, 3, solver="pymanopt", tol=1e-8, rng=0)
    assert found.status == "converged"
    assert found.residuals.max() <= 2e-8
    with pytest.warns(UserWarning, match="not_converged"):
        fair_embedding(graph.affinity, graph.groups, 3, solver="pymanopt", max_iter=1, rng=0)


@pytest.mark.parametrize("seed", range(6))
def test_radmm_without_groups_reaches_the_plain_optimum(seed):
    # A void constraint has no residual to stop at.
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((30, 30)))
    found = fair_embedding(W + W.T, None, 3, solver="radmm", rng=seed)
    exact = fair_embedding(W + W.T, None, 3, solver="dense")
    assert found.status == "converged"
    assert found.objective == pytest.approx(exact.objective, rel=1e-3)


def test_radmm_leaves_a_circle_on_a_small_graph():
    # With a penalty of 1 two of these five starts go round for good.
    rng = np.random.default_rng(2)
    n = int(rng.integers(6, 14))
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    W = W + W.T + 0.1 * np.eye(n)
    groups = np.arange(n) % 2
    exact = fair_embedding(W, groups, 4, solver="dense")
    for seed in range(5):
        found = fair_embedding(W, groups, 4, solver="radmm", rng=seed)
        assert found.objective == pytest.approx(exact.objective, rel=2e-3)


@pytest.mark.parametrize("n", [300, 66_000])
def test_narrow_column_numbers_give_the_same_products(n):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, (2, 6 * n))
    made = sp.coo_array((rng.random(6 * n), ends), shape=(n, n))
    op = Operator.build(read_affinity(sp.csr_array(made + made.T + sp.eye_array(n))), None, "count")
    X = rng.standard_normal((n, 5))
    before = op.apply(X)
    assert op.narrow().dtype == (np.uint16 if n == 300 else np.int32)
    assert np.array_equal(op.apply(X), before)
