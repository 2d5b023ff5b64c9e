"""Demonstrations as claims: what odd paths are good for, and a swap of products inside a real training run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module, metadata
from typing import Any

import numpy as np
import torch
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict
from lemmata_core.executor import one_thread
from lemmata_core.timing import paired

from cg_tensorproduct.convert import replace_e3nn
from cg_tensorproduct.network import Network
from cg_tensorproduct.training import (
    energy_loss,
    force_batch,
    load_frames,
    train_forces,
    train_handedness,
    train_tetris,
)

LARGER = frozenset({Scale.LAPTOP, Scale.FULL})
NETWORKS: dict[str, dict[str, Any]] = {
    "complete": {},
    "even paths only": {"even_only": True},
    "even paths only, readout 0e": {"even_only": True, "readout": "0e"},
    "signal product, both halves": {"node": "both"},
    "signal product, scalar (Gaunt)": {"even_only": True, "node": "scalar"},
}


def run_tetris(ctx: Context) -> Evidence:
    """Train the tetris pieces with all paths and with even paths only."""
    seed = int(ctx.rng.integers(2**31))
    with ctx.progress.task("chirality-tetris", 2) as task, one_thread():
        complete = train_tetris(seed, even_only=False)
        task.advance()
        even = train_tetris(seed, even_only=True)
        task.advance()
    steps = list(range(len(complete.losses)))
    lines = {"complete": (steps, complete.losses), "even paths only": (steps, even.losses)}
    return Evidence(
        headline=f"complete {8 * complete.score:.0f} of 8 pieces, even paths only {8 * even.score:.0f} of 8",
        values={"complete": complete.score, "even": even.score, "even output": even.output},
        series=(Series("Loss on the tetris pieces", "step", "squared error", lines, log_y=True),),
        settings={"steps": len(steps), "channels": 4, "optimizer": "Adam 1e-2"},
    )


def accept_tetris(evidence: Evidence) -> Verdict:
    """Accept 8 of 8 against 6 of 8 with an output that is zero."""
    v = evidence.values
    reason = (
        f"complete {8 * v['complete']:.0f} of 8 on turned copies; even paths only {8 * v['even']:.0f} of 8, "
        f"largest output "
        f"{v['even output']:.1g}"
    )
    holds = v["complete"] == 1 and v["even"] == 0.75 and v["even output"] == 0
    return Verdict.of(holds, reason)


def handedness(name: str, seed: int, steps: int) -> dict[str, Any]:
    """One network, one seed."""
    return asdict(train_handedness(seed, steps=steps, **NETWORKS[name]))


def run_handedness(ctx: Context) -> Evidence:
    """Train R against S: the complete network with three seeds, the others with one."""
    seeds = [int(s) for s in ctx.rng.integers(2**31, size=3)]
    cases = [("complete", s, 400) for s in seeds]
    cases += [
        (name, seeds[0], 60 if name.startswith("even") or "scalar" in name else 400) for name in list(NETWORKS)[1:]
    ]
    found = list(ctx.progress.track(ctx.executor.map(handedness, *zip(*cases)), "chirality-molecules", len(cases)))
    rows = [(name, seed, 100 * r["score"], r["output"]) for (name, seed, _), r in zip(cases, found)]
    complete = [row[2] for row in rows if row[0] == "complete"]
    by_name = {row[0]: row[2] for row in rows}
    smooth = {
        f"{name}, seed {k}": _smooth(r["losses"])
        for k, ((name, _, _), r) in enumerate(zip(cases, found))
        if k in (0, 3, 5)
    }
    return Evidence(
        headline=f"complete {np.mean(complete):.1f} % of held-out molecules, Gaunt {by_name['even paths only']:.1f} %",
        values={
            "complete mean": float(np.mean(complete)),
            "complete worst": float(min(complete)),
            "even": by_name["even paths only"],
            "even 0e": by_name["even paths only, readout 0e"],
            "signal both": by_name["signal product, both halves"],
            "signal scalar": by_name["signal product, scalar (Gaunt)"],
        },
        tables=(
            Table("Held-out accuracy, each structure and its mirror image", ("network", "seed", "%", "output"), rows),
        ),
        series=(Series("Loss, R against S", "step", "mean of 20 steps", smooth),),
        settings={"steps": 400, "batch": 8, "rdkit": metadata.version("rdkit"), "seeds": seeds},
    )


def _smooth(losses: list[float]) -> tuple[list[float], list[float]]:
    blocks = [losses[k : k + 20] for k in range(0, len(losses) - 19, 20)]
    return [20.0 * k for k in range(len(blocks))], [float(np.mean(block)) for block in blocks]


def accept_handedness(evidence: Evidence) -> Verdict:
    """Accept 80 % on average and never below 70 for complete networks, exactly 50 % for incomplete ones."""
    v = evidence.values
    reason = (
        f"complete {v['complete mean']:.1f} % (worst seed {v['complete worst']:.1f}), signal product with bracket "
        f"{v['signal both']:.1f} %; even paths only {v['even']:.1f} and {v['even 0e']:.1f} %, scalar signals "
        f"{v['signal scalar']:.1f} % (chance is 50)"
    )
    tells = v["complete mean"] >= 80 and v["complete worst"] >= 70 and v["signal both"] >= 70
    blind = all(abs(v[key] - 50) < 1e-9 for key in ("even", "even 0e", "signal scalar"))
    return Verdict.of(tells and blind, reason)


def peer_product(in1: str, in2: str, out: str, instructions: list[Any], **options: Any) -> torch.nn.Module:
    """The peer's product, for the network of the demonstrations."""
    o3 = import_module("e3nn.o3")
    return o3.TensorProduct(in1, in2, out, instructions, **options)


