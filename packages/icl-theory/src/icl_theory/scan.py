"""The selective scan of Mamba as a differentiable function, fast on CPUs and usable alone."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import one_of
from torch import Tensor
from torch.nn import functional

from icl_theory.scan_checks import check_shapes, check_states, check_tensors
from icl_theory.scan_torch import two_level

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DISCRETIZATIONS = ("euler", "zoh")
BACKENDS = ("auto", "compiled", "torch")
# Multiplications from which threads pay: a millisecond of work. Torch's workers wait spinning for some milliseconds
# after each of its operations; where they and ours outnumber the cores, only a scan that takes far longer gains.
_THREAD_WORK, _CROWDED_WORK = 1 << 21, 1 << 26
# (k + 1) / (k + 2)!, the series of d phi / dA over delta^2 in powers of delta A.
_SERIES = tuple((k + 1) / math.factorial(k + 2) for k in range(7))


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    h0: Tensor | None = None,
    discretization: str = "euler",
    return_last_state: bool = False,
    backend: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Run h_t = exp(delta_t A) h_(t-1) + b_t u_t, y_t = C_t h_t + D u_t, times silu(z_t).

    Parameters
    ----------
    u, delta : Tensor, shape (batch, length, channels)
        Input and step sizes. Half precision is computed in float32. Any input may be complex; then all is, and the
        result too (complex64 is computed in complex128).
    A : Tensor, shape (channels, states)
    B, C : Tensor, shape (batch, length, states)
    D : Tensor, shape (channels,), optional
        Skip connection.
    z : Tensor, shape (batch, length, channels), optional
        Gate: the result is multiplied by silu(z).
    h0 : Tensor, shape (batch, channels, states), optional
        State before the first step; zero if not given. It receives a gradient.
    discretization : {"euler", "zoh"}
        b_t = delta_t B_t (what Mamba's code does), or b_t = (exp(delta_t A) - 1) / A B_t, the zero-order hold of arXiv
        2510.00399 (and of the Mamba paper).
    return_last_state : bool
        Whether to return the state after the last step too, with gradients: long sequences can be run in chunks.
    backend : {"auto", "compiled", "torch"}
        "compiled": CPU only, nothing of size (batch, length, channels, states) is stored; "torch": any device, a
        two-level scan without divisions. "auto": compiled on the CPU.

    Returns
    -------
    y : Tensor, shape (batch, length, channels)
    last_state : Tensor, shape (batch, channels, states)
        Only with `return_last_state`.

    Raises
    ------
    InvalidInput
        For shapes that do not fit, mixed devices, or an unknown option. NaN is not refused: it propagates.

    Notes
    -----
    Second derivatives need ``backend="torch"``; the compiled one raises a RuntimeError for them.
    """
    _check(u, delta, A, B, C, D, z, h0, discretization, backend)
    compiled = backend == "compiled" or (backend == "auto" and u.device.type == "cpu")
    if compiled and u.device.type != "cpu":
        raise InvalidInput.argument(
            "backend", expected='"torch" for tensors on a device', got=f"{backend!r}, {u.device}"
        )
    out_type, work = _dtypes([t for t in (u, delta, A, B, C, h0) if t is not None], compiled)
    u_, delta_, A_, B_, C_ = (t.to(work) for t in (u, delta, A, B, C))
    batch, channels, states = u.shape[0], A.shape[0], A.shape[1]
    h_ = u_.new_zeros((batch, channels, states)) if h0 is None else h0.to(work)
    zoh = discretization == "zoh"
    if compiled:
        y, last = _CompiledScan.apply(delta_, u_, A_, B_, C_, h_, zoh, torch.is_grad_enabled())
    else:
        y, last = two_level(delta_, u_ if zoh else delta_ * u_, A_, B_, C_, h_, zoh=zoh)
    if D is not None:
        y = y + D.to(y.dtype) * u_ if not D.is_complex() or y.is_complex() else y + D * u_
    if z is not None:
        y = y * functional.silu(z) if not y.is_complex() or z.is_complex() else y * functional.silu(z.to(y.real.dtype))
    y = y.to(out_type) if y.is_complex() == out_type.is_complex else y
    return (y, last.to(out_type)) if return_last_state else y


