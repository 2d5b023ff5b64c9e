"""The small equivariant network of the demonstrations: one architecture into which every tensor product is injected.

Two blocks, each a message (features times edge harmonics, mode uvu, weights from the distance), a gate, and a product
of node features with themselves (mode uuu). The node product is not decoration: with messages alone no antisymmetric
path reaches a scalar in two blocks, and networks with and without odd paths are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from cg_tensorproduct.irreps import Irrep, Irreps
from cg_tensorproduct.signals import SignalTensorProduct
from cg_tensorproduct.tensor_product import TensorProduct
from cg_tensorproduct.wigner import wigner_3j

Tensor = torch.Tensor
HARMONICS = Irreps("0e+1o+2e")
LMAX = 2


class Make(Protocol):
    """A factory of weighted products: ours, or a peer's."""

    def __call__(self, in1: str, in2: str, out: str, instructions: list[Any], **options: Any) -> nn.Module:
        """Make a product."""


def ours(in1: str, in2: str, out: str, instructions: list[Any], **options: Any) -> nn.Module:
    """Our `TensorProduct`."""
    return TensorProduct(in1, in2, out, instructions, **options)


def without_kernels(in1: str, in2: str, out: str, instructions: list[Any], **options: Any) -> nn.Module:
    """Our `TensorProduct` in plain torch: nothing to compile first, so right where a run lasts a second."""
    return TensorProduct(in1, in2, out, instructions, algorithm="torch", **options)


@dataclass(frozen=True)
class Graph:
    """Molecules side by side.

    Attributes
    ----------
    positions : Tensor [atoms, 3]
    species : Tensor [atoms] of int
    molecule : Tensor [atoms] of int
        Which molecule an atom belongs to.
    source, target : Tensor [edges] of int
    """

    positions: Tensor
    species: Tensor
    molecule: Tensor
    source: Tensor
    target: Tensor
    count: int


def batch(molecules: list[tuple[Tensor, Tensor]], cutoff: float) -> Graph:
    """Join (positions, species) of molecules; an edge joins atoms of one molecule nearer than `cutoff`."""
    sources, targets, start = [], [], 0
    for positions, _ in molecules:
        # Differences, not torch.cdist: its matrix formula leaves a self-distance above zero, and self-edges give NaN.
        distance = (positions[:, None] - positions[None]).norm(dim=2)
        distance.fill_diagonal_(float("inf"))
        i, j = torch.nonzero(distance < cutoff, as_tuple=True)
        sources.append(i + start)
        targets.append(j + start)
        start += len(positions)
    sizes = torch.tensor([len(positions) for positions, _ in molecules])
    return Graph(
        torch.cat([positions for positions, _ in molecules]),
        torch.cat([species for _, species in molecules]),
        torch.repeat_interleave(torch.arange(len(molecules)), sizes),
        torch.cat(sources),
        torch.cat(targets),
        len(molecules),
    )


