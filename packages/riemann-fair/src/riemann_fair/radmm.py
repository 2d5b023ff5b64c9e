r"""The paper's Riemannian ADMM with variable splitting, and the relaxed fairness that the splitting allows.

Minimise ``tr(H^T L H)`` over orthonormal H with ``H = Y``, Y in the fair set (scaled dual U, penalty alpha):

    H <- argmin over St(n, k) of tr(H^T L H) + (alpha/2) ||H - Y + U||_F^2     (Riemannian CG from the last H)
    Y <- projection of H + U on the fair set
    U <- U + H - Y

The fair set is ``{Y : C^T Y = 0}``, or ``{Y : ||Q^T Y||_F <= delta}`` with ``tolerance=delta``.
Source: "Riemannian Optimization for Fair Spectral Clustering" (ICML 2026), constants from its reference implementation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from lemmata_core import check

from riemann_fair.laplacian import Operator
from riemann_fair.radmm_steps import armijo_steps, curve_steps
from riemann_fair.retraction import polar, qr_retraction

OUTER, PATIENT_OUTER, PATIENT_UP_TO = 60, 300, 1000
INNER_CAP = 20
History = list[dict[str, Any]]
Callback = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class RADMMParams:
    """Constants of the Riemannian ADMM.

    Attributes
    ----------
    alpha0 : float
        First penalty; the spectrum of L is in [0, 2], so 1 is its scale.
    tau, mu : float
        The penalty is multiplied or divided by tau when one residual exceeds mu times the other.
    max_outer : int or None
        Outer iterations at most; None: 60, and 300 for full fairness on up to 1,000 nodes, where small gaps can
        make the last digits slow and a step costs next to nothing.
    eps_pri, eps_fair : float
        Stop when ``||H - Y||_F`` and ``||Q^T H||_F`` are below these.
    inner : int
        Steps of Riemannian CG an outer iteration.
    grad_tol : float
        The inner loop ends below this norm of the Riemannian gradient (raised to what the dtype can reach).
    beta : {"PR+", "FR"}
        Polak-Ribiere with restart, or Fletcher-Reeves.
    line_search : {"curve", "armijo"}
        "curve": along the polar retraction, one product a step whatever the search does; "armijo": backtracking with
        one product a trial, as published.
    retraction : {"polar", "qr"}
        Used by "armijo".
    rescale_dual : bool
        ``U <- U alpha_old / alpha_new`` when alpha changes, as the scaled form of ADMM asks.
    late_stall : bool
        From outer iteration 16 on, every 4th: if the primal residual is above 0.3, double `inner` (20 at most).
    polish : bool
        Hand back the fair, orthonormal block nearest to H instead of H itself.
    time_limit : float or None
        Seconds.
    """

    alpha0: float = 1.0
    tau: float = 2.0
    mu: float = 10.0
    max_outer: int | None = None
    eps_pri: float = 1e-4
    eps_fair: float = 1e-4
    inner: int = 3
    grad_tol: float = 1e-5
    beta: str = "PR+"
    line_search: str = "curve"
    retraction: str = "polar"
    rescale_dual: bool = True
    late_stall: bool = True
    polish: bool = True
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check.in_range(self.alpha0, "alpha0", 0, low_open=True)
        check.in_range(self.tau, "tau", 1, low_open=True)
        check.in_range(self.mu, "mu", 1)
        if self.max_outer is not None:
            check.positive_int(self.max_outer, "max_outer")
        check.positive_int(self.inner, "inner")
        for name in ("eps_pri", "eps_fair", "grad_tol"):
            check.in_range(getattr(self, name), name, 0)
        check.one_of(self.beta, "beta", ("PR+", "FR"))
        check.one_of(self.line_search, "line_search", ("curve", "armijo"))
        check.one_of(self.retraction, "retraction", ("polar", "qr"))
        if self.time_limit is not None:
            check.in_range(self.time_limit, "time_limit", 0)

    @classmethod
    def paper(cls) -> RADMMParams:
        """The published constants, as the reference implementation's experiments set them."""
        return cls(
            alpha0=5e-3,
            max_outer=30,
            inner=200,
            beta="FR",
            line_search="armijo",
            retraction="qr",
            rescale_dual=False,
            late_stall=False,
            polish=False,
        )


@dataclass
class RADMMState:
    """Where a run ended: enough to start the next one from."""

    H: np.ndarray
    Y: np.ndarray
    U: np.ndarray
    alpha: float
    status: str
    n_iter: int
    n_products: int
    history: History
    LH: np.ndarray | None = None


