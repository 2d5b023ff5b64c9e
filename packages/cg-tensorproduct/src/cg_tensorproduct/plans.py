"""From the name of an algorithm to a plan for one problem, dtype and device."""

from __future__ import annotations

import weakref
from importlib.util import find_spec
from itertools import count
from typing import Any

import torch
from lemmata_core import InvalidInput
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from cg_tensorproduct.paths import Problem

HAS_NUMBA = find_spec("numba") is not None  # the extra `cpu`; looked up once, since Dynamo traces what runs in forward
ALGORITHMS = ("dense", "blocked", "signal", "sparse", "kernel")


class PlanStore:
    """The plans of one problem, each built when first asked for.

    The compiler must not trace the building of a plan, only its use: while tracing, the plan is built by a call that
    Dynamo takes for a constant (it names the store by an integer) and read afterwards.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._plans: dict[tuple[str, torch.dtype, torch.device], Any] = {}
        self._register()

    def _register(self) -> None:
        self.handle = next(_HANDLES)
        _STORES[self.handle] = self

    def get(self, algorithm: str, dtype: torch.dtype, device: torch.device) -> Any:
        """The plan, built if need be."""
        if torch.compiler.is_compiling():
            _prepare(self.handle, algorithm, dtype, device)
            return self._plans[algorithm, dtype, device]
        plan = self._plans.get((algorithm, dtype, device))
        return plan if plan is not None else self.build(algorithm, dtype, device)

    def build(self, algorithm: str, dtype: torch.dtype, device: torch.device) -> Any:
        """Build and keep the plan, unless it is there."""
        key = algorithm, dtype, device
        if key not in self._plans:
            # A plan outlives the call that happens to build it: its tensors must belong to no transform and no
            # inference mode.
            with torch.inference_mode(False), torch.no_grad(), temporarily_clear_interpreter_stack():
                self._plans[key] = build_plan(algorithm, self.problem, dtype, device)
        return self._plans[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> PlanStore:
        return self  # plans are never changed, so copies of a module share them

    def __getstate__(self) -> dict[str, Any]:
        return {"problem": self.problem}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.problem, self._plans = state["problem"], {}
        self._register()


_STORES: weakref.WeakValueDictionary[int, PlanStore] = weakref.WeakValueDictionary()
_HANDLES = count()


@torch.compiler.assume_constant_result
def _prepare(handle: int, algorithm: str, dtype: torch.dtype, device: torch.device) -> bool:
    _STORES[handle].build(algorithm, dtype, device)
    return True


def build_plan(algorithm: str, problem: Problem, dtype: torch.dtype, device: torch.device) -> Any:
    """Prepare index maps and coefficients.

    Raises
    ------
    InvalidInput
        If the algorithm does not run there: "kernel" needs numba and the CPU, "dense" a matrix of moderate size.
    """
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    if algorithm == "dense":
        from cg_tensorproduct.plan_dense import DensePlan

        return DensePlan(problem, dtype, device)
    if algorithm == "blocked":
        from cg_tensorproduct.plan_blocked import BlockedPlan

        return BlockedPlan(problem, dtype, device)
    if algorithm == "sparse":
        from cg_tensorproduct.plan_sparse import SparsePlan

        return SparsePlan(problem, dtype, device)
    if algorithm == "signal":
        from cg_tensorproduct.plan_signal import SignalPlan

        return SignalPlan(problem, dtype, device)
    if not HAS_NUMBA:
        expected = "an algorithm other than 'kernel', or the extra: pip install 'cg-tensorproduct[cpu]'"
        raise InvalidInput.argument("algorithm", expected=expected, got="'kernel' without numba")
    if device.type != "cpu":
        raise InvalidInput.argument("algorithm", expected=f"'dense' or 'blocked' on {device}", got="'kernel'")
    from cg_tensorproduct.plan_kernel import KernelPlan

    return KernelPlan(problem, dtype)
