"""The quadratic: folding, energies, gains, input."""

import itertools
import pickle

import dimod
import numpy as np
import pytest
import qubo_relax as qr
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from scipy import sparse


def brute(Q, c, k, x):
    return k + c @ x + x @ Q @ x


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 8), st.integers(0, 2**31), st.booleans())
def test_folding_keeps_the_energy_of_every_vertex(n, seed, upper):
    rng = np.random.default_rng(seed)
    Q, c = rng.integers(-5, 6, (n, n)).astype(float), rng.integers(-5, 6, n).astype(float)
    Q = np.triu(Q) if upper else Q
    folded, kept = (qr.Qubo.from_matrix(Q, c, 2.5, fold=f) for f in (True, False))
    X = np.array(list(itertools.product((0, 1), repeat=n))).reshape(2**n, n)
    expected = [brute(Q, c, 2.5, x) for x in X]
    np.testing.assert_allclose(folded.energy(X), expected, atol=1e-12)
    np.testing.assert_allclose(kept.energy(X), expected, atol=1e-12)
    assert not folded.quadratic.diagonal().any()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**31), st.sampled_from([0.0, 0.3]))
def test_a_flip_changes_the_energy_by_its_gain(n, seed, eps):
    rng = np.random.default_rng(seed)
    q = qr.Qubo.from_matrix(rng.integers(-5, 6, (n, n)), rng.integers(-5, 6, n), concavity=eps)
    x = rng.integers(0, 2, n)
    for i in range(n):
        y = x.copy()
        y[i] ^= 1
        assert q.energy(y) - q.energy(x) == pytest.approx(q.flip_gains(x)[i], abs=1e-12)


def test_the_gradient_is_that_of_the_energy():
    rng = np.random.default_rng(0)
    for fold in (True, False):
        q = qr.Qubo.from_matrix(rng.normal(size=(6, 6)), rng.normal(size=6), fold=fold, concavity=0.7)
        x, h = rng.random(6), 1e-6
        numeric = [(q.energy(x + h * e) - q.energy(x - h * e)) / (2 * h) for e in np.eye(6)]
        np.testing.assert_allclose(q.gradient(x), numeric, atol=1e-7)


def test_energies_agree_with_dimod():
    rng = np.random.default_rng(1)
    Q = {(int(i), int(j)): float(rng.normal()) for i, j in rng.integers(0, 9, (40, 2))}
    M = np.zeros((9, 9))
    for (i, j), v in Q.items():
        M[i, j] += v
    q = qr.Qubo.from_matrix(M)
    X = rng.integers(0, 2, (20, 9))
    bqm = dimod.BinaryQuadraticModel.from_qubo(Q)
    bqm.add_variables_from(dict.fromkeys(range(9), 0.0))
    np.testing.assert_allclose(q.energy(X), bqm.energies((X, list(range(9)))), atol=1e-12)


def test_duplicates_are_summed_not_overwritten():
    q = qr.Qubo.from_coo(3, [0, 1, 0, 2], [1, 0, 1, 2], [1.0, 2.0, 4.0, 8.0], linear=[0.0, 0.0, 1.0])
    assert q.quadratic[0, 1] == q.quadratic[1, 0] == 7.0
    assert q.linear.tolist() == [0.0, 0.0, 9.0]
    upper, full = np.array([[0, 2.0], [0, 0]]), np.array([[0, 1.0], [1.0, 0]])
    assert qr.Qubo.from_matrix(upper).energy([1, 1]) == qr.Qubo.from_matrix(full).energy([1, 1]) == 2.0


def test_the_compiled_build_equals_the_plain_one():
    from qubo_relax.assemble import symmetric_csr

    rng = np.random.default_rng(3)
    n, m = 50, 400
    i, j, v = (
        rng.integers(0, n, m).astype(np.int32),
        rng.integers(0, n, m).astype(np.int32),
        rng.integers(-3, 4, m) * 1.0,
    )
    c = np.zeros(n)
    S = symmetric_csr(n, i, j, v, c)
    M = sparse.coo_array((v, (i, j)), shape=(n, n)).toarray()
    dense = M + M.T - 2 * np.diag(np.diag(M))
    np.testing.assert_array_equal(S.toarray(), dense)
    np.testing.assert_array_equal(c, np.diag(M))
    assert S.nnz == np.count_nonzero(dense)


