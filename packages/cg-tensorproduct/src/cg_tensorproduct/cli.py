"""The command line: measure, explain, tune, print coefficients, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from lemmata_core import InvalidInput
from lemmata_core.cli import FAILED, INTERRUPTED, JsonOption, app, emit, fail

from cg_tensorproduct import explaining, measure, tuning
from cg_tensorproduct.coupling import coupling_coefficient, triangle
from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.plans import ALGORITHMS, HAS_NUMBA
from cg_tensorproduct.wigner import wigner_3j

main = app("cg-tensorproduct", "Complete Clebsch-Gordan tensor products: times, plans and coefficients.")
bench = typer.Typer(no_args_is_help=True, help="Times of our products, and of a peer's beside them.")
main.add_typer(bench, name="bench")

Batch = Annotated[int, typer.Option(help="Rows.", min=1)]
Threads = Annotated[int, typer.Option(help="Threads of torch.", min=1)]
Peer = Annotated[str, typer.Option(help="Compare with this package, if installed: e3nn.")]
Plot = Annotated[Path | None, typer.Option(help="Write a log-log plot here (extra plot).")]


@bench.command("full")
def bench_full(
    lmax: Annotated[int, typer.Option(min=1)] = 4,
    batch: Batch = 64,
    algorithm: str = "auto",
    peer: Peer = "",
    plot: Plot = None,
    threads: Threads = 1,
    as_json: JsonOption = False,
) -> None:
    """Time the full product of degrees 0 .. L with itself, for L = 1 .. LMAX."""
    _check_plot(plot)
    torch.set_num_threads(threads)
    _show(measure.bench_full(lmax, batch, algorithm=algorithm, peer=peer), plot, as_json=as_json)


@bench.command("signal")
def bench_signal(
    lmax: Annotated[int, typer.Option(min=1)] = 4,
    batch: Batch = 64,
    channels: Annotated[int, typer.Option(min=1)] = 8,
    peer: Peer = "",
    plot: Plot = None,
    threads: Threads = 1,
    as_json: JsonOption = False,
) -> None:
    """Time the mixing signal product with a weight for each degree, for L = 1 .. LMAX."""
    _check_plot(plot)
    torch.set_num_threads(threads)
    _show(measure.bench_signal(lmax, batch, channels=channels, peer=peer), plot, as_json=as_json)


@bench.command("fc")
def bench_fc(
    irreps_in1: str,
    irreps_in2: str,
    irreps_out: str,
    batch: Batch = 64,
    peer: Peer = "",
    threads: Threads = 1,
    as_json: JsonOption = False,
) -> None:
    """Time a fully connected product."""
    torch.set_num_threads(threads)
    _show(measure.bench_fully_connected(irreps_in1, irreps_in2, irreps_out, batch, peer=peer), None, as_json=as_json)


@main.command()
def explain(irreps_in1: str, irreps_in2: str, batch: Batch = 64) -> None:
    """Say which paths a full product has, what the algorithms cost, and which one runs."""
    typer.echo(explaining.explain(FullTensorProduct(irreps_in1, irreps_in2), batch))


@main.command()
def tune(irreps_in1: str, irreps_in2: str, batch: Batch = 64, cache: bool = True, as_json: JsonOption = False) -> None:
    """Time the likely algorithms of a full product and remember the fastest."""
    emit(tuning.autotune(FullTensorProduct(irreps_in1, irreps_in2), batch, cache=cache), as_json=as_json)


@main.command()
def table(l1: int, l2: int, l3: int) -> None:
    """Print the non-zero entries of w3j(l1, l2, l3) and the factor g of the signal product."""
    tensor = wigner_3j(l1, l2, l3)
    if not triangle(l1, l2, l3):
        raise InvalidInput.argument("l3", expected=f"{abs(l1 - l2)} .. {l1 + l2}", got=l3)
    kind = "bracket" if (l1 + l2 + l3) % 2 else "product"
    typer.echo(f"g({l1}, {l2}, {l3}) = {coupling_coefficient(l1, l2, l3):.15g} in the {kind} of two signals")
    typer.echo(" m1  m2  m3  w3j")
    for a, b, c in torch.nonzero(tensor.abs() > 1e-15).tolist():
        typer.echo(f"{a - l1:3d} {b - l2:3d} {c - l3:3d}  {tensor[a, b, c].item(): .16f}")


@main.command()
def check(lmax: Annotated[int, typer.Option(min=0)] = 6) -> None:
    """Compare all algorithms on every path up to LMAX; exit code 1 if they differ."""
    spec = Irreps.spherical_harmonics(lmax)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4, spec.dim, dtype=torch.float64, generator=generator) for _ in range(2))
    exact = FullTensorProduct(spec, spec, algorithm="sparse")(x, y)
    worst = 0.0
    for name in ALGORITHMS:
        if name in ("sparse", "dense" if lmax > 6 else "") or (name == "kernel" and not HAS_NUMBA):
            continue
        error = (FullTensorProduct(spec, spec, algorithm=name)(x, y) - exact).abs().max().item()
        worst = max(worst, error)
        typer.echo(f"{name:8s} largest difference {error:.1e}")
    if worst > 1e-11:
        fail("the algorithms differ by more than 1e-11", FAILED)


def _show(found: measure.Table, plot: Path | None, *, as_json: bool) -> None:
    if plot is not None:
        _plot(found, plot)
    if as_json:
        emit(found, as_json=True)
    else:
        _print(found)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _print(found: measure.Table) -> None:
    head = f"{'case':>16} {'fwd ms':>9} {'cpu ms':>9} {'f+b ms':>9}"
    typer.echo(head + (f"   {found.peer}: {'fwd ms':>9} {'f+b ms':>9}  peer/ours fwd, f+b" if found.peer else ""))
    for row in found.rows:
        line = f"{row.case:>16} {row.forward:9.3f} {row.forward_cpu:9.3f} {row.forward_backward:9.3f}"
        if row.peer_forward is not None and row.forward_ratio is not None:
            gap = " " * (len(found.peer) + 5)
            line += f"{gap}{row.peer_forward:9.3f} {row.peer_forward_backward:9.3f}"
            line += f"  {row.forward_ratio:8.2f} {row.forward_backward_ratio:6.2f}"
        typer.echo(line)
    for name, (exponent, low, high) in found.exponents.items():
        typer.echo(f"{name} grows with exponent {exponent:.2f} [{low:.2f}, {high:.2f}] in L + 1")


def _check_plot(path: Path | None) -> None:
    """Raise before minutes of measuring if nothing could be written to `path`."""
    if path is None:
        return
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        expected = "matplotlib: pip install 'cg-tensorproduct[plot]'"
        raise InvalidInput.argument("plot", expected=expected, got="no matplotlib") from None
    endings = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in endings:
        raise InvalidInput.argument("plot", expected=f"a file name that ends in {', '.join(endings)}", got=str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidInput.argument("plot", expected="a file in a directory that exists", got=str(path))


def _plot(found: measure.Table, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    sizes = list(range(1, len(found.rows) + 1))
    for name in ("forward", "forward_backward", "peer_forward", "peer_forward_backward"):
        values = [getattr(row, name) for row in found.rows]
        if all(values):
            axes.loglog(sizes, values, marker="o", label=name.replace("_", " ").replace("peer", found.peer))
    axes.set(xlabel="L", ylabel="ms")
    axes.legend()
    figure.savefig(path)