class Linear(nn.Module):
    """A linear map between equal irreps, unit variance in, unit variance out."""

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in, self.irreps_out = irreps_in, irreps_out
        self._plan = [(term, [i for i, other in enumerate(irreps_in) if other.ir == term.ir]) for term in irreps_out]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(max(1, sum(irreps_in[i].mul for i in found)), term.mul))
            for term, found in self._plan
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, irreps_in.dim] -> [B, irreps_out.dim]; what nothing reaches is zero."""
        parts = torch.split(x, [term.dim for term in self.irreps_in], 1)
        out = []
        for (term, found), weight in zip(self._plan, self.weights):
            if not found:
                out.append(x.new_zeros(x.shape[0], term.dim))
                continue
            rows = torch.cat([parts[i].view(x.shape[0], self.irreps_in[i].mul, term.ir.dim) for i in found], 1)
            out.append(torch.einsum("bui,uw->bwi", rows, weight / weight.shape[0] ** 0.5).reshape(x.shape[0], term.dim))
        return torch.cat(out, 1)


def paths(
    in1: Irreps, in2: Irreps, mode: str, *, even_only: bool
) -> tuple[Irreps, list[tuple[int, int, int, str, bool]]]:
    """Every path with l3 <= 2, equal multiplicities kept, into sorted output terms; or only those with l1 + l2 + l3
    even.
    """
    out: list[tuple[int, Irrep]] = []
    found: list[tuple[int, int]] = []
    for i, (mul, a) in enumerate(in1):
        for j, (_, b) in enumerate(in2):
            for ir in a * b:
                if ir.l <= LMAX and not (even_only and (a.l + b.l + ir.l) % 2):
                    found.append((i, j))
                    out.append((mul, ir))
    irreps, place, _ = Irreps(out).sort()
    return irreps, [(i, j, place[k], mode, True) for k, (i, j) in enumerate(found)]


class Gate(nn.Module):
    """silu on even scalars, tanh on odd ones, and a sigmoid of a scalar for every other channel."""

    def __init__(self, hidden: Irreps) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = sum(term.mul for term in hidden if term.ir.l > 0)
        self.irreps_in = Irreps([(self.gates, "0e")]) + hidden if self.gates else hidden

    def forward(self, x: Tensor) -> Tensor:
        """[B, gates + hidden.dim] -> [B, hidden.dim]."""
        first, *parts = torch.split(x, [self.gates, *(term.dim for term in self.hidden)], 1)
        gates = iter(torch.split(torch.sigmoid(first), [term.mul for term in self.hidden if term.ir.l > 0], 1))
        out = []
        for part, (mul, ir) in zip(parts, self.hidden):
            if ir.l == 0:
                out.append(nn.functional.silu(part) if ir.p == 1 else torch.tanh(part))
                continue
            gated = part.view(-1, mul, ir.dim) * next(gates).unsqueeze(2)
            out.append(gated.reshape(x.shape[0], mul * ir.dim))
        return torch.cat(out, 1)


class Block(nn.Module):
    """Message, gate, node product."""

    def __init__(
        self, irreps_in: Irreps, channels: int, species: int, make: Make, *, even_only: bool, node: str
    ) -> None:
        super().__init__()
        mid, instructions = paths(irreps_in, HARMONICS, "uvu", even_only=even_only)
        options = {"shared_weights": False, "internal_weights": False}
        self.edge = make(str(irreps_in), str(HARMONICS), str(mid), instructions, **options)
        self.radial = nn.Sequential(
            nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, sum(irreps_in[i[0]].mul for i in instructions))
        )
        reached = sorted({term.ir for term in mid} | {term.ir for term in irreps_in})
        self.gate = Gate(Irreps([(channels, ir) for ir in reached]))
        hidden = self.gate.hidden
        self.after_message = Linear(mid, self.gate.irreps_in)
        own = [
            (i, 0, k, "uvw", True)
            for i, a in enumerate(irreps_in)
            for k, b in enumerate(self.gate.irreps_in)
            if a.ir == b.ir
        ]
        self.own = make(str(irreps_in), f"{species}x0e", str(self.gate.irreps_in), own)
        self.left, self.right = Linear(hidden, hidden), Linear(hidden, hidden)
        self.node: nn.Module
        if node == "paths":
            squared, instructions = paths(hidden, hidden, "uuu", even_only=even_only)
            # a product of two vectors of features with each other, channel by channel
            self.node = make(str(hidden), str(hidden), str(squared), instructions)
        else:
            self.node = SignalNode(hidden, node)
            squared = self.node.irreps_out
        reached = sorted({term.ir for term in squared} | {term.ir for term in hidden})
        self.irreps_out = Irreps([(channels, ir) for ir in reached])
        self.after_node, self.residual = Linear(squared, self.irreps_out), Linear(hidden, self.irreps_out)

    def forward(self, x: Tensor, one_hot: Tensor, harmonics: Tensor, radial: Tensor, graph: Graph) -> Tensor:
        """Features [atoms, irreps_in.dim] -> [atoms, irreps_out.dim]."""
        messages = self.edge(x[graph.source], harmonics, self.radial(radial))
        gathered = x.new_zeros(x.shape[0], messages.shape[1]).index_add(0, graph.target, messages) / 8**0.5
        x = self.gate(self.after_message(gathered) + self.own(x, one_hot))
        return self.after_node(self.node(self.left(x), self.right(x))) + self.residual(x)


class SignalNode(nn.Module):
    """The mixing signal product as node product: ordinary and pseudo signals of each channel, every pairing of the
    two.
    """

    def __init__(self, hidden: Irreps, couplings: str) -> None:
        super().__init__()
        self.hidden, self.mul = hidden, hidden[0].mul
        self.products = nn.ModuleList(
            SignalTensorProduct(LMAX, LMAX, LMAX, channels=self.mul, couplings=couplings, weights="degree")
            for _ in range(4)
        )
        halves = self.products[0].halves
        terms = []
        for p1 in (1, -1):
            for p2 in (1, -1):
                for half in halves:  # type: ignore[union-attr]
                    sign = p1 * p2 * (1 if half == "even" else -1)
                    terms += [(self.mul, (k, sign * (-1) ** k)) for k in range(LMAX + 1)]
        self.irreps_out = Irreps(terms)

    def _signals(self, x: Tensor) -> dict[int, Tensor]:
        parts = {term.ir: part for term, part in zip(self.hidden, torch.split(x, [t.dim for t in self.hidden], 1))}
        out = {}
        for sign in (1, -1):
            rows = []
            for k in range(LMAX + 1):
                part = parts.get(Irrep(k, sign * (-1) ** k))
                zero = x.new_zeros(x.shape[0], self.mul, 2 * k + 1)
                rows.append(zero if part is None else part.view(x.shape[0], self.mul, 2 * k + 1))
            out[sign] = torch.cat(rows, 2)
        return out

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """[B, hidden.dim] twice -> [B, irreps_out.dim]."""
        first, second = self._signals(x), self._signals(y)
        out = []
        for product, (p1, p2) in zip(self.products, ((1, 1), (1, -1), (-1, 1), (-1, -1))):
            for half in product(first[p1], second[p2]):
                if half is not None:
                    out += [half[:, :, k * k : (k + 1) ** 2].flatten(1) for k in range(LMAX + 1)]
        return torch.cat(out, 1)


class Network(nn.Module):
    """Species and positions to one irrep for each molecule.

    Parameters
    ----------
    species : int
        How many kinds of atoms.
    readout : str
        "0e" for an energy, "0o" for a handedness.
    channels : int
    cutoff : float
    even_only : bool
        Drop every path with odd l1 + l2 + l3, as the Gaunt product does.
    make : callable
        Factory of the products.
    node : {"paths", "both", "scalar"}
        Node product path by path, or a signal product with these couplings.
    """

    def __init__(
        self,
        species: int,
        readout: str,
        *,
        channels: int = 8,
        cutoff: float = 3.0,
        even_only: bool = False,
        make: Callable[..., nn.Module] = ours,
        node: str = "paths",
    ) -> None:
        super().__init__()
        self.species, self.cutoff = species, cutoff
        self.embed = nn.Linear(species, channels, bias=False)
        blocks, irreps = [], Irreps([(channels, "0e")])
        for _ in range(2):
            blocks.append(Block(irreps, channels, species, make, even_only=even_only, node=node))
            irreps = blocks[-1].irreps_out
        self.blocks = nn.ModuleList(blocks)
        self.readout = Linear(irreps, Irreps(readout))
        self.register_buffer("_w2", wigner_3j(1, 1, 2, dtype=torch.float32), persistent=False)

    def forward(self, graph: Graph) -> Tensor:
        """One number a molecule, [molecules]."""
        edge = graph.positions[graph.target] - graph.positions[graph.source]
        length = edge.norm(dim=1, keepdim=True)
        unit = edge / length
        second = torch.einsum("bi,bj,ijk->bk", unit, unit, self._w2)
        harmonics = torch.cat([torch.ones_like(length), 3**0.5 * unit, 37.5**0.5 * second], 1)
        one_hot = nn.functional.one_hot(graph.species, self.species).to(unit.dtype)
        x = self.embed(one_hot)
        radial = bessel(length, self.cutoff)
        for block in self.blocks:
            x = block(x, one_hot, harmonics, radial, graph)
        out = self.readout(x)[:, 0]
        return out.new_zeros(graph.count).index_add(0, graph.molecule, out)


def bessel(length: Tensor, cutoff: float, degree: int = 8) -> Tensor:
    """Eight Bessel functions times the polynomial cut-off, [edges, 8]."""
    n = torch.arange(1, 9, dtype=length.dtype, device=length.device)
    x = length / cutoff
    p = degree
    envelope = 1 - (p + 1) * (p + 2) / 2 * x**p + p * (p + 2) * x ** (p + 1) - p * (p + 1) / 2 * x ** (p + 2)
    return (2 / cutoff) ** 0.5 * torch.sin(n * torch.pi * x) / length * envelope * (x < 1)
