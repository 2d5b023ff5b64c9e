"""The claims that need no training run: memory, and the two limits of the update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from lemmata_core import Context, Evidence, Scale, Table, Verdict

from optim_bas.memory import state_bytes
from optim_bas.optimizer import BAS

if TYPE_CHECKING:
    from collections.abc import Iterator

# The published bytes a parameter of what people would use instead, as measured on rows of 512 (benchmarks/).
PEERS = {
    "AdamW (float32)": 8.0,
    "AdamW, two eight-bit states (torchao, bitsandbytes)": 2.03,
    "Lion (float32)": 4.0,
    "Lion, eight bits (bitsandbytes)": 1.02,
}


def gpt2_shapes(width: int = 768, layers: int = 12) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of GPT-2's tensors, weights as (out, in)."""
    yield "tokens", (50257, width)
    yield "positions", (1024, width)
    for layer in range(layers):
        for name, shape in (
            ("qkv", (3 * width, width)),
            ("out", (width, width)),
            ("up", (4 * width, width)),
            ("down", (width, 4 * width)),
        ):
            yield f"{layer}.{name}.weight", shape
            yield f"{layer}.{name}.bias", shape[:1]
        for name in ("norm1", "norm2"):
            yield f"{layer}.{name}.weight", (width,)
            yield f"{layer}.{name}.bias", (width,)
    yield "norm.weight", (width,)
    yield "norm.bias", (width,)


def run_memory(context: Context) -> Evidence:
    """Bytes of state of GPT-2 small: its shapes on the meta device, or (laptop) real tensors that were stepped."""
    real = context.scale is not Scale.SMOKE
    device = "cpu" if real else "meta"
    params = [(name, torch.nn.Parameter(torch.zeros(shape, device=device))) for name, shape in gpt2_shapes()]
    optimizer = BAS(params)
    if real:
        for _, param in context.progress.track(params, "gradients"):
            param.grad = torch.ones_like(param)
        optimizer.step()
    else:
        optimizer.allocate()
    found = state_bytes(optimizer)
    entries = sum(param.numel() for _, param in params)
    blocks = sum(state["exp_avg_sq"].numel() for state in optimizer.state.values())
    wide = [(n, p) for n, p in params if p.ndim > 1]
    worst = max(found.by_tensor[name] / (8 * param.numel()) for name, param in wide)
    rows = [("BAS", found.per_parameter, 100 * found.of_adamw)]
    rows += [(name, size, 100 * size / 8) for name, size in PEERS.items()]
    return Evidence(
        headline=f"{100 * found.of_adamw:.2f} % of AdamW's state for GPT-2 small ({entries / 1e6:.0f} M parameters)",
        values={
            "of_adamw": found.of_adamw,
            "formula": (1 + 8 * blocks / entries) / 8,
            "worst_matrix": worst,
        },
        tables=(Table("Optimizer state", ("optimizer", "bytes a parameter", "% of AdamW"), rows),),
        settings={"model": "GPT-2 small", "device": device, "block": "row", "blocks": blocks},
    )


def accept_memory(evidence: Evidence) -> Verdict:
    """At most (1 + 8 / mean block) / 8 of AdamW's, and no matrix (rows of 768 and more) above 12.7 %."""
    v = evidence.values
    text = (
        f"{100 * v['of_adamw']:.3f} % of AdamW's bytes (a byte an entry and 8 a block: {100 * v['formula']:.3f} %), "
        f"at most {100 * v['worst_matrix']:.3f} % for a matrix"
    )
    ok = v["of_adamw"] <= v["formula"] * (1 + 1e-12) and v["worst_matrix"] <= 0.127
    return Verdict.of(ok, text)


def run_adam_limit(context: Context) -> Evidence:
    """100 steps of BAS with blocks of one entry beside AdamW."""
    # At scale smoke by plain torch: a fresh checkout would wait for the kernel's compiler.
    fused = False if context.scale is Scale.SMOKE else None
    rows = []
    for betas in ((0.9, 0.95), (0.9, 0.999)):
        for dtype in (torch.float32, torch.float8_e4m3fn):
            start = torch.tensor(context.rng.standard_normal((32, 48)), dtype=torch.float32)
            ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
            bas = BAS([ours], lr=0.01, betas=betas, block=1, momentum_dtype=dtype, fused=fused)
            adamw = torch.optim.AdamW([theirs], lr=0.01, betas=betas)
            for _ in range(100):
                theirs.grad = torch.tensor(context.rng.standard_normal((32, 48)), dtype=torch.float32)
                ours.grad = theirs.grad.clone()
                bas.step()
                adamw.step()
            gap = float((ours - theirs).detach().norm() / theirs.detach().norm())
            rows.append((str(betas), str(dtype).removeprefix("torch."), gap))
    worst = max(row[2] for row in rows)
    return Evidence(
        headline=f"blocks of one entry: relative distance from AdamW {worst:.1e} after 100 steps",
        values={"distance": worst},
        tables=(Table("Distance from AdamW", ("betas", "momentum", "relative distance"), rows),),
        settings={"steps": 100, "shape": "32 x 48", "learning rate": 0.01},
    )


def accept_adam_limit(evidence: Evidence) -> Verdict:
    """A relative distance of at most 1e-6."""
    distance = evidence.values["distance"]
    text = f"relative distance {distance:.1e}"
    return Verdict.of(distance <= 1e-6, text, asked="1e-6")


def run_sign_limit(context: Context) -> Evidence:
    """Ten steps with both betas zero beside SignSGD, every kind of block."""
    rows = []
    fused = False if context.scale is Scale.SMOKE else None
    for block in ("row", "tensor", 5, ("rows", 4)):
        ours = torch.nn.Parameter(torch.zeros(16, 12))
        bas = BAS([ours], lr=2.0**-7, betas=(0.0, 0.0), eps=0.0, weight_decay=0.0, block=block, fused=fused)
        sign_sgd = torch.zeros(16, 12)
        signs = 0
        for _ in range(10):
            before = ours.detach().clone()
            ours.grad = torch.tensor(context.rng.standard_normal((16, 12)), dtype=torch.float32)
            bas.step()
            sign_sgd -= 2.0**-7 * ours.grad.sign()
            signs += int(((before - ours.detach()).sign() != ours.grad.sign()).sum())
        # a_b is the quotient of two equal roots: 1 up to one rounding.
        rows.append((str(block), signs, float((ours.detach() - sign_sgd).abs().max()) * 2**7))
    return Evidence(
        headline=f"zero betas: {sum(row[1] for row in rows)} signs differ from SignSGD's",
        values={"signs": float(sum(row[1] for row in rows)), "distance": max(row[2] for row in rows)},
        tables=(Table("Against SignSGD", ("block", "signs that differ", "largest distance in steps"), rows),),
        settings={"steps": 10, "learning rate": 2.0**-7},
    )


def accept_sign_limit(evidence: Evidence) -> Verdict:
    """No sign differs, and ten steps are at most ten roundings apart."""
    v = evidence.values
    text = f"{v['signs']:.0f} signs differ, distance {v['distance']:.1e} steps after ten"
    ok = v["signs"] == 0 and v["distance"] <= 10 * 2.0**-23 * 10
    return Verdict.of(ok, text)
