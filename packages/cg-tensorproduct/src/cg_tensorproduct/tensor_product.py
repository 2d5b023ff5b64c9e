"""Weighted tensor products with e3nn's instructions, weights and normalisation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha1
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch import nn

from cg_tensorproduct import inputs, weighted
from cg_tensorproduct.full import drop_generated_code
from cg_tensorproduct.instructions import (
    Instruction,
    elementwise,
    fully_connected,
    normalised_instructions,
    occupied_terms,
)
from cg_tensorproduct.irreps import occupied_irreps
from cg_tensorproduct.paths import LAYOUTS, check_choice
from cg_tensorproduct.plans import HAS_NUMBA
from cg_tensorproduct.store import Store
from cg_tensorproduct.tables import Tables
from cg_tensorproduct.tuning import Tunable, measurement, tune_once, tuning_state

Tensor = torch.Tensor


class TensorProduct(nn.Module):
    """A tensor product with given paths and weights, as `e3nn.o3.TensorProduct`.

    Parameters
    ----------
    irreps_in1, irreps_in2, irreps_out : Irreps, str, or anything whose str parses
    instructions : list of tuple
        ``(i_in1, i_in2, i_out, mode, has_weight[, path_weight])``; modes uvw, uvu, uvv, uuw, uuu, uvuv, uvu<v, u<vw.
    in1_var, in2_var, out_var : sequence of float, optional
        Variance of each term, for the normalisation.
    irrep_normalization : {"component", "norm", "none"}, optional
    path_normalization : {"element", "path", "none"}, optional
    internal_weights : bool, optional
        Whether the module owns its weights; by default if they are shared and there are any.
    shared_weights : bool, optional
        Whether one set of weights serves all samples (default) or each sample brings its own.
    algorithm : {"auto", "torch", "kernel"}
        "kernel" runs modes uvu and uuu natively on the CPU (extra `cpu`), "torch" runs matrix products everywhere; the
        other modes are matrix products in either case. "auto" is "kernel" where there is one, unless `autotune` has
        found "torch" faster.
    layout : {"mul_ir", "ir_mul"}
    dtype, device : optional
        Of the internal weights.
    inference : bool
        As in `FullTensorProduct`.
    validate : bool
        Raise on NaN or infinite input.

    Attributes
    ----------
    instructions : list of Instruction
        Path weights include the normalisation.
    weight : Parameter [weight_numel], or an empty buffer
        In e3nn's flat order, so a state_dict loads from there.
    weight_numel : int

    Raises
    ------
    InvalidInput
        If irreps do not parse or are empty, or an instruction is impossible.
    """

    def __init__(
        self,
        irreps_in1: object,
        irreps_in2: object,
        irreps_out: object,
        instructions: Iterable[Sequence[object]],
        in1_var: Sequence[float] | None = None,
        in2_var: Sequence[float] | None = None,
        out_var: Sequence[float] | None = None,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        *,
        algorithm: str = "auto",
        layout: str = "mul_ir",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        inference: bool = False,
        validate: bool = False,
    ) -> None:
        super().__init__()
        dtype, device = inputs.check_options(dtype, device)
        terms = occupied_terms(irreps_in1, irreps_in2, irreps_out)
        self.irreps_in1, self.irreps_in2, self.irreps_out = terms
        self.instructions: list[Instruction] = normalised_instructions(
            terms, instructions, (in1_var, in2_var, out_var), irrep_normalization, path_normalization
        )
        self.algorithm = check_choice("algorithm", algorithm, ("auto", "torch", "kernel"))
        self.layout = check_choice("layout", layout, LAYOUTS)
        self.inference, self.validate = inference, validate
        self.weight_numel = sum(ins.numel for ins in self.instructions)
        self._make_weight(internal_weights, shared_weights, dtype, device)
        self.register_buffer("output_mask", self._mask().to(device=device))
        self._register_load_state_dict_pre_hook(drop_generated_code)
        self._dims = tuple(term.dim for term in terms)
        self._store = Store(Tables, (terms, tuple(self.instructions), self.layout))
        self._native = any(ins.connection_mode in ("uvu", "uuu") for ins in self.instructions)
        digest = sha1(repr((terms, self.instructions, self.shared_weights, layout)).encode(), usedforsecurity=False)
        self._key = f"weighted-{digest.hexdigest()[:16]}"
        self._chosen: dict[tuple[int, torch.dtype, torch.device, bool], tuple[str, int]] = {}
        if self.algorithm == "kernel":
            self._store.get("kernel", dtype or torch.get_default_dtype(), device or torch.device("cpu"))

    def _make_weight(
        self,
        internal_weights: bool | None,
        shared_weights: bool | None,
        dtype: torch.dtype | None,
        device: torch.device | None,
    ) -> None:
        """Decide whose the weights are, as e3nn does, and draw them where they are the module's own."""
        self.shared_weights = True if shared_weights is None else shared_weights
        if internal_weights is None:
            internal_weights = self.shared_weights and any(ins.has_weight for ins in self.instructions)
        self.internal_weights = internal_weights
        if self.internal_weights and not self.shared_weights:
            raise InvalidInput.argument("internal_weights", expected="False where weights are not shared", got=True)
        if self.internal_weights and self.weight_numel > 0:
            self.weight = nn.Parameter(torch.randn(self.weight_numel, dtype=dtype, device=device))
        else:
            self.register_buffer("weight", torch.zeros(0, dtype=dtype, device=device))

    def forward(self, x1: Tensor, x2: Tensor, weight: Tensor | list[Tensor] | None = None) -> Tensor:
        """The product of two batches of features.

        Parameters
        ----------
        x1 : Tensor [..., irreps_in1.dim]
        x2 : Tensor [..., irreps_in2.dim]
            Same dtype and device; the batch axes broadcast. Half precision computes in float32.
        weight : Tensor [weight_numel] or [..., weight_numel], or a list of views, optional
            Needed unless the module owns its weights; one set, or one a sample if ``shared_weights=False``. The
            module's own weights are cast to the inputs' dtype, those given must have it.

        Returns
        -------
        Tensor [..., irreps_out.dim]
            Terms that no path reaches are zero.

        Raises
        ------
        InvalidInput
            If a last axis, dtype, device, batch or weight shape does not fit.
        """
        dim1, dim2, dim_out = self._dims
        inputs.check_last_axis("x1", x1, "irreps_in1", self.irreps_in1, dim1)
        inputs.check_last_axis("x2", x2, "irreps_in2", self.irreps_in2, dim2)
        inputs.check_same("x1", x1, "x2", x2)
        if self.validate:
            inputs.check_finite("x1", x1)
            inputs.check_finite("x2", x2)
        w = self._weight(weight, x1, x2)
        x1, x2 = inputs.broadcast("x1", x1, "x2", x2)
        if not self.shared_weights:
            x1, w = inputs.broadcast("x1", x1, "weight", w)
            x1, x2 = inputs.broadcast("x1", x1, "x2", x2)
        batch = x1.shape[:-1]
        rows = batch.numel()
        work, out = inputs.working_dtype(x1, x2)
        x1, x2, w = x1.reshape(rows, dim1).to(work), x2.reshape(rows, dim2).to(work), w.to(work)
        w = w.reshape(-1) if self.shared_weights else w.reshape(rows, self.weight_numel)
        tables = self._store.get(self._choice(x1, x2, w), work, x1.device)
        z = inputs.in_full_precision(x1, lambda: tables.product(x1, x2, w, inference=self.inference))
        return z.to(out).view(*batch, dim_out)

    def choice(self, batch: int, dtype: torch.dtype, device: torch.device, *, gradients: bool = False) -> str:
        """What runs: "kernel" or "torch"."""
        if self.algorithm != "auto":
            return self.algorithm
        if not (self._native and HAS_NUMBA and device.type == "cpu"):
            return "torch"
        if torch.compiler.is_compiling():
            return "kernel"  # its tables fall back on matrix products where a graph needs them
        return measurement(self._key, batch, dtype, device, backward=gradients) or "kernel"

    def _choice(self, x1: Tensor, x2: Tensor, w: Tensor) -> str:
        if self.algorithm != "auto" or not self._native or torch.compiler.is_compiling():
            return self.choice(x1.shape[0], x1.dtype, x1.device)
        gradients = torch.is_grad_enabled() and (x1.requires_grad or x2.requires_grad or w.requires_grad)
        key = x1.shape[0], x1.dtype, x1.device, gradients
        chosen = self._chosen.get(key)
        if chosen is None or chosen[1] != tuning_state():
            if HAS_NUMBA and x1.device.type == "cpu":
                tune_once(self, self._key, *key[:3], backward=gradients)
            chosen = self._chosen[key] = self.choice(*key[:3], gradients=gradients), tuning_state()
        return chosen[0]

    def _tunable(self, batch: int, dtype: torch.dtype, device: torch.device) -> Tunable:
        def run(name: str, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
            weights = w if not self.shared_weights else w.reshape(-1)
            found: Tensor = self._store.get(name, dtype, device).product(x, y, weights, inference=self.inference)
            return found

        native = self._native and HAS_NUMBA and device.type == "cpu"
        expected = {"kernel": 1.0, "torch": 2.0} if native else {"torch": 1.0}
        weights = (1 if self.shared_weights else batch), self.weight_numel
        return Tunable(self._key, expected, ((batch, self._dims[0]), (batch, self._dims[1]), weights), run)

    def multiply_adds(self, ins: Instruction) -> int:
        """Multiply-adds of one instruction and sample."""
        terms = self.irreps_in1, self.irreps_in2, self.irreps_out
        sizes = [(term[i].mul, term[i].ir.dim) for term, i in zip(terms, ins.terms)]
        return weighted.multiply_adds(ins.connection_mode, *sizes)

    def _weight(self, weight: Tensor | list[Tensor] | None, x1: Tensor, x2: Tensor) -> Tensor:
        if weight is None:
            if self.weight_numel > 0 and not self.internal_weights:
                got = "nothing, and the module has no internal weights"
                raise InvalidInput.argument("weight", expected=f"{self.weight_numel} weights", got=got)
            if not self.shared_weights:
                return x1.new_zeros(*x1.shape[:-1], 0)
            if self.weight.device != x1.device and self.weight_numel:
                expected = f"a tensor on {self.weight.device}, where the weights are"
                raise InvalidInput.argument("x1", expected=expected, got=str(x1.device))
            return self.weight
        if isinstance(weight, (list, tuple)):
            weight = self._joined(weight)
        inputs.check_tensor("weight", weight)
        one_sample = x1.dim() == x2.dim() == 1  # as under vmap: then one set is a set for each sample
        fits = weight.dim() == 1 if self.shared_weights else weight.dim() > 1 or one_sample
        if weight.shape[-1:] != (self.weight_numel,) or not fits:
            shape = f"({self.weight_numel},)" if self.shared_weights else f"(..., {self.weight_numel})"
            raise InvalidInput.argument("weight", expected=f"shape {shape}", got=f"shape {tuple(weight.shape)}")
        inputs.check_same("x1", x1, "weight", weight)
        return weight

    def _joined(self, weights: Sequence[Tensor]) -> Tensor:
        """Weights that come as a list of views, flat."""
        shapes = [ins.path_shape for ins in self.instructions if ins.has_weight]
        expected = f"{len(shapes)} tensors of shapes [...] + {shapes}"
        if len(weights) != len(shapes):
            raise InvalidInput.argument("weight", expected=expected, got=f"{len(weights)} tensors")
        for w, shape in zip(weights, shapes):
            inputs.check_tensor("weight", w)
            batch = weights[0].shape[: weights[0].dim() - len(shapes[0])]
            if w.shape != (*batch, *shape):
                got = str([tuple(other.shape) for other in weights])
                raise InvalidInput.argument("weight", expected=expected, got=got)
        if not weights:
            return self.weight
        return torch.cat([w.flatten(-len(shape)) for w, shape in zip(weights, shapes)], -1)

    def _mask(self) -> Tensor:
        reached = {ins.i_out for ins in self.instructions if ins.path_weight != 0 and 0 not in ins.path_shape}
        return torch.cat([torch.full((term.dim,), float(i in reached)) for i, term in enumerate(self.irreps_out)])

    def weight_view_for_instruction(self, instruction: int, weight: Tensor | None = None) -> Tensor:
        """The weights of one instruction, as a view of shape [..., *path_shape]."""
        for index, _, view in self.weight_views(weight, yield_instruction=True):
            if index == instruction:
                return view
        raise InvalidInput.argument("instruction", expected="an instruction that has weights", got=instruction)

    def weight_views(self, weight: Tensor | None = None, yield_instruction: bool = False) -> Iterator[Any]:
        """Views of the weights, one for each weighted instruction; with its position and itself if asked for."""
        flat = self.weight if weight is None else weight
        offset = 0
        for index, ins in enumerate(self.instructions):
            if ins.has_weight:
                view = flat.narrow(-1, offset, ins.numel).view(*flat.shape[:-1], *ins.path_shape)
                offset += ins.numel
                yield (index, ins, view) if yield_instruction else view

    def extra_repr(self) -> str:
        """Irreps, paths and weights."""
        spec = f"{self.irreps_in1.simplify()} x {self.irreps_in2.simplify()} -> {self.irreps_out.simplify()}"
        return f"{spec} | {len(self.instructions)} paths | {self.weight_numel} weights"


class FullyConnectedTensorProduct(TensorProduct):
    """Every path into every output term, with weights between all copies, as `e3nn.o3.FullyConnectedTensorProduct`.

    Parameters
    ----------
    irreps_in1, irreps_in2, irreps_out : Irreps, str, or anything whose str parses
        An output that no path reaches is zero; a warning says so.
    irrep_normalization, path_normalization : str, optional
        As in `TensorProduct`.
    **options
        Keyword arguments of `TensorProduct`: internal_weights, shared_weights, algorithm, layout, dtype, device, ...
    """

    def __init__(
        self,
        irreps_in1: object,
        irreps_in2: object,
        irreps_out: object,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        **options: Any,
    ) -> None:
        terms = occupied_terms(irreps_in1, irreps_in2, irreps_out)
        instructions = fully_connected(*terms)
        reached = {entry[2] for entry in instructions}
        missed = [str(term) for k, term in enumerate(terms[2]) if k not in reached and term.mul > 0]
        if missed:
            warnings.warn(f"irreps_out: no path reaches {', '.join(missed)}; it stays zero", stacklevel=2)
        super().__init__(
            *terms,
            instructions,
            irrep_normalization=irrep_normalization,
            path_normalization=path_normalization,
            **options,
        )


class ElementwiseTensorProduct(TensorProduct):
    """Copies paired one by one, every path of each pair, no weights, as `e3nn.o3.ElementwiseTensorProduct`.

    Parameters
    ----------
    irreps_in1, irreps_in2 : Irreps, str, or anything whose str parses
        With equally many irreps.
    filter_ir_out : list of irreps, optional
    irrep_normalization : {"component", "norm", "none"}, optional
    **options
        Keyword arguments of `TensorProduct`.
    """

    def __init__(
        self,
        irreps_in1: object,
        irreps_in2: object,
        filter_ir_out: Iterable[object] | None = None,
        irrep_normalization: str | None = "component",
        **options: Any,
    ) -> None:
        in1 = occupied_irreps("irreps_in1", irreps_in1).simplify()
        in2 = occupied_irreps("irreps_in2", irreps_in2).simplify()
        if in1.num_irreps != in2.num_irreps:
            expected = f"as many irreps as irreps_in1 ({in1.num_irreps})"
            raise InvalidInput.argument("irreps_in2", expected=expected, got=f"{in2.num_irreps} in {in2}")
        first, second, out, instructions = elementwise(in1, in2, filter_ir_out)
        super().__init__(first, second, out, instructions, irrep_normalization=irrep_normalization, **options)
