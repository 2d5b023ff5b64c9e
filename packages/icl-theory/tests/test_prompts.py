"""Prompts: patterns, sets of tasks, and what is drawn from them."""

import numpy as np
import pytest
import torch
from icl_theory import (
    PatternBank,
    PromptSpec,
    check_coverage,
    sample_prompts,
    stream_prompts,
    tasks_all,
    tasks_ring,
)
from lemmata_core import InvalidInput
from scipy import stats

BANK = PatternBank()
TASKS = tasks_all(6)


def test_the_generator_is_xoshiro256_plus_plus():
    from icl_theory.prompt_kernel import below, bits, uniform

    words = [1, 2, 3, 4]
    state, mask = np.array(words, np.uint64), (1 << 64) - 1

    def turn(x, k):
        return (x << k | x >> (64 - k)) & mask

    for _ in range(100):
        right = (turn((words[0] + words[3]) & mask, 23) + words[0]) & mask
        shifted = words[1] << 17 & mask
        words[2] ^= words[0]
        words[3] ^= words[1]
        words[1] ^= words[2]
        words[0] ^= words[3]
        words[2] ^= shifted
        words[3] = turn(words[3], 45)
        assert bits(state) == right
    draws = np.array([uniform(state) for _ in range(5000)])
    assert stats.kstest(draws, "uniform").pvalue > 1e-6
    counts = np.bincount([below(state, 7) for _ in range(7000)], minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_patterns_are_orthogonal_and_frozen():
    bank = PatternBank(outlier_norm=2.0, rng=5)
    rows = np.concatenate([bank.relevant, bank.irrelevant, bank.outlier, bank.spare])
    norms = np.diag([9.0] * 16 + [4.0] * 3 + [1.0] * 11)
    np.testing.assert_allclose(rows @ rows.T, norms, atol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        bank.relevant[0] = 0


def test_task_sets():
    assert tasks_ring(3).tolist() == [[0, 1], [1, 2], [2, 0]]
    assert len(tasks_all(6)) == 30
    ring = check_coverage(tasks_ring(4), 4)
    assert ring.balanced
    assert len(ring.unseen) == 8
    assert not check_coverage([[0, 1]], 2).balanced
    assert len(check_coverage(tasks_all(3), 3).unseen) == 0


def inside(count, n, p):
    return stats.binomtest(int(count), n, p).pvalue > 1e-6


def test_marginals_of_drawn_prompts():
    n, spec = 4000, PromptSpec(length=10, outlier_fraction=0.3, labels="random")
    batch = sample_prompts(BANK, TASKS, spec, n, 0)
    shown, spoilt = batch.tokens[:, :-1, -1].numpy(), batch.is_outlier[:, :-1].numpy()
    assert inside(spoilt.sum(), n * 10, 0.3)
    assert inside((batch.labels > 0).sum(), n, 0.5)
    assert inside(batch.same_pattern[:, :-1].sum(), n * 10, 0.5)
    assert inside((shown[spoilt] > 0).sum(), int(spoilt.sum()), 0.5)
    assert not batch.is_outlier[:, -1].any()
    assert (batch.tokens[:, -1, -1] == 0).all()
    assert set(np.unique(shown)) == {-1.0, 1.0}
    # A clean example of the query's pattern shows the query's label, one of the other pattern the opposite.
    truth = np.where(batch.same_pattern[:, :-1].numpy(), 1, -1) * batch.labels.numpy()[:, None]
    assert (shown == truth)[~spoilt].all()
    # Relevant part exactly one mu, outlier part kappa_a times one v.
    x = batch.tokens[..., :-1].double().numpy()
    np.testing.assert_allclose(np.sort(x @ BANK.relevant.T / 9, -1)[..., -1], 1, atol=1e-5)
    parts = np.abs(x @ BANK.outlier.T / 9).max(-1)
    np.testing.assert_allclose(parts, 2.0 * batch.is_outlier.numpy(), atol=1e-5)


@pytest.mark.parametrize(("labels", "right"), [("flip", lambda t: -t), ("target", lambda t: -1 + 0 * t)])
def test_labels_of_outliers(labels, right):
    batch = sample_prompts(BANK, TASKS, PromptSpec(labels=labels, target=-1), 200, 0)
    truth = np.where(batch.same_pattern.numpy(), 1, -1) * batch.labels.numpy()[:, None]
    spoilt = batch.is_outlier.numpy()
    assert (batch.tokens[..., -1].numpy()[spoilt] == right(truth)[spoilt]).all()


@pytest.mark.parametrize("placement", ["random", "farthest", "closest"])
@pytest.mark.parametrize("count", ["exact", "bernoulli"])
def test_placement_and_count(placement, count):
    spec = PromptSpec(length=7, outlier_fraction=0.4, placement=placement, count=count)
    spoilt = sample_prompts(BANK, TASKS, spec, 2000, 0).is_outlier[:, :-1].numpy()
    sizes = spoilt.sum(1)
    if count == "exact":
        assert (sizes == 3).all()
    else:
        assert inside(spoilt.sum(), 14000, 0.4)
    if placement == "farthest":
        assert (np.diff(spoilt.astype(int), axis=1) <= 0).all()
    elif placement == "closest":
        assert (np.diff(spoilt.astype(int), axis=1) >= 0).all()
    else:
        assert all(inside(column, 2000, 3 / 7 if count == "exact" else 0.4) for column in spoilt.sum(0))


def test_the_same_seed_gives_the_same_prompts():
    spec = PromptSpec()
    stream = stream_prompts(BANK, TASKS, spec, 3, 7)
    first = next(stream)
    assert torch.equal(first.tokens, sample_prompts(BANK, TASKS, spec, 3, 7).tokens)
    assert not torch.equal(first.tokens, next(stream).tokens)


def test_prompts_from_real_data():
    from icl_theory import prompts_from_table

    X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    prompts = prompts_from_table(X, y, 4, n=7, rng=0)
    assert prompts.x.shape == (7, 4, 2)
    assert (prompts.x[..., 0] == 2 * prompts.y).all()
    assert all(len(set(row)) == 4 for row in prompts.y.tolist())
    with pytest.raises(InvalidInput, match=r"^length: expected"):
        prompts_from_table(X, y, 11)
