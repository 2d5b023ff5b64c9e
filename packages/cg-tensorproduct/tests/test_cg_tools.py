"""Tuning, conversion, the command line, imports."""

import json
import subprocess
import sys

import pytest
import torch
from cg_tensorproduct import (
    FullTensorProduct,
    FullyConnectedTensorProduct,
    InvalidInput,
    Irreps,
    SignalTensorProduct,
    TensorProduct,
    autotune,
    choose_algorithm,
    explain,
    replace_e3nn,
    tuning,
)
from cg_tensorproduct.cli import main
from e3nn import o3
from typer.testing import CliRunner


class Model(torch.nn.Module):
    """Three of e3nn's products, one of them used twice."""

    def __init__(self):
        super().__init__()
        self.full = o3.FullTensorProduct("2x1o+0e", "1o+2e", ["0e", "1o", "2e"])
        self.mixed = o3.FullyConnectedTensorProduct("4x0e+2x1o", "0e+1o", "3x0e+2x1o")
        self.again = self.mixed
        uvu = [(0, 0, 0, "uvu", True), (0, 1, 1, "uvu", True)]
        self.edge = o3.TensorProduct("4x1o", "0e+1o", "4x1o+4x0e", uvu, shared_weights=False, internal_weights=False)
        self.pairs = o3.ElementwiseTensorProduct("3x1o", "3x1o")

    def forward(self, x, y, w):
        return (
            self.full(x, y),
            self.edge(x.repeat(1, 2)[:, :12], y[:, :4], w),
            self.pairs(x.repeat(1, 2)[:, :9], y.repeat(1, 2)[:, :9]),
        )


def test_replace_e3nn_swaps_everything_and_keeps_the_parameters(normal):
    model = Model()
    x, y, w = (normal(k, 5, n, dtype=torch.float32) for k, n in ((0, 7), (1, 8), (2, 8)))
    before = model(x, y, w)
    parameter = model.mixed.weight
    report = replace_e3nn(model)
    assert report.replaced == len(report.modules) == 4
    assert all(entry.error < 1e-5 for entry in report.modules)
    assert model.mixed is model.again
    assert model.mixed.weight is parameter
    assert isinstance(model.full, FullTensorProduct)
    assert type(model.edge).__module__.startswith("cg_tensorproduct")
    for a, b in zip(model(x, y, w), before):
        assert torch.allclose(a, b, atol=1e-5)


def test_replace_e3nn_rolls_back_what_differs():
    model = Model()
    with torch.no_grad():  # a changed constant: no longer the product it says it is
        next(b for name, b in model.full.named_buffers() if "_w3j_1_1_2" in name).mul_(2)

    class Changed(o3.FullTensorProduct):
        def forward(self, x, y, weight=None):
            return 2 * super().forward(x, y)

    model.custom = Changed("1o", "1o")
    report = replace_e3nn(model, kinds=["FullTensorProduct"])
    assert [(entry.name, entry.replaced) for entry in report.modules] == [("full", False), ("custom", False)]
    assert "differ" in report.modules[0].reason
    assert isinstance(model.full, o3.FullTensorProduct)


def test_replace_e3nn_names_bad_arguments():
    with pytest.raises(InvalidInput, match="model: expected"):
        replace_e3nn("model")
    with pytest.raises(InvalidInput, match="kinds: expected"):
        replace_e3nn(Model(), kinds=["Linear"])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CG_TENSORPRODUCT_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "_MEASURED", {})
    monkeypatch.setattr(tuning, "_LOADED", [])
    return tmp_path


def test_autotune_measures_keeps_and_is_obeyed(cache, monkeypatch):
    product = FullTensorProduct("0e+1o+2e", "0e+1o")
    report = autotune(product, 50, backward=False)
    assert report.choice == min(report.seconds, key=report.seconds.get)
    assert (report.batch, report.cached) == (64, True)
    (path,) = cache.iterdir()
    assert list(json.loads(path.read_text()).values()) == [report.choice]
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), "blocked")))
    monkeypatch.setattr(tuning, "_MEASURED", {})
    monkeypatch.setattr(tuning, "_LOADED", [])
    assert choose_algorithm(product, 64) == "blocked"
    assert choose_algorithm(product, 2000) != "blocked"
    steady = FullTensorProduct("0e+1o+2e", "0e+1o", deterministic=True)
    x, y = torch.randn(64, 9), torch.randn(64, 4)
    assert torch.allclose(steady(x, y), product(x, y), atol=1e-5)