def _check(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Any,
    z: Any,
    h0: Any,
    discretization: str,
    backend: str,
) -> None:
    one_of(discretization, "discretization", DISCRETIZATIONS)
    one_of(backend, "backend", BACKENDS)
    given = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z, "h0": h0}
    check_tensors(given, frozenset({"D", "z", "h0"}))
    if u.ndim != 3:
        raise InvalidInput.argument("u", expected="shape (batch, length, channels)", got=f"shape {tuple(u.shape)}")
    batch, length, channels = u.shape
    states = check_states(A, channels)
    wanted = {
        "delta": (batch, length, channels),
        "B": (batch, length, states),
        "C": (batch, length, states),
        "D": (channels,),
        "z": (batch, length, channels),
        "h0": (batch, channels, states),
    }
    check_shapes(given, wanted)


def _dtypes(tensors: list[Tensor], compiled: bool) -> tuple[torch.dtype, torch.dtype]:
    """The dtype of the result, and the one to compute in."""
    out = tensors[0].dtype
    for tensor in tensors[1:]:
        out = torch.promote_types(out, tensor.dtype)
    if out in {torch.float16, torch.bfloat16}:
        return out, torch.float32
    if out is torch.complex32 or (compiled and out is torch.complex64):
        return out, torch.complex128 if compiled else torch.complex64
    return out, out


class _CompiledScan(torch.autograd.Function):
    """y and the last state from (delta, u, A, B, C, h0); see scan_kernels for the recurrence.

    Nothing is left to torch's own threads: they wait spinning, and would take the cores that the kernels run on.
    """

    @staticmethod
    def forward(
        ctx: Any, delta: Tensor, u: Tensor, A: Tensor, B: Tensor, C: Tensor, h0: Tensor, zoh: bool, grad: bool
    ) -> tuple[Tensor, Tensor]:
        from icl_theory import scan_kernels

        arrays = _Arrays(delta, u, A, B, C, zoh)
        batch, length = u.shape[:2]
        states, channels = arrays.shape
        blocks = -(-length // scan_kernels.BLOCK) if grad and any(ctx.needs_input_grad) else 0
        h = np.array(arrays.wide(_numpy(h0).swapaxes(1, 2)), order="C", copy=True)
        y = np.zeros((batch, length, channels), arrays.dtype)
        kept = np.empty((batch, blocks, states, channels), arrays.dtype)
        _over_rows(
            batch,
            length * channels * states,
            lambda first, last: scan_kernels.scan_forward(
                first, last, zoh, *arrays.inputs, h, y, kept, np.empty(channels, arrays.dtype)
            ),
        )
        ctx.save_for_backward(delta, u, A, B, C, torch.from_numpy(kept))
        ctx.zoh = zoh
        use = A.shape[0]
        return torch.from_numpy(y)[..., :use], torch.from_numpy(h)[..., :use].transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, gy: Tensor, glast: Tensor) -> tuple[Tensor | None, ...]:
        delta, u, A, B, C, kept = ctx.saved_tensors
        given = (delta, u, A, B, C, gy, glast)
        with torch.no_grad():
            grads = _backward(*given, _numpy(kept), ctx.zoh)
        # Tied to what they depend on, so that a second derivative fails loudly instead of passing for zero.
        return *(_Once.apply(*grads, *given) if torch.is_grad_enabled() else grads), None, None


