"""The full tensor product: every path between two sums of irreps, each on its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from torch import nn

from cg_tensorproduct import inputs, ops
from cg_tensorproduct.costs import Costs, modelled
from cg_tensorproduct.coupling import clebsch_gordan
from cg_tensorproduct.instructions import Instruction
from cg_tensorproduct.paths import LAYOUTS, check_choice, full_paths, irrep_scale
from cg_tensorproduct.plans import ALGORITHMS, build_plan
from cg_tensorproduct.store import Store
from cg_tensorproduct.tuning import COMPILED_BATCH, Tunable, pick, tune_once, tuning_state

Tensor = torch.Tensor


class FullTensorProduct(nn.Module):
    """All paths of a tensor product, output ordered as `e3nn.o3.FullTensorProduct` orders it.

    ``z[l3] = scale * sum w3j(l1, l2, l3)[m1, m2, :] x[m1] y[m2]`` for every path and every pair of copies.

    Parameters
    ----------
    irreps_in1, irreps_in2 : Irreps, str, or anything whose str parses
    filter_ir_out : list of irreps, optional
        Keep only the paths into these.
    irrep_normalization : {"component", "norm", "none"}
        Scale ``sqrt(2 l3 + 1)``, ``sqrt((2 l1 + 1)(2 l2 + 1))`` or 1.
    algorithm : {"auto", "dense", "blocked", "signal", "sparse", "kernel"}
        How to compute; the results agree to rounding. "auto" picks by a cost model, see `choose_algorithm`. "kernel"
        needs the extra `cpu`; where a compiled graph could get its derivatives wrong, "dense" or "blocked" stand in for
        it.
    layout : {"mul_ir", "ir_mul"}
        Whether a term of multiplicity n stands copy by copy (e3nn) or component by component.
    dtype, device : optional
        What to prepare for at construction; other floating dtypes and devices are prepared at their first use.
    inference : bool
        Promise that nothing is differentiated twice through `torch.compile`; then a compiled graph uses the native
        kernel also where an input requires grad.
    deterministic : bool
        Keep to the model's choice, whatever `autotune` has measured.
    validate : bool
        Raise on NaN or infinite input (costs a synchronisation of the device).
    allow_tf32 : bool or None
        Whether matrix products of float32 may be computed in TF32 or less, outside of compiled regions: never by
        default, whatever `torch.set_float32_matmul_precision` says; None follows torch.

    Attributes
    ----------
    irreps_in1, irreps_in2, irreps_out : Irreps
        Inputs simplified (neighbours of one irrep merged), output sorted by degree, odd before even, not merged.
    paths : list of Path
    weight_numel, internal_weights, shared_weights
        0, False and True, for code that asks a product of e3nn for them.

    Raises
    ------
    InvalidInput
        If irreps do not parse or are empty, an option is unknown, or the filter names nothing or an irrep that no path
        reaches.
    """

    weight_numel, internal_weights, shared_weights = 0, False, True

    def __init__(
        self,
        irreps_in1: object,
        irreps_in2: object,
        filter_ir_out: Iterable[object] | None = None,
        irrep_normalization: str | None = "component",
        *,
        algorithm: str = "auto",
        layout: str = "mul_ir",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        inference: bool = False,
        deterministic: bool = False,
        validate: bool = False,
        allow_tf32: bool | None = False,
    ) -> None:
        super().__init__()
        dtype, device = inputs.check_options(dtype, device)
        found = full_paths(irreps_in1, irreps_in2, filter_ir_out, irrep_normalization)
        self.irreps_in1, self.irreps_in2, self.irreps_out = found.irreps_in1, found.irreps_in2, found.irreps_out
        self.paths = found.paths
        self.irrep_normalization = found.normalization
        self.algorithm = check_choice("algorithm", algorithm, ("auto", *ALGORITHMS))
        self.layout = check_choice("layout", layout, LAYOUTS)
        self.inference, self.deterministic, self.validate = inference, deterministic, validate
        self._filtered = filter_ir_out is not None
        if allow_tf32 not in (True, False, None):
            raise InvalidInput.argument("allow_tf32", expected="True, False or None", got=repr(allow_tf32))
        self._problem = found.problem(layout, allow_tf32)
        self._dims = self._problem.dim1, self._problem.dim2, self._problem.dim_out
        self._costs = Costs.of(self._problem)
        self._store = Store(build_plan, self._problem)
        self._chosen: dict[tuple[int, torch.dtype, torch.device, bool], tuple[str, int]] = {}
        # e3nn's class registers both, so its state_dict loads here and ours there.
        self.register_buffer("weight", torch.zeros(0))
        self.register_buffer("output_mask", torch.ones(self.irreps_out.dim))
        self._register_load_state_dict_pre_hook(drop_generated_code)
        if algorithm != "auto":
            self._store.get(algorithm, dtype or torch.get_default_dtype(), device or torch.device("cpu"))

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The product of two batches of features.

        Parameters
        ----------
        x1 : Tensor [..., irreps_in1.dim]
        x2 : Tensor [..., irreps_in2.dim]
            Same dtype and device; the batch axes broadcast. Half precision computes in float32.

        Returns
        -------
        Tensor [..., irreps_out.dim]

        Raises
        ------
        InvalidInput
            If a last axis, dtype, device or batch shape does not fit.
        """
        # Small products cost less than their checks would, so the ordinary case (two matrices that fit) passes at once.
        tensors = isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.layout == x2.layout == torch.strided
        plain = tensors and x1.dim() == 2 == x2.dim() and x1.shape[0] == x2.shape[0]
        fits = plain and (x1.shape[1], x2.shape[1]) == self._dims[:2] and x1.device == x2.device
        if fits and x1.dtype == x2.dtype == torch.float32 and not self.validate and not inputs.autocast_enabled(x1):
            return self._rows(x1, x2)
        return self._general(x1, x2)

    def _general(self, x1: Tensor, x2: Tensor) -> Tensor:
        dim1, dim2, dim_out = self._dims
        inputs.check_last_axis("x1", x1, "irreps_in1", self.irreps_in1, dim1)
        inputs.check_last_axis("x2", x2, "irreps_in2", self.irreps_in2, dim2)
        inputs.check_same("x1", x1, "x2", x2)
        if self.validate:
            inputs.check_finite("x1", x1)
            inputs.check_finite("x2", x2)
        x1, x2 = inputs.broadcast("x1", x1, "x2", x2)
        batch = x1.shape[:-1]
        work, out = inputs.working_dtype(x1, x2)
        rows1, rows2 = x1.reshape(batch.numel(), dim1).to(work), x2.reshape(batch.numel(), dim2).to(work)
        z = inputs.in_full_precision(x1, lambda: self._rows(rows1, rows2))
        return z.to(out).view(*batch, dim_out)

    def _rows(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ops.product(self._store.get(self._choice(x1, x2), x1.dtype, x1.device), x1, x2)

    @property
    def instructions(self) -> list[Instruction]:
        """The paths as e3nn lists them: mode uvuv without weights."""
        return [
            Instruction(
                *path[:3],
                "uvuv",
                False,
                irrep_scale(path.l1, path.l2, path.l3, self.irrep_normalization),
                (self.irreps_in1[path.i1].mul, self.irreps_in2[path.i2].mul),
            )
            for path in self.paths
        ]

    def inverse(self, z: Tensor) -> Tensor:
        """From the coupled basis back to the product basis: ``inverse(forward(x, y))`` is the outer product of x and y.

        Parameters
        ----------
        z : Tensor [..., irreps_out.dim]

        Returns
        -------
        Tensor [..., irreps_in1.dim, irreps_in2.dim]
            With a filter, the projection on the paths that are kept.
        """
        inputs.check_last_axis("z", z, "irreps_out", self.irreps_out, self._dims[2])
        work = torch.float32 if z.dtype in (torch.float16, torch.bfloat16) else z.dtype
        basis = self._basis(adjoint=True).to(device=z.device, dtype=work)
        return inputs.in_full_precision(z, lambda: torch.tensordot(z.to(work), basis, dims=1)).to(z.dtype)

    def change_of_basis(self) -> Tensor:
        """The tensor Q [irreps_out.dim, irreps_in1.dim, irreps_in2.dim] of ``z = Q (x, y)``, float64."""
        return self._basis(adjoint=False)

    def _basis(self, *, adjoint: bool) -> Tensor:
        dim1, dim2, dim_out = self._dims
        basis = np.zeros((dim_out, dim1, dim2))
        for pair in self._problem.pairs:
            for l3, scale, out in zip(pair.l3, pair.scale, pair.out):
                factor = scale / np.sqrt(2 * l3 + 1)
                w = clebsch_gordan(pair.l1, pair.l2, l3).transpose(2, 0, 1) * (1 / factor if adjoint else factor)
                for copy, columns in enumerate(out):
                    u, v = divmod(copy, len(pair.rows2))
                    basis[np.ix_(columns, pair.rows1[u], pair.rows2[v])] = w
        return torch.as_tensor(basis)

    def _choice(self, x: Tensor, y: Tensor) -> str:
        native = ops.native_allowed(x, y, inference=self.inference)
        if self.algorithm != "auto" and (native or self.algorithm != "kernel"):
            return self.algorithm
        if torch.compiler.is_compiling():
            return pick(self._costs, COMPILED_BATCH, x.dtype, x.device, native=native, measured=False)
        gradients = torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
        key = x.shape[0], x.dtype, x.device, gradients
        chosen = self._chosen.get(key)
        if chosen is None or chosen[1] != tuning_state():
            if not self.deterministic:
                tune_once(self, self._costs.key, *key[:3], backward=gradients)
            measured = not self.deterministic
            name = pick(self._costs, *key[:3], native=True, measured=measured, backward=gradients)
            chosen = self._chosen[key] = name, tuning_state()
        return chosen[0]

    def _tunable(self, batch: int, dtype: torch.dtype, device: torch.device) -> Tunable:
        def run(name: str, x: Tensor, y: Tensor) -> Tensor:
            return ops.product(self._store.get(name, dtype, device), x, y)

        shapes = (batch, self._dims[0]), (batch, self._dims[1])
        return Tunable(self._costs.key, modelled(self._costs, batch, dtype, device), shapes, run)

    def extra_repr(self) -> str:
        """Irreps, number of paths and algorithm."""
        return (
            f"{self.irreps_in1} x {self.irreps_in2} -> {self.irreps_out} | {len(self.paths)} paths | {self.algorithm}"
        )


def drop_generated_code(state: dict[str, Any], prefix: str, *_: object) -> None:
    """Forget the constants of e3nn's generated code, which its state_dict may carry."""
    for key in [k for k in state if k.startswith(f"{prefix}_compiled_main")]:
        del state[key]
