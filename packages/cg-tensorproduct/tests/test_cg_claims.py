"""The claims run at scale smoke and say what they should; their rules can also say no."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from cg_tensorproduct.claims import CLAIMS
from cg_tensorproduct.fast_legendre import Counter, fast_operations, legendre_fast
from cg_tensorproduct.legendre import gauss_grid, legendre
from lemmata_core import Context, InvalidInput, Outcome, Scale
from lemmata_core.progress import Progress

EXACT = [claim for claim in CLAIMS if not claim.timed and not claim.requires]


def evidence_of(claim, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        context = Context(Scale.SMOKE, np.random.default_rng(0), pool, Progress(), tmp_path)
        return claim.run(context)


@pytest.mark.parametrize("claim", EXACT, ids=lambda c: c.id)
def test_exact_claims_hold_and_can_fail(claim, tmp_path):
    evidence = evidence_of(claim, tmp_path)
    assert claim.accept(evidence).outcome is Outcome.HOLDS
    spoilt = replace(evidence, values={key: value + 1.0 for key, value in evidence.values.items()})
    assert claim.accept(spoilt).outcome is Outcome.DOES_NOT_HOLD


def test_ids_are_those_of_the_package():
    assert all(claim.id.startswith("cg-tensorproduct/") for claim in CLAIMS)


@pytest.mark.parametrize(("lmax", "tolerance"), [(3, 1e-14), (16, 1e-12), (31, 1e-8), (48, 1e-5)])
def test_fast_legendre_is_the_sum_and_counts_its_operations(lmax, tolerance):
    grid = gauss_grid(lmax + 1, 2 * lmax + 1)
    P = legendre(lmax, grid.theta)[0]
    rng = np.random.default_rng(0)
    for m in {0, 1, lmax // 2, lmax}:
        data, counter = rng.standard_normal(len(grid.theta)), Counter()
        found, expected = legendre_fast(data, np.cos(grid.theta), m, lmax, counter), P[m:, m] @ data
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
        assert counter.operations == pytest.approx(fast_operations(lmax - m + 1, lmax + 1))


def test_fast_legendre_refuses_what_it_cannot_do():
    with pytest.raises(InvalidInput, match="lmax: expected at most 48"):
        legendre_fast(np.zeros(50), np.linspace(-0.9, 0.9, 50), 0, 49)
