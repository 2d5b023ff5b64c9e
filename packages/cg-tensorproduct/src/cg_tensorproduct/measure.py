"""Times of ours and of a peer on one problem, for the command line and the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

import torch
from lemmata_core import InvalidInput
from lemmata_core.timing import PairedTiming, growth, paired

from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.instructions import fully_connected, occupied_terms
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.signals import SignalTensorProduct
from cg_tensorproduct.tensor_product import FullyConnectedTensorProduct

Tensor = torch.Tensor
Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """Milliseconds of one case.

    Attributes
    ----------
    case : str
    forward, forward_backward : float
        Ours, wall time.
    forward_cpu : float
        Ours, CPU time.
    peer_forward, peer_forward_backward : float or None
    forward_ratio, forward_backward_ratio : float or None
        Peer's time over ours, median of interleaved pairs.
    """

    case: str
    forward: float
    forward_backward: float
    forward_cpu: float
    peer_forward: float | None = None
    peer_forward_backward: float | None = None
    forward_ratio: float | None = None
    forward_backward_ratio: float | None = None


@dataclass(frozen=True)
class Table:
    """What was measured, with exponents of time in L + 1 where there are three sizes or more.

    After an interruption the rows that were complete.
    """

    rows: tuple[Row, ...]
    exponents: dict[str, tuple[float, float, float]]
    peer: str = ""
    interrupted: bool = False


def peer_module(name: str) -> Any:
    """The peer's module of irreps and products, imported by name so that it is needed by those who ask for it only."""
    if name != "e3nn":
        raise InvalidInput.argument("peer", expected="'e3nn'", got=repr(name))
    try:
        return import_module("e3nn.o3")
    except ImportError:
        raise InvalidInput.argument("peer", expected="a peer that is installed", got="'e3nn', not installed") from None


def forward_backward(module: Any, inputs: list[Tensor], leaves: list[Tensor]) -> Call:
    """A call that runs `module` and the gradients for `leaves`."""
    g = torch.randn_like(module(*inputs).detach())
    return lambda: torch.autograd.grad(module(*inputs), leaves, g)


def time_pair(
    ours: Any, theirs: Any | None, inputs: list[Tensor], *, repeats: int
) -> tuple[PairedTiming, PairedTiming]:
    """Forward and forward + backward, ours over theirs (or over ours where there is no peer)."""

    def plain(module: Any) -> Call:
        def call() -> object:
            with torch.no_grad():
                return module(*inputs)

        return call

    leaves = [x.clone().requires_grad_() for x in inputs]
    other = ours if theirs is None else theirs
    both = [forward_backward(m, leaves, [*leaves, *(p for p in m.parameters() if p.numel())]) for m in (ours, other)]
    return (
        paired(plain(ours), plain(other), repeats=repeats, warmup=3),
        paired(both[0], both[1], repeats=repeats, warmup=3),
    )


def _row(case: str, ours: Any, theirs: Any | None, inputs: list[Tensor], repeats: int) -> Row:
    forward, both = time_pair(ours, theirs, inputs, repeats=repeats)
    mine = forward.a_seconds * 1e3, both.a_seconds * 1e3, forward.a_process_seconds * 1e3
    if theirs is None:
        return Row(case, *mine)
    peer = forward.b_seconds * 1e3, both.b_seconds * 1e3, 1 / forward.ratio, 1 / both.ratio
    return Row(case, *mine, *peer)


def bench_full(lmax: int, batch: int, *, algorithm: str = "auto", peer: str = "", repeats: int = 15) -> Table:
    """Full product of degrees 0 .. L with itself for L = 1 .. lmax."""
    o3 = peer_module(peer) if peer else None

    def measure(degree: int) -> Row:
        spec = Irreps.spherical_harmonics(degree)
        ours = FullTensorProduct(spec, spec, algorithm=algorithm)
        theirs = o3.FullTensorProduct(str(spec), str(spec)) if o3 else None
        inputs = [torch.randn(batch, spec.dim) for _ in range(2)]
        return _row(f"L={degree}", ours, theirs, inputs, repeats)

    return _scan(measure, lmax, peer)


