"""What a product consists of, in words: paths, operations, bytes, and which algorithm runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.costs import modelled
from cg_tensorproduct.fields import automatic, grid_sizes
from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.plans import HAS_NUMBA
from cg_tensorproduct.signals import SignalTensorProduct
from cg_tensorproduct.tensor_product import TensorProduct
from cg_tensorproduct.tuning import pick

_NO_NUMBA = "the native kernels need the extra: pip install 'cg-tensorproduct[cpu]'"


def explain(module: Any, batch: int = 64) -> str:
    """Which paths a product has, what the algorithms cost, and which one runs.

    Parameters
    ----------
    module : FullTensorProduct, TensorProduct (of any kind) or SignalTensorProduct
    batch : int
        Rows to cost it for.

    Returns
    -------
    str
        A few lines of text.

    Raises
    ------
    InvalidInput
        If `module` is none of these, or `batch` no integer >= 0.
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 0:
        raise InvalidInput.argument("batch", expected="an integer >= 0", got=batch)
    if isinstance(module, FullTensorProduct):
        return "\n".join(_full(module, batch))
    if isinstance(module, TensorProduct):
        return "\n".join(_weighted(module, batch))
    if isinstance(module, SignalTensorProduct):
        return "\n".join(_signal(module, batch))
    expected = "a FullTensorProduct, TensorProduct or SignalTensorProduct"
    raise InvalidInput.argument("module", expected=expected, got=type(module).__name__)


def _full(module: FullTensorProduct, batch: int) -> list[str]:
    costs, device = module._costs, module.get_buffer("output_mask").device
    seconds = modelled(costs, batch, torch.float32, device)
    choice, fastest = module.algorithm, min(seconds, key=lambda name: seconds[name])
    if choice == "auto":
        choice = pick(costs, batch, torch.float32, device, native=True, measured=not module.deterministic)
        why = "least modelled time" if choice == fastest else f"measured by autotune; the model says {fastest}"
    else:
        why = f"asked for; the model says {fastest}"
    odd = sum((p.l1 + p.l2 + p.l3) % 2 for p in module.paths)
    lines = [
        f"{module.irreps_in1} x {module.irreps_in2} -> {module.irreps_out.regroup()}",
        f"{len(module.paths)} paths ({odd} antisymmetric), {costs.outputs} outputs a sample",
        f"multiply-adds a sample: dense {costs.dense}, blocked {costs.blocked}",
        f"bytes written a sample: {4 * costs.outputs} in float32",
        f"modelled at batch {batch}: " + ", ".join(f"{name} {s * 1e3:.3g} ms" for name, s in sorted(seconds.items())),
        f"runs: {choice} ({why})",
    ]
    return lines if HAS_NUMBA else [*lines, _NO_NUMBA]


def _weighted(module: TensorProduct, batch: int) -> list[str]:
    device = module.get_buffer("output_mask").device
    terms = module.irreps_in1, module.irreps_in2, module.irreps_out
    degrees = [[t[i].ir.l for t, i in zip(terms, ins.terms)] for ins in module.instructions]
    modes = Counter(ins.connection_mode for ins in module.instructions)
    macs = sum(module.multiply_adds(ins) for ins in module.instructions)
    weights = "own" if module.internal_weights else "shared, given" if module.shared_weights else "one set a sample"
    native = [mode for mode in ("uvu", "uuu") if modes[mode]]
    choice = module.choice(batch, torch.float32, device)
    if not native:
        why = f"matrix products; {', '.join(modes) or 'no path'} has no native code"
    elif choice == "kernel":
        why = f"native code for {' and '.join(native)}, matrix products for the rest"
    else:
        why = "matrix products"
    why += ", asked for" if module.algorithm != "auto" else ""
    lines = [
        f"{module.irreps_in1} x {module.irreps_in2} -> {module.irreps_out}",
        f"{len(module.instructions)} paths ({sum(sum(d) % 2 for d in degrees)} antisymmetric): "
        + (", ".join(f"{count} {mode}" for mode, count in modes.items()) or "none"),
        f"{module.weight_numel} weights" + (f" ({weights})" if module.weight_numel else ""),
        f"multiply-adds a sample: {macs}",
        f"bytes written a sample: {4 * module.irreps_out.dim} in float32",
        f"runs at batch {batch}: {choice} ({why})",
    ]
    return lines if HAS_NUMBA or not native else [*lines, _NO_NUMBA]


def _signal(module: SignalTensorProduct, batch: int) -> list[str]:
    lmax = module.lmax1, module.lmax2, module.lmax_out
    theta, phi = grid_sizes(*lmax)
    transform = automatic(lmax) if module.transform == "auto" else module.transform
    paths = [(a, b, c) for a in range(lmax[0] + 1) for b in range(lmax[1] + 1) for c in range(lmax[2] + 1)]
    paths = [(a, b, c) for a, b, c in paths if abs(a - b) <= c <= a + b]
    odd = sum(sum(path) % 2 for path in paths)
    kept = {"both": len(paths), "scalar": len(paths) - odd, "bracket": odd}[module.couplings]
    fields = module.channels * module.rank * len(module.halves)
    chosen = "" if module.transform == "auto" else ", asked for"
    return [
        f"degrees to {lmax[0]} x degrees to {lmax[1]} -> degrees to {lmax[2]}, {module.channels} channels",
        f"{kept} of {len(paths)} paths mixed ({odd} antisymmetric; couplings {module.couplings!r})",
        f"{sum(p.numel() for p in module.parameters())} weights ({module.weights})",
        f"{fields} products of fields a sample",
        f"grid: {theta} x {phi} points",
        f"bytes written a sample: {4 * module.channels * len(module.halves) * (lmax[2] + 1) ** 2} in float32",
        f"runs at batch {batch}: {transform} ({'small matrices' if transform == 'dense' else 'O(L^3)'}{chosen})",
    ]