def test_an_unreadable_cache_is_ignored_with_a_warning(cache):
    tuning.cache_path().write_text("{")
    with pytest.warns(UserWarning, match="is ignored"):
        assert choose_algorithm(FullTensorProduct("1o", "1o"), 4) in ("dense", "kernel", "blocked")


def test_the_model_prefers_what_scales():
    small, large = (FullTensorProduct(*(2 * [o3.Irreps.spherical_harmonics(n)])) for n in (1, 8))
    assert choose_algorithm(small, 1) == "dense"
    assert choose_algorithm(large, 64) == "kernel"
    assert choose_algorithm(large, 64, "cuda") in ("dense", "blocked")
    with pytest.raises(InvalidInput, match="batch: expected"):
        choose_algorithm(small, -1)


def test_explain_says_what_runs():
    text = explain(FullTensorProduct("1o", "1o", algorithm="dense"), 16)
    assert "3 paths (1 antisymmetric), 9 outputs" in text
    assert "runs: dense (asked for" in text


@pytest.mark.parametrize(("lmax", "blocked", "outputs"), [(2, 195, 81), (4, 2501, 625), (8, 47241, 6561)])
def test_operations_are_counted(lmax, blocked, outputs):
    # n^2 for each block of M = 0, 2 n^2 for each other one, an n for every pair of degrees and M
    spec = Irreps.spherical_harmonics(lmax)
    text = explain(FullTensorProduct(spec, spec))
    assert f"blocked {blocked}" in text
    assert f"{outputs} outputs a sample" in text


def test_explain_knows_every_product():
    mixed = FullyConnectedTensorProduct("8x0e+8x1o", "0e+1o", "8x0e+8x1o")
    assert "4 paths (0 antisymmetric): 4 uvw" in explain(mixed)
    assert "256 weights (own)" in explain(mixed)
    edges = TensorProduct("4x1o", "1o", "4x1e", [(0, 0, 0, "uvu", True)], shared_weights=False)
    assert "native code for uvu" in explain(edges)
    assert "1 paths (1 antisymmetric)" in explain(edges)
    assert "23 of 34 paths mixed" in explain(SignalTensorProduct(3, 3, 3, couplings="scalar"))


def test_autotune_of_a_weighted_product_is_obeyed(cache, monkeypatch):
    edges = TensorProduct("4x1o", "1o", "4x1e", [(0, 0, 0, "uvu", True)], shared_weights=False)
    report = autotune(edges, 8)
    assert set(report.seconds) == {"kernel", "torch"}
    known = tuning._measured()
    for choice in ("torch", "kernel"):
        known.update(dict.fromkeys(known, choice))
        monkeypatch.setattr(edges, "_chosen", {})
        x, y, w = torch.randn(8, 12), torch.randn(8, 3), torch.randn(8, 4)
        edges(x, y, w)
        assert {name for name, _ in edges._chosen.values()} == {choice}
    only = autotune(FullyConnectedTensorProduct("2x1o", "1o", "2x1e"), 8, cache=False)
    assert list(only.seconds) == ["torch"]


def test_first_calls_are_measured_where_the_environment_asks_for_it(cache, monkeypatch):
    monkeypatch.setenv("CG_TENSORPRODUCT_AUTOTUNE", "1")
    product = FullTensorProduct("0e+1o", "0e+1o")
    x, y = torch.randn(8, 4, requires_grad=True), torch.randn(8, 4)
    with torch.no_grad():
        product(x, y)
    with torch.inference_mode():
        product(x, y)
    product(x, y)
    assert len(tuning._measured()) == 1  # a measurement of either kind stands in for the other
    steady = FullTensorProduct("0e+2x1o", "0e+1o", deterministic=True)
    steady(torch.randn(8, 7), y)
    assert len(tuning._measured()) == 1


