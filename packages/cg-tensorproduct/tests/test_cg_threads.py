"""Threads share the rows of a batch: faster, and the same numbers."""

import itertools
import os

import pytest
import torch
from cg_tensorproduct import FullTensorProduct, TensorProduct, threads


@pytest.fixture
def two_threads(monkeypatch):
    """Two threads, each of which is worth starting for any amount of work."""
    monkeypatch.setattr(threads, "LEAST_SECONDS", 1e-9)
    before = torch.get_num_threads()

    def use(count):
        torch.set_num_threads(count)

    yield use
    torch.set_num_threads(before)


def test_shares_are_whole_tiles_and_cover_everything(two_threads):
    two_threads(4)
    for rows in (1, 15, 16, 17, 33, 64, 100, 1000):
        parts = threads.shares(rows, 1.0)
        assert parts[0].start == 0
        assert parts[-1].stop == rows
        assert all(a.stop == b.start and a.stop % threads.TILE == 0 for a, b in itertools.pairwise(parts))
        assert len(parts) == min(4, -(-rows // 16))
    assert threads.shares(0, 1.0) == [slice(0, 0)]


def test_little_work_stays_on_one_thread():
    torch.set_num_threads(4)
    assert len(threads.shares(1000, 1e-5)) == 1


@pytest.mark.parametrize("rows", [5, 40, 67])
def test_full_product_is_the_same_to_the_last_bit(rows, two_threads, normal):
    product = FullTensorProduct("3x1o+2x2e", "2x1e+0e+2o", algorithm="kernel")
    x, y = normal(0, rows, 19).requires_grad_(), normal(1, rows, 12).requires_grad_()
    found = []
    for count in (1, 2):
        two_threads(count)
        z = product(x, y)
        found.append((z, *torch.autograd.grad(z.square().sum(), (x, y))))
    assert all(torch.equal(a, b) for a, b in zip(*found))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_uvu_is_the_same(shared, rows, two_threads, normal):
    instructions = [(0, 0, 0, "uvu", True), (0, 1, 1, "uvu", True)]
    product = TensorProduct(
        "5x1o", "0e+1o", "5x1o+5x2e", instructions, shared_weights=shared, internal_weights=False, algorithm="kernel"
    )
    x, y = normal(0, rows, 15).requires_grad_(), normal(1, rows, 4).requires_grad_()
    w = (normal(2, 10) if shared else normal(2, rows, 10)).requires_grad_()
    found = []
    for count in (1, 2):
        two_threads(count)
        z = product(x, y, w)
        found.append((z, *torch.autograd.grad(z.square().sum(), (x, y, w))))
    for a, b in zip(*found):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-13, atol=1e-13)


def test_an_error_in_a_thread_reaches_the_caller(two_threads):
    two_threads(2)

    def task(k, part):
        if k:
            raise ArithmeticError("on a thread")

    with pytest.raises(ArithmeticError, match="on a thread"):
        threads.run(task, [slice(0, 1), slice(1, 2)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads(two_threads):
    two_threads(2)
    threads.run(lambda k, part: None, [slice(0, 1), slice(1, 2)])
    child = os.fork()
    if child == 0:
        done = []
        threads.run(lambda k, part: done.append(k), [slice(0, 1), slice(1, 2)])
        os._exit(0 if sorted(done) == [0, 1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
