"""Which algorithm: a cost model first, measurement where asked for."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.paths import Problem
from cg_tensorproduct.plans import HAS_NUMBA

if TYPE_CHECKING:
    from cg_tensorproduct.full import FullTensorProduct

LARGEST_MATRIX = 1 << 22  # above this the dense algorithm's matrix leaves the cache and never wins
BUDGET_SECONDS = 0.05


@dataclass(frozen=True)
class Costs:
    """What the algorithms have to do for one sample.

    Attributes
    ----------
    dense, blocked : int
        Multiply-adds.
    outputs : int
        Numbers written.
    launches : int
        Matrix products of the blocked algorithm.
    couples : int
        Pairs of input copies.
    outer : int
        Numbers in the outer product.
    """

    dense: int
    blocked: int
    outputs: int
    launches: int
    couples: int
    outer: int

    @property
    def matrix(self) -> int:
        """Entries of the dense algorithm's matrix."""
        return self.dense

    @property
    def key(self) -> str:
        """Names the problem in the cache of measurements."""
        return f"{self.dense}-{self.blocked}-{self.outputs}-{self.launches}-{self.couples}"

    @classmethod
    def of(cls, problem: Problem) -> Costs:
        """Count for `problem`."""
        blocked, couples, shapes = 0, 0, set()
        for pair in problem.pairs:
            copies = len(pair.rows1) * len(pair.rows2)
            couples += copies
            for M in range(max(pair.l3) + 1):
                n = min(pair.l1, M + pair.l2) - max(-pair.l1, M - pair.l2) + 1
                rows = sum(l3 >= M for l3 in pair.l3)
                blocked += n * rows * copies
                shapes.add((n, rows, copies))
        outer = problem.dim1 * problem.dim2
        return cls(outer * problem.dim_out, blocked, problem.dim_out, len(shapes), couples, outer)


def pick(costs: Costs, batch: int, dtype: torch.dtype, device: torch.device, *, native: bool, measured: bool) -> str:
    """The algorithm with the least modelled time, unless a measurement says otherwise.

    Parameters
    ----------
    costs : Costs
    batch : int
    dtype, device
        Where it runs.
    native : bool
        Whether a plan may hide its arithmetic from torch.
    measured : bool
        Whether measurements kept by `autotune` may overrule the model.
    """
    if measured and not torch.compiler.is_compiling():
        found = _measured().get(_key(costs, batch, dtype, device))
        if found is not None and (native or found != "kernel"):
            return found
    seconds = modelled(costs, batch, dtype, device)
    if not native:
        seconds.pop("kernel", None)
    return min(seconds, key=lambda name: seconds[name])