def radmm(
    op: Operator,
    k: int,
    params: RADMMParams,
    *,
    delta: float = 0.0,
    dtype: Any = np.float64,
    rng: np.random.Generator,
    start: RADMMState | np.ndarray | None = None,
    callback: Callback | None = None,
) -> RADMMState:
    """Run the ADMM.

    Parameters
    ----------
    op : Operator
    k : int
        Columns of H, the trivial vector among them.
    params : RADMMParams
    delta : float
        Allowed violation ``||Q^T H||_F``; 0: none.
    dtype : dtype
        float32 or float64 for the iterates.
    rng : numpy.random.Generator
        Draws the first H (QR of a Gaussian).
    start : RADMMState or ndarray of shape (n, k), optional
        Warm start.
    callback : callable, optional
        Called with each outer iteration's record; a true answer stops with status "stopped".

    Returns
    -------
    RADMMState
    """
    began = time.perf_counter()
    state = _first_state(op, k, params, delta, np.dtype(dtype), rng, start)
    inner, best_gradient = params.inner, np.inf
    step_memory: list[float] = [0.5, 0]
    patient = delta == 0 and op.n <= PATIENT_UP_TO
    for outer in range(1, (params.max_outer or (PATIENT_OUTER if patient else OUTER)) + 1):
        minimise = curve_steps if params.line_search == "curve" else armijo_steps
        B = state.Y - state.U
        found = minimise(op, state.H, state.LH, B, state.alpha, inner, params, step_memory)
        state.H, state.LH, used, best_gradient = found
        state.n_products += used
        last = state.Y
        state.Y = fair_projection(op, state.H + state.U, delta)
        state.U = state.U + state.H - state.Y
        r = float(np.linalg.norm(state.H - state.Y))
        s = float(state.alpha * np.linalg.norm(state.Y - last))
        f = op.space.violation(state.H)
        objective = float(np.sum(state.H * state.LH, dtype=np.float64))
        seconds = time.perf_counter() - began
        record = {
            "outer": outer, "objective": objective, "r": r, "s": s, "f": f, "alpha": state.alpha,
            "products": state.n_products, "seconds": seconds,
        }  # fmt: skip
        state.history.append(record)
        state.n_iter = outer
        done = r < params.eps_pri and f < delta + params.eps_fair
        if delta > 0 or not op.space.rank:
            # An inactive or void constraint gives r = 0 at once: the plain optimum must still be reached.
            done = done and s <= params.eps_pri and best_gradient <= max(params.grad_tol, 1e-4)
        if done:
            state.status = "converged"
            return state
        if callback is not None and callback(record):
            state.status = "stopped"
            return state
        if params.time_limit is not None and seconds > params.time_limit:
            state.status = "time_limit"
            return state
        _adapt(state, r, s, params)
        if params.late_stall and outer >= 16 and outer % 4 == 0 and r > 0.3:
            inner = min(2 * inner, INNER_CAP)
        if params.late_stall and outer >= 24 and outer % 12 == 0 and _cycles(state.history):
            # The iteration can circle for good, around a relaxed set and on small graphs; a stiffer penalty ends that.
            inner = min(2 * inner, INNER_CAP)
            _set_alpha(state, 2.0, params)
    return state


def _first_state(
    op: Operator,
    k: int,
    params: RADMMParams,
    delta: float,
    dtype: np.dtype[Any],
    rng: np.random.Generator,
    start: RADMMState | np.ndarray | None,
) -> RADMMState:
    if isinstance(start, RADMMState):
        return RADMMState(start.H, start.Y, start.U, start.alpha, "max_iter", 0, 0, [])
    H = qr_retraction(rng.standard_normal((op.n, k)) if start is None else start.astype(np.float64)).astype(dtype)
    return RADMMState(H, fair_projection(op, H, delta), np.zeros_like(H), params.alpha0, "max_iter", 0, 0, [])


def fair_projection(op: Operator, V: np.ndarray, delta: float) -> np.ndarray:
    """The nearest Y with ``||Q^T Y||_F <= delta``."""
    normal = op.space.normal_part(V).astype(V.dtype, copy=False) if op.space.rank else np.zeros_like(V)
    size = float(np.linalg.norm(normal))
    share = 0.0 if size == 0 else 1 - min(1.0, delta / size)
    return np.asarray(V - V.dtype.type(share) * normal)


def _adapt(state: RADMMState, r: float, s: float, params: RADMMParams) -> None:
    _set_alpha(state, params.tau if r > params.mu * s else 1 / params.tau if s > params.mu * r else 1.0, params)


def _cycles(history: History) -> bool:
    """Whether the last 12 outer iterations did not halve a primal residual that is still large."""
    last, before = (min(h["r"] for h in part) for part in (history[-12:], history[-24:-12]))
    return bool(last > 1e-2 and last > before / 2)


def _set_alpha(state: RADMMState, factor: float, params: RADMMParams) -> None:
    state.alpha *= factor
    if params.rescale_dual and factor != 1:
        state.U = state.U * state.U.dtype.type(1 / factor)


def pull_inside(op: Operator, H: np.ndarray, delta: float) -> np.ndarray:
    """An orthonormal block near H with ``||Q^T H||_F <= delta``; for delta = 0 the exact fair one."""
    X = H.astype(np.float64)
    for _ in range(50):
        if op.space.violation(X) <= delta + 1e-12:
            break
        X = polar(fair_projection(op, X, delta * (1 - 1e-9)))
    return polar(X)