def _scan(measure: Callable[[int], Row], lmax: int, peer: str) -> Table:
    rows: list[Row] = []
    interrupted = False
    try:
        for degree in range(1, lmax + 1):
            rows.append(measure(degree))
    except KeyboardInterrupt:
        if not rows:
            raise
        interrupted = True
    return Table(tuple(rows), _exponents(list(range(1, len(rows) + 1)), rows), _version(peer), interrupted)


def bench_signal(lmax: int, batch: int, *, channels: int = 8, peer: str = "", repeats: int = 15) -> Table:
    """Mixing product of L = 1 .. lmax, against the peer's product with a weight for each path, channel by channel."""
    o3 = peer_module(peer) if peer else None

    def measure(degree: int) -> Row:
        ours = SignalTensorProduct(degree, degree, degree, channels=channels, weights="degree")
        dim = (degree + 1) ** 2
        inputs = [torch.randn(batch, channels, dim) for _ in range(2)]
        row = _row(f"L={degree}", _Both(ours), None, inputs, repeats)
        if o3:
            theirs, flat = uuu_peer(o3, degree, channels), [torch.randn(batch, channels * dim) for _ in range(2)]
            other = _row(row.case, theirs, None, flat, repeats)
            ratios = other.forward / row.forward, other.forward_backward / row.forward_backward
            peer_times = other.forward, other.forward_backward
            row = Row(row.case, row.forward, row.forward_backward, row.forward_cpu, *peer_times, *ratios)
        return row

    return _scan(measure, lmax, peer)


class _Both(torch.nn.Module):
    """Both halves of a signal product in one tensor."""

    def __init__(self, product: SignalTensorProduct) -> None:
        super().__init__()
        self.product = product

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([half for half in self.product(x, y) if half is not None], -1)


def uuu_peer(o3: Any, degree: int, channels: int) -> Any:
    """The peer's product with every path from 0 .. L and 0 .. L into both parities of 0 .. L, mode uuu."""
    spec = o3.Irreps([(channels, (k, (-1) ** k)) for k in range(degree + 1)])
    out = o3.Irreps([(channels, (k, p)) for k in range(degree + 1) for p in (1, -1)])
    instructions = [
        (i, j, k, "uuu", True)
        for i, (_, a) in enumerate(spec)
        for j, (_, b) in enumerate(spec)
        for k, (_, c) in enumerate(out)
        if c in a * b or (abs(a.l - b.l) <= c.l <= a.l + b.l and (a.l + b.l + c.l) % 2 and c.p == (-1) ** (a.l + b.l))
    ]
    return o3.TensorProduct(spec, spec, out, instructions)


def bench_fully_connected(
    irreps_in1: str, irreps_in2: str, irreps_out: str, batch: int, *, peer: str = "", repeats: int = 15
) -> Table:
    """One fully connected product."""
    o3 = peer_module(peer) if peer else None
    terms = occupied_terms(irreps_in1, irreps_in2, irreps_out)
    if not fully_connected(*terms):
        expected = f"an irrep that {terms[0]} x {terms[1]} contains"
        raise InvalidInput.argument("irreps_out", expected=expected, got=str(terms[2]))
    ours = FullyConnectedTensorProduct(*terms)
    theirs = o3.FullyConnectedTensorProduct(irreps_in1, irreps_in2, irreps_out) if o3 else None
    inputs = [torch.randn(batch, ours.irreps_in1.dim), torch.randn(batch, ours.irreps_in2.dim)]
    return Table((_row("fully connected", ours, theirs, inputs, repeats),), {}, _version(peer))


def _exponents(sizes: list[int], rows: list[Row]) -> dict[str, tuple[float, float, float]]:
    if len(sizes) < 3:
        return {}
    out = {}
    for name in ("forward", "forward_cpu", "forward_backward", "peer_forward", "peer_forward_backward"):
        values = [getattr(row, name) for row in rows]
        if all(values):
            fit = growth([s + 1 for s in sizes], values)
            out[name] = fit.exponent, fit.low, fit.high
    return out


def _version(peer: str) -> str:
    return f"{peer} {metadata.version(peer)}" if peer else ""