def modelled(costs: Costs, batch: int, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """Seconds that each algorithm is expected to take on one core (or one GPU), from constants measured on an x86
    core.
    """
    if device.type != "cpu":
        # Launches decide on a GPU as long as the matrix is small; untested there, so the margins are wide.
        dense = 2e-5 + batch * costs.dense / 1e13 + costs.matrix / 1e11
        return {"dense": dense, "blocked": 1e-4 + costs.launches * 1e-5 + batch * costs.blocked / 1e11}
    width = 2.0 if dtype == torch.float64 else 1.0
    tiles = -(-batch // 16) * 16
    blocked = costs.blocked * 2e-10 + costs.outputs * 3e-9
    seconds = {
        "dense": 7e-6 + width * (batch * (costs.dense / 4.5e10 + costs.outer * 1e-9) + costs.matrix * 1e-10),
        "blocked": 5e-5 + costs.launches * 2e-6 + width * batch * blocked,
    }
    if HAS_NUMBA:
        kernel = costs.blocked * 1e-10 + costs.outputs * 8e-10 + costs.couples * 1.5e-8
        seconds["kernel"] = 7e-6 + width * tiles * kernel
    if costs.matrix > LARGEST_MATRIX:
        seconds.pop("dense")
    return seconds


def choose_algorithm(
    plan: FullTensorProduct | Problem,
    batch: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> str:
    """What ``algorithm="auto"`` would run.

    Parameters
    ----------
    plan : FullTensorProduct or Problem
    batch : int
        Rows.
    device, dtype
        Of the inputs.

    Returns
    -------
    str
        "dense", "blocked" or "kernel".
    """
    if not isinstance(batch, int) or batch < 0:
        raise InvalidInput.argument("batch", expected="an integer >= 0", got=batch)
    costs = Costs.of(plan) if isinstance(plan, Problem) else plan._costs
    return pick(costs, batch, dtype, torch.device(device), native=True, measured=True)


@dataclass(frozen=True)
class AutotuneReport:
    """Times of the candidates.

    Attributes
    ----------
    choice : str
        The fastest.
    seconds : dict of str to float
        Median of a call, by algorithm.
    modelled : str
        What the cost model alone would have chosen.
    batch : int
        The power of two that the measurement stands for.
    cached : bool
        Whether it was written to the cache.
    """

    choice: str
    seconds: dict[str, float]
    modelled: str
    batch: int
    cached: bool


def autotune(
    module: FullTensorProduct,
    batch: int,
    *,
    backward: bool = True,
    cache: bool = True,
    dtype: torch.dtype | None = None,
) -> AutotuneReport:
    """Time the likely algorithms of a full product and let "auto" use the fastest from now on.

    Parameters
    ----------
    module : FullTensorProduct
    batch : int
        Measured at the power of two at or above it; the result holds for that bucket.
    backward : bool
        Time forward and backward together.
    cache : bool
        Keep the result for later processes (a JSON file in the platform's cache directory).
    dtype : optional
        float32 if left out.

    Returns
    -------
    AutotuneReport
    """
    from cg_tensorproduct.full import FullTensorProduct

    if not isinstance(module, FullTensorProduct):
        raise InvalidInput.argument("module", expected="a FullTensorProduct", got=type(module).__name__)
    if not isinstance(batch, int) or batch < 1:
        raise InvalidInput.argument("batch", expected="an integer >= 1", got=batch)
    dtype = dtype or torch.float32
    device = module.get_buffer("output_mask").device
    costs, bucket = module._costs, _bucket(batch)
    expected = modelled(costs, bucket, dtype, device)
    order = sorted(expected, key=lambda name: expected[name])[:3]
    seconds = {name: _time(module, name, bucket, dtype, device, backward=backward) for name in order}
    choice = min(seconds, key=lambda name: seconds[name])
    _measured()[_key(costs, bucket, dtype, device)] = choice
    return AutotuneReport(choice, seconds, order[0], bucket, cache and _save())


def _time(
    module: FullTensorProduct, name: str, batch: int, dtype: torch.dtype, device: torch.device, *, backward: bool
) -> float:
    from cg_tensorproduct import ops

    plan = module._store.get(name, dtype, device)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(batch, d, generator=generator).to(device=device, dtype=dtype) for d in (plan.dim1, plan.dim2))
    if backward:
        x.requires_grad_()
        y.requires_grad_()
    times: list[float] = []
    for repeat in range(50):
        start = time.perf_counter()
        z = ops.product(plan, x, y)
        if backward:
            torch.autograd.grad(z, (x, y), torch.ones_like(z))
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if repeat:
            times.append(time.perf_counter() - start)
        if sum(times) > BUDGET_SECONDS and len(times) >= 3:
            break
    return sorted(times)[len(times) // 2]


def explain(module: Any, batch: int = 64) -> str:
    """Which paths a full product has, what the algorithms cost, and which one runs.

    Parameters
    ----------
    module : FullTensorProduct
    batch : int
        Rows to cost it for.

    Returns
    -------
    str
        A few lines of text.
    """
    from cg_tensorproduct.full import FullTensorProduct

    if not isinstance(module, FullTensorProduct):
        raise InvalidInput.argument("module", expected="a FullTensorProduct", got=type(module).__name__)
    costs, device = module._costs, module.get_buffer("output_mask").device
    seconds = modelled(costs, batch, torch.float32, device)
    choice = module.algorithm
    if choice == "auto":
        choice = pick(costs, batch, torch.float32, device, native=True, measured=not module.deterministic)
    odd = sum((p.l1 + p.l2 + p.l3) % 2 for p in module.paths)
    lines = [
        f"{module.irreps_in1} x {module.irreps_in2} -> {module.irreps_out.regroup()}",
        f"{len(module.paths)} paths ({odd} antisymmetric), {costs.outputs} outputs a sample",
        f"multiply-adds a sample: dense {costs.dense}, blocked {costs.blocked}",
        f"bytes written a sample: {4 * costs.outputs} in float32",
        f"modelled at batch {batch}: " + ", ".join(f"{name} {s * 1e3:.3g} ms" for name, s in sorted(seconds.items())),
        f"runs: {choice}"
        + (
            f" (asked for; the model says {min(seconds, key=lambda n: seconds[n])})"
            if module.algorithm != "auto"
            else " (least modelled or measured time)"
        ),
    ]
    if not HAS_NUMBA:
        lines.append("the native kernel needs the extra: pip install 'cg-tensorproduct[cpu]'")
    return "\n".join(lines)


def _bucket(batch: int) -> int:
    return 1 << max(0, batch - 1).bit_length()


def _key(costs: Costs, batch: int, dtype: torch.dtype, device: torch.device) -> str:
    return f"{costs.key}|{_bucket(batch)}|{dtype}|{device.type}|{torch.get_num_threads()}"


def cache_path() -> Path:
    """The file that keeps measurements, one for each version of torch and processor."""
    if os.environ.get("CG_TENSORPRODUCT_CACHE"):
        base = Path(os.environ["CG_TENSORPRODUCT_CACHE"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "cg-tensorproduct"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "cg-tensorproduct"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "cg-tensorproduct"
    machine = "".join(c if c.isalnum() else "-" for c in f"{platform.machine()}-{platform.processor()}")
    return base / f"autotune-{torch.__version__}-{machine}.json"


def _load() -> dict[str, str]:
    path = cache_path()
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not all(v in ("dense", "blocked", "kernel") for v in found.values()):
            raise ValueError("not a table of algorithms")
    except (OSError, ValueError) as err:
        warnings.warn(f"{path} is ignored: {err}", stacklevel=3)
        return {}
    if not HAS_NUMBA:
        return {key: value for key, value in found.items() if value != "kernel"}
    return found


def _save() -> bool:
    from lemmata_core.files import atomic_write

    path = cache_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(json.dumps(_load() | _measured(), indent=0, sort_keys=True))
    except OSError as err:
        warnings.warn(f"{path} cannot be written: {err}", stacklevel=3)
        return False
    return True


_MEASURED: dict[str, str] = {}
_LOADED: list[bool] = []


def _measured() -> dict[str, str]:
    """Measurements of this process and those kept on disk, which are read at the first use."""
    if not _LOADED:
        _LOADED.append(True)
        _MEASURED.update({**_load(), **_MEASURED})
    return _MEASURED


def tuning_state() -> int:
    """Changes whenever there is a new measurement."""
    return len(_LOADED) + len(_MEASURED)


def is_measured(costs: Costs, batch: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether `autotune` has been here."""
    return _key(costs, batch, dtype, device) in _measured()