def run_forces(ctx: Context) -> Evidence:
    """Train energies and forces; swap the peer's products for ours in one network and compare curves and time of a
    step.
    """
    steps, compared = 600 if ctx.scale is Scale.LAPTOP else 1500, 100
    seed = int(ctx.rng.integers(2**31))
    with ctx.progress.task("energy-forces", 4) as task, one_thread():
        frames = load_frames()
        task.advance()
        torch.manual_seed(seed)
        theirs = Network(4, "0e", make=peer_product)
        mine = copy.deepcopy(theirs)
        report = replace_e3nn(mine)
        timing = paired(
            _stepper(copy.deepcopy(theirs), frames), _stepper(copy.deepcopy(mine), frames), repeats=15, warmup=3
        )
        task.advance()
        curves = [train_forces(frames, seed, steps=compared, network=network).losses for network in (theirs, mine)]
        task.advance()
        final = train_forces(frames, seed, steps=steps)
        task.advance()
    difference = max(abs(a - b) / a for a, b in zip(*curves))
    ratio = 1 / timing.ratio
    rows = [("e3nn", timing.a_seconds * 1e3, timing.a_process_seconds * 1e3)]
    rows.append(("ours", timing.b_seconds * 1e3, timing.b_process_seconds * 1e3))
    lines = {name: (list(range(compared)), curve) for name, curve in zip(("e3nn", "ours"), curves)}
    loss = Series("Loss after the swap", "step", "loss", lines, log_y=True)
    x, y = _smooth(final.losses)
    return Evidence(
        headline=f"a step takes {ratio:.2f} of e3nn's time, curves agree to {difference:.0e}; force error "
        f"{final.score:.2f} eV/A",
        values={
            "step ratio": ratio,
            "curve difference": difference,
            "replaced": float(report.replaced),
            "left alone": float(len(report.modules) - report.replaced),
            "force MAE": final.score,
            "zero force MAE": frames.zero_mae,
            "pair potential MAE": frames.pair_mae,
        },
        tables=(Table("A training step", ("products", "wall ms", "CPU ms"), rows, timed=("wall ms", "CPU ms")),),
        series=(loss, Series("Training from scratch", "step", "mean of 20 steps", {"loss": (x, y)}, log_y=True)),
        settings={
            "steps": steps,
            "frames": (len(frames.train), len(frames.test)),
            "e3nn": metadata.version("e3nn"),
            "tblite": metadata.version("tblite"),
            "threads": 1,
        },
        timed=frozenset({"step ratio", "headline"}),
    )


def _stepper(network: Network, frames: Any) -> Callable[[], None]:
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    inputs = force_batch(frames.train[:: max(1, len(frames.train) // 16)][:16])

    def step() -> None:
        optimizer.zero_grad()
        energy_loss(network, *inputs, frames.scale).backward()
        optimizer.step()

    return step


def accept_forces(evidence: Evidence) -> Verdict:
    """Accept a step of 0.85 of the peer's, curves equal to 1e-4, and a force error of 0.6 of a pair potential's and 0.4
    of that of zero forces.
    """
    v = evidence.values
    reason = (
        f"{v['replaced']:.0f} products swapped; step {v['step ratio']:.2f} of e3nn's (accepted 0.85, aim 0.7), "
        f"curves differ by "
        f"{v['curve difference']:.1e} (accepted 1e-4); held-out force error {v['force MAE']:.2f} eV/A, pair "
        f"potential {v['pair potential MAE']:.2f} (accepted 0.6 of it), zero forces {v['zero force MAE']:.2f} (0.4)"
    )
    holds = v["step ratio"] <= 0.85 and v["curve difference"] <= 1e-4 and v["left alone"] == 0
    good = v["force MAE"] <= min(0.6 * v["pair potential MAE"], 0.4 * v["zero force MAE"])
    return Verdict.of(holds and good, reason)


TRAINING_CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="cg-tensorproduct/chirality-tetris",
        statement="A network with all paths tells the chiral pair of tetris pieces apart; one with even paths only "
        "cannot.",
        source="arXiv 2602.21466, expressivity; tetris pieces after e3nn's tutorial",
        paper="8 of 8 against 6 of 8",
        run=run_tetris,
        accept=accept_tetris,
    ),
    Claim(
        id="cg-tensorproduct/chirality-molecules",
        statement="A network with all paths reads R or S off real molecules; one with even paths only stays at chance.",
        source="ours, after arXiv 2602.21466, expressivity",
        run=run_handedness,
        accept=accept_handedness,
        scales=LARGER,
        requires=("rdkit",),
    ),
    Claim(
        id="cg-tensorproduct/energy-forces",
        statement="Swapping e3nn's products for ours leaves a training run of energies and forces as it is, and "
        "makes it faster.",
        source="ours; GFN2-xTB energies of the G2 molecules",
        run=run_forces,
        accept=accept_forces,
        scales=LARGER,
        requires=("ase", "tblite", "e3nn"),
        timed=True,
    ),
)
