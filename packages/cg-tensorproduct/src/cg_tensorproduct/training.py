"""The three training runs of the demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import Any

import numpy as np
import torch

from cg_tensorproduct.molecules import Molecule, chiral_molecules, displaced_molecules, pair_potential_error, tetris
from cg_tensorproduct.network import Graph, Network, batch, ours, without_kernels

Tensor = torch.Tensor


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes
    ----------
    losses : list of float
    score : float
        Held-out accuracy, or mean absolute error of forces in eV / angstrom.
    output : float
        Largest output on held-out data, in absolute value.
    """

    losses: list[float]
    score: float
    output: float


def train_tetris(seed: int, *, even_only: bool, steps: int = 60) -> Run:
    """Tell the chiral pair of tetris pieces apart; tested on randomly turned copies of all eight."""
    torch.manual_seed(seed)
    pieces, target = tetris()
    network = Network(1, "0o", channels=4, cutoff=1.1, even_only=even_only, make=without_kernels)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    graph, losses = batch(pieces, 1.1), []
    for _ in range(steps):
        loss = (network(graph) - target).square().mean()
        optimizer.zero_grad()
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    turned = [(positions @ _rotation(), species) for positions, species in pieces]
    with torch.no_grad():
        out = network(batch(turned, 1.1))
    return Run(losses, float((out.round() == target).float().mean()), float(out.abs().max()))


def _rotation() -> Tensor:
    q = torch.linalg.qr(torch.randn(3, 3))[0]
    return q * torch.det(q)


def train_handedness(
    seed: int, *, even_only: bool = False, node: str = "paths", readout: str = "0o", steps: int = 400
) -> Run:
    """R or S from elements and coordinates; a fifth of the molecules held out, each tested with its mirror image."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    data = chiral_molecules()
    numbers = np.array(sorted({entry[0] for entry in data}))
    held = set(rng.permutation(numbers)[: len(numbers) // 5].tolist())
    train = [entry for entry in data if entry[0] not in held]
    test = [entry for entry in data if entry[0] in held]
    network = Network(8, readout, cutoff=3.0, even_only=even_only, node=node)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _schedule(steps))
    losses = []
    for _ in range(steps):
        chosen = [train[k] for k in rng.choice(len(train), 8, replace=False)]
        mirror = rng.choice([-1, 1], 8)
        molecules = [_tensors(entry, sign) for entry, sign in zip(chosen, mirror)]
        label = torch.tensor([entry[3] * sign for entry, sign in zip(chosen, mirror)], dtype=torch.float32)
        out = network(batch(molecules, 3.0))
        loss = torch.nn.functional.softplus(-label * out).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        if loss.requires_grad:  # a network of even paths has no way to an odd readout
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 10)
            optimizer.step()
            scheduler.step()
    right, largest = 0.0, 0.0
    with torch.no_grad():
        for sign in (1, -1):
            for start in range(0, len(test), 16):
                part = test[start : start + 16]
                out = network(batch([_tensors(entry, sign) for entry in part], 3.0))
                label = torch.tensor([entry[3] * sign for entry in part], dtype=torch.float32)
                blind = out.abs() < 1e-4  # no opinion counts one half
                right += float(torch.where(blind, 0.5, (out * label > 0).float()).sum())
                largest = max(largest, float(out.abs().max()))
    return Run(losses, right / (2 * len(test)), largest)


def _tensors(entry: Any, sign: int) -> Molecule:
    positions = torch.as_tensor(entry[1], dtype=torch.float32) * torch.tensor([float(sign), 1.0, 1.0])
    return positions, torch.as_tensor(entry[2])


def _schedule(steps: int) -> Callable[[int], float]:
    """Warm-up of 30 steps, then a cosine to a thousandth."""
    return lambda k: min(1.0, (k + 1) / 30) * (1e-3 + (1 - 1e-3) * 0.5 * (1 + cos(pi * min(k, steps) / steps)))


@dataclass(frozen=True)
class Frames:
    """Energies and forces of training and held-out molecules, the spread of forces, and the force errors of two
    baselines: no force at all, and the best pair potential.
    """

    train: list[Any]
    test: list[Any]
    scale: float
    zero_mae: float
    pair_mae: float


def load_frames(copies: int = 60, held: int = 9) -> Frames:
    """Frames with atomic energies subtracted (least squares on the training part), and the error of zero forces."""
    frames = displaced_molecules(copies)
    names = sorted({f["name"] for f in frames})
    out = set(np.random.default_rng(0).permutation(names)[:held].tolist())
    train, test = ([f for f in frames if (f["name"] in out) == flag] for flag in (False, True))
    counts = np.array([np.bincount(f["species"], minlength=4) for f in train], dtype=float)
    atomic = np.linalg.lstsq(counts, np.array([f["energy"] for f in train]), rcond=None)[0]
    for f in frames:
        f["target"] = f["energy"] - np.bincount(f["species"], minlength=4) @ atomic
    scale = float(np.std(np.concatenate([f["forces"].ravel() for f in train])))
    zero = float(np.mean(np.concatenate([np.abs(f["forces"]).ravel() for f in test])))
    return Frames(train, test, scale, zero, pair_potential_error(train, test, scale))


def energy_loss(network: Network, graph: Graph, target: Tensor, forces: Tensor, sizes: Tensor, scale: float) -> Tensor:
    """Energies an atom and forces, both over the spread of forces; forces by a gradient that stays differentiable."""
    energy = network(graph)
    found = -torch.autograd.grad(energy.sum(), graph.positions, create_graph=True)[0]
    energies = ((energy - target / scale) / sizes).square().mean()
    return energies + (found - forces / scale).square().mean()


def force_batch(frames: list[Any]) -> tuple[Graph, Tensor, Tensor, Tensor]:
    """A batch whose positions require grad, with targets, forces and sizes."""
    molecules = [(torch.as_tensor(f["positions"], dtype=torch.float32), torch.as_tensor(f["species"])) for f in frames]
    graph = batch(molecules, 3.0)
    graph.positions.requires_grad_()
    target = torch.tensor([f["target"] for f in frames], dtype=torch.float32)
    forces = torch.as_tensor(np.concatenate([f["forces"] for f in frames]), dtype=torch.float32)
    return graph, target, forces, torch.tensor([float(len(f["species"])) for f in frames])


def train_forces(
    frames: Frames,
    seed: int,
    *,
    steps: int = 600,
    even_only: bool = False,
    make: Any = ours,
    network: Network | None = None,
) -> Run:
    """Train energies and forces; every step differentiates every product twice."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = network or Network(4, "0e", even_only=even_only, make=make)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _schedule(steps))
    losses = []
    for _ in range(steps):
        chosen = [frames.train[k] for k in rng.choice(len(frames.train), 16, replace=False)]
        loss = energy_loss(network, *force_batch(chosen), frames.scale)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    errors = []
    for start in range(0, len(frames.test), 64):
        graph, _, forces, _ = force_batch(frames.test[start : start + 64])
        found = -torch.autograd.grad(network(graph).sum(), graph.positions)[0]
        errors.append((found * frames.scale - forces).abs().flatten())
    return Run(losses, float(torch.cat(errors).mean()), 0.0)
