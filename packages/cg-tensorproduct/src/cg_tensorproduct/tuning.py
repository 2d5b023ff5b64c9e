"""Which algorithm: the cost model first, measurement where asked for, and a cache of measurements on disk."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.costs import Costs, modelled
from cg_tensorproduct.inputs import FLOATS
from cg_tensorproduct.paths import Problem
from cg_tensorproduct.plans import HAS_NUMBA

if TYPE_CHECKING:
    from cg_tensorproduct.full import FullTensorProduct
    from cg_tensorproduct.tensor_product import TensorProduct

BUDGET_SECONDS = 0.05  # of one `autotune`, shared by its candidates; three calls of each are made in any case
MOST_CANDIDATES = 3
# A compiled graph serves every batch (its size may be a symbol, and a choice between algorithms cannot depend on that).
COMPILED_BATCH = 64
NAMES = ("dense", "blocked", "kernel", "torch")


@dataclass(frozen=True)
class Tunable:
    """What `autotune` has to know about a module.

    Attributes
    ----------
    key : str
        Names the problem in the cache.
    expected : dict of str to float
        Modelled seconds by algorithm; only their order matters.
    shapes : tuple of tuple of int
        Of the inputs.
    run : callable
        ``run(name, *inputs)``.
    """

    key: str
    expected: dict[str, float]
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., torch.Tensor]


def pick(
    costs: Costs,
    batch: int,
    dtype: torch.dtype,
    device: torch.device,
    *,
    native: bool,
    measured: bool,
    backward: bool = False,
) -> str:
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
    backward : bool
        Whether gradients will be asked for.
    """
    if measured and not torch.compiler.is_compiling():
        found = measurement(costs.key, batch, dtype, device, backward=backward)
        if found is not None and (native or found != "kernel"):
            return found
    seconds = modelled(costs, batch, dtype, device, backward=backward)
    if not native:
        seconds.pop("kernel", None)
    return min(seconds, key=lambda name: seconds[name])


