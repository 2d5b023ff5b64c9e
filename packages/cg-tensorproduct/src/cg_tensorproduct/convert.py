"""Swap e3nn's products inside a model for ours, checked on random input. e3nn itself is not needed for that."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import nn

from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.tensor_product import TensorProduct

KINDS = ("FullTensorProduct", "FullyConnectedTensorProduct", "TensorProduct")


@dataclass(frozen=True)
class Replacement:
    """One module that was looked at.

    Attributes
    ----------
    name : str
        Its place in the model.
    kind : str
        e3nn's class.
    replaced : bool
    error : float
        Largest difference of the outputs on random input, relative to the largest output; NaN if not compared.
    reason : str
        Why it was left alone, or empty.
    """

    name: str
    kind: str
    replaced: bool
    error: float
    reason: str = ""


@dataclass(frozen=True)
class ReplaceReport:
    """What `replace_e3nn` did, module by module. A shared module is listed once, under its first name."""

    modules: tuple[Replacement, ...]

    @property
    def replaced(self) -> int:
        """How many modules were swapped."""
        return sum(entry.replaced for entry in self.modules)


def replace_e3nn(model: nn.Module, *, kinds: Sequence[str] = KINDS, verify: bool = True) -> ReplaceReport:
    """Replace e3nn's tensor products in `model`, in place, keeping weights, dtype, device and training mode.

    Parameters
    ----------
    model : Module
        Anything that contains modules of e3nn 0.5 or 0.6. Its own class is never replaced, only its children.
    kinds : sequence of str
        Which classes; subclasses of them that do not change `forward` (such as ElementwiseTensorProduct) count as
        "TensorProduct".
    verify : bool
        Compare old and new on random input of the module's dtype, and keep the old one where they differ by more than
        rounding.

    Returns
    -------
    ReplaceReport

    Raises
    ------
    InvalidInput
        If `model` is no module or a kind is unknown.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput.argument("model", expected="a torch.nn.Module", got=type(model).__name__)
    given: object = kinds
    listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes)) and getattr(given, "ndim", 1) > 0
    kinds = list(kinds) if listed else [""]
    if not all(isinstance(kind, str) and kind in KINDS for kind in kinds):
        raise InvalidInput.argument("kinds", expected=f"some of {KINDS}", got=given)
    made: dict[int, nn.Module | None] = {}
    entries = []
    for parent_name, parent in list(model.named_modules()):
        for child_name, child in list(parent._modules.items()):  # named_children hides a second use of a module
            kind = None if child is None else _kind(child)
            if kind is None or kind not in kinds:
                continue
            if id(child) not in made:
                name = f"{parent_name}.{child_name}" if parent_name else child_name
                new, entry = _converted(name, kind, child, verify=verify)
                made[id(child)] = new
                entries.append(entry)
            found = made[id(child)]
            if found is not None:
                setattr(parent, child_name, found)
    return ReplaceReport(tuple(entries))


def _kind(module: nn.Module) -> str | None:
    """e3nn's class that decides how `module` behaves, or None."""
    names = [c.__name__ for c in type(module).__mro__ if c.__module__.startswith("e3nn.")]
    if "TensorProduct" not in names:
        return None
    return next((kind for kind in KINDS if kind in names), None)


def _converted(name: str, kind: str, old: Any, *, verify: bool) -> tuple[nn.Module | None, Replacement]:
    if getattr(type(old), "forward", None) is not _e3nn_forward(old):
        return None, Replacement(name, kind, False, float("nan"), "its forward is not e3nn's")
    try:
        new = _full(old) if kind == "FullTensorProduct" else _weighted(old)
    except InvalidInput as err:
        return None, Replacement(name, kind, False, float("nan"), str(err))
    new.train(old.training)
    error = _difference(old, new) if verify else float("nan")
    tolerance = 1e-4 if _dtype(old) == torch.float32 else 1e-6  # e3nn's constants may carry single precision
    if verify and not error <= tolerance:
        return None, Replacement(name, kind, False, error, f"outputs differ by {error:.1e}")
    return new, Replacement(name, kind, True, error)


def _e3nn_forward(module: nn.Module) -> Any:
    base = next(c for c in type(module).__mro__ if c.__name__ == "TensorProduct" and c.__module__.startswith("e3nn."))
    return getattr(base, "forward", None)


def _full(old: Any) -> nn.Module:
    """A full product, if the instructions are those of one; a filter shows in what is missing."""
    if any(ins.connection_mode != "uvuv" or ins.has_weight for ins in old.instructions):
        return _weighted(old)
    wanted = sorted({str(term.ir) for term in old.irreps_out})
    for normalization in ("component", "norm", "none"):
        new = FullTensorProduct(old.irreps_in1, old.irreps_in2, wanted, normalization)
        same = str(new.irreps_out) == str(old.irreps_out) and len(new.paths) == len(old.instructions)
        if same and all(
            abs(a - b) < 1e-6 * max(1.0, b) for a, b in zip(_scales(new), [i.path_weight for i in old.instructions])
        ):
            return new.to(device=old.output_mask.device)
    return _weighted(old)


def _scales(new: FullTensorProduct) -> list[float]:
    from cg_tensorproduct.paths import irrep_scale

    return [irrep_scale(p.l1, p.l2, p.l3, new.irrep_normalization) for p in new.paths]


def _weighted(old: Any) -> nn.Module:
    # path_weight of an existing module is the final factor; squared, it passes unchanged through normalisation "none".
    instructions = [
        (i.i_in1, i.i_in2, i.i_out, i.connection_mode, i.has_weight, float(i.path_weight) ** 2)
        for i in old.instructions
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new = TensorProduct(
            Irreps(old.irreps_in1),
            Irreps(old.irreps_in2),
            Irreps(old.irreps_out),
            instructions,
            irrep_normalization="none",
            path_normalization="none",
            internal_weights=old.internal_weights,
            shared_weights=old.shared_weights,
        )
    if old.internal_weights and old.weight_numel > 0:
        new.weight = old.weight  # the same parameter: optimizers that hold it go on working
    new.output_mask = old.output_mask.detach().clone()
    return new


def _dtype(old: Any) -> torch.dtype:
    constants = [t for t in old.state_dict().values() if t.is_floating_point() and t.numel()]
    return constants[0].dtype if constants else torch.get_default_dtype()


def _difference(old: Any, new: nn.Module) -> float:
    generator = torch.Generator().manual_seed(0)
    dtype, device = _dtype(old), old.output_mask.device

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype=dtype, device=device)

    args = [random(5, Irreps(old.irreps_in1).dim), random(5, Irreps(old.irreps_in2).dim)]
    if old.weight_numel and not old.internal_weights:
        args.append(random(old.weight_numel) if old.shared_weights else random(5, old.weight_numel))
    with torch.no_grad():
        expected, found = old(*args), new(*args)
    if expected.numel() == 0:
        return 0.0
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6))