def _backward(
    delta: Tensor, u: Tensor, A: Tensor, B: Tensor, C: Tensor, gy: Tensor, glast: Tensor, kept: NDArray[Any], zoh: bool
) -> tuple[Tensor, ...]:
    """Gradients of delta, u, A, B, C and h0."""
    from icl_theory import scan_kernels

    arrays = _Arrays(delta, u, A, B, C, zoh)
    batch, length, use = u.shape
    (states, channels), block, dtype = arrays.shape, scan_kernels.BLOCK, arrays.dtype
    gh = np.array(arrays.wide(_numpy(glast).swapaxes(1, 2)), order="C", copy=True)
    gdelta, gu = np.zeros((2, batch, length, channels), dtype)
    gA = np.zeros((batch, states, channels), dtype)
    gB, gC = np.zeros((2, batch, length, states), dtype)
    out = arrays.wide(_numpy(gy))
    real = np.zeros(0, dtype).real.dtype.type
    small = real(0.3 if real is np.float32 else 0.05)
    series = np.array(_SERIES, dtype)

    def run(first: int, last: int) -> None:
        rows = np.empty((2, channels), dtype)
        scratch = [np.empty((n, states, channels), dtype) for n in (block + 1, block, block if zoh else 0)]
        scan_kernels.scan_backward(
            first, last, zoh, dtype.type(0), small, series, *arrays.inputs, kept, out, gh, gdelta, gu, gA, gB, gC,
            *rows, *scratch,
        )  # fmt: skip

    _over_rows(batch, length * channels * states, run)
    gdelta, gu, gA, gh = (g[..., :use] for g in (gdelta, gu, gA, gh))
    grads = (gdelta, gu, gA.sum(0).T, gB, gC, gh.swapaxes(1, 2))
    return tuple(torch.from_numpy(np.ascontiguousarray(g)) for g in grads)


class _Once(torch.autograd.Function):
    """Hands on the first six of its arguments; differentiating them is an error."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG004
        return tuple(t.view_as(t) for t in args[:6])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: ARG004
        raise RuntimeError('second derivatives of selective_scan need backend="torch"')


class _Arrays:
    """The kernels' input arrays: contiguous, one dtype, A as (states, channels).

    Channels are filled up to whole vectors where that adds less than it saves: the scalar rest of a loop over 31
    channels takes six times as long as the loop over 16 of them.
    """

    def __init__(self, delta: Tensor, u: Tensor, A: Tensor, B: Tensor, C: Tensor, zoh: bool) -> None:
        lanes = {torch.float32: 16, torch.float64: 8}.get(u.dtype, 1)
        self.fill = -A.shape[0] % lanes if 2 * A.shape[0] > lanes else 0
        At = np.ascontiguousarray(_numpy(A).T)
        if self.fill:
            At = np.concatenate([At, np.full((len(At), self.fill), -1, At.dtype)], 1)
        inverse = At
        if zoh:
            # A = 0 has the limit phi = delta, which a tiny A reaches to rounding.
            tiny = 1e-20 if At.dtype == np.float32 else 1e-150
            At = np.where(np.abs(At) < tiny, At.dtype.type(-tiny), At)
            inverse = 1 / At
        else:
            inverse = np.empty((0, 0), At.dtype)
        self.dtype = At.dtype
        self.shape = At.shape
        self.inputs = (self.wide(_numpy(delta)), self.wide(_numpy(u)), At, inverse, _numpy(B), _numpy(C))

    def wide(self, array: NDArray[Any]) -> NDArray[Any]:
        """Fill the last axis up with channels of zeros."""
        if not self.fill:
            return array
        return np.concatenate([array, np.zeros((*array.shape[:-1], self.fill), array.dtype)], -1)


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().resolve_conj().contiguous().numpy()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="icl-scan")


def _parts(batch: int, work: int) -> int:
    """Threads for a scan of so many rows and multiplications: torch's number of them, or one."""
    threads = torch.get_num_threads()
    crowded = 2 * threads - 1 > (os.cpu_count() or 1)
    return min(threads, batch) if work >= (_CROWDED_WORK if crowded else _THREAD_WORK) else 1


def _over_rows(batch: int, work: int, run: Callable[[int, int], None]) -> None:
    """Call ``run(first, last)`` on parts of the batch, one for each of torch's threads: the kernels drop the lock."""
    parts = _parts(batch, batch * work)
    if parts <= 1:
        run(0, batch)
        return
    edges = [batch * i // parts for i in range(parts + 1)]
    futures = [_pool(parts - 1).submit(run, a, b) for a, b in pairwise(edges[1:])]
    run(edges[0], edges[1])
    for future in futures:
        future.result()