def test_sparse_dense_and_torch_give_the_same():
    torch = pytest.importorskip("torch")
    M = np.triu(np.random.default_rng(0).normal(size=(5, 5)))
    x = np.ones(5)
    values = [qr.Qubo.from_matrix(Q).energy(x) for Q in (M, sparse.csr_array(M), sparse.coo_matrix(M), torch.tensor(M))]
    np.testing.assert_allclose(values, values[0])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: qr.Qubo([np.nan], [[0.0]]), "linear"),
        (lambda: qr.Qubo([0.0, 0.0], [[0.0, np.inf], [0, 0]]), "quadratic"),
        (lambda: qr.Qubo([0.0], [[0.0, 1.0]]), "quadratic"),
        (lambda: qr.Qubo([0.0], [[1.0]]), "quadratic"),
        (lambda: qr.Qubo([0.0] * 2, [[0.0, 1.0], [2.0, 0.0]]), "quadratic"),
        (lambda: qr.Qubo([0.0], [[0.0]], concavity=-1), "concavity"),
        (lambda: qr.Qubo([0.0], [[0.0]], labels=["a", "b"]), "labels"),
        (lambda: qr.Qubo([0.0] * 2, np.zeros((2, 2)), labels=["a", "a"]), "labels"),
        (lambda: qr.Qubo.from_matrix(np.zeros((2, 3))), "Q"),
        (lambda: qr.Qubo.from_coo(2, [0], [2], [1.0]), "j"),
        (lambda: qr.Qubo.from_coo(2, [0.5], [1], [1.0]), "i"),
        (lambda: qr.Qubo([0.0], [[0.0]]).flip_gains([0.5]), "x"),
        (lambda: qr.Qubo([0.0] * 23, np.zeros((23, 23))).local_minima(), "limit"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(InvalidInput, match=f"^{name}:"):
        make()


def test_the_callers_arrays_are_left_alone():
    c, Q = np.array([1.0, 2.0]), np.array([[3.0, 4.0], [0.0, 5.0]])
    before = c.copy(), Q.copy()
    q = qr.Qubo.from_matrix(Q, c)
    q.local_minima()
    qr.minimize(q, restarts=2, steps=5)
    np.testing.assert_array_equal(c, before[0])
    np.testing.assert_array_equal(Q, before[1])
    with pytest.raises(ValueError, match="read-only"):
        q.linear[0] = 3.0


def test_no_variables_and_one():
    empty = qr.Qubo([], np.zeros((0, 0)), offset=3.0)
    r = qr.minimize(empty)
    assert r.x.shape == (0,)
    assert r.energy == 3.0
    assert len(qr.Qubo([-1.0], [[0.0]]).local_minima()) == 1


def test_it_travels_to_another_process():
    q = qr.problems.Knapsack([3, 4], [1, 2], 2).qubo()
    back = pickle.loads(pickle.dumps(q))  # noqa: S301 - our own bytes
    assert back.energy([1, 1]) == q.energy([1, 1])
    assert len(back.blocks) == len(q.blocks)


def unsorted_with_duplicates():
    return sparse.csr_array((np.array([1.0, 2, 0, 1, 2]), np.array([1, 1, 0, 0, 0]), np.array([0, 3, 5])), shape=(2, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda M: qr.Qubo([0, 0], M),
        qr.Qubo.from_matrix,
        lambda M: qr.problems.MaxCut(M).qubo(),
        lambda M: qr.problems.MIS(M).qubo(),
        lambda M: qr.problems.BinaryLP([1, 1], M, [2, 2]).qubo(),
    ],
)
def test_a_sparse_matrix_of_the_caller_is_neither_changed_nor_kept(make):
    M = unsorted_with_duplicates()
    before = [a.copy() for a in (M.data, M.indices, M.indptr)]
    q = make(M)
    for a, b in zip(before, (M.data, M.indices, M.indptr)):
        np.testing.assert_array_equal(a, b)
    expected = q.quadratic.toarray()
    M.data[:] = 99
    np.testing.assert_array_equal(q.quadratic.toarray(), expected)


def test_a_quadratic_is_frozen_also_after_pickling():
    q = qr.Qubo([1, 2], [[0, 1], [1, 0]], labels=("a", "b"), concavity=0.1)
    for frozen in (q, pickle.loads(pickle.dumps(q))):  # noqa: S301 - our own bytes
        assert frozen.labels == ("a", "b")
        for array in (frozen.linear, frozen.quadratic.data, frozen.quadratic.indices):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 5


def test_matrices_of_torch():
    torch = pytest.importorskip("torch")
    A = np.array([[1.0, 2], [3, 4]])
    t = torch.tensor(A)
    for M in (t, t.to_sparse(), t.to(torch.bfloat16), t.clone().requires_grad_()):
        assert qr.Qubo.from_matrix(M).energy([1, 1]) == 10
