"""The measures of diagonal dominance and the monitor that records them."""

import math
import sys

import pytest
import torch
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, DominanceMonitor, dominance, param_groups, polar_alignment

V = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])


def test_ratios_of_the_matrix_computed_by_hand():
    # Gram [[4, 0, 2], [0, 2, 1], [2, 1, 2]]: r = 4, 4, 4/3
    d = dominance(V)
    assert (d.r_max, d.n_rows) == (4.0, 3)
    assert d.r_min == pytest.approx(4 / 3)
    assert d.r_avg == pytest.approx(28 / 9)
    assert d.strict_fraction == pytest.approx(2 / 3)
    assert d.gaussian_r == pytest.approx(math.sqrt(1.5 * math.pi))


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e20])
def test_ratios_and_alignment_have_no_scale(scale):
    a, b = dominance(scale * V), dominance(V)
    assert a.r_avg == pytest.approx(b.r_avg, rel=1e-5)
    assert polar_alignment(scale * V) == pytest.approx(polar_alignment(V), rel=1e-5)


def test_zero_rows_are_left_out():
    with_zero = torch.cat([V[:1], torch.zeros(1, 3), V[1:]])
    assert dominance(with_zero) == dominance(V)


def test_orthogonal_rows_are_infinitely_dominant_and_aligned():
    x = 3.0 * torch.eye(4)[[2, 0, 3, 1]]
    d = dominance(x)
    assert d.r_min == math.inf
    assert d.strict_fraction == 1.0
    assert polar_alignment(x) == pytest.approx(1.0, abs=1e-12)
    assert dominance(torch.ones(1, 5)).r_avg == math.inf


def test_a_gaussian_matrix_has_the_baseline_ratio():
    x = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
    d = dominance(x)
    assert d.gaussian_r == pytest.approx(10.03, abs=0.01)
    assert d.r_avg == pytest.approx(d.gaussian_r, rel=0.05)


def test_the_short_side_of_a_tall_matrix_is_its_columns():
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    assert dominance(x, orientation="short") == dominance(x.t())
    assert dominance(x.t(), orientation="short") == dominance(x.t())


def test_many_rows_are_measured_in_pieces_as_in_one(monkeypatch):
    x = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    whole = dominance(x)
    monkeypatch.setattr(sys.modules["optim_rmnp.dominance"], "_CHUNK", 7)
    pieces = dominance(x)
    assert pieces.r_avg == pytest.approx(whole.r_avg, rel=1e-12)


def test_alignment_ignores_directions_below_the_numerical_rank():
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0]])  # rank one: U V^T = [[1, 0], [2, 0]] / sqrt(5)
    assert polar_alignment(x) == pytest.approx(3 / math.sqrt(10), rel=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [torch.ones(3), torch.zeros(2, 2), torch.full((2, 2), float("nan")), torch.ones(2, 2, dtype=torch.int64), [[1.0]]],
)
def test_what_has_no_directions_is_refused(matrix):
    for measure in (dominance, polar_alignment):
        with pytest.raises(InvalidInput, match="matrix"):
            measure(matrix)
    with pytest.raises(InvalidInput, match="orientation"):
        dominance(V, orientation="columns")


def train(model, optimizer, steps):
    for seed in range(steps):
        for p in model.parameters():
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(seed))
        optimizer.step()


def test_the_monitor_records_every_matrix_every_so_many_steps():
    model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Linear(24, 8))
    optimizer = RMNP(param_groups(model, stacked={"0.weight": 3}))
    monitor = DominanceMonitor(optimizer, every=2, alignment=True)
    train(model, optimizer, 5)
    assert [record.step for record in monitor.history] == [2, 4]
    first = monitor.history[0]
    assert [m.name for m in first.matrices] == ["0.weight[0]", "0.weight[1]", "0.weight[2]", "1.weight"]
    assert all(0 < m.alignment <= 1 for m in first.matrices)
    assert first.mean("r_avg") == pytest.approx(sum(m.dominance.r_avg for m in first.matrices) / 4)
    table = monitor.to_table()
    assert len(table.splitlines()) == 1 + 8
    monitor.detach()
    train(model, optimizer, 2)
    assert len(monitor.history) == 2


def test_the_monitor_measures_what_dominance_measures_and_changes_nothing():
    p, q = (torch.nn.Parameter(torch.ones(6, 5)) for _ in range(2))
    watched, alone = RMNP([p]), RMNP([q])
    monitor = DominanceMonitor(watched, every=1)
    for seed in range(3):
        p.grad = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
        q.grad = p.grad.clone()
        watched.step()
        alone.step()
    assert torch.equal(p, q)
    assert monitor.history[-1].matrices[0].dominance == dominance(watched.state[p]["momentum_buffer"])
    assert monitor.history[-1].matrices[0].alignment is None


def test_large_matrices_are_represented_by_evenly_spaced_rows():
    p = torch.nn.Parameter(torch.ones(100, 5))
    optimizer = RMNP([p])
    monitor = DominanceMonitor(optimizer, every=1, max_rows=10)
    p.grad = torch.randn(100, 5)
    optimizer.step()
    assert monitor.history[0].matrices[0].dominance == dominance(optimizer.state[p]["momentum_buffer"][::10])


def test_the_monitor_skips_matrices_without_direction_and_watches_muon_too():
    p, q = torch.nn.Parameter(torch.ones(4, 5)), torch.nn.Parameter(torch.ones(4, 5))
    optimizer = torch.optim.Muon([p, q])
    monitor = DominanceMonitor(optimizer, every=1)
    p.grad, q.grad = torch.zeros(4, 5), torch.randn(4, 5)
    optimizer.step()
    assert len(monitor.history[0].matrices) == 1
    assert math.isnan(type(monitor.history[0])(1, ()).mean("r_avg"))


@pytest.mark.parametrize("options", [{"every": 0}, {"max_rows": 1}, {"every": 1.5}])
def test_monitor_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        DominanceMonitor(RMNP([torch.nn.Parameter(torch.ones(2, 2))]), **options)
    with pytest.raises(InvalidInput, match="optimizer"):
        DominanceMonitor("RMNP")