def measurement(key: str, batch: int, dtype: torch.dtype, device: torch.device, *, backward: bool) -> str | None:
    """What `autotune` found for a problem; a measurement without gradients stands in for one with, and conversely."""
    known = _measured()
    for flag in (backward, not backward):
        found = known.get(_key(key, batch, dtype, device, backward=flag))
        if found is not None:
            return found
    return None


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

    Raises
    ------
    InvalidInput
        If an argument is none of these.
    """
    from cg_tensorproduct.full import FullTensorProduct
    from cg_tensorproduct.inputs import check_options

    if not isinstance(plan, (FullTensorProduct, Problem)):
        raise InvalidInput.argument("plan", expected="a FullTensorProduct", got=type(plan).__name__)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 0:
        raise InvalidInput.argument("batch", expected="an integer >= 0", got=batch)
    _, place = check_options(dtype, device)
    costs = Costs.of(plan) if isinstance(plan, Problem) else plan._costs
    measured = isinstance(plan, Problem) or not plan.deterministic
    return pick(costs, batch, dtype, place or torch.device("cpu"), native=True, measured=measured)


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
    module: FullTensorProduct | TensorProduct,
    batch: int,
    *,
    backward: bool = True,
    cache: bool = True,
    dtype: torch.dtype | None = None,
) -> AutotuneReport:
    """Time the likely algorithms of a product and let "auto" use the fastest from now on.

    Parameters
    ----------
    module : FullTensorProduct or TensorProduct
        Of a weighted product the candidates are "kernel" (native where there is native code) and "torch".
    batch : int
        Measured at the power of two at or above it; the result holds for that bucket, for this number of threads, and
        for calls with (or without) gradients.
    backward : bool
        Time forward and backward together.
    cache : bool
        Keep the result for later processes (a JSON file in the platform's cache directory).
    dtype : optional
        float32 if left out.

    Returns
    -------
    AutotuneReport

    Raises
    ------
    InvalidInput
        If `module` is no such product, `batch` no integer >= 1 or `dtype` no floating one.
    KeyboardInterrupt
        When interrupted; what was measured so far is printed on stderr, and the cache stays as it was.
    """
    if not hasattr(module, "_tunable"):
        raise InvalidInput.argument("module", expected="a product that has algorithms", got=type(module).__name__)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidInput.argument("batch", expected="an integer >= 1", got=batch)
    for name, flag in (("backward", backward), ("cache", cache)):
        if not isinstance(flag, bool):
            raise InvalidInput.argument(name, expected="True or False", got=flag)
    if dtype is not None and dtype not in FLOATS:
        raise InvalidInput.argument("dtype", expected="a floating torch.dtype", got=repr(dtype))
    dtype = dtype or torch.float32
    device = module.get_buffer("output_mask").device
    bucket = _bucket(batch)
    subject = module._tunable(bucket, dtype, device)
    order = sorted(subject.expected, key=lambda name: subject.expected[name])[:MOST_CANDIDATES]
    seconds: dict[str, float] = {}
    try:
        for name in order:
            seconds[name] = _time(subject, name, dtype, device, BUDGET_SECONDS / len(order), backward=backward)
    except KeyboardInterrupt:
        table = ", ".join(f"{name} {value * 1e3:.3g} ms" for name, value in seconds.items()) or "nothing yet"
        print(f"interrupted; measured: {table}", file=sys.stderr)  # noqa: T201
        raise
    choice = min(seconds, key=lambda name: seconds[name])
    _measured()[_key(subject.key, bucket, dtype, device, backward=backward)] = choice
    return AutotuneReport(choice, seconds, order[0], bucket, cache and _save())


def _time(
    subject: Tunable, name: str, dtype: torch.dtype, device: torch.device, budget: float, *, backward: bool
) -> float:
    generator = torch.Generator().manual_seed(0)
    times: list[float] = []
    # the caller may be in inference mode or without gradients
    with torch.inference_mode(False), torch.set_grad_enabled(backward):
        inputs = [
            torch.randn(shape, generator=generator).to(device=device, dtype=dtype).requires_grad_(backward)
            for shape in subject.shapes
        ]
        for repeat in range(50):
            start = time.perf_counter()
            z = subject.run(name, *inputs)
            if backward:
                torch.autograd.grad(z, inputs, torch.ones_like(z), allow_unused=True)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if repeat:
                times.append(time.perf_counter() - start)
            if sum(times) > budget and len(times) >= 3:
                break
    return sorted(times)[len(times) // 2]


def _bucket(batch: int) -> int:
    return 1 << max(0, batch - 1).bit_length()


def _key(problem: str, batch: int, dtype: torch.dtype, device: torch.device, *, backward: bool) -> str:
    where = f"cpu|{torch.get_num_threads()}" if device.type == "cpu" else _device_name(device)
    return f"{problem}|{_bucket(batch)}|{dtype}|{where}|{'gradients' if backward else 'forward'}"


@lru_cache(maxsize=32)
def _device_name(device: torch.device) -> str:
    if device.type == "cuda" and torch.cuda.is_available():
        return f"cuda|{torch.cuda.get_device_name(device)}"
    return device.type


@lru_cache(maxsize=1)
def _processor() -> str:
    name = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux: the platform's word has to do
    return "".join(c if c.isalnum() else "-" for c in f"{platform.machine()}-{name}")


def cache_path() -> Path:
    """The file that keeps measurements, one for each version of this package and of torch, and processor."""
    if os.environ.get("CG_TENSORPRODUCT_CACHE"):
        base = Path(os.environ["CG_TENSORPRODUCT_CACHE"])
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "cg-tensorproduct"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "cg-tensorproduct"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "cg-tensorproduct"
    version = metadata.version("cg-tensorproduct")
    return base / f"autotune-{version}-torch-{torch.__version__}-{_processor()}.json"


def _load() -> dict[str, str]:
    path = cache_path()
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not all(value in NAMES for value in found.values()):
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


def wants_tuning() -> bool:
    """Whether the environment asks for measurements on first calls."""
    return os.environ.get("CG_TENSORPRODUCT_AUTOTUNE") == "1"


def tune_once(module: Any, key: str, batch: int, dtype: torch.dtype, device: torch.device, *, backward: bool) -> None:
    """Measure if the environment asks for it and nobody has."""
    from cg_tensorproduct.ops import transforms_active

    if batch == 0 or not wants_tuning() or transforms_active():
        return
    if measurement(key, batch, dtype, device, backward=backward) is None:
        autotune(module, batch, backward=backward, dtype=dtype)