def test_an_interrupted_autotune_prints_what_it_has_and_keeps_nothing(cache, monkeypatch, capsys):
    product, times = FullTensorProduct("0e+1o", "0e+1o"), iter([1e-3])

    def interrupted(*args, **options):
        try:
            return next(times)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(tuning, "_time", interrupted)
    with pytest.raises(KeyboardInterrupt):
        autotune(product, 8)
    assert "measured: dense 1 ms" in capsys.readouterr().err
    assert not list(cache.iterdir())
    assert not tuning._measured()


def test_the_kernel_without_numba_names_the_extra(monkeypatch):
    from cg_tensorproduct import plans

    monkeypatch.setattr(plans, "HAS_NUMBA", False)
    with pytest.raises(InvalidInput, match=r"cg-tensorproduct\[cpu\]"):
        FullTensorProduct("1o", "1o", algorithm="kernel")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["table", "1", "1", "1"], "g(1, 1, 1) = 1.19682684120"),
        (["check", "--lmax", "2"], "kernel   largest difference"),
        (["explain", "4x0e+4x1o", "0e+1o+2e", "--batch", "256"], "10 paths"),
        (["bench", "full", "--lmax", "1", "--batch", "4", "--peer", "e3nn"], "peer/ours"),
        (["bench", "signal", "--lmax", "1", "--batch", "4", "--peer", "e3nn"], "peer/ours"),
        (["bench", "fc", "2x0e+2x1o", "0e+1o", "2x0e+2x1o", "--json"], '"forward_backward"'),
    ],
)
def test_commands(words, expected, normal):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert expected in result.output


def test_an_interrupted_bench_prints_the_rows_it_has(monkeypatch, capsys):
    from cg_tensorproduct import measure

    right, calls = measure._row, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return right(*args)

    monkeypatch.setattr(measure, "_row", interrupted)
    monkeypatch.setattr(sys, "argv", ["cg-tensorproduct", "bench", "full", "--lmax", "3", "--batch", "4"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    shown = capsys.readouterr()
    assert "L=1" in shown.out
    assert "L=2" not in shown.out
    assert "interrupted" in shown.err


def test_bench_writes_a_plot(tmp_path):
    result = CliRunner().invoke(
        main, ["bench", "full", "--lmax", "1", "--batch", "4", "--plot", str(tmp_path / "a.svg")]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    "words",
    [
        ["table", "1", "1", "3"],
        ["explain", "1z", "1o"],
        ["tune", "1z", "1o"],
        ["bench", "full", "--peer", "nobody"],
        ["bench", "full", "--lmax", "1", "--plot", "no/such/place.svg"],
        ["bench", "full", "--algorithm", "guess"],
        ["bench", "full", "--lmax", "1", "--plot", "times.nothing"],
        ["bench", "fc", "1o", "1o", "zz"],
        ["bench", "fc", "1o", "0e", "2e"],
        ["bench", "fc", "1o", "", "1o"],
        ["explain", "0x1o", "1o"],
        ["explain", "1o"],
        ["check", "--lmax", "-1"],
    ],
)
def test_bad_commands_end_with_one_line_and_code_2(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cg-tensorproduct", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_defect_shows_in_the_exit_code_of_check(monkeypatch, capsys):
    from cg_tensorproduct import plan_blocked

    right = plan_blocked.BlockedPlan.run_couple
    monkeypatch.setattr(plan_blocked.BlockedPlan, "run_couple", lambda *args: right(*args) + 1e-9)
    monkeypatch.setattr(sys, "argv", ["cg-tensorproduct", "check", "--lmax", "1"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert "differ" in capsys.readouterr().err


def test_importing_loads_nothing_heavy_beyond_torch():
    code = (
        "import sys, torch; before = set(sys.modules); import cg_tensorproduct; new = set(sys.modules) - before;"
        "heavy = 'numba', 'torch._dynamo', 'scipy.linalg', 'matplotlib', 'typer', 'rich', 'e3nn', 'sklearn';"
        "bad = [m for m in heavy if m in new];"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
