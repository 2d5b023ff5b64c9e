"""From the name of an algorithm to a plan for one problem, dtype and device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.paths import Problem

HAS_NUMBA = find_spec("numba") is not None  # the extra `cpu`; looked up once, since Dynamo traces what runs in forward
ALGORITHMS = ("dense", "blocked", "signal", "sparse", "kernel")


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
